// What deployments were promised beside their applications, like a database: brought until it is there, and told when it does not come.

import { setTimeout as delay } from 'node:timers/promises'
import { faultOf } from '../../faults.ts'
import { type Seen, Unworkable } from '../engine.ts'

const FIRST_PAUSE = 200
const LONGEST_PAUSE = 10_000
const LOOK_MS = 100
const CLOSE_WITHIN = 3_000

type One = {
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
type Options = {
  /** Makes it, or makes sure of it; what it throws is told, and it is asked again. */
  bring: (deployment_id: string, signal: AbortSignal) => Promise<void>
  changed: (deployment_id: string) => void
  /** After so long it is said that it does not come; it is brought nevertheless. */
  patience_ms: number
}

export class Promised {
  readonly #options: Options
  readonly #all = new Map<string, One>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Does not wait. What is there already is made sure of, and stays ready meanwhile unless more was promised. */
  start(id: string, more = false): void {
    const before = this.#all.get(id)
    if (before?.busy) {
      before.other = true
      if (more) before.ready = false
      return
    }
    const one: One = {
      ...{ ending: new AbortController(), ended: Promise.resolve(), since: Date.now(), busy: true },
      ...{ ready: (before?.ready ?? false) && !more, reason: null, other: false },
    }
    this.#all.set(id, one)
    one.ended = this.#bring(id, one)
  }

  seen(id: string): NonNullable<Seen['database']> | null {
    const one = this.#all.get(id)
    if (!one) return null
    const { ready, reason, since } = one
    return { ready, reason, hopeless: !ready && Date.now() - since >= this.#options.patience_ms }
  }

  /** Until it is there; throws what is wrong when it does not come in time. */
  async wait(id: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { ready, hopeless, reason } = this.seen(id) ?? { ready: true }
      if (ready) return
      if (hopeless) throw new Unworkable(reason ?? 'What it was promised does not come in time.')
      await delay(LOOK_MS, undefined, { signal })
    }
  }

  get ready(): string[] {
    return [...this.#all].filter(([, { ready }]) => ready).map(([id]) => id)
  }

  /** Nothing more is done for it when this returns. */
  async forget(id: string): Promise<void> {
    const one = this.#all.get(id)
    one?.ending.abort()
    await one?.ended
    if (this.#all.get(id) === one) this.#all.delete(id)
  }

  /** What goes on longer than that is ended with us, and found by the next agent. */
  async close(): Promise<void> {
    const forgotten = Promise.all([...this.#all.keys()].map(id => this.forget(id)))
    await Promise.race([forgotten, delay(CLOSE_WITHIN)])
  }

  async #bring(id: string, one: One): Promise<void> {
    const { bring, changed, patience_ms } = this.#options
    const { signal } = one.ending
    const late = setTimeout(changed, patience_ms, id)
    signal.addEventListener('abort', () => clearTimeout(late))
    for (let pause = FIRST_PAUSE; !signal.aborted; pause = Math.min(pause * 1.5, LONGEST_PAUSE)) {
      one.other = false
      const reason = await bring(id, signal).then(
        () => null,
        (error: Error) => faultOf(error),
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
