// Limits the requests of all drains at once, and those of each workspace.

const MAX_SENDING = 16
const MAX_OF_WORKSPACE = 2

export class SendSlots {
  readonly #running = new Map<string, number>()
  readonly #waiting: { workspace: string; resume: () => void }[] = []
  #total = 0

  /** For one request. One that still waits leaves when the signal aborts. */
  async run<T>(workspace: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#enter(workspace, signal)
    try {
      return await work()
    } finally {
      this.#total--
      this.#count(workspace, -1)
      this.#next()
    }
  }

  #enter(workspace: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const one = { workspace, resume: resolve }
    const leave = () => {
      const place = this.#waiting.indexOf(one)
      if (place >= 0) this.#waiting.splice(place, 1)
      reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting.push(one)
    this.#next()
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  #runningOf = ({ workspace }: { workspace: string }): number => this.#running.get(workspace) ?? 0

  #count(workspace: string, change: number): void {
    const count = (this.#running.get(workspace) ?? 0) + change
    if (count > 0) this.#running.set(workspace, count)
    else this.#running.delete(workspace)
  }

  /** A workspace with few requests goes first: one with many drains would otherwise fill the queue before it. */
  #next(): void {
    while (this.#total < MAX_SENDING) {
      const [first] = this.#waiting.toSorted((a, b) => this.#runningOf(a) - this.#runningOf(b))
      if (!first || this.#runningOf(first) >= MAX_OF_WORKSPACE) return
      this.#waiting.splice(this.#waiting.indexOf(first), 1)
      this.#total++
      this.#count(first.workspace, 1)
      first.resume()
    }
  }
}
