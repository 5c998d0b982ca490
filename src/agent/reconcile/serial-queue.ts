// One lane for each deployment: what is done there is done one after the other, and looked at again when something changed meanwhile.

type QueueEntry = { isDirty: boolean; ended: Promise<void> }

export class SerialQueue {
  readonly #work: (id: string) => Promise<void>
  readonly #onError: (id: string, error: unknown) => void
  readonly #running = new Map<string, QueueEntry>()
  /** What is to be looked at again, and when: the soonest counts. */
  readonly #scheduled = new Map<string, { at: number; timer: NodeJS.Timeout }>()
  #closed = false

  constructor(work: (id: string) => Promise<void>, failed: (id: string, error: unknown) => void) {
    this.#work = work
    this.#onError = failed
  }

  enqueue(id: string): void {
    const there = this.#running.get(id)
    if (this.#closed) return
    if (there) {
      there.isDirty = true
      return
    }
    const lane: QueueEntry = { isDirty: false, ended: Promise.resolve() }
    this.#running.set(id, lane)
    lane.ended = this.#runUntilIdle(id, lane)
  }

  async #runUntilIdle(id: string, lane: QueueEntry): Promise<void> {
    do {
      lane.isDirty = false
      await this.#work(id).catch(error => this.#onError(id, error))
    } while (lane.isDirty && !this.#closed)
    this.#running.delete(id)
  }

  enqueueAfter(id: string, ms: number): void {
    const at = performance.now() + ms
    const before = this.#scheduled.get(id)
    if (before && before.at <= at) return
    clearTimeout(before?.timer)
    const look = () => {
      this.#scheduled.delete(id)
      this.enqueue(id)
    }
    this.#scheduled.set(id, { at, timer: setTimeout(look, ms).unref() })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }
}
