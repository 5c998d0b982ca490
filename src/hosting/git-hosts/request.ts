// Sends requests to a git host: bounded, with its errors mapped to our codes and its responses validated.
import * as z from 'zod'
import type { Code } from '../../kernel/http/codes.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient, type FetchPolicy, type GuardedClient } from '../../kernel/http/guarded-fetch.ts'

/** A page of 100 repositories is about 600 KB. A listing is MAX_PAGES requests, and some for tokens. */
const LIMITS = { fetchMs: 8000, totalMs: 25_000, fetches: 120, bytes: 3 * 1024 * 1024 }
const MAX_PAGES = 100
/** A Worker's limit of open connections. Hosts allow far more. */
export const MAX_CONCURRENT_REQUESTS = 6

export const HOST_ERRORS: Code[] = [
  'githost_refused',
  'githost_rate_limited',
  'blocked_url',
  'upstream_error',
  'upstream_timeout',
]

/** The cause of `githost_refused`: the status of the host and its own sentence. */
export class HostRefusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export const createGuardedHostClient = (policy: FetchPolicy, origin: string): GuardedClient =>
  createGuardedClient(policy, origin, LIMITS)

/** For git's own protocol. A redirect is not followed: a build would not follow it either. */
export const createGitClient = (policy: FetchPolicy, origin: string): GuardedClient =>
  createGuardedClient(policy, origin, { ...LIMITS, returnsRedirects: true })

export type HostResponse = { status: number; headers: Headers; body: unknown }
type HostRequest = {
  method?: string
  headers: Record<string, string>
  json?: unknown
  form?: Record<string, string>
  /** Statuses that are returned beside those of `PASSED_STATUSES`. */
  passes?: number[]
}

/** Responses with these are returned: their meaning depends on the request. All others become failures. */
const PASSED_STATUSES = [200, 201, 204, 304, 404, 409, 422]
const DEFAULT_RETRY_S = 60
const MAX_RETRY_S = 3600
const MAX_LINK_LENGTH = 2000
const DEFAULT_RETRY_HEADERS = { 'Retry-After': String(DEFAULT_RETRY_S) }

export async function requestHost(
  client: GuardedClient,
  url: string,
  request: HostRequest,
  isRedirected = false,
): Promise<HostResponse> {
  const { method = 'GET', headers, json, form, passes = [] } = request
  const body = json === undefined ? form && new URLSearchParams(form).toString() : JSON.stringify(json)
  const type = json === undefined ? 'application/x-www-form-urlencoded' : 'application/json'
  const content = body === undefined ? { headers } : { headers: { ...headers, 'Content-Type': type }, body }
  const { response, content: text } = await fetchContent(client, url, { method, ...content }, answer => answer.text())
  const redirect = isRedirected || json === undefined ? null : redirectTarget(response, url)
  if (redirect !== null) return requestHost(client, redirect, request, true)
  const { status } = response
  const parsed = parseJson(text)
  if (![...PASSED_STATUSES, ...passes].includes(status)) throw hostFailure(response, parsed, new URL(url).host, headers)
  if (status < 300 && status !== 204 && parsed === undefined) throw unusableResponse(url, 'the response is not JSON')
  return { status, headers: response.headers, body: parsed }
}

type TextRequest = { method?: string; headers: Record<string, string>; body?: string }

/** For answers that are no JSON. Returns 200 and 404. */
export async function requestBytes(
  client: GuardedClient,
  url: string,
  request: TextRequest,
): Promise<{ status: number; bytes: Uint8Array }> {
  const { response, content: bytes } = await fetchContent(
    client,
    url,
    request,
    async answer => new Uint8Array(await answer.arrayBuffer()),
  )
  const { status } = response
  if ([301, 302, 303, 307, 308].includes(status))
    throw unusableResponse(url, 'it redirects to another URL, which is not followed. Use the URL that it redirects to')
  if (status !== 200 && status !== 404) throw hostFailure(response, undefined, new URL(url).host, request.headers)
  return { status, bytes }
}

/** Hosts redirect writes to a renamed repository. Followed once, and only on the same host. */
function redirectTarget({ status, headers }: Response, url: string): string | null {
  const location = headers.get('Location')
  if (![307, 308].includes(status) || location === null || !URL.canParse(location, url)) return null
  const target = new URL(location, url)
  return target.origin === new URL(url).origin ? target.href : null
}

async function fetchContent<Content>(
  client: GuardedClient,
  url: string,
  init: RequestInit,
  read: (response: Response) => Promise<Content>,
): Promise<{ response: Response; content: Content }> {
  try {
    const response = await client.fetch(url, init)
    return { response, content: await read(response) }
  } catch (error) {
    const isAway = error instanceof Failure && (error.code === 'upstream_error' || error.code === 'upstream_timeout')
    throw isAway ? fail(error.code, { ...error.extra, headers: DEFAULT_RETRY_HEADERS }) : error
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const unusableResponse = (url: string, reason: string): Failure =>
  fail('upstream_error', { about: `${new URL(url).host}: ${reason}`, headers: DEFAULT_RETRY_HEADERS })

export function parseResponse<S extends z.ZodType>(schema: S, url: string, body: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(body)
  if (success) return data
  const path = error.issues[0]!.path.join('.').slice(0, 100)
  throw unusableResponse(url, path ? `\`${path}\` is missing or invalid` : 'the response is invalid')
}

const MAX_MESSAGE = 300
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
const CONTROL_CHARACTERS = /[\0-\x1f\x7f-\x9f]+/g
const cleanText = (text: string): string =>
  text.slice(0, MAX_MESSAGE).replace(CONTROL_CHARACTERS, ' ').trim().toWellFormed()

/** GitLab names a missing scope as OAuth does. */
const ErrorBody = z.union([
  z.object({ message: z.string() }).transform(({ message }) => message),
  z
    .object({ error_description: z.string(), scope: z.string().optional() })
    .transform(({ error_description, scope }) => error_description + (scope ? ` (needs ${scope})` : '')),
])

function hostFailure(
  { status, headers }: Response,
  body: unknown,
  host: string,
  { Authorization: sent }: Record<string, string>,
): Failure {
  // It is shown to readers, and a host may echo the credential.
  const secret = sent?.split(' ')[1] || undefined
  const words = ErrorBody.safeParse(body).data ?? ''
  const message = secret === undefined ? words : words.replaceAll(secret, '***')
  const retry = { 'Retry-After': String(retryAfterOf(headers)) }
  const hasLimitHeaders = headers.has('Retry-After') || headers.get('X-RateLimit-Remaining') === '0'
  const isRateLimited = status === 429 || (status === 403 && (hasLimitHeaders || /rate limit|abuse/i.test(message)))
  if (isRateLimited) return fail('githost_rate_limited', { about: host, headers: retry })
  if (status === 403 && /suspended/i.test(message)) return fail('integration_suspended')
  if (status === 401 || status === 403) {
    const said = cleanText(message + neededPermissions(headers))
    const about = `${host} answered ${status}${said === '' ? '' : `: ${said}`}`
    return fail('githost_refused', { about, cause: new HostRefusal(status, said) })
  }
  return fail('upstream_error', { about: `${host} answered ${status}`, headers: retry })
}

/** GitHub names the permissions that would do, as `checks=write`. */
function neededPermissions(headers: Headers): string {
  const permissions = headers.get('X-Accepted-GitHub-Permissions')
  return permissions === null ? '' : ` (needs ${permissions})`
}

/** The seconds to wait. `Retry-After` is a number or a date. `X-RateLimit-Reset` counts only with a used-up limit. */
function retryAfterOf(headers: Headers): number {
  const [retryAfter, reset] = [headers.get('Retry-After'), headers.get('X-RateLimit-Reset')]
  const isUsedUp = headers.get('X-RateLimit-Remaining') === '0'
  const candidates = [
    retryAfter === null ? Number.NaN : parseRetryAfter(retryAfter),
    isUsedUp && reset !== null && /^\d+$/.test(reset) ? Number(reset) - Date.now() / 1000 : Number.NaN,
  ]
  const seconds = candidates.find(Number.isFinite) ?? DEFAULT_RETRY_S
  return Math.min(MAX_RETRY_S, Math.max(1, Math.ceil(seconds)))
}

const parseRetryAfter = (value: string): number =>
  /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000

export function countPages(headers: Headers, pageSize: number, total: number): number {
  const lastPage = parseLastPage(headers.get('Link')?.slice(0, MAX_LINK_LENGTH) ?? '')
  return Math.min(MAX_PAGES, lastPage ?? Math.ceil(total / Math.max(1, pageSize)))
}

/** Searches backwards from the relation: a host could make a regular expression over the header take cubic time. */
function parseLastPage(links: string): number | null {
  const relation = links.indexOf('rel="last"')
  const end = relation < 0 ? -1 : links.lastIndexOf('>', relation)
  const start = end < 0 ? -1 : links.lastIndexOf('<', end)
  if (start < 0) return null
  const [, query = ''] = links.slice(start + 1, end).split('?')
  const page = new URLSearchParams(query).get('page') ?? ''
  return /^\d{1,6}$/.test(page) ? Number(page) : null
}

/** The results are in the order of `numbers`. The first failure rejects, and no further work starts. */
export async function mapConcurrently<T>(numbers: number[], work: (number: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  const pending = [...numbers.entries()].reverse()
  const worker = async () => {
    for (let next = pending.pop(); next; next = pending.pop()) {
      const [index, number] = next
      results[index] = await work(number).catch(error => {
        pending.length = 0
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_REQUESTS, numbers.length) }, worker))
  return results
}
