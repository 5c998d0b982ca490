// What deployments were promised beside their applications, like a database: brought until it is there, and told when it does not come.

import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../../redaction/error-messages.ts'
import { type EngineObservation, PermanentError } from '../engine.ts'

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 10_000
const CHECK_MS = 100
const CLOSE_TIMEOUT_MS = 3_000

type Provision = {
  ending: AbortController
  ended: Promise<void>
  since: number
  /** It is being brought, also where it was ready before. */
  busy: boolean
  ready: boolean
  reason: string | null
  /** It is other than it was when somebody set out to bring it. */
  other: boolean
}
type ProvisionerOptions = {
  /** Makes it, or makes sure of it; what it throws is told, and it is asked again. */
  provision: (deployment_id: string, signal: AbortSignal) => Promise<void>
  changed: (deployment_id: string) => void
  /** After so long it is said that it does not come; it is brought nevertheless. */
  patience_ms: number
}

export class Provisioner {
  readonly #options: ProvisionerOptions
  readonly #provisions = new Map<string, Provision>()

  constructor(options: ProvisionerOptions) {
    this.#options = options
  }

  /** Does not wait. What is there already is made sure of, and stays ready meanwhile unless more was promised. */
  start(id: string, more = false): void {
    const before = this.#provisions.get(id)
    if (before?.busy) {
      before.other = true
      if (more) before.ready = false
      return
    }
    const one: Provision = {
      ...{ ending: new AbortController(), ended: Promise.resolve(), since: Date.now(), busy: true },
      ...{ ready: (before?.ready ?? false) && !more, reason: null, other: false },
    }
    this.#provisions.set(id, one)
    one.ended = this.#provision(id, one)
  }

  statusOf(id: string): NonNullable<EngineObservation['database']> | null {
    const one = this.#provisions.get(id)
    if (!one) return null
    const { ready, reason, since } = one
    return { ready, reason, hopeless: !ready && Date.now() - since >= this.#options.patience_ms }
  }

  /** Until it is there; throws what is wrong when it does not come in time. */
  async waitUntilReady(id: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { ready, hopeless, reason } = this.statusOf(id) ?? { ready: true }
      if (ready) return
      if (hopeless) throw new PermanentError(reason ?? 'What it was promised does not come in time.')
      await delay(CHECK_MS, undefined, { signal })
    }
  }

  get ready(): string[] {
    return [...this.#provisions].filter(([, { ready }]) => ready).map(([id]) => id)
  }

  /** Nothing more is done for it when this returns. */
  async forget(id: string): Promise<void> {
    const one = this.#provisions.get(id)
    one?.ending.abort()
    await one?.ended
    if (this.#provisions.get(id) === one) this.#provisions.delete(id)
  }

  /** What goes on longer than that is ended with us, and found by the next agent. */
  async close(): Promise<void> {
    const forgotten = Promise.all([...this.#provisions.keys()].map(id => this.forget(id)))
    await Promise.race([forgotten, delay(CLOSE_TIMEOUT_MS)])
  }

  async #provision(id: string, one: Provision): Promise<void> {
    const { provision: bring, changed, patience_ms } = this.#options
    const { signal } = one.ending
    const late = setTimeout(changed, patience_ms, id)
    signal.addEventListener('abort', () => clearTimeout(late))
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      one.other = false
      const reason = await bring(id, signal).then(
        () => null,
        (error: Error) => describeError(error),
      )
      if (signal.aborted) return
      const ready = reason === null
      if (ready && one.other) continue
      const news = ready !== one.ready || reason !== one.reason
      Object.assign(one, { ready, reason, busy: !ready })
      if (ready) clearTimeout(late)
      if (news) changed(id)
      if (ready) return
      await delay(pause, undefined, { signal }).catch(() => {})
    }
  }
}
