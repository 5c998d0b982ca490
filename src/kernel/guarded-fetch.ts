// The only way out to an address that a caller or a foreign server named: guarded at every hop, bounded, traced.
import type { Config } from '../env.ts'
import { judgeUrl } from '../protocol/guarded-address.ts'
import type { Code } from './codes.ts'
import { Failure, fail } from './errors.ts'

/** What a fetch is for, in a word or two of people: `protected resource metadata`, `registration`, `token`. */
export type Stage = string
/** One fetch of an operation, as administrators see it: no query, no body, no header. */
export type FetchRecord = { stage: Stage; method: string; url: string; status?: number; outcome?: Code; ms: number }
export type GuardedClient = {
  /** As fetch. Throws the closed codes only; the answer's body is bounded too, and is read or cancelled by the caller. */
  fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  /** The address as it would be fetched, or `blocked_url`: the same guard without a fetch. */
  check: (url: string | URL) => URL
  /** Names what the next fetches are for. */
  stage(name: Stage): void
  trace: FetchRecord[]
}
type FetchPolicy = Pick<Config, 'foreignFetch' | 'publicUrl' | 'allowLoopback'>

/** How long a fetch and an operation may take, how many fetches it may be, and how much an answer may have. */
export type FetchLimits = { fetchMs: number; totalMs: number; fetches: number; bytes: number }
const DEFAULT_LIMITS: FetchLimits = { fetchMs: 5000, totalMs: 20_000, fetches: 16, bytes: 64 * 1024 }
const MAX_REDIRECTS = 5
const REDIRECT_STATUSES = [301, 302, 303, 307, 308]
const BODILESS_STATUSES = [204, 205, 304]
/** A redirect is ours to follow, a cookie nobody's, and the host is the address'. */
const DROPPED_HEADERS = ['cookie', 'host']

/** What a host's own fetch throws that found the name to lead where nothing is fetched. */
export class BlockedAddressError extends Error {}

/** The address as it may be fetched: without fragment and trailing dot. Throws `blocked_url`. */
export function requireAllowedUrl(policy: Omit<FetchPolicy, 'foreignFetch'>, origin: string, text: string): URL {
  const { url, refusal } = judgeUrl(policy, origin, text)
  if (refusal !== undefined)
    throw fail('blocked_url', { about: [url && shortHost(url), refusal].filter(Boolean).join(': ') })
  return url
}

/** The way out for one operation: its limits hold for all of its fetches together. */
export function createGuardedClient(
  config: FetchPolicy,
  origin: string,
  limits: FetchLimits = DEFAULT_LIMITS,
): GuardedClient {
  const trace: FetchRecord[] = []
  let stage: Stage = 'request'
  let deadline = 0

  /** One fetch, up to its headers; the body that it returns keeps to the same limits. */
  async function hop(text: string, init: CleanRequest): Promise<{ answer: Response; from: URL }> {
    const started = Date.now()
    deadline ||= started + limits.totalMs
    const { url, refusal } = judgeUrl(config, origin, text)
    const entry: FetchRecord = { stage, method: init.method, url: url ? urlWithoutQuery(url) : '', ms: 0 }
    const failed = (code: Code, reason: string, cause?: unknown) =>
      fail(code, { about: [entry.stage, url && shortHost(url), reason].filter(Boolean).join(': '), cause })
    const settled = (error: unknown): Failure => {
      const failure =
        error instanceof Failure
          ? error
          : error instanceof BlockedAddressError
            ? failed('blocked_url', error.message)
            : failed('upstream_error', 'the connection failed', error)
      entry.ms = Date.now() - started
      entry.outcome = failure.code
      return failure
    }
    const late = () => failed('upstream_timeout', 'no answer in time')
    if (trace.length >= limits.fetches) throw failed('upstream_error', `it took more than ${limits.fetches} fetches`)
    trace.push(entry)
    if (refusal !== undefined) throw settled(failed('blocked_url', refusal))
    if (started >= deadline) throw settled(late())
    const limit = startTimeLimit(Math.min(limits.fetchMs, deadline - started), init.signal, late)
    try {
      const answer = await limit.within(
        config.foreignFetch(url.href, { ...init, redirect: 'manual', signal: limit.signal }),
      )
      entry.status = answer.status
      entry.ms = Date.now() - started
      const over = () => failed('upstream_error', `an answer of more than ${limits.bytes / 1024} KiB`)
      return { answer: limitBody(answer, limits.bytes, limit, settled, over), from: url }
    } catch (error) {
      limit.leave()
      throw settled(error)
    }
  }

  function check(text: string | URL): URL {
    const { url, refusal } = judgeUrl(config, origin, String(text))
    if (refusal === undefined) return url
    throw fail('blocked_url', { about: [stage, url && shortHost(url), refusal].filter(Boolean).join(': ') })
  }

  async function guarded(address: string | URL, given: RequestInit = {}): Promise<Response> {
    const init = cleanRequest(given)
    let text = String(address)
    for (let redirects = 0; ; redirects++) {
      const { answer, from } = await hop(text, init)
      const location = answer.headers.get('Location')
      if (init.method !== 'GET' || !REDIRECT_STATUSES.includes(answer.status) || location === null) return answer
      await answer.body?.cancel()
      text = next(from, location, redirects)
    }
  }

  /** Where a redirect leads, if it is followed. */
  function next(from: URL, location: string, redirects: number): string {
    const entry = trace.at(-1)!
    const refused = (code: 'blocked_url' | 'upstream_error', reason: string) => {
      entry.outcome = code
      return fail(code, { about: `${entry.stage}: ${shortHost(from)}: ${reason}` })
    }
    if (!URL.canParse(location, from.href)) throw refused('upstream_error', 'a redirect to no address')
    const to = new URL(location, from)
    if (to.origin !== from.origin) throw refused('blocked_url', `it redirects elsewhere, to ${shortHost(to)}`)
    if (redirects >= MAX_REDIRECTS) throw refused('upstream_error', `more than ${MAX_REDIRECTS} redirects`)
    return to.href
  }

  return {
    fetch: guarded,
    check,
    stage: name => {
      stage = name
    },
    trace,
  }
}

type CleanRequest = Pick<RequestInit, 'body'> & { method: string; headers: Headers; signal: AbortSignal | undefined }

/** Of a request only what it says: nothing that a runtime would add or keep. */
function cleanRequest({ method = 'GET', headers, body, signal }: RequestInit): CleanRequest {
  const clean = new Headers(headers)
  for (const name of DROPPED_HEADERS) clean.delete(name)
  if (!clean.has('User-Agent')) clean.set('User-Agent', 'Slipway')
  return { method: method.toUpperCase(), headers: clean, ...(body != null && { body }), signal: signal ?? undefined }
}

const shortHost = (url: URL): string => url.host.slice(0, 260)
const urlWithoutQuery = (url: URL): string => `${url.protocol}//${url.host}${url.pathname}`.slice(0, 500)

type TimeLimit = ReturnType<typeof startTimeLimit>

/** Ends whatever is waited for when its time is over, even what does not listen to its signal. */
function startTimeLimit(ms: number, theirs: AbortSignal | undefined, late: () => Failure) {
  const controller = new AbortController()
  const over = Promise.withResolvers<never>()
  // It may be over when nobody waits.
  over.promise.catch(() => {})
  const expire = () => {
    end()
    over.reject(late())
    controller.abort()
  }
  const timer = setTimeout(expire, Math.max(0, ms))
  const end = () => {
    clearTimeout(timer)
    theirs?.removeEventListener('abort', expire)
  }
  theirs?.addEventListener('abort', expire)
  if (theirs?.aborted) expire()
  return {
    signal: controller.signal,
    within: <T>(work: Promise<T>): Promise<T> => Promise.race([work, over.promise]),
    end,
    /** Nothing more is wanted of it. */
    leave: () => {
      end()
      controller.abort()
    },
  }
}

/** The same answer; its body comes as it is asked for, within the time and up to the most bytes, and is then cancelled. */
function limitBody(
  answer: Response,
  most: number,
  limit: TimeLimit,
  settle: (error: unknown) => Failure,
  over: () => Failure,
): Response {
  const headers = new Headers(answer.headers)
  headers.delete('Set-Cookie')
  const { status } = answer
  if (!answer.body || BODILESS_STATUSES.includes(status)) {
    limit.leave()
    return new Response(null, { status, headers })
  }
  const reader = answer.body.getReader()
  const stop = () => {
    limit.leave()
    reader.cancel().catch(() => {})
  }
  let bytes = 0
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          if (bytes > most) throw over()
          const { done, value } = await limit.within(reader.read())
          if (done) {
            limit.end()
            return controller.close()
          }
          bytes += value.byteLength
          // What comes before the end may be enough for whoever reads it.
          controller.enqueue(bytes > most ? value.subarray(0, most - bytes) : value)
        } catch (error) {
          stop()
          controller.error(settle(error))
        }
      },
      cancel: stop,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}
