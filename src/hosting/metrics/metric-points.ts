// Stores the points of metrics: a row for each minute of a revision, added to the row of its hour.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, uuidArray } from '../../kernel/db/db.ts'
import { statusClasses } from '../../protocol/latency-histogram.ts'
import type { CopyMetrics, MetricPoint } from '../../protocol/metrics.schema.ts'
import { COUNTERS } from './tables.ts'

export const MINUTE_SECONDS = 60
export const HOUR_SECONDS = 3600
/** Bounds the rows of a deployment, which a build for every push would otherwise multiply. */
const MAX_REVISIONS_PER_HOUR = 12
const MAX_AGE = sql`interval '1 hour'`

export const counterNames = Object.keys(COUNTERS) as (keyof typeof COUNTERS)[]
export const statusColumns = statusClasses.map(name => `status_${name}` as const)
export const latencyColumns = counterNames.filter(name => name.startsWith('latency_'))

const identifiers = (names: readonly string[]) =>
  sql.join(
    names.map(name => sql.identifier(name)),
    sql`, `,
  )
/** Counters of a process type. */
export const usageNames = ['restarts', 'cpu_ms', 'memory_bytes'] as const
const COUNTER_COLUMNS = identifiers(counterNames)

/** The most at once: of several copies or revisions, not their sum. */
export const peakNames = ['memory_peak_bytes', 'queue'] as const
const PEAK_COLUMNS = identifiers(peakNames)

type Point = Record<(typeof counterNames | typeof peakNames)[number], number | null> & {
  deployment_id: string
  revision_id: string
  at: string
  copies: number
}

/** Null if no copy has the value. */
const sum = (values: (number | null | undefined)[]): number | null => {
  const known = values.filter(value => value != null)
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0)
}

/** Sums what these copies used. */
function sumUsage(copies: CopyMetrics[]) {
  const memory = copies.flatMap(({ memory_bytes }) => memory_bytes ?? [])
  return {
    copies: copies.filter(({ running }) => running).length,
    cpu_ms: sum(copies.map(({ cpu_ms }) => cpu_ms)),
    restarts: sum(copies.map(({ restarts }) => restarts)) ?? 0,
    memory_bytes: sum(memory),
    memory_peak_bytes: memory.length > 0 ? Math.max(...memory) : null,
  }
}

/** None if all copies are of `web`, or if the agent does not tell their types. */
function splitByProcess({ copies }: MetricPoint) {
  const byProcess = Map.groupBy(copies, ({ process }) => process)
  const processes = [...byProcess.keys()]
  if (processes.every(process => process == null || process === 'web')) return []
  return [...byProcess].flatMap(([process, own]) => (process == null ? [] : { process, ...sumUsage(own) }))
}

function sumCopies({ deployment_id, revision_id, at, unreached, queue, copies }: MetricPoint): Point {
  const sumOf = (read: (copy: CopyMetrics) => number | null | undefined) => sum(copies.map(read))
  const statuses = statusColumns.map((name, i) => [name, sumOf(({ statuses }) => statuses?.[i])])
  const latencies = latencyColumns.map((name, i) => [name, sumOf(({ latencies }) => latencies?.[i])])
  return {
    deployment_id,
    revision_id,
    at,
    unreached: unreached ?? null,
    queue: queue ?? null,
    ...sumUsage(copies),
    ...Object.fromEntries([...statuses, ...latencies]),
  } as Point
}

const POINT_DEFINITION = sql.join(
  [
    sql`deployment_id uuid, revision_id uuid, at timestamptz, copies integer`,
    ...[...peakNames, ...counterNames].map(name => sql`${sql.identifier(name)} bigint`),
  ],
  sql`, `,
)

/** Locks the deployments of the points, in the order of every write, before the rows that refer to them. */
export const lockDeploymentsOf = (points: MetricPoint[]): SQL => sql`
  select from deployments d
  where d.id = any(${uuidArray(points.map(({ deployment_id }) => deployment_id))})
    and d.listener_id = current_listener()
  order by d.id
  for key share`

const POINT_CODE = sql`case
      when r.id is null then 'revision_unknown'
      when g.at > clock() then 'time_ahead'
      when g.at <= clock() - ${MAX_AGE} then 'time_passed'
    end`

const KEY_COLUMNS = sql`organization_id, tenant_id, deployment_id, revision_id, seconds, at`
const POINT_COLUMNS = sql`cpu_minutes, memory_minutes, copies, ${PEAK_COLUMNS}, ${COUNTER_COLUMNS}`

/** Averages divide by the minutes that were measured, of which several revisions may share one. */
const minuteBit = (value: SQL, at = sql`at`): SQL =>
  sql`case when ${value} is null then 0 else 1::bigint << extract(minute from ${at} at time zone 'UTC')::integer end`

const SUMS = sql.join(
  counterNames.map(name => sql`sum(${sql.identifier(name)})`),
  sql`, `,
)
const addUp = (names: readonly string[]) =>
  sql.join(
    names.map(name => {
      const column = sql.identifier(name)
      return sql`${column} = coalesce(p.${column} + excluded.${column}, p.${column}, excluded.${column})`
    }),
    sql`,
        `,
  )
const MERGED_COUNTERS = addUp(counterNames)

const STORE_KEY_COLUMNS = sql`organization_id, tenant_id, deployment_id, store, seconds, at`
const PROCESS_COLUMNS = sql`process, cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms,
        memory_bytes`
/** The stores of a deployment bound the rows. */
const STORES = sql`,
    stores as (
      select distinct on (m.deployment_id, m.at, s.store) m.organization_id, m.tenant_id, m.deployment_id, m.at, s.*
      from minutes m
      join judged j on j.deployment_id = m.deployment_id and j.revision_id = m.revision_id and j.at = m.at
      join deployments d on d.id = m.deployment_id
      cross join jsonb_to_recordset(j.stores) as s(store text, bytes bigint, connections bigint)
      where s.store = any(
          stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
        )
      order by m.deployment_id, m.at, s.store),
    store_minutes as (
      insert into store_points (${STORE_KEY_COLUMNS}, bytes, connections)
      select organization_id, tenant_id, deployment_id, store, ${MINUTE_SECONDS}, at, bytes, connections
      from stores
      order by deployment_id, at, store
      on conflict do nothing
      returning *),
    store_hours as (
      insert into store_points as p (${STORE_KEY_COLUMNS}, bytes, connections)
      select organization_id, tenant_id, deployment_id, store, ${HOUR_SECONDS}, date_bin('1 hour', at, 'epoch'),
        max(bytes), max(connections)
      from store_minutes
      group by organization_id, tenant_id, deployment_id, store, date_bin('1 hour', at, 'epoch')
      order by deployment_id, date_bin('1 hour', at, 'epoch'), store
      on conflict (deployment_id, seconds, at, store) do update set
        bytes = greatest(p.bytes, excluded.bytes),
        connections = greatest(p.connections, excluded.connections))`

/**
 * One statement stores the minutes and adds the new ones to their hours, so a repeated point changes nothing. Its rows
 * are the places and codes of the points that are refused.
 */
export function appendPoints(points: MetricPoint[]): SQL<Row> {
  const rows = JSON.stringify(
    points.map((point, place) => ({
      ...sumCopies(point),
      place,
      processes: splitByProcess(point),
      stores: point.stores ?? [],
    })),
  )
  const hasStores = points.some(({ stores }) => (stores?.length ?? 0) > 0)
  return sql`
    with reported as (
      select g.*, d.organization_id, d.tenant_id, date_bin('1 hour', g.at, 'epoch') as hour, ${POINT_CODE} as code
      from jsonb_to_recordset(${rows}::jsonb) as g(place integer, processes jsonb, stores jsonb, ${POINT_DEFINITION})
      left join deployments d on d.id = g.deployment_id and d.listener_id = current_listener()
      left join revisions r on r.id = g.revision_id and r.deployment_id = d.id),
    hours as (
      select distinct deployment_id, hour
      from reported
      where code is null),
    known as (
      select p.deployment_id, p.at as hour, array_agg(p.revision_id) as revision_ids
      from hours h
      join metric_points p
        on p.deployment_id = h.deployment_id and p.seconds = ${HOUR_SECONDS} and p.at = h.hour
      group by p.deployment_id, p.at),
    judged as (
      select g.*, g.revision_id = any(k.revision_ids) as is_known,
        coalesce(cardinality(k.revision_ids), 0) + dense_rank() over (
          partition by g.deployment_id, g.hour, g.code is null, g.revision_id = any(k.revision_ids)
          order by g.revision_id) as nth
      from reported g
      left join known k on k.deployment_id = g.deployment_id and k.hour = g.hour),
    refused as (
      select place,
        coalesce(code, case
          when is_known is not true and nth > ${MAX_REVISIONS_PER_HOUR} then 'too_many_revisions'
        end) as code
      from judged),
    minutes as (
      insert into metric_points (${KEY_COLUMNS}, ${POINT_COLUMNS})
      select organization_id, tenant_id, deployment_id, revision_id, ${MINUTE_SECONDS}, at,
        ${minuteBit(sql`cpu_ms`)}, ${minuteBit(sql`memory_bytes`)}, copies, ${PEAK_COLUMNS},
        ${COUNTER_COLUMNS}
      from judged j
      where (select f.code from refused f where f.place = j.place) is null
      order by deployment_id, revision_id, at
      on conflict do nothing
      returning *),
    rolled_up as (
      insert into metric_points as p (${KEY_COLUMNS}, ${POINT_COLUMNS})
      select organization_id, tenant_id, deployment_id, revision_id, ${HOUR_SECONDS},
        date_bin('1 hour', at, 'epoch'), bit_or(cpu_minutes), bit_or(memory_minutes), max(copies),
        max(memory_peak_bytes), max(queue), ${SUMS}
      from minutes
      group by organization_id, tenant_id, deployment_id, revision_id, date_bin('1 hour', at, 'epoch')
      order by deployment_id, revision_id, date_bin('1 hour', at, 'epoch')
      on conflict (deployment_id, seconds, at, revision_id) do update set
        cpu_minutes = p.cpu_minutes | excluded.cpu_minutes,
        memory_minutes = p.memory_minutes | excluded.memory_minutes,
        copies = greatest(p.copies, excluded.copies),
        memory_peak_bytes = greatest(p.memory_peak_bytes, excluded.memory_peak_bytes),
        queue = greatest(p.queue, excluded.queue),
        ${MERGED_COUNTERS}),
    process_minutes as (
      insert into process_points (${KEY_COLUMNS}, ${PROCESS_COLUMNS})
      select m.organization_id, m.tenant_id, m.deployment_id, m.revision_id, m.seconds, m.at,
        s.process, ${minuteBit(sql`s.cpu_ms`, sql`m.at`)}, ${minuteBit(sql`s.memory_bytes`, sql`m.at`)}, s.copies,
        s.memory_peak_bytes, s.restarts, s.cpu_ms, s.memory_bytes
      from minutes m
      join judged j on j.deployment_id = m.deployment_id and j.revision_id = m.revision_id and j.at = m.at
      cross join jsonb_to_recordset(j.processes) as s(process text, copies integer, cpu_ms bigint, restarts bigint,
        memory_bytes bigint, memory_peak_bytes bigint)
      order by m.deployment_id, m.revision_id, m.at, s.process
      on conflict do nothing
      returning *),
    process_hours as (
      insert into process_points as p (${KEY_COLUMNS}, ${PROCESS_COLUMNS})
      select organization_id, tenant_id, deployment_id, revision_id, ${HOUR_SECONDS}, date_bin('1 hour', at, 'epoch'),
        process, bit_or(cpu_minutes), bit_or(memory_minutes), max(copies), max(memory_peak_bytes), sum(restarts),
        sum(cpu_ms), sum(memory_bytes)
      from process_minutes
      group by organization_id, tenant_id, deployment_id, revision_id, date_bin('1 hour', at, 'epoch'), process
      order by deployment_id, revision_id, date_bin('1 hour', at, 'epoch'), process
      on conflict (deployment_id, seconds, at, revision_id, process) do update set
        cpu_minutes = p.cpu_minutes | excluded.cpu_minutes,
        memory_minutes = p.memory_minutes | excluded.memory_minutes,
        copies = greatest(p.copies, excluded.copies),
        memory_peak_bytes = greatest(p.memory_peak_bytes, excluded.memory_peak_bytes),
        ${addUp(usageNames)})${hasStores ? STORES : sql``}
    select place, code
    from refused
    where code is not null
    order by place`
}
