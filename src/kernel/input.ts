// What comes in: bodies within their limits, and every fault of a request found at once.
import type { HonoRequest } from 'hono'
import type * as z from 'zod'
import { Failure, type Fault, fail } from './errors.ts'

const BODY_BYTES = 1024 * 1024
const DEPTH = 64
const MOST_FAULTS = 100
const LONGEST_NAME = 100

export type Sources = {
  params?: z.ZodObject | undefined
  query?: z.ZodObject | undefined
  body?: z.ZodType | undefined
}
export type Raw = { text: string; json: unknown }

/** Reads the body, giving up as soon as it is too long. */
export async function readBytes(request: HonoRequest, most = BODY_BYTES): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(request.header('content-length') ?? 0) > most) throw fail('body_too_large')
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of (request.raw.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength
      // Leaving the loop cancels the stream.
      if (size > most) throw fail('body_too_large')
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof Failure ? error : fail('body_cut', { cause: error })
  }
  return Buffer.concat(chunks) as Uint8Array<ArrayBuffer>
}

/** What a browser sends on behalf of another server: whatever is no text in it is no parameter that is looked for. */
export const readForm = async (request: HonoRequest): Promise<string> =>
  new TextDecoder().decode(await readBytes(request))

export async function readBody(request: HonoRequest): Promise<string> {
  const bytes = await readBytes(request)
  if (bytes.byteLength === 0) return ''
  if (!/^application\/(json|[\w.-]+\+json)\s*(;|$)/i.test(request.header('content-type') ?? '')) throw fail('not_json')
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid([{ type: 'utf8_invalid', loc: ['body'], msg: 'is not valid UTF-8' }])
  }
}

/**
 * Validates path, query and body, adds to the faults found so far, and refuses them all together. Otherwise it is one input,
 * in which a path parameter wins over a member of its name.
 */
export function validate(
  request: HonoRequest,
  sources: Sources,
  text: string,
  faults: Fault[],
): Record<string, unknown> {
  const parsed = (schema: z.ZodType | undefined, value: unknown, place: string): object => {
    if (!schema || value === undefined) return {}
    const odd = oddities(value, [place])
    faults.push(...odd)
    if (odd.length > 0) return {}
    const result = schema.safeParse(value)
    if (result.success) return result.data as object
    for (const issue of result.error.issues) {
      faults.push({ type: issue.code, loc: [place, ...(issue.path as (string | number)[])], msg: issue.message })
    }
    return {}
  }
  const params = parsed(sources.params, request.param(), 'path')
  const query = parsed(sources.query, request.query(), 'query')
  const body = sources.body ? parsed(sources.body, parseJson(text, faults), 'body') : {}
  if (faults.length > 0) throw invalid(faults)
  return { ...query, ...body, ...params }
}

export function invalid(faults: Fault[]): Failure {
  const errors = faults.slice(0, MOST_FAULTS).map(fault => ({ ...fault, loc: fault.loc.map(shortened) }))
  const named = errors.slice(0, 3).map(fault => `${fault.loc.join('.')}: ${fault.msg}`)
  const more = faults.length > 3 ? `; and ${faults.length - 3} more` : ''
  return fail('invalid_request', { detail: `${named.join('; ')}${more}.`, errors })
}

/** A caller's own names are repeated with every fault: cut, so that an answer stays small. */
const shortened = (name: string | number) =>
  typeof name === 'string' && name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME).toWellFormed()}…` : name

function parseJson(text: string, faults: Fault[]): unknown {
  if (text === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    faults.push({ type: 'json_invalid', loc: ['body'], msg: 'is not valid JSON' })
    return undefined
  }
}

/** What JSON allows and a database or a client's number type does not. Walks without recursion: depth is what it guards. */
function oddities(value: unknown, root: string[]): Fault[] {
  const faults: Fault[] = []
  const rest: { value: unknown; loc: (string | number)[] }[] = [{ value, loc: root }]
  const odd = (type: string, loc: (string | number)[], msg: string) => faults.push({ type, loc, msg })
  for (let next = rest.pop(); next && faults.length < MOST_FAULTS; next = rest.pop()) {
    const { value, loc } = next
    if (typeof value === 'string') {
      if (value.includes('\0')) odd('nul_character', loc, 'holds a NUL character')
      else if (!value.isWellFormed()) odd('lone_surrogate', loc, 'holds a lone surrogate')
    } else if (typeof value === 'number') {
      if (Math.abs(value) > Number.MAX_SAFE_INTEGER) odd('number_too_large', loc, 'is a number past 2^53')
    } else if (typeof value === 'object' && value !== null) {
      if (loc.length > DEPTH) {
        odd('too_deep', loc.slice(0, 4), `is nested deeper than ${DEPTH}`)
        return faults
      }
      for (const [key, member] of Object.entries(value)) {
        if (!Array.isArray(value) && (key.includes('\0') || !key.isWellFormed()))
          odd('name_invalid', loc, 'has a member with an invalid name')
        else rest.push({ value: member, loc: [...loc, Array.isArray(value) ? Number(key) : key] })
      }
    }
  }
  return faults
}
