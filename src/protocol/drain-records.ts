// The records of drains before they are written in the words of a receiver: lines, requests, events and metrics.
import type { levels } from './logs.schema.ts'

export type Scalar = string | number | boolean
export type Attributes = Record<string, Scalar>

export type LogRecord = {
  time: string
  level: (typeof levels)[number]
  message: string
  attributes?: Attributes
}

export type MetricValue = { name: string; unit: string; attributes?: Attributes } & (
  | { kind: 'gauge' | 'sum'; value: number }
  /** `counts` has one more than `bounds`. */
  | { kind: 'histogram'; bounds: readonly number[]; counts: number[] }
)
/** Sums and histograms count from `since`. */
export type MetricRecord = { time: string; since: string; attributes: Attributes; values: MetricValue[] }

/** Records of one source. `resource` has names of OpenTelemetry. */
export type LogGroup = { signal: 'logs' | 'requests' | 'events'; resource: Attributes; records: LogRecord[] }
export type MetricGroup = { signal: 'metrics'; resource: Attributes; records: MetricRecord[] }
export type DrainGroup = LogGroup | MetricGroup

/** A request of OTLP has either lines or metrics. */
export const isOfMetrics = (group: DrainGroup): group is MetricGroup => group.signal === 'metrics'
