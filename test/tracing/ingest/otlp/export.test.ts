// Exports of spans over HTTP: both encodings, and what is refused.
import { gzipSync } from 'node:zlib'
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import { context, trace } from '@opentelemetry/api'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../../src/kernel/db/db.ts'
import { getApp, newTenant, send, type Tenant } from '../../../support/app.ts'
import { wrap } from '../../../support/hostile-spans.ts'
import { storedRuns } from '../../../support/stored-runs.ts'
import { readRows } from '../../../support/traces.ts'

const PATH = '/otel/v1/traces'
const JSON_TYPE = 'application/json'
const PROTOBUF = 'application/x-protobuf'
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const exportSpans = (raw: string | Uint8Array<ArrayBuffer>, type: string, headers: Record<string, string> = {}) =>
  send('POST', PATH, { raw, headers: { 'X-Api-Key': tenant.key, 'Content-Type': type, ...headers } })

const spanOf = (name: string, span: object = {}) => ({
  traceId: crypto.randomUUID().replaceAll('-', ''),
  spanId: 'b7ad6b7169203331',
  name,
  startTimeUnixNano: `${Date.now()}000000`,
  endTimeUnixNano: `${Date.now() + 1}000000`,
  ...span,
})
const bodyOf = (...spans: object[]) => JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] })

const NAMED_SPAN = new BinaryWriter().tag(5, 2).string('nameless').finish()

async function readNames(of = tenant): Promise<unknown[]> {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select name from ${await storedRuns(of)} r where tenant_id = ${of.tenant_id} order by name`,
  )
  return (rows as unknown[][]).map(([name]) => name)
}

describe('an export', () => {
  it('is answered in its encoding, at the root and below /api/v1', async () => {
    const json = await exportSpans(bodyOf(spanOf('a')), JSON_TYPE)
    expect([json.status, json.headers.get('Content-Type'), json.text]).toEqual([200, JSON_TYPE, '{}'])
    const protobuf = await exportSpans(new Uint8Array(), PROTOBUF)
    expect([protobuf.status, protobuf.headers.get('Content-Type'), protobuf.text]).toEqual([200, PROTOBUF, ''])
    const headers = { 'X-Api-Key': tenant.key, 'Content-Type': JSON_TYPE }
    expect((await send('POST', `/api/v1${PATH}`, { raw: bodyOf(spanOf('b')), headers })).status).toBe(200)
    expect(await readNames()).toEqual(['a', 'b'])
  })

  it('counts the spans that it leaves out, in both encodings', async () => {
    const own = await newTenant()
    const headers = { 'X-Api-Key': own.key }
    const json = await exportSpans(bodyOf(spanOf('kept'), spanOf('lost', { spanId: '00' })), JSON_TYPE, headers)
    expect(json.body).toEqual({ partialSuccess: { rejectedSpans: '1', errorMessage: expect.stringContaining('lost') } })
    expect(await readNames(own)).toEqual(['kept'])
    const app = getApp()
    const response = await app.fetch(
      new Request(`http://slipway.test${PATH}`, {
        method: 'POST',
        body: wrap(NAMED_SPAN, 1, 2, 2),
        headers: { ...headers, 'Content-Type': PROTOBUF },
      }),
    )
    const reader = new BinaryReader(new Uint8Array(await response.arrayBuffer()))
    expect([reader.tag(), reader.uint32() > 0, reader.tag(), Number(reader.int64())]).toEqual([[1, 2], true, [1, 0], 1])
    expect([reader.tag(), reader.string()]).toEqual([[2, 2], expect.stringContaining('nameless')])
  })

  it.each([
    ['protobuf', PROTOBUF, ProtobufTraceSerializer],
    ['JSON', JSON_TYPE, JsonTraceSerializer],
  ] as const)('by the SDK of OpenTelemetry is stored as runs, in %s', async (_, type, serializer) => {
    const own = await newTenant()
    const exporter = new InMemorySpanExporter()
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    const tracer = provider.getTracer('shop')
    const root = tracer.startSpan('root')
    const attributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': 3, 'gen_ai.prompt': 'Grüße' }
    tracer.startSpan('model', { attributes }, trace.setSpan(context.active(), root)).end()
    root.end()
    const bytes = Uint8Array.from(serializer.serializeRequest(exporter.getFinishedSpans())!)
    expect((await exportSpans(bytes, type, { 'X-Api-Key': own.key })).status).toBe(200)
    const traceId = root.spanContext().traceId.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    const spanId = exporter.getFinishedSpans()[0]!.spanContext().spanId
    const rows = (await readRows<{ name: string }>(own)).toSorted((a, b) => (a.name > b.name ? -1 : 1))
    expect(rows).toMatchObject([
      { id: traceId, trace_id: traceId, parent_run_id: null, name: 'root' },
      {
        id: `00000000-0000-0000-${spanId.slice(0, 4)}-${spanId.slice(4)}`,
        trace_id: traceId,
        name: 'model',
        parent_run_id: traceId,
        run_type: 'llm',
        prompt_tokens: 3,
        inputs: expect.stringContaining('Grüße'),
      },
    ])
  })

  it('may be compressed', async () => {
    const own = await newTenant()
    const headers = { 'X-Api-Key': own.key, 'Content-Encoding': 'gzip' }
    expect((await exportSpans(gzipSync(bodyOf(spanOf('small'))), JSON_TYPE, headers)).status).toBe(200)
    expect(await readNames(own)).toEqual(['small'])
  })

  it('needs a key also when it is empty', async () => {
    const unknown = { 'X-Api-Key': `slw_${'0'.repeat(36)}0uqZcG` }
    expect((await exportSpans('{}', JSON_TYPE, unknown)).status).toBe(401)
    expect((await exportSpans('{}', JSON_TYPE)).status).toBe(200)
  })

  it.each<[number, string, string, string | Uint8Array<ArrayBuffer>, Record<string, string>]>([
    [415, 'media_type_unsupported', 'text/plain', '{}', {}],
    [415, 'encoding_unsupported', JSON_TYPE, '{}', { 'Content-Encoding': 'br' }],
    [422, 'invalid_request', JSON_TYPE, '{}', { 'Content-Encoding': 'gzip' }],
    [422, 'invalid_request', JSON_TYPE, '{}', { 'Langsmith-Project': 'x'.repeat(256) }],
    [400, 'spans_undecodable', JSON_TYPE, '', {}],
    [400, 'spans_undecodable', JSON_TYPE, '[]', {}],
    [400, 'spans_undecodable', JSON_TYPE, '{"resourceSpans": 1}', {}],
    [400, 'spans_undecodable', JSON_TYPE, Uint8Array.of(0x22, 0xff, 0x22), {}],
    [400, 'spans_undecodable', PROTOBUF, '{}', {}],
    [400, 'spans_undecodable', PROTOBUF, wrap(Uint8Array.of(0x2a, 0x02, 0xc3, 0x28), 1, 2, 2), {}],
  ])('is refused with %i %s: %s %o %o', async (status, code, type, body, headers) => {
    const reply = await exportSpans(body, type, headers)
    expect([reply.status, reply.body.code]).toEqual([status, code])
  })
})
