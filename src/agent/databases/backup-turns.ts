// Decides when a base backup is made: one at a time, because each reads all data. One that fails is tried again after
// longer and longer pauses, and the others do not wait for it.
import { describeError } from '../redaction/error-messages.ts'

const FIRST_PAUSE_MS = 30_000
const LONGEST_PAUSE_MS = 3600_000

type Failure = { message: string; count: number; until: number }

export class BackupTurns {
  readonly #failures = new Map<string, Failure>()
  #last = { first: Promise.resolve(), again: Promise.resolve() }

  /** Rejects with the failure of the last time before its pause is over. */
  async run(id: string, now: number, work: () => Promise<void>): Promise<void> {
    const failure = this.#failures.get(id)
    if (failure && now < failure.until) throw new Error(failure.message)
    const lane = failure ? 'again' : 'first'
    const turn = this.#last[lane].then(work)
    this.#last[lane] = turn.catch(() => {})
    try {
      await turn
      this.#failures.delete(id)
    } catch (error) {
      const count = (failure?.count ?? 0) + 1
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (count - 1))
      // The turn may have waited and taken long.
      const until = Math.max(now, Date.now()) + pause
      this.#failures.set(id, { message: describeError(error as Error), count, until })
      throw error
    }
  }

  forget(id: string): void {
    this.#failures.delete(id)
  }
}
