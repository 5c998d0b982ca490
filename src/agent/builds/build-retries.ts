// The pauses between the tries of a build whose failure may pass, and the end of its patience with a source (pure).
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000
/** The control plane gives a build 30 minutes: what is left must do for the build itself. */
const PATIENCE_MINUTES = 20

type Tries = { count: number; since: number }

export class BuildRetries {
  readonly #tries = new Map<string, Tries>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Doubles with each try, up to a minute. */
  nextPause(revision_id: string): number {
    const tries = this.#tries.get(revision_id) ?? { count: 0, since: this.#now() }
    this.#tries.set(revision_id, { ...tries, count: tries.count + 1 })
    return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries.count)
  }

  /** The end of the sentence that fails the build; null while there is time for another try. */
  exhausted(revision_id: string): string | null {
    const { since } = this.#tries.get(revision_id) ?? {}
    if (since === undefined || this.#now() - since < PATIENCE_MINUTES * 60_000) return null
    return ` This was tried for ${PATIENCE_MINUTES} minutes. Redeploy once its host is back.`
  }

  forget(revision_id: string): void {
    this.#tries.delete(revision_id)
  }
}
