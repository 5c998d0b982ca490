// Writes metrics as OpenMetrics text, which Prometheus reads. Pure.
import { LATENCY_BOUNDS_MS } from './latency-histogram.ts'

export const OPEN_METRICS_TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

type Labels = Record<string, string>
/** `counts` are of each bucket alone, not cumulated. */
type Histogram = { counts: number[]; sumMs?: number }
export type MetricFamily = { name: string; help: string } & (
  | { type: 'counter' | 'gauge' | 'info'; samples: { labels?: Labels; value: number }[] }
  | { type: 'histogram'; samples: { labels?: Labels; value: Histogram }[] }
)

const SUFFIXES = { counter: '_total', gauge: '', info: '_info' }
const BOUNDS = [...LATENCY_BOUNDS_MS.map(ms => String(ms / 1000)), '+Inf']

const escapeText = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
function formatLabels(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeText(value)}"`)
  return pairs.length > 0 ? `{${pairs.join()}}` : ''
}

function formatHistogram(name: string, labels: Labels | undefined, { counts, sumMs }: Histogram): string[] {
  let total = 0
  const buckets = BOUNDS.map((le, i) => {
    total += counts[i] ?? 0
    return `${name}_bucket${formatLabels({ ...labels, le })} ${total}`
  })
  const sums =
    sumMs === undefined
      ? []
      : [`${name}_count${formatLabels(labels)} ${total}`, `${name}_sum${formatLabels(labels)} ${sumMs / 1000}`]
  return [...buckets, ...sums]
}

export function formatOpenMetrics(families: MetricFamily[]): string {
  const lines = families.flatMap(family => {
    const { name, type, help } = family
    const samples =
      family.type === 'histogram'
        ? family.samples.flatMap(({ labels, value }) => formatHistogram(name, labels, value))
        : family.samples.map(({ labels, value }) => `${name}${SUFFIXES[family.type]}${formatLabels(labels)} ${value}`)
    return [`# TYPE ${name} ${type}`, `# HELP ${name} ${escapeText(help)}`, ...samples]
  })
  return `${[...lines, '# EOF'].join('\n')}\n`
}
