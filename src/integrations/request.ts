// One request to a git host: bounded, in its words of refusal understood, and its answer held against a schema.
import * as z from 'zod'
import type { Config } from '../env.ts'
import type { Code } from '../kernel/codes.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { createGuardedClient, type GuardedClient } from '../kernel/guarded-fetch.ts'

/** A page of a hundred repositories is some 600 KB. At most MOST_PAGES are listed, and a token and its like come besides. */
const LIMITS = { fetchMs: 8000, totalMs: 25_000, fetches: 120, bytes: 3 * 1024 * 1024 }
const MAX_PAGES = 100
/** What a Worker keeps open at once; hosts allow far more. */
export const MAX_CONCURRENT_REQUESTS = 6

/** What may come of asking one. */
export const HOST_ERRORS: Code[] = [
  'githost_refused',
  'githost_rate_limited',
  'blocked_url',
  'upstream_error',
  'upstream_timeout',
]

export const createGuardedHostClient = (config: Config, origin: string): GuardedClient =>
  createGuardedClient(config, origin, LIMITS)

export type HostResponse = { status: number; headers: Headers; body: unknown }
type HostRequest = { method?: string; headers: Record<string, string>; json?: unknown; form?: Record<string, string> }

/** What these say is the caller's to understand: that it is there, unchanged, not there, or not possible. */
const PASSED_STATUSES = [200, 201, 204, 304, 404, 409, 422]
const DEFAULT_RETRY_S = 60
const MAX_LINK_LENGTH = 2000

/** The answer with its JSON, or a failure that says what the host wants. */
export async function requestHost(
  way: GuardedClient,
  url: string,
  wish: HostRequest,
  moved = false,
): Promise<HostResponse> {
  const { method = 'GET', headers, json, form } = wish
  const body = json === undefined ? form && new URLSearchParams(form).toString() : JSON.stringify(json)
  const type = json === undefined ? 'application/x-www-form-urlencoded' : 'application/json'
  const init = { method, headers: { ...headers, ...(body !== undefined && { 'Content-Type': type }) } }
  const { answer, text } = await fetchText(way, url, { ...init, ...(body !== undefined && { body }) })
  const read = parseJson(text)
  const { status } = answer
  const to = moved || json === undefined ? null : redirectTarget(answer, url)
  if (to !== null) return requestHost(way, to, wish, true)
  if (!PASSED_STATUSES.includes(status)) throw hostFailure(answer, read, new URL(url).host)
  if (status < 300 && status !== 204 && read === undefined) throw unusableResponse(url, 'an answer that is no JSON')
  return { status, headers: answer.headers, body: read }
}

/** A repository that was renamed is written to where it is now: at the same host, and asked once. */
function redirectTarget({ status, headers }: Response, url: string): string | null {
  const location = headers.get('Location')
  if (![307, 308].includes(status) || location === null || !URL.canParse(location, url)) return null
  const to = new URL(location, url)
  return to.origin === new URL(url).origin ? to.href : null
}

async function fetchText(
  way: GuardedClient,
  url: string,
  init: RequestInit,
): Promise<{ answer: Response; text: string }> {
  try {
    const answer = await way.fetch(url, init)
    return { answer, text: await answer.text() }
  } catch (error) {
    const away = error instanceof Failure && (error.code === 'upstream_error' || error.code === 'upstream_timeout')
    throw away ? fail(error.code, { ...error.extra, headers: { 'Retry-After': String(DEFAULT_RETRY_S) } }) : error
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const unusableResponse = (url: string, what: string): Failure =>
  fail('upstream_error', {
    about: `${new URL(url).host}: ${what}`,
    headers: { 'Retry-After': String(DEFAULT_RETRY_S) },
  })

/** The members that are wanted, or the host is at fault. */
export function parseResponse<S extends z.ZodType>(schema: S, url: string, body: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(body)
  if (success) return data
  throw unusableResponse(url, `\`${error.issues[0]!.path.join('.').slice(0, 100) || 'body'}\` is not as it should be`)
}

const ErrorBody = z.object({ message: z.string() })

function hostFailure({ status, headers }: Response, body: unknown, host: string): Failure {
  const message = ErrorBody.safeParse(body).data?.message ?? ''
  const limited = headers.has('Retry-After') || headers.get('X-RateLimit-Remaining') === '0'
  if (status === 429 || (status === 403 && (limited || /rate limit|abuse/i.test(message))))
    return fail('githost_rate_limited', { about: host, headers: { 'Retry-After': String(retryAfterOf(headers)) } })
  if (status === 403 && /suspended/i.test(message)) return fail('integration_suspended')
  if (status === 401 || status === 403) return fail('githost_refused', { about: `${host} answered ${status}` })
  const retry = { 'Retry-After': String(retryAfterOf(headers)) }
  return fail('upstream_error', { about: `${host} answered ${status}`, headers: retry })
}

/** In seconds, between one and an hour: as the host says, in either of its ways. When a count begins anew matters once it is used up. */
function retryAfterOf(headers: Headers): number {
  const [after, reset] = [headers.get('Retry-After'), headers.get('X-RateLimit-Reset')]
  const said = [
    after === null ? Number.NaN : /^\d+$/.test(after) ? Number(after) : (Date.parse(after) - Date.now()) / 1000,
    headers.get('X-RateLimit-Remaining') === '0' && reset !== null && /^\d+$/.test(reset)
      ? Number(reset) - Date.now() / 1000
      : Number.NaN,
  ].find(Number.isFinite)
  return Math.min(3600, Math.max(1, Math.ceil(said ?? DEFAULT_RETRY_S)))
}

/** How many pages there are, by the link to the last one or else by the count. */
export function countPages(headers: Headers, each: number, total: number): number {
  const last = parseLastPage(headers.get('Link')?.slice(0, MAX_LINK_LENGTH) ?? '')
  return Math.min(MAX_PAGES, last ?? Math.ceil(total / Math.max(1, each)))
}

/** Searched backwards from the relation: a pattern over the whole header could be made cubic by the host. */
function parseLastPage(links: string): number | null {
  const relation = links.indexOf('rel="last"')
  const end = relation < 0 ? -1 : links.lastIndexOf('>', relation)
  const start = end < 0 ? -1 : links.lastIndexOf('<', end)
  if (start < 0) return null
  const [, query = ''] = links.slice(start + 1, end).split('?')
  const page = new URLSearchParams(query).get('page') ?? ''
  return /^\d{1,6}$/.test(page) ? Number(page) : null
}

/** The work for each of these, so many at once, in their order; the first failure ends it all. */
export async function mapConcurrently<T>(numbers: number[], work: (number: number) => Promise<T>): Promise<T[]> {
  const done: T[] = []
  const left = [...numbers.entries()].reverse()
  const worker = async () => {
    for (let next = left.pop(); next; next = left.pop()) {
      const [at, number] = next
      done[at] = await work(number).catch(error => {
        left.length = 0
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_REQUESTS, numbers.length) }, worker))
  return done
}
