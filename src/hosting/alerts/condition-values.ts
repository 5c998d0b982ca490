// The value of a watched condition, and its sentence for people (pure).
import type { StoredCondition } from '../../protocol/alerts.schema.ts'
import type { MetricPoint } from '../../protocol/metrics.schema.ts'
import type { Condition, Sample } from './decide.ts'
import { addEarlyPoints, metricValue } from './metric-values.ts'
import type { Watched } from './samples.ts'

const NO_CALM = { resolveAfterMs: 0 }

/** A condition on counts holds from `count` on, and an event is the value 1. */
export function toCondition({ rule }: Pick<Watched, 'rule'>): Condition {
  const { condition, for_seconds, resolve_after_seconds } = rule
  const times = { forMs: for_seconds * 1000, resolveAfterMs: resolve_after_seconds * 1000 }
  switch (condition.kind) {
    case 'metric':
    case 'trace':
      return {
        operator: condition.operator,
        threshold: condition.threshold,
        clearThreshold: condition.clear_threshold ?? condition.threshold,
        ...times,
      }
    case 'log':
      return { operator: 'above', threshold: condition.count - 1, clearThreshold: condition.count - 1, ...times }
    case 'event':
      // The window of events that nothing ends is already as long as the calm.
      return {
        operator: 'above',
        threshold: 0,
        clearThreshold: 0,
        ...times,
        ...(condition.ends.length === 0 && NO_CALM),
      }
  }
}

/** Reads samples of all kinds but traces. `early`: the points of the deployment in the minute that is not over. */
export function readSample({ rule, sums, signals }: Watched, at: number, early: MetricPoint[] = []): Sample {
  const { condition } = rule
  switch (condition.kind) {
    case 'metric': {
      if (!sums) return { at, value: null }
      const all = addEarlyPoints(sums, early)
      const isEnough = (all.requests ?? 0) >= condition.min_requests
      return { at, value: metricValue(condition.metric, all), isEnough }
    }
    case 'log':
      return { at, value: signals?.count ?? 0 }
    case 'event':
      if (!signals || signals.isEnded) return { at, value: 0 }
      return { at, value: condition.ends.length > 0 ? Number(signals.cause !== null) : Math.min(signals.count, 1) }
    case 'trace':
      return { at, value: null }
  }
}

const LOOK_MS = 30_000
/** Counts of lines and of events fall by time alone, so they are looked at again. */
export const fallsByTime = (condition: StoredCondition): boolean =>
  condition.kind === 'log' || (condition.kind === 'event' && condition.ends.length === 0)
export const nextLook = (at: number): number => at + LOOK_MS

const SHARES: readonly string[] = ['error_rate', 'memory', 'disk']
const UNITS: Record<string, string> = {
  latency_p50: ' ms',
  latency_p95: ' ms',
  latency_p99: ' ms',
  cpu: ' cores',
  requests: ' requests a minute',
}
const NAMES: Record<string, string> = {
  error_rate: 'The error rate',
  requests: 'The number of requests',
  latency_p50: 'The median latency',
  latency_p95: 'The 95th percentile of the latency',
  latency_p99: 'The 99th percentile of the latency',
  cpu: 'The CPU use',
  memory: 'The memory use of a copy',
  disk: 'The fullest disk',
  restarts: 'The number of restarts',
  copies: 'The number of copies',
  queue: 'The number of waiting tasks',
  cost: 'The cost',
  feedback: 'The average score',
  traces: 'The number of traces',
}

const round = (value: number): number => Number(value.toPrecision(3))
export const unitOf = (condition: StoredCondition): string => {
  if (condition.kind === 'log') return 'lines'
  if (condition.kind === 'event') return ''
  if (condition.kind === 'trace') return condition.metric === 'cost' ? 'USD' : ''
  return SHARES.includes(condition.metric) ? '%' : (UNITS[condition.metric] ?? '').trim()
}

function showValue(condition: StoredCondition, value: number): string {
  if (condition.kind !== 'metric' && condition.kind !== 'trace') return String(value)
  if (SHARES.includes(condition.metric)) return `${round(value * 100)} %`
  if (condition.kind === 'trace' && condition.metric === 'cost') return `$${round(value)}`
  if (condition.kind === 'trace' && condition.metric.startsWith('latency')) return `${round(value)} s`
  return `${round(value)}${UNITS[condition.metric] ?? ''}`
}

const showSeconds = (seconds: number): string =>
  seconds % 3600 === 0 ? `${seconds / 3600} h` : seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`

/** Events without a message. */
const EVENTS: Record<string, string> = {
  'custom_host.lost': 'The custom domain was lost.',
  'deployment.crash_looping': 'It crashes again and again.',
  'deployment.health_flapping': 'Its health changed six times within an hour.',
  'deployment.unhealthy': 'It is not healthy.',
  'listener.lost': 'Its agent has been silent for five minutes.',
  'revision.build_failed': 'A revision failed to build.',
  'revision.create_failed': 'A revision could not be created.',
  'revision.deploy_failed': 'A revision failed to deploy.',
}

/** The sentence that says what holds. An event says it by itself. */
export function describeValue({ rule, signals }: Watched, value: number): string {
  const { condition } = rule
  if (condition.kind === 'event') {
    const cause = signals?.cause ?? ''
    return EVENTS[cause] ?? (/^[a-z_]+\.[a-z_]+$/.test(cause) ? `The event ${cause} was recorded.` : cause)
  }
  const window = showSeconds(condition.window_seconds)
  if (condition.kind === 'log')
    return `${value === 1 ? '1 line contains' : `${value} lines contain`} “${condition.contains}” within ${window}.`
  const { metric, operator, threshold } = condition
  const limit = showValue(condition, threshold)
  return `${NAMES[metric]} is ${showValue(condition, value)} over ${window}, ${operator} ${limit}.`
}
