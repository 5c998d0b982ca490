// The published tracing clients and exporters, unchanged, over HTTP: what they send is read back.
import { setTimeout as delay } from 'node:timers/promises'
import { context, trace } from '@opentelemetry/api'
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base'
import type { Server } from './servers.ts'

type Module = Pick<typeof import('langsmith'), 'Client' | 'RunTree'>
/** The tests use nothing that the older one lacks. */
const MODULES: Record<string, () => Promise<Module>> = {
  'langsmith 0.12': () => import('langsmith'),
  'langsmith 0.7': () => import('langsmith-0-7') as unknown as Promise<Module>,
}
// The newer client warns of methods that the older one has alone.
process.noDeprecation = true

export type Outcome = { what: string; isTrue: boolean; detail?: string }

export const TRACING_CLIENTS: Record<string, (server: Server) => Promise<Outcome[]>> = {
  ...Object.fromEntries(Object.entries(MODULES).map(([name, load]) => [name, server => tryClient(name, load, server)])),
  'OTLP protobuf': server => tryExporter(ProtobufExporter, 'protobuf', server),
  'OTLP JSON': server => tryExporter(JsonExporter, 'json', server),
}

/** Until it is true: reads follow writes at once, exports of a batch are sent a moment later. */
async function eventually(look: () => Promise<boolean>): Promise<boolean> {
  for (let i = 0; i < 50; i++) {
    if (await look().catch(() => false)) return true
    await delay(100)
  }
  return false
}

async function tryClient(name: string, load: () => Promise<Module>, { url, key }: Server): Promise<Outcome[]> {
  const { Client, RunTree } = await load()
  const outcomes: Outcome[] = []
  const say = (what: string, isTrue: boolean, detail?: unknown) =>
    outcomes.push({ what, isTrue, ...(detail !== undefined && { detail: JSON.stringify(detail) }) })
  for (const way of ['multipart', 'batch'] as const) {
    const paths: string[] = []
    const fetchImplementation = async (input: string | URL | Request, init?: RequestInit) => {
      const response = await fetch(input, init)
      const path = new URL(input instanceof Request ? input.url : input).pathname
      paths.push(`${path} ${response.status}`)
      if (way === 'multipart' || !path.endsWith('/info')) return response
      const info = (await response.json()) as { batch_ingest_config: object }
      return Response.json({
        ...info,
        batch_ingest_config: { ...info.batch_ingest_config, use_multipart_endpoint: false },
      })
    }
    const client = new Client({ apiUrl: url, apiKey: key, fetchImplementation: fetchImplementation as never })
    const project = `${name} ${way} ${crypto.randomUUID().slice(0, 8)}`
    const common = { client, project_name: project, tracingEnabled: true }
    const root = new RunTree({ name: 'question', run_type: 'chain', inputs: { q: 'x'.repeat(20_000) }, ...common })
    await root.postRun()
    const model = root.createChild({ name: 'model', run_type: 'llm', inputs: {} })
    await model.postRun()
    await model.end({ answer: 42 })
    await model.patchRun()
    await root.end({ answer: 42 })
    await root.patchRun()
    await client.awaitPendingTraceBatches()
    const ingestion = paths.filter(path => /\/runs\/(multipart|batch)/.test(path))
    say(`${way}: sends`, ingestion.length > 0 && ingestion.every(path => path === `/runs/${way} 202`), ingestion)

    const run = await client.readRun(root.id, { loadChildRuns: true })
    const children = run.child_runs?.map(child => child.name)
    say(`${way}: reads back`, run.outputs?.answer === 42 && `${children}` === 'model', { run: run.outputs, children })
    const listed: string[] = []
    for await (const one of client.listRuns({ projectName: project })) listed.push(one.name)
    say(`${way}: lists`, listed.toSorted().join() === 'model,question', listed)

    const { id } = await client.createFeedback(root.id, 'correct', { score: 1, comment: 'yes' })
    const feedback = []
    for await (const one of client.listFeedback({ runIds: [root.id] })) feedback.push(one)
    say(`${way}: feedback`, feedback.length === 1 && feedback[0]!.id === id && feedback[0]!.score === 1, feedback)

    const shareId = crypto.randomUUID()
    const link = await client.shareRun(root.id, { shareId })
    const read = await fetch(`${url}/public/${shareId}/runs/query`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    })
    const shared = (await read.json()) as { runs: { id: string }[] }
    const isShown = (await client.readRunSharedLink(root.id)) === link && shared.runs.some(one => one.id === root.id)
    say(`${way}: shares`, isShown, { link, shared })
    await client.unshareRun(root.id)
    say(`${way}: unshares`, (await client.readRunSharedLink(root.id)) === undefined)
  }
  return outcomes
}

type Exporter = new (options: object) => SpanExporter

async function tryExporter(Exporter: Exporter, name: string, { url, key }: Server): Promise<Outcome[]> {
  const { Client } = await import('langsmith')
  const client = new Client({ apiUrl: url, apiKey: key })
  const outcomes: Outcome[] = []
  for (const compression of ['none', 'gzip']) {
    const project = `otlp ${name} ${compression} ${crypto.randomUUID().slice(0, 8)}`
    const exporter = new Exporter({
      url: `${url}/otel/v1/traces`,
      compression,
      headers: { 'x-api-key': key, 'Langsmith-Project': project },
    })
    const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] })
    const tracer = provider.getTracer('shop')
    const request = tracer.startSpan('request')
    const attributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': 3 }
    tracer.startSpan('model', { attributes }, trace.setSpan(context.active(), request)).end()
    request.end()
    await provider.forceFlush()
    await provider.shutdown()
    const found: string[] = []
    const isFound = await eventually(async () => {
      found.length = 0
      for await (const run of client.listRuns({ projectName: project })) found.push(`${run.run_type} ${run.name}`)
      return found.toSorted().join() === 'chain request,llm model'
    })
    outcomes.push({ what: `${compression}: spans are runs`, isTrue: isFound, detail: JSON.stringify(found) })
  }
  return outcomes
}
