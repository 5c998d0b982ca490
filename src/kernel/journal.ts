// A change and its event are one statement, and so is remembering its answer for a repeated request.
import { is, SQL, sql } from 'drizzle-orm'
import type { Ctx } from './context.ts'
import { type Query, Replay, type Row, run } from './db.ts'

/**
 * Runs a change (an insert, update or delete that returns rows with their `id`), writes an event for each changed row into the
 * workspace's journal and, under an idempotency key, keeps the rows for a replay. Rows come back as JSON whether fresh or replayed, so
 * that both take the same way to the wire. No row means that nothing matched and nothing was written.
 * Other parts of the same write are named expressions: `first` those that the change reads, `also` those that read `changed`.
 * Where the statement itself finds out what happens, the event is an expression over `changed`: a row whose event is null has changed
 * nothing yet, and is not journaled. `remember` says which rows are an answer to keep; without it all are.
 */
export async function commit<T>(
  ctx: Ctx,
  event: string | SQL,
  change: Query<T>,
  data: Record<string, unknown> = {},
  { first = [], also = [], lock, remember }: { first?: SQL[]; also?: SQL[]; lock?: SQL; remember?: SQL } = {},
): Promise<T[]> {
  const happened = is(event, SQL) ? sql` where ${event} is not null` : sql``
  const remembered = ctx.idempotency
    ? sql`, remembered as (
        insert into idempotency_keys (actor_id, key, fingerprint, result)
        select current_actor(), ${ctx.idempotency.key}, ${ctx.idempotency.fingerprint}, json_agg(changed) from changed${remember ? sql` where ${remember}` : sql``}
        having count(*) > 0)`
    : sql``
  const statement = sql`
    with ${listed(first)}changed as ${is(change, SQL) ? sql`(${change})` : (change as unknown as SQL)},
    numbered as (
      insert into journals (scope_id, organization_id, seq)
      select current_scope(), current_organization(), count(*) from changed${happened} having count(*) > 0
      on conflict (scope_id) do update set seq = journals.seq + excluded.seq returning seq),
    journaled as (
      insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
      select current_scope(), numbered.seq - row_number() over () + 1, current_organization(), current_tenant(), ${event}, changed.id,
        setting('actor_kind'), current_actor(), setting('request_id'), ${JSON.stringify(data)}::json
      from changed, numbered${happened})${remembered}${sql.join(also.map(cte => sql`, ${cte}`))}
    select to_json(changed) from changed` as SQL<Row>
  try {
    const rows = await run(ctx, statement, lock)
    return rows.map(([row]) => JSON.parse(row as string) as T)
  } catch (error) {
    return answered(ctx, error)
  }
}

/**
 * The first trip of a write that asks a foreign server before its second: what it looks up or claims. Where the request was answered
 * before, the rows of that answer come instead, so that nobody is asked.
 */
export async function prepare<Looked, Answer>(
  ctx: Ctx,
  look: Query<Looked>,
  lock?: SQL,
): Promise<{ looked: Looked[]; answer?: never } | { looked?: never; answer: Answer[] }> {
  try {
    return { looked: await run(ctx, look, lock) }
  } catch (error) {
    return { answer: answered(ctx, error) }
  }
}

function answered<T>(ctx: Ctx, error: unknown): T[] {
  if (!(error instanceof Replay)) throw error
  ctx.seen.replayed = true
  return error.rows as T[]
}

const listed = (ctes: SQL[]): SQL => sql.join(ctes.map(cte => sql`${cte}, `))
