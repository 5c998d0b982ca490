// Compressed files of a backup, each with its size and its hash. Everything streams, so that memory stays constant.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { type Readable, Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type { CheckedFile } from './manifest.ts'

const LINE_FEED = 10
/** A higher level takes several times the time for a tenth less. */
const LEVEL = 1
const CHUNK_BYTES = 64 * 1024

/** Each row ends with a line feed, which COPY and our lists have nowhere else. */
export async function writeChecked(file: string, source: Readable | AsyncIterable<Buffer>): Promise<CheckedFile> {
  const meter = createMeter()
  const counter = new LineCounter()
  const gzip = createGzip({ level: LEVEL, chunkSize: CHUNK_BYTES })
  const target = createWriteStream(file, { mode: 0o600, flags: 'wx', flush: true })
  await pipeline(source, counter, gzip, meter, target)
  return { rows: counter.lines, ...meter.measured() }
}

/** Throws if the file is not as it was written. Hands its lines to `target`. */
export async function readChecked(file: string, expected: CheckedFile, target?: Writable): Promise<void> {
  const { size } = await stat(file).catch(() => ({ size: undefined }))
  // A file of another size is not unpacked: a few bytes can become gigabytes.
  if (!target && size !== undefined && size !== expected.bytes) throw new Error(describeDamage(file))
  const meter = createMeter()
  const counter = new LineCounter()
  const source = createReadStream(file, { highWaterMark: CHUNK_BYTES })
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES })
  try {
    if (target) await pipeline(source, meter, gunzip, counter, target)
    else await pipeline(source, meter, gunzip, counter, discard)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new Error(`${file} is missing.`)
    if (code?.startsWith('Z_')) throw new Error(`${file} is damaged: ${message}.`)
    throw error
  }
  const found = meter.measured()
  if (found.bytes !== expected.bytes || found.sha256 !== expected.sha256) throw new Error(describeDamage(file))
  if (counter.lines !== expected.rows)
    throw new Error(`${file} has ${counter.lines} rows, and its manifest says ${expected.rows}.`)
}

const describeDamage = (file: string) => `${file} is damaged: it is not the file that the backup wrote.`

export const readLines = (file: string): AsyncIterable<string> =>
  createInterface({ input: createReadStream(file).pipe(createGunzip()), crlfDelay: Number.POSITIVE_INFINITY })

export async function discard(source: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of source);
}

export function createMeter() {
  const hash = createHash('sha256')
  let bytes = 0
  const meter = new Transform({
    transform(chunk: Buffer, _, done) {
      hash.update(chunk)
      bytes += chunk.byteLength
      done(null, chunk)
    },
  })
  return Object.assign(meter, { measured: () => ({ bytes, sha256: hash.digest('hex') }) })
}

class LineCounter extends Transform {
  lines = 0
  override _transform(chunk: Buffer, _: BufferEncoding, done: (error: null, chunk: Buffer) => void): void {
    for (let at = chunk.indexOf(LINE_FEED); at !== -1; at = chunk.indexOf(LINE_FEED, at + 1)) this.lines++
    done(null, chunk)
  }
}
