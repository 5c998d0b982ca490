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
