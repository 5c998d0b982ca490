// Reads that may compare many texts have a time limit, after which they are refused with advice.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../http/context.ts'
import { Failure, fail } from '../http/errors.ts'
import { type Query, run } from './db.ts'

/** The limit is below that of a trip. */
const MAX_READ_MS = 4000
const QUERY_CANCELED = '57014'

/** Runs first in the transaction of the read. */
export const LIMIT_TIME = sql`select set_config('statement_timeout', ${String(MAX_READ_MS)}, true)`

export const runWithinTime = <T>(ctx: Ctx, query: Query<T>): Promise<T[]> =>
  refuseSlow(run(ctx, query, LIMIT_TIME, { isSlow: true, signal: ctx.disconnectSignal?.() }))

export async function refuseSlow<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    const { code } = ((error instanceof Failure && error.extra.cause) || error) as { code?: string }
    throw code === QUERY_CANCELED ? fail('query_too_slow', { cause: error }) : error
  }
}
