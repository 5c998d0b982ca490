// Answers that go on while things happen: server-sent events, or lines of JSON for `Accept: application/x-ndjson`.
import type { Ctx } from './context.ts'
import { type Failure, problemBody, toFailure } from './errors.ts'
import { invalidRequest } from './input.ts'

/** `json` is one line. Without `event`, it is an item of the stream. `job`: the job whose lines the items are. */
export type StreamMessage = { id?: string; event?: 'reset' | 'dropped' | 'job'; json: string }
/** `cursor` is where a client goes on after these messages. It may have moved past items that a filter leaves out. */
export type StreamBatch = { messages: StreamMessage[]; cursor: string }

export type LiveStream = {
  /** Ends when the signal aborts, or when the stream has lasted long enough: the client then comes back. */
  follow(signal: AbortSignal): AsyncGenerator<StreamBatch>
  /** Runs once, also where the platform drops the generator of a client that has disconnected. */
  onEnd(): void
}

export const STREAM_MEDIA_TYPES = { sse: 'text/event-stream', ndjson: 'application/x-ndjson' } as const

/** Proxies close connections that are silent for a minute or less. */
const PING_MS = 15_000
/** A client that reads nothing for this long is cut off. It resumes at its cursor. */
const STALL_MS = 60_000
/** When to come back, with a random part, so that not all clients of a restarted server return at once. */
const [MIN_RETRY_MS, RETRY_SPREAD_MS] = [500, 1500]

/** The header that `EventSource` sends when it reconnects wins over the query parameter. */
export function resumeAfter(ctx: Ctx, after: number | undefined): number | undefined {
  if (!ctx.lastEventId) return after
  if (/^\d{1,15}$/.test(ctx.lastEventId)) return Number(ctx.lastEventId)
  throw invalidRequest([
    { type: 'invalid_format', loc: ['header', 'Last-Event-ID'], msg: 'must be the id of an event of this stream' },
  ])
}

type Format = Record<'cursor' | 'ping' | 'end', (cursor: string) => string> & {
  /** Precedes the first message, ping or end. */
  start(): string
  message(message: StreamMessage): string
  error(problem: object): string
}

const retryMs = () => MIN_RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS)
const idLine = (id: string | undefined) => (id ? `id: ${id}\n` : '')

/** An `id` without data moves the cursor of `EventSource` and dispatches nothing. */
const SSE: Format = {
  start: () => `retry: ${retryMs()}\n`,
  message: ({ id, event = 'message', json }) => `${idLine(id)}event: ${event}\ndata: ${json}\n\n`,
  cursor: cursor => `${idLine(cursor)}\n`,
  ping: cursor => `: ping\n${idLine(cursor)}\n`,
  end: cursor => `${idLine(cursor)}retry: ${retryMs()}\n\n`,
  error: problem => `event: error\ndata: ${JSON.stringify(problem)}\n\n`,
}

const NDJSON: Format = {
  start: () => '',
  message: ({ event, json }) => (event ? `{"${event}":${json}}\n` : `${json}\n`),
  cursor: cursor => `${JSON.stringify({ cursor })}\n`,
  ping: cursor => `${JSON.stringify({ cursor })}\n`,
  end: cursor => `${JSON.stringify({ end: { cursor, retry_ms: retryMs() } })}\n`,
  error: problem => `${JSON.stringify({ error: problem })}\n`,
}

type StreamOptions = {
  accept: string | undefined
  requestId: string
  origin: string
  onFailure(failure: Failure): void
}

export function openLiveStream(live: LiveStream, options: StreamOptions) {
  const isNdjson = /\bapplication\/(x-)?ndjson\b/i.test(options.accept ?? '')
  const headers = {
    'Content-Type': isNdjson ? STREAM_MEDIA_TYPES.ndjson : STREAM_MEDIA_TYPES.sse,
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  }
  return { headers, body: createBody(live, isNdjson ? NDJSON : SSE, options) }
}

/** Works only when the reader asks for more, so a slow reader makes no look and holds one batch at most. */
function createBody({ follow, onEnd }: LiveStream, format: Format, { requestId, origin, onFailure }: StreamOptions) {
  const encoder = new TextEncoder()
  const aborter = new AbortController()
  const batches = follow(aborter.signal)
  let next: Promise<IteratorResult<StreamBatch>> | undefined
  let cursor = ''
  let prefix = format.start()
  let stallTimer: ReturnType<typeof setTimeout> | undefined
  const finish = () => {
    clearTimeout(stallTimer)
    if (aborter.signal.aborted) return
    aborter.abort()
    onEnd()
  }

  /** The text to send, and whether more follows. A batch without messages only moves the cursor. */
  async function readText(): Promise<{ text: string; isLast: boolean }> {
    for (;;) {
      next ??= batches.next()
      const result = await withTimeout(next, PING_MS)
      if (!result) return { text: format.ping(cursor), isLast: false }
      next = undefined
      if (result.done) return { text: format.end(cursor), isLast: true }
      const isFirst = cursor === ''
      cursor = result.value.cursor
      if (result.value.messages.length > 0)
        return { text: result.value.messages.map(format.message).join(''), isLast: false }
      // A client that is cut off before the first item must know where it began.
      if (isFirst) return { text: format.cursor(cursor), isLast: false }
    }
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(stallTimer)
        const { text, isLast } = await readText().catch(async error => {
          const failure = toFailure(error)
          onFailure(failure)
          return { text: format.error(await problemBody(failure, requestId, origin)), isLast: true }
        })
        if (aborter.signal.aborted) return
        controller.enqueue(encoder.encode(prefix + text))
        prefix = ''
        if (isLast) {
          controller.close()
          return finish()
        }
        stallTimer = setTimeout(() => {
          controller.error(new Error('The client reads nothing.'))
          finish()
        }, STALL_MS)
      },
      cancel: finish,
    },
    { highWaterMark: 0 },
  )
}

async function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<undefined>(resolve => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer))
}
