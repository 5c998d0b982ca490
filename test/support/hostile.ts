// Requests that mean harm, or were made by a broken client: for any operation, from its own schemas.
import * as fc from 'fast-check'
import * as z from 'zod'
import type { Operation } from '../../src/kernel/routes.ts'

export type Body = { text: string; as: 'utf8' | 'bytes'; spaces: number; streamed: boolean }
export type Hostile = { method: string; path: string; headers: Record<string, string>; body: Body | null }
/** What exists, so that a request can be wrong in one place only. */
export type Known = { ids: string[]; tenant_id: string }

const nested = (depth: number, [open, close]: [string, string]) => open.repeat(depth) + close.repeat(depth)
const anyString = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.array(fc.integer({ max: 0xffff, min: 0 }), { maxLength: 20 }).map(units => String.fromCharCode(...units)),
)
const TIMES = [
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00+23:59',
  '0099-06-01T00:00:00Z',
  '9999-12-31T23:59:59-23:59',
  '9999-12-31T23:59:59.999999999Z',
  '+275760-09-13T00:00:00Z',
  '2016-12-31T23:59:60Z',
  '2030-02-29T00:00:00Z',
  '2030-01-01T24:00:00Z',
  '2030-01-01T00:00:00+15:60',
  '2030-01-01T00:00:00+23:59',
  `2030-01-01T00:00:00.${'1'.repeat(400)}Z`,
  '2030-01-01 00:00:00',
  'infinity',
]
const EMAILS = [
  ...[
    'A@EXAMPLE.COM',
    '\u212a@example.com',
    'a\u0130@example.com',
    ' a@example.com ',
    `${'a'.repeat(250)}@b.co`,
    'a@b',
  ],
  ...['a@xn--.com', 'a+b@example.com', 'a\0@example.com', '"a b"@example.com', 'a@[127.0.0.1]', '.a@b.co', 'a..b@c.co'],
]
const TEXTS = [
  ...[
    '',
    ' ',
    '\u200b',
    '\ufeff',
    '\u2028',
    '\0',
    'a\0b',
    '\ud800',
    'a\udfffb',
    '\u202e',
    'e\u0301',
    '%',
    '%00',
    '\\',
    '*',
  ],
  ...['null', 'undefined', 'NaN', '-1', '1e3', '0x10', '9'.repeat(30), "'", '"', '{{7*7}}', '../..', '__proto__'],
  ...["x'; select 1 --", '{}', '{"a"}', '\\x00', 'a@b', 'A@EXAMPLE.COM', '\u212a@example.com', 'a\u0130@example.com'],
  ...['a'.repeat(129), 'a'.repeat(70_000), '00000000-0000-4000-8000-000000000001', '-'.repeat(36), ...TIMES],
]
const text = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...TEXTS) }, { weight: 1, arbitrary: anyString })

/** A JSON text that is wrong for most members; as text, because not all of it survives JSON.stringify. */
const value = fc.oneof(
  { weight: 4, arbitrary: text.map(one => JSON.stringify(one)) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 4 }).map(one => JSON.stringify(one)) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...['null', 'true', '0', '-0', '-1', '1.5', '1e400', '-1e400', '9007199254740993', '1e-400', '9'.repeat(400)],
      ...['{}', '[]', '[[]]', '[null]', '{"__proto__":{"a":1}}', '{"toString":null,"constructor":1}', '{"length":1e9}'],
      ...[nested(60, ['[', ']']), nested(70, ['[', ']']), nested(10_000, ['[', ']']), `[${'0,'.repeat(5000)}0]`],
      ...[`[${'"deployments:read",'.repeat(9)}"deployments:read"]`, `{"${'k'.repeat(5000)}":"\\u0000"}`],
    ),
  },
)

type Properties = { properties?: Record<string, Shape> }
type Shape = { type?: string; format?: string; anyOf?: Shape[]; items?: { enum?: string[] } }

/** What comes close to being right for a member: its kind of value, but past what can be stored or told. */
function nearly({ anyOf = [], ...shape }: Shape): fc.Arbitrary<string>[] {
  const { type, format, items } = shape
  const known = items?.enum
  return [
    ...anyOf.flatMap(nearly),
    ...(format === 'date-time' ? [fc.constantFrom(...TIMES).map(one => JSON.stringify(one))] : []),
    ...(format === 'email' ? [fc.constantFrom(...EMAILS).map(one => JSON.stringify(one))] : []),
    ...(known ? [fc.array(fc.constantFrom(...known, 'unknown')).map(one => JSON.stringify(one))] : []),
    ...(type === 'string' && !format ? [anyString.map(one => JSON.stringify(one))] : []),
  ]
}

/** A named schema stands under its name. */
function shapesOf(body: z.ZodType): [string, Shape][] {
  const root = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' }) as Properties & {
    $defs?: Record<string, Properties>
  }
  const named = Object.values(root.$defs ?? {}).map(one => one.properties)
  return [root.properties, ...named].flatMap(shapes => Object.entries(shapes ?? {}))
}

/** A member of the body and a value for it. */
function member(body: z.ZodType | undefined): fc.Arbitrary<[string, string]> {
  const declared = body ? shapesOf(body) : []
  if (body && declared.length === 0) throw new Error('a body without members cannot be broken')
  const arbitraries = declared.map(([name, shape]) =>
    fc.tuple(fc.constant(name), fc.oneof(value, ...nearly(shape).map(arbitrary => ({ arbitrary, weight: 2 })))),
  )
  const others = fc.constantFrom('__proto__', 'constructor', 'toString', 'unknown', '')
  return fc.oneof(...arbitraries, fc.tuple(others, value))
}

const object = (entries: [string, string][]) =>
  `{${entries.map(([name, one]) => `${JSON.stringify(name)}:${one}`).join(',')}}`

/** The operation's example with some members broken, left out or doubled. */
function bodyText({ body }: Operation): fc.Arbitrary<string> {
  const example = Object.entries((body?.meta()?.example ?? {}) as object)
  const sound = example.map(([name, one]): [string, string] => [name, JSON.stringify(one)])
  const broken = fc
    .array(member(body), { minLength: 1, maxLength: 3 })
    .chain(changes => fc.boolean().map(kept => object([...(kept ? sound : []), ...changes])))
  const whole = fc.constant(object(sound))
  return fc.oneof(
    { weight: 8, arbitrary: broken },
    { weight: 1, arbitrary: whole },
    { weight: 2, arbitrary: value },
    { weight: 1, arbitrary: fc.tuple(broken, fc.nat()).map(([one, cut]) => one.slice(0, cut % one.length)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        ...[
          '',
          ' ',
          '\ufeff',
          `\ufeff${object(sound)}`,
          '{',
          ']',
          '{"a":1,}',
          "{'a':1}",
          'NaN',
          '\0',
          '{"a":1}{}',
          '/**/{}',
        ],
        ...[
          '['.repeat(10_000),
          '{"a":'.repeat(10_000),
          nested(10_000, ['{"a":[', ']}']),
          '<a/>',
          'a=b&c=d',
          '"\\ud800"',
        ],
      ),
    },
    { weight: 1, arbitrary: anyString },
  )
}

function bodyOf(operation: Operation): fc.Arbitrary<Body | null> {
  const some = fc.record({
    text: bodyText(operation),
    // As bytes, what is past ASCII is not UTF-8.
    as: fc.constantFrom('utf8' as const, 'utf8' as const, 'utf8' as const, 'bytes' as const),
    spaces: fc.oneof({ weight: 60, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1024 * 1024 + 1) }),
    streamed: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  })
  return fc.oneof(
    { weight: operation.method === 'get' ? 0 : 12, arbitrary: some },
    { weight: 1, arbitrary: fc.constant(null) },
  )
}

const cursor = fc
  .oneof(
    fc
      .tuple(
        fc.oneof(fc.constantFrom(...TIMES), fc.constantFrom('0000-01-01', '2030-02-31', '2030-01-01', '9999-99-99')),
        fc.constantFrom(' 00:00:00+00', ' 24:00:00+00', ' 00:00:60.123456+00', ' 23:59:59+99', ''),
        fc.constantFrom('-'.repeat(36), '00000000-0000-4000-8000-000000000001', 'f'.repeat(36), ''),
      )
      .map(([day, time, id]) => `${day}${time}~${id}`),
    anyString,
  )
  .map(plain => Buffer.from(plain).toString('base64url'))

function searchOf({ query }: Operation): fc.Arbitrary<string> {
  const names = [
    ...Object.keys(query?.shape ?? {}),
    '__proto__',
    'toString',
    'unknown',
    '',
    '%00',
    '%ff',
    '%',
    'limit[]',
  ]
  const raw = fc.constantFrom(
    '',
    '0',
    '1',
    '-1',
    '100',
    '101',
    '9007199254740991',
    '9'.repeat(15),
    '9'.repeat(40),
    '1.5',
    '%00',
    '%ff',
    '%zz',
    '%',
    '+',
    '%ED%A0%80',
    '1&limit=2',
  )
  const one = fc.oneof(raw, text.map(encode), cursor)
  const pairs = fc.array(fc.tuple(fc.constantFrom(...names), one), { maxLength: 3 })
  return pairs.map(some => (some.length > 0 ? `?${some.map(([name, it]) => `${name}=${it}`).join('&')}` : ''))
}

/** encodeURIComponent refuses what is not well-formed; a client's own encoder would not. */
const encode = (plain: string) => encodeURIComponent(plain.slice(0, 2000).toWellFormed())

function pathOf({ path, method }: Operation, { ids }: Known): fc.Arbitrary<string> {
  // What exists stays for the requests that follow.
  const known = method === 'delete' ? fc.uuid() : fc.constantFrom(...ids)
  const odd = fc.constantFrom(
    '%00',
    '%ff',
    '%zz',
    '%',
    '.',
    '..',
    '%2e%2e',
    '%2F',
    ';',
    'current',
    '*',
    ':id',
    'null',
    '-1',
  )
  const param = fc.oneof(
    { weight: 6, arbitrary: known },
    { weight: 1, arbitrary: fc.uuid() },
    { weight: 1, arbitrary: known.map(id => id.toUpperCase()) },
    { weight: 2, arbitrary: odd },
    { weight: 2, arbitrary: text.map(encode) },
  )
  const params = path.match(/\{\w+\}/g) ?? []
  return fc
    .tuple(...params.map(() => param))
    .map(values => values.reduce<string>((made, one) => made.replace(/\{\w+\}/, () => one), path))
}

/** What a header can carry: anything of Latin-1 but line ends and NUL. */
const headerText = fc
  .array(fc.oneof(fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0xa0, max: 0xff }), fc.constant(9)), {
    maxLength: 40,
  })
  .map(codes => String.fromCharCode(...codes))
const often = <T>(weight: number, usual: fc.Arbitrary<T>, ...others: fc.Arbitrary<T>[]) =>
  fc.oneof({ weight, arbitrary: usual }, ...others.map(arbitrary => ({ weight: 1, arbitrary })))

function headersOf({ tenant_id }: Known): fc.Arbitrary<Record<string, string>> {
  const twice = `${tenant_id}, ${tenant_id}`
  const tenants = fc.constantFrom(
    tenant_id.toUpperCase(),
    twice,
    `{${tenant_id}}`,
    `${tenant_id} x`,
    '',
    '*',
    crypto.randomUUID(),
  )
  const tags = fc.constantFrom(
    '*',
    '"1"',
    'W/"1"',
    '"99999999999999999999"',
    '"1", '.repeat(900),
    '"-1"',
    '1',
    '""',
    '"1',
  )
  const keys = fc.constantFrom('k', 'a b', '\xe9', 'x'.repeat(255), 'x'.repeat(256), '', 'k, k', "'", '\\')
  const types = fc.constantFrom(
    'text/plain',
    'application/json;charset=latin1',
    'application/jsonx',
    'multipart/form-data',
    '',
    'application/problem+json',
    'APPLICATION/JSON',
  )
  const lengths = fc.constantFrom('0', '-1', '1e9', 'x', '9'.repeat(40), '5', '1048577')
  const ids = fc.constantFrom('x'.repeat(129), 'a b', '\xe9', '', 'fine', '{"a":1}', '<script>')
  return fc
    .record(
      {
        'X-Tenant-Id': often(30, fc.constant(tenant_id), tenants, headerText),
        'Content-Type': often(30, fc.constant('application/json'), types, headerText),
        'If-Match': often(2, tags, headerText),
        'If-None-Match': often(2, tags, headerText),
        'Idempotency-Key': often(2, keys, fc.uuid(), headerText),
        'Content-Length': lengths,
        'X-Request-Id': often(2, ids, headerText),
        Accept: often(2, fc.constantFrom('*/*', 'text/html', 'application/xml;q=0', 'x'.repeat(17_000)), headerText),
        Origin: headerText,
      },
      { requiredKeys: ['X-Tenant-Id', 'Content-Type'] },
    )
    .chain(headers =>
      // Most requests carry few of them: a refused one says nothing about what comes after it.
      fc
        .subarray(Object.keys(headers), { maxLength: 2 })
        .map(kept =>
          Object.fromEntries(
            Object.entries(headers).filter(([name]) => /^X-T|^Content-T/.test(name) || kept.includes(name)),
          ),
        ),
    )
}

export function hostile(operation: Operation, known: Known): fc.Arbitrary<Hostile> {
  const method = operation.method.toUpperCase()
  const odd = fc.constantFrom('HEAD', 'PUT', 'OPTIONS', 'PROPFIND', 'PURGE', 'x')
  return fc
    .record({
      method: often(30, fc.constant(method), odd),
      path: pathOf(operation, known),
      search: searchOf(operation),
      headers: headersOf(known),
      body: bodyOf(operation),
    })
    .map(({ search, path, ...rest }) => ({ ...rest, path: path + search }))
}

export function bytesOf({ text, as, spaces }: Body): Uint8Array<ArrayBuffer> {
  const padded = text + ' '.repeat(spaces)
  return as === 'bytes' ? Uint8Array.from(padded, unit => unit.charCodeAt(0) & 0xff) : new TextEncoder().encode(padded)
}

/** In pieces, and without a length. */
export function streamOf(bytes: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      const end = at < 3 ? at + 1 : at + 64 * 1024
      controller.enqueue(bytes.slice(at, end))
      at = end
    },
  })
}
