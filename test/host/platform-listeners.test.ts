// Platform listeners, each test in a database of its own because they serve every deployment without a listener.
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { registerPlatformListener } from '../../src/hosting/listeners/platform-listener.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Changes } from '../../src/protocol/poll.schema.ts'
import type { ReportResult } from '../../src/protocol/report.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'
import type { ControlPlane } from '../proof/kit/control-plane.ts'
import { makeImageBody, makeImageConfig } from '../support/deployment-bodies.ts'
import { computeDigest, makeEnvelopeOpener } from '../support/envelope-opener.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'

let plane: ControlPlane
beforeEach(async () => {
  plane = await startKitControlPlane()
})
afterEach(() => plane.stop())

async function call<T>(key: string, path: string, body: object): Promise<{ status: number; body: T }> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const answer = await fetch(plane.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: answer.status, body: (await answer.json()) as T }
}

async function createAgent(key: string, agent_id: string) {
  const { public_key } = makeEnvelopeOpener()
  const workByDeployment = new Map<string, Work>()
  let [fence, cursor]: (number | null)[] = [null, null]
  const poll = async (overrides: object = {}): Promise<Changes> => {
    const request = { agent_id, public_key, fence, cursor, ...overrides }
    const { status, body } = await call<Changes>(key, '/v1/sync/poll', request)
    expect(status, JSON.stringify(body)).toBe(200)
    ;[fence, cursor] = [body.lease.fence, body.cursor]
    for (const work of body.changes) workByDeployment.set(work.deployment_id, work)
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
  return { workByDeployment, poll, report }
}

it('platform listeners serve deployments without a listener in every workspace, and no others', async () => {
  const workspaces = [await plane.newWorkspace(), await plane.newWorkspace()] as const
  const [first, second] = workspaces
  const ids: string[] = []
  for (const { call } of workspaces) ids.push((await call('POST', '/v2/deployments', makeImageBody())).body.id)
  const workspaceAgent = await createAgent(first.listener_key, 'own')
  expect((await workspaceAgent.poll()).changes).toEqual([])

  const options = { organization_id: first.organization_id, compute_id: 'platform', compute_type: 'local' as const }
  const { listener_id, listener_key } = await registerPlatformListener(plane.database, options)
  expect((await registerPlatformListener(plane.database, options)).listener_id).toBe(listener_id)
  const platformAgent = await createAgent(listener_key, 'platform')
  await platformAgent.poll({ wait: 5 })
  const { changes } = await platformAgent.poll({ wait: 5 })
  expect(changes.map(work => work.deployment_id).sort()).toEqual(ids.sort())
  expect(changes[0]).toMatchObject({
    revision: { image_uri: 'registry.example.com/app:first', git: null },
  })
  expect((await workspaceAgent.poll()).changes).toEqual([])
  for (const { call } of workspaces) expect((await call('GET', '/v2/listeners')).body.resources).toHaveLength(1)
  expect((await first.call('GET', `/v2/listeners/${listener_id}`)).status).toBe(404)

  // The deployments of a deleted workspace remain until the agent has removed them.
  const orphaned = changes.find(work => work.tenant_id === second.tenant_id)!
  await runAsSystem(plane.database, sql`delete from workspaces where id = ${orphaned.tenant_id}::uuid`)
  const absent = (await platformAgent.poll()).changes.filter(work => work.wanted === 'absent')
  expect(absent).toMatchObject([{ deployment_id: orphaned.deployment_id, tenant_id: null }])
  const report = { deployment_id: orphaned.deployment_id, generation: absent[0]!.generation, state: 'removed' }
  expect(await platformAgent.report([report])).toMatchObject([{ outcome: 'accepted', generation: null }])
  platformAgent.workByDeployment.delete(orphaned.deployment_id)
  const generations = new Map([...platformAgent.workByDeployment].map(([id, work]) => [id, work.generation]))
  expect(await platformAgent.poll({ digest: computeDigest(generations) })).toMatchObject({ resync: false, changes: [] })
})

it('concurrent polls, reports and patches neither deadlock nor lose a change', async () => {
  const { organization_id } = await plane.newWorkspace()
  const options = { organization_id, compute_id: 'platform', compute_type: 'local' as const }
  const { listener_key } = await registerPlatformListener(plane.database, options)
  const agent = await createAgent(listener_key, 'busy')
  const workspaces = [await plane.newWorkspace(), await plane.newWorkspace()]
  const deployments = await Promise.all(
    workspaces.flatMap(({ call }) =>
      Array.from({ length: 4 }, async () => ({
        call,
        id: (await call('POST', '/v2/deployments', makeImageBody())).body.id as string,
      })),
    ),
  )
  let isWriting = true
  const writers = deployments.map(async ({ call, id }, writer) => {
    for (let i = 0; i < 8; i++) {
      const { status, body } = await call('PATCH', `/v2/deployments/${id}`, {
        ...makeImageConfig(`b-${writer}-${i}`),
      })
      expect(status, JSON.stringify(body)).toBe(200)
    }
  })
  const polling = (async () => {
    for (let emptyPolls = 0; isWriting || emptyPolls < 3; ) {
      const { changes } = await agent.poll()
      emptyPolls = changes.length === 0 ? emptyPolls + 1 : 0
      const reports = changes
        .filter(({ revision }) => revision)
        .map(({ deployment_id, generation, revision }) => ({
          deployment_id,
          generation,
          revision_id: revision!.id,
          state: 'deployed',
          healthy: true,
        }))
      if (reports.length > 0) for (const result of await agent.report(reports)) expect(result.outcome).toBe('accepted')
    }
  })()
  const writing = Promise.all(writers).finally(() => {
    isWriting = false
  })
  await Promise.all([writing, polling])
  for (const { call, id } of deployments) {
    const { body } = await call('GET', `/v2/deployments/${id}`)
    expect(body.active_revision_id).toBe(body.latest_revision_id)
    expect(agent.workByDeployment.get(id)).toMatchObject({ revision: null, serving: { id: body.active_revision_id } })
  }
  const generations = new Map([...agent.workByDeployment].map(([id, work]) => [id, work.generation]))
  expect((await agent.poll({ digest: computeDigest(generations) })).resync).toBe(false)
})
