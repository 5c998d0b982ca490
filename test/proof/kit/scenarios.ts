// The duties of an agent, one scenario each.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { createTraceKey } from '../../../src/kernel/crypto/trace-keys.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { Poll } from '../../../src/protocol/poll.schema.ts'
import type { Report } from '../../../src/protocol/report.schema.ts'
import type { Exchange } from './control-plane.ts'
import { lookAtRepository } from './repository-looks.ts'
import { RIVAL_AGENT_ID, type ScenarioContext, sha256 } from './scenario-context.ts'

export type Scenario = { name: string; run: (context: ScenarioContext) => Promise<void> }
const LEASE_MS = 61_000

function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message)
}
const listPolls = (context: ScenarioContext) => context.exchanges('/poll')
const listFencedExchanges = (context: ScenarioContext) =>
  context.exchanges().filter(one => one.response?.code === 'fence_stale')

const hasRemoved = ({ request }: Exchange, id: string) =>
  request.reports.some((one: Report) => one.deployment_id === id && one.state === 'removed')

/** Polls as another agent, once the lease has expired. */
async function takeLease({ plane, listener_key, waitFor }: ScenarioContext): Promise<number> {
  const headers = { 'X-Api-Key': listener_key, 'Content-Type': 'application/json' }
  const { public_key } = Poll.meta()!.example as { public_key: string }
  const body = JSON.stringify({ agent_id: RIVAL_AGENT_ID, public_key })
  return waitFor('another agent gets the expired lease', async () => {
    plane.clock.ahead += LEASE_MS
    const answer = await fetch(`${plane.url}/v1/sync/poll`, { method: 'POST', headers, body })
    return answer.status === 200 && ((await answer.json()) as { lease: { fence: number } }).lease.fence
  })
}

const waitUntilSettled = (context: ScenarioContext) =>
  context.waitFor('a poll has the control plane’s digest and cursor, and gets an empty answer', () => {
    const last = listPolls(context).at(-1)
    const { request, response, status } = last ?? {}
    return (
      status === 200 &&
      request.digest === response.digest &&
      request.cursor === response.cursor &&
      !response.resync &&
      last
    )
  })

/** The first serves a deployment, the second waits for the lease. */
async function startTwoAgents(context: ScenarioContext) {
  const first = await context.start('first')
  const before = await context.deploy()
  await context.waitUntilServing(before.id)
  await context.start('second')
  await context.waitFor('the second agent is refused the lease', () =>
    listPolls(context).some(one => one.response?.code === 'lease_held'),
  )
  return { first, before }
}

export const scenarios: Scenario[] = [
  {
    name: 'takes work and reports it deployed',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
    },
  },
  {
    name: 'opens sealed secrets and ships logs',
    async run(context) {
      await context.start()
      const { id, token } = await context.deploy()
      await context.waitUntilServing(id)
      const firstLine = `kit-secret ${sha256(token)}`
      await context.waitFor('the application’s first log line, the digest of its secret, is in the log', async () => {
        const { body } = await context.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
        return body.logs.some((line: { message: string }) => line.message.includes(firstLine))
      })
      assert(
        !JSON.stringify(context.exchanges()).includes(token),
        'The agent sent the value of the secret in the clear.',
      )
    },
  },
  {
    name: 'gives the application what it traces itself with',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      const key = await createTraceKey({ sealingKeys: context.plane.sealingKeys }, { deployment_id: id, version: 1 })
      await context.waitFor(
        'the application’s second log line, the digest of its trace key, is in the log',
        async () => {
          const { body } = await context.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
          return body.logs.some((line: { message: string }) => line.message.includes(`kit-tracing ${sha256(key)}`))
        },
      )
      assert(!JSON.stringify(context.exchanges()).includes(key), 'The agent sent the trace key in the clear.')
    },
  },
  {
    name: 'gives the application its token for models, if it requests any',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      if (context.exchanges('/model-tokens').length === 0) return
      await context.waitFor('a log line of the application names the owner of its token', async () => {
        const { body } = await context.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
        return body.logs.some((line: { message: string }) => line.message.includes(`kit-models ${id}`))
      })
    },
  },
  {
    name: 'sends requests as lines of the log, without their queries, if it sees them',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      if (!listPolls(context).some(({ request }) => request.policy?.features?.includes('request_logs'))) return
      await context.call('PUT', `/v2/deployments/${id}/request-logs`, { mode: 'all' })
      const { body: deployment } = await context.call('GET', `/v2/deployments/${id}`)
      const address = `${deployment.local_url ?? deployment.url}/kit-request?hidden=1`
      await context.waitFor('a request is a line with its path, status and ids', async () => {
        await fetch(address).catch(() => undefined)
        const { body } = await context.call('GET', `/v2/deployments/${id}/logs?kind=request`)
        return body.logs.some(
          ({ attributes }: { attributes?: Record<string, unknown> }) =>
            attributes?.path === '/kit-request' && attributes.status !== undefined && attributes.trace_id !== undefined,
        )
      })
      assert(!JSON.stringify(context.exchanges('/logs')).includes('hidden=1'), 'The agent sent the query of a request.')
    },
  },
  {
    name: 'names the host of the custom URL in what it reports of it, if it reports any',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      const host = `${randomUUID()}.example.com`
      await context.patch(id, { source_config: { custom_url: host } })
      await context.waitUntilServing(id)
      const reported = context
        .exchanges('/report')
        .flatMap(({ request }) => request.reports as Report[])
        .flatMap(({ custom_host }) => custom_host ?? [])
      assert(
        reported.every(one => one.host === host),
        'The agent reported a host that is not that of the custom URL.',
      )
      const { body } = await context.call('GET', '/v2/custom-hosts')
      const [stored] = body.resources.filter((one: { host: string }) => one.host === host)
      const isLost = reported.at(-1)?.leads_here === false
      assert(isLost === (stored.unreachable_since !== null), 'The host is not what the agent reported of it.')
    },
  },
  {
    name: 'asks before it starts a job, and reports its end, if it runs jobs',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      if (!listPolls(context).some(({ request }) => request.policy?.jobs)) return
      const path = `/v2/deployments/${id}/jobs`
      const { body: job } = await context.call('POST', path, { command: 'exit 3' })
      await context.waitFor('the job is FAILED with the exit code 3', async () => {
        const { body } = await context.call('GET', `${path}/${job.id}`)
        return body.status === 'FAILED' && body.exit_code === 3
      })
      const states = context
        .exchanges('/jobs')
        .flatMap(({ request, status }) => (status === 200 ? request.reports : []))
        .filter(({ job_id }: { job_id: string }) => job_id === job.id)
        .map(({ state }: { state: string }) => state)
      assert(states[0] === 'running', 'The job was started before `running` was accepted.')
    },
  },
  { name: 'lists the refs of repositories by SSH, and pins their hosts, if it can', run: lookAtRepository },
  {
    name: 'starts a new revision while the old one serves',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      const first = await context.waitUntilServing(id)
      await context.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      const second = await context.waitUntilServing(id)
      assert(first.active_revision_id !== second.active_revision_id, 'The old revision still serves.')
      const [newest, old] = await context.revisions(id)
      assert(newest.status === 'DEPLOYED' && old.status === 'DEPLOYED', 'A revision is not DEPLOYED.')
    },
  },
  {
    name: 'stops an interrupted build and reports it',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      const { active_revision_id } = await context.waitUntilServing(id)
      await context.patch(id, { source_config: { build_command: 'sleep 30' } })
      await context.call('POST', `/v2/deployments/${id}/revisions`, {})
      const revision = await context.waitFor('the build has started', async () => {
        const [newest] = await context.revisions(id)
        return newest.status === 'BUILDING' && newest
      })
      await context.call('POST', `/v2/deployments/${id}/revisions/${revision.id}/interruption`)
      await context.waitFor('the interruption is acknowledged', () => context.isReconciled(id))
      assert((await context.read(id)).active_revision_id === active_revision_id, 'The old revision no longer serves.')
      assert((await context.revisions(id))[0].status === 'INTERRUPTED', 'The revision is not INTERRUPTED.')
    },
  },
  {
    name: 'removes a deleted deployment',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      await context.call('DELETE', `/v2/deployments/${id}`)
      await context.waitFor(
        'the deployment is gone',
        async () => (await context.call('GET', `/v2/deployments/${id}`)).status === 404,
      )
      await waitUntilSettled(context)
    },
  },
  {
    name: 'sends the correct digest and gets an empty answer',
    async run(context) {
      await context.start()
      for (const { id } of [await context.deploy(), await context.deploy()]) await context.waitUntilServing(id)
      await waitUntilSettled(context)
    },
  },
  {
    name: 'resyncs when its digest is wrong, and drops deployments that are not listed',
    async run(context) {
      await context.start()
      const [remaining, lost] = [await context.deploy(), await context.deploy()]
      for (const { id } of [remaining, lost]) await context.waitUntilServing(id)
      await waitUntilSettled(context)
      // An older backup is restored: the deployment is gone, without a change that says so.
      const listener = sql`
        select set_config('app.listener_id', listener_id::text, true)
        from deployments
        where id = ${lost.id}::uuid`
      await runAsSystem(context.plane.database, listener, sql`delete from deployments where id = ${lost.id}::uuid`)
      await context.waitFor('the agent resyncs', () =>
        listPolls(context).some(one => one.request.cursor !== null && one.response?.resync),
      )
      await waitUntilSettled(context)
      await context.patch(remaining.id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await context.waitUntilServing(remaining.id)
    },
  },
  {
    name: 'fails a revision that it cannot read, leaves the deployment as it runs, and goes on with others',
    async run(context) {
      const { unreadable } = context.plane
      await context.start()
      const broken = await context.deploy()
      const before = await context.waitUntilServing(broken.id)
      unreadable.add(broken.id)
      await context.patch(broken.id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      const other = await context.deploy()
      await context.waitUntilServing(other.id)
      const failed = await context.waitFor('the revision has failed', async () => {
        const [newest] = await context.revisions(broken.id)
        return newest.status.endsWith('_FAILED') && newest
      })
      assert(failed.status_message, 'The report does not say why the revision failed.')
      const after = await context.read(broken.id)
      assert(after.active_revision_id === before.active_revision_id, 'The old revision no longer serves.')
      await waitUntilSettled(context)
      assert(!context.exchanges('/report').some(one => hasRemoved(one, broken.id)), 'The agent removed it.')
      unreadable.delete(broken.id)
      await context.patch(broken.id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await context.waitUntilServing(broken.id)
    },
  },
  {
    name: 'stops acting when its fence is stale, and acquires a new lease',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      await waitUntilSettled(context)
      const fence = await takeLease(context)
      await context.waitFor('the agent is refused for its stale fence', () => listFencedExchanges(context).length > 0)
      // Requests that it sent before it read the refusal may still arrive. The next poll shows that it has read it.
      const refusal = listFencedExchanges(context)[0]!.arrival
      const { arrival } = await context.waitFor('it polls without its old fence', () =>
        listPolls(context).find(one => one.arrival > refusal && one.request.fence == null),
      )
      await context.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await delay(1500)
      const later = context.exchanges().filter(one => one.arrival > arrival)
      assert(
        later.every(one => one.path.endsWith('/poll')),
        'The agent acts although its fence is stale.',
      )
      assert(
        later.every(one => one.request.fence == null || one.request.fence >= fence),
        'The agent still uses its stale fence.',
      )
      context.plane.clock.ahead += LEASE_MS
      await context.waitUntilServing(id)
    },
  },
  {
    name: 'retries unanswered requests without duplicates',
    async run(context) {
      await context.start()
      const { id } = await context.deploy()
      await context.waitUntilServing(id)
      const { lostAnswers } = context.plane
      Object.assign(lostAnswers, { key: context.listener_key, remaining: 6 })
      await context.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await context.waitUntilServing(id)
      await context.waitFor('six answers are lost', () => lostAnswers.remaining === 0)
      await context.patch(id, { secrets: [{ name: 'TOKEN', value: randomUUID() }] })
      await context.waitUntilServing(id)
      await waitUntilSettled(context)
      const all = await context.revisions(id)
      assert(
        all.slice(0, -1).every((one: { status: string }) => one.status === 'DEPLOYED'),
        'A revision is not DEPLOYED.',
      )
    },
  },
  {
    name: 'recovers after it was killed',
    async run(context) {
      const agent = await context.start()
      const { id } = await context.deploy()
      await context.waitFor('the agent reports', async () => context.exchanges('/report').length > 0)
      await agent.kill()
      // An agent that restarts under another name has to wait for the lease to expire.
      context.plane.clock.ahead += LEASE_MS
      await context.start()
      await context.waitUntilServing(id)
      await waitUntilSettled(context)
    },
  },
  {
    name: 'of two agents, one works and the other waits for the lease',
    async run(context) {
      const { first, before } = await startTwoAgents(context)
      const leaseRefusal = context.exchanges().findIndex(one => one.response?.code === 'lease_held')
      await delay(1000)
      const names = new Set(context.exchanges('/report').map(one => one.request.agent_id))
      assert(names.size === 1, 'Both agents report.')
      assert(
        leaseRefusal >= 0 && listFencedExchanges(context).length === 0,
        'The second agent took the lease of the first.',
      )
      await first.kill()
      context.plane.clock.ahead += LEASE_MS
      const after = await context.deploy()
      await context.waitUntilServing(after.id)
      await context.waitUntilServing(before.id)
      // Started again, the first ends what it left running when it was killed.
      const countRefusals = () => context.exchanges().filter(one => one.response?.code === 'lease_held').length
      const refusalsBefore = countRefusals()
      await context.start('first')
      await context.waitFor(
        'the first agent, started again, is refused the lease',
        () => countRefusals() > refusalsBefore,
      )
    },
  },
  {
    name: 'gives up its lease when it is stopped',
    async run(context) {
      const { first, before } = await startTwoAgents(context)
      await first.end()
      const all = context.exchanges()
      const release = all.findIndex(one => one.path.endsWith('/release') && one.status === 204)
      const { agent_id } = all[release]?.request ?? {}
      const acted = all.slice(release + 1).some(one => one.request.agent_id === agent_id && one.status === 200)
      assert(release < 0 || !acted, 'The agent acts although it has released its lease.')
      // An agent need not release its lease; then it expires.
      if (release < 0) context.plane.clock.ahead += LEASE_MS
      const after = await context.deploy()
      await context.waitUntilServing(after.id)
      await context.waitUntilServing(before.id)
    },
  },
]
