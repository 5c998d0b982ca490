// Splits the log stream of a container, which multiplexes stdout and stderr, into lines.
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'

const HEADER_BYTES = 8
const STDERR_STREAM = 2
const TIME_BYTES = 40
const NEWLINE = 10

/**
 * Each frame has a header of eight bytes: the stream and the length. A line that was written in parts, or is long, has
 * a frame for each part, with a time of its own: only that of the first is part of the line.
 */
export function createLogDemultiplexer(onLine: (line: string, error: boolean) => void) {
  const makeStream = () => ({ lines: new LineSplitter(MAX_LINE_LENGTH), isOpen: false })
  const [out, err] = [makeStream(), makeStream()]
  let buffered: Buffer = Buffer.alloc(0)
  let left = 0
  let stream = out
  let isNewFrame = false
  return {
    push(chunk: Buffer): void {
      let at = 0
      buffered = buffered.length ? Buffer.concat([buffered, chunk]) : chunk
      while (at < buffered.length) {
        if (left === 0) {
          if (buffered.length - at < HEADER_BYTES) break
          stream = buffered[at] === STDERR_STREAM ? err : out
          left = buffered.readUInt32BE(at + 4)
          isNewFrame = true
          at += HEADER_BYTES
          continue
        }
        if (isNewFrame && stream.isOpen) {
          const start = buffered.subarray(at, at + Math.min(left, TIME_BYTES))
          if (start.length < Math.min(left, TIME_BYTES)) break
          const [{ length }] = /^(?:\d{4}-\d\d-\d\dT\S+ )?/.exec(start.toString('latin1'))!
          at += length
          left -= length
        }
        isNewFrame = false
        const part = buffered.subarray(at, at + left)
        if (part.length > 0) stream.isOpen = part.at(-1) !== NEWLINE
        for (const line of stream.lines.push(part)) onLine(line, stream === err)
        at += part.length
        left -= part.length
      }
      buffered = buffered.subarray(at)
    },
    end(): void {
      for (const line of out.lines.end()) onLine(line, false)
      for (const line of err.lines.end()) onLine(line, true)
    },
  }
}
