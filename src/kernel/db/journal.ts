// Writes: a change, its events in the journal and the stored answer for a repeated request are one statement.
import { is, SQL, sql } from 'drizzle-orm'
import type { Platform } from '../../platform.ts'
import { type Ctx, hasCredential } from '../http/context.ts'
import { Failure, fail } from '../http/errors.ts'
import { type Query, Replay, type Row, run } from './db.ts'

export type WriteParts = {
  /** The change may read them. */
  ctesBefore?: SQL[]
  /** They may read `changed`. */
  ctesAfter?: SQL[]
  /** The changed members that the event records: see `recorded-changes.ts`. */
  changes?: SQL
  /** Rows of type, subject_id, data and changes, for other resources. Written after the events of the change. */
  otherEvents?: SQL
  lock?: SQL | SQL[]
  /** Selects the changed rows that are stored as the answer to a repeated request; by default all. */
  answerCondition?: SQL
}

/**
 * Runs a change: an insert, update or delete that returns rows with an `id`. Each row becomes an event in the journal
 * of the workspace. `event` may be an expression over `changed`; a row whose event is null is not journaled. The rows
 * come back as JSON, fresh or replayed, so both are read the same way.
 */
export async function commit<T>(
  ctx: Ctx,
  event: string | SQL,
  change: Query<T>,
  data: Record<string, unknown> | SQL = {},
  { ctesBefore = [], ctesAfter = [], changes = sql`null::json`, otherEvents, lock, answerCondition }: WriteParts = {},
): Promise<T[]> {
  const changed = is(change, SQL) ? sql`(${change})` : (change as unknown as SQL)
  const eventData = is(data, SQL) ? data : sql`${JSON.stringify(data)}::json`
  const hasEvent = is(event, SQL) ? sql`where ${event} is not null` : sql``
  // The final select reads `journaled`: Postgres does not run a CTE without side effects of its own that nothing reads.
  const statement = sql`
    with
    ${joinCtes(ctesBefore)}
    changed as ${changed},
    ${joinCtes(ctesAfter)}
    event_rows as (
      select ${event}::text as type, changed.id as subject_id, ${eventData} as data, ${changes} as changes
      from changed
      ${hasEvent}
      ${otherEvents ? sql`union all ${otherEvents}` : sql``}
    ),
    journaled as (
      select journal(
        array_agg(type),
        array_agg(subject_id),
        array_agg(data::json),
        array_agg(changes::json),
        ${dailyEventLimit(ctx)}::bigint,
        greatest(${ctx.bodyBytes ?? 0}::bigint, ${STORED_BYTES})
      ) as seq
      from event_rows
      having count(*) > 0
    )
    ${ctx.idempotency ? storeAnswer(ctx.idempotency, answerCondition) : sql``}
    select to_json(changed), (select has_webhooks(current_tenant()))
    from changed
    where (select count(seq) from journaled) >= 0` as SQL<Row>
  return runWrite(ctx, statement, lock)
}

/**
 * Runs a write that is a function of the database. It locks, decides, changes and journals, and ends with
 * `conclude_write()`. It returns a row of the changed row as JSON, and whether the workspace has webhooks.
 */
export async function runWrite<T>(ctx: Ctx, call: Query<Row>, lock?: SQL | SQL[]): Promise<T[]> {
  try {
    const rows = await run(ctx, call, lock)
    if (rows[0]?.[1] === true) announceEvents(ctx)
    return rows.map(([row]) => JSON.parse(row as string) as T)
  } catch (error) {
    return replayRows(ctx, error)
  }
}

/** The argument `p_request` of a function that writes. */
export const describeWrite = (ctx: Ctx, plannedVersion: number | null = null): string =>
  JSON.stringify({
    if_match: ctx.ifMatch,
    planned_version: plannedVersion,
    event_limit: dailyEventLimit(ctx),
    body_bytes: ctx.bodyBytes,
    idempotency_key: ctx.idempotency?.key,
    fingerprint: ctx.idempotency?.fingerprint,
  })

/** Sends the events to the webhooks of the workspace after the response. The schedule sends what this leaves. */
export function announceEvents({ requestInfo, waitUntil, deliverEvents }: Ctx, tenant = requestInfo.tenant): void {
  if (tenant && waitUntil && deliverEvents) waitUntil(deliverEvents(tenant))
}

const storeAnswer = ({ key, fingerprint }: NonNullable<Ctx['idempotency']>, condition?: SQL): SQL => sql`,
    stored_answer as (
      insert into idempotency_keys (actor_id, key, fingerprint, result)
      select current_actor(), ${key}, ${fingerprint}, json_agg(changed)
      from changed
      ${condition ? sql`where ${condition}` : sql``}
      having count(*) > 0
    )`

/** Estimates the bytes that the change stores by its rows. Other tables that it writes get data from the body. */
const STORED_BYTES = sql`(select sum(octet_length(to_json(changed)::text)) from changed)`

/** The schedule has no limit: it must be able to end things on a day whose limit is used up. */
const dailyEventLimit = ({ actor, config }: Ctx): number | null =>
  actor.kind === 'cron' || config.eventsPerDay === 0 ? null : config.eventsPerDay

/** The same for a function of the database, which knows the listener. */
export const agentDailyLimit = ({ config }: Pick<Ctx, 'config'>): number | null => 2 * config.eventsPerDay || null

/**
 * The daily event limit for agents of a workspace's own listeners: twice that of requests, so that requests cannot keep
 * an agent from reporting. Agents of the platform have none: one full workspace would stop them for all workspaces.
 */
export const agentEventLimit = ({ config }: Pick<Ctx, 'config'>): SQL => sql`(
    select case when l.tenant_id is not null then nullif(${2 * config.eventsPerDay}::bigint, 0) end
    from listeners l
    where l.id = current_listener()
  )`

/**
 * Writes events of several workspaces: a call for the select list of a statement. Each row of `events` has tenant_id,
 * organization_id, type, subject_id, data and changes. An agent acts as its listener, otherwise the schedule acts, or
 * `actor`: its kind, id and name.
 */
export function journalTenantEvents(events: SQL, { actor, dailyLimit = sql`null` }: TenantEventOptions = {}): SQL {
  const list = sql`array(
      select (e.tenant_id, e.organization_id, e.type, e.subject_id, e.data, e.changes)::tenant_event
      from (${events}) e
    )`
  return actor
    ? sql`journal_events_of(${actor}, ${list}, ${dailyLimit})`
    : sql`journal_tenant_events(${list}, ${dailyLimit})`
}
type TenantEventOptions = { actor?: SQL; dailyLimit?: SQL }

/** `request`: a `RequestRecord` as JSON, where a request to the API is the cause. */
export const setSystemSettings = (
  platform: Pick<Platform, 'clock'>,
  requestId: string,
  request: string | null = null,
): SQL => sql`
  ${setClock(platform)},
    set_config('app.request_id', ${requestId}, true),
    set_config('app.request', ${request ?? ''}, true)`

export const setRequestId = (id: string): SQL => sql`select set_config('app.request_id', ${id}, true)`

/** Enough for a statement that writes no events. */
export const setClock = ({ clock }: Pick<Platform, 'clock'>): SQL =>
  sql`select set_config('app.clock_offset', ${`${clock.ahead()} ms`}, true)`

/** The trip before an external call. A repeated request gets its stored answer from it, without the call. */
export async function prepareWrite<Current, Answer>(
  ctx: Ctx,
  query: Query<Current>,
  lock?: SQL,
): Promise<{ current: Current[]; replayed?: never } | { current?: never; replayed: Answer[] }> {
  try {
    return { current: await run(ctx, query, lock) }
  } catch (error) {
    return { replayed: replayRows(ctx, error) }
  }
}

const MAX_ATTEMPTS = 100
const RETRY_PAUSE_MS = 20

/** The trip after an external call. Retried, because a repeated request locks the key while it looks for an answer. */
export async function concludeWrite<T>(write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write()
    } catch (error) {
      const isKeyBusy = error instanceof Failure && error.code === 'idempotency_in_flight'
      if (!isKeyBusy || attempt === MAX_ATTEMPTS) throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_PAUSE_MS))
    }
  }
}

/** The key or the request that a secret in a stored answer is sealed for. A repeat under that key may open it. */
export const ownerOfAnswer = ({ actor, requestId }: Pick<Ctx, 'actor' | 'requestId'>): string =>
  hasCredential(actor) ? actor.hash : requestId

/** Opens a value that a write sealed for its caller. A client that replaced its key since then gets a refusal. */
export const openOwnAnswer = (ctx: Ctx, sealed: string, place: string): Promise<string> =>
  ctx.sealer.open(sealed, ownerOfAnswer(ctx), place).catch(() => {
    throw fail('idempotency_key_reused', { detail: ANSWER_SEALED })
  })
const ANSWER_SEALED =
  'The request was answered for an access token that this one has replaced, and the answer has a secret. ' +
  'Send it with a new `Idempotency-Key`.'

function replayRows<T>(ctx: Ctx, error: unknown): T[] {
  if (!(error instanceof Replay)) throw error
  ctx.requestInfo.replayed = true
  return error.rows as T[]
}

const joinCtes = (ctes: SQL[]): SQL => sql.join(ctes.map(cte => sql`${cte}, `))
