// Leaves out a copy that fails several times in a row, for a while, as long as at least half of the copies are left.
// Pure but for its memory.
const FAILURES = 5
const OUT_MS = 10_000
const LONGEST_OUT_MS = 60_000

type Seen = { failures: number; outs: number; until: number }

export class Outliers {
  readonly #seen = new Map<string, Seen>()
  readonly #now: () => number

  constructor(now = Date.now) {
    this.#now = now
  }

  /** A failure: it accepts no connection, gives no answer, or answers with 5xx. */
  record(copy: string, hasFailed: boolean): void {
    if (!hasFailed) {
      if (this.#seen.size > 0) this.#seen.delete(copy)
      return
    }
    const seen = this.#seen.get(copy) ?? { failures: 0, outs: 0, until: 0 }
    this.#seen.set(copy, seen)
    seen.failures++
    if (seen.failures < FAILURES || seen.until > this.#now()) return
    seen.until = this.#now() + Math.min(LONGEST_OUT_MS, OUT_MS * 2 ** seen.outs)
    seen.outs++
    // Once it is back, its first failure decides.
    seen.failures = FAILURES - 1
  }

  /** All, if more than half of them fail: then the reason is not the copy. */
  admit<Target>(targets: Target[], nameOf: (target: Target) => string): Target[] {
    if (this.#seen.size === 0 || targets.length < 2) return targets
    const now = this.#now()
    const admitted = targets.filter(target => !((this.#seen.get(nameOf(target))?.until ?? 0) > now))
    return admitted.length * 2 < targets.length ? targets : admitted
  }

  keepOnly(copies: Set<string>): void {
    for (const copy of this.#seen.keys()) if (!copies.has(copy)) this.#seen.delete(copy)
  }
}
