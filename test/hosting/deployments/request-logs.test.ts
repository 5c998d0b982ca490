// The request log of a deployment is set, told to its agent, and refused where no router of ours tells requests.
import { expect, it } from 'vitest'
import { DEFAULT_REQUEST_LOGS } from '../../../src/protocol/defaults.ts'
import { CLOSED_POLICY, type ListenerPolicy } from '../../../src/protocol/listener-policy.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { newTenant, unusedId } from '../../support/app.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

async function newLogged(policy: ListenerPolicy) {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy })
  const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'app' }))
  const told = async () => (await agent.pollAll()).find((one: Work) => one.deployment_id === body.id)!.request_logs
  return { tenant, agent, deployment: body, told, path: `/v2/deployments/${body.id}` }
}

it('is a sample by default, is set without a revision, and reaches its agent', async () => {
  const { tenant, agent, deployment, told, path } = await newLogged({
    ...CLOSED_POLICY,
    features: ['images', 'request_logs'],
  })
  expect([deployment.request_logs, await told()]).toEqual([DEFAULT_REQUEST_LOGS, DEFAULT_REQUEST_LOGS])
  const set = await tenant.put(`${path}/request-logs`, { mode: 'all', client_address: 'full' })
  const all = { ...DEFAULT_REQUEST_LOGS, mode: 'all', client_address: 'full' }
  expect([set.status, set.body.request_logs, set.body.latest_revision_id]).toEqual([
    200,
    all,
    deployment.latest_revision_id,
  ])
  expect(await told()).toEqual(all)
  expect((await tenant.put(`${path}/request-logs`, { mode: 'off' })).status).toBe(200)
  expect(await told()).toBeNull()
  const bad = await tenant.put(`${path}/request-logs`, { mode: 'most', rate: 0, slow_ms: -1 })
  expect([bad.status, bad.body.errors.length]).toEqual([422, 3])
  const { body: events } = await tenant.get('/v2/events?type=deployment.request_logs_changed')
  expect(events.resources).toHaveLength(2)

  const { agent_id, fence } = agent
  const attributes = { method: 'GET', path: '/cart', status: 500, trace_id: 'ab'.repeat(16), request_id: 'r-1' }
  const line = { timestamp: '2026-01-01T00:00:00.000Z', level: 'ERROR', message: 'GET /cart 500 3 ms', attributes }
  const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id }
  const batch = { agent_id, fence, ...ids, kind: 'request', stream: unusedId(), from: 0, lines: [line] }
  expect((await agent.post('/v1/sync/logs', batch)).status).toBe(200)
  const read = async (query: string) => (await tenant.get(`${path}/logs${query}`)).body.logs
  expect(await read('?kind=request')).toEqual([expect.objectContaining({ kind: 'request', attributes })])
  expect(await read('')).toEqual([])
})

it.each([
  ['an ingress of a cluster', { ...CLOSED_POLICY, engine: 'kubernetes', features: ['images', 'protection'] }],
  ['an agent that tells no features', CLOSED_POLICY],
] as [string, ListenerPolicy][])('is refused by name behind %s, except for `off`', async (_, policy) => {
  const { tenant, path } = await newLogged(policy)
  const refused = await tenant.put(`${path}/request-logs`, { mode: 'errors' })
  expect([refused.status, refused.body.code]).toEqual([400, 'not_allowed_by_listener'])
  expect((await tenant.get(path)).body.request_logs).toEqual(DEFAULT_REQUEST_LOGS)
  expect((await tenant.put(`${path}/request-logs`, { mode: 'off' })).status).toBe(200)
})
