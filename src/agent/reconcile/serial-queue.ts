// Runs the work of each key one at a time, and once more when the key was enqueued meanwhile.

type QueueEntry = { isDirty: boolean; ended: Promise<void> }

export class SerialQueue {
  readonly #work: (id: string) => Promise<void>
  readonly #onError: (id: string, error: unknown) => void
  readonly #running = new Map<string, QueueEntry>()
  /** The soonest delayed run of each key. */
  readonly #scheduled = new Map<string, { at: number; timer: NodeJS.Timeout }>()
  #closed = false

  constructor(work: (id: string) => Promise<void>, onError: (id: string, error: unknown) => void) {
    this.#work = work
    this.#onError = onError
  }

  enqueue(id: string): void {
    if (this.#closed) return
    const running = this.#running.get(id)
    if (running) {
      running.isDirty = true
      return
    }
    const entry: QueueEntry = { isDirty: false, ended: Promise.resolve() }
    this.#running.set(id, entry)
    entry.ended = this.#runUntilIdle(id, entry)
  }

  async #runUntilIdle(id: string, entry: QueueEntry): Promise<void> {
    do {
      entry.isDirty = false
      await this.#work(id).catch(error => this.#onError(id, error))
    } while (entry.isDirty && !this.#closed)
    this.#running.delete(id)
  }

  enqueueAfter(id: string, ms: number): void {
    const at = performance.now() + ms
    const scheduled = this.#scheduled.get(id)
    if (scheduled && scheduled.at <= at) return
    clearTimeout(scheduled?.timer)
    const run = () => {
      this.#scheduled.delete(id)
      this.enqueue(id)
    }
    this.#scheduled.set(id, { at, timer: setTimeout(run, ms).unref() })
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }
}
