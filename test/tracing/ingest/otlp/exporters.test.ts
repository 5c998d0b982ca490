// The exporters of OpenTelemetry, and the tracing client in its OpenTelemetry mode, against the app over HTTP.
import { context, type Tracer, trace } from '@opentelemetry/api'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  SimpleSpanProcessor,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base'
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../../src/kernel/db/db.ts'
import { type App, newTenant, type Tenant } from '../../../support/app.ts'
import { runProgram, serveApp } from '../../../support/cli.ts'
import { storedRuns } from '../../../support/stored-runs.ts'

let url: string
let app: App
let tenant: Tenant
const requests: Request[] = []
const statuses: number[] = []
beforeAll(async () => {
  ;({ url, app } = await serveApp(async (request, pass) => {
    requests.push(request)
    const response = await pass()
    statuses.push(response.status)
    return response
  }))
  tenant = await newTenant({ app })
})

type Run = { name: string; run_type: string; project: string; parent: string | null; trace: string; extra: string }
async function readRuns(project: string): Promise<(Run & Record<string, unknown>)[]> {
  const runs = await storedRuns(tenant)
  const [rows] = await runAsSystem(
    app.database,
    sql`select json_build_object('id', r.id, 'trace', r.trace_id, 'name', r.name,
        'run_type', r.run_type, 'project', p.name,
        'parent', (select a.name from ${runs} a where a.tenant_id = r.tenant_id and a.id = r.parent_run_id),
        'inputs', r.inputs, 'total_tokens', r.total_tokens, 'tags', r.tags, 'error', r.error)::text
      from ${runs} r join projects p on p.id = r.session_id
      where r.tenant_id = ${tenant.tenant_id} and p.name = ${project}
      order by r.dotted_order`,
  )
  return (rows as [string][]).map(([text]) => JSON.parse(text))
}

/** A request of an application, with a call of a model in it that ends first. */
function recordTrace(tracer: Tracer): string {
  const request = tracer.startSpan('request')
  const within = trace.setSpan(context.active(), request)
  const agent = tracer.startSpan('agent', { attributes: { 'gen_ai.operation.name': 'invoke_agent' } }, within)
  const attributes = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'gpt-5',
    'gen_ai.usage.input_tokens': 3,
    'gen_ai.input.messages': '[{"role":"user","parts":[{"type":"text","content":"Grüße"}]}]',
  }
  tracer.startSpan('model', { attributes }, trace.setSpan(context.active(), agent)).end()
  agent.recordException(new Error('boom'))
  agent.setStatus({ code: 2, message: 'boom' })
  agent.end()
  request.end()
  return request.spanContext().traceId
}

const exporters = { protobuf: ProtobufExporter, json: JsonExporter }
const newExporter = (kind: keyof typeof exporters, project: string, compression: 'gzip' | 'none' = 'none') =>
  new exporters[kind]({
    url: `${url}/otel/v1/traces`,
    headers: { 'x-api-key': tenant.key, 'Langsmith-Project': project },
    compression: compression as never,
  }) as SpanExporter

describe('an exporter', () => {
  it.each([
    ['protobuf', 'none'],
    ['protobuf', 'gzip'],
    ['json', 'none'],
    ['json', 'gzip'],
  ] as const)('sends %s with compression %s', async (kind, compression) => {
    const project = `${kind} ${compression}`
    const provider = new BasicTracerProvider({
      spanProcessors: [new BatchSpanProcessor(newExporter(kind, project, compression))],
    })
    const traceId = recordTrace(provider.getTracer('shop'))
    await provider.forceFlush()
    await provider.shutdown()
    const runs = await readRuns(project)
    expect(runs).toMatchObject([
      { name: 'request', run_type: 'chain', parent: null, project },
      { name: 'agent', run_type: 'chain', parent: 'request', error: expect.stringContaining('Error: boom') },
      { name: 'model', run_type: 'llm', parent: 'agent', total_tokens: 3 },
    ])
    expect(runs[2]!.inputs).toBe('{"messages":[{"role":"user","content":"Grüße"}]}')
    expect(runs[0]!.trace.replaceAll('-', '')).toBe(traceId)
    const { headers } = requests.at(-1)!
    expect(headers.get('Content-Encoding')).toBe(compression === 'gzip' ? 'gzip' : null)
    expect(headers.get('Content-Type')).toBe(kind === 'json' ? 'application/json' : 'application/x-protobuf')
    expect(statuses.at(-1)).toBe(200)
  })

  it('may send each span by itself, children first', async () => {
    const exporter = newExporter('protobuf', 'one by one')
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    const before = requests.length
    recordTrace(provider.getTracer('shop'))
    await provider.forceFlush()
    await provider.shutdown()
    expect(requests.length - before).toBe(3)
    expect((await readRuns('one by one')).map(({ name, parent }) => [name, parent])).toEqual([
      ['request', null],
      ['agent', 'request'],
      ['model', 'agent'],
    ])
  })
})

it('the tracing client in its OpenTelemetry mode', async () => {
  const program = `
    import { Client } from 'langsmith'
    import { initializeOTEL } from 'langsmith/experimental/otel/setup'
    import { getCurrentRunTree, traceable } from 'langsmith/traceable'
    const { DEFAULT_LANGSMITH_SPAN_PROCESSOR: processor } = initializeOTEL()
    const client = new Client()
    const reply = { role: 'assistant', content: 'Not much.', usage_metadata: { input_tokens: 3, output_tokens: 2 } }
    const model = traceable(async () => reply, { name: 'model', run_type: 'llm', client, tags: ['a'] })
    const answer = traceable(async question => {
      console.log(getCurrentRunTree().id)
      return (await model({ question })).content
    }, { name: 'answer', client })
    await answer('What is up?')
    await client.awaitPendingTraceBatches()
    await processor.shutdown()`
  const env = {
    LANGSMITH_TRACING: 'true',
    LANGSMITH_OTEL_ENABLED: 'true',
    LANGSMITH_ENDPOINT: url,
    LANGSMITH_API_KEY: tenant.key,
    LANGSMITH_PROJECT: 'otel mode',
  }
  const node = ['node', '--input-type=module', '-']
  const result = await runProgram(node, { cwd: process.cwd(), input: program, env }).exited
  expect(result).toMatchObject({ code: 0 })
  // The id by which the client gives feedback on what it has traced.
  const id = result.out.trim()
  expect(await readRuns('otel mode')).toMatchObject([
    { id, trace: id, name: 'answer', run_type: 'chain', parent: null, inputs: '{"input":"What is up?"}' },
    { name: 'model', run_type: 'llm', parent: 'answer', total_tokens: 5, tags: ['a'] },
  ])
})
