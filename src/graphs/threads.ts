// Threads. Their state is in checkpoints; a thread has a copy of the latest values, which searches read.
import type { Database, Query, Row } from './database.ts'
import { notFound } from './errors.ts'
import type { Searchable } from './search.ts'
import { type JsonObject, toJsonb, toStorable } from './values.ts'

export type Ttl = { minutes: number; strategy: 'delete' | 'keep_latest' }

const COLUMNS = `thread_id, status, metadata, config, "values", interrupts, error, ttl_minutes, ttl_strategy,
  expires_at, created_at, updated_at, state_updated_at`

export function toThread({ ttl_minutes, ttl_strategy, expires_at, ...row }: Row): Row {
  if (ttl_minutes === null || ttl_minutes === undefined) return row
  return { ...row, ttl: { strategy: ttl_strategy, ttl_minutes, expires_at } }
}

const EXPIRY = `case when $4::float8 is null then null else now() + $4 * interval '1 minute' end`

/** Creates it, or returns null if the id is taken. */
export async function createThread(
  query: Query,
  id: string,
  { metadata, ttl, isTemporary = false }: { metadata: JsonObject; ttl?: Ttl | undefined; isTemporary?: boolean },
): Promise<Row | null> {
  const [row] = await query(
    `insert into graphs.threads (thread_id, metadata, is_temporary, ttl_minutes, ttl_strategy, expires_at)
    values ($1, $2, $3, $4, $5, ${EXPIRY})
    on conflict do nothing
    returning ${COLUMNS}`,
    [id, toJsonb(metadata) ?? '{}', isTemporary, ttl?.minutes ?? null, ttl?.strategy ?? null],
  )
  return row ?? null
}

export async function getThread(query: Query, id: string): Promise<Row> {
  const [row] = await query(`select ${COLUMNS} from graphs.threads where thread_id = $1`, [id])
  if (!row) throw notFound('Thread', id)
  return row
}

export async function patchThread(
  db: Database,
  id: string,
  { metadata, ttl }: { metadata?: JsonObject | null | undefined; ttl?: Ttl | undefined },
): Promise<Row> {
  const [row] = await db.query(
    `update graphs.threads
    set metadata = metadata || coalesce($2::jsonb, '{}'),
      ttl_minutes = coalesce($4, ttl_minutes),
      ttl_strategy = coalesce($3, ttl_strategy),
      expires_at = coalesce(${EXPIRY}, expires_at),
      updated_at = now()
    where thread_id = $1
    returning ${COLUMNS}`,
    [id, toJsonb(metadata), ttl?.strategy ?? null, ttl?.minutes ?? null],
  )
  if (!row) throw notFound('Thread', id)
  return row
}

export const THREADS: Searchable = {
  table: 'graphs.threads',
  columns: COLUMNS,
  key: 'thread_id',
  always: 'not is_temporary',
  conditions: {
    metadata: 'metadata @> ?::jsonb',
    values: '"values" @> ?::jsonb',
    status: 'status = ?::text',
    ids: 'thread_id = any (?::uuid[])',
  },
}
/** Without the values, which may be large. */
export const THREADS_WITHOUT_VALUES: Searchable = { ...THREADS, columns: COLUMNS.replace('"values", ', '') }

/** Returns the ids of those that were there. Their runs go with them; checkpoints are the caller's. */
export async function deleteThreads(query: Query, ids: string[]): Promise<string[]> {
  const rows = await query(
    `with deleted as (delete from graphs.threads where thread_id = any ($1::uuid[]) returning thread_id),
    events as (delete from graphs.events where thread_id in (select thread_id from deleted))
    select thread_id from deleted`,
    [ids],
  )
  return rows.map(row => row.thread_id)
}

export async function copyThread(query: Query, from: string, to: string): Promise<Row> {
  const [row] = await query(
    `insert into graphs.threads (thread_id, status, metadata, config, "values", interrupts, error)
    select $2::uuid, case status when 'busy' then 'idle' else status end, metadata, config, "values", interrupts, error
    from graphs.threads
    where thread_id = $1
    returning ${COLUMNS}`,
    [from, to],
  )
  if (!row) throw notFound('Thread', from)
  return row
}

/** The latest state of a graph in the words of the wire, with the JSON of its values. */
export type StateSummary = { values: string | null; next: string[]; interrupts: Record<string, unknown[]> }

/** Sets the status by a state, unless runs are waiting or running. */
export async function recordState(query: Query, id: string, state: StateSummary): Promise<void> {
  await query(
    `update graphs.threads t
    set "values" = $2::jsonb, interrupts = $3::jsonb, error = null, updated_at = now(), state_updated_at = now(),
      status = case
        when exists (
          select from graphs.runs r where r.thread_id = $1 and r.status in ('pending', 'running')
        ) then 'busy'
        else $4
      end
    where thread_id = $1`,
    [id, state.values && toStorable(state.values), toJsonb(state.interrupts), statusOf(state)],
  )
}

export const statusOf = ({ next }: Pick<StateSummary, 'next'>) => (next.length > 0 ? 'interrupted' : 'idle')
