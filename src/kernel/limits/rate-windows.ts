// The requests of each budget within its minute, as one instance knows them: its own at once, and those of other
// instances after each exchange with the database (pure).
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'

const WINDOW_MS = 60_000
const MAX_WINDOWS = 10_000

/** `unsent` of the requests are not in the database yet. */
type Window = { requests: number; unsent: number; organization: string | undefined }
type Rate = { remaining: number; reset: number }
/** One request in a window. */
export type Charge = { readonly rate: Rate; moveTo(budget: string, organization?: string): void; refund(): void }

export const rateLimited = (seconds: number) => fail('rate_limited', { headers: { 'Retry-After': String(seconds) } })

export function createRateWindows(limit: number, now: () => number) {
  const windows = createExpiringMap<Window>(MAX_WINDOWS, now)
  const open = (budget: string, organization?: string) =>
    windows.get(budget) ?? windows.set(budget, { requests: 0, unsent: 0, organization }, WINDOW_MS, organization)

  function add(budget: string, organization?: string): Window {
    const window = open(budget, organization)
    window.requests++
    window.unsent++
    return window
  }
  function subtract(window: Window): void {
    window.requests--
    window.unsent--
  }

  return {
    /** Counts a request, or refuses it. Until a key is known, its own hash stands for its budget. */
    charge(budget: string): Charge {
      if ((windows.get(budget)?.requests ?? 0) >= limit) throw rateLimited(windows.secondsLeft(budget))
      let at = budget
      let window = add(budget)
      return {
        get rate() {
          return { remaining: Math.max(0, limit - window.requests), reset: windows.secondsLeft(at) }
        },
        moveTo(budget, organization) {
          if (budget === at) return
          subtract(window)
          window = add(budget, organization)
          at = budget
        },
        refund: () => subtract(window),
      }
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
