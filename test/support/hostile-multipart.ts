// Multipart bodies of runs that are wrong in one place or a few: in a value, in a part, in the framing.
import { orderOf, type SentPart } from './parts.ts'
import * as fc from './seeded-fast-check.ts'

type Member = [name: string, value: unknown]
export type HostileBody = { bytes: Uint8Array<ArrayBuffer>; type: string }

const BOUNDARY = 'hostile'
const nested = (depth: number) => `${'[{"a":'.repeat(depth)}1${'}]'.repeat(depth)}`
const utf8 = (text: string) => Uint8Array.from(Buffer.from(text))
const latin1 = (text: string) => Uint8Array.from(Buffer.from(text, 'latin1'))

const IDS = ['', 'x', '0', '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', null, 7, {}]
const TIMES = [
  '',
  'now',
  '0000-01-01T00:00:00Z',
  '2026-13-45T99:99:99Z',
  '+010000-01-01T00:00:00Z',
  '2026-02-30T00:00:00Z',
  '2026-11-24T09:00:00.1234567890123Z',
  '2026-11-24T09:00:00+99:99',
  -1,
  0,
  1e308,
  8.64e15 + 1,
  1.5,
  true,
  null,
]
const ORDERS = [
  '',
  '.',
  'x',
  '20261124T090000000000Z',
  `99999999T999999999999Z${IDS[3]}`,
  `20261124T090000000000Z${IDS[3]}`,
  Array(102).fill(`20261124T090000000000Z${IDS[4]}`).join('.'),
  Array(9000).fill('1').join('.'),
]
const TEXTS = ['', '\0', '\ud800', '\udfff\ud800', 'é😀', 'a'.repeat(5000), "'; drop table runs; --", '\u202e', '{}']
const COUNTS = [[], ['a', 7], Array(2000).fill('tag'), ['\0', '\ud800'], 'tag', {}, null]

/** Members of a run that may be wrong. */
const member: fc.Arbitrary<Member> = fc.oneof(
  fc.tuple(
    fc.constantFrom('id', 'trace_id', 'parent_run_id', 'session_id', 'reference_example_id'),
    fc.constantFrom(...IDS),
  ),
  fc.tuple(fc.constantFrom('start_time', 'end_time'), fc.constantFrom(...TIMES)),
  fc.tuple(fc.constant('dotted_order'), fc.constantFrom(...ORDERS)),
  fc.tuple(
    fc.constantFrom('name', 'run_type', 'session_name', 'error', 'status'),
    fc.oneof(fc.constantFrom(...TEXTS), fc.jsonValue()),
  ),
  fc.tuple(fc.constant('tags'), fc.constantFrom(...COUNTS)),
  fc.tuple(fc.constantFrom('inputs', 'outputs', 'events', 'extra', 'serialized'), fc.jsonValue()),
  fc.tuple(fc.constantFrom('__proto__', 'constructor', 'child_runs', 'toString', ''), fc.jsonValue()),
)

/** Contents of a part that may not be JSON, or not of the kind that is asked for. */
const content: fc.Arbitrary<Uint8Array<ArrayBuffer>> = fc.oneof(
  fc
    .constantFrom(
      '',
      'null',
      '[]',
      '{}',
      '{',
      '"',
      '1e999',
      '{"a":1,}',
      '\ufeff{}',
      '{"a":\0}',
      nested(300),
      '[[],'.repeat(300),
    )
    .map(utf8),
  fc.constantFrom('{"a":"\xff"}', '{"a":"\xc0\x80"}', '\xed\xa0\x80', '{"\xe2\x82":1}').map(latin1),
  fc
    .constantFrom('{"a":"\\u0000","b":"\\ud800","\\u0000":1}', '{"metadata":{"\\u0000":"\\udc00","__proto__":{"a":1}}}')
    .map(utf8),
  fc
    .constantFrom('{"usage_metadata":{"input_tokens":1e400,"total_cost":-1}}', '[{"name":"new_token","time":1e300}]')
    .map(utf8),
  fc.json().map(utf8),
  fc.uint8Array({ maxLength: 60 }) as fc.Arbitrary<Uint8Array<ArrayBuffer>>,
)
const headers: fc.Arbitrary<string[]> = fc.constantFrom(
  [],
  ['Content-Type: application/json'],
  ['Content-Type: application/json; length=99999999999999999999'],
  ['Content-Type: application/json; length=-1'],
  ['Content-Type: application/json; length=2; length=2'],
  ['Content-Length: 2', 'Content-Length: 2'],
  ['Content-Type: text/html; length=2'],
  ['Content-Type: application/json; length=2', 'Content-Encoding: gzip'],
  ['X: é'],
  ['no colon'],
  [' folded: 1'],
  [`X: ${'a'.repeat(9000)}`],
  ['X: \0'],
)
const partName = (id: string) =>
  fc.constantFrom(
    '',
    'post',
    'post.',
    `post.${id}.`,
    `post.${id}.inputs.more`,
    `patch.${id}`,
    `post.${id.toUpperCase()}`,
    'post.x',
    `attachment.${id}`,
    `attachment.${id}.a.b`,
    `attachment.${id}.\ud83d`,
    `feedback.${id}`,
    'feedback.x',
    '../../etc',
    `post.${id}.unknown`,
    `"`,
    `post.${id}"; name="x`,
    'a'.repeat(7000),
  )

type Edit = (parts: SentPart[]) => SentPart[]
const at = <T>(list: T[], index: number) => index % Math.max(1, list.length)
const replaceAt =
  (index: number, change: (part: SentPart) => SentPart): Edit =>
  parts =>
    parts.map((one, i) => (i === at(parts, index) ? change(one) : one))
const withLength = (part: SentPart): SentPart => ({
  ...part,
  headers: [`Content-Type: application/json; length=${Buffer.byteLength(part.content)}`],
})

/** One part changed, left out, repeated, or sent a hundred times. */
const edit = (id: string): fc.Arbitrary<Edit> =>
  fc.oneof(
    fc.tuple(fc.nat(), content).map(([i, bytes]) => replaceAt(i, part => withLength({ ...part, content: bytes }))),
    fc.tuple(fc.nat(), headers).map(([i, list]) => replaceAt(i, part => ({ ...part, headers: list }))),
    fc.tuple(fc.nat(), partName(id)).map(([i, name]) => replaceAt(i, part => ({ ...part, name }))),
    fc.nat().map(
      (i): Edit =>
        parts =>
          parts.filter((_, place) => place !== at(parts, i)),
    ),
    fc.tuple(fc.nat(), fc.constantFrom(1, 1, 1, 300)).map(
      ([i, times]): Edit =>
        parts => [
          ...parts,
          ...Array(times)
            .fill(parts[at(parts, i)] ?? [])
            .flat(),
        ],
    ),
    fc.constantFrom(150, 201, 250).map(
      (count): Edit =>
        parts => [...parts, ...Array.from({ length: count }, (_, i) => mainPart(nthId(id, i + 1), 'many'))],
    ),
  )

/** Another id, the same in each run of a seed. */
const nthId = (id: string, n: number) => id.slice(0, 24) + n.toString(16).padStart(12, '0')

function mainPart(id: string, project: string, members: Member[] = []): SentPart {
  const run = { id, trace_id: id, dotted_order: orderOf(id), name: 'hostile', run_type: 'chain', session_name: project }
  return withLength({
    name: `post.${id}`,
    content: JSON.stringify({ ...run, start_time: '2026-11-24T09:00:00Z', ...Object.fromEntries(members) }),
    headers: [],
  })
}

/** A run as clients send it, with a member of its own, an attachment and feedback. */
function partsOf(id: string, project: string, members: Member[]): SentPart[] {
  const json = (name: string, value: object | string) =>
    withLength({ name, content: JSON.stringify(value), headers: [] })
  return [
    mainPart(id, project, members),
    json(`post.${id}.inputs`, { question: 'Why?' }),
    json(`patch.${id}`, { id, trace_id: id, dotted_order: orderOf(id), end_time: '2026-11-24T09:00:01Z' }),
    json(`patch.${id}.outputs`, { usage_metadata: { input_tokens: 1 } }),
    json(`patch.${id}.error`, 'boom'),
    {
      name: `attachment.${id}.picture`,
      content: Uint8Array.of(0, 13, 10, 45, 45),
      headers: ['Content-Type: image/png; length=5'],
    },
    json(`feedback.${nthId(id, 0)}`, { run_id: id, trace_id: id, key: 'correct', score: 1 }),
  ]
}

type Frame = (body: Buffer) => Buffer
const splice =
  (from: number, length: number, bytes: Uint8Array): Frame =>
  body => {
    const start = from % (body.length + 1)
    return Buffer.concat([body.subarray(0, start), bytes, body.subarray(start + length)])
  }
const frame: fc.Arbitrary<Frame> = fc.oneof(
  fc.nat().map(
    (end): Frame =>
      body =>
        body.subarray(0, end % body.length),
  ),
  fc
    .tuple(fc.nat(), fc.nat(30), fc.uint8Array({ maxLength: 8 }))
    .map(([from, length, bytes]) => splice(from, length, bytes)),
  fc.constantFrom<Frame>(
    body => Buffer.concat([Buffer.from('preamble\r\n'), body]),
    body => Buffer.concat([body, Buffer.from('epilogue')]),
    body => Buffer.concat([body, body]),
    body => Buffer.from(body.toString('latin1').replaceAll('\r\n', '\n'), 'latin1'),
    body => Buffer.from(body.toString('latin1').replaceAll(`--${BOUNDARY}--`, `--${BOUNDARY}`), 'latin1'),
    () => Buffer.from(`--${BOUNDARY}\r\n`.repeat(5000)),
    () => Buffer.alloc(0),
  ),
)
const contentType = fc.constantFrom(
  '',
  '; boundary=',
  '; boundary=other',
  `; boundary=${'a'.repeat(71)}`,
  '; boundary="a\\"b"',
  '; boundary=é',
  `; boundary=${BOUNDARY}; boundary=${BOUNDARY}`,
  '; boundary=--',
  `;boundary="${BOUNDARY}"`,
)

function join(parts: SentPart[]): Buffer {
  const chunks = parts.flatMap(({ name, content, headers: list }) => [
    Buffer.from([`--${BOUNDARY}`, `Content-Disposition: form-data; name="${name}"`, ...list, '', ''].join('\r\n')),
    Buffer.from(content as string),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...chunks, Buffer.from(`--${BOUNDARY}--\r\n`)])
}

const mostly = <T>(right: T, wrong: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(right) }, { weight: 2, arbitrary: wrong })

/** Some are valid. The runs belong to `project`, unless the project is the fault. */
export const hostileMultipart = (project: string): fc.Arbitrary<HostileBody> =>
  fc.uuid().chain(id =>
    fc
      .record({
        members: mostly<Member[]>([], fc.array(member, { maxLength: 3 })),
        edits: mostly<Edit[]>([], fc.array(edit(id), { maxLength: 2 })),
        frame: mostly<Frame | null>(null, frame),
        type: mostly<string | null>(null, contentType),
      })
      .map(({ members, edits, frame: broken, type }) => {
        const parts = edits.reduceRight<SentPart[]>((list, change) => change(list), partsOf(id, project, members))
        const body = broken ? broken(join(parts)) : join(parts)
        return { bytes: Uint8Array.from(body), type: `multipart/form-data${type ?? `; boundary=${BOUNDARY}`}` }
      }),
  )
