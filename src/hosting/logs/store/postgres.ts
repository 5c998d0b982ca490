// The log store on Postgres: the newest lines of each log. A search reads a number of lines, newest first, and says
// where it ended.
import { type SQL, sql } from 'drizzle-orm'
import { runWithinTime } from '../../../kernel/db/bounded-time.ts'
import type { Row } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { type LogKind, levels } from '../../../protocol/logs.schema.ts'
import {
  beforeTime,
  type FoundLines,
  type LineCounts,
  type LogCount,
  type LogFilter,
  type LogSearch,
  type LogStore,
} from './store.ts'

/** Lines that one search reads, and that one histogram counts. */
const MAX_TESTED_LINES = 20_000
const MAX_COUNTED_LINES = 100_000

/** Conditions that an index serves, so that each line that is read is within them. */
function indexedConditions({ deployment_id, revision_id, request_id, trace_id }: LogFilter): SQL[] {
  if (trace_id) return [sql`l.trace_id = ${trace_id}`]
  if (request_id) return [sql`l.request_id = ${request_id}`]
  if (revision_id) return [sql`l.revision_id = ${revision_id}::uuid`]
  return deployment_id ? [sql`l.deployment_id = ${deployment_id}::uuid`] : []
}

function otherConditions(filter: LogFilter): SQL[] {
  const { deployment_id, revision_id, request_id, trace_id, level, process, q, attributes } = filter
  return [
    sql`l.number > 0`,
    ...(deployment_id ? [sql`l.deployment_id = ${deployment_id}::uuid`] : []),
    ...(revision_id ? [sql`l.revision_id = ${revision_id}::uuid`] : []),
    ...(request_id ? [sql`l.request_id = ${request_id}`] : []),
    ...(trace_id ? [sql`l.trace_id = ${trace_id}`] : []),
    ...(level ? [sql`l.severity >= ${levels.indexOf(level)}`] : []),
    ...(process ? [sql`l.process = ${process}`] : []),
    ...(q ? [sql`strpos(lower(l.message), lower(${q})) > 0`] : []),
    ...attributes.map(({ name, value }) => sql`l.attributes ->> ${name} = ${value}`),
  ]
}

function timeConditions({ start_time, end_time, cursor }: LogFilter & Pick<LogSearch, 'cursor'>): SQL[] {
  return [
    ...(start_time ? [sql`l.timestamp >= ${start_time}::timestamptz`] : []),
    ...(end_time ? [sql`l.timestamp < ${end_time}::timestamptz`] : []),
    ...(cursor
      ? [
          sql`(l.timestamp, l.revision_id, l.number, l.kind) <
          (${cursor.at}::timestamptz, ${cursor.revision_id}::uuid, ${cursor.number}::integer, ${cursor.kind})`,
        ]
      : []),
  ]
}

const NEWEST_FIRST = sql`l.timestamp desc, l.revision_id desc, l.number desc`

/** An index has the lines of one kind in their order, so each kind is read for itself. */
const ofEachKind = (kinds: readonly LogKind[], columns: SQL, conditions: SQL[], limit: number): SQL =>
  sql.join(
    kinds.map(
      kind => sql`(
        select ${columns}
        from log_lines l
        where l.tenant_id = current_tenant()
          and l.kind = ${kind}
          and ${conditions.length > 0 ? sql.join(conditions, sql` and `) : sql`true`}
        order by ${NEWEST_FIRST}
        limit ${limit})`,
    ),
    sql`
      union all`,
  )

const KEY = sql`l.timestamp, l.revision_id, l.number`

/** The time up to which lines are read: that of the last one of so many, if there are more. */
const reachOf = (filter: LogFilter & Pick<LogSearch, 'cursor'>, lines: number): SQL => {
  const conditions = [...indexedConditions(filter), ...timeConditions(filter)]
  return sql`
    select max(n.timestamp) as until
    from (
      select l.timestamp
      from (${ofEachKind(filter.kinds, KEY, conditions, lines + 1)}
      ) l
      order by l.timestamp desc
      limit 1 offset ${lines}) n`
}

const COLUMNS = sql`l.deployment_id, l.revision_id, l.kind, l.number, l.timestamp, l.severity, l.message, l.process,
          l.attributes, l.request_id, l.trace_id`
const IN_REACH = sql`l.timestamp >= coalesce((select until from reach), '-infinity')`

async function search(ctx: Ctx, query: LogSearch): Promise<FoundLines> {
  const conditions = [...indexedConditions(query), ...timeConditions(query), IN_REACH, ...otherConditions(query)]
  const statement = sql<Row>`
    with reach as materialized (${reachOf(query, MAX_TESTED_LINES)})
    select reach.until, page.*
    from reach
    left join (
      select l.deployment_id, l.revision_id, l.kind, l.number,
        to_char(l.timestamp at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
        l.severity, l.message, l.process, l.attributes, l.request_id, l.trace_id
      from (${ofEachKind(query.kinds, COLUMNS, conditions, query.limit + 1)}
      ) l
      order by ${NEWEST_FIRST}, l.kind desc
      limit ${query.limit + 1}) page on true
    order by page.at desc, page.revision_id desc, page.number desc, page.kind desc`
  const rows = (await runWithinTime(ctx, statement)) as PageRow[]
  const lines = rows.filter(([, deployment]) => deployment !== null).map(toLine)
  const last = lines.length > query.limit ? lines[query.limit - 1] : undefined
  const until = rows[0]![0]
  const reached = until === null ? null : beforeTime(new Date(until).toISOString())
  return {
    lines: lines.slice(0, query.limit),
    next: last ? { ...last, at: last.timestamp } : reached,
  }
}

type PageRow = [
  until: string | null,
  deployment_id: string,
  revision_id: string,
  kind: LogKind,
  number: string,
  at: string,
  severity: string,
  message: string,
  process: string | null,
  attributes: string | null,
  request_id: string | null,
  trace_id: string | null,
]

const toLine = ([, deployment_id, revision_id, kind, number, at, severity, message, process, ...rest]: PageRow) => {
  const [attributes, request_id, trace_id] = rest
  return {
    deployment_id,
    revision_id,
    kind,
    number: Number(number),
    timestamp: at,
    severity: Number(severity),
    message,
    process,
    attributes: attributes === null ? null : JSON.parse(attributes),
    request_id,
    trace_id,
  }
}

async function histogram(ctx: Ctx, query: LogCount): Promise<LineCounts> {
  const conditions = [...indexedConditions(query), ...timeConditions(query), IN_REACH, ...otherConditions(query)]
  const statement = sql<Row>`
    with reach as materialized (${reachOf(query, MAX_COUNTED_LINES)})
    select reach.until, bins.*
    from reach
    left join (
      select floor(extract(epoch from l.timestamp) / ${query.step})::bigint * ${query.step} as at, l.severity, count(*)
      from (${ofEachKind(query.kinds, sql`l.timestamp, l.severity`, conditions, 2 * MAX_COUNTED_LINES)}
      ) l
      group by 1, 2) bins on true`
  const rows = (await runWithinTime(ctx, statement)) as [string | null, string | null, string, string][]
  const until = rows[0]![0]
  return {
    bins: rows.flatMap(([, at, severity, lines]) =>
      at === null ? [] : [{ at: Number(at), severity: Number(severity), lines: Number(lines) }],
    ),
    counted_from: until === null ? query.start_time : new Date(until).toISOString(),
  }
}

export const postgresLogStore: LogStore = { append: null, search, histogram, expire: async () => {} }
