// Backups and snapshots in an S3-compatible bucket, below the id of the listener: another agent of it finds them there.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { openS3, type SendToS3, toBucket } from '../../kernel/db/s3.ts'
import type { S3Settings } from '../../protocol/s3-settings.ts'
import { readJson, writeJson } from '../system/files.ts'
import { type ArchiveStore, countedBytes } from './archive-store.ts'

/** `prefix`: of all names, such as `production`. Empty: none. */
export type BucketSettings = S3Settings & { prefix: string }
type Listed = { files: { name: string; size: number }[]; folders: string[] }

const PART_BYTES = 16 * 1024 * 1024
/** A store takes at most 10,000. */
const MAX_PARTS = 9_000
/** A body that sends nothing for so long has ended. */
const STALL_MS = 60_000
const UNKNOWN_LISTENER = 'The control plane has not told yet which listener this is.'

export class BucketStore implements ArchiveStore {
  readonly #send: SendToS3
  readonly #prefix: string
  /** Remembers the id of the listener while the control plane does not answer. */
  readonly #record: string

  constructor({ prefix, ...settings }: BucketSettings, home: string) {
    this.#send = openS3(settings)
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

  /** One part is in memory at a time. The file stays. */
  async upload(name: string, file: string): Promise<void> {
    const key = this.#keyOf(name)
    const bucket = toBucket(this.#send)
    const handle = await fs.promises.open(file)
    try {
      const { size } = await handle.stat()
      const part = Buffer.alloc(Math.min(size, Math.max(PART_BYTES, Math.ceil(size / MAX_PARTS))))
      const readPart = async () => part.subarray(0, (await handle.read(part, 0, part.length)).bytesRead)
      if (size <= part.length) return void (await bucket.put(key, await readPart()))
      const upload = await bucket.createMultipartUpload(key)
      try {
        const parts = []
        for (let bytes = await readPart(); bytes.length > 0; bytes = await readPart())
          parts.push(await upload.uploadPart(parts.length + 1, bytes))
        await upload.complete(parts)
      } catch (error) {
        // If this fails too, the bucket's lifecycle rule removes the unfinished upload.
        await upload.abort().catch(() => {})
        throw error
      }
    } finally {
      await handle.close()
    }
  }

  async get(name: string, file: string, signal?: AbortSignal): Promise<boolean> {
    const response = await this.#send('GET', this.#keyOf(name))
    if (response.status === 404 || !response.body) {
      await response.body?.cancel()
      return false
    }
    const stalled = new AbortController()
    const timer = setTimeout(() => stalled.abort(new Error('The S3 store sent nothing for a minute.')), STALL_MS)
    const watch = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        timer.refresh()
        yield chunk
      }
    }
    try {
      const until = AbortSignal.any([stalled.signal, ...(signal ? [signal] : [])])
      const to = fs.createWriteStream(file, { mode: 0o600 })
      await pipeline(Readable.fromWeb(response.body as never), watch, to, { signal: until })
    } catch (error) {
      throw stalled.signal.aborted ? stalled.signal.reason : error
    } finally {
      clearTimeout(timer)
    }
    return true
  }

  async list(folder: string): Promise<string[]> {
    const { files, folders } = await this.#list(folder, '/')
    return [...folders, ...files.map(({ name }) => name)]
  }

  async sizeOf(folder: string): Promise<number> {
    const { files } = await this.#list(folder, '/')
    return files.reduce((sum, { size }) => sum + countedBytes(size), 0)
  }

  async remove(name: string): Promise<void> {
    await toBucket(this.#send).delete([this.#keyOf(name)])
  }

  async removeFolder(folder: string): Promise<void> {
    const { files } = await this.#list(folder, '')
    await toBucket(this.#send).delete(files.map(({ name }) => this.#keyOf(`${folder}/${name}`)))
  }

  /** `delimiter`: empty for all files below, with the path of each. */
  async #list(folder: string, delimiter: '/' | ''): Promise<Listed> {
    const prefix = this.#keyOf(folder === '' ? '' : `${folder}/`)
    const found: Listed = { files: [], folders: [] }
    for (let token: string | undefined = ''; token !== undefined; ) {
      const query = new URLSearchParams({ 'list-type': '2', prefix, 'max-keys': '1000' })
      if (delimiter) query.set('delimiter', delimiter)
      if (token) query.set('continuation-token', token)
      const text = await (await this.#send('GET', '', `?${query}`)).text()
      if (!text.includes('<ListBucketResult')) throw new Error('The S3 store did not list the bucket.')
      for (const part of text.split('<Contents>').slice(1)) {
        const [, key = ''] = /<Key>([^<]*)<\/Key>/.exec(part) ?? []
        const [, size = '0'] = /<Size>(\d+)<\/Size>/.exec(part) ?? []
        found.files.push({ name: key.slice(prefix.length), size: Number(size) })
      }
      for (const part of text.split('<CommonPrefixes>').slice(1)) {
        const [, key = ''] = /<Prefix>([^<]*)<\/Prefix>/.exec(part) ?? []
        found.folders.push(key.slice(prefix.length, -1))
      }
      token = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text)?.[1]
    }
    return found
  }
}
