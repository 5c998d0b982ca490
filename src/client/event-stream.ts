// Server-sent events: the parser, and a reader that goes on where it was cut.
import { ApiError, ConnectionError, isProblem } from './errors.ts'
import { backoffDelay, pause, type RetryPolicy, retryDelay } from './retry.ts'

/** The stream goes on after `id`. */
export type StreamEvent<Item> = { id: string | undefined } & (
  | { event: 'message'; data: Item }
  /** Items are missing. After `reset`, read again what they are about. */
  | { event: 'reset' | 'dropped' | 'job'; data: unknown }
)
export type StreamState = { state: 'live' } | { state: 'reconnecting'; delayMs: number; error: unknown }

type Parsed = { event: string; data: string }

/** The parser of the HTML standard. */
export class EventStreamParser {
  /** The id of the last complete block, from which a stream resumes. The block may be a cursor without data. */
  lastId: string | undefined
  retryMs: number | undefined
  #rest = ''
  #endsInReturn = false
  #id: string | undefined
  #event = ''
  #data: string[] = []

  constructor(lastId?: string) {
    this.lastId = this.#id = lastId
  }

  *push(text: string): Generator<Parsed> {
    // A long line comes in many parts: looking at all of it again for each would take time that grows with its square.
    if (!this.#endsInReturn && !/[\r\n]/.test(text)) {
      this.#rest += text
      return
    }
    // A carriage return at the end may be the first half of a line's end.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop()!
    this.#endsInReturn = this.#rest.endsWith('\r')
    for (const line of lines) {
      if (line === '') yield* this.#dispatch()
      else this.#readField(line)
    }
  }

  *#dispatch(): Generator<Parsed> {
    const parsed = { event: this.#event || 'message', data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.lastId = this.#id
    this.#event = ''
    this.#data = []
    if (!isEmpty) yield parsed
  }

  #readField(line: string): void {
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    if (name === 'data') this.#data.push(value)
    else if (name === 'event') this.#event = value
    else if (name === 'id' && !value.includes('\0')) this.#id = value
    else if (name === 'retry' && /^\d{1,9}$/.test(value)) this.retryMs = Number(value)
  }
}

export type StreamOptions = {
  /** Opens the stream after this id. Throws `ApiError` or `ConnectionError`. */
  open(lastId: string | undefined, signal: AbortSignal): Promise<Response>
  retry: RetryPolicy
  /** A stream that is silent for this long is cut: the server sends a comment every 15 s. */
  silenceMs: number
  signal: AbortSignal | undefined
  onState: ((state: StreamState) => void) | undefined
}

/** Ends only when the signal aborts or the server refuses: a person who watches waits longer than a call does. */
export async function* readStream<Item>(options: StreamOptions): AsyncGenerator<StreamEvent<Item>> {
  const { open, signal, onState } = options
  const retry = { ...options.retry, attempts: Number.POSITIVE_INFINITY }
  let lastId: string | undefined
  for (let failures = 0; ; ) {
    let delayMs = retry.firstDelayMs
    let error: unknown
    const parser = new EventStreamParser(lastId)
    try {
      for await (const item of readOnce(response => open(lastId, response), parser, options)) {
        failures = 0
        if (item === 'open') onState?.({ state: 'live' })
        else yield item as StreamEvent<Item>
      }
    } catch (caught) {
      signal?.throwIfAborted()
      error = caught
      const wait = retryDelay(caught, ++failures, retry)
      if (wait === undefined) throw caught
      delayMs = wait
    }
    lastId = parser.lastId
    if (error === undefined) delayMs = Math.max(parser.retryMs ?? 0, backoffDelay(1, retry))
    onState?.({ state: 'reconnecting', delayMs, error })
    await pause(delayMs, signal)
  }
}

async function* readOnce(
  open: (signal: AbortSignal) => Promise<Response>,
  parser: EventStreamParser,
  { silenceMs, signal }: StreamOptions,
): AsyncGenerator<StreamEvent<unknown> | 'open'> {
  const cut = new AbortController()
  const abort = () => cut.abort(signal?.reason)
  signal?.throwIfAborted()
  signal?.addEventListener('abort', abort, { once: true })
  let timer: ReturnType<typeof setTimeout> | undefined
  const expectBytes = () => {
    clearTimeout(timer)
    timer = setTimeout(() => cut.abort(), silenceMs)
  }
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  try {
    expectBytes()
    const response = await open(cut.signal)
    reader = response.body!.getReader()
    yield 'open'
    const decoder = new TextDecoder()
    for (;;) {
      expectBytes()
      const { done, value } = await reader.read().catch(cause => {
        throw new ConnectionError('The stream was cut.', { cause })
      })
      if (done) return
      for (const { event, data } of parser.push(decoder.decode(value, { stream: true })))
        yield toItem(response, event, data, parser.lastId)
    }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
    await reader?.cancel().catch(() => {})
  }
}

function toItem(response: Response, event: string, data: string, id: string | undefined): StreamEvent<unknown> {
  const value: unknown = JSON.parse(data)
  if (event !== 'error') return { id, event: event as 'message', data: value }
  if (!isProblem(value)) throw new ConnectionError('The stream ended with an error.')
  const { status = response.status } = value as { status?: number }
  throw new ApiError({ status, headers: response.headers }, value)
}
