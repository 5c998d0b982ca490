// The charts of a project (pure): from the values of each point to series.
import type * as schema from './project-dashboard.schema.ts'

export type Metric =
  | 'run_count'
  | 'error_count'
  | 'error_rate'
  | 'streaming_rate'
  | 'latency_p50'
  | 'latency_p99'
  | 'first_token_p50'
  | 'first_token_p99'
  | 'total_tokens'
  | 'prompt_tokens'
  | 'completion_tokens'
  | 'total_cost'
  | 'prompt_cost'
  | 'completion_cost'
/** Nothing happened, as opposed to nothing being known. */
const ADDS_UP = /count|tokens|cost/

type ChartPlan = { title: string; type: schema.Chart['chart_type']; series: [name: string, metric: Metric][] }
const SECTIONS: { title: string; charts: ChartPlan[] }[] = [
  {
    title: 'Traces',
    charts: [
      {
        title: 'Traces',
        type: 'bar',
        series: [
          ['All', 'run_count'],
          ['Failed', 'error_count'],
        ],
      },
      {
        title: 'Latency',
        type: 'line',
        series: [
          ['Median', 'latency_p50'],
          ['99th percentile', 'latency_p99'],
        ],
      },
      { title: 'Error rate', type: 'line', series: [['Error rate', 'error_rate']] },
      {
        title: 'Time to the first token',
        type: 'line',
        series: [
          ['Median', 'first_token_p50'],
          ['99th percentile', 'first_token_p99'],
        ],
      },
      { title: 'Streaming rate', type: 'line', series: [['Streaming rate', 'streaming_rate']] },
    ],
  },
  {
    title: 'Tokens and costs',
    charts: [
      {
        title: 'Tokens',
        type: 'bar',
        series: [
          ['Prompt', 'prompt_tokens'],
          ['Completion', 'completion_tokens'],
          ['All', 'total_tokens'],
        ],
      },
      {
        title: 'Cost',
        type: 'bar',
        series: [
          ['Prompt', 'prompt_cost'],
          ['Completion', 'completion_cost'],
          ['All', 'total_cost'],
        ],
      },
    ],
  },
]

type Point = { at: number } & Partial<Record<Metric, number | null>>
type FeedbackPoint = { at: number; key: string; score: number | null }

export type Data = { points: Point[]; feedback: FeedbackPoint[] }
const toId = (...words: string[]): string => words.join(' ').toLowerCase().replaceAll(' ', '-')

export function buildDashboard(
  project: string,
  title: string,
  { points, feedback }: Data,
  times: number[],
): schema.Dashboard {
  const byTime = new Map(points.map(point => [point.at, point]))
  const readAt = (metric: Metric) => (at: number) => byTime.get(at)?.[metric] ?? (ADDS_UP.test(metric) ? 0 : null)
  const sections = SECTIONS.map(section => ({
    title: section.title,
    charts: section.charts.map(({ title, type, series }, index) =>
      buildChart(
        { title, type, index },
        series.map(([name, metric]) => ({ name, metric, feedback_key: null, readAt: readAt(metric) })),
        times,
      ),
    ),
  }))
  sections.push({ title: 'Feedback', charts: buildFeedbackCharts(feedback, times) })
  return {
    id: project,
    session_id: project,
    title,
    description: null,
    index: 0,
    charts: [],
    sub_sections: sections.map(({ title, charts }, index) => ({
      id: toId(title),
      title,
      description: null,
      index,
      charts,
    })),
  }
}

type Line = Pick<schema.Chart['series'][number], 'name' | 'metric' | 'feedback_key'> & {
  readAt: (at: number) => number | null
}

function buildChart(
  { title, type, index }: { title: string; type: schema.Chart['chart_type']; index: number },
  lines: Line[],
  times: number[],
): schema.Chart {
  const id = toId(title)
  const series = lines.map(line => ({ ...line, id: toId(id, line.name) }))
  return {
    id,
    title,
    description: null,
    index,
    chart_type: type,
    common_filters: null,
    metadata: null,
    series: series.map(({ readAt: _, ...line }) => ({ ...line, filters: null, group_by: null })),
    data: series.flatMap(line =>
      times.map(at => ({
        series_id: line.id,
        timestamp: new Date(at).toISOString(),
        value: line.readAt(at),
        group: null,
      })),
    ),
  }
}

const MAX_FEEDBACK_KEYS = 20

/** A chart for each key with the most points. */
function buildFeedbackCharts(feedback: FeedbackPoint[], times: number[]): schema.Chart[] {
  const byKey = Map.groupBy(feedback, ({ key }) => key)
  const keys = [...byKey.keys()].sort((a, b) => byKey.get(b)!.length - byKey.get(a)!.length || (a < b ? -1 : 1))
  return keys.slice(0, MAX_FEEDBACK_KEYS).map((key, index) => {
    const scores = new Map(byKey.get(key)!.map(({ at, score }) => [at, score]))
    const readAt = (at: number) => scores.get(at) ?? null
    const line = { name: 'Average score', metric: 'feedback_score_avg', feedback_key: key, readAt }
    return buildChart({ title: key, type: 'line', index }, [line], times)
  })
}
