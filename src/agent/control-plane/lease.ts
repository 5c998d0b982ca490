// The agent's side of the lease: its fence, and until when the agent may act under it.
import os from 'node:os'

/** A lease lasts 60 seconds from the start of a poll. The rest is a safety margin. */
const TRUSTED_MS = 55_000

/** Unlike `performance.now()` it counts while the machine sleeps; unlike `Date.now()` it cannot be set. */
export const uptimeMs = () => os.uptime() * 1000

export class Lease {
  #trustedUntil = 0
  /** Null without a lease. An expired lease keeps its fence, because the next poll may still renew it. */
  fence: number | null = null

  /** `polledAt`: the uptime when the poll was sent. */
  renew(fence: number, polledAt: number): void {
    this.fence = fence
    this.#trustedUntil = polledAt + TRUSTED_MS
  }

  lose(): void {
    this.fence = null
  }

  isActive(): boolean {
    return this.fence !== null && uptimeMs() < this.#trustedUntil
  }
}
