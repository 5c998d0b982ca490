// Reads the body of a request, and ends one that brings nothing or too little: while it arrives, it holds memory and a
// connection. It works on every runtime, and a host may have stricter limits of its own.
import { fail } from './errors.ts'

type Pace = {
  /** The longest pause between two chunks. */
  pauseMs: number
  /** The time that we wait in all. Each chunk extends it, and a trickle does not hold its share for longer. */
  graceMs: number
}
const PACE: Pace = { pauseMs: 10_000, graceMs: 20_000 }
/** The pace of archives and of requests to models, which may be spoken. They are not held in memory. */
export const LONG_PACE: Pace = { pauseMs: 30_000, graceMs: 30 * 60_000 }
const MIN_BYTES_PER_MS = 32

export type PacedReader = {
  /** Returns undefined at the end. */
  read(): Promise<Uint8Array | undefined>
  cancel(reason?: unknown): void
}

/** Only the time that we wait for the client counts. */
export function createPacedReader(stream: ReadableStream<Uint8Array>, { pauseMs, graceMs }: Pace = PACE): PacedReader {
  const reader = stream.getReader()
  let [bytes, waited, deadline] = [0, 0, 0]
  let [isWaiting, isLate] = [false, false]
  /** One for many reads: a body may come in chunks of a byte each. */
  let timer: ReturnType<typeof setTimeout> | undefined

  function check(): void {
    const left = deadline - performance.now()
    timer = isWaiting && left > 0 ? setTimeout(check, left) : undefined
    if (!isWaiting || left > 0) return
    isLate = true
    // The read that waits then ends like that of a complete body.
    cancel()
  }

  function cancel(reason?: unknown): void {
    clearTimeout(timer)
    timer = undefined
    reader.cancel(reason).catch(() => {})
  }

  async function read(): Promise<Uint8Array | undefined> {
    const start = performance.now()
    const left = graceMs + bytes / MIN_BYTES_PER_MS - waited
    deadline = start + Math.min(pauseMs, Math.max(0, left))
    isWaiting = true
    timer ??= setTimeout(check, deadline - start)
    try {
      const { value } = await reader.read()
      if (isLate) throw fail('body_too_slow')
      if (!value) clearTimeout(timer)
      waited += performance.now() - start
      bytes += value?.byteLength ?? 0
      return value
    } catch (cause) {
      clearTimeout(timer)
      throw isLate ? fail('body_too_slow') : fail('body_cut', { cause })
    } finally {
      isWaiting = false
    }
  }
  return { read, cancel }
}

/** The same as a stream, of a long body. `onEnd` may throw. */
export function paceStream(
  stream: ReadableStream<Uint8Array>,
  { onChunk = () => {}, onEnd = () => {} }: { onChunk?: (chunk: Uint8Array) => void; onEnd?: () => void } = {},
): ReadableStream<Uint8Array> {
  const reader = createPacedReader(stream, LONG_PACE)
  return new ReadableStream(
    {
      async pull(out) {
        const chunk = await reader.read()
        if (chunk) {
          onChunk(chunk)
          out.enqueue(chunk)
        } else {
          onEnd()
          out.close()
        }
      },
      cancel: reason => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}
