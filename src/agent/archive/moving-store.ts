// A store that has replaced a folder of this machine: it takes what is new, and the files of the folder move to it.
import type { ArchiveStore } from './archive-store.ts'

export class MovingStore implements ArchiveStore {
  readonly #to: ArchiveStore
  readonly #from: ArchiveStore
  /** Changes of a file run one after the other, so that an old one that moves does not replace a newer one. */
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(to: ArchiveStore, from: ArchiveStore) {
    this.#to = to
    this.#from = from
  }

  put(name: string, file: string): Promise<void> {
    return this.#inTurn(name, async () => {
      await this.#to.put(name, file)
      await this.#from.remove(name)
    })
  }

  async get(name: string, file: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.#from.get(name, file, signal)) || (await this.#to.get(name, file, signal))
  }

  /** In this order: a file that moves meanwhile is in one of the lists. */
  async list(folder: string): Promise<string[]> {
    const here = await this.#from.list(folder)
    return [...new Set([...here, ...(await this.#to.list(folder))])]
  }

  async sizeOf(folder: string): Promise<number> {
    return (await this.#from.sizeOf(folder)) + (await this.#to.sizeOf(folder))
  }

  remove(name: string): Promise<void> {
    return this.#inTurn(name, async () => {
      await this.#from.remove(name)
      await this.#to.remove(name)
    })
  }

  async removeFolder(folder: string): Promise<void> {
    await this.#from.removeFolder(folder)
    const moving = [...this.#turns].filter(([name]) => name.startsWith(`${folder}/`))
    await Promise.allSettled(moving.map(([, turn]) => turn))
    await this.#to.removeFolder(folder)
  }

  /** Descriptions come last: what they describe is there. */
  async settle(folder: string, work: string): Promise<void> {
    const names = await this.#from.list(folder)
    for (const name of names.sort((a, b) => Number(a.endsWith('.json')) - Number(b.endsWith('.json')))) {
      const path = `${folder}/${name}`
      const isFile = await this.#inTurn(path, async () => {
        if (!(await this.#from.get(path, work))) return false
        await this.#to.put(path, work)
        await this.#from.remove(path)
        return true
      })
      if (!isFile) await this.settle(path, work)
    }
    if (names.length > 0) await this.#from.removeFolder(folder)
  }

  async #inTurn<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(name) ?? Promise.resolve()
    const turn = before.catch(() => {}).then(work)
    this.#turns.set(name, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(name) === turn) this.#turns.delete(name)
    }
  }
}
