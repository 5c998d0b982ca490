// Splits a stream of bytes into text lines.
import { StringDecoder } from 'node:string_decoder'

export const MAX_LINE_LENGTH = 16 * 1024

/** Emits whole lines however the chunks are cut. A line over the maximum length is truncated. */
export class LineSplitter {
  readonly #maxLength: number
  readonly #keepsBlank: boolean
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''
  #skipping = false

  /** `inside`: the first chunk starts in the middle of a line, which is skipped. */
  constructor(maxLength = Number.POSITIVE_INFINITY, { blank = false, inside = false } = {}) {
    this.#maxLength = maxLength
    this.#keepsBlank = blank
    this.#skipping = inside
  }

  get isSkipping(): boolean {
    return this.#skipping
  }

  /** The unfinished line. */
  get rest(): string {
    return this.#skipping ? '' : this.#rest
  }

  push(chunk: Buffer): string[] {
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop()!
    if (lines.length && this.#skipping) {
      lines.shift()
      this.#skipping = false
    }
    if (this.#rest.length > this.#maxLength) {
      if (!this.#skipping) lines.push(this.#rest)
      this.#rest = ''
      this.#skipping = true
    }
    return lines.map(line => this.#truncate(line)).filter(line => this.#keepsBlank || line !== '')
  }

  end(): string[] {
    const last = this.#skipping ? '' : this.#truncate(this.#rest + this.#decoder.end())
    this.#rest = ''
    return last ? [last] : []
  }

  #truncate(line: string): string {
    const whole = line.endsWith('\r') ? line.slice(0, -1) : line
    return whole.length > this.#maxLength ? `${whole.slice(0, this.#maxLength)}…` : whole
  }
}
