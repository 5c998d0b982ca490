// The charts of a tracing project as series of values over time (pure).
import type { Dashboard } from '../../api/project-dashboard.ts'
import { formatCost, formatCount, formatLatency, formatShare } from '../../format/amount.ts'
import type { PlotTone } from '../../parts/chart-plot.tsx'

type Chart = Dashboard['sub_sections'][number]['charts'][number]
export type Line = { name: string; metric: string; values: (number | null)[] }
export type Series = { id: string; title: string; times: number[]; lines: Line[] }

/** Collects the series of all sections, by their id. */
export const toSeries = (dashboard: Dashboard): Series[] =>
  dashboard.sub_sections.flatMap(section => section.charts.map(chart => readChart(section.id, chart)))

function readChart(section: string, { id, title, series, data }: Chart): Series {
  const bySeries = Map.groupBy(data, ({ series_id }) => series_id)
  const lines = series.map(({ id, name, metric }) => ({
    name,
    metric,
    values: (bySeries.get(id) ?? []).map(({ value }) => value),
  }))
  const times = (bySeries.get(series[0]?.id ?? '') ?? []).map(({ timestamp }) => Date.parse(timestamp) / 1000)
  return { id: section === 'feedback' ? `feedback-${id}` : id, title, times, lines }
}

export const valuesOf = (all: Series[], metric: string): (number | null)[] =>
  all.flatMap(({ lines }) => lines).find(line => line.metric === metric)?.values ?? []

export const sum = (values: (number | null)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0)

export function formatOf(metric: string): (value: number) => string {
  if (metric.includes('latency') || metric.startsWith('first_token')) return formatLatency
  if (metric.endsWith('rate')) return formatShare
  if (metric.endsWith('cost')) return formatCost
  return metric.startsWith('feedback') ? value => String(Number(value.toFixed(2))) : formatCount
}

const TONES: Record<string, PlotTone> = {
  run_count: 'accent',
  error_count: 'bad',
  error_rate: 'bad',
  latency_p50: 'accent',
  latency_p99: 'violet',
  first_token_p50: 'accent',
  first_token_p99: 'violet',
  prompt_tokens: 'cyan',
  prompt_cost: 'cyan',
  completion_tokens: 'violet',
  completion_cost: 'violet',
}
export const toneOf = (metric: string): PlotTone => TONES[metric] ?? 'accent'

/** Told apart without colors. */
const DASHES: Record<string, number[]> = {
  latency_p99: [6, 3],
  first_token_p99: [6, 3],
  prompt_tokens: [3, 3],
  prompt_cost: [3, 3],
  completion_tokens: [6, 3],
  completion_cost: [6, 3],
}
export const dashOf = (metric: string): number[] | undefined => DASHES[metric]

export const hasValues = ({ lines }: Series): boolean => lines.some(({ values }) => values.some(value => value))
