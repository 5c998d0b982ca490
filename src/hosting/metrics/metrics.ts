// Reads the metrics of a deployment: series over time, of each revision and of all together.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { kindOfStore, type StoreKind } from '../../protocol/snapshots.schema.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import {
  counterNames,
  HOUR_SECONDS,
  latencyColumns,
  MINUTE_SECONDS,
  peakNames,
  statusColumns,
  usageNames,
} from './metric-points.ts'
import {
  DEFAULT_RANGE_MS,
  DEFAULT_STEPS,
  isStoreMetric,
  MAX_RANGE_DAYS,
  MAX_STEPS,
  METRICS,
  type MetricName,
  type MetricsAnswer,
  type MetricsQuery,
  metricNames,
  type RevisionMetricName,
  STEPS,
  type StoreMetricName,
} from './metrics.schema.ts'
import { quantileOf } from './quantile.ts'

const MAX_REVISIONS = 10

// ---- the range

type Range = { fromMs: number; stepMs: number; count: number }

/** Whole steps around the range. Refuses a range that is empty, too long or has too many steps. */
export function chooseRange({ from, to, step }: MetricsQuery, now: number): Range {
  const end = to === undefined ? now : Date.parse(to)
  const start = from === undefined ? end - DEFAULT_RANGE_MS : Date.parse(from)
  const fault = (name: string, msg: string) =>
    fail('invalid_request', { errors: [{ type: 'custom', loc: ['query', name], msg }] })
  if (start >= end) throw fault('from', 'must be before `to`')
  if (end - start > MAX_RANGE_DAYS * 24 * 3600_000)
    throw fault('from', `must be at most ${MAX_RANGE_DAYS} days before \`to\``)
  const countOf = (seconds: number) => Math.ceil(end / (seconds * 1000)) - Math.floor(start / (seconds * 1000))
  const chosen = step ?? STEPS.find(seconds => countOf(seconds) <= DEFAULT_STEPS) ?? STEPS.at(-1)!
  const count = countOf(chosen)
  if (count > MAX_STEPS)
    throw fault('step', `must be longer: this range has ${count} steps, and ${MAX_STEPS} are allowed`)
  const stepMs = chosen * 1000
  return { fromMs: Math.floor(start / stepMs) * stepMs, stepMs, count }
}

// ---- the rows

/** The columns of a step. Sums and peaks are null if nothing was measured. */
type Sums = Record<
  (typeof counterNames | typeof peakNames)[number] | 'cpu_minutes' | 'memory_minutes',
  number | null
> & {
  copies: number
}
const SUM_NAMES = ['copies', ...peakNames, 'cpu_minutes', 'memory_minutes', ...counterNames] as const
const PEAKS: readonly string[] = peakNames
const MAXIMA: readonly string[] = ['copies', ...PEAKS]
const MINUTE_MASKS: readonly string[] = ['cpu_minutes', 'memory_minutes']

const joinColumns = (write: (name: (typeof SUM_NAMES)[number], column: SQL) => SQL): SQL =>
  sql.join(
    SUM_NAMES.map(name => write(name, sql`${sql.identifier(name)}`)),
    sql`, `,
  )
/** Copies of several revisions run at once, and a minute that two revisions share is one minute. */
const OVER_REVISIONS = joinColumns((name, column) =>
  MINUTE_MASKS.includes(name)
    ? sql`bit_count(bit_or(${column})::bit(64)) as ${column}`
    : PEAKS.includes(name)
      ? sql`max(${column}) as ${column}`
      : sql`sum(${column}) as ${column}`,
)
const OVER_TIME = joinColumns((name, column) => (MAXIMA.includes(name) ? sql`max(${column})` : sql`sum(${column})`))

const USAGE: readonly string[] = ['copies', 'memory_peak_bytes', 'cpu_minutes', 'memory_minutes', ...usageNames]
/** Requests are those of `web`. A revision that has only `web` has no points of processes. */
function pointColumns(process: string | undefined): SQL {
  if (process === undefined) return sql`p.*`
  const columns = joinColumns((name, column) => {
    if (!USAGE.includes(name)) return process === 'web' ? sql`p.${column}` : sql`null::bigint as ${column}`
    return sql`case when s.process is null then p.${column} else s.${column} end as ${column}`
  })
  return sql`p.revision_id, p.at, ${columns}`
}

const IS_OF_WEB = sql`(s.process is not null or not exists (
          select from processes o
          where o.at = p.at and o.revision_id = p.revision_id))`

/** A row for each step and revision, and for each step with the revision null. One without a step if there is none. */
function selectSteps(
  deployment_id: string,
  { process, hasStores }: { process: string | undefined; hasStores: boolean },
  { fromMs, stepMs, count }: Range,
): SQL<Row> {
  const seconds = stepMs >= HOUR_SECONDS * 1000 ? HOUR_SECONDS : MINUTE_SECONDS
  const time = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`
  const inRange = sql`p.deployment_id = ${deployment_id}::uuid
        and p.tenant_id = current_tenant()
        and p.seconds = ${seconds}
        and p.at >= ${time(fromMs)}
        and p.at < ${time(fromMs + count * stepMs)}`
  const ofProcess =
    process === undefined
      ? sql``
      : sql`${process === 'web' ? sql`left ` : sql``}join processes s
        on s.at = p.at and s.revision_id = p.revision_id and s.process = ${process}`
  const placeOf = (step: SQL) => sql`((extract(epoch from ${step}) * 1000 - ${fromMs}) / ${stepMs})::integer`
  // In the first row alone: a range has thousands.
  const stores = hasStores
    ? sql`case when row_number() over (order by s.step, s.revision_id) = 1 then (
        select json_agg(json_build_array(store, place, bytes, connections))
        from (
          select p.store, ${placeOf(sql`date_bin(${stepMs} * interval '1 millisecond', p.at, 'epoch')`)} as place,
            max(p.bytes) as bytes, max(p.connections) as connections
          from store_points p
          where ${inRange}
          group by 1, 2
          order by 1, 2
        ) of_stores
      ) end`
    : sql`null`
  return sql`
    with owner as (
      select id
      from deployments
      where id = ${deployment_id}::uuid and tenant_id = current_tenant()),
    processes as (
      select p.*
      from process_points p
      where ${inRange}),
    points as (
      select ${pointColumns(process)}, date_bin(${stepMs} * interval '1 millisecond', p.at, 'epoch') as step
      from metric_points p
      ${ofProcess}
      where ${inRange} ${process === 'web' ? sql`and ${IS_OF_WEB}` : sql``}),
    newest as (
      select revision_id
      from points
      group by revision_id
      order by max(at) desc, revision_id
      limit ${MAX_REVISIONS}),
    moments as (
      select step, at, revision_id, ${OVER_REVISIONS}
      from points
      group by grouping sets ((step, at, revision_id), (step, at))),
    steps as (
      select step, revision_id, ${OVER_TIME}
      from moments
      where revision_id is null or revision_id in (select revision_id from newest)
      group by step, revision_id)
    select ${placeOf(sql`s.step`)},
      (select json_agg(distinct process order by process) from processes),
      ${stores},
      s.*
    from owner
    left join steps s on true
    order by 1, s.revision_id`
}

// ---- the series

const TOTAL = ''
const divide = (value: number | null, by: number | null): number | null => (value === null || !by ? null : value / by)
const round = (value: number | null, digits: number): number | null =>
  value === null ? null : Math.round(value * 10 ** digits) / 10 ** digits
const addKnown = (values: (number | null)[]): number | null =>
  values.every(value => value === null) ? null : values.reduce<number>((sum, value) => sum + (value ?? 0), 0)

const latency = (fraction: number) => (sums: Sums) => {
  const counts = latencyColumns.map(name => sums[name])
  return round(
    quantileOf(
      counts.map(count => count ?? 0),
      fraction,
    ),
    2,
  )
}
const VALUES: Record<RevisionMetricName, (sums: Sums) => number | null> = {
  cpu: ({ cpu_ms, cpu_minutes }) => round(divide(divide(cpu_ms, cpu_minutes), MINUTE_SECONDS * 1000), 4),
  memory: ({ memory_bytes, memory_minutes }) => round(divide(memory_bytes, memory_minutes), 0),
  memory_peak: ({ memory_peak_bytes }) => memory_peak_bytes,
  copies: ({ copies }) => copies,
  restarts: ({ restarts }) => restarts,
  requests: sums => addKnown([...statusColumns.map(name => sums[name]), sums.unreached]),
  status_1xx: sums => sums.status_1xx,
  status_2xx: sums => sums.status_2xx,
  status_3xx: sums => sums.status_3xx,
  status_4xx: sums => sums.status_4xx,
  status_5xx: sums => addKnown([sums.status_5xx, sums.unreached]),
  unreached: sums => sums.unreached,
  queue: ({ queue }) => queue,
  latency_p50: latency(0.5),
  latency_p95: latency(0.95),
  latency_p99: latency(0.99),
}

const STORE_VALUES: Record<StoreMetricName, { kind: StoreKind; member: 'bytes' | 'connections' }> = {
  database_size: { kind: 'database', member: 'bytes' },
  database_connections: { kind: 'database', member: 'connections' },
  redis_memory: { kind: 'redis', member: 'bytes' },
  disk_size: { kind: 'disk', member: 'bytes' },
}

type StoreStep = [store: string, place: number, bytes: number | null, connections: number | null]
type StepRow = [
  place: string | null,
  processes: string | null,
  stores: string | null,
  step: string,
  revision_id: string | null,
  ...sums: (string | null)[],
]

/** Agents report a minute after its end, and the revisions of a deployment may be in two requests. */
const SETTLED_MS = 2 * 60_000

function toAnswer(
  rows: StepRow[],
  { fromMs, stepMs, count }: Range,
  metrics: MetricName[],
  now: number,
): MetricsAnswer {
  /** No copies in the newest minutes are not known yet: the point of those that serve may be on its way. */
  const showValue = (metric: RevisionMetricName, sums: Sums, place: number): number | null =>
    metric === 'copies' && sums.copies === 0 && fromMs + (place + 1) * stepMs > now - SETTLED_MS
      ? null
      : VALUES[metric](sums)
  const stepsByRevision = new Map<string, Map<number, Sums>>([[TOTAL, new Map()]])
  for (const [place, , , , revision_id, ...values] of rows) {
    if (place === null) continue
    const sums = Object.fromEntries(SUM_NAMES.map((name, i) => [name, values[i] == null ? null : Number(values[i])]))
    const revision = revision_id ?? TOTAL
    const steps = stepsByRevision.get(revision) ?? new Map<number, Sums>()
    stepsByRevision.set(revision, steps.set(Number(place), sums as Sums))
  }
  const places = Array.from({ length: count }, (_, i) => i)
  const storeSteps = Map.groupBy<string, StoreStep>(JSON.parse(rows[0]?.[2] ?? '[]'), ([store]) => store)
  const series = metrics.flatMap((metric): MetricsAnswer['series'] => {
    if (isStoreMetric(metric)) return toStoreSeries(metric, storeSteps, count)
    return [...stepsByRevision].map(([revision, steps]) => ({
      metric,
      unit: METRICS[metric].unit,
      revision_id: revision === TOTAL ? null : revision,
      values: places.map(place => {
        const sums = steps.get(place)
        return sums ? showValue(metric, sums, place) : null
      }),
    }))
  })
  const toTime = (ms: number) => new Date(ms).toISOString()
  return {
    from: toTime(fromMs),
    to: toTime(fromMs + count * stepMs),
    step: stepMs / 1000,
    processes: JSON.parse(rows[0]?.[1] ?? '[]'),
    series,
  }
}

function toStoreSeries(
  metric: StoreMetricName,
  storeSteps: Map<string, StoreStep[]>,
  count: number,
): MetricsAnswer['series'] {
  const { kind, member } = STORE_VALUES[metric]
  return [...storeSteps]
    .filter(([store]) => kindOfStore(store) === kind)
    .map(([store, steps]) => {
      const values: (number | null)[] = Array(count).fill(null)
      for (const [, place, bytes, connections] of steps) values[place] = member === 'bytes' ? bytes : connections
      return { metric, unit: METRICS[metric].unit, revision_id: null, store, values }
    })
    .filter(({ values }) => values.some(value => value !== null))
}

export const readMetrics = verb(
  'deployments:read',
  async (
    ctx: Ctx,
    { deployment_id, metrics = metricNames, process, ...query }: z.output<typeof DeploymentRef> & MetricsQuery,
  ) => {
    const now = ctx.platform.clock.now()
    const range = chooseRange(query, now)
    const hasStores = process === undefined && metrics.some(isStoreMetric)
    const rows = (await run(ctx, selectSteps(deployment_id, { process, hasStores }, range))) as StepRow[]
    requireRow(rows, 'deployment_not_found')
    return toAnswer(rows, range, [...new Set(metrics)], now)
  },
)
