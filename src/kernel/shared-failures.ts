// Failures of client addresses, counted across instances, so that more instances do not allow more attempts. They are
// counted after the response, many in one trip. An instance learns of the others' failures when it counts its own.
import { sql } from 'drizzle-orm'
import type { Platform, RateLimiter } from '../platform.ts'
import { createCountAfterResponses } from './after-response.ts'
import type { Caller, DatabaseServices } from './context.ts'
import { clockOffsetText, type Row, textArray } from './db.ts'

/** By address, how many. Returns those that are over the limit, each with the seconds until that ends. */
export type FailureCounter = (failures: ReadonlyMap<string, number>) => Promise<Map<string, number>>

const LIMITER_SECONDS = 60

/** Returns what records a failure. */
export function shareFailures(
  platform: Pick<Platform, 'log'>,
  count: FailureCounter,
  onOver: (address: string, seconds: number) => void,
): (address: string, waitUntil: Caller['waitUntil']) => void {
  const countLater = createCountAfterResponses<number>(platform, {
    async handle(failures) {
      for (const [address, seconds] of await count(failures)) onOver(address, seconds)
    },
    failure: 'failures of addresses not counted',
  })
  return (address, waitUntil) => void countLater(address, (failures = 0) => failures + 1, waitUntil)
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
    return new Map((rows as string[][]).map(([address, reset]) => [address!, Number(reset)]))
  }

/** With a limiter of the platform, whose limit is its own. */
export const countAtLimiter =
  (limiter: RateLimiter): FailureCounter =>
  async failures => {
    const over = new Map<string, number>()
    for (const [address, times] of failures)
      for (let i = 0; i < times && !over.has(address); i++) {
        const { success } = await limiter.limit({ key: `address:${address}` })
        if (!success) over.set(address, LIMITER_SECONDS)
      }
    return over
  }
