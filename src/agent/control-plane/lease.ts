// The lease of a listener, as whoever acts under it keeps it: by which fence, and until when that can be trusted.
import os from 'node:os'

/** It lasts 60 seconds from the start of a poll; a little less of it is trusted. */
const TRUSTED_MS = 55_000

/** Goes on while the machine sleeps, as `performance.now()` does not, and is set by nobody. */
export const uptimeMs = () => os.uptime() * 1000

export class Lease {
  #trustedUntil = 0
  /** Null when it was lost, or never had. One that was not renewed in time may still be ours: a poll says so. */
  fence: number | null = null

  /** `begun`: what the clock said as the poll was sent that this was the answer to. */
  renew(fence: number, begun: number): void {
    this.fence = fence
    this.#trustedUntil = begun + TRUSTED_MS
  }

  lose(): void {
    this.fence = null
  }

  isActive(): boolean {
    return this.fence !== null && uptimeMs() < this.#trustedUntil
  }
}
