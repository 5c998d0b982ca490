// What an agent has to get right, one scenario each.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../src/kernel/db.ts'
import { Poll } from '../src/protocol/poll.schema.ts'
import { RIVAL_AGENT_ID, type ScenarioContext, sha256 } from './scenario-context.ts'

export type Scenario = { name: string; run: (stage: ScenarioContext) => Promise<void> }
const LEASE_MS = 61_000

function assert(condition: unknown, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise)
}
const listPolls = (stage: ScenarioContext) => stage.exchanges('/poll')
const listFencedExchanges = (stage: ScenarioContext) =>
  stage.exchanges().filter(one => one.response?.code === 'fence_stale')

/** Somebody else takes the lease, as soon as it has run out. */
async function takeLease({ plane, listener_key, waitFor }: ScenarioContext): Promise<number> {
  const headers = { 'X-Api-Key': listener_key, 'Content-Type': 'application/json' }
  const { public_key } = Poll.meta()!.example as { public_key: string }
  const body = JSON.stringify({ agent_id: RIVAL_AGENT_ID, public_key })
  return waitFor('another agent gets the lease that ran out', async () => {
    plane.clock.ahead += LEASE_MS
    const answer = await fetch(`${plane.url}/v1/sync/poll`, { method: 'POST', headers, body })
    return answer.status === 200 && ((await answer.json()) as { lease: { fence: number } }).lease.fence
  })
}

/** Cursor and digest are what the control plane gave, so the answer is empty. */
const waitUntilSettled = (stage: ScenarioContext) =>
  stage.waitFor('a poll brings the digest of what is wanted, and gets nothing', () => {
    const last = listPolls(stage).at(-1)
    const { request: asked, response: answered, status } = last ?? {}
    return (
      status === 200 && asked.digest === answered.digest && asked.cursor === answered.cursor && !answered.resync && last
    )
  })

/** One that serves a deployment, and another one that has been told to wait. */
async function startTwoAgents(stage: ScenarioContext) {
  const first = await stage.start('first')
  const before = await stage.deploy()
  await stage.served(before.id)
  await stage.start('second')
  await stage.waitFor('the second is told to wait', () =>
    listPolls(stage).some(one => one.response?.code === 'lease_held'),
  )
  return { first, before }
}

export const scenarios: Scenario[] = [
  {
    name: 'takes work and reports it deployed',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      await stage.served(id)
    },
  },
  {
    name: 'opens what is sealed to it, and sends the log',
    async run(stage) {
      await stage.start()
      const { id, token } = await stage.deploy()
      await stage.served(id)
      const wanted = `kit-secret ${sha256(token)}`
      await stage.waitFor('the application’s first line, which tells its secret’s digest, is in the log', async () => {
        const { body } = await stage.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
        return body.logs.some((line: { message: string }) => line.message.includes(wanted))
      })
      assert(!JSON.stringify(stage.exchanges()).includes(token), 'The secret’s value was sent in the clear.')
    },
  },
  {
    name: 'brings a new revision beside the old, which serves until then',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      const first = await stage.served(id)
      await stage.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      const second = await stage.served(id)
      assert(first.active_revision_id !== second.active_revision_id, 'The same revision serves.')
      const [newest, old] = await stage.revisions(id)
      assert(newest.status === 'DEPLOYED' && old.status === 'DEPLOYED', 'A revision ended otherwise.')
    },
  },
  {
    name: 'stops a build that is interrupted, and says so',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      const { active_revision_id } = await stage.served(id)
      await stage.patch(id, { source_config: { build_command: 'sleep 30' } })
      const revision = await stage.waitFor('the build has begun', async () => {
        const [newest] = await stage.revisions(id)
        return newest.status === 'BUILDING' && newest
      })
      await stage.call('POST', `/v2/deployments/${id}/revisions/${revision.id}/interruption`)
      await stage.waitFor('the interruption is acknowledged', () => stage.reconciled(id))
      assert((await stage.read(id)).active_revision_id === active_revision_id, 'The old revision serves no more.')
      assert((await stage.revisions(id))[0].status === 'INTERRUPTED', 'The revision is not INTERRUPTED.')
    },
  },
  {
    name: 'removes what is wanted no more',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      await stage.served(id)
      await stage.call('DELETE', `/v2/deployments/${id}`)
      await stage.waitFor(
        'the deployment is gone',
        async () => (await stage.call('GET', `/v2/deployments/${id}`)).status === 404,
      )
      await waitUntilSettled(stage)
    },
  },
  {
    name: 'sends the right digest, and is answered with nothing',
    async run(stage) {
      await stage.start()
      for (const { id } of [await stage.deploy(), await stage.deploy()]) await stage.served(id)
      await waitUntilSettled(stage)
    },
  },
  {
    name: 'takes everything again when its digest is not the control plane’s, and drops what is not named',
    async run(stage) {
      await stage.start()
      const [kept, lost] = [await stage.deploy(), await stage.deploy()]
      for (const { id } of [kept, lost]) await stage.served(id)
      await waitUntilSettled(stage)
      // As if the database had been set back: gone, and no change that says so.
      const listener = sql`select set_config('app.listener_id', listener_id::text, true) from deployments where id = ${lost.id}::uuid`
      await runAsSystem(stage.plane.database, listener, sql`delete from deployments where id = ${lost.id}::uuid`)
      await stage.waitFor('everything is taken again', () =>
        listPolls(stage).some(one => one.request.cursor !== null && one.response?.resync),
      )
      await waitUntilSettled(stage)
      await stage.patch(kept.id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await stage.served(kept.id)
    },
  },
  {
    name: 'stops acting when it is fenced off, and asks for a new lease',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      await stage.served(id)
      await waitUntilSettled(stage)
      const fence = await takeLease(stage)
      await stage.waitFor('the agent learns that it is fenced off', () => listFencedExchanges(stage).length > 0)
      // Requests that it sent before it read the refusal may still arrive. The next poll shows that it has read it.
      const told = listFencedExchanges(stage)[0]!.arrival
      const { arrival } = await stage.waitFor('it polls without its old fence', () =>
        listPolls(stage).find(one => one.arrival > told && one.request.fence == null),
      )
      await stage.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await delay(1500)
      const later = stage.exchanges().filter(one => one.arrival > arrival)
      assert(
        later.every(one => one.path.endsWith('/poll')),
        'It reports though it was told to stop.',
      )
      assert(
        later.every(one => one.request.fence == null || one.request.fence >= fence),
        'It goes on using its old fence.',
      )
      stage.plane.clock.ahead += LEASE_MS
      await stage.served(id)
    },
  },
  {
    name: 'repeats what was not answered, and nothing is doubled',
    async run(stage) {
      await stage.start()
      const { id } = await stage.deploy()
      await stage.served(id)
      const { cut } = stage.plane
      Object.assign(cut, { key: stage.listener_key, left: 6, done: 0 })
      await stage.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await stage.served(id)
      await stage.waitFor('every cut has happened', () => cut.left === 0)
      await stage.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await stage.served(id)
      await waitUntilSettled(stage)
      const all = await stage.revisions(id)
      assert(
        all.slice(0, -1).every((one: { status: string }) => one.status === 'DEPLOYED'),
        'A revision ended otherwise.',
      )
    },
  },
  {
    name: 'goes on after it was killed',
    async run(stage) {
      const agent = await stage.start()
      const { id } = await stage.deploy()
      await stage.waitFor('it has begun', async () => stage.exchanges('/report').length > 0)
      await agent.kill()
      // Its lease may have to run out, where it does not come back under its own name.
      stage.plane.clock.ahead += LEASE_MS
      await stage.start()
      await stage.served(id)
      await waitUntilSettled(stage)
    },
  },
  {
    name: 'of two, one works and the other waits until it is gone',
    async run(stage) {
      const { first, before } = await startTwoAgents(stage)
      const held = stage.exchanges().findIndex(one => one.response?.code === 'lease_held')
      await delay(1000)
      const names = new Set(stage.exchanges('/report').map(one => one.request.agent_id))
      assert(names.size === 1, 'Both of them report.')
      assert(held >= 0 && listFencedExchanges(stage).length === 0, 'The second took the lease of the first.')
      await first.kill()
      stage.plane.clock.ahead += LEASE_MS
      const after = await stage.deploy()
      await stage.served(after.id)
      await stage.served(before.id)
      // Whoever comes back waits in its turn; and what the killed one left running has an agent that ends it.
      const waits = () => stage.exchanges().filter(one => one.response?.code === 'lease_held').length
      const waited = waits()
      await stage.start('first')
      await stage.waitFor('the first, started again, is told to wait', () => waits() > waited)
    },
  },
  {
    name: 'makes way when it is ended',
    async run(stage) {
      const { first, before } = await startTwoAgents(stage)
      await first.end()
      const all = stage.exchanges()
      const given = all.findIndex(one => one.path.endsWith('/release') && one.status === 204)
      const { agent_id } = all[given]?.request ?? {}
      const acted = all.slice(given + 1).some(one => one.request.agent_id === agent_id && one.status === 200)
      assert(given < 0 || !acted, 'It acts though it has given its lease back.')
      // It may be given back, and otherwise runs out.
      if (given < 0) stage.plane.clock.ahead += LEASE_MS
      const after = await stage.deploy()
      await stage.served(after.id)
      await stage.served(before.id)
    },
  },
]
