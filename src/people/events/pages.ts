// Reads pages of the journal of a workspace. Numbers have no gaps and become visible in order, so a page that begins
// after a number misses nothing.
import { type SQL, sql } from 'drizzle-orm'
import { inTenant, type Row, run, textArray } from '../../kernel/db/db.ts'
import { events } from '../../kernel/db/tables.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { type EventRow, eventColumns } from './rows.ts'
import type { EventFilters } from './schema.ts'

/** A page passes over at most this many events where no index serves its filters. */
const MAX_PASSED = 10_000
const BOUND_COUNT = 4
/** An event is numbered after its transaction began, so a later number can have a slightly earlier time. */
const CLOCK_SKEW = '1 minute'

export type PageRequest = {
  /** The last number, in the order of the page. Undefined: from its start. */
  after: number | undefined
  limit: number
  descending: boolean
  filters: EventFilters
}

export type JournalPage = {
  rows: EventRow[]
  /** The number of the newest event. */
  newest: number
  /** The number of the oldest event that is kept. The next one's, if none is. */
  oldest: number
  /** The number from which the next page begins. */
  next: number
  hasMore: boolean
}

const likePattern = (type: string): string => type.replaceAll('_', '\\_').replaceAll('*', '%')

function filterConditions({ type, subject_id, actor_id, start_time, end_time }: EventFilters): SQL[] {
  return [
    type && sql`type like any(${textArray(type.map(likePattern))})`,
    subject_id && sql`subject_id = ${subject_id}::uuid`,
    actor_id && sql`actor_id = ${actor_id}::uuid`,
    start_time && sql`created_at >= ${start_time}::timestamptz`,
    end_time && sql`created_at < ${end_time}::timestamptz`,
  ].filter(condition => condition instanceof Object)
}

const columnList = sql.join(
  Object.values(eventColumns).map(({ name }) => sql`${sql.identifier(name)}`),
  sql`, `,
)

/**
 * The page reads from `first_number` to `end_number`, and later pages up to `last_number`. The columns of `bounds` are
 * null where nothing bounds the page; `least` and `greatest` pass over nulls.
 */
function selectBounds({ descending, filters, ...page }: PageRequest): SQL {
  const after = page.after ?? null
  const { start_time, end_time, type, subject_id, actor_id } = filters
  const numberAt = (time: string, skew: SQL) =>
    sql`first_event_since(current_tenant(), ${time}::timestamptz ${skew} interval '${sql.raw(CLOCK_SKEW)}')`
  const lowest = sql`greatest(oldest, ${start_time ? numberAt(start_time, sql`-`) : null}::bigint)`
  const highest = sql`least(newest, ${end_time ? sql`${numberAt(end_time, sql`+`)} - 1` : null}::bigint)`
  const isIndexed = subject_id !== undefined || (type === undefined && actor_id === undefined)
  const reach = sql`${isIndexed ? null : MAX_PASSED - 1}::bigint`
  const [first, last, end] = descending
    ? [sql`least(${after}::bigint - 1, ${highest})`, lowest, sql`greatest(first_number - ${reach}, last_number)`]
    : [sql`greatest(${after}::bigint + 1, ${lowest})`, highest, sql`least(first_number + ${reach}, last_number)`]
  return sql`
    select *, ${end} as end_number
    from (select newest, oldest, ${first} as first_number, ${last} as last_number from kept) k`
}

/**
 * One trip. Its bounds come back even if the page is empty. They are materialized, because an inlined query is no
 * condition that an index may answer before the policies do: the page would read the journal from its start.
 */
export async function readPage(ctx: Ctx, request: PageRequest): Promise<JournalPage> {
  const { limit, descending, filters } = request
  const [low, high] = descending ? [sql`end_number`, sql`first_number`] : [sql`first_number`, sql`end_number`]
  const conditions = [inTenant(events), ...filterConditions(filters)]
  const statement = sql<Row>`
    with counted as (
      select coalesce((select seq from journals where scope_id = current_tenant()), 0) as newest
    ),
    kept as (
      select
        newest,
        coalesce(
          case
            when setting('shows_events') = 'true' then oldest_event()
            else (select seq from events where scope_id = current_tenant() and ${inTenant(events)} order by seq limit 1)
          end,
          newest + 1
        ) as oldest
      from counted
    ),
    bounds as materialized (${selectBounds(request)})
    select newest, oldest, last_number, end_number, page.*
    from bounds
    left join lateral (
      select ${columnList}
      from events
      where scope_id = current_tenant()
        and seq between ${low} and ${high}
        and ${sql.join(conditions, sql` and `)}
      order by seq ${descending ? sql`desc` : sql`asc`}
      limit ${limit + 1}
    ) page on true`
  return toPage((await run(ctx, statement)) as (string | null)[][], request)
}

function toPage(found: (string | null)[][], { after, limit, descending }: PageRequest): JournalPage {
  const [newest, oldest, last, end] = found[0]!.map(Number) as [number, number, number, number]
  const matching = found.filter(row => row[BOUND_COUNT] !== null).map(row => toEventRow(row.slice(BOUND_COUNT)))
  const rows = matching.slice(0, limit)
  if (matching.length > limit) return { rows, newest, oldest, next: rows.at(-1)!.seq, hasMore: true }
  return descending
    ? { rows, newest, oldest, next: Math.min(end, after ?? end), hasMore: end > last }
    : { rows, newest, oldest, next: Math.max(end, after ?? end), hasMore: end < last }
}

const decoders = Object.entries(eventColumns)
function toEventRow(values: (string | null)[]): EventRow {
  const entries = decoders.map(([name, column], i) => {
    const value = values[i]
    return [name, value === null ? null : column.mapFromDriverValue(value)]
  })
  return Object.fromEntries(entries)
}
