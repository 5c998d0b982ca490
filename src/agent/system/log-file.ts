// Follows a file that an application writes its output to: whole lines from where the last agent stopped, and the file
// kept short.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { readJson } from './files.ts'
import { LineSplitter, MAX_LINE_LENGTH } from './lines.ts'

const MIB = 1024 * 1024
const MAX_LOG_BYTES = 8 * MIB
/** A file that is larger was written faster than it is read: lines are dropped, so that the disk does not fill. */
const MAX_FILE_BYTES = 64 * MIB
/** The limit of one read. The log shipper would drop more. */
const MAX_LINES = 20_000
const NEWLINE = 10
/** The offset up to which the log was read; `inside`: within a line whose rest is skipped. */
type LogPosition = { read: number; inside?: boolean }

export class LogFile {
  readonly #file: string
  readonly #positionFile: string
  #readOffset: number
  /** The offset of the unfinished last line. */
  #lineStart: number
  /** The beginning of that line is no longer in the log. */
  #isLineCut: boolean
  #splitter: LineSplitter

  /** Both files are below the folder. */
  constructor(folder: string, name: string, position: string) {
    this.#file = join(folder, name)
    this.#positionFile = join(folder, position)
    const { read, inside = false } = readJson<LogPosition>(this.#positionFile) ?? { read: 0 }
    this.#readOffset = read
    this.#lineStart = read
    this.#isLineCut = inside
    this.#splitter = createSplitter(inside)
  }

  /** The whole lines since the last call; with `final`, an unfinished line too. */
  read(final: boolean): string[] {
    let lines: string[] = []
    try {
      lines = this.#readNew(final)
    } catch {
      // Its folder was removed, or an earlier agent has not created it.
    }
    return final ? [...lines, ...this.#splitter.end()] : lines
  }

  /** A longer line is cut when it ends, perhaps before what could be shown of it now. */
  get unfinishedLine(): string {
    return this.#splitter.rest.length > MAX_LINE_LENGTH ? '' : this.#splitter.rest
  }

  #readNew(final: boolean): string[] {
    const { size } = fs.statSync(this.#file)
    if (size < this.#readOffset) this.#skipTo(0)
    if (size === this.#readOffset) return []
    const isTooLarge = size > MAX_FILE_BYTES
    const readSize = final ? MAX_LOG_BYTES : MIB
    const skipped = final || isTooLarge ? Math.max(0, size - this.#readOffset - readSize) : 0
    if (skipped) this.#skipTo(this.#readOffset + skipped)
    const chunk = Buffer.alloc(Math.min(size - this.#readOffset, readSize))
    const handle = fs.openSync(this.#file, 'r')
    const count = fs.readSync(handle, chunk, 0, chunk.length, this.#readOffset)
    fs.closeSync(handle)
    const lines = this.#splitter.push(chunk.subarray(0, count))
    const end = chunk.subarray(0, count).lastIndexOf(NEWLINE)
    if (end >= 0) [this.#lineStart, this.#isLineCut] = [this.#readOffset + end + 1, false]
    this.#readOffset += count
    if (isTooLarge) {
      fs.truncateSync(this.#file)
      this.#skipTo(0)
    } else if (this.#readOffset > MAX_LOG_BYTES && this.#readOffset >= fs.statSync(this.#file).size) {
      fs.truncateSync(this.#file)
      this.#isLineCut ||= this.#lineStart < this.#readOffset
      this.#readOffset = 0
      this.#lineStart = 0
    }
    this.#savePosition()
    return skipped || lines.length > MAX_LINES
      ? ['Log lines were dropped here: the application wrote too many at once.', ...lines.slice(-MAX_LINES)]
      : lines
  }

  /** The position may be within a line, whose rest is dropped: the masks would not recognize half of a secret. */
  #skipTo(position: number): void {
    this.#readOffset = position
    this.#lineStart = position
    this.#isLineCut = true
    this.#splitter = createSplitter(true)
  }

  /** The next agent reads an unfinished line again from its beginning. */
  #savePosition(): void {
    const inside = this.#isLineCut || this.#splitter.isSkipping
    const position: LogPosition = { read: inside ? this.#readOffset : this.#lineStart, inside }
    fs.writeFileSync(this.#positionFile, JSON.stringify(position))
  }
}

/** Bounds the memory for a line that never ends. */
const createSplitter = (inside: boolean) => new LineSplitter(2 * MAX_LINE_LENGTH, { blank: true, inside })
