// Backups and snapshots in an S3-compatible bucket, below the id of the listener: another agent of it finds them there.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { openS3, type SendToS3, toBucket } from '../../kernel/db/s3.ts'
import { streamedFetch } from '../../kernel/db/streamed-fetch.ts'
import type { S3Settings } from '../../protocol/s3-settings.ts'
import { readJson, writeJson } from '../system/files.ts'
import { type ArchiveStore, countedBytes } from './archive-store.ts'

/** `prefix`: of all names, such as `production`. Empty: none. */
export type BucketSettings = S3Settings & { prefix: string }
type Page = { files: { name: string; size: number }[]; folders: string[] }

const PART_BYTES = 16 * 1024 * 1024
/** At a time, of a file. */
const READ_BYTES = 1024 * 1024
/** A store takes at most 10,000. */
const MAX_PARTS = 9_000
/** A body that sends nothing for so long has ended. */
const STALL_MS = 60_000
/** A list of more pages is not read: one that never ends must not fill the memory. */
const MAX_PAGES = 1_000
const PAGE_FILES = 1_000
const UNKNOWN_LISTENER = 'The control plane has not told yet which listener this is.'

export class BucketStore implements ArchiveStore {
  readonly #send: SendToS3
  readonly #prefix: string
  /** Remembers the id of the listener while the control plane does not answer. */
  readonly #record: string

  constructor({ prefix, ...settings }: BucketSettings, home: string) {
    this.#send = openS3(settings, streamedFetch)
    this.#prefix = prefix === '' ? '' : `${prefix}/`
    this.#record = join(home, 'listener.json')
  }

  /** A home may be used for another listener later. */
  setListener(id: string): void {
    if (this.#listener !== id) writeJson(this.#record, { id })
  }

  get #listener(): string | undefined {
    return readJson<{ id: string }>(this.#record)?.id
  }

  #keyOf(name: string): string {
    const listener = this.#listener
    if (listener === undefined) throw new Error(UNKNOWN_LISTENER)
    return `${this.#prefix}${listener}/${name}`
  }

  /** The same store, in which each name begins with a folder. */
  below(folder: string): ArchiveStore {
    const at = (name: string) => (name === '' ? folder : `${folder}/${name}`)
    return {
      put: (name, file) => this.put(at(name), file),
      get: (name, file, signal) => this.get(at(name), file, signal),
      list: name => this.list(at(name)),
      sizeOf: name => this.sizeOf(at(name)),
      remove: name => this.remove(at(name)),
      removeFolder: name => this.removeFolder(at(name)),
    }
  }

  async put(name: string, file: string): Promise<void> {
    await this.upload(name, file)
    await fs.promises.rm(file, { force: true })
  }

  /** The file stays. */
  async upload(name: string, file: string): Promise<void> {
    const { size } = await fs.promises.stat(file)
    await this.write(name, size, fs.createReadStream(file, { highWaterMark: READ_BYTES }))
  }

  /** One part is in memory at a time. Rejects, and stores nothing, unless there are as many bytes as `size` says. */
  async write(name: string, size: number, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const key = this.#keyOf(name)
    const bucket = toBucket(this.#send)
    const length = Math.min(size, Math.max(PART_BYTES, Math.ceil(size / MAX_PARTS)))
    if (size <= length) {
      let whole: Uint8Array<ArrayBuffer> = Buffer.alloc(0)
      for await (const part of inParts(chunks, length, size)) whole = part
      return void (await bucket.put(key, whole))
    }
    const upload = await bucket.createMultipartUpload(key)
    try {
      const parts = []
      for await (const part of inParts(chunks, length, size))
        parts.push(await upload.uploadPart(parts.length + 1, part))
      await upload.complete(parts)
    } catch (error) {
      // If this fails too, the bucket's lifecycle rule removes the unfinished upload.
      await upload.abort().catch(() => {})
      throw error
    }
  }

  async get(name: string, file: string, signal?: AbortSignal): Promise<boolean> {
    const body = await this.open(name, signal)
    if (!body) return false
    await pipeline(body, fs.createWriteStream(file, { mode: 0o600 }))
    return true
  }

  /** Undefined: there is none. The stream fails if the store sends nothing for a minute. */
  async open(name: string, signal?: AbortSignal): Promise<Readable | undefined> {
    signal?.throwIfAborted()
    const { status, body } = await this.#send('GET', this.#keyOf(name))
    if (status !== 404 && body) return Readable.from(watchBody(Readable.fromWeb(body as never), signal))
    await body?.cancel()
    return undefined
  }

  async list(folder: string): Promise<string[]> {
    const names: string[] = []
    for await (const { files, folders } of this.#pages(folder, '/'))
      names.push(...folders, ...files.map(({ name }) => name))
    return names
  }

  async sizeOf(folder: string): Promise<number> {
    let bytes = 0
    for await (const { files } of this.#pages(folder, '/'))
      bytes = files.reduce((sum, { size }) => sum + countedBytes(size), bytes)
    return bytes
  }

  async remove(name: string): Promise<void> {
    await toBucket(this.#send).delete([this.#keyOf(name)])
  }

  async removeFolder(folder: string): Promise<void> {
    for await (const { files } of this.#pages(folder, ''))
      await toBucket(this.#send).delete(files.map(({ name }) => this.#keyOf(`${folder}/${name}`)))
  }

  /** `delimiter`: empty for all files below, with the path of each. */
  async *#pages(folder: string, delimiter: '/' | ''): AsyncGenerator<Page> {
    const prefix = this.#keyOf(folder === '' ? '' : `${folder}/`)
    let token: string | undefined = ''
    for (let count = 0; token !== undefined; count++) {
      if (count === MAX_PAGES)
        throw new Error(`The list of the bucket below ${prefix} has more than ${MAX_PAGES} pages, which are not read.`)
      const query = new URLSearchParams({ 'list-type': '2', prefix, 'max-keys': String(PAGE_FILES) })
      if (delimiter) query.set('delimiter', delimiter)
      if (token) query.set('continuation-token', token)
      const text = await readText(await this.#send('GET', '', `?${query}`))
      if (!text.includes('<ListBucketResult')) throw new Error('The S3 store did not list the bucket.')
      const found: Page = { files: [], folders: [] }
      for (const part of text.split('<Contents>').slice(1)) {
        const [, key = ''] = /<Key>([^<]*)<\/Key>/.exec(part) ?? []
        const [, size = '0'] = /<Size>(\d+)<\/Size>/.exec(part) ?? []
        found.files.push({ name: key.slice(prefix.length), size: Number(size) })
      }
      for (const part of text.split('<CommonPrefixes>').slice(1)) {
        const [, key = ''] = /<Prefix>([^<]*)<\/Prefix>/.exec(part) ?? []
        found.folders.push(key.slice(prefix.length, -1))
      }
      yield found
      token = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text)?.[1]
    }
  }
}

/** Each is valid until the next one. */
async function* inParts(chunks: AsyncIterable<Uint8Array>, length: number, size: number) {
  const part = Buffer.alloc(length)
  let [filled, sum] = [0, 0]
  for await (const chunk of chunks) {
    sum += chunk.length
    if (sum > size) break
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + length - filled)
      part.set(piece, filled)
      at += piece.length
      filled = (filled + piece.length) % length
      if (filled === 0) yield part
    }
  }
  if (sum !== size) throw new Error(`A file for the bucket has ${sum > size ? 'more than' : sum} of its ${size} bytes.`)
  if (filled > 0) yield part.subarray(0, filled)
}

async function* watchBody(body: Readable, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  const stall = () => body.destroy(new Error('The S3 store sent nothing for a minute.'))
  const timer = setTimeout(stall, STALL_MS)
  const abort = () => body.destroy(signal!.reason)
  signal?.addEventListener('abort', abort)
  try {
    for await (const chunk of body) {
      yield chunk
      timer.refresh()
    }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
    body.destroy()
  }
}

async function readText(response: Response): Promise<string> {
  const waiting = new AbortController()
  const stalled = delay(STALL_MS, undefined, { signal: waiting.signal }).then(() => {
    throw new Error('The S3 store did not send its list within a minute.')
  })
  return Promise.race([response.text(), stalled]).finally(() => waiting.abort())
}
