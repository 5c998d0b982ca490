// Provides a deployment's database or Redis: retries until it is ready, and reports one that is not ready in time.
import { setTimeout as delay } from 'node:timers/promises'
import { type EngineObservation, PermanentError } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 10_000
const CHECK_MS = 100
const CLOSE_TIMEOUT_MS = 3_000

type Provision = {
  ending: AbortController
  ended: Promise<void>
  since: number
  busy: boolean
  isReady: boolean
  reason: string | null
  /** The request changed during the attempt, so it is provided once more. */
  isOutdated: boolean
}
type ProvisionerOptions = {
  /** Idempotent. Its error becomes the reason, and it is retried. */
  provision: (deployment_id: string, signal: AbortSignal) => Promise<void>
  changed: (deployment_id: string) => void
  /** After this time it is reported as hopeless. Retries go on. */
  patience_ms: number
}

export class Provisioner {
  readonly #options: ProvisionerOptions
  readonly #provisions = new Map<string, Provision>()

  constructor(options: ProvisionerOptions) {
    this.#options = options
  }

  /** Does not wait. One that was ready stays ready, unless this request needs more than it has (`needsMore`). */
  start(id: string, needsMore = false): void {
    const previous = this.#provisions.get(id)
    if (previous?.busy) {
      previous.isOutdated = true
      if (needsMore) previous.isReady = false
      return
    }
    const provision: Provision = {
      ending: new AbortController(),
      ended: Promise.resolve(),
      since: Date.now(),
      busy: true,
      isReady: (previous?.isReady ?? false) && !needsMore,
      reason: null,
      isOutdated: false,
    }
    this.#provisions.set(id, provision)
    provision.ended = this.#provision(id, provision)
  }

  statusOf(id: string): NonNullable<EngineObservation['database']> | null {
    const provision = this.#provisions.get(id)
    if (!provision) return null
    const { isReady: ready, reason, since } = provision
    return { ready, reason, hopeless: !ready && Date.now() - since >= this.#options.patience_ms }
  }

  async waitUntilReady(id: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { ready, hopeless, reason } = this.statusOf(id) ?? { ready: true }
      if (ready) return
      if (hopeless) throw new PermanentError(reason ?? 'Its database or Redis was not ready in time. Deploy it again.')
      await delay(CHECK_MS, undefined, { signal })
    }
  }

  get ready(): string[] {
    return [...this.#provisions].filter(([, { isReady }]) => isReady).map(([id]) => id)
  }

  /** Returns once its last attempt has ended. */
  async forget(id: string): Promise<void> {
    const provision = this.#provisions.get(id)
    provision?.ending.abort()
    await provision?.ended
    if (this.#provisions.get(id) === provision) this.#provisions.delete(id)
  }

  /** An attempt that takes longer ends with this process. The next agent starts a new one. */
  async close(): Promise<void> {
    const forgotten = Promise.all([...this.#provisions.keys()].map(id => this.forget(id)))
    await Promise.race([forgotten, delay(CLOSE_TIMEOUT_MS)])
  }

  async #provision(id: string, provision: Provision): Promise<void> {
    const { provision: attempt, changed, patience_ms } = this.#options
    const { signal } = provision.ending
    const timer = setTimeout(changed, patience_ms, id)
    signal.addEventListener('abort', () => clearTimeout(timer))
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      provision.isOutdated = false
      const reason = await attempt(id, signal).then(
        () => null,
        (error: Error) => describeError(error),
      )
      if (signal.aborted) return
      const ready = reason === null
      if (ready && provision.isOutdated) continue
      const hasChanged = ready !== provision.isReady || reason !== provision.reason
      Object.assign(provision, { isReady: ready, reason, busy: !ready } satisfies Partial<Provision>)
      if (ready) clearTimeout(timer)
      if (hasChanged) changed(id)
      if (ready) return
      await delay(pause, undefined, { signal }).catch(() => {})
    }
  }
}
