// Rate limits in the memory of an instance: requests cost no write, and a flood is refused before it costs a trip or a
// body is read. They never let a request in: the database still checks the key of every request. Instances add what
// they have counted to the database after their answers, once a second, and learn what others have.
import type { Context } from 'hono'
import type { Budget } from '../../platform.ts'
import { countAnsweredRequests, type Database } from '../db/db.ts'
import { bindTrips } from '../db/statement.ts'
import { createCountAfterResponses } from '../http/after-response.ts'
import type { Code } from '../http/codes.ts'
import type { Caller, CallerServices, DatabaseServices, RequestInfo } from '../http/context.ts'
import { Failure, isDatabaseUnavailable } from '../http/errors.ts'
import { createWaitUntil } from '../http/execution.ts'
import { writeJson } from '../json/raw-json.ts'
import { type Attempt, createAddressLimits } from './address-limits.ts'
import { createExpiringMap } from './expiring-map.ts'
import { type Account, type Charge, createRateWindows, rateLimited } from './rate-windows.ts'
import type { ShareGroups } from './share-groups.ts'
import { countAtLimiter, countInDatabase, LIMITER_SECONDS, shareFailures } from './shared-failures.ts'
import { createDatabaseTime, createLinkBudget } from './spent-budgets.ts'

const MAX_KEYS = 10_000
const RECENT_KEY_MS = 15 * 60_000
const USE_NOTED_MS = 60_000
/** Long, because git hosts deliver for all integrations from a few addresses and do not retry a refused delivery. */
const VERIFIED_NAME_MS = 7 * 24 * 60 * 60_000

/** A page without a key reads several things, and many visitors may have one address. */
const VISITS_PER_UNKNOWN_KEY = 10

const KEY_REFUSALS: Code[] = ['key_unknown', 'key_revoked', 'key_expired', 'session_ended']
const codeOf = (error: unknown): Code | undefined => (error instanceof Failure ? error.code : undefined)

export type KeyedRequest = {
  isRecentlyAccepted(): boolean
  recordAccepted(organization: string, budget: string): void
  /** Counts an answer that no accepted key was needed for, such as one that is repeated. */
  recordAnswered(): void
  recordFailure(error: unknown): void
  /** Counts what a long answer reads as a further request, or refuses it. */
  countAgain(): void
}
type Arrival = {
  hash: string
  address: string | undefined
  kind: Budget
  requestInfo: RequestInfo
  /** True once the client has closed the connection. */
  hasLeft(): boolean
  waitUntil: Caller['waitUntil']
}
type Uncounted = { requests: number; attempts: Attempt[] }
export type CallerLimits = ReturnType<typeof createCallerLimits>

export function createCallerLimits(services: DatabaseServices & { shareGroups: ShareGroups }) {
  const { config, platform, shareGroups } = services
  const limiterOf = (budget: Budget) => (config.rateLimits[budget] === 0 ? undefined : platform.limiters?.[budget])
  const { now } = platform.clock
  const sharedLimiter = limiterOf('key')
  const countFailures = sharedLimiter ? countAtLimiter(sharedLimiter) : countInDatabase(services)
  const shareFailure = shareFailures(platform, countFailures, (key, seconds) => addresses.exhaust(key, seconds))
  const addresses = createAddressLimits(config.unknownKeysPerMinute, now, shareFailure)
  /** Keys are grouped by organization, so that those of one do not evict those of another. */
  const acceptedKeys = createExpiringMap<Account>(MAX_KEYS, now)
  const usedKeys = createExpiringMap<true>(MAX_KEYS, now)
  /** Names that were proved without a key. Grouped by route, so that many links do not evict senders of webhooks. */
  const provenNames = createExpiringMap<true>(MAX_KEYS, now)
  const visitors = createAddressLimits(config.unknownKeysPerMinute * VISITS_PER_UNKNOWN_KEY, now, () => {})
  const links = createLinkBudget(now)
  const databaseTime = createDatabaseTime(config.databaseSecondsPerMinute, now)
  const budgets = { key: openBudget('key'), ingestion: openBudget('ingestion'), deployment: openBudget('deployment') }

  function openBudget(kind: Budget) {
    const limit = config.rateLimits[kind]
    const windows = limit > 0 ? createRateWindows(limit, now) : undefined
    const countLater = createCountAfterResponses<Uncounted>(platform, {
      handle: batch => countBatch(kind, batch),
      everyMs: platform.exchangeMs,
      failure: 'requests not counted',
      onFailure(batch) {
        // These keys may exist, so the attempts do not count against their addresses.
        for (const { attempts } of batch.values()) for (const attempt of attempts) attempt.succeed()
      },
    })
    return { windows, countLater }
  }
  /** Until the budget of a key is known, its hash stands for it. */
  const accountOf = (hash: string): Account => acceptedKeys.get(hash) ?? { budget: hash }

  async function arrive({ hash, address, kind, requestInfo, hasLeft, waitUntil }: Arrival): Promise<KeyedRequest> {
    const { windows, countLater } = budgets[kind]
    // An address over its limit opens no windows, which would evict those of others.
    const attempt = acceptedKeys.get(hash) ? undefined : addresses.begin('key', address)
    let charge: Charge | undefined
    try {
      charge = windows?.charge(accountOf(hash))
      await admit()
    } catch (error) {
      charge?.refund()
      attempt?.succeed()
      throw error
    }
    async function admit(): Promise<void> {
      databaseTime.requireLeft(shareGroups.groupOf(hash, address))
      const limiter = limiterOf(kind)
      if (limiter && !(await limiter.limit({ key: hash })).success) throw rateLimited(LIMITER_SECONDS)
    }
    /** Requests are counted in the database after the response, together with others. */
    function count(unproven?: Attempt): boolean {
      // Without a limit, the database only notes once a minute that a key is used.
      if (!windows && !unproven && usedKeys.get(hash)) return true
      if (!windows) usedKeys.set(hash, true, USE_NOTED_MS)
      const merge = (waiting: Uncounted = { requests: 0, attempts: [] }) => {
        waiting.requests++
        if (unproven) waiting.attempts.push(unproven)
        return waiting
      }
      return countLater(hash, merge, waitUntil)
    }
    let isAccepted = false
    function recordEntered(): void {
      if (!isAccepted) count()
      isAccepted = true
      attempt?.succeed()
    }
    /** The exchange finds out if the caller may enter. */
    function countUnproven(): void {
      if (!count(attempt)) attempt?.fail(waitUntil)
    }
    return {
      isRecentlyAccepted: () => acceptedKeys.get(hash) !== undefined,
      recordAccepted(organization, budget) {
        acceptedKeys.set(hash, { budget, organization }, RECENT_KEY_MS, organization)
        windows?.join(hash, budget, organization)
        if (charge) requestInfo.rate ??= charge.rate()
        recordEntered()
      },
      recordAnswered() {
        if (isAccepted) return
        if (!requestInfo.keyLookedUp) return countUnproven()
        if (charge) requestInfo.rate ??= charge.rate()
        recordEntered()
      },
      recordFailure(error) {
        const code = codeOf(error)
        if (!requestInfo.keyLookedUp) countUnproven()
        else if (code && KEY_REFUSALS.includes(code)) {
          if (!isAccepted) charge?.refund()
          acceptedKeys.delete(hash)
          attempt?.fail(waitUntil)
        } else if (isDatabaseUnavailable(error) && !isAccepted) {
          // The database has worked for a client that did not wait for it.
          if (hasLeft()) return countUnproven()
          charge?.refund()
          attempt?.succeed()
        } else recordEntered()
      },
      countAgain() {
        windows?.charge(accountOf(hash))
        count()
      },
    }
  }

  async function countBatch(kind: Budget, batch: Map<string, Uncounted>): Promise<void> {
    const { windows } = budgets[kind]
    const requests = new Map([...batch].map(([hash, entry]) => [hash, entry.requests]))
    for (const [hash, count] of requests) windows?.send(accountOf(hash).budget, count)
    const counted = new Map((await countAnsweredRequests(services, kind, requests)).map(one => [one.hash, one]))
    const counting: Promise<unknown>[] = []
    for (const [hash, { attempts }] of batch) {
      const known = counted.get(hash)
      for (const attempt of attempts) known ? attempt.succeed() : attempt.fail(work => counting.push(work))
      if (!known) acceptedKeys.delete(hash)
      else {
        // One that is known already keeps the group of its organization.
        if (acceptedKeys.get(hash)?.budget !== known.budget)
          acceptedKeys.set(hash, { budget: known.budget }, RECENT_KEY_MS)
        windows?.join(hash, known.budget)
        windows?.adopt(known.budget, known.requests, known.reset)
      }
    }
    await Promise.all(counting)
  }

  const untilDone = (c: Context) => createWaitUntil(platform, c)

  /**
   * Limits a route without a key that looks something up before it has any proof of the caller. A `name` that had a
   * valid proof in the last week has a limit of its own, so it keeps working while made-up names fail. `refusal` is
   * the code of a missing or wrong proof. A route that costs much before its proof counts other codes, too.
   */
  async function prove<T>(
    c: Context,
    { route, name, refusal }: { route: string; name?: string | undefined; refusal: Code | readonly Code[] },
    lookUp: () => Promise<T>,
    codeOfOutcome: (outcome: T) => Code | null = () => null,
  ): Promise<T> {
    const caller = name === undefined ? undefined : `${route} ${name}`
    const kind = caller && provenNames.get(caller) ? caller : route
    const attempt = addresses.begin(kind, platform.clientAddress(c))
    const settle = (code: Code | null | undefined) => {
      if (code && [refusal].flat().includes(code)) return attempt.fail(untilDone(c))
      attempt.succeed()
      if (caller && code === null) provenNames.set(caller, true, VERIFIED_NAME_MS, route)
    }
    try {
      const outcome = await lookUp()
      settle(codeOfOutcome(outcome))
      return outcome
    } catch (error) {
      settle(codeOf(error))
      throw error
    }
  }

  return {
    arrive,
    /** The database for one request: all of its trips use the share and the budget of its caller. */
    databaseOf: (hash: string, address: string | undefined): Database =>
      bindTrips(services.database, () => {
        const group = shareGroups.groupOf(hash, address)
        const untilKnown = () => shareGroups.untilKnown(hash)
        return { group, untilKnown, onSpent: ms => databaseTime.spend(group, ms) }
      }),
    /**
     * The database for a request without a key, whose first trip counts towards the limit of its address. So no open
     * route can reach the database without a limit, unless it says that it has its own.
     */
    databaseOfVisitor(address: string | undefined, hasOwnLimit = false): Database {
      const group = shareGroups.groupOf(undefined, address)
      let isCounted = hasOwnLimit
      return bindTrips(services.database, () => {
        if (!isCounted) visitors.begin('visit', address).fail(undefined)
        isCounted = true
        return { group }
      })
    },
    /** Reads what a link shows. Guesses of tokens are limited by address, and each link has a budget of its own. */
    async answerLink(
      c: Context,
      { answer }: Pick<CallerServices, 'answer'>,
      { route, token, refusal }: { route: string; token: string; refusal: Code },
      read: () => Promise<unknown>,
    ): Promise<Response> {
      // A token is a UUID, whose letters may be in upper or lower case.
      const name = token.toLowerCase()
      const link = `${route} ${name}`
      links.requireLeft(link)
      const text = writeJson(await prove(c, { route, name, refusal }, read))
      links.spend(link, text.length)
      const response = answer!.respond(text, 200, c.req.method === 'HEAD')
      response.headers.set('Cache-Control', 'no-store')
      return response
    },
    failedWithoutKey(c: Context): void {
      try {
        addresses.begin('key', platform.clientAddress(c)).fail(untilDone(c))
      } catch {
        // The address is already over its limit. The request fails with the code of its key, not with that limit.
      }
    },
    /** Limits a route without a key, each request of which stores a row. */
    countRequest(c: Context, route: string): void {
      addresses.begin(route, platform.clientAddress(c)).fail(untilDone(c))
    },
    prove,
  }
}
