// Budgets in the memory of an instance, for costs that a count of requests does not show: the database time of a
// workspace, and the answers to everyone who has a link. They refuse new requests only, and never end one.
import type { Code } from '../http/codes.ts'
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'
import { isStranger } from './share-groups.ts'

const MAX_SPENDERS = 10_000
const WINDOW_MS = 60_000

/** The window of a spender starts with the first amounts. */
function createBudget<Name extends string>(code: Code, limits: Record<Name, number>, now: () => number) {
  const names = Object.keys(limits) as Name[]
  const spentBy = createExpiringMap<Record<Name, number>>(MAX_SPENDERS, now)
  return {
    requireLeft(spender: string): void {
      const spent = spentBy.get(spender)
      if (!spent || names.every(name => spent[name] < limits[name])) return
      throw fail(code, { headers: { 'Retry-After': String(spentBy.secondsLeft(spender)) } })
    },
    spend(spender: string, amounts: Record<Name, number>): void {
      const spent = spentBy.get(spender)
      if (!spent) spentBy.set(spender, { ...amounts }, WINDOW_MS)
      else for (const name of names) spent[name] += amounts[name]
    },
  }
}

/** A limit of 0 disables the budget. */
export function createDatabaseTime(secondsPerMinute: number, now: () => number) {
  const { requireLeft, spend } = createBudget('database_time_spent', { ms: secondsPerMinute * 1000 }, now)
  return {
    requireLeft,
    /** The few connections for strangers bound what these cost together. */
    spend(group: string, ms: number): void {
      if (secondsPerMinute > 0 && !isStranger(group)) spend(group, { ms })
    },
  }
}

export function createLinkBudget(now: () => number) {
  const { requireLeft, spend } = createBudget('link_rate_limited', { answers: 600, bytes: 256 * 1024 * 1024 }, now)
  /** Counts answers only. A wrong guess is none, so it does not push out a link that exists. */
  return { requireLeft, spend: (link: string, bytes: number): void => spend(link, { answers: 1, bytes }) }
}
