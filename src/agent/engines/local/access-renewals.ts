// Keeps the sessions of pages that stay open: a cookie that is used is replaced before it ends, once the control plane
// has said that its person may still see the deployment. Without an answer it ends when it says.
import type { AccessRenewal } from '../../../protocol/access-renewals.schema.ts'

type Known = { askedAt: number; until: number; isRefused: boolean }

/** A person who may not see it any more is refused after this long, while their page is used. */
const ASK_AFTER_S = 300
const ASK_AGAIN_S = 60
const RENEWED_S = 1800
const MAX_KNOWN = 10_000

export class AccessRenewals {
  readonly #known = new Map<string, Known>()
  readonly #ask: (renewal: AccessRenewal) => void
  readonly #clock: () => number

  constructor(ask: (renewal: AccessRenewal) => void, clock: () => number) {
    this.#ask = ask
    this.#clock = clock
  }

  isRefused(renewal: string): boolean {
    return this.#known.get(renewal)?.isRefused === true
  }

  /** The end of a cookie that may take the place of this one, which ends at `until`. Undefined if there is none. */
  use(one: AccessRenewal, until: number): number | undefined {
    const now = this.#clock() / 1000
    const known = this.#known.get(one.renewal)
    const end = Math.max(until, known?.until ?? 0)
    if (end - now < RENEWED_S - ASK_AFTER_S && now - (known?.askedAt ?? 0) >= ASK_AGAIN_S) {
      this.#known.delete(one.renewal)
      this.#known.set(one.renewal, { askedAt: now, until: known?.until ?? 0, isRefused: false })
      const [oldest] = this.#known.keys()
      if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest!)
      this.#ask(one)
    }
    return end > until ? end : undefined
  }

  answer({ renewal }: Pick<AccessRenewal, 'renewal'>, isRenewed: boolean): void {
    const known = this.#known.get(renewal)
    if (!known) return
    if (isRenewed) known.until = Math.floor(this.#clock() / 1000 + RENEWED_S)
    else known.isRefused = true
  }
}
