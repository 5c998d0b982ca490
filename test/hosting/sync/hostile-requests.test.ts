// Invalid requests with the key of an agent. test/fuzz.test.ts does the same with the key of a user.
import { expect, it } from 'vitest'
import { loadOperations } from '../../../src/app.ts'
import { newTenant, send } from '../../support/app.ts'
import { expectCompleteJournal, newDeployment } from '../../support/deployments.ts'
import { arbitraryRequest, streamBytes, toBytes } from '../../support/hostile-requests.ts'
import * as fc from '../../support/seeded-fast-check.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const operations = await loadOperations()

const OPERATIONS = ['poll', 'report', 'sendLogs', 'sendMetrics', 'releaseLease']
const ROUTES = OPERATIONS.map(id => operations.find(one => one.id === id)!)

it.each(ROUTES.map((one, i) => [one.id, one, fc.seed + i] as const))(
  'invalid requests to %s cause no 5xx and leave a complete journal',
  async (_, operation, seed) => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    const deployment = await newDeployment(tenant, makeListenerDeployment(listener))
    await agent.poll()
    const known = { ids: [deployment.id, deployment.latest_revision_id, listener.id], tenant_id: tenant.tenant_id }
    const harmless = fc.asyncProperty(arbitraryRequest(operation, known), async ({ method, path, headers, body }) => {
      // A long poll would only make the test slow.
      const text = body?.text.replace(/"wait":[1-9]\d*/g, '"wait":0')
      const bytes = body && method !== 'HEAD' ? toBytes({ ...body, text: text! }) : undefined
      const raw = bytes && { raw: body?.streamed ? streamBytes(bytes) : bytes }
      const reply = await send(method, path, { headers: { 'X-Api-Key': key, ...headers }, ...raw })
      expect(reply.status).toBeLessThan(500)
    })
    await fc.assert(harmless, { seed, numRuns: 150, timeout: 10_000 })
    await expectCompleteJournal(tenant, deployment.id)
  },
)

it('numbers over the maximum of 32 bits are refused, and the maximum itself is handled', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id, latest_revision_id } = await newDeployment(tenant, makeListenerDeployment(listener))
  await agent.poll()
  const maximum = 2 ** 31 - 1
  const report = { deployment_id: id, revision_id: latest_revision_id, state: 'serving', generation: maximum }
  expect((await agent.sendReports([report])).body.results[0].code).toBe('generation_unknown')
  expect((await agent.sendReports([{ ...report, generation: maximum + 1 }])).status).toBe(422)
  expect((await agent.sendReports([report], { fence: Number.MAX_SAFE_INTEGER })).body.code).toBe('fence_stale')
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
  expect((await agent.post('/v1/sync/logs', { ...log, lines, from: maximum - 1000 })).body).toEqual({
    next: maximum - 999,
  })
  expect((await agent.post('/v1/sync/logs', { ...log, lines, from: maximum })).status).toBe(422)
})
