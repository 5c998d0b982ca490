// Streams of events, and answers that take long.
import { cancelRuns, getRun, hasEnded } from '../runs.ts'
import type { Server } from '../server.ts'
import { joinRun, type StreamEvent, type Wait } from '../streams.ts'

const ALWAYS = ['metadata', 'error', 'feedback']
/** The first word of an event is its mode: `values|child:1`, `messages/partial`. */
const modeOf = (event: string) => event.split('|')[0]!.split('/')[0]!

function isWanted(event: string, modes: string[] | undefined): boolean {
  if (event === 'protocol') return false
  if (!modes || modes.length === 0) return true
  const mode = modeOf(event)
  return ALWAYS.includes(mode) || modes.includes(mode) || (mode === 'messages' && modes.includes('messages-tuple'))
}

const encodeWith =
  (modes: string[] | undefined) =>
  ({ id, event, data }: StreamEvent) =>
    isWanted(event, modes) ? `id: ${id}\nevent: ${event}\ndata: ${data}\n\n` : ''

type Pages = AsyncGenerator<StreamEvent[]>
type StreamOptions = {
  headers: Record<string, string>
  modes?: string[] | undefined
  /** Text of an event, which is empty for one that the caller does not want. */
  encode?: (event: StreamEvent) => string
  /** Called if the caller goes before the end. */
  onDisconnect?: (() => Promise<void>) | undefined
  signal: AbortSignal
}

export function eventStream(open: (signal: AbortSignal) => Pages, options: StreamOptions): Response {
  const { headers, onDisconnect, signal, encode = encodeWith(options.modes) } = options
  const encoder = new TextEncoder()
  const left = new AbortController()
  const pages = open(left.signal)
  let hasFinished = false
  const leave = () => {
    if (hasFinished || left.signal.aborted) return
    left.abort()
    // It may be between two pages, of which no other is asked for.
    void pages.return(undefined)
    onDisconnect?.().catch(error => console.error(`cancel on disconnect failed: ${(error as Error).message}`))
  }
  signal.addEventListener('abort', leave, { once: true })
  const finish = () => {
    hasFinished = true
    signal.removeEventListener('abort', leave)
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const page = await pages.next()
        if (page.done) {
          finish()
          return controller.close()
        }
        // A comment keeps proxies from closing a quiet connection, and shows that the caller is there.
        controller.enqueue(encoder.encode(page.value.map(encode).join('') || ': heartbeat\n\n'))
      } catch (error) {
        finish()
        controller.error(error)
      }
    },
    cancel: leave,
  })
  return new Response(body, {
    headers: {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      ...headers,
    },
  })
}

const KEEP_ALIVE_MS = 5000
/** An answer that comes sooner is sent at once, which costs less than one that is streamed. */
const SOON_MS = 300

type OutputOptions = {
  headers: Record<string, string>
  signal: AbortSignal
  isCancelling: boolean
  /** A wait that began before the run was created. */
  first?: Wait | undefined
}

/** Answers with the output of a run. Line feeds before it keep a long wait alive. */
export async function outputOf(
  server: Server,
  runId: string,
  { headers, signal, isCancelling, first }: OutputOptions,
): Promise<Response> {
  const left = new AbortController()
  let hasFinished = false
  const leave = () => {
    if (hasFinished || left.signal.aborted) return
    left.abort()
    first?.end()
    if (isCancelling)
      cancelIfActive(server, runId).catch(error =>
        console.error(`cancel on disconnect failed: ${(error as Error).message}`),
      )
  }
  signal.addEventListener('abort', leave, { once: true })
  const joined = joinRun(server.db, server.waiters, runId, { signal: left.signal, first })
    .then(run => (run ? run.output : ROLLED_BACK))
    .finally(() => {
      hasFinished = true
      signal.removeEventListener('abort', leave)
    })
  const all = { 'Content-Type': 'application/json', ...headers }
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>(resolve => {
    timer = setTimeout(resolve, SOON_MS, null)
  })
  const soon = await Promise.race([joined, late]).finally(() => clearTimeout(timer))
  return new Response(soon ?? streamLater(joined, leave), { headers: all })
}

function streamLater(joined: Promise<string>, leave: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let timer: NodeJS.Timeout | undefined
  // To write into a stream that is closed throws, which would end the server.
  let isOpen = true
  const close = () => {
    isOpen = false
    clearInterval(timer)
  }
  return new ReadableStream<Uint8Array>({
    async start(controller) {
      timer = setInterval(() => controller.enqueue(encoder.encode('\n')), KEEP_ALIVE_MS)
      try {
        const output = await joined
        if (!isOpen) return
        controller.enqueue(encoder.encode(output))
        controller.close()
      } catch (error) {
        if (isOpen) controller.error(error)
      } finally {
        close()
      }
    },
    cancel() {
      close()
      leave()
    },
  })
}

const ROLLED_BACK = JSON.stringify({
  __error__: { error: 'RunRolledBack', message: 'The run was rolled back before it ended.' },
})

export async function cancelIfActive(server: Server, runId: string): Promise<void> {
  const run = await getRun(server.db.query, runId).catch(() => null)
  if (run && !hasEnded(run.status)) await cancelRuns(server.db, [runId], 'interrupt')
}
