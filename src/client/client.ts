// The client of the API. Its calls are typed by the declarations of the routes, and it runs wherever `fetch` does.
import type { Api } from '../app.ts'
import { ApiError, ConnectionError, isProblem, toConnectionError } from './errors.ts'
import type { StreamEvent, StreamState } from './event-stream.ts'
import { DEFAULT_RETRY, pause, type RetryPolicy, retryDelay } from './retry.ts'

export type Route = keyof Api & string
export type Reply<R extends Route> = Api[R]['reply']
export type Plan<R extends Route> = Api[R]['plan']
/** Routes that can answer with a plan of what they would change. */
export type PlannedRoute = { [R in Route]: [Plan<R>] extends [never] ? never : R }[Route]
/** Routes that answer with a page of a list. */
export type ListRoute = {
  [R in Route]: R extends `GET ${string}`
    ? Reply<R> extends { resources: unknown[]; offset: number }
      ? R
      : never
    : never
}[Route]
export type Item<R extends ListRoute> = Reply<R>['resources'][number]

export type StreamRoute = Extract<Route, `GET ${string}/stream`>
/** A stream has the items of the list beside it. */
export type StreamItem<R extends StreamRoute> = R extends `${infer Listed extends Route}/stream`
  ? Reply<Listed> extends { resources: (infer Item)[] } | { logs: (infer Item)[] }
    ? Item
    : never
  : never
export type StreamControls = { onState?: (state: StreamState) => void; silenceMs?: number }

type OptionalWhereEmpty<Parts> = {
  [Name in keyof Parts as object extends Parts[Name]
    ? never
    : Parts[Name] extends undefined
      ? never
      : Name]: Parts[Name]
} & { [Name in keyof Parts as object extends Parts[Name] ? Name : never]?: Parts[Name] }

export type CallHeaders = {
  /** The `etag` of an earlier answer: the write fails with `precondition_failed` if it is no longer the current one. */
  'If-Match'?: string | undefined
  /** The `plan_digest` of a plan: the write fails with `plan_stale` if it would do something else. */
  'Plan-Digest'?: string | undefined
  'Idempotency-Key'?: string | undefined
  [name: string]: string | undefined
}
type CommonOptions = { headers?: CallHeaders | undefined; signal?: AbortSignal | undefined }
export type CallOptions<R extends Route> = OptionalWhereEmpty<Pick<Api[R], 'params' | 'query' | 'body'>> & CommonOptions
type Arguments<R extends Route> = object extends CallOptions<R> ? [options?: CallOptions<R>] : [options: CallOptions<R>]

export type Answer<R extends Route> = {
  reply: Reply<R>
  status: number
  headers: Headers
  etag: string | undefined
  requestId: string | undefined
}

export type ClientOptions = {
  /** The address of the installation. */
  url: string
  /** Without a key, the platform authenticates, such as by the cookie of a page. */
  key?: string | undefined
  /** The workspace to act in, for a key of the organization. */
  workspace?: string | undefined
  fetch?: typeof fetch
  headers?: Record<string, string>
  /** A request that takes longer counts as cut. */
  timeoutMs?: number
  retry?: Partial<RetryPolicy>
  onRetry?: (retry: { request: string; attempt: number; delayMs: number; error: unknown }) => void
}

/** A request whose types nothing checks: `slipway api` sends what a person wrote. */
export type RawRequest = {
  method: string
  path: string
  query?: object | undefined
  body?: unknown
  headers?: CallHeaders | undefined
  signal?: AbortSignal | undefined
}

export type Client = ReturnType<typeof createClient>

/** Long requests, such as a wait for a revision, take up to a minute. */
const DEFAULT_TIMEOUT_MS = 90_000
const SILENCE_MS = 45_000
const REDIRECTS = [301, 302, 303, 307, 308]

export function createClient(options: ClientOptions) {
  const { key, workspace, timeoutMs = DEFAULT_TIMEOUT_MS, onRetry } = options
  const base = options.url.replace(/\/$/, '')
  const retry = { ...DEFAULT_RETRY, ...options.retry }
  const fetchOnce = options.fetch ?? ((input, init) => fetch(input, init))

  const headersOf = (own: CallHeaders = {}, body?: unknown): Headers => {
    const headers = new Headers(options.headers)
    // The types are of these words, also where the installation speaks those of a vendor by itself.
    headers.set('X-Contract-Words', 'contract')
    if (key) headers.set('X-Api-Key', key)
    if (workspace) headers.set('X-Tenant-Id', workspace)
    if (body !== undefined) headers.set('Content-Type', 'application/json')
    for (const [name, value] of Object.entries(own)) if (value !== undefined) headers.set(name, value)
    return headers
  }

  async function connect(url: string, init: RequestInit): Promise<Response> {
    const response = await fetchOnce(url, { ...init, redirect: 'manual' }).catch(cause => {
      throw toConnectionError(url, cause)
    })
    if (response.type !== 'opaqueredirect' && !REDIRECTS.includes(response.status)) return response
    // A key must not follow a redirect to another server, and a POST would become a GET.
    const location = response.headers.get('Location')
    const target = location !== null && URL.canParse(location, url) ? new URL(location, url) : undefined
    // Without the query, which may be the signature of an upload.
    const where = target && ` to ${target.protocol}//${target.host}${target.pathname}`
    const detail = `${new URL(url).origin} redirects${where ?? ''}. Use the address it redirects to.`
    throw new ApiError(response, { detail })
  }

  async function connectAndRead(url: string, init: RequestInit): Promise<[Response, body: unknown]> {
    const response = await connect(url, init)
    const body = await readJson(response).catch(cause => {
      throw toConnectionError(url, cause)
    })
    if (!response.ok || body === NOT_JSON) throw toApiError(response, body)
    return [response, body]
  }

  async function exchange(request: RawRequest, init: RequestInit): Promise<Answer<Route>> {
    const timeout = AbortSignal.timeout(timeoutMs)
    const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
    const url = base + request.path + queryText(request.query)
    const [{ status, headers }, body] = await connectAndRead(url, { ...init, signal })
    const [etag, requestId] = ['ETag', 'X-Request-Id'].map(name => headers.get(name) ?? undefined)
    return { reply: body as never, status, headers, etag, requestId }
  }

  async function repeat<T>(name: string, canRepeat: boolean, act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await act()
      } catch (error) {
        signal?.throwIfAborted()
        const delayMs = canRepeat ? retryDelay(error, attempt, retry) : undefined
        if (delayMs === undefined) throw error
        onRetry?.({ request: name, attempt, delayMs, error })
        await pause(delayMs, signal)
      }
    }
  }

  async function sendOnce(request: RawRequest, idempotencyKey?: string): Promise<Answer<Route>> {
    const { method, body } = request
    const headers = headersOf({ 'Idempotency-Key': idempotencyKey, ...request.headers }, body)
    return exchange(request, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  }

  /** Sends a request as it is. A GET is repeated, and a POST or PATCH too: all attempts have one Idempotency-Key. */
  async function send(request: RawRequest): Promise<Answer<Route>> {
    const { method, path, signal } = request
    signal?.throwIfAborted()
    const idempotencyKey = method === 'POST' || method === 'PATCH' ? crypto.randomUUID() : undefined
    const canRepeat = method === 'GET' || idempotencyKey !== undefined
    return repeat(`${method} ${path}`, canRepeat, () => sendOnce(request, idempotencyKey), signal)
  }

  const request = <R extends Route>(route: R, [given]: Arguments<R>): RawRequest => {
    const { params, ...rest } = (given ?? {}) as CommonOptions & { params?: object; query?: object; body?: unknown }
    const [method, path] = route.split(' ') as [string, string]
    return { method, path: fillPath(path, params), ...rest }
  }

  async function answer<R extends Route>(route: R, ...args: Arguments<R>): Promise<Answer<R>> {
    return (await send(request(route, args))) as Answer<R>
  }

  async function call<R extends Route>(route: R, ...args: Arguments<R>): Promise<Reply<R>> {
    return (await answer(route, ...args)).reply
  }

  async function plan<R extends PlannedRoute>(route: R, ...args: Arguments<R>): Promise<Plan<R>> {
    const one = request(route, args)
    return (await send({ ...one, query: { ...one.query, dry_run: true } })).reply as unknown as Plan<R>
  }

  async function* pages<R extends ListRoute>(route: R, ...args: Arguments<R>): AsyncGenerator<Reply<R>> {
    const first = request(route, args)
    for (let cursor: string | undefined; ; ) {
      const { reply, headers } = await send({ ...first, query: { ...first.query, ...(cursor && { cursor }) } })
      yield reply as Reply<R>
      cursor = nextCursor(headers.get('Link'))
      if (!cursor) return
    }
  }

  async function* list<R extends ListRoute>(route: R, ...args: Arguments<R>): AsyncGenerator<Item<R>> {
    for await (const { resources } of pages(route, ...args)) yield* resources as Item<R>[]
  }

  /** Follows a stream. A cut one goes on after the last event that was received. */
  async function* stream<R extends StreamRoute>(
    route: R,
    given: CallOptions<R> & StreamControls,
  ): AsyncGenerator<StreamEvent<StreamItem<R>>> {
    const { silenceMs = SILENCE_MS, onState, ...call } = given as CallOptions<Route> & StreamControls
    const { path, query, headers: own, signal } = request(route as Route, [call] as never)
    const url = base + path + queryText(query)
    const open = async (lastId: string | undefined, signal: AbortSignal) => {
      const headers = headersOf({ ...own, Accept: 'text/event-stream', 'Last-Event-ID': lastId })
      const response = await connect(url, { headers, signal })
      if (response.ok && response.headers.get('Content-Type')?.startsWith('text/event-stream')) return response
      throw toApiError(response, await readJson(response).catch(() => NOT_JSON))
    }
    // A page loads it after what it shows first.
    const { readStream } = await import('./event-stream.ts')
    yield* readStream<StreamItem<R>>({ open, retry, silenceMs, signal, onState })
  }

  /** A body of bytes, read as it arrives. Only its opening is repeated, and one that is cut throws. */
  async function* download<R extends Route>(
    route: R,
    given: CallOptions<R> & { silenceMs?: number },
  ): AsyncGenerator<Uint8Array> {
    const { silenceMs = timeoutMs, ...call } = given as CallOptions<Route> & { silenceMs?: number }
    const { path, query, headers: own, signal } = request(route as Route, [call] as never)
    const url = base + path + queryText(query)
    let silence = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const expectBytes = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(new DOMException('silent', 'TimeoutError')), silenceMs)
    }
    const open = async () => {
      silence = new AbortController()
      expectBytes()
      const ends = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal
      const response = await connect(url, { headers: headersOf(own), signal: ends })
      if (response.ok) return response
      throw toApiError(response, await readJson(response).catch(() => NOT_JSON))
    }
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
    try {
      reader = (await repeat(`GET ${path}`, true, open, signal)).body?.getReader()
      while (reader) {
        expectBytes()
        const { done, value } = await reader.read().catch(cause => {
          signal?.throwIfAborted()
          throw new ConnectionError('The download was cut, so it is not complete.', { cause })
        })
        if (done) return
        clearTimeout(timer)
        yield value
      }
    } finally {
      clearTimeout(timer)
      await reader?.cancel().catch(() => {})
    }
  }

  /**
   * Uploads a source archive for the id of a deployment, or for a new one with the settings that it will have. A link
   * works once, so a failed attempt asks for another one, and `archive` is called for each attempt.
   */
  async function upload(
    target: string | NewUpload,
    archive: () => Blob | ReadableStream<Uint8Array>,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<Upload> {
    const attempt = async () => {
      const link =
        typeof target === 'string'
          ? request('POST /v2/deployments/{deployment_id}/upload-url', [{ params: { deployment_id: target }, signal }])
          : request('POST /v2/uploads', [{ body: target, signal }])
      const { upload_url } = (await sendOnce(link)).reply as Reply<'POST /v2/uploads'>
      const headers = { 'Content-Type': 'application/gzip' }
      const streamed = { method: 'PUT', headers, body: archive(), duplex: 'half' as const, signal: signal ?? null }
      return (await connectAndRead(upload_url, streamed))[1] as Upload
    }
    return repeat('PUT archive', true, attempt, signal)
  }

  return { url: base, call, answer, plan, pages, list, stream, download, upload, send }
}

type NewUpload = NonNullable<CallOptions<'POST /v2/uploads'>['body']>
export type Upload = {
  object_path: string
  size: number
  sha256: string
  build_plan: Reply<'GET /v2/deployments/{deployment_id}/revisions/{revision_id}'>['build_plan']
  build_refusal: string | null
}

const NOT_JSON = Symbol('not JSON')
/** Several times the largest answer of an installation. */
const MAX_ANSWER_BYTES = 128 * 1024 ** 2

async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  let text = ''
  for (let size = 0; reader; ) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    text += decoder.decode(value, { stream: true })
    if (size <= MAX_ANSWER_BYTES) continue
    await reader.cancel().catch(() => {})
    throw new ApiError(response, { detail: 'The answer has more than 128 MB.' })
  }
  return text + decoder.decode()
}

async function readJson(response: Response): Promise<unknown> {
  const text = await readText(response)
  if (text === '' && response.status === 204) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return NOT_JSON
  }
}

function toApiError(response: Response, body: unknown): ApiError {
  if (isProblem(body)) return new ApiError(response, body)
  const type = response.headers.get('Content-Type') ?? 'nothing'
  const what = `The server answered ${response.status} with ${type}`
  return new ApiError(response, { detail: `${what}, which is no answer of Slipway. Check its address.` })
}

function fillPath(path: string, params: object = {}): string {
  const values = new Map(Object.entries(params))
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values.get(name) ?? '')
    // URLs drop the segments `.` and `..`, which would lead to another route.
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`${name} of ${path} is ${value ? `"${value}"` : 'missing'}.`)
    return encodeURIComponent(value)
  })
}

function queryText(query: object | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null)
  const text = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString()
  return text && `?${text}`
}

/** Reads the `Link` header of a page. */
export function nextCursor(link: string | null): string | undefined {
  const [, target] = /^<([^>]+)>; rel="next"$/.exec(link ?? '') ?? []
  return target === undefined ? undefined : (new URL(target, 'http://page').searchParams.get('cursor') ?? undefined)
}
