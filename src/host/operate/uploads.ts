// The objects that the database names: copied from the store into a backup, and back.
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readS3Settings, readUploadsFolder } from '../../env.ts'
import { openS3Bucket } from '../../kernel/db/s3.ts'
import { createBucketStorage } from '../../kernel/db/storage.ts'
import { streamedFetch } from '../../kernel/db/streamed-fetch.ts'
import type { Storage } from '../../platform.ts'
import { createFolderStorage } from '../folder-storage.ts'
import type { Table } from './backup-tables.ts'
import { createMeter, discard, readChecked, readLines, writeChecked } from './checked-files.ts'
import { type Manifest, uploadListFile } from './manifest.ts'

type Uploads = NonNullable<Manifest['uploads']>
type Entry = { sha256: string; bytes: number; path: string }

const PARALLEL = 8
const OBJECT_PATH = /^[A-Za-z0-9][\w-]*(\/[\w-]+(\.[\w-]+)*)*$/

/** An object that is being received or removed is not one. */
const OBJECT_PATHS: Record<string, string> = {
  uploads: `select object_path from uploads where state = 'stored'`,
  trace_objects: 'select path from trace_objects',
  example_objects: `select format('examples/%s/%s', tenant_id, id) from example_objects`,
}

/** An older database may not have all of these tables. */
export const selectObjectPaths = (tables: Table[]): string =>
  tables.flatMap(({ name }) => OBJECT_PATHS[name] ?? []).join(' union all ')

export function openStorage(env: Record<string, unknown>): Storage {
  const s3 = readS3Settings(env)
  return s3 ? createBucketStorage(openS3Bucket(s3, streamedFetch)) : createFolderStorage(readUploadsFolder(env))
}

const objectFile = (folder: string, path: string): string => {
  if (!OBJECT_PATH.test(path)) throw new Error(`${JSON.stringify(path)} is not the path of an object.`)
  return join(folder, 'uploads', path)
}

/** The scheduled work may remove an object meanwhile, so one that is missing is counted and not an error. */
export async function copyUploads(storage: Storage, folder: string, pathsFile: string): Promise<Uploads> {
  const total = { count: 0, bytes: 0, missing: 0 }
  async function* listCopies(): AsyncGenerator<Buffer> {
    for await (const paths of inBatches(readLines(pathsFile)))
      for (const entry of await Promise.all(paths.map(path => copyObject(storage, folder, path)))) {
        if (!entry) total.missing++
        else {
          total.count++
          total.bytes += entry.bytes
          yield Buffer.from(`${entry.sha256}\t${entry.bytes}\t${entry.path}\n`)
        }
      }
  }
  const list = await writeChecked(uploadListFile(folder), listCopies())
  return { list, ...total }
}

async function copyObject(storage: Storage, folder: string, path: string): Promise<Entry | undefined> {
  const file = objectFile(folder, path)
  const body = await storage.get(path)
  if (!body) return undefined
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const meter = createMeter()
  await pipeline(Readable.fromWeb(body as never), meter, createWriteStream(file, { mode: 0o600, flush: true }))
  return { ...meter.measured(), path }
}

export async function verifyUploads(folder: string, { list }: Uploads): Promise<void> {
  await readChecked(uploadListFile(folder), list)
  for await (const entries of inBatches(readEntries(folder)))
    await Promise.all(
      entries.map(async ({ path, bytes, sha256 }) => {
        const file = objectFile(folder, path)
        const meter = createMeter()
        await pipeline(createReadStream(file), meter, discard).catch(error => {
          throw error.code === 'ENOENT' ? new Error(`${file} is missing.`) : error
        })
        const found = meter.measured()
        if (found.bytes !== bytes || found.sha256 !== sha256)
          throw new Error(`${file} is damaged: it is not the object that the backup copied.`)
      }),
    )
}

export async function putUploads(storage: Storage, folder: string): Promise<void> {
  for await (const entries of inBatches(readEntries(folder)))
    await Promise.all(
      entries.map(({ path }) =>
        storage.put(path, Readable.toWeb(createReadStream(objectFile(folder, path))) as ReadableStream<Uint8Array>),
      ),
    )
}

async function* readEntries(folder: string): AsyncGenerator<Entry> {
  for await (const line of readLines(uploadListFile(folder))) {
    const [sha256 = '', bytes = '', path = ''] = line.split('\t')
    yield { sha256, bytes: Number(bytes), path }
  }
}

async function* inBatches<T>(items: AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = []
  for await (const item of items) {
    batch.push(item)
    if (batch.length < PARALLEL) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
