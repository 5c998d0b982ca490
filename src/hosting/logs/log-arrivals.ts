// Reads lines of a deployment in the order of their arrival, from a number on.
import { type SQL, sql } from 'drizzle-orm'
import { run, textArray } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { type LogKind, levels, logKinds } from '../../protocol/logs.schema.ts'
import type { ArrivedLine, LogFilters } from './logs.schema.ts'

/** Lines of requests are left out, unless their kind is asked for. */
const readKinds: readonly LogKind[] = ['build', 'deploy']

/** Lines that one trip tests against the filters. */
const MAX_TESTED_LINES = 10_000

/** Begins after a line, with the newest lines that match, or at the oldest kept line. */
export type ArrivalRequest = LogFilters & {
  deployment_id: string
  /** Without `kind`. Those of `readKinds` by default. */
  kinds?: readonly LogKind[] | undefined
  after?: number | undefined
  tail?: number | undefined
  limit: number
}

export type ArrivedPage = {
  lines: ArrivedLine[]
  /** The number of the newest line of the deployment. */
  newest: number
  /** The next page begins here. It passes lines that do not match. */
  next: number
  hasMore: boolean
  dropped: number
}

const REACH = sql`((select arrival from reached) - (select after from start))`

/**
 * The statement sees every line up to the counter, because each line is numbered under the counter's row lock. So the
 * counter is the cursor once all lines are tested. Numbers that no kept line has are those of dropped lines. They count
 * if one of the logs that are read has dropped lines after the cursor: its line 0 has the newest one's number.
 */
function selectPage(request: ArrivalRequest): SQL<Row> {
  const { deployment_id, kind, kinds: wanted = readKinds, revision_id, after, tail, limit, ...filters } = request
  const { level, process, query, start_time } = filters
  const kinds = textArray(kind ? [kind] : wanted)
  const hasFilter = level !== undefined || process !== undefined || query !== undefined || start_time !== undefined
  const tested = hasFilter ? MAX_TESTED_LINES : limit
  const matches = sql.join(
    [
      sql`l.number > 0`,
      ...(level ? [sql`l.severity >= ${levels.indexOf(level)}`] : []),
      ...(process ? [sql`l.process = ${process}`] : []),
      ...(query ? [sql`strpos(lower(l.message), lower(${query})) > 0`] : []),
      ...(start_time ? [sql`l.timestamp >= ${start_time}::timestamptz`] : []),
    ],
    sql` and `,
  )
  const ofRevision = revision_id ? sql`l.revision_id = ${revision_id}::uuid` : sql`true`
  /** Without the bounds of the revision's lines, the lines of all others would be read in search of them. */
  const boundary = (direction: SQL) => sql`
    select l.arrival
    from log_lines l
    where l.revision_id = ${revision_id}::uuid
      and l.tenant_id = current_tenant()
      and l.kind = k.kind
      and l.arrival is not null
    order by l.number ${direction}
    limit 1`
  const bounds = revision_id
    ? sql`
      select min(f.arrival) as first, max(t.arrival) as last
      from unnest(${kinds}) k(kind), lateral (${boundary(sql`asc`)}) f, lateral (${boundary(sql`desc`)}) t`
    : sql`select 1::bigint as first, newest as last from owner`
  const linesFrom = (start: SQL, direction: SQL, max: number) => sql`
    select l.*
    from bounds b, unnest(${kinds}) k(kind), lateral (
      select l.*
      from log_lines l
      where l.deployment_id = ${deployment_id}::uuid
        and l.tenant_id = current_tenant()
        and l.kind = k.kind
        and ${ofRevision}
        and l.arrival > ${start}
        and l.arrival <= b.last
      order by l.arrival ${direction}
      limit ${max}) l
    order by l.arrival ${direction}
    limit ${max}`
  const fromTail = sql`(
    select min(l.arrival) - 1
    from (
      select l.arrival
      from (${linesFrom(sql`b.first - 1`, sql`desc`, hasFilter ? MAX_TESTED_LINES : (tail ?? 0))}) l
      where ${matches}
      order by l.arrival desc
      limit ${tail ?? 0}) l)`
  const start = after ?? (tail === undefined ? 0 : sql`coalesce(${fromTail}, (select newest from owner))`)
  return sql<Row>`
    with owner as (
      select coalesce(c.arrival, 0) as newest,
        ${revision_id ?? null}::uuid is null or exists (
          select from revisions r
          where r.id = ${revision_id ?? null}::uuid
            and r.deployment_id = d.id
            and r.tenant_id = current_tenant()) as has_revision
      from deployments d
      left join log_counters c on c.deployment_id = d.id and c.tenant_id = d.tenant_id
      where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant()),
    bounds as (${bounds}),
    start as materialized (select ${start}::bigint as after),
    tested as materialized (
      ${linesFrom(sql`greatest((select after from start), b.first - 1)`, sql`asc`, tested + 1)}),
    page as (
      select l.*
      from tested l
      where ${matches}
      order by l.arrival
      limit ${limit}),
    reached as (
      select case
        when (select count(*) from page) = ${limit} then (select max(arrival) from page)
        when (select count(*) from tested) > ${tested} then (select max(arrival) from tested)
        else greatest(newest, (select after from start))
      end as arrival
      from owner),
    lost as (
      select sum(first_kept.number - 1) as lines
      from revisions r
      join log_lines n on n.revision_id = r.id and n.kind = any(${kinds}) and n.number = 0
      cross join lateral (
        select f.number
        from log_lines f
        where f.revision_id = n.revision_id and f.tenant_id = r.tenant_id and f.kind = n.kind and f.number > 0
        order by f.number
        limit 1) first_kept
      where ${REACH} > (select count(*) from tested l where l.number > 0 and l.arrival <= (select arrival from reached))
        and r.deployment_id = ${deployment_id}::uuid
        and r.tenant_id = current_tenant()
        and ${revision_id ? sql`r.id = ${revision_id}::uuid` : sql`true`}
        and n.arrival > (select after from start))
    select owner.newest, owner.has_revision, reached.arrival,
      (select count(*) from tested) > ${tested} or exists (select from tested l where l.arrival > reached.arrival),
      case when lost.lines > 0 then least(
        lost.lines,
        ${REACH} - (
          select count(*)
          from log_lines l
          where l.deployment_id = ${deployment_id}::uuid
            and l.tenant_id = current_tenant()
            and l.kind = any(${textArray(logKinds)})
            and l.arrival > start.after
            and l.arrival <= reached.arrival
            and l.number > 0)) end,
      l.arrival, l.revision_id, l.kind, l.number, l.timestamp, l.severity, l.message, l.process, l.attributes
    from owner
    cross join start
    cross join reached
    cross join lost
    left join page l on true
    order by l.arrival`
}

type Row = [
  newest: string,
  hasRevision: boolean,
  reached: string,
  hasMore: boolean,
  dropped: string | null,
  arrival: string | null,
  revision_id: string,
  kind: LogKind,
  number: string,
  timestamp: string,
  severity: string,
  message: string,
  process: string | null,
  attributes: string | null,
]

/** One trip. */
export async function readArrivedLines(ctx: Ctx, request: ArrivalRequest): Promise<ArrivedPage> {
  const rows = await run(ctx, selectPage(request))
  const [newest, hasRevision, next, hasMore, dropped] = requireRow(rows, 'deployment_not_found')
  if (!hasRevision) throw fail('revision_not_found')
  return {
    lines: rows.filter(([, , , , , arrival]) => arrival !== null).map(toWire),
    newest: Number(newest),
    next: Number(next),
    hasMore,
    dropped: Number(dropped ?? 0),
  }
}

const toWire = ([
  ,
  ,
  ,
  ,
  ,
  arrival,
  revision_id,
  kind,
  number,
  timestamp,
  severity,
  message,
  process,
  attributes,
]: Row): ArrivedLine => ({
  id: `${revision_id}-${kind}-${number}`,
  arrival: Number(arrival),
  revision_id,
  kind,
  timestamp: toIsoTime(timestamp),
  level: levels[Number(severity)]!,
  process,
  message,
  ...(attributes && { attributes: JSON.parse(attributes) }),
})

/** The value of `matches` in the page's statement. */
export function matchesFilters(line: ArrivedLine, filters: LogFilters): boolean {
  const { kind, revision_id, level, process, query, start_time } = filters
  return (
    (kind === undefined ? readKinds.includes(line.kind) : line.kind === kind) &&
    (revision_id === undefined || line.revision_id === revision_id) &&
    (level === undefined || levels.indexOf(line.level) >= levels.indexOf(level)) &&
    (process === undefined || line.process === process) &&
    (query === undefined || line.message.toLowerCase().includes(query.toLowerCase())) &&
    (start_time === undefined || Date.parse(line.timestamp) >= Date.parse(start_time))
  )
}
