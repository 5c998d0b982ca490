// The place of backups: named files that outlive the machine's data folders.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { listFolder, removeRecursively } from '../system/files.ts'

export interface ArchiveStore {
  /** Takes the file over: it is gone from its old place. A name either has the whole file or does not exist. */
  put(name: string, file: string): Promise<void>
  get(name: string, file: string): Promise<void>
  /** The names directly below a folder, without it. */
  list(folder: string): Promise<string[]>
  /** The bytes of the files directly below a folder. */
  sizeOf(folder: string): Promise<number>
  remove(name: string): Promise<void>
  removeFolder(folder: string): Promise<void>
}

export class FolderStore implements ArchiveStore {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async put(name: string, file: string): Promise<void> {
    const target = join(this.#root, name)
    fs.mkdirSync(dirname(target), { recursive: true, mode: 0o700 })
    await flush(file)
    await fs.promises.rename(file, target)
    await flush(dirname(target))
  }

  async get(name: string, file: string): Promise<void> {
    await fs.promises.copyFile(join(this.#root, name), file)
  }

  async list(folder: string): Promise<string[]> {
    return listFolder(join(this.#root, folder))
  }

  async sizeOf(folder: string): Promise<number> {
    let bytes = 0
    for (const name of await this.list(folder))
      bytes += fs.statSync(join(this.#root, folder, name), { throwIfNoEntry: false })?.size ?? 0
    return bytes
  }

  async remove(name: string): Promise<void> {
    await fs.promises.rm(join(this.#root, name), { force: true })
  }

  async removeFolder(folder: string): Promise<void> {
    await removeRecursively(join(this.#root, folder))
  }
}

async function flush(path: string): Promise<void> {
  const handle = await fs.promises.open(path)
  await handle.sync().finally(() => handle.close())
}
