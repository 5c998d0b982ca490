// MCP over standard input and output, forwarded to `/mcp` of an installation: JSON-RPC messages, one a line, become
// requests, and their answers become lines.
import { ApiError, ConnectionError, isProblem, toConnectionError } from '../client/errors.ts'
import { EventStreamParser } from '../client/event-stream.ts'
import { toReport } from './failure.ts'
import type { Login } from './settings.ts'

type Id = string | number | null
type Message = {
  id?: Id
  method?: string
  params?: { _meta?: Record<string, unknown>; [name: string]: unknown }
  result?: { protocolVersion?: unknown }
  error?: unknown
}

export type ProxyOptions = {
  input: AsyncIterable<Uint8Array>
  write: (message: unknown) => void
  /** Writes to standard error, which clients keep as the log of the proxy. */
  note: (text: string) => void
  /** Called for each message, because a person can sign in while the client runs. */
  login: () => Login
  /** Renews keys that end soon. */
  fetchFor?: (login: Login) => typeof fetch
  userAgent: string
  signal: AbortSignal
  limits?: Partial<typeof LIMITS>
}

const LIMITS = {
  lineBytes: 4 * 1024 ** 2,
  answerBytes: 32 * 1024 ** 2,
  requestsAtOnce: 100,
  /** The installation sends a comment every 15 s while an answer takes its time. */
  silenceMs: 90_000,
  /** The time for the requests that are in flight when the input ends. */
  lastAnswersMs: 5_000,
}

const [PARSE_ERROR, INVALID_REQUEST, SERVER_ERROR] = [-32700, -32600, -32000]
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
/** The member that `Mcp-Name` repeats, by method. */
const NAMED_BY: Record<string, string> = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' }

export async function runProxy(options: ProxyOptions): Promise<void> {
  const { input, write, note, signal } = options
  const limits = { ...LIMITS, ...options.limits }
  const running = new Map<Id, AbortController>()
  const exchanges = new Set<Promise<void>>()
  let negotiated: string | undefined
  /** The last logged error, which is not repeated. Clients show only a part of an error, so the log has it. */
  let lastNote: string | undefined

  const fail = (ids: Iterable<Id>, code: number, message: string, data?: object) => {
    for (const id of ids) write({ jsonrpc: '2.0', id, error: { code, message, ...(data && { data }) } })
  }

  function receive(line: string): void {
    let parsed: unknown
    try {
      parsed = JSON.parse(line)
    } catch {
      fail([null], PARSE_ERROR, 'This line of standard input is not JSON. Send one message a line.')
      return
    }
    const messages = (Array.isArray(parsed) ? parsed : [parsed]) as Message[]
    if (messages.length === 0 || messages.some(one => typeof one !== 'object' || one === null)) {
      fail([null], INVALID_REQUEST, 'A message is a JSON object.')
      return
    }
    if (messages.length === 1 && messages[0]!.method === 'notifications/cancelled') {
      // Over HTTP, closing the connection of a request cancels it.
      running.get(messages[0]!.params?.requestId as Id)?.abort()
      return
    }
    const ids = messages.filter(one => one.method !== undefined && one.id !== undefined).map(one => one.id as Id)
    if (running.size + ids.length > limits.requestsAtOnce) {
      fail(ids, SERVER_ERROR, `More than ${limits.requestsAtOnce} requests are in flight. Wait for their answers.`)
      return
    }
    const exchange = send(line, messages, ids)
    exchanges.add(exchange)
    exchange.finally(() => exchanges.delete(exchange))
  }

  /** Answers each of the ids exactly once, or not at all when the client has cancelled. */
  async function send(line: string, messages: Message[], ids: Id[]): Promise<void> {
    const cut = new AbortController()
    const waiting = new Set(ids)
    for (const id of ids) running.set(id, cut)
    const initialized = messages.find(one => one.method === 'initialize')?.id
    const answer = (value: unknown) => {
      for (const one of (Array.isArray(value) ? value : [value]) as Message[]) {
        if (one.method === undefined) waiting.delete(one.id ?? null)
        if (initialized !== undefined && one.id === initialized && typeof one.result?.protocolVersion === 'string')
          negotiated = one.result.protocolVersion
      }
      write(value)
    }
    try {
      await exchange(line, messages, cut, answer, waiting)
      if (waiting.size > 0) throw new ConnectionError('The installation ended its answer before it was complete.')
    } catch (error) {
      if (cut.signal.aborted && !(cut.signal.reason instanceof ConnectionError)) return
      const { code, message, next, request_id, errors } = toReport(cut.signal.reason ?? error).report
      const text = next ? `${message} Next: ${next}` : message
      if (text !== lastNote) note(text)
      lastNote = text
      fail(waiting, SERVER_ERROR, text, { code, ...(next && { next }), request_id, errors })
    } finally {
      for (const id of ids) if (running.get(id) === cut) running.delete(id)
    }
  }

  async function exchange(
    body: string,
    messages: Message[],
    cut: AbortController,
    answer: (value: unknown) => void,
    waiting: Set<Id>,
  ): Promise<void> {
    const login = options.login()
    const { url, key, workspace } = login
    const send = options.fetchFor?.(login) ?? fetch
    const target = `${url.replace(/\/$/, '')}/mcp`
    const headers: Record<string, string> = {
      'X-Api-Key': key,
      'User-Agent': options.userAgent,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...(workspace && { 'X-Tenant-Id': workspace }),
      ...protocolHeaders(messages, negotiated),
    }
    let timer: ReturnType<typeof setTimeout> | undefined
    const expectBytes = () => {
      clearTimeout(timer)
      const silent = new ConnectionError(`No answer from ${new URL(target).origin} for ${limits.silenceMs / 1000} s.`)
      timer = setTimeout(() => cut.abort(silent), limits.silenceMs)
    }
    try {
      expectBytes()
      const ends = AbortSignal.any([signal, cut.signal])
      // A key must not follow a redirect to another server.
      const init: RequestInit = { method: 'POST', headers, body, redirect: 'manual', signal: ends }
      const response = await send(target, init)
      const isStream = response.ok && response.headers.get('Content-Type')?.startsWith('text/event-stream')
      const parser = isStream ? new EventStreamParser() : undefined
      const decoder = new TextDecoder()
      let text = ''
      let size = 0
      for await (const chunk of response.body ?? []) {
        expectBytes()
        const part = decoder.decode(chunk, { stream: true })
        size += chunk.length
        if (size > limits.answerBytes)
          throw new ApiError(response, { detail: 'The answer is too large for a message.' })
        if (!parser) text += part
        else
          for (const { data } of parser.push(part)) {
            answer(parseAnswer(response, data))
            size = 0
          }
        // A server may keep a stream open although it has answered.
        if (parser && waiting.size === 0) return
      }
      if (parser || (response.status === 202 && text === '')) return
      const value = parseAnswer(response, text + decoder.decode())
      if (response.ok || isJsonRpc(value)) answer(addressed(value, waiting))
      else throw toApiError(response, value)
    } catch (error) {
      throw error instanceof ApiError || cut.signal.aborted ? error : toConnectionError(target, error)
    } finally {
      clearTimeout(timer)
    }
  }

  for await (const line of readLines(input, limits.lineBytes, signal)) {
    if (line === undefined) fail([null], INVALID_REQUEST, `A message can have up to ${limits.lineBytes} bytes.`)
    else if (line.trim() !== '') receive(line)
  }
  let timer: ReturnType<typeof setTimeout> | undefined
  const isLate = new Promise<void>(resolve => {
    timer = setTimeout(resolve, limits.lastAnswersMs)
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  await Promise.race([Promise.allSettled(exchanges), isLate])
  clearTimeout(timer)
  for (const cut of running.values()) cut.abort()
}

/** The headers that the HTTP transport repeats from the body. Protocols up to 2025 have the version alone. */
function protocolHeaders(messages: Message[], negotiated: string | undefined): Record<string, string> {
  const [first] = messages
  const version = first?.params?._meta?.[VERSION_KEY]
  if (messages.length > 1 || typeof version !== 'string' || first?.method === undefined)
    return negotiated ? { 'MCP-Protocol-Version': negotiated } : {}
  const name = first.params?.[NAMED_BY[first.method] ?? '']
  return {
    'MCP-Protocol-Version': headerValue(version),
    'Mcp-Method': headerValue(first.method),
    ...(typeof name === 'string' && { 'Mcp-Name': headerValue(name) }),
  }
}

/** Encodes a value that a header cannot hold. */
function headerValue(text: string): string {
  if (/^(?!=\?base64\?.*\?=$)[!-~]([\t -~]*[!-~])?$/.test(text)) return text
  return `=?base64?${Buffer.from(text).toString('base64')}?=`
}

async function* readLines(
  input: AsyncIterable<Uint8Array>,
  maxLength: number,
  signal: AbortSignal,
): AsyncGenerator<string | undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  let isTooLong = false
  for await (const chunk of untilAborted(input, signal)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      yield isTooLong || line.length > maxLength ? undefined : line
      isTooLong = false
    }
    if (rest.length <= maxLength) continue
    isTooLong = true
    rest = ''
  }
  if (rest.trim() !== '') yield isTooLong ? undefined : rest
}

async function* untilAborted(input: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const chunks = input[Symbol.asyncIterator]()
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
  aborted.catch(() => {})
  for (;;) {
    signal.throwIfAborted()
    const { done, value } = await Promise.race([chunks.next(), aborted])
    if (done) return
    yield value
  }
}

const isJsonRpc = (value: unknown): boolean =>
  (Array.isArray(value) ? value : [value]).every(one => one?.jsonrpc === '2.0')

/** A refusal of the whole request has no id: it was given before the body was read. */
function addressed(value: unknown, waiting: Set<Id>): unknown {
  const { id, error } = value as Message
  const [only] = waiting
  return error !== undefined && (id ?? null) === null && only !== undefined ? { ...(value as object), id: only } : value
}

function parseAnswer(response: Response, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw toApiError(response, undefined)
  }
}

function toApiError(response: Response, body: unknown): ApiError {
  if (isProblem(body)) return new ApiError(response, body)
  const type = response.headers.get('Content-Type') ?? 'nothing'
  const what = `The server answered ${response.status} with ${type}`
  return new ApiError(response, { detail: `${what}, which is not an answer of Slipway. Check its address.` })
}
