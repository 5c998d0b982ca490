// Splits the log stream of a container, which multiplexes stdout and stderr, into lines.
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'

const HEADER_BYTES = 8
const STDERR_STREAM = 2

/** Each frame has a header of eight bytes: the stream and the length. */
export function createLogDemultiplexer(onLine: (line: string, error: boolean) => void) {
  const streams = { out: new LineSplitter(MAX_LINE_LENGTH), err: new LineSplitter(MAX_LINE_LENGTH) }
  let buffered: Buffer = Buffer.alloc(0)
  let left = 0
  let error = false
  return {
    push(chunk: Buffer): void {
      let at = 0
      buffered = buffered.length ? Buffer.concat([buffered, chunk]) : chunk
      while (at < buffered.length) {
        if (left === 0) {
          if (buffered.length - at < HEADER_BYTES) break
          error = buffered[at] === STDERR_STREAM
          left = buffered.readUInt32BE(at + 4)
          at += HEADER_BYTES
          continue
        }
        const part = buffered.subarray(at, at + left)
        for (const line of (error ? streams.err : streams.out).push(part)) onLine(line, error)
        at += part.length
        left -= part.length
      }
      buffered = buffered.subarray(at)
    },
    end(): void {
      for (const line of streams.out.end()) onLine(line, false)
      for (const line of streams.err.end()) onLine(line, true)
    },
  }
}
