// The folder of snapshots: one folder for each, with a record and the files that an engine wrote. A snapshot is there
// once its folder has its name. With a store beside it the files move there, and the record stays.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { HeldSnapshot } from '../../protocol/snapshots.schema.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { PermanentError, type SnapshotHolder } from '../engine.ts'
import { freeBytesOf, listFolder, readJson, removeRecursively, writeJson } from '../system/files.ts'
import { openTar } from './open-tar.ts'

const NEW = '.new'
const RECORD = 'snapshot.json'
const DATA = 'data'
/** Its files and its record are in the store. */
const STORED = 'stored'

export class SnapshotFolder implements SnapshotHolder {
  readonly #folder: string
  readonly #store: ArchiveStore | undefined

  constructor(folder: string, store?: ArchiveStore) {
    this.#folder = folder
    this.#store = store
  }

  /** Removes what an earlier agent did not finish. */
  async open(): Promise<void> {
    fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    for (const name of listFolder(this.#folder))
      if (name.endsWith(NEW)) await removeRecursively(join(this.#folder, name))
      else
        for (const part of listFolder(join(this.#folder, name)))
          if (part.startsWith('fetched-')) await removeRecursively(join(this.#folder, name, part))
  }

  list(): HeldSnapshot[] {
    return listFolder(this.#folder)
      .filter(name => !name.endsWith(NEW))
      .flatMap(name => this.read(name) ?? [])
  }

  read(id: string): HeldSnapshot | undefined {
    return readJson<HeldSnapshot>(join(this.#folder, id, RECORD))
  }

  #dataOf(id: string): string {
    return join(this.#folder, id, DATA)
  }

  async openTar(id: string, signal: AbortSignal): Promise<Duplex> {
    return openTar(await this.fetch(id, signal))
  }

  #isStored(id: string): boolean {
    return fs.existsSync(join(this.#folder, id, STORED))
  }

  /** A folder with its files, which come from the store if they are not here any more. */
  async fetch(id: string, signal: AbortSignal): Promise<string> {
    const data = this.#dataOf(id)
    if (fs.existsSync(data) || !this.#store) return data
    const fetched = fs.mkdtempSync(join(this.#folder, id, 'fetched-'))
    try {
      for (const name of await this.#store.list(`${id}/${DATA}`))
        await this.#store.get(`${id}/${DATA}/${name}`, join(fetched, name), signal)
      requireWhole(this.read(id), fetched)
      if (!fs.existsSync(data)) fs.renameSync(fetched, data)
    } finally {
      await removeRecursively(fetched)
    }
    return data
  }

  async moveToStore(isInUse: (id: string) => boolean): Promise<void> {
    if (!this.#store) return
    for (const { id } of this.list()) {
      const data = this.#dataOf(id)
      if (!fs.existsSync(data)) continue
      if (!this.#isStored(id)) await this.#upload(id, this.#store)
      // It may have been removed meanwhile.
      if (!this.read(id)) await this.#store.removeFolder(id)
      else if (!isInUse(id)) await removeRecursively(data)
    }
  }

  /** The record comes last: what it describes is there. */
  async #upload(id: string, store: ArchiveStore): Promise<void> {
    const folder = join(this.#folder, id)
    const names = [...fs.readdirSync(join(folder, DATA)).map(name => join(DATA, name)), RECORD]
    for (const name of names) {
      const link = join(folder, 'sent')
      fs.rmSync(link, { force: true })
      fs.linkSync(join(folder, name), link)
      await store.put(`${id}/${name}`, link)
    }
    fs.writeFileSync(join(folder, STORED), '', { mode: 0o600 })
  }

  async learn(): Promise<void> {
    if (!this.#store) return
    const stored = new Set(await this.#store.list(''))
    for (const id of stored) {
      if (this.read(id)) continue
      const folder = join(this.#folder, id + NEW)
      await removeRecursively(folder)
      fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
      // Without a record, it was not complete.
      if (await this.#store.get(`${id}/${RECORD}`, join(folder, RECORD))) {
        fs.writeFileSync(join(folder, STORED), '', { mode: 0o600 })
        fs.renameSync(folder, join(this.#folder, id))
      } else await removeRecursively(folder)
    }
    for (const { id } of this.list()) if (this.#isStored(id) && !stored.has(id)) await this.#removeHere(id)
  }

  freeBytes(): number {
    return freeBytesOf(this.#folder)
  }

  /** The size of its file system. */
  totalBytes(): number {
    const { blocks, bsize } = fs.statfsSync(this.#folder)
    return blocks * bsize
  }

  /** `write` gets an empty folder. */
  async add(
    snapshot: Omit<HeldSnapshot, 'size_bytes'>,
    write: (folder: string) => Promise<void>,
  ): Promise<HeldSnapshot> {
    const folder = join(this.#folder, snapshot.id + NEW)
    await removeRecursively(folder)
    const data = join(folder, DATA)
    fs.mkdirSync(data, { recursive: true, mode: 0o700 })
    try {
      await write(data)
      const complete: HeldSnapshot = { ...snapshot, size_bytes: await syncFiles(data) }
      writeJson(join(folder, RECORD), complete)
      fs.renameSync(folder, join(this.#folder, snapshot.id))
      return complete
    } catch (error) {
      await removeRecursively(folder)
      throw error
    }
  }

  async remove(id: string): Promise<void> {
    await this.#store?.removeFolder(id)
    await this.#removeHere(id)
  }

  async #removeHere(id: string): Promise<void> {
    const gone = join(this.#folder, id + NEW)
    await removeRecursively(gone)
    if (fs.existsSync(join(this.#folder, id))) fs.renameSync(join(this.#folder, id), gone)
    await removeRecursively(gone)
  }
}

/** A file may be gone from the store, or cut short. */
function requireWhole(snapshot: HeldSnapshot | undefined, folder: string): void {
  const bytes = fs.readdirSync(folder).reduce((sum, name) => sum + fs.statSync(join(folder, name)).size, 0)
  const { id, size_bytes } = snapshot ?? { size_bytes: 0 }
  if (id === undefined || bytes !== size_bytes)
    throw new PermanentError(
      `The store of backups does not have this snapshot whole any more: ${bytes} of its ${size_bytes} bytes are ` +
        'there. Use another one.',
    )
}

/** Writes them to the disk. Returns their bytes. */
async function syncFiles(folder: string): Promise<number> {
  let bytes = 0
  for (const entry of await fs.promises.readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue
    const file = await fs.promises.open(join(entry.parentPath, entry.name), 'r')
    bytes += (await file.stat()).size
    await file.sync().finally(() => file.close())
  }
  return bytes
}
