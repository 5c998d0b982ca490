// A change and its event are one statement, and so is remembering its answer for a repeated request.
import { is, SQL, sql } from 'drizzle-orm'
import type { Ctx } from './context.ts'
import { type Query, Replay, type Row, run } from './db.ts'

/**
 * Runs a change (an insert, update or delete that returns rows with their `id`), writes an event for each changed row into the
 * workspace's journal and, under an idempotency key, keeps the rows for a replay. Rows come back as JSON whether fresh or replayed, so
 * that both take the same way to the wire. No row means that nothing matched and nothing was written.
 * Other parts of the same write are named expressions: `first` those that the change reads, `also` those that read `changed`.
 */
export async function commit<T>(
  ctx: Ctx,
  event: string,
  change: Query<T>,
  data: Record<string, unknown> = {},
  { first = [], also = [], lock }: { first?: SQL[]; also?: SQL[]; lock?: SQL } = {},
): Promise<T[]> {
  const remembered = ctx.idempotency
    ? sql`, remembered as (
        insert into idempotency_keys (actor_id, key, fingerprint, result)
        select current_actor(), ${ctx.idempotency.key}, ${ctx.idempotency.fingerprint}, json_agg(changed) from changed having count(*) > 0)`
    : sql``
  const statement = sql`
    with ${listed(first)}changed as ${is(change, SQL) ? sql`(${change})` : (change as unknown as SQL)},
    journaled as (
      select journal(${event}, array_agg(id), ${JSON.stringify(data)}::json) from changed having count(*) > 0)${remembered}${sql.join(also.map(cte => sql`, ${cte}`))}
    select to_json(changed) from changed where (select count(*) from journaled) > 0` as SQL<Row>
  try {
    const rows = await run(ctx, statement, lock)
    return rows.map(([row]) => JSON.parse(row as string) as T)
  } catch (error) {
    if (!(error instanceof Replay)) throw error
    ctx.seen.replayed = true
    return error.rows as T[]
  }
}

const listed = (ctes: SQL[]): SQL => sql.join(ctes.map(cte => sql`${cte}, `))
