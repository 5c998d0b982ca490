// A store that has replaced a folder of this machine: it takes what is new, and the files of the folder move to it.
import type { ArchiveStore } from './archive-store.ts'

export class MovingStore implements ArchiveStore {
  readonly #to: ArchiveStore
  readonly #from: ArchiveStore

  constructor(to: ArchiveStore, from: ArchiveStore) {
    this.#to = to
    this.#from = from
  }

  put(name: string, file: string): Promise<void> {
    return this.#to.put(name, file)
  }

  async get(name: string, file: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.#from.get(name, file, signal)) || (await this.#to.get(name, file, signal))
  }

  async list(folder: string): Promise<string[]> {
    return [...new Set([...(await this.#to.list(folder)), ...(await this.#from.list(folder))])]
  }

  async sizeOf(folder: string): Promise<number> {
    return (await this.#to.sizeOf(folder)) + (await this.#from.sizeOf(folder))
  }

  async remove(name: string): Promise<void> {
    await this.#from.remove(name)
    await this.#to.remove(name)
  }

  async removeFolder(folder: string): Promise<void> {
    await this.#from.removeFolder(folder)
    await this.#to.removeFolder(folder)
  }

  /** Descriptions come last: what they describe is there. */
  async settle(folder: string, work: string): Promise<void> {
    const names = await this.#from.list(folder)
    for (const name of names.sort((a, b) => Number(a.endsWith('.json')) - Number(b.endsWith('.json')))) {
      const path = `${folder}/${name}`
      if (await this.#from.get(path, work)) {
        await this.#to.put(path, work)
        await this.#from.remove(path)
      } else await this.settle(path, work)
    }
    if (names.length > 0) await this.#from.removeFolder(folder)
  }
}
