// Splits the log stream of a container, which multiplexes stdout and stderr, into lines.
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'

const HEADER_BYTES = 8
const STDERR_STREAM = 2

/** Each frame says in eight bytes which stream it is of, and how long it is. */
export function createLogDemultiplexer(told: (line: string, error: boolean) => void) {
  const streams = { out: new LineSplitter(MAX_LINE_LENGTH), err: new LineSplitter(MAX_LINE_LENGTH) }
  let held: Buffer = Buffer.alloc(0)
  let left = 0
  let error = false
  return {
    push(chunk: Buffer): void {
      let at = 0
      held = held.length ? Buffer.concat([held, chunk]) : chunk
      while (at < held.length) {
        if (left === 0) {
          if (held.length - at < HEADER_BYTES) break
          error = held[at] === STDERR_STREAM
          left = held.readUInt32BE(at + 4)
          at += HEADER_BYTES
          continue
        }
        const part = held.subarray(at, at + left)
        for (const line of (error ? streams.err : streams.out).push(part)) told(line, error)
        at += part.length
        left -= part.length
      }
      held = held.subarray(at)
    },
    end(): void {
      for (const line of streams.out.end()) told(line, false)
      for (const line of streams.err.end()) told(line, true)
    },
  }
}
