// Failures of client addresses, counted across instances, so that more instances do not allow more attempts. They are
// counted after the response, many in one trip. An instance learns of the others' failures when it counts its own.
import { sql } from 'drizzle-orm'
import type { Platform, RateLimiter } from '../platform.ts'
import type { Caller, Ctx } from './context.ts'
import { clockOffsetText, type Row, textArray } from './db.ts'

/** By address, how many. Returns those that are over the limit, each with the seconds until that ends. */
export type FailureCounter = (failures: ReadonlyMap<string, number>) => Promise<Map<string, number>>

const MAX_WAITING = 10_000
/** A host may drop the trip that counts, with the request that started it. After this time another one may start. */
export const COUNT_TIMEOUT_MS = 10_000
const LIMITER_SECONDS = 60

/** Returns what records a failure. */
export function shareFailures(
  { log }: Pick<Platform, 'log'>,
  count: FailureCounter,
  onOver: (address: string, seconds: number) => void,
): (address: string, waitUntil: Caller['waitUntil']) => void {
  let waiting = new Map<string, number>()
  let countingSince = 0

  async function countAll(): Promise<void> {
    while (waiting.size > 0) {
      countingSince = Date.now()
      const failures = waiting
      waiting = new Map()
      try {
        for (const [address, seconds] of await count(failures)) onOver(address, seconds)
      } catch (error) {
        log({ level: 'error', error: 'failures of addresses not counted', message: String(error) })
      }
    }
    countingSince = 0
  }

  return (address, waitUntil) => {
    if (waiting.size >= MAX_WAITING && !waiting.has(address)) return
    waiting.set(address, (waiting.get(address) ?? 0) + 1)
    if (Date.now() - countingSince >= COUNT_TIMEOUT_MS) waitUntil?.(countAll())
  }
}

export const countInDatabase =
  ({ config, platform, database }: Pick<Ctx, 'config' | 'platform' | 'database'>): FailureCounter =>
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
