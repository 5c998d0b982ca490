// Exports of spans that are wrong in a value, in their encoding, or in their structure: as JSON and as protobuf.
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { HostileBody } from './hostile-multipart.ts'
import * as fc from './seeded-fast-check.ts'

const JSON_TYPE = 'application/json'
const PROTOBUF = 'application/x-protobuf'

/** Length-delimited fields, from the outermost. */
export const wrap = (bytes: Uint8Array, ...fields: number[]) =>
  fields.reduceRight(
    (inner, field) => new BinaryWriter().tag(field, 2).bytes(inner).finish(),
    bytes,
  ) as Uint8Array<ArrayBuffer>

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.constantFrom('', '\0', '\ud800', '0', 'a'.repeat(300)),
)
/** Prefers valid values, so that many bodies reach the database. */
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
  'gen_ai.prompt',
  'gen_ai.input.messages',
  'langsmith.trace.session_name',
  'langsmith.trace.session_id',
  'metadata',
  'langsmith.span.dotted_order',
  'langsmith.span.id',
  'langsmith.reference_example_id',
  'gen_ai.conversation.id',
  'langsmith.span.tags',
  'gen_ai.usage.input_tokens',
  'gen_ai.usage.cost',
  'langsmith.is_root',
  'toString',
  'langsmith.usage_metadata',
  'langsmith.metadata.usage_metadata',
)
const time = mostly(fc.bigInt(1n, 2n ** 64n - 1n).map(String), fc.constantFrom('0', -1, 1.5, ''))
const attributes = fc.array(fc.record({ key: fc.oneof(key, text), value }), { maxLength: 6 })
const span = fc.record(
  {
    traceId: hexOf(32),
    spanId: hexOf(16),
    parentSpanId: hexOf(16),
    name: text,
    startTimeUnixNano: time,
    endTimeUnixNano: time,
    attributes,
    events: fc.array(fc.record({ name: text, timeUnixNano: time, attributes }), { maxLength: 2 }),
    status: fc.record({ code: fc.oneof(fc.nat(3), text), message: text }),
  },
  { requiredKeys: [] },
)
const NOW = 1_795_345_413_598
const spans = fc.array(fc.tuple(fc.uuid(), span), { maxLength: 5 }).map(list =>
  list.map(([id, given]) => ({
    traceId: id.replaceAll('-', ''),
    spanId: 'b7ad6b7169203331',
    name: 'hostile',
    startTimeUnixNano: `${NOW}000000`,
    endTimeUnixNano: `${NOW + 1}000000`,
    ...given,
  })),
)
const nestedValue = (depth: number) => `${'{"arrayValue":{"values":['.repeat(depth)}{}${']}}'.repeat(depth)}`
const withAttribute = (json: string) =>
  `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x","attributes":[{"key":"a","value":${json}}]}]}]}]}`
const json = fc.oneof(
  { weight: 3, arbitrary: spans.map(list => JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: list }] }] })) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: text },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '{"resourceSpans":{}}',
      '{"resourceSpans":[null]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[1]}]}]}',
      ...[60, 200, 5000].map(depth => withAttribute(nestedValue(depth))),
      '['.repeat(100_000),
      `{"resourceSpans":[${'{},'.repeat(30_000)}{}]}`,
      ...['[],', '{},', '"",'].map(unit => `[${unit.repeat(1_500_000)}0]`),
      ...['[],', '{},'].map(unit => withAttribute(`{"stringValue":"[${unit.repeat(1_500_000)}0]"}`)),
    ),
  },
)

// ---- protobuf

type Members = Record<string, unknown>
const hexBytes = (hex: unknown) => Uint8Array.from(Buffer.from(String(hex ?? ''), 'hex'))
const fixed = (number: unknown) => (/^\d{1,19}$/.test(String(number)) ? BigInt(String(number)) : 1n)
const string = (given: unknown) => String(given ?? '').toWellFormed()

function encodeValue({ stringValue, intValue, doubleValue }: Members): Uint8Array {
  const writer = new BinaryWriter()
  if (intValue !== undefined) return writer.tag(3, 0).int64(String(intValue)).finish()
  if (typeof doubleValue === 'number') return writer.tag(4, 1).double(doubleValue).finish()
  return writer.tag(1, 2).string(string(stringValue)).finish()
}
const isMembers = (given: unknown): given is Members => typeof given === 'object' && given !== null

function encodeSpan(of: Members): Uint8Array {
  const writer = new BinaryWriter()
  for (const [field, id] of [of.traceId, of.spanId, null, of.parentSpanId].entries())
    if (id) writer.tag(field + 1, 2).bytes(hexBytes(id))
  writer.tag(5, 2).string(string(of.name))
  writer.tag(7, 1).fixed64(fixed(of.startTimeUnixNano)).tag(8, 1).fixed64(fixed(of.endTimeUnixNano))
  for (const attribute of (of.attributes as Members[] | undefined) ?? []) {
    const encoded = new BinaryWriter().tag(1, 2).string(string(attribute.key))
    encoded.tag(2, 2).bytes(encodeValue(isMembers(attribute.value) ? attribute.value : {}))
    writer.tag(9, 2).bytes(encoded.finish())
  }
  return writer.finish()
}
const plausible = spans.map(
  list => Uint8Array.from(Buffer.concat(list.map(one => wrap(encodeSpan(one), 1, 2, 2)))) as Uint8Array<ArrayBuffer>,
)
const nestedBytes = (depth: number) =>
  wrap(
    Array.from({ length: depth }).reduce<Uint8Array>(inner => wrap(inner, 5, 1), new Uint8Array()),
    1,
    2,
    2,
    9,
    2,
  )
const flipped = fc
  .tuple(plausible, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }))
  .map(([bytes, flips]) => {
    for (const [at, byte] of flips) if (bytes.length > 0) bytes[at % bytes.length] = byte
    return bytes
  })
const protobuf = fc.oneof(
  plausible,
  flipped,
  fc.tuple(plausible, fc.nat()).map(([bytes, end]) => bytes.slice(0, end % (bytes.length + 1))),
  fc.uint8Array({ maxLength: 60 }) as fc.Arbitrary<Uint8Array<ArrayBuffer>>,
  fc.uint8Array({ maxLength: 100 }).chain(bytes => fc.subarray([1, 2, 2, 9, 2]).map(fields => wrap(bytes, ...fields))),
  fc.constantFrom(
    ...[60, 3000].map(nestedBytes),
    // A length of 4 GB, one that is too long a number, a group without its end, and many empty fields.
    Uint8Array.of(0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f),
    Uint8Array.of(0x0a, ...Array(12).fill(0xff)),
    Uint8Array.of(0x0b, 0x0b, 0x0b),
    Uint8Array.from(Array(100_000).fill([0x0a, 0x00]).flat()),
  ),
)

export const hostileSpans: fc.Arbitrary<HostileBody> = fc.oneof(
  { weight: 10, arbitrary: json.map(one => ({ bytes: Uint8Array.from(Buffer.from(one)), type: JSON_TYPE })) },
  { weight: 10, arbitrary: protobuf.map(bytes => ({ bytes, type: PROTOBUF })) },
  { weight: 1, arbitrary: protobuf.map(bytes => ({ bytes, type: JSON_TYPE })) },
  { weight: 1, arbitrary: json.map(one => ({ bytes: Uint8Array.from(Buffer.from(one)), type: PROTOBUF })) },
)
