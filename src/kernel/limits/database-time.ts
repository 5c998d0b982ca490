// A budget of database time for each workspace, in the memory of an instance: a count of requests does not tell what
// they cost. It refuses new requests only, and never ends one.
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'
import { isStranger } from './share-groups.ts'

const MAX_GROUPS = 10_000
const WINDOW_MS = 60_000

/** A window starts with the first time that is spent. A limit of 0 disables the budget. */
export function createDatabaseTime(secondsPerMinute: number, now: () => number) {
  const spentBy = createExpiringMap<{ ms: number }>(MAX_GROUPS, now)
  return {
    requireLeft(group: string): void {
      const spent = spentBy.get(group)
      if (!spent || spent.ms < secondsPerMinute * 1000) return
      throw fail('database_time_spent', { headers: { 'Retry-After': String(spentBy.secondsLeft(group)) } })
    },
    /** The few connections for strangers bound what these cost together. */
    spend(group: string, ms: number): void {
      if (secondsPerMinute === 0 || isStranger(group)) return
      const spent = spentBy.get(group) ?? spentBy.set(group, { ms: 0 }, WINDOW_MS)
      spent.ms += ms
    },
  }
}
