// Requests to a deployment whose copies all have as many as they may: they wait in turn, within bounds of number and
// time.

export type WaitLimits = { waiting: number; waiting_in_all: number; wait_ms: number }
export const WAIT_LIMITS: WaitLimits = {
  /** The most of one deployment. */
  waiting: 100,
  waiting_in_all: 1_000,
  wait_ms: 10_000,
}

export class WaitingRequests {
  readonly #limits: WaitLimits
  readonly #queues = new Map<string, Set<() => void>>()
  #all = 0

  constructor(limits: WaitLimits) {
    this.#limits = limits
  }

  has(deployment: string): boolean {
    return this.#queues.has(deployment)
  }

  /** Resolves with true when it is its turn, and with false if too many wait, or it has waited too long. */
  async wait(deployment: string, deadline: number): Promise<boolean> {
    const queue = this.#queues.get(deployment) ?? new Set()
    if (queue.size >= this.#limits.waiting || this.#all >= this.#limits.waiting_in_all) return false
    this.#queues.set(deployment, queue)
    this.#all++
    return new Promise(resolve => {
      const leave = (isItsTurn: boolean) => {
        clearTimeout(timer)
        queue.delete(go)
        if (queue.size === 0) this.#queues.delete(deployment)
        this.#all--
        resolve(isItsTurn)
      }
      const go = () => leave(true)
      const timer = setTimeout(() => leave(false), Math.max(0, deadline - Date.now()))
      queue.add(go)
    })
  }

  /** A copy can take another request. */
  next(deployment: string): void {
    const [first] = this.#queues.get(deployment) ?? []
    first?.()
  }

  /** The routes have changed: all look again. */
  look(): void {
    for (const queue of [...this.#queues.values()]) for (const go of [...queue]) go()
  }
}
