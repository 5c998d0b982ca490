// The place of backups: named files that outlive the data of deployments.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { listFolder, removeRecursively } from '../system/files.ts'

export interface ArchiveStore {
  /** Takes the file over: it is gone from its old place. A name either has the whole file or does not exist. */
  put(name: string, file: string): Promise<void>
  /** False: there is none. Rejects if that cannot be known. */
  get(name: string, file: string, signal?: AbortSignal): Promise<boolean>
  /** The names directly below a folder, without it. */
  list(folder: string): Promise<string[]>
  /** The bytes of the files directly below a folder. Small files count as `MIN_FILE_BYTES`. */
  sizeOf(folder: string): Promise<number>
  remove(name: string): Promise<void>
  removeFolder(folder: string): Promise<void>
  /** Moves what an earlier setting has left of a folder elsewhere. `work`: a file on its way. */
  settle?(folder: string, work: string): Promise<void>
}

/** So that a limit of bytes bounds the number of files, too. */
const MIN_FILE_BYTES = 64 * 1024
export const countedBytes = (size: number): number => Math.max(size, MIN_FILE_BYTES)

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

  async get(name: string, file: string): Promise<boolean> {
    const path = join(this.#root, name)
    if (!fs.statSync(path, { throwIfNoEntry: false })?.isFile()) return false
    return fs.promises.copyFile(path, file).then(
      () => true,
      error => {
        // It was moved or removed meanwhile.
        if (!fs.existsSync(path)) return false
        throw error
      },
    )
  }

  async list(folder: string): Promise<string[]> {
    return listFolder(join(this.#root, folder))
  }

  async sizeOf(folder: string): Promise<number> {
    let bytes = 0
    for (const name of await this.list(folder))
      bytes += countedBytes(fs.statSync(join(this.#root, folder, name), { throwIfNoEntry: false })?.size ?? 0)
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
