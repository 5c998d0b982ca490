// The variables of tracing that an application gets beside its own.
import { expect, test } from 'vitest'
import { tracingVariables } from '../../src/agent/engines/tracing-variables.ts'
import { makeTracing } from '../../src/hosting/sync/tracing.ts'

const sealingKeys: [string, string][] = [['k1', Buffer.alloc(32, 1).toString('base64url')]]
const deployment = { deployment_id: crypto.randomUUID(), name: 'shop', trace_key_version: 1 }
const LANGSMITH = ['LANGSMITH_TRACING', 'LANGSMITH_ENDPOINT', 'LANGSMITH_PROJECT', 'LANGSMITH_API_KEY']
const REVISION = 'LANGCHAIN_REVISION_ID'
const OTEL = ['ENDPOINT', 'HEADERS', 'PROTOCOL'].map(name => `OTEL_EXPORTER_OTLP_TRACES_${name}`)

test.each<[string, string[]]>([
  ['OTHER', [...LANGSMITH, ...OTEL]],
  ['LANGSMITH_HIDE_INPUTS', [...LANGSMITH, ...OTEL]],
  ['LANGCHAIN_CALLBACKS_BACKGROUND', [...LANGSMITH, ...OTEL]],
  ['OTEL_SERVICE_NAME', [...LANGSMITH, ...OTEL]],
  ['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', [...LANGSMITH, ...OTEL]],
  ['LANGSMITH_TRACING', OTEL],
  ['LANGCHAIN_TRACING_V2', OTEL],
  ['LANGSMITH_API_KEY', OTEL],
  ['LANGCHAIN_PROJECT', OTEL],
  ['LANGSMITH_WORKSPACE_ID', OTEL],
  ['OTEL_SDK_DISABLED', LANGSMITH],
  ['OTEL_TRACES_EXPORTER', LANGSMITH],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', LANGSMITH],
  ['OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', LANGSMITH],
])('with %s of its own', async (name, expected) => {
  const tracing = await makeTracing({ sealingKeys }, deployment, 'https://slipway.example.com', 'r1')
  const own = { secrets: {}, secret_references: [] }
  const names = (over: object, configured = {}) =>
    // The revision is told in any case: only clients that trace read it.
    Object.keys(tracingVariables({ ...own, tracing, ...over }, configured)).filter(one => one !== REVISION)
  expect(names({ secrets: { [name]: '' } })).toEqual(expected)
  expect(names({ secret_references: [{ name, secret_name: 's', secret_key: 'k' }] })).toEqual(expected)
  expect(names({}, { [name]: '' })).toEqual(expected)
  expect(names({ tracing: null })).toEqual([])
})
