// An agent receives the settings by which applications trace themselves.
import { expect, it } from 'vitest'
import { createTraceKey } from '../../../src/kernel/crypto/trace-keys.ts'
import { getApp, newTenant, startApp } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

async function createTraced({ app = getApp(), source_config = {} } = {}) {
  const tenant = await newTenant({ app })
  const { listener, key } = await newListener(tenant)
  const deployment = await newDeployment(tenant, makeListenerDeployment(listener, { source_config }))
  const agent = makeSyncAgent(tenant, key)
  const pollTracing = async (over: object = {}) => {
    const { changes } = await agent.poll({ cursor: null, ...over })
    return agent.openTracing(listener.id, changes[0]!)
  }
  const keyOf = (version: number) => createTraceKey(app.config, { deployment_id: deployment.id, version })
  return { tenant, deployment, agent, pollTracing, keyOf }
}

it('is the address, the project and the key, for tracing clients and for OpenTelemetry', async () => {
  const { deployment, pollTracing, keyOf } = await createTraced()
  const key = await keyOf(1)
  expect(await pollTracing()).toEqual({
    key,
    variables: {
      LANGSMITH_TRACING: 'true',
      LANGSMITH_PROJECT: deployment.name,
      LANGSMITH_API_KEY: key,
      LANGSMITH_ENDPOINT: 'http://slipway.test/api/v1',
      LANGCHAIN_REVISION_ID: deployment.latest_revision_id,
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://slipway.test/otel/v1/traces',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: `x-api-key=${key}`,
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
    },
  })
})

it('has the address that the agent names, and is nothing where applications do not reach one', async () => {
  const { agent, pollTracing } = await createTraced()
  expect((await pollTracing({ control_plane_url: 'http://slipway.internal:8787' }))!.variables).toMatchObject({
    LANGSMITH_ENDPOINT: 'http://slipway.internal:8787/api/v1',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://slipway.internal:8787/otel/v1/traces',
  })
  expect(await pollTracing({ control_plane_url: null })).toBeNull()
  for (const control_plane_url of ['slipway.internal', 'ftp://slipway.internal', 'javascript:alert(1)', ''])
    expect((await agent.sendPoll({ control_plane_url })).status, control_plane_url).toBe(422)
})

it('is sealed, so that the answer does not show the key', async () => {
  const { agent, keyOf } = await createTraced()
  expect(JSON.stringify(await agent.poll())).not.toContain(await keyOf(1))
})

it('has the next key once the key is rotated, as a change', async () => {
  const { tenant, deployment, agent, pollTracing, keyOf } = await createTraced()
  await pollTracing()
  await tenant.post(`/v2/deployments/${deployment.id}/trace-key/rotation`)
  const { changes } = await agent.poll()
  expect(changes).toMatchObject([{ deployment_id: deployment.id, generation: 2 }])
  expect((await pollTracing())!.key).toBe(await keyOf(2))
})

it('is nothing for a deployment that is switched off, until a revision has it on again', async () => {
  const { tenant, deployment, agent, pollTracing, keyOf } = await createTraced({ source_config: { tracing: false } })
  expect(await pollTracing()).toBeNull()
  const [work] = (await agent.poll({ cursor: null })).changes
  await agent.report(work!, { state: 'deployed' })
  const path = `/v2/deployments/${deployment.id}`
  const { body } = await tenant.patch(path, { source_config: { tracing: true } })
  expect([body.source_config.tracing, body.latest_revision_id]).toEqual([true, deployment.latest_revision_id])
  expect(await pollTracing()).toBeNull()
  await tenant.post(`${path}/revisions`)
  expect((await pollTracing())?.key ?? null).toBe(await keyOf(1))
})

it('is nothing in an installation that is switched off', async () => {
  const { pollTracing } = await createTraced({ app: startApp({ settings: { DEPLOYMENT_TRACING: 'off' } }) })
  expect(await pollTracing()).toBeNull()
})
