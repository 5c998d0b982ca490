// Requests to a deployment that sleeps: each waits until a copy serves, within bounds of number and time. Their bodies
// are not read meanwhile, so that each takes its headers and what Node and the kernel buffer: 100 KB at most.

export type HoldLimits = { held: number; held_in_all: number; wake_ms: number }
export const HOLD_LIMITS: HoldLimits = {
  /** The most of one deployment. */
  held: 100,
  held_in_all: 1_000,
  /** The time that a request waits for the first copy. */
  wake_ms: 60_000,
}
/** Each deployment has so many, also where those of all are taken. */
const OWN_PLACES = 4
/** A client that goes away is noticed after so long. */
const LOOK_MS = 1_000

export class HeldRequests {
  readonly #limits: HoldLimits
  readonly #onWake: (deployment: string) => void
  readonly #counts = new Map<string, number>()
  #all = 0
  readonly #waiting = new Set<() => void>()

  constructor(limits: HoldLimits, onWake: (deployment: string) => void) {
    this.#limits = limits
    this.#onWake = onWake
  }

  /** `crowded`: too many wait. */
  async wait(
    deployment: string,
    isClientGone: () => boolean,
    isHeld: () => boolean,
  ): Promise<'awake' | 'crowded' | 'asleep'> {
    const count = this.#counts.get(deployment) ?? 0
    // Deployments that never wake must not take the places of all others.
    const isFull = this.#all >= this.#limits.held_in_all && count >= OWN_PLACES
    if (count >= this.#limits.held || isFull) return 'crowded'
    this.#counts.set(deployment, count + 1)
    this.#all++
    if (count === 0) this.#onWake(deployment)
    try {
      const deadline = Date.now() + this.#limits.wake_ms
      while (isHeld()) {
        if (isClientGone() || Date.now() >= deadline) return 'asleep'
        await this.#untilLook()
      }
      return 'awake'
    } finally {
      this.#all--
      const left = this.#counts.get(deployment)! - 1
      if (left > 0) this.#counts.set(deployment, left)
      else this.#counts.delete(deployment)
    }
  }

  #untilLook(): Promise<void> {
    return new Promise(resolve => {
      const go = () => {
        clearTimeout(timer)
        this.#waiting.delete(go)
        resolve()
      }
      const timer = setTimeout(go, LOOK_MS)
      this.#waiting.add(go)
    })
  }

  /** The routes have changed. */
  look(): void {
    for (const go of [...this.#waiting]) go()
  }

  deployments(): string[] {
    return [...this.#counts.keys()]
  }
}
