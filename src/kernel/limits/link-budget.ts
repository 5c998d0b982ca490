// A budget for each link whose token replaces a key: everyone who has the link shares it. In the memory of an instance.
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'

const MAX_LINKS = 10_000
const WINDOW_MS = 60_000
const MAX_ANSWERS = 600
const MAX_BYTES = 256 * 1024 * 1024

export function createLinkBudget(now: () => number) {
  const spentBy = createExpiringMap<{ answers: number; bytes: number }>(MAX_LINKS, now)
  return {
    requireLeft(link: string): void {
      const spent = spentBy.get(link)
      if (!spent || (spent.answers < MAX_ANSWERS && spent.bytes < MAX_BYTES)) return
      throw fail('link_rate_limited', { headers: { 'Retry-After': String(spentBy.secondsLeft(link)) } })
    },
    /** Counts what was answered. Guesses are not in here, so they do not push out the links that exist. */
    spend(link: string, bytes: number): void {
      const spent = spentBy.get(link) ?? spentBy.set(link, { answers: 0, bytes: 0 }, WINDOW_MS)
      spent.answers++
      spent.bytes += bytes
    },
  }
}
