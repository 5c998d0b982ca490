// Bytes into lines: those of a stream, and those of a container's two streams that the engine sends as one.
import { StringDecoder } from 'node:string_decoder'

export const MAX_LINE_LENGTH = 16 * 1024
const HEADER_BYTES = 8
const STDERR_STREAM = 2

/** Whole lines, however the chunks are cut; one without an end is cut where it gets too long. */
export class LineSplitter {
  readonly #longest: number
  readonly #keepsBlank: boolean
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''
  #skipping = false

  /** `inside`: the first chunk begins within a line, whose rest is left out. */
  constructor(longest = Number.POSITIVE_INFINITY, { blank = false, inside = false } = {}) {
    this.#longest = longest
    this.#keepsBlank = blank
    this.#skipping = inside
  }

  /** The rest of the line that was begun is left out. */
  get isSkipping(): boolean {
    return this.#skipping
  }

  push(chunk: Buffer): string[] {
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop()!
    if (lines.length && this.#skipping) {
      lines.shift()
      this.#skipping = false
    }
    if (this.#rest.length > this.#longest) {
      if (!this.#skipping) lines.push(this.#rest)
      this.#rest = ''
      this.#skipping = true
    }
    return lines.map(line => this.#cut(line)).filter(line => this.#keepsBlank || line !== '')
  }

  end(): string[] {
    const last = this.#skipping ? '' : this.#cut(this.#rest + this.#decoder.end())
    this.#rest = ''
    return last ? [last] : []
  }

  #cut(line: string): string {
    const whole = line.endsWith('\r') ? line.slice(0, -1) : line
    return whole.length > this.#longest ? `${whole.slice(0, this.#longest)}…` : whole
  }
}

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
