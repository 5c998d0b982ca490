// The requests of each budget within its minute, as one instance knows them: its own at once, and those of other
// instances after each exchange with the database (pure).
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'

const WINDOW_MS = 60_000
const MAX_WINDOWS = 10_000

/** `unsent` of the requests are not in the database yet. A window of a hash is joined to that of its budget. */
type Window = {
  budget: string
  organization: string | undefined
  requests: number
  unsent: number
  joined?: Window
}
/** A caller's budget, and the organization that its window is grouped by. */
export type Account = { budget: string; organization?: string }
type Rate = { remaining: number; reset: number }
/** One request in a window. */
export type Charge = { rate(): Rate; refund(): void }

export const rateLimited = (seconds: number) => fail('rate_limited', { headers: { 'Retry-After': String(seconds) } })

export function createRateWindows(limit: number, now: () => number) {
  const windows = createExpiringMap<Window>(MAX_WINDOWS, now)
  const open = (budget: string, organization?: string) =>
    windows.get(budget) ??
    windows.set(budget, { budget, organization, requests: 0, unsent: 0 }, WINDOW_MS, organization)

  return {
    /** Counts a request, or refuses it. Until the budget of a key is known, its hash stands for it. */
    charge({ budget, organization }: Account): Charge {
      if ((windows.get(budget)?.requests ?? 0) >= limit) throw rateLimited(windows.secondsLeft(budget))
      const opened = open(budget, organization)
      opened.requests++
      opened.unsent++
      const current = () => opened.joined ?? opened
      return {
        rate() {
          return { remaining: Math.max(0, limit - current().requests), reset: windows.secondsLeft(current().budget) }
        },
        refund() {
          current().requests--
          current().unsent--
        },
      }
    },
    /** Adds what was charged to the hash to the window of its budget. */
    join(hash: string, budget: string, organization?: string): void {
      const from = windows.get(hash)
      if (!from || hash === budget) return
      const to = open(budget, organization)
      to.requests += from.requests
      to.unsent += from.unsent
      from.joined = to
      windows.delete(hash)
    },
    /** These requests of the budget go to the database now. */
    send(budget: string, requests: number): void {
      const window = windows.get(budget)
      if (window) window.unsent = Math.max(0, window.unsent - requests)
    },
    /** The database has counted so many, of all instances. */
    adopt(budget: string, requests: number, seconds: number): void {
      const window = open(budget)
      window.requests = requests + window.unsent
      windows.set(budget, window, seconds * 1000, window.organization)
    },
  }
}
