// The folder of snapshots: one folder for each, with a record and the files that an engine wrote. A snapshot is there
// once its folder has its name.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { HeldSnapshot } from '../../protocol/snapshots.schema.ts'
import { freeBytesOf, listFolder, readJson, removeRecursively, writeJson } from '../system/files.ts'
import { openTar } from './open-tar.ts'

const NEW = '.new'
const RECORD = 'snapshot.json'
const DATA = 'data'

/** The place of an agent's snapshots. */
export interface SnapshotHolder {
  open(): Promise<void>
  /** Throws while it is not known which there are. */
  list(): HeldSnapshot[]
  read(id: string): HeldSnapshot | undefined
  /** The engine restores from it. */
  dataOf(id: string): string
  openTar(id: string): Duplex | Promise<Duplex>
  freeBytes(): number
  totalBytes(): number
  add(snapshot: Omit<HeldSnapshot, 'size_bytes'>, write: (to: string) => Promise<void>): Promise<HeldSnapshot>
  remove(id: string): Promise<void>
}

export class SnapshotFolder implements SnapshotHolder {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Removes what an earlier agent did not finish. */
  async open(): Promise<void> {
    fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    for (const name of listFolder(this.#folder))
      if (name.endsWith(NEW)) await removeRecursively(join(this.#folder, name))
  }

  list(): HeldSnapshot[] {
    return listFolder(this.#folder)
      .filter(name => !name.endsWith(NEW))
      .flatMap(name => this.read(name) ?? [])
  }

  read(id: string): HeldSnapshot | undefined {
    return readJson<HeldSnapshot>(join(this.#folder, id, RECORD))
  }

  dataOf(id: string): string {
    return join(this.#folder, id, DATA)
  }

  openTar(id: string): Duplex {
    return openTar(this.dataOf(id))
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
    const gone = join(this.#folder, id + NEW)
    await removeRecursively(gone)
    if (fs.existsSync(join(this.#folder, id))) fs.renameSync(join(this.#folder, id), gone)
    await removeRecursively(gone)
  }
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
