// Sends the events and the finished runs that drains wait for: a page at a time, in order, under a lease of the drain.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { LEASE } from '../../kernel/db/outbox.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { type EventRow, eventToWire } from '../../people/events/rows.ts'
import type { EncodedBatch } from '../../protocol/drain-encoding.ts'
import { describeRejected, encodeBatch } from '../../protocol/drain-encoding.ts'
import type { LogRecord } from '../../protocol/drain-records.ts'
import { lockFinishedRuns } from '../../tracing/rules/finished-runs.ts'
import { type DrainRow, openHeaders } from './drains.ts'
import { encodeRunLines, encodeSpans, SPAN_COLUMNS } from './otlp-traces.ts'
import { type Attempt, postBatch } from './receiver.ts'

const MAX_DRAINS = 500
const MAX_CONCURRENT = 8
/** The time of a sweep. */
const WORK_MS = 20_000
const MIN_SHARE_MS = 2000
const [FIRST_PAUSE_S, MAX_PAUSE_S] = [15, 900]
const MAX_TEXT = 8 * 1024
const TOO_LARGE = 413
/** A receiver that refuses an address or a login may take the same batch later. */
const CONFIGURATION_STATUSES = [401, 403, 404, 405, 407, 408, 429]

/** `position` is that of the last one. */
type Page = { position: number; records: number; batch: EncodedBatch | null }
type Source = {
  column: 'position' | 'trace_position'
  /** After an answer that a page is too large, the next smaller one is tried, and kept for the sweep. */
  pageSizes: readonly number[]
  read: (ctx: Ctx, drain: DrainRow, limit: number) => Promise<Page | null>
}

export async function sweepDrains(services: Services): Promise<void> {
  const { platform, database } = services
  const [, rows] = (await runAsSystem(database, setClock(platform), LIST_DUE)) as [unknown, [string, string][]]
  const due = rows.map(([id, workspace]) => ({ id, workspace }))
  const share = Math.max(MIN_SHARE_MS, (WORK_MS * MAX_CONCURRENT) / Math.max(MAX_CONCURRENT, due.length))
  await workInTurns(due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: platform.stopping,
    work: ({ id }) => sendDrain(services, id, Date.now() + share),
  })
}

/** Lists of each workspace the drain that waits longest, then the second of each. */
const LIST_DUE = sql<Row>`
  select d.id, d.tenant_id
  from drains d
  where d.enabled
    and d.signals && '{events,traces}'
    and d.next_send_at <= clock()
    and (
      ('events' = any(d.signals) and exists (
        select from journals j where j.scope_id = d.tenant_id and j.seq > d.position))
      or ('traces' = any(d.signals) and exists (
        select from finished_runs f where f.tenant_id = d.tenant_id and f.id > d.trace_position))
    )
  order by row_number() over (partition by d.tenant_id order by d.next_send_at), d.next_send_at
  limit ${MAX_DRAINS}`

async function sendDrain(services: Services, id: string, deadline: number): Promise<void> {
  const { platform, database } = services
  const claim = sql<Row>`
    update drains d
    set next_send_at = clock() + ${LEASE}
    where d.id = ${id}::uuid and d.enabled and d.next_send_at <= clock()
    returning to_json(d)::text`
  const [, rows] = (await runAsSystem(database, setClock(platform), claim)) as [unknown, [string][]]
  if (!rows[0]) return
  const drain = JSON.parse(rows[0][0]) as DrainRow
  const ctx = actAsDrain(services, drain)
  try {
    const headers = await openHeaders(services, drain)
    const sources = [EVENTS, TRACES].filter(({ signal }) => drain.signals.includes(signal))
    for (const source of sources) {
      const sizes = [...source.pageSizes]
      while (Date.now() < deadline && !platform.stopping?.aborted)
        if (!(await sendPage(ctx, drain, source, sizes, headers))) break
    }
    await store(services, id, sql`next_send_at = least(d.next_send_at, clock() + d.failures * interval '1 second')`)
  } catch (error) {
    platform.log({ level: 'warn', drain: id, error: 'drain not sent', message: String(error) })
  }
}

/** Row-level security confines it to the workspace. */
function actAsDrain(services: Services, { id, organization_id: organization, tenant_id: tenant, name }: DrainRow): Ctx {
  const actor = { kind: 'cron' as const, id, name, organization, tenant }
  return { ...createKeylessCaller(services, actor, `drain-${id}`, configuredOrigin(services.config)), permission: null }
}

const store = ({ platform, database }: Pick<Services, 'platform' | 'database'>, id: string, changes: SQL) =>
  runAsSystem(database, setClock(platform), sql`update drains d set ${changes} where d.id = ${id}::uuid`)

/** False once nothing waits, or the receiver takes nothing. */
async function sendPage(
  ctx: Ctx,
  drain: DrainRow,
  source: Source,
  sizes: number[],
  headers: Record<string, string>,
): Promise<boolean> {
  for (;;) {
    const page = await source.read(ctx, drain, sizes[0]!)
    if (!page) return false
    const { batch, records, position } = page
    const attempt = batch && (await postBatch(ctx, batch, headers, drain.compression))
    if (attempt?.status === TOO_LARGE && sizes.length > 1) {
      sizes.shift()
      continue
    }
    const column = sql.identifier(source.column)
    const moved = sql`${column} = greatest(d.${column}, ${position}::bigint)`
    if (attempt === null || attempt.error === null) {
      drain[source.column] = position
      const rejected = Math.min(attempt?.rejected ?? 0, records)
      const sent = sql`
        sent = d.sent + ${records - rejected}, dropped = d.dropped + ${rejected}, last_sent_at = clock(),
        failing_since = null, failures = 0, error = ${rejected > 0 ? describeRejected(rejected) : null}`
      await store(ctx, drain.id, attempt === null ? moved : sql`${moved}, ${sent}`)
      return true
    }
    const failed = sql`error = ${describeFailure(attempt)}, failing_since = coalesce(d.failing_since, clock())`
    if (isRefused(attempt)) {
      drain[source.column] = position
      await store(ctx, drain.id, sql`${moved}, ${failed}, dropped = d.dropped + ${records}`)
      return true
    }
    const backoff = sql`${FIRST_PAUSE_S} * power(2, least(d.failures, 6))`
    const pause = sql`least(${MAX_PAUSE_S}, greatest(${attempt.retryAfter}, ${backoff})) * (0.8 + 0.4 * random())`
    await store(
      ctx,
      drain.id,
      sql`${failed}, failures = d.failures + 1, next_send_at = clock() + ${pause} * interval '1 second'`,
    )
    return false
  }
}

/** No repeat can succeed. */
const isRefused = ({ status }: Attempt): boolean =>
  status !== null && status >= 400 && status < 500 && !CONFIGURATION_STATUSES.includes(status)
const describeFailure = ({ status, error }: Attempt): string =>
  status === null ? `The receiver cannot be reached: ${error}.` : `The receiver answered ${status}.`

// ---- events

function toRecord(row: EventRow): LogRecord {
  const { id, number, type, created_at, subject, actor, request, changes, data } = eventToWire(row)
  const attributes = {
    'event.name': type,
    'event.id': id,
    'slipway.event.number': Number(number),
    'slipway.event.subject': `${subject.type} ${subject.id}`,
    'slipway.event.actor': [actor.kind, actor.name ?? actor.id].filter(Boolean).join(' '),
    'slipway.event.operation': request.operation ?? '',
    'slipway.event.data': JSON.stringify(data ?? {}).slice(0, MAX_TEXT),
    'slipway.event.changes': JSON.stringify(changes).slice(0, MAX_TEXT),
  }
  return {
    time: created_at,
    level: /failed|unhealthy|disabled/.test(type) ? 'WARNING' : 'INFO',
    message: type,
    attributes,
  }
}

const EVENTS = {
  signal: 'events',
  column: 'position',
  pageSizes: [500, 50, 1],
  read: async ({ database, platform }: Ctx, drain: DrainRow, limit: number): Promise<Page | null> => {
    const select = sql<Row>`
      select to_json(e)::text
      from events e
      where e.scope_id = ${drain.tenant_id}::uuid and e.seq > ${drain.position}::bigint
      order by e.seq
      limit ${limit}`
    const [, rows] = (await runAsSystem(database, setClock(platform), select)) as [unknown, [string][]]
    const events = rows.map(([row]) => JSON.parse(row) as EventRow)
    if (events.length === 0) return null
    const resource = { 'service.name': 'slipway', 'slipway.workspace_id': drain.tenant_id }
    const group = { signal: 'events' as const, resource, records: events.map(toRecord) }
    return {
      position: Number(events.at(-1)!.seq),
      records: events.length,
      batch: encodeBatch(drain.kind as 'otlp', drain.url, [group]),
    }
  },
} as const

// ---- traces

const TRACES = {
  signal: 'traces',
  column: 'trace_position',
  // Each may have 64 KiB of inputs and outputs, and several drains are sent to at once.
  pageSizes: [100, 10, 1],
  read: async (ctx: Ctx, drain: DrainRow, limit: number): Promise<Page | null> => {
    const select = sql<Row>`
      select f.id, f.run_id, p.name
      from finished_runs f
      left join projects p on p.id = f.session_id and p.tenant_id = f.tenant_id
      where f.tenant_id = current_tenant() and f.id > ${drain.trace_position}::bigint
      order by f.id
      limit ${limit}`
    const rows = (await run(ctx, select, lockFinishedRuns(drain.tenant_id))) as [string, string, string | null][]
    if (rows.length === 0) return null
    const projects = new Map(rows.map(([, id, name]) => [id, name ?? 'unknown']))
    const query = { ids: [...projects.keys()], order: 'asc' as const, columns: SPAN_COLUMNS, limit }
    const { runs } = await ctx.traces.query(ctx, query)
    const named = runs.map(stored => ({ run: stored, project: projects.get(stored.id) ?? 'unknown' }))
    const encode = drain.kind === 'otlp' ? encodeSpans : encodeRunLines
    return {
      position: Number(rows.at(-1)![0]),
      records: runs.length,
      batch: runs.length === 0 ? null : encode(drain.url, drain.tenant_id, named),
    }
  },
} as const
