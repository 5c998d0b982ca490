// Requests that an agent's key lets in, and that are broken or mean harm: refused as documented, or harmless.
import { expect, it } from 'vitest'
import { operations } from '../../src/app.ts'
import { newTenant, send } from '../support/app.ts'
import { expectCompleteJournal, newDeployment } from '../support/deployments.ts'
import { arbitraryRequest, streamBytes, toBytes } from '../support/hostile-requests.ts'
import * as fc from '../support/seeded-fast-check.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'

const ROUTES = ['poll', 'report', 'sendLogs', 'releaseLease'].map(id => operations.find(one => one.id === id)!)

it.each(ROUTES.map((one, i) => [one.id, one, fc.seed + i] as const))('%s', async (_, operation, seed) => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const deployment = await newDeployment(tenant, makeListenerDeployment(listener))
  await agent.poll()
  const known = { ids: [deployment.id, deployment.latest_revision_id, listener.id], tenant_id: tenant.tenant_id }
  const harmless = fc.asyncProperty(arbitraryRequest(operation, known), async ({ method, path, headers, body }) => {
    // One that waits is no worse for it.
    const text = body?.text.replace(/"wait":[1-9]\d*/g, '"wait":0')
    const bytes = body && method !== 'HEAD' ? toBytes({ ...body, text: text! }) : undefined
    const raw = bytes && { raw: body?.streamed ? streamBytes(bytes) : bytes }
    const reply = await send(method, path, { headers: { 'X-Api-Key': key, ...headers }, ...raw })
    expect(reply.status).toBeLessThan(500)
  })
  await fc.assert(harmless, { seed, numRuns: 150, timeout: 10_000 })
  await expectCompleteJournal(tenant, deployment.id)
})

it('numbers at the edge of what can be stored', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id, latest_revision_id } = await newDeployment(tenant, makeListenerDeployment(listener))
  await agent.poll()
  const most = 2 ** 31 - 1
  const said = { deployment_id: id, revision_id: latest_revision_id, state: 'serving', generation: most }
  expect((await agent.sendReports([said])).body.results[0].code).toBe('generation_unknown')
  expect((await agent.sendReports([{ ...said, generation: most + 1 }])).status).toBe(422)
  expect((await agent.sendReports([said], { fence: Number.MAX_SAFE_INTEGER })).body.code).toBe('fence_stale')
  expect((await agent.sendPoll({ cursor: Number.MAX_SAFE_INTEGER })).body.resync).toBe(true)
  const log = {
    agent_id: agent.agent_id,
    fence: agent.fence,
    deployment_id: id,
    revision_id: latest_revision_id,
    kind: 'build',
    stream: id,
  }
  const lines = [{ timestamp: '9999-12-31T23:59:59Z', level: 'INFO', message: 'x'.repeat(100_000) }]
  expect((await agent.post('/v1/sync/logs', { ...log, lines, from: most - 1000 })).body).toEqual({ next: most - 999 })
  expect((await agent.post('/v1/sync/logs', { ...log, lines, from: most })).status).toBe(422)
})
