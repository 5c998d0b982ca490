// What an instance remembers of its callers, to refuse a flood before it costs a trip or a body is read. It lets nobody
// in: a key that it remembers is still asked for in the database, with every request.
import type { Config, RequestHead } from '../env.ts'
import { type Attempt, createAddressLimits, toNetworkPrefix } from './address-limits.ts'
import type { Code } from './codes.ts'
import type { Caller } from './context.ts'
import { countRefusedRequests, type Database } from './db.ts'
import { Failure, fail } from './errors.ts'
import { createExpiringMap } from './expiring-map.ts'

const MAX_KEYS = 10_000
const RECENT_KEY_MS = 15 * 60_000
/**
 * Git hosts deliver for everybody from a few addresses, seldom for each integration, and do not repeat what was
 * refused.
 */
const VERIFIED_NAME_MS = 7 * 24 * 60 * 60_000
/** After this a trip that counts is taken to have ended with the request that it belonged to. */
const COUNT_TIMEOUT_MS = 10_000

const KEY_REFUSALS: Code[] = ['key_unknown', 'key_revoked', 'key_expired']
const codeOf = (error: unknown): Code | undefined => (error instanceof Failure ? error.code : undefined)
const rateLimited = (seconds: number) => fail('rate_limited', { headers: { 'Retry-After': String(seconds) } })

/** A request whose key has the right shape, from before its body is read until it is answered. */
export type KeyedRequest = {
  /** Whether this instance saw the key enter lately. */
  isRecentlyAccepted(): boolean
  recordAccepted(): void
  recordFailure(error: unknown, caller: Caller): void
}
export type CallerLimits = ReturnType<typeof createCallerLimits>

export function createCallerLimits({ config, database }: { config: Config; database: Database }) {
  const { limiter } = config
  const now = () => Date.now() + config.clockOffset()
  const addresses = createAddressLimits(config.unknownKeysPerMinute, now)
  const known = createExpiringMap<true>(MAX_KEYS, now)
  /** What other proofs were for. Apart from keys, so that many keys do not push them out. */
  const proven = createExpiringMap<true>(MAX_KEYS, now)
  const overBudget = createExpiringMap<true>(MAX_KEYS, now)
  const uncounted = new Map<string, { requests: number; attempts: Attempt[] }>()
  let countingSince = 0

  const remember = (name: string) => void known.set(name, true, RECENT_KEY_MS)

  async function arrive(hash: string, address: string | undefined): Promise<KeyedRequest> {
    const wait = overBudget.secondsLeft(hash)
    if (wait > 0) throw rateLimited(wait)
    if (limiter && !(await limiter.limit({ key: hash })).success) throw rateLimited(60)
    const attempt = known.get(hash) ? undefined : addresses.begin('key', address)
    const entered = () => {
      remember(hash)
      attempt?.succeed()
    }
    return {
      isRecentlyAccepted: () => known.get(hash) === true,
      recordAccepted: entered,
      recordFailure(error, { requestInfo: seen, waitUntil: after }) {
        const code = codeOf(error)
        if (!seen.keyLookedUp) refusedUnasked(hash, attempt, after)
        else if (code && KEY_REFUSALS.includes(code)) {
          known.delete(hash)
          attempt?.fail()
          askLimiter(address, after)
        } else if (code === 'database_unavailable') attempt?.succeed()
        else {
          entered()
          if (code === 'rate_limited')
            overBudget.set(hash, true, Number((error as Failure).extra.headers!['Retry-After']) * 1000)
        }
      },
    }
  }

  /** Workers count failures across instances too. */
  function askLimiter(address: string | undefined, after: Caller['waitUntil']): void {
    if (!limiter || address === undefined) return
    const asked = limiter.limit({ key: `address:${toNetworkPrefix(address)}` })
    after?.(asked.then(({ success }) => success || addresses.exhaust('key', address)))
  }

  /** A request that was refused before its key was looked up is counted after the answer, together with others. */
  function refusedUnasked(hash: string, attempt: Attempt | undefined, after: Caller['waitUntil']): void {
    if (!attempt && config.rateLimit === 0) return
    if (uncounted.size >= MAX_KEYS) {
      attempt?.fail()
      return
    }
    const entry = uncounted.get(hash) ?? { requests: 0, attempts: [] }
    uncounted.set(hash, entry)
    entry.requests++
    if (attempt) entry.attempts.push(attempt)
    if (Date.now() - countingSince < COUNT_TIMEOUT_MS) return
    after?.(countAll())
  }

  /** One trip at a time, however many requests are refused meanwhile. */
  async function countAll(): Promise<void> {
    while (uncounted.size > 0) {
      countingSince = Date.now()
      const taken = new Map(uncounted)
      uncounted.clear()
      await countThese(taken).catch(error => {
        // No answer depends on it. Nothing is known of these keys now, so their addresses have not failed.
        for (const { attempts } of taken.values()) for (const attempt of attempts) attempt.succeed()
        config.log({ level: 'error', error: 'requests not counted', message: String(error) })
      })
    }
    countingSince = 0
  }

  async function countThese(taken: typeof uncounted): Promise<void> {
    const requests = new Map([...taken].map(([hash, entry]) => [hash, entry.requests]))
    const budgets = await countRefusedRequests({ config, database }, requests)
    for (const [hash, { attempts }] of taken) {
      const budget = budgets.get(hash)
      for (const attempt of attempts) budget ? attempt.succeed() : attempt.fail()
      if (budget) remember(hash)
      else known.delete(hash)
      if (budget && config.rateLimit > 0 && budget.requests >= config.rateLimit)
        overBudget.set(hash, true, budget.reset * 1000)
    }
  }

  return {
    arrive,
    /** A request without a key, or with what is none. */
    failedWithoutKey(address: string | undefined): void {
      try {
        addresses.begin('key', address).fail()
      } catch {
        // The address is over its limit already. This request cost nothing and is told what is wrong with it.
      }
    },
    /**
     * For a route without a key that looks something up before anything is proven. `name` is what a caller names
     * itself with, if it does: what was proven for a name in the last week has a limit of its own, so that it goes on
     * while made-up names fail. `refusal` is the code of an outcome that proves nothing.
     */
    async prove<T>(
      request: RequestHead,
      { route, name, refusal }: { route: string; name?: string | undefined; refusal: Code },
      look: () => Promise<T>,
      codeIn: (outcome: T) => Code | null = () => null,
    ): Promise<T> {
      const caller = name === undefined ? undefined : `${route} ${name}`
      const kind = caller && proven.get(caller) ? caller : route
      const attempt = addresses.begin(kind, config.clientAddress(request))
      const settle = (code: Code | null | undefined) => {
        if (code === refusal) return attempt.fail()
        attempt.succeed()
        if (caller && code === null) proven.set(caller, true, VERIFIED_NAME_MS)
      }
      try {
        const outcome = await look()
        settle(codeIn(outcome))
        return outcome
      } catch (error) {
        settle(codeOf(error))
        throw error
      }
    },
  }
}
