// Reading and validation of requests: bodies within limits, and all faults of a request at once.
import type { HonoRequest } from 'hono'
import * as z from 'zod'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { describeJsonError } from '../json/json-position.ts'
import type { Hold } from '../limits/held-bytes.ts'
import { readingOf } from './contract-words.ts'
import { type Failure, type Fault, fail } from './errors.ts'
import { createPacedReader } from './paced-body.ts'
import { findUnknownMembers, shortenName, toFault, toWarning } from './unknown-members.ts'

const MAX_BODY_BYTES = 1024 * 1024
/** From this size on, the key is verified before the whole body is read and validated. */
const LARGE_BYTES = 64 * 1024
const INITIAL_BUFFER_BYTES = 4096
const MAX_DEPTH = 64
export const MAX_VALUES = 10_000
const MAX_FAULTS = 100

export type InputSchemas = {
  params?: z.ZodObject | undefined
  query?: z.ZodObject | undefined
  headers?: z.ZodObject | undefined
  body?: z.ZodType | undefined
  repeatable?: string[] | undefined
  lists?: string[] | undefined
}

export const declaredSize = (request: HonoRequest): number => Number(request.header('content-length') ?? 0)

export function refuseLargeBody(request: HonoRequest, maxBytes = MAX_BODY_BYTES): void {
  if (declaredSize(request) > maxBytes) throw fail('body_too_large')
}

export type BeforeLarge = () => Promise<void> | undefined
type Chunks = AsyncIterable<Uint8Array>

/** Stops as soon as the body is too long. `beforeLarge` runs once, as soon as the body is known to be large. */
export async function readBytes(
  request: HonoRequest,
  maxBytes = MAX_BODY_BYTES,
  beforeLarge?: BeforeLarge,
  hold?: Hold,
): Promise<Uint8Array<ArrayBuffer>> {
  refuseLargeBody(request, maxBytes)
  const allowSize = guardLargeBody(beforeLarge)
  await allowSize(declaredSize(request))
  return gatherBytes(readChunks(request), async size => {
    if (size > maxBytes) throw fail('body_too_large')
    await allowSize(size)
    if (size > LARGE_BYTES) hold?.growTo(size)
  })
}

/** Returns a function that runs `beforeLarge` once, for the first size that is large. */
export function guardLargeBody(beforeLarge?: BeforeLarge): (size: number) => Promise<void> | undefined {
  let isAllowed = !beforeLarge
  return size => {
    if (isAllowed || size <= LARGE_BYTES) return undefined
    isAllowed = true
    return beforeLarge?.()
  }
}

/** Ends a body that arrives too slowly. */
export async function* readChunks(request: HonoRequest): Chunks {
  if (!request.raw.body) return
  const reader = createPacedReader(request.raw.body)
  try {
    for (let chunk = await reader.read(); chunk; chunk = await reader.read()) yield chunk
  } finally {
    reader.cancel()
  }
}

/** Calls `onSize` with each new size before the bytes are kept. */
export async function gatherBytes(
  chunks: Chunks,
  onSize: (size: number) => Promise<void> | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  // Copied into one buffer as they arrive: kept as chunks of a byte each, they would take a hundred times the memory.
  let bytes = new Uint8Array(INITIAL_BUFFER_BYTES)
  let size = 0
  for await (const chunk of chunks) {
    size += chunk.byteLength
    await onSize(size)
    if (size > bytes.byteLength) {
      const larger = new Uint8Array(Math.max(size, 2 * bytes.byteLength))
      larger.set(bytes)
      bytes = larger
    }
    bytes.set(chunk, size - chunk.byteLength)
  }
  return bytes.subarray(0, size)
}

/** Forms come without a key, so the limit is small: Node needs 2.6 seconds to parse 1 MiB of `a&`. */
export const readForm = async (request: HonoRequest): Promise<URLSearchParams> =>
  new URLSearchParams(new TextDecoder().decode(await readBytes(request, LARGE_BYTES)))

/** A form by the rules of OAuth: a parameter without a value is missing, an unknown one is ignored. */
export async function readFormInput<Schema extends z.ZodType>(
  request: HonoRequest,
  schema: Schema,
): Promise<z.output<Schema>> {
  const faults: Fault[] = []
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.header('content-type') ?? ''))
    faults.push({
      type: 'invalid_format',
      loc: ['header', 'Content-Type'],
      msg: 'must be application/x-www-form-urlencoded',
    })
  const form = [...(await readForm(request))].filter(([, value]) => value !== '')
  const parameters = new Map(form)
  if (parameters.size < form.length)
    faults.push({ type: 'repeated', loc: ['body'], msg: 'has a parameter several times; send it once' })
  const text = JSON.stringify(Object.fromEntries(parameters))
  return validateInput(request, { body: schema }, text, faults) as z.output<Schema>
}

type ReadOptions = { beforeLarge?: BeforeLarge; isUntyped?: boolean | undefined; hold?: Hold }

export async function readBody(
  request: HonoRequest,
  { beforeLarge, isUntyped = false, hold }: ReadOptions = {},
): Promise<string> {
  const bytes = await readBytes(request, MAX_BODY_BYTES, beforeLarge, hold)
  if (bytes.byteLength === 0) return ''
  const isJson = /^application\/(json|[\w.-]+\+json)\s*(;|$)/i.test(request.header('content-type') ?? '')
  if (!isJson && !isUntyped) throw fail('not_json')
  const text = decodeUtf8(bytes)
  return readingOf(request.raw)?.readBody(text) ?? text
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidRequest([{ type: 'utf8_invalid', loc: ['body'], msg: 'is not valid UTF-8' }])
  }
}

/** A member or query parameter that the schemas do not have is a fault or a warning. */
type OnUnknown = 'refuse' | ((warning: string) => void)

/** Throws the faults of path, query and body together with those in `faults`. In the input, path parameters win. */
export function validateInput(
  request: HonoRequest,
  sources: InputSchemas,
  text: string,
  faults: Fault[],
  onUnknown: OnUnknown = () => {},
): Record<string, unknown> {
  const parsePart = (schema: z.ZodType | undefined, value: unknown, place: string): object => {
    if (!schema || value === undefined) return {}
    const invalidValues = findInvalidValues(value, place)
    faults.push(...invalidValues)
    if (invalidValues.length > 0) return {}
    for (const unknown of findUnknownMembers(schema, value, place)) {
      if (onUnknown === 'refuse' || isAlwaysRefused(unknown.loc)) faults.push(toFault(unknown))
      else onUnknown(toWarning(unknown))
    }
    const result = schema.safeParse(value, { error: describeIssue })
    if (result.success) return result.data as object
    for (const issue of result.error.issues) {
      faults.push({ type: issue.code, loc: [place, ...(issue.path as (string | number)[])], msg: issue.message })
    }
    return {}
  }
  const params = parsePart(sources.params, request.param(), 'path')
  const query = parsePart(sources.query ?? EMPTY_QUERY, readQuery(request, sources), 'query')
  const headers = parsePart(sources.headers, sources.headers && readHeaders(request, sources.headers), 'header')
  const body = sources.body ? parsePart(sources.body, parseJson(text, faults), 'body') : {}
  if (faults.length > 0) throw invalidRequest(faults)
  return { ...query, ...headers, ...body, ...params }
}

const readHeaders = (request: HonoRequest, { shape }: z.ZodObject): Record<string, string> =>
  Object.fromEntries(
    Object.keys(shape).flatMap(name => {
      const value = request.header(name)
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** The first value of a repeated parameter counts, unless the route takes all of them. */
function readQuery(request: HonoRequest, { repeatable = [], lists = [] }: InputSchemas): Record<string, unknown> {
  const query: Record<string, unknown> = request.query()
  for (const name of repeatable) if (name in query) query[name] = request.queries(name)!.join(',')
  for (const name of lists) if (name in query) query[name] = request.queries(name)
  return readingOf(request.raw)?.readQuery(query) ?? query
}

const EMPTY_QUERY = z.object({})

/** Only the first value would count, so `dry_run=false&dry_run=true` would write. */
export function findRepeatedParameters(
  request: HonoRequest,
  { query, repeatable = [], lists = [] }: InputSchemas,
): Fault[] {
  if (!query || !request.url.includes('&')) return []
  const msg = 'is given several times with different values; send it once'
  return Object.entries(request.queries())
    .filter(
      ([name, values]) =>
        new Set(values).size > 1 && Object.hasOwn(query.shape, name) && ![...repeatable, ...lists].includes(name),
    )
    .map(([name]) => ({ type: 'repeated', loc: ['query', name], msg }))
}

/** Without a plan, `dry_run` would write; a misspelled resource would run with its default. */
const isAlwaysRefused = (loc: (string | number)[]): boolean =>
  loc.slice(0, -1).includes('resource_spec') || (loc.length === 2 && isDryRun(String(loc[1])))

/** Matches every spelling, such as `dryRun` and `dry-run`. */
const isDryRun = (name: string): boolean => name.toLowerCase().replace(/[^a-z]/g, '') === 'dryrun'

export function invalidRequest(faults: Fault[]): Failure {
  const errors = faults.slice(0, MAX_FAULTS).map(fault => ({ ...fault, loc: fault.loc.map(shortenName) }))
  const first = errors.slice(0, 3).map(fault => `${fault.loc.join('.')}: ${fault.msg}`)
  const more = faults.length > 3 ? `; and ${faults.length - 3} more` : ''
  return fail('invalid_request', { detail: `${first.join('; ')}${more}.`, errors })
}

function parseJson(text: string, faults: Fault[]): unknown {
  if (text === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    faults.push({ type: 'json_invalid', loc: ['body'], msg: describeJsonError(text) })
    return undefined
  }
}

type Container = { value: object; name: string | number; parent: Container | undefined; depth: number }

/**
 * Finds values that JSON allows but Postgres or JavaScript numbers do not, and bodies with too many values. It runs
 * before any schema and stops at its limits, so no schema sees a larger body. It does not recurse, because depth is one
 * of the limits.
 */
export function findInvalidValues(body: unknown, root: string): Fault[] {
  const faults: Fault[] = []
  const containers: Container[] = []
  let values = 0
  const visit = (value: unknown, name: string | number, parent?: Container): boolean => {
    const fault = checkValue(value)
    if (fault) faults.push({ type: fault[0], loc: faultPath(name, parent), msg: fault[1] })
    else if (typeof value === 'object' && value !== null)
      containers.push({ value, name, parent, depth: (parent?.depth ?? 0) + 1 })
    values += 1
    return values <= MAX_VALUES && faults.length < MAX_FAULTS
  }
  visit(body, root)
  for (let next = containers.pop(); next && faults.length < MAX_FAULTS; next = containers.pop()) {
    const { value, name, parent, depth } = next
    if (depth > MAX_DEPTH) {
      const loc = faultPath(name, parent).slice(0, 4)
      return [...faults, { type: 'too_deep', loc, msg: `is nested deeper than ${MAX_DEPTH} levels` }]
    }
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) if (!visit(value[i], i, next)) break
    } else {
      for (const key in value) {
        if (checkValue(key)) {
          faults.push({
            type: 'name_invalid',
            loc: faultPath(name, parent),
            msg: 'has a member whose name contains a NUL character or a lone surrogate',
          })
        } else if (!visit(value[key as keyof typeof value], key, next)) break
      }
    }
    if (values > MAX_VALUES)
      return [
        ...faults,
        { type: 'too_many_values', loc: [root], msg: `has more than ${MAX_VALUES} values; send fewer` },
      ]
  }
  return faults
}

function checkValue(value: unknown): [type: string, msg: string] | undefined {
  if (typeof value === 'string') {
    if (value.includes('\0')) return ['nul_character', 'contains a NUL character']
    if (!value.isWellFormed()) return ['lone_surrogate', 'contains a lone surrogate']
  }
  if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER)
    return ['number_too_large', 'is a number beyond 2^53']
  return undefined
}

function faultPath(name: string | number, parent: Container | undefined): (string | number)[] {
  const path = [name]
  for (let container = parent; container; container = container.parent) path.push(container.name)
  return path.reverse()
}
