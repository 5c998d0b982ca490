// The charts of a deployment, from its metrics and its revisions (pure).
import type { Reply } from '../../../client/client.ts'
import { medianOf } from '../../format/amount.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { formatSeconds } from '../../format/time.ts'
import type { MedianBar, StackedBar, StripCell, Tone } from '../../parts/chart.tsx'
import type { PlotMark, PlotSeries, PlotTone } from '../../parts/chart-plot.tsx'

export type Metrics = Reply<'GET /v2/deployments/{deployment_id}/metrics'>
type Metric = Metrics['series'][number]['metric']

export const RANGES = [
  { name: '1h', label: '1 hour', seconds: 3600 },
  { name: '24h', label: '24 hours', seconds: 86_400 },
  { name: '7d', label: '7 days', seconds: 7 * 86_400 },
  { name: '30d', label: '30 days', seconds: 30 * 86_400 },
] as const
export type Range = (typeof RANGES)[number]

const MIB = 2 ** 20
const GIB = 2 ** 30
/** Three significant digits, so that grid lines never have the same label. */
const number = (value: number) =>
  value >= 100 ? Math.round(value).toLocaleString() : value.toLocaleString(undefined, { maximumSignificantDigits: 3 })
const formatRate = (value: number) => `${number(value)}/s`
const formatCores = (value: number) =>
  value < 0.1 ? value.toLocaleString(undefined, { maximumSignificantDigits: 2 }) : number(value)
const formatBytes = (value: number) => (value >= GIB ? `${number(value / GIB)} GiB` : `${number(value / MIB)} MiB`)
const formatMs = (value: number) => (value < 1000 ? `${number(value)} ms` : formatSeconds(value / 1000))

export type ChartSpec = {
  title: string
  /** `store`: the database, Redis or disk of which the metric is. */
  lines: { metric: Metric; store?: string; label: string; tone: PlotTone; dash?: number[]; filled?: boolean }[]
  /** Counts of a step become a rate per second. */
  isRate?: boolean
  /** Shows the newest revisions apart, if there are several. */
  hasRevisions?: boolean
  format: (value: number) => string
  steps?: number[]
}
const BYTE_STEPS = Array.from({ length: 24 }, (_, power) => MIB * 2 ** power)
const COUNT_STEPS = Array.from({ length: 6 }, (_, power) => [1, 2, 5].map(step => step * 10 ** power)).flat()

export const CHARTS: ChartSpec[] = [
  {
    title: 'Requests',
    lines: [{ metric: 'requests', label: 'All', tone: 'accent', filled: true }],
    isRate: true,
    hasRevisions: true,
    format: formatRate,
  },
  {
    title: 'Responses by status',
    lines: [
      { metric: 'status_2xx', label: '2xx', tone: 'ok' },
      { metric: 'status_3xx', label: '3xx', tone: 'idle', dash: [6, 3] },
      { metric: 'status_4xx', label: '4xx', tone: 'warn', dash: [3, 3] },
      { metric: 'status_5xx', label: '5xx', tone: 'bad' },
    ],
    isRate: true,
    format: formatRate,
  },
  {
    title: 'Time to first byte',
    lines: [
      { metric: 'latency_p50', label: 'p50', tone: 'cyan', dash: [3, 3] },
      { metric: 'latency_p95', label: 'p95', tone: 'accent' },
      { metric: 'latency_p99', label: 'p99', tone: 'violet', dash: [6, 3] },
    ],
    format: formatMs,
  },
  {
    title: 'CPU cores',
    lines: [{ metric: 'cpu', label: 'All replicas', tone: 'accent', filled: true }],
    hasRevisions: true,
    format: formatCores,
  },
  {
    title: 'Memory',
    lines: [
      { metric: 'memory', label: 'All replicas', tone: 'accent', filled: true },
      { metric: 'memory_peak', label: 'Largest replica', tone: 'violet', dash: [6, 3] },
    ],
    format: formatBytes,
    steps: BYTE_STEPS,
  },
  {
    title: 'Replicas and restarts',
    lines: [
      { metric: 'copies', label: 'Replicas', tone: 'accent', filled: true },
      { metric: 'restarts', label: 'Restarts', tone: 'bad' },
    ],
    format: number,
    steps: COUNT_STEPS,
  },
]

const STORE_TONES: PlotTone[] = ['accent', 'violet', 'cyan', 'ok', 'warn', 'idle']
const STORE_LABELS: Record<string, string> = { database: 'Database', redis: 'Redis, in memory' }
const labelOf = (store: string) => STORE_LABELS[store] ?? `Disk ${store.slice('disk:'.length)}`

/** None for a deployment without stores. */
export function storeChartsOf({ series }: Metrics): ChartSpec[] {
  const lines = series
    .flatMap(({ metric, store, unit }) => (store !== undefined && unit === 'bytes' ? [{ metric, store }] : []))
    .map((line, i) => ({ ...line, label: labelOf(line.store), tone: STORE_TONES[i % STORE_TONES.length]! }))
  const isConnected = series.some(({ metric }) => metric === 'database_connections')
  const connections = { metric: 'database_connections', store: 'database', label: 'Open', tone: 'accent' } as const
  return [
    ...(lines.length > 0
      ? [{ title: 'Database, Redis and disks', lines, format: formatBytes, steps: BYTE_STEPS }]
      : []),
    ...(isConnected
      ? [{ title: 'Database connections', lines: [connections], format: number, steps: COUNT_STEPS }]
      : []),
  ]
}

const REVISION_TONES: PlotTone[] = ['violet', 'cyan', 'ok', 'warn']

export const timesOf = ({ from, step, series }: Metrics): number[] =>
  (series[0]?.values ?? []).map((_, i) => Date.parse(from) / 1000 + i * step)

export function seriesOf(spec: ChartSpec, metrics: Metrics, numbers: Map<string, number>): PlotSeries[] {
  const scale = (values: (number | null)[]) =>
    spec.isRate ? values.map(value => (value === null ? null : value / metrics.step)) : values
  const valuesOf = (metric: Metric, revision: string | null, store?: string) =>
    metrics.series.find(one => one.metric === metric && one.revision_id === revision && one.store === store)?.values ??
    []
  const totals = spec.lines.map(({ metric, store, ...line }) => ({
    ...line,
    values: scale(valuesOf(metric, null, store)),
  }))
  const [main] = spec.lines
  const ids = spec.hasRevisions
    ? metrics.series.flatMap(({ metric, revision_id }) => (metric === main!.metric && revision_id ? [revision_id] : []))
    : []
  const newest = ids.toSorted((a, b) => (numbers.get(b) ?? 0) - (numbers.get(a) ?? 0)).slice(0, REVISION_TONES.length)
  const revisions = newest.length < 2 ? [] : newest
  return [
    ...totals,
    ...revisions.map((id, i) => ({
      label: numbers.has(id) ? `r${numbers.get(id)}` : 'An older revision',
      tone: REVISION_TONES[i]!,
      dash: [4, 2],
      values: scale(valuesOf(main!.metric, id)),
    })),
  ]
}

export const hasValues = (series: Pick<PlotSeries, 'values'>[]): boolean =>
  series.some(({ values }) => values.some(value => value !== null))

/** When each revision began to serve. */
export const marksOf = (revisions: Revision[]): PlotMark[] =>
  revisions
    .flatMap(({ number, states }) =>
      states
        .filter(({ status }) => status === 'DEPLOYED')
        .slice(0, 1)
        .map(({ since }) => ({ at: Date.parse(since) / 1000, label: `r${number}` })),
    )
    .toSorted((a, b) => a.at - b.at)

const FIRST_SAMPLE_MS = 150_000

export const isMeasured = ({ series }: Metrics): boolean =>
  hasValues(series.filter(({ metric }) => metric === 'copies'))

/** Explains a chart without values though replicas were measured. An engine that counts requests reports 0 for none. */
export const explainNoValues = ({ lines }: ChartSpec, { series }: Metrics): string =>
  lines[0]?.metric.startsWith('latency') && hasValues(series.filter(({ metric }) => metric === 'requests'))
    ? 'No requests in this period. The first data point appears a few seconds after its minute ends.'
    : 'The engine of the listener does not measure this. See “What is measured” in the docs.'

export function explainNoData({ serving }: Pick<Deployment, 'serving'>, marks: PlotMark[], now: number): string {
  const newest = marks.at(-1)
  if (serving !== 'none' && newest && now - newest.at * 1000 < FIRST_SAMPLE_MS)
    return 'Measuring. The first data point appears a few seconds after the minute ends.'
  if (serving === 'none') return 'No replica ran in this period.'
  return 'The agent sent no metrics for this period. It was not running, or its version does not support them.'
}

// ---- health, from metrics

const CELLS = 60
const BAD_SHARE = 0.05
const WARN_SHARE = 0.01

export function healthOf(metrics: Metrics, formatTime: (at: number) => string): StripCell[] {
  const times = timesOf(metrics)
  const of = (name: Metric) =>
    metrics.series.find(({ metric, revision_id }) => metric === name && revision_id === null)?.values ?? []
  const [copies, requests, failed, restarts] = (['copies', 'requests', 'status_5xx', 'restarts'] as const).map(of)
  const size = Math.max(1, Math.ceil(times.length / CELLS))
  const cells: StripCell[] = []
  for (let at = 0; at < times.length; at += size) {
    const sum = (values: (number | null)[]) =>
      values.slice(at, at + size).reduce<number>((total, value) => total + (value ?? 0), 0)
    const share = sum(failed!) / Math.max(1, sum(requests!))
    const [tone, word] = judge(sum(copies!), share, sum(restarts!))
    const length = Math.min(size, times.length - at) / times.length
    cells.push({ label: `${formatTime(times[at]!)}: ${word}`, tone, share: length })
  }
  return cells
}

/** Describes for how long the health is known. */
export function summarizeHealth(cells: StripCell[], seconds: number): string {
  const lengthOf = (some: StripCell[]) =>
    formatSeconds(Math.round(some.reduce((sum, { share }) => sum + share, 0) * seconds))
  const known = cells.filter(({ tone }) => tone !== 'idle')
  const bad = known.filter(({ tone }) => tone !== 'ok')
  const whole = known.length === cells.length ? '' : ` of the ${lengthOf(known)} that were reported`
  if (known.length === 0) return 'No reports'
  if (bad.length > 0) return `Failures or restarts in ${lengthOf(bad)}${whole}`
  return whole ? `Healthy for the ${lengthOf(known)} that were reported` : 'Healthy all the time'
}

function judge(copies: number, share: number, restarts: number): [tone: Tone, word: string] {
  if (copies === 0) return ['idle', 'no data']
  const failed = `${(share * 100).toFixed(1)} % of responses failed`
  if (share >= BAD_SHARE) return ['bad', failed]
  if (share >= WARN_SHARE) return ['warn', failed]
  return restarts > 0 ? ['warn', `${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`] : ['ok', 'healthy']
}

// ---- from revisions

const DAY_MS = 86_400_000
export const DAYS = 30
const OUTCOMES = [
  ['deployed', 'ok'],
  ['failed', 'bad'],
  ['skipped', 'idle'],
  ['in flight', 'accent'],
] as const

export type Day = { day: string; counts: Record<(typeof OUTCOMES)[number][0], number> }

/** The days up to today, in the zone of the reader. */
export function deploysPerDay(revisions: Pick<Revision, 'created_at' | 'status'>[], now: number): Day[] {
  const keyOf = (at: number) => new Date(at).toLocaleDateString('sv')
  const midday = new Date(now).setHours(12, 0, 0, 0)
  const days = Array.from(
    { length: DAYS },
    (_, i): Day => ({
      day: keyOf(midday - (DAYS - 1 - i) * DAY_MS),
      counts: { deployed: 0, failed: 0, skipped: 0, 'in flight': 0 },
    }),
  )
  for (const { created_at, status } of revisions) {
    const day = days.find(one => one.day === keyOf(Date.parse(created_at)))
    if (day) day.counts[outcomeOf(status)]++
  }
  return days
}

export const describeDay = ({ day, counts }: Day): string =>
  `${day}: ${OUTCOMES.flatMap(([name]) => (counts[name] ? [`${counts[name]} ${name}`] : [])).join(', ') || 'none'}`

export const toDayBars = (days: Day[]): StackedBar[] =>
  days.map(day => ({
    label: describeDay(day),
    parts: OUTCOMES.map(([name, tone]): [Tone, number] => [tone, day.counts[name]]),
  }))

export type Build = { number: number; seconds: number; failed: boolean }

/** The oldest first. */
export const buildsOf = (revisions: Pick<Revision, 'number' | 'status' | 'states'>[]): Build[] =>
  revisions
    .flatMap(({ number, status, states }) => {
      const seconds = states.reduce((sum, one) => sum + (one.status === 'BUILDING' ? (one.seconds ?? 0) : 0), 0)
      return seconds > 0 ? [{ number, seconds, failed: status === 'BUILD_FAILED' }] : []
    })
    .toReversed()

export const medianBuild = (builds: Build[]): number | undefined =>
  medianOf(builds.filter(({ failed }) => !failed).map(({ seconds }) => seconds))

export const toBuildBars = (builds: Build[]): MedianBar[] =>
  builds.map(({ number, seconds, failed }) => ({
    label: `r${number}: ${formatSeconds(seconds)}${failed ? ', failed' : ''}`,
    value: seconds,
    tone: failed ? 'bad' : 'accent',
  }))

export type Served = { number: number | undefined; from: number; to: number }

/** Lists the revisions that served, with their times. */
export function servedBy(revisions: Revision[], { serving }: Pick<Deployment, 'serving'>, now: number): Served[] {
  const start = now - DAYS * DAY_MS
  const marks = marksOf(revisions).map(({ at, label }) => ({ at: at * 1000, number: Number(label.slice(1)) }))
  const spans = marks.map(({ at, number }, i) => ({ number, from: at, to: marks[i + 1]?.at ?? now }))
  const first = marks[0]?.at ?? now
  const known: Served[] = [{ number: undefined, from: start, to: Math.max(start, first) }, ...spans]
  if (serving === 'none') known.at(-1)!.number = undefined
  return known.filter(({ to }) => to > start).map(one => ({ ...one, from: Math.max(start, one.from) }))
}

type Outcome = 'deployed' | 'failed' | 'skipped' | 'in flight'

function outcomeOf(status: Revision['status']): Outcome {
  if (status === 'DEPLOYED') return 'deployed'
  if (status.endsWith('_FAILED')) return 'failed'
  return status === 'SKIPPED' || status === 'INTERRUPTED' || status === 'UNKNOWN' ? 'skipped' : 'in flight'
}
