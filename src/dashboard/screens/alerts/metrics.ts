// The values that conditions compare, with their units (pure).
export type Metric = {
  label: string
  unit: string
  /** A value of the API is this share of one that people write. */
  scale?: number
}
const SHARE = { unit: '%', scale: 0.01 }

export const METRICS: Record<string, Metric> = {
  error_rate: { label: 'Error rate', ...SHARE },
  requests: { label: 'Requests', unit: 'a minute' },
  latency_p50: { label: 'Median latency', unit: 'ms' },
  latency_p95: { label: 'Latency, 95th percentile', unit: 'ms' },
  latency_p99: { label: 'Latency, 99th percentile', unit: 'ms' },
  cpu: { label: 'CPU', unit: 'cores' },
  memory: { label: 'Memory of the largest copy', ...SHARE },
  disk: { label: 'Fill of the fullest disk', ...SHARE },
  restarts: { label: 'Restarts', unit: '' },
  copies: { label: 'Copies', unit: '' },
  queue: { label: 'Waiting tasks', unit: '' },
}

export const TRACE_METRICS: Record<string, Metric> = {
  error_rate: { label: 'Failed traces', ...SHARE },
  latency_p50: { label: 'Median latency', unit: 's' },
  latency_p99: { label: 'Latency, 99th percentile', unit: 's' },
  cost: { label: 'Cost', unit: '$' },
  feedback: { label: 'Average score', unit: '' },
  traces: { label: 'Traces', unit: '' },
}

/** Without noise of the division: 0.07 is 7, not 7.000000000000001. */
const round = (value: number): number => Number(value.toPrecision(12))

export const toWritten = (value: number | null | undefined, scale = 1): string =>
  value == null ? '' : String(round(value / scale))

/** The API refuses what is no number, and says so at the field. */
export function toNumber(text: string, scale = 1): number {
  const written = text.trim().replace(',', '.')
  const value = Number(written)
  return written === '' || Number.isNaN(value) ? (text as never) : round(value * scale)
}
export const toOptional = (text: string, scale?: number): number | null =>
  text.trim() === '' ? null : toNumber(text, scale)

/** Seconds, written as minutes. */
export const toSeconds = (minutes: string): number => {
  const seconds = toNumber(minutes, 60)
  return typeof seconds === 'number' ? Math.round(seconds) : seconds
}
export const toMinutes = (seconds: number): string => String(Number((seconds / 60).toFixed(4)))
