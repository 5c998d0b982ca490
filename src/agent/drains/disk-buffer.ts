// The records of one drain on disk until its receiver has them: frames in segments, the oldest of which go first when
// the room is used up. It survives the end of the agent at any instruction, and counts what is lost.
import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { type DrainGroup, isOfMetrics } from '../../protocol/drain-records.ts'

/** A frame is one group: the bytes and the checksum of its JSON, and the number of its records. */
const HEADER_BYTES = 12
const MAX_SEGMENT_BYTES = 4 * 1024 * 1024
const SEGMENTS = 8
const READ_BYTES = 1024 * 1024
/** More is damage. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024
const POSITION_FILE = 'position.json'
const SEGMENT_NAME = /^(\d{12})\.seg$/

type Segment = {
  number: number
  /** The end of the last whole frame. */
  bytes: number
  /** The first frame that the receiver does not have begins here. */
  offset: number
  /** After the offset. */
  records: number
}
/** `epoch` names the counts, which begin at 0 in a new folder. */
type Position = { epoch: string; number: number; offset: number; sent: number; dropped: number }
export type Batch = { groups: DrainGroup[]; records: number; segment: Segment; end: number }

export class DiskBuffer {
  readonly #folder: string
  readonly #segments: Segment[]
  #position: Position
  #maxBytes: number
  #writing: { segment: Segment; handle: FileHandle } | undefined
  /** The segment of the batch that is being sent stays. */
  #reading: Segment | undefined
  #lastNumber: number
  #saving: Promise<void> = Promise.resolve()

  private constructor(folder: string, maxBytes: number, segments: Segment[], position: Position) {
    this.#folder = folder
    this.#maxBytes = maxBytes
    this.#segments = segments
    this.#position = position
    this.#lastNumber = Math.max(position.number, segments.at(-1)?.number ?? 0)
  }

  static async open(folder: string, maxBytes: number): Promise<DiskBuffer> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const position = await readPosition(folder)
    const numbers = (await readdir(folder)).flatMap(name => Number(SEGMENT_NAME.exec(name)?.[1] ?? Number.NaN) || [])
    const segments: Segment[] = []
    for (const number of numbers.sort((a, b) => a - b)) {
      const path = pathOf(folder, number)
      const segment = await scanSegment(path, number, number === position.number ? position.offset : 0)
      if (number < position.number || segment.records === 0) await rm(path, { force: true })
      else segments.push(segment)
    }
    return new DiskBuffer(folder, maxBytes, segments, position)
  }

  get counts() {
    const { epoch, sent, dropped } = this.#position
    const waiting = this.#segments.reduce((sum, { records }) => sum + records, 0)
    return { epoch, sent, dropped, waiting, waiting_bytes: this.#bytes }
  }

  get #bytes(): number {
    return this.#segments.reduce((sum, { bytes, offset }) => sum + bytes - offset, 0)
  }

  /** Records on disk beyond a smaller limit go with the next append. */
  limit(maxBytes: number): void {
    this.#maxBytes = maxBytes
  }

  /** Records that could not be kept. They are known after a restart once anything is written. */
  noteDropped(records: number): void {
    this.#position.dropped += records
  }

  /** One after the other. Returns once the groups are on disk. */
  async append(groups: DrainGroup[]): Promise<void> {
    const frames = groups.map(toFrame)
    const records = groups.reduce((sum, group) => sum + group.records.length, 0)
    const bytes = frames.reduce((sum, frame) => sum + frame.length, 0)
    const before = this.#position.dropped
    if (await this.#makeRoom(bytes))
      try {
        const { segment, handle } = await this.#openSegment()
        await handle.appendFile(Buffer.concat(frames))
        await handle.datasync()
        segment.bytes += bytes
        segment.records += records
      } catch (error) {
        // The end of the file may be torn: later frames go to another one.
        await this.#closeSegment()
        this.noteDropped(records)
        throw error
      }
    else this.noteDropped(records)
    if (this.#position.dropped !== before) await this.#save()
  }

  async #makeRoom(bytes: number): Promise<boolean> {
    while (this.#bytes + bytes > this.#maxBytes) {
      const oldest = this.#segments.find(one => one !== this.#reading)
      if (!oldest) return false
      if (oldest === this.#writing?.segment) await this.#closeSegment()
      this.noteDropped(oldest.records)
      await this.#remove(oldest)
    }
    return true
  }

  async #openSegment() {
    const size = Math.min(MAX_SEGMENT_BYTES, this.#maxBytes / SEGMENTS)
    if (this.#writing && this.#writing.segment.bytes >= size) await this.#closeSegment()
    if (!this.#writing) {
      const segment = { number: ++this.#lastNumber, bytes: 0, offset: 0, records: 0 }
      const handle = await open(pathOf(this.#folder, segment.number), 'ax', 0o600)
      this.#writing = { segment, handle }
      this.#segments.push(segment)
    }
    return this.#writing
  }

  async #closeSegment(): Promise<void> {
    const { segment, handle } = this.#writing ?? {}
    this.#writing = undefined
    await handle?.close().catch(() => {})
    if (segment && segment.bytes === segment.offset && segment !== this.#reading) await this.#remove(segment)
  }

  async #remove(segment: Segment): Promise<void> {
    const place = this.#segments.indexOf(segment)
    if (place >= 0) this.#segments.splice(place, 1)
    await rm(pathOf(this.#folder, segment.number), { force: true })
  }

  /** The oldest records, all of metrics or none. Null if none wait. They stay until `settle()`. */
  async read(maxRecords: number): Promise<Batch | null> {
    for (let segment = this.#next(); segment; segment = this.#next()) {
      this.#reading = segment
      const batch = await readBatch(pathOf(this.#folder, segment.number), segment, maxRecords)
      if (batch) return batch
      // The rest is damaged.
      await this.settle({ groups: [], records: segment.records, segment, end: segment.bytes }, 0)
    }
    return null
  }

  #next(): Segment | undefined {
    return this.#segments.find(({ bytes, offset }) => offset < bytes)
  }

  /** The batch goes: `sent` of its records were taken, the others are lost. */
  async settle({ segment, end, records }: Batch, sent: number): Promise<void> {
    segment.offset = end
    segment.records = Math.max(0, segment.records - records)
    this.#reading = undefined
    const position = this.#position
    Object.assign(position, { number: segment.number, offset: end, sent: position.sent + sent })
    this.noteDropped(records - sent)
    try {
      await this.#save()
    } finally {
      // Also on a full disk, to which this gives room.
      if (segment.offset >= segment.bytes && segment !== this.#writing?.segment) await this.#remove(segment)
    }
  }

  /** A batch that was not taken stays the first. */
  release(): void {
    this.#reading = undefined
  }

  #save(): Promise<void> {
    // One that failed, as on a full disk, ends no later one.
    const before = this.#saving.catch(() => {})
    this.#saving = before.then(async () => {
      const path = join(this.#folder, POSITION_FILE)
      await writeFile(`${path}.new`, JSON.stringify(this.#position), { mode: 0o600 })
      await rename(`${path}.new`, path)
    })
    return this.#saving
  }

  async close(): Promise<void> {
    await this.#save().catch(() => {})
    await this.#closeSegment()
  }
}

const pathOf = (folder: string, number: number): string => join(folder, `${String(number).padStart(12, '0')}.seg`)

/** Without one that can be read, everything on disk is sent. */
async function readPosition(folder: string): Promise<Position> {
  try {
    const { epoch, number, offset, sent, dropped } = JSON.parse(await readFile(join(folder, POSITION_FILE), 'utf8'))
    if (typeof epoch === 'string' && [number, offset, sent, dropped].every(Number.isSafeInteger))
      return { epoch, number, offset, sent, dropped }
  } catch {
    // It was never written, or is damaged.
  }
  return { epoch: randomUUID(), number: 0, offset: 0, sent: 0, dropped: 0 }
}

function toFrame(group: DrainGroup): Buffer {
  const payload = Buffer.from(JSON.stringify(group))
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  frame.writeUInt32LE(payload.length, 0)
  frame.writeUInt32LE(crc32(payload), 4)
  frame.writeUInt32LE(group.records.length, 8)
  payload.copy(frame, HEADER_BYTES)
  return frame
}

/** Follows the headers: the last frame is torn where the agent or the machine ended within it. */
async function scanSegment(path: string, number: number, offset: number): Promise<Segment> {
  await using handle = await open(path)
  const { size } = await handle.stat()
  const header = Buffer.alloc(HEADER_BYTES)
  let [at, records] = [0, 0]
  while (at + HEADER_BYTES <= size) {
    await handle.read(header, 0, HEADER_BYTES, at)
    const end = at + HEADER_BYTES + header.readUInt32LE(0)
    if (end === at + HEADER_BYTES || end > size) break
    if (at >= offset) records += header.readUInt32LE(8)
    at = end
  }
  return { number, bytes: at, offset: Math.min(offset, at), records }
}

async function readBatch(path: string, segment: Segment, maxRecords: number): Promise<Batch | null> {
  await using handle = await open(path)
  const { offset, bytes } = segment
  const header = Buffer.alloc(HEADER_BYTES)
  await handle.read(header, 0, HEADER_BYTES, offset)
  const first = Math.min(HEADER_BYTES + header.readUInt32LE(0), HEADER_BYTES + MAX_FRAME_BYTES)
  const chunk = Buffer.alloc(Math.min(bytes - offset, Math.max(READ_BYTES, first)))
  await handle.read(chunk, 0, chunk.length, offset)
  const batch: Batch = { groups: [], records: 0, segment, end: offset }
  for (let at = 0; at + HEADER_BYTES <= chunk.length; ) {
    const payload = chunk.subarray(at + HEADER_BYTES, at + HEADER_BYTES + chunk.readUInt32LE(at))
    if (payload.length < chunk.readUInt32LE(at)) break
    const group = parseFrame(payload, chunk.readUInt32LE(at + 4))
    if (!group) break
    const isOtherKind = batch.groups[0] && isOfMetrics(batch.groups[0]) !== isOfMetrics(group)
    if (isOtherKind || (batch.groups.length > 0 && batch.records + group.records.length > maxRecords)) break
    batch.groups.push(group)
    batch.records += group.records.length
    at += HEADER_BYTES + payload.length
    batch.end = offset + at
  }
  return batch.groups.length > 0 ? batch : null
}

function parseFrame(payload: Buffer, checksum: number): DrainGroup | null {
  if (crc32(payload) !== checksum) return null
  try {
    return JSON.parse(payload.toString()) as DrainGroup
  } catch {
    return null
  }
}
