// Spans decoded from both encodings, against OpenTelemetry's own serializers, and from hostile bytes.
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import { type Attributes as OtelAttributes, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { describe, expect, it } from 'vitest'
import { decodeJson } from '../../../../src/tracing/ingest/otlp/json.ts'
import { decodeProtobuf } from '../../../../src/tracing/ingest/otlp/protobuf.ts'
import { UndecodableSpans } from '../../../../src/tracing/ingest/otlp/spans.ts'
import { expectCheap } from '../../../support/cpu-cost.ts'
import * as fc from '../../../support/seeded-fast-check.ts'

type Recorded = { name: string; attributes: OtelAttributes; event?: OtelAttributes; error?: string }

function record(spans: Recorded[]) {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  const tracer = provider.getTracer('test')
  for (const { name, attributes, event, error } of spans) {
    const span = tracer.startSpan(name, { attributes, kind: SpanKind.CLIENT })
    if (event) span.addEvent('happened', event)
    if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
    span.end()
  }
  return exporter.getFinishedSpans()
}

const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const scalar = fc.oneof(
  text,
  fc.boolean(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter(number => !Number.isInteger(number)),
  fc.array(text, { maxLength: 3 }),
)
const attributes = fc.dictionary(text.filter(Boolean), scalar, { maxKeys: 6 }) as fc.Arbitrary<OtelAttributes>
const spans = fc.array(fc.record({ name: text, attributes, event: attributes, error: text }), {
  minLength: 1,
  maxLength: 4,
})

const decodeJsonBytes = (bytes: Uint8Array) => decodeJson(JSON.parse(new TextDecoder().decode(bytes)))

/** Throws anything but an error that the route answers with 400. */
const tryDecode = (decode: () => unknown) =>
  expectCheap(
    'a body',
    0,
    () => {
      try {
        decode()
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
      }
    },
    2_000,
  )

describe('spans', () => {
  it('are the same from protobuf and from JSON, as OpenTelemetry writes them', () => {
    fc.assert(
      fc.property(spans, recorded => {
        const finished = record(recorded)
        const fromProtobuf = decodeProtobuf(ProtobufTraceSerializer.serializeRequest(finished)!)
        expect(fromProtobuf).toEqual(decodeJsonBytes(JsonTraceSerializer.serializeRequest(finished)!))
        const decoded = fromProtobuf.flatMap(({ spans }) => spans)
        expect(decoded.map(({ name }) => name)).toEqual(recorded.map(({ name }) => name))
        expect(decoded[0]!.trace_id).toBe(finished[0]!.spanContext().traceId)
        expect(Object.fromEntries(decoded[0]!.attributes)).toEqual(recorded[0]!.attributes)
        expect(Object.fromEntries(decoded[0]!.events[0]!.attributes)).toEqual(recorded[0]!.event)
        expect(decoded[0]!.status).toEqual({ code: 2, message: recorded[0]!.error })
      }),
      { numRuns: 50 },
    )
  })

  it('keep the digits of integers, and write numbers that JSON does not have as texts', () => {
    const values = {
      big: { intValue: '9007199254740993' },
      none: { doubleValue: 'NaN' },
      bytes: { bytesValue: 'AQI=' },
    }
    const attributes = Object.entries(values).map(([key, value]) => ({ key, value }))
    const [decoded] = decodeJson({ resourceSpans: [{ scopeSpans: [{ spans: [{ attributes }] }] }] })
    expect([...decoded!.spans[0]!.attributes]).toEqual([
      ['big', 9007199254740993n],
      ['none', 'NaN'],
      ['bytes', 'AQI='],
    ])
  })

  it('may have members that are not known, in both encodings', () => {
    const unknown = new BinaryWriter().tag(99, 2).string('later').tag(98, 0).int32(1).finish()
    expect(decodeProtobuf(unknown)).toEqual([])
    expect(
      decodeJson({ later: 1, resourceSpans: [{ schemaUrl: '', scopeSpans: [{ scope: {}, spans: [{ a: 1 }] }] }] }),
    ).toMatchObject([{ spans: [{ name: '' }] }])
  })
})

/** An attribute whose value has so many lists around it. */
function nestLists(depth: number): Uint8Array {
  let value = new BinaryWriter().tag(1, 2).string('deep').finish()
  for (let i = 0; i < depth; i++)
    value = new BinaryWriter().tag(5, 2).bytes(new BinaryWriter().tag(1, 2).bytes(value).finish()).finish()
  const pair = new BinaryWriter().tag(1, 2).string('key').tag(2, 2).bytes(value).finish()
  return wrap(new BinaryWriter().tag(9, 2).bytes(pair).finish())
}
/** Makes a request with one span. */
const wrap = (span: Uint8Array): Uint8Array => wrapScope(new BinaryWriter().tag(2, 2).bytes(span).finish())
const wrapScope = (spans: Uint8Array): Uint8Array =>
  [2, 1].reduce((inner, field) => new BinaryWriter().tag(field, 2).bytes(inner).finish(), spans)
const times = (bytes: Uint8Array, count: number): Uint8Array =>
  Buffer.concat(Array.from({ length: count }, () => bytes))

describe('hostile bytes are refused', () => {
  it.each<[string, Uint8Array]>([
    ['a truncated varint', wrap(Uint8Array.of(0x08, 0xff))],
    ['a varint of more than 64 bits', wrap(Uint8Array.of(0x7a, 0x0c, 0x18, ...Array(11).fill(0xff)))],
    ['a length beyond the body', Uint8Array.of(0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f)],
    ['a length beyond its message', Uint8Array.of(0x0a, 0x02, 0x12, 0x05, 0x12, 0x03, 1, 2, 3)],
    ['a text that is not UTF-8', wrap(Uint8Array.of(0x2a, 0x02, 0xc3, 0x28))],
    ['the field number 0', wrap(Uint8Array.of(0x02, 0x00))],
    ['groups in groups', Buffer.alloc(100_000, 0x0b)],
    ['a time that is cut', wrap(Uint8Array.of(0x39, 0x01))],
    ['lists in lists', nestLists(65)],
    ['more spans than memory is for', wrapScope(times(Uint8Array.of(0x12, 0x00), 10_001))],
    ['more values than memory is for', times(Uint8Array.of(0x0a, 0x00), 500_001)],
  ])('%s', (_, bytes) => expect(() => decodeProtobuf(bytes)).toThrow())

  it('but not a value that is nested as deep as allowed', () => expect(decodeProtobuf(nestLists(64))).toHaveLength(1))

  it.each<[string, unknown]>([
    ['a text', 'resourceSpans'],
    ['null', null],
    ['a list', []],
    ['an object for a list', { resourceSpans: {} }],
    ['a list of numbers', { resourceSpans: [1] }],
    ['a name that is a number', { resourceSpans: [{ scopeSpans: [{ spans: [{ name: 1 }] }] }] }],
    ['a time with a fraction', { resourceSpans: [{ scopeSpans: [{ spans: [{ startTimeUnixNano: 1.5 }] }] }] }],
    ['a time beyond 64 bits', { resourceSpans: [{ scopeSpans: [{ spans: [{ startTimeUnixNano: 1e300 }] }] }] }],
  ])('in JSON: %s', (_, json) => expect(() => decodeJson(json)).toThrow(UndecodableSpans))

  it('or decoded, in bounded time', async () => {
    const real = ProtobufTraceSerializer.serializeRequest(
      record([{ name: 'model', attributes: { 'gen_ai.prompt': 'Hello', n: [1, 2] }, event: { a: 1 } }]),
    )!
    const damaged = fc
      .array(fc.tuple(fc.nat(real.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 })
      .map(changes => {
        const bytes = new Uint8Array(real)
        for (const [at, byte] of changes) bytes[at] = byte
        return bytes
      })
    const bytes = fc.oneof(
      damaged,
      fc.uint8Array({ maxLength: 200 }),
      fc.nat(real.length).map(end => real.slice(0, end)),
    )
    await fc.assert(
      fc.asyncProperty(bytes, body => tryDecode(() => decodeProtobuf(body))),
      { numRuns: 3_000 },
    )
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 6 }), json => tryDecode(() => decodeJson({ resourceSpans: json }))),
      {
        numRuns: 500,
      },
    )
  })
})
