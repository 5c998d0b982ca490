// Computes the value of a metric from the sums of a window (pure).
import type { ConditionOf } from '../../protocol/alerts.schema.ts'
import type { MetricPoint } from '../../protocol/metrics.schema.ts'
import { quantileOf } from '../metrics/quantile.ts'

/** The use and the answers of the copies of a deployment in a window. Null: not measured. */
export type MetricSums = {
  /** The number of minutes of the window that have points. */
  minutes: number
  requests: number | null
  errors: number | null
  restarts: number | null
  cpu_ms: number | null
  memory_peak_bytes: number | null
  /** In the newest minute. */
  copies: number | null
  queue: number | null
  /** Answers by the buckets of `LATENCY_BOUNDS_MS`. */
  latencies: number[] | null
  memory_limit_mb: number | null
  /** The share of the fullest store. */
  disk: number | null
}

type Metric = ConditionOf<'metric'>['metric']

const MINUTE_MS = 60_000
const MIB = 1024 * 1024

const VALUES: Record<Metric, (sums: MetricSums) => number | null> = {
  error_rate: ({ requests, errors }) => (requests === null ? null : requests === 0 ? 0 : (errors ?? 0) / requests),
  requests: ({ requests, minutes }) => (requests === null || minutes === 0 ? null : requests / minutes),
  latency_p50: ({ latencies }) => latencies && quantileOf(latencies, 0.5),
  latency_p95: ({ latencies }) => latencies && quantileOf(latencies, 0.95),
  latency_p99: ({ latencies }) => latencies && quantileOf(latencies, 0.99),
  cpu: ({ cpu_ms, minutes }) => (cpu_ms === null || minutes === 0 ? null : cpu_ms / (minutes * MINUTE_MS)),
  memory: ({ memory_peak_bytes, memory_limit_mb }) =>
    memory_peak_bytes === null || !memory_limit_mb ? null : memory_peak_bytes / (memory_limit_mb * MIB),
  disk: ({ disk }) => disk,
  restarts: ({ restarts }) => restarts,
  copies: ({ copies }) => copies,
  queue: ({ queue }) => queue,
}

export const metricValue = (metric: Metric, sums: MetricSums): number | null =>
  sums.minutes === 0 && metric !== 'disk' ? null : VALUES[metric](sums)

const addKnown = (one: number | null, other: number | null): number | null =>
  one === null ? other : other === null ? one : one + other
const sumOf = (values: (number | null | undefined)[]): number | null =>
  values.reduce<number | null>((sum, value) => addKnown(sum, value ?? null), null)

/** Adds the points of a minute that is not over. They are never stored. */
export function addEarlyPoints(sums: MetricSums, points: MetricPoint[]): MetricSums {
  if (points.length === 0) return sums
  const copies = points.flatMap(point => point.copies)
  const statuses = copies.flatMap(copy => (copy.statuses ? [copy.statuses] : []))
  const latencies = copies.flatMap(copy => (copy.latencies ? [copy.latencies] : []))
  const unreached = sumOf(points.map(point => point.unreached))
  const answers = statuses.length === 0 ? null : statuses.flat().reduce((sum, count) => sum + count, 0)
  const failures = statuses.length === 0 ? null : statuses.reduce((sum, counts) => sum + counts.at(-1)!, 0)
  const depths = points.flatMap(({ queue }) => queue ?? [])
  const peaks = copies.flatMap(({ memory_bytes }) => memory_bytes ?? [])
  return {
    ...sums,
    minutes: sums.minutes + 1,
    requests: addKnown(sums.requests, addKnown(answers, unreached)),
    errors: addKnown(sums.errors, addKnown(failures, unreached)),
    restarts: addKnown(sums.restarts, sumOf(copies.map(copy => copy.restarts))),
    cpu_ms: addKnown(sums.cpu_ms, sumOf(copies.map(copy => copy.cpu_ms))),
    memory_peak_bytes: peaks.length === 0 ? sums.memory_peak_bytes : Math.max(sums.memory_peak_bytes ?? 0, ...peaks),
    copies: copies.filter(({ running }) => running).length,
    queue: depths.length === 0 ? sums.queue : Math.max(...depths),
    latencies:
      latencies.length === 0
        ? sums.latencies
        : latencies.reduce(
            (sum, counts) => sum.map((count, i) => count + (counts[i] ?? 0)),
            [...(sums.latencies ?? latencies[0]!.map(() => 0))],
          ),
  }
}
