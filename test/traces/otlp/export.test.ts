// Exports of spans over HTTP: both encodings, what is refused, and hostile bodies.
import { gzipSync } from 'node:zlib'
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db.ts'
import { getApp, newTenant, send, type Tenant } from '../../support/app.ts'
import * as fc from '../../support/seeded-fast-check.ts'
import { storedRuns } from '../../support/stored-runs.ts'

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
  ...{ traceId: crypto.randomUUID().replaceAll('-', ''), spanId: 'b7ad6b7169203331', name },
  ...{ startTimeUnixNano: `${Date.now()}000000`, endTimeUnixNano: `${Date.now() + 1}000000` },
  ...span,
})
const bodyOf = (...spans: object[]) => JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] })

/** Length-delimited fields, from the outermost. */
const wrap = (bytes: Uint8Array, ...fields: number[]) =>
  fields.reduceRight(
    (inner, field) => new BinaryWriter().tag(field, 2).bytes(inner).finish(),
    bytes,
  ) as Uint8Array<ArrayBuffer>
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

describe('a hostile export', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc.constantFrom('', '\0', '\ud800', '0', 'a'.repeat(300)),
  )
  /** Mostly right, so that much reaches the database. */
  const mostly = <T>(right: fc.Arbitrary<T>, wrong: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 60, arbitrary: right as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: wrong })
  const hexOf = (length: number) => mostly(fc.constantFrom(...['a', 'b', '1'].map(digit => digit.repeat(length))), text)
  const value = mostly(
    fc.oneof(
      fc.record({ stringValue: text }),
      fc.record({ stringValue: fc.json() }),
      fc.record({ intValue: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String) }),
      fc.record({ doubleValue: fc.double({ noNaN: true, noDefaultInfinity: true }) }),
      fc.record({ arrayValue: fc.record({ values: fc.array(fc.record({ stringValue: text }), { maxLength: 3 }) }) }),
    ),
    fc.jsonValue(),
  )
  const key = fc.constantFrom(
    ...[
      'gen_ai.prompt',
      'gen_ai.input.messages',
      'langsmith.trace.session_name',
      'langsmith.trace.session_id',
      'metadata',
    ],
    ...['langsmith.span.dotted_order', 'langsmith.span.id', 'langsmith.reference_example_id', 'gen_ai.conversation.id'],
    ...['langsmith.span.tags', 'gen_ai.usage.input_tokens', 'gen_ai.usage.cost', 'langsmith.is_root', 'toString'],
    ...['langsmith.usage_metadata', 'langsmith.metadata.usage_metadata'],
  )
  const time = mostly(fc.bigInt(1n, 2n ** 64n - 1n).map(String), fc.constantFrom('0', -1, 1.5, ''))
  const attributes = fc.array(fc.record({ key: fc.oneof(key, text), value }), { maxLength: 6 })
  const span = fc.record(
    {
      ...{ traceId: hexOf(32), spanId: hexOf(16), parentSpanId: hexOf(16), name: text },
      ...{ startTimeUnixNano: time, endTimeUnixNano: time },
      attributes,
      events: fc.array(fc.record({ name: text, timeUnixNano: time, attributes }), { maxLength: 2 }),
      status: fc.record({ code: fc.oneof(fc.nat(3), text), message: text }),
    },
    { requiredKeys: [] },
  )
  const plausible = fc.array(span, { maxLength: 5 }).map(spans => spans.map(span => spanOf('hostile', span)))
  const json = fc.oneof(
    plausible.map(spans => bodyOf(...spans)),
    fc.json(),
    text,
  )
  const bytes = fc
    .uint8Array({ maxLength: 100 })
    .chain(content => fc.subarray([1, 2, 2, 9, 2]).map(fields => wrap(content, ...fields)))
  const request = fc.oneof(
    fc.tuple(
      plausible.map(spans => bodyOf(...spans)),
      fc.constant(JSON_TYPE),
    ),
    fc.tuple(json, fc.constant(JSON_TYPE)),
    fc.tuple(bytes, fc.constant(PROTOBUF)),
    fc.tuple(
      fc.uint8Array({ maxLength: 60 }) as fc.Arbitrary<Uint8Array<ArrayBuffer>>,
      fc.constantFrom(PROTOBUF, JSON_TYPE),
    ),
  )

  it('is never a fault of the server, and stores nothing if it is refused', async () => {
    const hostile = await newTenant()
    const statuses: number[] = []
    await fc.assert(
      fc.asyncProperty(request, async ([body, type]) => {
        // By its project one sees which requests have stored something.
        const headers = { 'X-Api-Key': hostile.key, 'Langsmith-Project': `project ${statuses.length}` }
        const { status, body: problem } = await exportSpans(body, type, headers)
        statuses.push(status)
        expect([200, 400, 404, 409, 422], problem?.detail).toContain(status)
      }),
      { numRuns: Math.max(300, fc.requests / 2) },
    )
    for (const status of [200, 400]) expect(statuses.filter(one => one === status).length).toBeGreaterThan(50)
    const [stored] = await runAsSystem(
      getApp().database,
      sql`select name from projects where tenant_id = ${hostile.tenant_id} and name ~ '^project [0-9]+$'`,
    )
    expect(stored!.length).toBeGreaterThan(20)
    for (const [name] of stored as [string][]) expect(statuses[Number(name.slice(8))], name).toBe(200)
  }, 300_000)
})
