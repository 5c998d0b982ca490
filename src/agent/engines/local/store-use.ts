// The amounts of databases, Redis and disks, as they were measured last.
import type { StoreUsage } from '../../engine.ts'

type Amounts = Pick<StoreUsage, 'bytes' | 'connections'>

/** A store that was not measured for so long does not run, or is gone. */
const MAX_AGE_MS = 5 * 60_000

export class StoreUse {
  readonly #known = new Map<string, StoreUsage & { at: number }>()

  note(deployment_id: string, store: string, { bytes, connections }: Amounts): void {
    const usage = { deployment_id, store, bytes: Math.round(bytes), connections, at: Date.now() }
    this.#known.set(`${deployment_id}/${store}`, usage)
  }

  list(): StoreUsage[] {
    for (const [key, { at }] of this.#known) if (Date.now() - at > MAX_AGE_MS) this.#known.delete(key)
    return [...this.#known.values()].map(({ at: _, ...usage }) => usage)
  }
}
