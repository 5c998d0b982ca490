// The log store on ClickHouse: the lines of months. Postgres says which deployments the caller may read.
import { sql as pg } from 'drizzle-orm'
import { type ClickHouse, connectClickHouse } from '../../../kernel/clickhouse/client.ts'
import {
  all,
  bind,
  join,
  name,
  number,
  type Sql,
  sql,
  text,
  texts,
  time,
  uuid,
  uuids,
} from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime } from '../../../kernel/clickhouse/times.ts'
import { type Row, run, runAsSystem, uuidArray } from '../../../kernel/db/db.ts'
import { setClock } from '../../../kernel/db/journal.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { Failure, fail } from '../../../kernel/http/errors.ts'
import { loadOnce } from '../../../kernel/http/load-once.ts'
import type { Services } from '../../../kernel/http/routes.ts'
import { type LogAttributes, type LogKind, levels } from '../../../protocol/logs.schema.ts'
import {
  beforeTime,
  type FoundLines,
  type LineCounts,
  type LogCount,
  type LogFilter,
  type LogSearch,
  type LogStore,
  type QueuedLine,
  type StoredLine,
} from './store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Windows of time are searched one after the other, each longer than the one before, until the page is full. */
const FIRST_WINDOW_MS = 60_000
const MIN_WINDOW_MS = 1000
const GROWTH = 8
/** A window that would be longer has all that is older. */
const MAX_WINDOW_MS = 30 * DAY_MS
/** No further window is begun after this time. The answer says up to where lines were searched. */
const SEARCH_MS = 2500
const MAX_NAMED_DEPLOYMENTS = 5000

// ---- append

/** The partition. A wrong clock makes none of its own: one insert may not be about many. */
const dayOf = (timestamp: string, now: number): string => {
  const at = Math.min(Math.max(Date.parse(timestamp), now - 7 * DAY_MS), now + DAY_MS)
  return new Date(at).toISOString().slice(0, 10)
}

const toRow = (line: QueuedLine, now: number) => {
  const members = Object.entries(line.attributes ?? {})
  return {
    tenant_id: line.tenant_id,
    kind: line.kind,
    timestamp: line.timestamp.replace('T', ' ').replace('Z', ''),
    revision_id: line.revision_id,
    number: line.number,
    deployment_id: line.deployment_id,
    severity: line.severity,
    process: line.process,
    message: line.message,
    attributes: Object.fromEntries(members.map(([key, value]) => [key, String(value)])),
    types: Object.fromEntries(
      members.flatMap(([key, value]) => (typeof value === 'string' ? [] : [[key, typeof value]])),
    ),
    request_id: line.request_id ?? '',
    trace_id: line.trace_id ?? '',
    day: dayOf(line.timestamp, now),
  }
}

// ---- search

type Scope = { tenant: string; deployments: string[] | null }

/**
 * One trip. Lines of deployments that the caller may not read, or that no longer exist, are left out by the ids of
 * those that are left. A workspace with very many needs no list where nothing is hidden.
 */
async function readScope(ctx: Ctx, { deployment_id }: LogFilter): Promise<Scope> {
  const statement = pg<Row>`
    select d.id
    from deployments d
    where d.tenant_id = current_tenant()
      and ${deployment_id ? pg`d.id = ${deployment_id}::uuid` : pg`true`}
    limit ${MAX_NAMED_DEPLOYMENTS + 1}`
  const rows = await run(ctx, statement)
  const { tenant, isLimited } = ctx.requestInfo
  const isLong = rows.length > MAX_NAMED_DEPLOYMENTS
  if (isLong && isLimited) throw fail('query_too_slow')
  return { tenant: tenant!, deployments: isLong ? null : rows.map(([id]) => id as string) }
}

const escapePattern = (pattern: string) => pattern.replace(/[\\%_]/g, '\\$&')

function conditionsOf({ deployments }: Scope, filter: LogFilter): Sql {
  const { kinds, revision_id, level, process, q, request_id, trace_id, attributes } = filter
  const pattern = q && `%${escapePattern(q.toLowerCase())}%`
  return all([
    sql`l.kind in ${texts(kinds)}`,
    ...(deployments ? [sql`l.deployment_id in ${uuids(deployments)}`] : []),
    ...(revision_id ? [sql`l.revision_id = ${uuid(revision_id)}`] : []),
    ...(level ? [sql`l.severity >= ${number(levels.indexOf(level))}`] : []),
    ...(process ? [sql`l.process = ${text(process)}`] : []),
    ...(pattern ? [sql`lowerUTF8(l.message) like ${text(pattern)}`] : []),
    ...(request_id ? [sql`l.request_id = ${text(request_id)}`] : []),
    ...(trace_id ? [sql`l.trace_id = ${text(trace_id)}`] : []),
    ...attributes.flatMap(({ name: key, value }) => [
      sql`has(mapValues(l.attributes), ${text(value)})`,
      sql`mapContains(l.attributes, ${text(key)})`,
      sql`l.attributes[${text(key)}] = ${text(value)}`,
    ]),
  ])
}

const uuidOf = (column: string): Sql => name(`toString(l.${column})`)
const COLUMNS = join(
  [
    uuidOf('deployment_id'),
    uuidOf('revision_id'),
    name('toString(l.kind)'),
    name('toString(l.number)'),
    name('toString(l.timestamp)'),
    name('toString(l.severity)'),
    name('l.message'),
    name('l.process'),
    name('toJSONString(l.attributes)'),
    name('toJSONString(l.types)'),
    name('l.request_id'),
    name('l.trace_id'),
  ],
  ', ',
)

async function search(clickHouse: ClickHouse, ctx: Ctx, query: LogSearch): Promise<FoundLines> {
  const scope = await readScope(ctx, query)
  if (scope.deployments?.length === 0) return { lines: [], next: null }
  const begin = query.start_time ? Date.parse(query.start_time) : 0
  const now = ctx.platform.clock.now()
  const last = query.end_time ? Date.parse(query.end_time) : Number.POSITIVE_INFINITY
  const end = Math.min(query.cursor ? Date.parse(query.cursor.at) + 1 : now + 2 * DAY_MS, last)
  const conditions = conditionsOf(scope, query)
  const found: StoredLine[] = []
  const giveUpAt = Date.now() + SEARCH_MS
  const isLookup = query.trace_id !== undefined || query.request_id !== undefined
  let until = end
  // Lines after now are few, so that the first window ends a minute before it.
  let width = isLookup ? end - begin : Math.max(end - now, 0) + FIRST_WINDOW_MS
  while (until > begin && found.length <= query.limit && (until === end || Date.now() < giveUpAt)) {
    const from = width > MAX_WINDOW_MS ? begin : Math.max(begin, until - width)
    try {
      found.push(...(await readWindow(clickHouse, scope, query, conditions, { from, until }, found.length)))
      width = until === end && end > now ? GROWTH * FIRST_WINDOW_MS : GROWTH * width
      until = from
    } catch (error) {
      const isSlow = error instanceof Failure && error.code === 'query_too_slow'
      if (!isSlow || width < MIN_WINDOW_MS) throw error
      // Lines that were found before are an answer.
      if (until < end) break
      width /= GROWTH
    }
  }
  if (found.length > query.limit) {
    const line = found[query.limit - 1]!
    return { lines: found.slice(0, query.limit), next: { ...line, at: line.timestamp } }
  }
  return { lines: found, next: until > begin && until > 0 ? beforeTime(new Date(until).toISOString()) : null }
}

type Window = { from: number; until: number }

async function readWindow(
  clickHouse: ClickHouse,
  { tenant }: Scope,
  { cursor, limit }: LogSearch,
  conditions: Sql,
  { from, until }: Window,
  known: number,
): Promise<StoredLine[]> {
  const at = (ms: number) => bind("DateTime64(3, 'UTC')", new Date(ms).toISOString().slice(0, -1).replace('T', ' '))
  const isOlder = cursor
    ? sql`and (l.timestamp, toString(l.revision_id), l.number, toString(l.kind)) < (
        ${at(Date.parse(cursor.at))}, ${text(cursor.revision_id)}, ${number(cursor.number)}, ${text(cursor.kind)})`
    : sql``
  const rows = await clickHouse.query<LineRow>(sql`
    select ${COLUMNS}
    from log_lines_of(tenant = ${uuid(tenant)}) l
    where l.timestamp >= ${at(from)}
      and l.timestamp < ${at(until)}
      ${isOlder}
      and ${conditions}
    order by l.timestamp desc, toString(l.revision_id) desc, l.number desc, toString(l.kind) desc
    limit 1 by l.revision_id, l.kind, l.number
    limit ${name(String(limit + 1 - known))}`)
  return rows.map(toLine)
}

type LineRow = [
  deployment_id: string,
  revision_id: string,
  kind: LogKind,
  number: string,
  timestamp: string,
  severity: string,
  message: string,
  process: string | null,
  attributes: string,
  types: string,
  request_id: string,
  trace_id: string,
]

function toLine([deployment_id, revision_id, kind, number, timestamp, severity, message, process, ...rest]: LineRow) {
  const [attributes, types, request_id, trace_id] = rest
  const members = toMembers(JSON.parse(attributes), JSON.parse(types))
  return {
    deployment_id,
    revision_id,
    kind,
    number: Number(number),
    timestamp: fromClickHouseTime(timestamp)!,
    severity: Number(severity),
    message,
    process,
    attributes: members,
    request_id: request_id || null,
    trace_id: trace_id || null,
  }
}

function toMembers(texts: Record<string, string>, types: Record<string, string>): LogAttributes | null {
  const entries = Object.entries(texts).map(([key, value]): [string, string | number | boolean] => {
    if (types[key] === 'number') return [key, Number(value)]
    return [key, types[key] === 'boolean' ? value === 'true' : value]
  })
  return entries.length > 0 ? Object.fromEntries(entries) : null
}

// ---- histogram

async function histogram(clickHouse: ClickHouse, ctx: Ctx, query: LogCount): Promise<LineCounts> {
  const scope = await readScope(ctx, query)
  if (scope.deployments?.length === 0) return { bins: [], counted_from: query.start_time }
  const step = name(String(query.step))
  const rows = await clickHouse.query<[string, string, string]>(sql`
    select toString(intDiv(toUnixTimestamp(l.timestamp), ${step}) * ${step}), toString(l.severity), toString(count())
    from log_lines_of(tenant = ${uuid(scope.tenant)}) l
    where l.timestamp >= ${time(query.start_time)}
      and l.timestamp < ${time(query.end_time)}
      and ${conditionsOf(scope, query)}
    group by 1, 2`)
  return {
    bins: rows.map(([at, severity, lines]) => ({ at: Number(at), severity: Number(severity), lines: Number(lines) })),
    counted_from: query.start_time,
  }
}

// ---- expire

const DELETION_SECONDS = 60
const DELETION_MINUTE = 17
const MAX_DROPPED_DAYS = 30
const MAX_CHECKED_DEPLOYMENTS = 100_000

/** Lines of a deleted deployment are hidden at once. This frees their space. */
async function expire(clickHouse: ClickHouse, { database, platform, config }: Services): Promise<void> {
  const now = platform.clock.now()
  const oldest = new Date(now - config.logRetentionDays * DAY_MS).toISOString().slice(0, 10)
  const days = await clickHouse.query<[string]>(sql`
    select distinct partition
    from system.parts
    where database = currentDatabase() and table = 'log_lines' and active and partition < ${text(oldest)}
    order by partition
    limit ${name(String(MAX_DROPPED_DAYS))}`)
  for (const [day] of days)
    if (/^[\d-]{10}$/.test(day)) await clickHouse.execute(sql`alter table log_lines drop partition ${name(`'${day}'`)}`)
  // Once an hour: each deletion rewrites parts.
  if (new Date(now).getUTCMinutes() !== DELETION_MINUTE) return
  const rows = await clickHouse.query<[string]>(
    sql`select distinct toString(deployment_id) from log_lines limit ${name(String(MAX_CHECKED_DEPLOYMENTS))}`,
  )
  const gone = pg<Row>`
    select g.id
    from unnest(${uuidArray(rows.map(([id]) => id))}) g(id)
    where not exists (select from deployments d where d.id = g.id)
    limit 1000`
  const [, found] = (await runAsSystem(database, setClock(platform), gone)) as string[][][]
  const deleted = found!.map(([id]) => id!)
  if (deleted.length > 0)
    await clickHouse.execute(sql`delete from log_lines where deployment_id in ${uuids(deleted)}`, DELETION_SECONDS)
}

export function clickHouseLogStore(url: string, now: () => number): LogStore {
  const connect = loadOnce(async () => connectClickHouse(url))
  return {
    append: async lines => {
      const rows = lines.map(line => toRow(line, now()))
      await (await connect()).insert('log_lines', rows)
    },
    search: async (...input) => search(await connect(), ...input),
    histogram: async (...input) => histogram(await connect(), ...input),
    expire: async services => expire(await connect(), services),
  }
}
