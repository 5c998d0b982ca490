// Work that a copy repeats by itself. It pauses while the copy may be put to sleep.

type Job = { everyMs: number; startedAt: number; turn(): void }

/** Longer work is not waited for: the copy stays awake. */
const SETTLE_MS = 1000

export class Background {
  readonly #jobs: Job[] = []
  readonly #timers: NodeJS.Timeout[] = []
  readonly #working = new Set<Promise<void>>()
  #quietUntil = 0

  /** Not again while it still works: the database may be slow, or away. `work` reports its own failures. */
  repeat(work: () => Promise<void>, everyMs: number): void {
    let working: Promise<void> | undefined
    const job: Job = {
      everyMs,
      startedAt: 0,
      turn: () => {
        if (working) return
        job.startedAt = Date.now()
        working = work().finally(() => {
          this.#working.delete(working!)
          working = undefined
        })
        this.#working.add(working)
      },
    }
    this.#jobs.push(job)
    this.#timers.push(setInterval(() => Date.now() >= this.#quietUntil && job.turn(), everyMs))
  }

  /** Nothing begins for so long. */
  pause(ms: number): void {
    this.#quietUntil = Date.now() + ms
  }

  /** Does what has not been done within its interval, and pauses. False: something is still being done. */
  async settle(ms: number): Promise<boolean> {
    this.pause(ms)
    const now = Date.now()
    for (const job of this.#jobs) if (now - job.startedAt >= job.everyMs) job.turn()
    const done = Promise.all(this.#working)
    await Promise.race([done, new Promise(resolve => setTimeout(resolve, SETTLE_MS).unref())])
    return this.#working.size === 0
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(this.#working)
  }
}
