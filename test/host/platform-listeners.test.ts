// Platform listeners, in their own database because they take every unserved deployment, and concurrent changes.
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ControlPlane } from '../../protocol-kit/control-plane.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { registerPlatformListener } from '../../src/listeners/platform-listener.ts'
import type { Changes } from '../../src/protocol/poll.schema.ts'
import type { ReportResult } from '../../src/protocol/report.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'
import { makeImageBody, makeImageConfig } from '../support/deployment-bodies.ts'
import { computeDigest, makeEnvelopeOpener } from '../support/envelope-opener.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'

let plane: ControlPlane
beforeAll(async () => {
  plane = await startKitControlPlane()
})
afterAll(() => plane.stop())

async function call<T>(key: string, path: string, body: object): Promise<{ status: number; body: T }> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const answer = await fetch(plane.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: answer.status, body: (await answer.json()) as T }
}

async function agentOf(key: string, agent_id: string) {
  const { public_key } = makeEnvelopeOpener()
  const known = new Map<string, Work>()
  let [fence, cursor]: (number | null)[] = [null, null]
  const poll = async (over: object = {}): Promise<Changes> => {
    const asked = { agent_id, public_key, fence, cursor, ...over }
    const { status, body } = await call<Changes>(key, '/v1/sync/poll', asked)
    expect(status, JSON.stringify(body)).toBe(200)
    ;[fence, cursor] = [body.lease.fence, body.cursor]
    for (const work of body.changes) known.set(work.deployment_id, work)
    return body
  }
  const report = async (reports: object[]): Promise<ReportResult[]> => {
    const { status, body } = await call<{ results: ReportResult[] }>(key, '/v1/sync/report', {
      agent_id,
      fence,
      reports,
    })
    expect(status, JSON.stringify(body)).toBe(200)
    return body.results
  }
  return { known, poll, report }
}

it('platform listeners serve deployments without a listener in every workspace, and no others', async () => {
  const [one, other] = [await plane.newWorkspace(), await plane.newWorkspace()]
  const ids: string[] = []
  for (const { call } of [one, other]) ids.push((await call('POST', '/v2/deployments', makeImageBody())).body.id)
  const own = await agentOf(one.listener_key, 'own')
  expect((await own.poll()).changes).toEqual([])

  const wanted = { organization_id: one.organization_id, compute_id: 'platform', compute_type: 'local' as const }
  const { listener_id, listener_key } = await registerPlatformListener(plane.database, wanted)
  expect((await registerPlatformListener(plane.database, wanted)).listener_id).toBe(listener_id)
  const platform = await agentOf(listener_key, 'platform')
  await platform.poll({ wait: 5 })
  const { changes } = await platform.poll({ wait: 5 })
  expect(changes.map(work => work.deployment_id).sort()).toEqual(ids.sort())
  expect(changes[0]).toMatchObject({
    revision: { image_uri: 'registry.example.com/app:first', git: null },
  })
  expect((await own.poll()).changes).toEqual([])
  for (const { call } of [one, other]) expect((await call('GET', '/v2/listeners')).body.resources).toHaveLength(1)
  expect((await one.call('GET', `/v2/listeners/${listener_id}`)).status).toBe(404)

  // The deployments of a deleted workspace remain until the agent has removed them.
  const gone = changes.find(work => work.tenant_id === other.tenant_id)!
  const removed = sql`delete from workspaces where id = ${gone.tenant_id}::uuid`
  await runAsSystem(plane.database, removed)
  const absent = (await platform.poll()).changes.filter(work => work.wanted === 'absent')
  expect(absent).toMatchObject([{ deployment_id: gone.deployment_id, tenant_id: null }])
  const said = { deployment_id: gone.deployment_id, generation: absent[0]!.generation, state: 'removed' }
  expect(await platform.report([said])).toMatchObject([{ outcome: 'accepted', generation: null }])
  platform.known.delete(gone.deployment_id)
  const generations = new Map([...platform.known].map(([id, work]) => [id, work.generation]))
  expect(await platform.poll({ digest: computeDigest(generations) })).toMatchObject({ resync: false, changes: [] })
})

it('concurrent polls, reports and patches neither deadlock nor lose a change', async () => {
  const { organization_id } = await plane.newWorkspace()
  const wanted = { organization_id, compute_id: 'platform', compute_type: 'local' as const }
  const agent = await agentOf((await registerPlatformListener(plane.database, wanted)).listener_key, 'busy')
  plane.clock.ahead += 61_000
  const workspaces = [await plane.newWorkspace(), await plane.newWorkspace()]
  const made = await Promise.all(
    workspaces.flatMap(({ call }) =>
      Array.from({ length: 4 }, async () => ({
        call,
        id: (await call('POST', '/v2/deployments', makeImageBody())).body.id as string,
      })),
    ),
  )
  let busy = true
  const writers = made.map(async ({ call, id }, writer) => {
    for (let i = 0; i < 8; i++) {
      const { status, body } = await call('PATCH', `/v2/deployments/${id}`, {
        ...makeImageConfig(`b-${writer}-${i}`),
      })
      expect(status, JSON.stringify(body)).toBe(200)
    }
  })
  const work = (async () => {
    for (let quiet = 0; busy || quiet < 3; ) {
      const { changes } = await agent.poll()
      quiet = changes.length === 0 ? quiet + 1 : 0
      const reports = changes
        .filter(one => one.revision)
        .map(one => ({
          ...{ deployment_id: one.deployment_id, generation: one.generation, revision_id: one.revision!.id },
          ...{ state: 'deployed', healthy: true },
        }))
      if (reports.length > 0) for (const result of await agent.report(reports)) expect(result.outcome).toBe('accepted')
    }
  })()
  const writing = Promise.all(writers).finally(() => {
    busy = false
  })
  await Promise.all([writing, work])
  for (const { call, id } of made) {
    const { body } = await call('GET', `/v2/deployments/${id}`)
    expect(body.active_revision_id).toBe(body.latest_revision_id)
    expect(agent.known.get(id)).toMatchObject({ revision: null, serving: { id: body.active_revision_id } })
  }
  const generations = new Map([...agent.known].map(([id, one]) => [id, one.generation]))
  expect((await agent.poll({ digest: computeDigest(generations) })).resync).toBe(false)
})
