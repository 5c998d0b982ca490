// Requests to addresses that a caller or an external server chose. Each hop is checked, limited and traced.
import type { Config } from '../../env.ts'
import type { Platform } from '../../platform.ts'
import { judgeUrl } from '../../protocol/guarded-address.ts'
import type { Code } from './codes.ts'
import { Failure, fail } from './errors.ts'

/** The purpose of a fetch, as people read it: `protected resource metadata`, `registration`, `token`. */
type Stage = string
/** One fetch of an operation, as administrators see it: without query, body and headers. */
export type FetchRecord = { stage: Stage; method: string; url: string; status?: number; outcome?: Code; ms: number }
export type GuardedClient = {
  /** Throws only failures with a code. The limits cover the body too; the caller must read or cancel it. */
  fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  check: (url: string | URL) => URL
  stage(name: Stage): void
  trace: FetchRecord[]
}
export type FetchPolicy = {
  config: Pick<Config, 'publicUrl' | 'allowLoopback'> & { allowPrivate?: boolean }
  platform: Pick<Platform, 'foreignFetch'>
}

export type FetchLimits = {
  fetchMs: number
  totalMs: number
  fetches: number
  bytes: number
  /** The longest pause within a response, and before it. */
  idleMs?: number
  /** Also redirects of a GET are returned. */
  returnsRedirects?: boolean
}
const DEFAULT_LIMITS: FetchLimits = { fetchMs: 5000, totalMs: 20_000, fetches: 16, bytes: 64 * 1024 }
const MAX_REDIRECTS = 5
const REDIRECT_STATUSES = [301, 302, 303, 307, 308]
const BODILESS_STATUSES = [204, 205, 304]
const DROPPED_HEADERS = ['cookie', 'host']

/** Thrown by a host's fetch when the name resolves to an address that is not allowed. */
export class BlockedAddressError extends Error {}

export function requireAllowedUrl(policy: FetchPolicy['config'], origin: string, text: string): URL {
  const { url, refusal } = judgeUrl(policy, origin, text)
  if (refusal !== undefined)
    throw fail('blocked_url', { about: [url && shortHost(url), refusal].filter(Boolean).join(': ') })
  return url
}

/** A client for one operation. The limits hold for all its fetches together. */
export function createGuardedClient(
  { config, platform }: FetchPolicy,
  origin: string,
  limits: FetchLimits = DEFAULT_LIMITS,
): GuardedClient {
  const trace: FetchRecord[] = []
  let stage: Stage = 'request'
  let deadline = 0

  async function fetchOnce(text: string, init: CleanRequest): Promise<{ response: Response; from: URL }> {
    const started = Date.now()
    deadline ||= started + limits.totalMs
    const { url, refusal } = judgeUrl(config, origin, text)
    const entry: FetchRecord = { stage, method: init.method, url: url ? urlWithoutQuery(url) : '', ms: 0 }
    const failureOf = (code: Code, reason: string, cause?: unknown) =>
      fail(code, { about: [entry.stage, url && shortHost(url), reason].filter(Boolean).join(': '), cause })
    const recordFailure = (error: unknown): Failure => {
      const failure =
        error instanceof Failure
          ? error
          : error instanceof BlockedAddressError
            ? failureOf('blocked_url', error.message)
            : failureOf('upstream_error', 'the connection failed', error)
      entry.ms = Date.now() - started
      entry.outcome = failure.code
      return failure
    }
    const timeout = () => failureOf('upstream_timeout', 'no response in time')
    if (trace.length >= limits.fetches)
      throw failureOf('upstream_error', `the operation needs more than ${limits.fetches} requests`)
    trace.push(entry)
    if (refusal !== undefined) throw recordFailure(failureOf('blocked_url', refusal))
    if (started >= deadline) throw recordFailure(timeout())
    const ms = Math.min(limits.fetchMs, deadline - started)
    const limit = startTimeLimit(ms, limits.idleMs ?? ms, init.signal, timeout)
    try {
      const response = await limit.within(
        platform.foreignFetch(url.href, { ...init, redirect: 'manual', signal: limit.signal }),
      )
      entry.status = response.status
      entry.ms = Date.now() - started
      const tooLarge = () => failureOf('upstream_error', `the response is larger than ${limits.bytes / 1024} KiB`)
      return { response: limitBody(response, limits.bytes, limit, recordFailure, tooLarge), from: url }
    } catch (error) {
      limit.abort()
      throw recordFailure(error)
    }
  }

  function check(text: string | URL): URL {
    const { url, refusal } = judgeUrl(config, origin, String(text))
    if (refusal === undefined) return url
    throw fail('blocked_url', { about: [stage, url && shortHost(url), refusal].filter(Boolean).join(': ') })
  }

  async function guardedFetch(address: string | URL, request: RequestInit = {}): Promise<Response> {
    const init = cleanRequest(request)
    let text = String(address)
    for (let redirects = 0; ; redirects++) {
      const { response, from } = await fetchOnce(text, init)
      const location = response.headers.get('Location')
      const isRedirect = REDIRECT_STATUSES.includes(response.status) && location !== null
      if (init.method !== 'GET' || !isRedirect || limits.returnsRedirects) return response
      await response.body?.cancel()
      text = resolveRedirect(from, location, redirects)
    }
  }

  function resolveRedirect(from: URL, location: string, redirects: number): string {
    const entry = trace.at(-1)!
    const refuse = (code: 'blocked_url' | 'upstream_error', reason: string) => {
      entry.outcome = code
      return fail(code, { about: `${entry.stage}: ${shortHost(from)}: ${reason}` })
    }
    if (!URL.canParse(location, from.href)) throw refuse('upstream_error', 'it redirects to an invalid address')
    const to = new URL(location, from)
    if (to.origin !== from.origin) throw refuse('blocked_url', `it redirects to another origin, ${shortHost(to)}`)
    if (redirects >= MAX_REDIRECTS) throw refuse('upstream_error', `it redirects more than ${MAX_REDIRECTS} times`)
    return to.href
  }

  return {
    fetch: guardedFetch,
    check,
    stage: name => {
      stage = name
    },
    trace,
  }
}

type CleanRequest = Pick<RequestInit, 'body'> & {
  duplex?: 'half'
  method: string
  headers: Headers
  signal: AbortSignal | undefined
}

function cleanRequest({ method = 'GET', headers, body, signal }: RequestInit): CleanRequest {
  const clean = new Headers(headers)
  for (const name of DROPPED_HEADERS) clean.delete(name)
  if (!clean.has('User-Agent')) clean.set('User-Agent', 'Slipway')
  // Node requires it for a stream.
  const sent = body != null && { body, ...(body instanceof ReadableStream && { duplex: 'half' as const }) }
  return { method: method.toUpperCase(), headers: clean, ...sent, signal: signal ?? undefined }
}

const shortHost = (url: URL): string => url.host.slice(0, 260)
const urlWithoutQuery = (url: URL): string => `${url.protocol}//${url.host}${url.pathname}`.slice(0, 500)

type TimeLimit = ReturnType<typeof startTimeLimit>

/** Ends work when the time is over or the caller aborts, even work that ignores its signal. */
function startTimeLimit(ms: number, idleMs: number, callerSignal: AbortSignal | undefined, timeout: () => Failure) {
  const controller = new AbortController()
  let expired: Failure | undefined
  let rejectWork: (failure: Failure) => void = () => {}
  const expire = () => {
    end()
    expired = timeout()
    rejectWork(expired)
    controller.abort()
  }
  const timer = setTimeout(expire, Math.max(0, ms))
  const end = () => {
    clearTimeout(timer)
    callerSignal?.removeEventListener('abort', expire)
  }
  callerSignal?.addEventListener('abort', expire)
  if (callerSignal?.aborted) expire()
  return {
    signal: controller.signal,
    /** Not a race with one lasting promise, which would keep memory for each part of a stream. */
    within: <T>(work: Promise<T>): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        rejectWork = reject
        const idleTimer = idleMs < ms ? setTimeout(expire, idleMs) : undefined
        work.then(resolve, reject).finally(() => clearTimeout(idleTimer))
        if (expired) reject(expired)
      }),
    end,
    abort: () => {
      end()
      controller.abort()
    },
  }
}

/** Streams the body within the time and size limits, and cancels it when it exceeds them. */
function limitBody(
  response: Response,
  maxBytes: number,
  limit: TimeLimit,
  recordFailure: (error: unknown) => Failure,
  tooLarge: () => Failure,
): Response {
  const headers = new Headers(response.headers)
  headers.delete('Set-Cookie')
  const { status } = response
  if (!response.body || BODILESS_STATUSES.includes(status)) {
    limit.abort()
    return new Response(null, { status, headers })
  }
  const reader = response.body.getReader()
  const stop = () => {
    limit.abort()
    reader.cancel().catch(() => {})
  }
  let bytes = 0
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          if (bytes > maxBytes) throw tooLarge()
          const { done, value } = await limit.within(reader.read())
          if (done) {
            limit.end()
            return controller.close()
          }
          bytes += value.byteLength
          // The part below the limit is passed on first: the reader may need no more.
          controller.enqueue(bytes > maxBytes ? value.subarray(0, maxBytes - bytes) : value)
        } catch (error) {
          stop()
          controller.error(recordFailure(error))
        }
      },
      cancel: stop,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}
