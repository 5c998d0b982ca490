// Hostile requests, and requests of broken clients, for any operation, from its own schemas.
import * as fc from 'fast-check'
import * as z from 'zod'
import type { Operation } from '../../src/kernel/http/routes.ts'
import * as odd from './hostile-values.ts'

export type HostileBody = { text: string; as: 'utf8' | 'bytes'; spaces: number; streamed: boolean }
export type HostileRequest = { method: string; path: string; headers: Record<string, string>; body: HostileBody | null }
/** With real ids, a request can be wrong in one place only. */
export type ExistingResources = { ids: string[]; tenant_id: string }

const MIB = 1024 * 1024
const pickWeighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))
const toJsonText = (text: fc.Arbitrary<unknown>) => text.map(one => JSON.stringify(one))

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.array(fc.integer({ max: 0xffff, min: 0 }), { maxLength: 20 }).map(units => String.fromCharCode(...units)),
)
const oddText = pickWeighted([3, fc.constantFrom(...odd.TEXTS)], [1, anyText])
/** encodeURIComponent throws on a lone surrogate. */
const encodedText = oddText.map(plain => encodeURIComponent(plain.slice(0, 2000).toWellFormed()))

// ---- bodies, as text

const anyJson = pickWeighted(
  [4, toJsonText(oddText)],
  [2, toJsonText(fc.jsonValue({ maxDepth: 4 }))],
  [3, fc.constantFrom(...odd.VALUES)],
)

type Properties = { properties?: Record<string, Shape> }
type Shape = { type?: string; format?: string; anyOf?: Shape[]; items?: { enum?: string[] } }

/** Values of a member's own type, but beyond its bounds. */
function nearlyValidValues({ anyOf = [], type, format, items }: Shape): fc.Arbitrary<string>[] {
  const near = anyOf.flatMap(nearlyValidValues)
  if (format === 'date-time') near.push(toJsonText(fc.constantFrom(...odd.TIMES)))
  else if (format === 'email') near.push(toJsonText(fc.constantFrom(...odd.EMAILS)))
  else if (format === 'uuid') near.push(toJsonText(fc.constantFrom(...odd.IDS)))
  else if (type === 'string') near.push(toJsonText(anyText))
  if (items?.enum) near.push(toJsonText(fc.array(fc.constantFrom(...items.enum, 'unknown'))))
  return near
}

/** Lists named schemas of `$defs`, and the elements of lists. */
function listShapes(body: z.ZodType): [string, Shape][] {
  type Listed = Properties & { items?: Properties & { anyOf?: Properties[] } }
  type Root = Listed & { $defs?: Record<string, Listed> }
  const root = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' }) as Root
  const all = [root, ...Object.values(root.$defs ?? {})]
  const parts = all.flatMap(one => [one, one.items, ...(one.items?.anyOf ?? [])])
  return parts.flatMap(part => Object.entries(part?.properties ?? {}))
}

function arbitraryMember(body: z.ZodType | undefined): fc.Arbitrary<[string, string]> {
  const declared = body ? listShapes(body) : []
  if (body && declared.length === 0) throw new Error('The body has no members.')
  const values = ([name, shape]: [string, Shape]) =>
    fc.tuple(
      fc.constant(name),
      pickWeighted([1, anyJson], ...nearlyValidValues(shape).map((one): [number, typeof one] => [2, one])),
    )
  const others = fc.constantFrom('__proto__', 'constructor', 'toString', 'unknown', '')
  return fc.oneof(...declared.map(values), fc.tuple(others, anyJson))
}

const toJsonObject = (entries: [string, string][]) =>
  `{${entries.map(([name, one]) => `${JSON.stringify(name)}:${one}`).join(',')}}`

/** Makes bodies of operations without a schema: the example, with a piece of it replaced. */
function arbitraryExample(example: string): fc.Arbitrary<string> {
  const broken = fc.tuple(fc.nat(), fc.nat(40), oddText).map(([at, length, text]) => {
    const start = at % example.length
    return example.slice(0, start) + text + example.slice(start + length)
  })
  return pickWeighted([8, broken], [1, fc.constant(example)], [1, anyText])
}

const listMedia = (operation: Operation) => (operation.kind === 'raw' ? Object.entries(operation.rawBody) : [])
/** The schema of a JSON body. */
const schemaOf = (operation: Operation) =>
  (operation.kind === 'json' || operation.kind === 'open' ? operation.body : undefined) ??
  listMedia(operation).find(([, { schema }]) => schema)?.[1].schema
const exampleOf = (operation: Operation) => listMedia(operation).find(([, { example }]) => example)?.[1].example

/** The operation's example: unchanged, cut short, or with members broken or added; or something else. */
function arbitraryBodyText(operation: Operation): fc.Arbitrary<string> {
  const body = schemaOf(operation)
  if (!body && operation.kind === 'raw') return arbitraryExample(exampleOf(operation)?.text ?? ' ')
  const example = (body?.meta()?.example ?? {}) as object
  const toText = (entries: [string, string][]) =>
    Array.isArray(example) ? `[${toJsonObject(entries)}]` : toJsonObject(entries)
  const sound = Object.entries(Array.isArray(example) ? example[0] : example).map(([name, one]): [string, string] => [
    name,
    JSON.stringify(one),
  ])
  const broken = fc
    .tuple(
      fc.array(arbitraryMember(body), { minLength: 1, maxLength: 3 }),
      pickWeighted([3, fc.constant(sound)], [1, fc.constant<typeof sound>([])]),
    )
    .map(([changes, members]) => toText([...members, ...changes]))
  const cut = fc.tuple(broken, fc.nat()).map(([one, at]) => one.slice(0, at % one.length))
  const whole = fc.constantFrom(toText(sound), `\ufeff${toText(sound)}`)
  return pickWeighted(
    [8, broken],
    [1, whole],
    [2, anyJson],
    [1, cut],
    [1, fc.constantFrom(...odd.BODIES)],
    [1, anyText],
  )
}

function arbitraryBody(operation: Operation): fc.Arbitrary<HostileBody | null> {
  const body = fc.record<HostileBody>({
    text: arbitraryBodyText(operation),
    // `bytes` has one byte per character: characters beyond ASCII are then invalid UTF-8.
    as: pickWeighted<HostileBody['as']>([3, fc.constant('utf8')], [1, fc.constant('bytes')]),
    spaces: pickWeighted([60, fc.constant(0)], [1, fc.constant(MIB + 1)]),
    streamed: pickWeighted([4, fc.constant(false)], [1, fc.constant(true)]),
  })
  return operation.method === 'get'
    ? fc.constant(null)
    : pickWeighted<HostileBody | null>([12, body], [1, fc.constant(null)])
}

export function toBytes({ text, as, spaces }: HostileBody): Uint8Array<ArrayBuffer> {
  const padded = text + ' '.repeat(spaces)
  return as === 'bytes' ? Uint8Array.from(padded, unit => unit.charCodeAt(0) & 0xff) : new TextEncoder().encode(padded)
}

/** Sends chunks without a Content-Length. */
export function streamBytes(bytes: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> {
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

// ---- addresses and headers

function arbitrarySearch({ query }: Operation): fc.Arbitrary<string> {
  const name = fc.constantFrom(...Object.keys(query?.shape ?? {}), ...odd.QUERY_NAMES)
  const any = fc.oneof(fc.constantFrom(...odd.QUERY_VALUES), encodedText, anyText.map(toCursor))
  const forged = fc.tuple(fc.constant('cursor'), fc.constantFrom(...odd.CURSORS))
  const pair = pickWeighted<[string, string]>(
    [5, fc.tuple(name, any)],
    [query && 'cursor' in query.shape ? 2 : 0, forged],
  )
  // The query that the route or its variant requires.
  const sound = Object.entries((query?.meta()?.example ?? {}) as Record<string, string>)
  return fc
    .tuple(pickWeighted([8, fc.constant(sound)], [1, fc.constant<typeof sound>([])]), fc.array(pair, { maxLength: 3 }))
    .map(pairs => pairs.flat().map(([name, it]) => `${name}=${it}`))
    .map(pairs => (pairs.length > 0 ? `?${pairs.join('&')}` : ''))
}

const toCursor = (plain: string) => Buffer.from(plain).toString('base64url')

function arbitraryPath({ path, method, query }: Operation, { ids }: ExistingResources): fc.Arbitrary<string> {
  // Later requests need what a DELETE would remove, and no request may wait for changes.
  const known = method === 'delete' || (query && 'timeout' in query.shape) ? fc.uuid() : fc.constantFrom(...ids)
  const upper = known.map(id => id.toUpperCase())
  const param = pickWeighted(
    [6, known],
    [1, fc.uuid()],
    [1, upper],
    [2, fc.constantFrom(...odd.SEGMENTS)],
    [2, encodedText],
  )
  const params = path.match(/\{\w+\}/g) ?? []
  return fc
    .tuple(...params.map(() => param))
    .map(values => values.reduce<string>((result, value) => result.replace(/\{\w+\}/, () => value), path))
}

/** At most two headers beside the required ones: an invalid header hides the checks after it. */
function arbitraryHeaders(
  operation: Operation,
  { tenant_id }: ExistingResources,
): fc.Arbitrary<Record<string, string>> {
  const type = schemaOf(operation) ? 'application/json' : (exampleOf(operation)?.contentType ?? 'application/json')
  const any = fc.string({ unit: 'grapheme-ascii', maxLength: 40 })
  const oddOne = (name: string) => pickWeighted([3, fc.constantFrom(...odd.HEADERS[name]!)], [1, any])
  const twice = fc.constantFrom(tenant_id.toUpperCase(), `${tenant_id}, ${tenant_id}`, `${tenant_id} x`)
  const needed = fc.record({
    'X-Tenant-Id': pickWeighted([30, fc.constant(tenant_id)], [1, twice], [1, oddOne('X-Tenant-Id')]),
    'Content-Type': pickWeighted([30, fc.constant(type)], [2, oddOne('Content-Type')]),
  })
  const names = Object.keys(odd.HEADERS).filter(name => name !== 'X-Tenant-Id' && name !== 'Content-Type')
  const others = fc
    .subarray(names, { maxLength: 2 })
    .chain(chosen => fc.record(Object.fromEntries(chosen.map(name => [name, oddOne(name)]))))
  return fc.tuple(needed, others).map(([one, other]) => ({ ...one, ...other }))
}

export function arbitraryRequest(operation: Operation, known: ExistingResources): fc.Arbitrary<HostileRequest> {
  const usual = fc.constant(operation.method.toUpperCase())
  return fc
    .record({
      method: pickWeighted(
        [30, usual],
        [1, fc.constantFrom('HEAD', 'PUT', 'OPTIONS', 'PROPFIND', 'PURGE', 'REPORT', 'MKCOL')],
      ),
      path: arbitraryPath(operation, known),
      search: arbitrarySearch(operation),
      headers: arbitraryHeaders(operation, known),
      body: arbitraryBody(operation),
    })
    .map(({ search, path, ...rest }) => ({ ...rest, path: path + search }))
}
