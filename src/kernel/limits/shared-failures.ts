// Failures of client addresses, counted for all instances together: by the platform's limiter if there is one, else in
// the database. They are counted after the response. An instance learns of the others' when it counts its own.
import { sql } from 'drizzle-orm'
import type { Platform, RateLimiter } from '../../platform.ts'
import { clockOffsetText, type Row, textArray } from '../db/db.ts'
import { createCountAfterResponses } from '../http/after-response.ts'
import type { Caller, DatabaseServices } from '../http/context.ts'

/** Counts failures by the key of their window. Returns windows over their limit, with the seconds until they end. */
type FailureCounter = (failures: ReadonlyMap<string, number>) => Promise<Map<string, number>>

export const LIMITER_SECONDS = 60

/** Returns a function that records a failure. */
export function shareFailures(
  platform: Pick<Platform, 'log' | 'stopping'>,
  count: FailureCounter,
  onOver: (windowKey: string, seconds: number) => void,
): (windowKey: string, waitUntil: Caller['waitUntil']) => void {
  const countLater = createCountAfterResponses<number>(platform, {
    async handle(failures) {
      for (const [windowKey, seconds] of await count(failures)) onOver(windowKey, seconds)
    },
    failure: 'failures of addresses not counted',
  })
  return (windowKey, waitUntil) => void countLater(windowKey, (failures = 0) => failures + 1, waitUntil)
}

export const countInDatabase =
  ({ config, platform, database }: DatabaseServices): FailureCounter =>
  async failures => {
    const [rows] = await database([
      sql<Row>`
        select address, reset
        from count_address_failures(
          ${textArray([...failures.keys()])},
          ${sql.param([...failures.values()])}::integer[],
          ${clockOffsetText({ platform })},
          ${config.unknownKeysPerMinute}::integer
        )`,
    ])
    return new Map((rows as string[][]).map(([windowKey, reset]) => [windowKey!, Number(reset)]))
  }

/** The limit of the platform's limiter holds, not UNKNOWN_KEYS_PER_MINUTE. */
export const countAtLimiter =
  (limiter: RateLimiter): FailureCounter =>
  async failures => {
    const over = new Map<string, number>()
    for (const [windowKey, times] of failures)
      for (let i = 0; i < times && !over.has(windowKey); i++) {
        const { success } = await limiter.limit({ key: `address:${windowKey}` })
        if (!success) over.set(windowKey, LIMITER_SECONDS)
      }
    return over
  }
