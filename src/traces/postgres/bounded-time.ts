// Reads that may scan many runs have a time limit, after which they are refused with advice.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { type Query, run } from '../../kernel/db.ts'
import { Failure, fail } from '../../kernel/errors.ts'

/** Less than a trip may take. */
const MAX_READ_MS = 4000
const QUERY_CANCELED = '57014'

const limitTime = sql`select set_config('statement_timeout', ${String(MAX_READ_MS)}, true)`

export async function runWithinTime<T>(ctx: Ctx, query: Query<T>): Promise<T[]> {
  try {
    return await run(ctx, query, limitTime, { isSlow: true, signal: ctx.disconnectSignal?.() })
  } catch (error) {
    const { code } = ((error instanceof Failure && error.extra.cause) || {}) as { code?: string }
    throw code === QUERY_CANCELED ? fail('query_too_slow', { cause: error }) : error
  }
}
