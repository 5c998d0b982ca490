// A limit on failed authentications of one address, so that further attempts cost no trip to the database.
import type { Caller } from '../http/context.ts'
import { fail } from '../http/errors.ts'
import { createExpiringMap } from './expiring-map.ts'
import { toNetworkPrefix } from './network-prefix.ts'

const MAX_ADDRESSES = 10_000
const WINDOW_MS = 60_000

/** A running attempt counts as a failure, so that parallel attempts count too. Settling it again has no effect. */
export type Attempt = { succeed(): void; fail(waitUntil: Caller['waitUntil']): void }
const UNLIMITED: Attempt = { succeed() {}, fail() {} }

/** A window starts with its first attempt. A limit of 0 disables it. `onFailure` is called with the key of a window. */
export function createAddressLimits(
  limit: number,
  now: () => number,
  onFailure: (key: string, waitUntil: Caller['waitUntil']) => void,
) {
  const windows = createExpiringMap<{ failed: number; running: number }>(MAX_ADDRESSES, now)
  const windowOf = (key: string) =>
    windows.get(key) ?? windows.set(key, { failed: 0, running: 0 }, WINDOW_MS, siteOf(key))
  return {
    begin(kind: string, address: string | undefined): Attempt {
      if (limit === 0 || address === undefined) return UNLIMITED
      const key = `${kind} ${toNetworkPrefix(address)}`
      const window = windowOf(key)
      if (window.failed + window.running >= limit) {
        const seconds = window.failed >= limit ? windows.secondsLeft(key) : 1
        throw fail('address_rate_limited', { headers: { 'Retry-After': String(seconds) } })
      }
      window.running++
      let settled = false
      const settle = (failed: number, waitUntil?: Caller['waitUntil']) => {
        if (settled) return
        settled = true
        window.running--
        window.failed += failed
        if (failed > 0) onFailure(key, waitUntil)
      }
      return { succeed: () => settle(0), fail: waitUntil => settle(1, waitUntil) }
    },
    exhaust: (key: string, seconds: number): void =>
      void windows.set(key, { failed: limit, running: 0 }, seconds * 1000, siteOf(key)),
  }
}

/** A site usually has a /48, and so 65,536 windows, which must not evict those of others. */
const siteOf = (key: string): string =>
  key
    .slice(key.lastIndexOf(' ') + 1)
    .split(':')
    .slice(0, 3)
    .join(':')
