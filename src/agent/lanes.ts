// One lane for each deployment: what is done there is done one after the other, and looked at again when something changed meanwhile.

type Lane = { again: boolean; ended: Promise<void> }

export class Lanes {
  readonly #work: (id: string) => Promise<void>
  readonly #failed: (id: string, error: unknown) => void
  readonly #lanes = new Map<string, Lane>()
  /** What is to be looked at again, and when: the soonest counts. */
  readonly #later = new Map<string, { at: number; timer: NodeJS.Timeout }>()
  #closed = false

  constructor(work: (id: string) => Promise<void>, failed: (id: string, error: unknown) => void) {
    this.#work = work
    this.#failed = failed
  }

  touch(id: string): void {
    const there = this.#lanes.get(id)
    if (this.#closed) return
    if (there) {
      there.again = true
      return
    }
    const lane: Lane = { again: false, ended: Promise.resolve() }
    this.#lanes.set(id, lane)
    lane.ended = this.#follow(id, lane)
  }

  async #follow(id: string, lane: Lane): Promise<void> {
    do {
      lane.again = false
      await this.#work(id).catch(error => this.#failed(id, error))
    } while (lane.again && !this.#closed)
    this.#lanes.delete(id)
  }

  later(id: string, ms: number): void {
    const at = performance.now() + ms
    const before = this.#later.get(id)
    if (before && before.at <= at) return
    clearTimeout(before?.timer)
    const look = () => {
      this.#later.delete(id)
      this.touch(id)
    }
    this.#later.set(id, { at, timer: setTimeout(look, ms).unref() })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#lanes.values()].map(({ ended }) => ended))
  }
}
