// Logs of revisions: appends lines within the limits, and reads pages.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { type LogAttributes, type LogKind, levels } from '../../protocol/logs.schema.ts'
import type * as schema from '../deployments/schema.ts'
import { readIds, readJsonLine, sanitizeAttributes } from './json-lines.ts'
import { sanitizeMessage } from './line-text.ts'
import type { Level, LogLine, LogPage, LogQuery } from './logs.schema.ts'
import { queueLines } from './queued-lines.ts'

/** Limits of each log, that is of each revision and kind. The oldest lines are dropped. */
export const MAX_LOG_LINES = 10_000
export const MAX_LOG_BYTES = 4 * 1024 * 1024

// ---- append

export type NewLogLine = {
  timestamp: string
  level: Level
  message: string
  process?: string | null | undefined
  attributes?: LogAttributes | null | undefined
}
/**
 * `revision` selects tenant_id and id. The agent numbers the lines of a stream; `from` is the number of the first. With
 * `forStore`, the lines are queued for a log store besides Postgres.
 */
type LogStream = { revision: SQL; kind: LogKind; stream: string; from: number; forStore?: boolean }

function toStoredLine({ timestamp, level, message, process = null, attributes: given }: NewLogLine) {
  const text = sanitizeMessage(message)
  const attributes = given ? sanitizeAttributes(given) : readJsonLine(text)
  const bytes = Buffer.byteLength(text) + (attributes ? Buffer.byteLength(JSON.stringify(attributes)) : 0)
  const severity = levels.indexOf(level)
  return {
    timestamp,
    severity,
    message: text,
    process,
    bytes,
    ...(attributes && { attributes }),
    ...readIds(attributes),
  }
}

/**
 * One statement appends lines and drops the oldest beyond the limits. Lines of the stream that were received before are
 * skipped. Its row has the next line number of the stream; there is no row when the revision does not exist.
 */
export function appendLogs(
  { revision, kind, stream, from, forStore = false }: LogStream,
  lines: NewLogLine[],
): SQL<Row> {
  const newest = lines.slice(-MAX_LOG_LINES).map(toStoredLine)
  const nextLine = from + lines.length
  const firstLine = nextLine - newest.length
  return sql`
    with given as materialized (select ${JSON.stringify(newest)}::text as lines),
    revision as (
      select r.*
      from revisions r
      join (${revision}) own on own.id = r.id and own.tenant_id = r.tenant_id),
    received_before as (
      select case when l.stream = ${stream}::uuid then l.next_line end as next_line
      from revision r
      join logs l on l.revision_id = r.id and l.kind = ${kind}),
    received as (
      select *, row_number() over (order by place) as nth, sum(bytes) over (order by place) - bytes as before
      from rows from (jsonb_to_recordset((select lines::jsonb from given))
        as (
          timestamp timestamptz, severity integer, message text, process text, bytes integer, attributes jsonb,
          request_id text, trace_id text))
        with ordinality g(timestamp, severity, message, process, bytes, attributes, request_id, trace_id, place)
      where ${firstLine} + place > coalesce((select next_line from received_before), 0)),
    counted as (
      select count(*)::integer as lines, coalesce(sum(bytes), 0) as bytes
      from received),
    log as (
      insert into logs (organization_id, tenant_id, revision_id, kind, lines, bytes, stream, next_line)
      select r.organization_id, r.tenant_id, r.id, ${kind}, counted.lines, counted.bytes, ${stream}::uuid, ${nextLine}
      from revision r, counted
      on conflict (revision_id, kind) do update set
        lines = logs.lines + excluded.lines,
        bytes = logs.bytes + excluded.bytes,
        stream = excluded.stream,
        next_line = greatest(excluded.next_line, case when logs.stream = excluded.stream then logs.next_line end)
      returning *),
    counter as (
      insert into log_counters as c (organization_id, tenant_id, deployment_id, revision_id, arrival)
      select r.organization_id, r.tenant_id, r.deployment_id, r.id, counted.lines
      from revision r, counted
      where counted.lines > 0
      on conflict (deployment_id) do update set arrival = c.arrival + excluded.arrival
      returning arrival),
    numbered as (
      select log.organization_id, log.tenant_id, r.deployment_id, log.revision_id, log.kind,
        log.lines - counted.lines + nth as number,
        g.timestamp, g.severity, g.message,
        log.bytes - counted.bytes + g.before as bytes_before,
        counter.arrival - counted.lines + nth as arrival,
        g.process, g.attributes, g.request_id, g.trace_id
      from log
      join revision r on r.id = log.revision_id, received g, counted, counter),
    inserted as (
      insert into log_lines (
        organization_id, tenant_id, deployment_id, revision_id, kind,
        number, timestamp, severity, message, bytes_before, arrival, process,
        attributes, request_id, trace_id)
      select *
      from numbered
      where number > (select lines from log) - ${MAX_LOG_LINES}
        and bytes_before >= (select bytes from log) - ${MAX_LOG_BYTES}),
    deleted as (
      delete from log_lines l
      using log
      where l.revision_id = log.revision_id
        and l.kind = log.kind
        and l.number > 0
        and (l.number <= log.lines - ${MAX_LOG_LINES} or l.bytes_before < log.bytes - ${MAX_LOG_BYTES})
      returning l.number, l.timestamp, l.arrival),
    dropped as (
      select number, timestamp, arrival
      from deleted
      union all
      select number, timestamp, arrival
      from numbered
      where number <= (select lines from log) - ${MAX_LOG_LINES}
        or bytes_before < (select bytes from log) - ${MAX_LOG_BYTES}),
    ${queueLines(kind, newest.length, forStore)},
    dropped_notice as (
      insert into log_lines (
        organization_id, tenant_id, deployment_id, revision_id, kind,
        number, timestamp, severity, message, bytes_before, arrival)
      select r.organization_id, r.tenant_id, r.deployment_id, r.id, ${kind}, 0, max(dropped.timestamp),
        ${levels.indexOf('WARNING')},
        max(dropped.number) || ' older lines were dropped: a log keeps its newest 10,000 lines and 4 MiB.',
        0, max(dropped.arrival)
      from dropped, revision r
      group by r.id, r.organization_id, r.tenant_id, r.deployment_id
      on conflict (revision_id, kind, number) do update set
        timestamp = excluded.timestamp,
        message = excluded.message,
        arrival = excluded.arrival)
    select next_line, lines, coalesce((select for_store from queued), false)
    from log`
}

// ---- read

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type RevisionParams = z.output<typeof schema.RevisionRef>

/** A deployment or a revision: `ownerQuery` finds it, `linesCondition` selects its lines. */
type LogOwner = { ownerQuery: SQL; linesCondition: SQL; notFoundCode: Code }

const deploymentLogOwner = (id: string): LogOwner => ({
  ownerQuery: sql`select from deployments where id = ${id}::uuid and tenant_id = current_tenant()`,
  linesCondition: sql`l.deployment_id = ${id}::uuid`,
  notFoundCode: 'deployment_not_found',
})
const revisionLogOwner = (id: string, deployment_id: string): LogOwner => ({
  ownerQuery: sql`
      select from revisions
      where id = ${id}::uuid and deployment_id = ${deployment_id}::uuid and tenant_id = current_tenant()`,
  linesCondition: sql`l.revision_id = ${id}::uuid`,
  notFoundCode: 'revision_not_found',
})

/** Selects from the owner, to tell an unknown owner from one without such lines. */
async function readLogPage(
  ctx: Ctx,
  query: LogQuery,
  kind: LogKind,
  { ownerQuery, linesCondition, notFoundCode }: LogOwner,
): Promise<LogPage> {
  const { level, process, query: text, start_time, end_time, offset } = query
  const limit = query.limit ?? 100
  const descending = query.order === 'desc'
  const direction = descending ? sql`desc` : sql`asc`
  const conditions = [
    linesCondition,
    sql`l.kind = ${kind} and l.tenant_id = current_tenant()`,
    level && sql`l.severity >= ${levels.indexOf(level)}`,
    process && sql`l.process = ${process}`,
    text && sql`strpos(lower(l.message), lower(${text})) > 0`,
    start_time && sql`l.timestamp >= ${start_time}::timestamptz`,
    end_time && sql`l.timestamp < ${end_time}::timestamptz`,
    offset &&
      sql`(l.timestamp, l.revision_id, l.number) ${descending ? sql`<` : sql`>`}
        (${offset.at}::timestamptz, ${offset.revision_id}::uuid, ${offset.number}::integer)`,
  ].filter(condition => condition instanceof Object)
  const statement = sql<Row>`
    select page.*
    from (${ownerQuery}) owner
    left join lateral (
      select l.revision_id, l.number,
        to_char(l.timestamp at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        l.severity, l.message, l.process
      from log_lines l
      where ${sql.join(conditions, sql` and `)}
      order by l.timestamp ${direction}, l.revision_id ${direction}, l.number ${direction}
      limit ${limit + 1}) page on true`
  const rows = await run(ctx, statement)
  requireRow(rows, notFoundCode)
  const lines = (rows as LogRow[]).filter(([revision]) => revision !== null)
  const page = lines.slice(0, limit)
  const last = lines.length > limit ? page.at(-1) : undefined
  return { logs: page.map(lineToWire(kind)), ...(last && { next_offset: encodeOffset(last) }) }
}

type LogRow = [
  revision_id: string,
  number: string,
  timestamp: string,
  severity: string,
  message: string,
  process: string | null,
]

const lineToWire =
  (kind: LogKind) =>
  ([revision_id, number, timestamp, severity, message, process]: LogRow): LogLine => ({
    id: `${revision_id}-${kind}-${number}`,
    timestamp: toIsoTime(timestamp),
    level: levels[Number(severity)]!,
    process,
    message,
  })

const encodeOffset = ([revision_id, number, timestamp]: LogRow): string =>
  Buffer.from(`${timestamp}~${revision_id}~${number}`).toString('base64url')

const createLogVerb = (kind: LogKind) =>
  verb('deployments:read', (ctx, { deployment_id, revision_id, ...query }: RevisionParams & LogQuery) =>
    readLogPage(ctx, query, kind, revisionLogOwner(revision_id, deployment_id)),
  )

export const readBuildLogs = createLogVerb('build')
export const readDeployLogs = createLogVerb('deploy')

export const readDeploymentLogs = verb(
  'deployments:read',
  (ctx, { deployment_id, ...query }: DeploymentParams & LogQuery) =>
    readLogPage(ctx, query, 'deploy', deploymentLogOwner(deployment_id)),
)
