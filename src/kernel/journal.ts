// A change and its event are one statement, and so is remembering its answer for a repeated request.
import { is, SQL, sql } from 'drizzle-orm'
import type { Config } from '../env.ts'
import type { Ctx } from './context.ts'
import { type Query, Replay, type Row, run } from './db.ts'
import { Failure } from './errors.ts'

type WriteParts = { first?: SQL[]; also?: SQL[]; others?: SQL; lock?: SQL; remember?: SQL }

/**
 * Runs a change (an insert, update or delete that returns rows with their `id`), writes an event for each changed row into the
 * workspace's journal and, under an idempotency key, keeps the rows for a replay. Rows come back as JSON whether fresh or replayed, so
 * that both take the same way to the wire. No row means that nothing matched and nothing was written.
 * Other parts of the same write are named expressions: `first` those that the change reads, `also` those that read `changed`. What
 * they do to other things `others` tells, as rows of type, subject_id and data: each is an event of its own, after those of the change.
 * Where the statement itself finds out what happens, the event is an expression over `changed`: a row whose event is null has changed
 * nothing yet, and is not journaled. `remember` says which rows are an answer to keep; without it all are.
 */
export async function commit<T>(
  ctx: Ctx,
  event: string | SQL,
  change: Query<T>,
  data: Record<string, unknown> | SQL = {},
  { first = [], also = [], others, lock, remember }: WriteParts = {},
): Promise<T[]> {
  const happened = is(event, SQL) ? sql` where ${event} is not null` : sql``
  const remembered = ctx.idempotency
    ? sql`, remembered as (
        insert into idempotency_keys (actor_id, key, fingerprint, result)
        select current_actor(), ${ctx.idempotency.key}, ${ctx.idempotency.fingerprint}, json_agg(changed) from changed${remember ? sql` where ${remember}` : sql``}
        having count(*) > 0)`
    : sql``
  // The journal is asked after at the end, whatever is in it: what nobody reads, Postgres does not call.
  const statement = sql`
    with ${joinCtes(first)}changed as ${is(change, SQL) ? sql`(${change})` : (change as unknown as SQL)},
    ${joinCtes(also)}told as (
      select ${event}::text as type, changed.id as subject_id, ${is(data, SQL) ? data : sql`${JSON.stringify(data)}::json`} as data
      from changed${happened}${others ? sql` union all ${others}` : sql``}),
    journaled as (
      select journal(array_agg(type), array_agg(subject_id), array_agg(data::json), ${dailyEventLimit(ctx)}::bigint,
        greatest(${ctx.bodyBytes ?? 0}::bigint, ${STORED_BYTES})) as seq from told having count(*) > 0)${remembered}
    select to_json(changed) from changed where (select count(seq) from journaled) >= 0` as SQL<Row>
  try {
    const rows = await run(ctx, statement, lock)
    return rows.map(([row]) => JSON.parse(row as string) as T)
  } catch (error) {
    return replayRows(ctx, error)
  }
}

/** The bytes of the rows that a change writes, about: what else it writes comes from its body. */
const STORED_BYTES = sql`(select sum(octet_length(to_json(changed)::text)) from changed)`

/** What the schedule ends must not be held up by what filled the day. */
const dailyEventLimit = ({ actor, config }: Ctx): number | null =>
  actor.kind === 'cron' || config.eventsPerDay === 0 ? null : config.eventsPerDay

/**
 * How many events a day may have before agents of a workspace's own write no more. Twice that of requests, which must
 * not be able to keep an agent from reporting. Agents of the platform have no limit: one full workspace would stop
 * them for all.
 */
export const agentEventLimit = ({ config }: Pick<Ctx, 'config'>): SQL =>
  sql`(select case when l.tenant_id is not null then nullif(${2 * config.eventsPerDay}::bigint, 0) end from listeners l where l.id = current_listener())`

/**
 * For a statement of runAsSystem: an event for each row of `events`, which tells tenant_id, organization_id, type, subject_id and data, in
 * the journal of its own workspace. By whom is SQL over such a row (`t`), and so is in which order; the request's id is the transaction's.
 */
export const journalSystemEvents = (
  events: SQL,
  actor: SQL = sql`'cron', null::uuid`,
  order: SQL = sql``,
  most: SQL = sql`null::bigint`,
): SQL => sql`told as (${events}),
  numbered as (
    insert into journals (scope_id, organization_id, seq, day, today)
    select tenant_id, organization_id, count(*), journal_day(), count(*) from told group by tenant_id, organization_id order by tenant_id
    on conflict (scope_id) do update set seq = journals.seq + excluded.seq, day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning scope_id, seq, today),
  journaled as (
    insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
    select t.tenant_id, n.seq - count(*) over same + row_number() over (same ${order}), t.organization_id, t.tenant_id, t.type, t.subject_id,
      ${actor}, setting('request_id'), t.data
    from told t join numbered n on n.scope_id = t.tenant_id and journal_has_room(n.today, ${most}) window same as (partition by t.tenant_id))`

/** What such a statement wants to know first: what time it is taken to be, and for which request it is. */
export const setSystemSettings = (config: Pick<Config, 'clockOffset'>, requestId: string): SQL =>
  sql`${setClock(config)}, set_config('app.request_id', ${requestId}, true)`

/** The former alone, for what is not journaled. */
export const setClock = ({ clockOffset }: Pick<Config, 'clockOffset'>): SQL =>
  sql`select set_config('app.clock_offset', ${`${clockOffset()} ms`}, true)`

/**
 * The first trip of a write that asks a foreign server before its second: what it looks up or claims. Where the request was answered
 * before, the rows of that answer come instead, so that nobody is asked.
 */
export async function prepareWrite<Looked, Answer>(
  ctx: Ctx,
  look: Query<Looked>,
  lock?: SQL,
): Promise<{ looked: Looked[]; answer?: never } | { looked?: never; answer: Answer[] }> {
  try {
    return { looked: await run(ctx, look, lock) }
  } catch (error) {
    return { answer: replayRows(ctx, error) }
  }
}

const MAX_ATTEMPTS = 100
const RETRY_PAUSE_MS = 20

/** The second trip of such a write. A repeat that looks whether it was answered holds the key for a moment: this is what it looks for. */
export async function concludeWrite<T>(write: () => Promise<T>): Promise<T> {
  for (let looks = 1; ; looks++) {
    try {
      return await write()
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'idempotency_in_flight' || looks === MAX_ATTEMPTS) throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_PAUSE_MS))
    }
  }
}

function replayRows<T>(ctx: Ctx, error: unknown): T[] {
  if (!(error instanceof Replay)) throw error
  ctx.requestInfo.replayed = true
  return error.rows as T[]
}

const joinCtes = (ctes: SQL[]): SQL => sql.join(ctes.map(cte => sql`${cte}, `))
