// Draws the requests that become lines of a log: no more than a rate, each with the same chance. Pure.

/** A burst of so many seconds is taken whole. */
const BURST_SECONDS = 30

/** Draws between two calls of `take`. What is not drawn is never built. */
export class RequestSample<Line> {
  readonly #rate: number
  readonly #burst: number
  #tokens: number
  #refilledAt: number
  #offered = 0
  #leftOut = 0
  #drawn: Line[] = []

  constructor(rate: number, now: number, burst = rate * BURST_SECONDS) {
    this.#rate = rate
    this.#tokens = burst
    this.#refilledAt = now
    this.#burst = burst
  }

  /** `random`: at least 0, and below 1. */
  offer(build: () => Line, random: number): void {
    const room = Math.floor(this.#tokens)
    const place = this.#drawn.length < room ? this.#drawn.length : Math.floor(random * (this.#offered + 1))
    this.#offered++
    if (place >= room) {
      this.#leftOut++
      return
    }
    if (place < this.#drawn.length) this.#leftOut++
    this.#drawn[place] = build()
  }

  take(now: number): { lines: Line[]; leftOut: number } {
    const taken = { lines: this.#drawn, leftOut: this.#leftOut }
    const refill = (Math.max(0, now - this.#refilledAt) / 1000) * this.#rate
    this.#tokens = Math.min(this.#burst, this.#tokens - taken.lines.length + refill)
    this.#refilledAt = now
    this.#offered = 0
    this.#leftOut = 0
    this.#drawn = []
    return taken
  }
}
