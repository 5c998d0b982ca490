// The tab of metrics: resources and requests of the replicas, and statistics of the revisions.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useRead } from '../../api/queries.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { formatClock, formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { ChartFigure, Key, MedianBars, NoData, Plot, StackedBars, Strip } from '../../parts/chart.tsx'
import type { PlotMark, PlotSeries } from '../../parts/chart-plot.tsx'
import { Chip } from '../../parts/field.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { now } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { DeploymentFrame } from './frame.tsx'
import styles from './metrics.module.css'
import {
  buildsOf,
  CHARTS,
  type ChartSpec,
  DAYS,
  deploysPerDay,
  describeDay,
  explainNoData,
  explainNoValues,
  hasValues,
  healthOf,
  isMeasured,
  type Metrics,
  marksOf,
  medianBuild,
  RANGES,
  type Range,
  seriesOf,
  servedBy,
  storeChartsOf,
  summarizeHealth,
  timesOf,
  toBuildBars,
  toDayBars,
} from './metrics-charts.ts'

const MINUTE_MS = 60_000
const READ_REVISIONS = 100

export default function MetricsPage({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/metrics">
      {deployment => <MetricsView workspace={workspace} deployment={deployment} />}
    </DeploymentFrame>
  )
}

function MetricsView({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const [name, setName] = useFilter('range')
  const [process, setProcess] = useFilter('process')
  const range = RANGES.find(one => one.name === name) ?? RANGES[0]
  const { data } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: deployment.id },
    query: { limit: READ_REVISIONS },
  })
  const revisions = data?.resources
  // Load the charts with the values. Opening one reports a failure.
  useEffect(() => void Plot.preload().catch(() => {}), [])
  return (
    <>
      <div class={styles.bar}>
        <fieldset class={styles.ranges}>
          <legend>Range</legend>
          {RANGES.map(one => (
            <Chip key={one.name} pressed={one === range} onPress={() => setName(one === RANGES[0] ? '' : one.name)}>
              {one.label}
            </Chip>
          ))}
        </fieldset>
        <p class={styles.note}>A dotted line marks when a revision began to serve.</p>
      </div>
      <Measured
        workspace={workspace}
        deployment={deployment}
        range={range}
        process={process}
        onProcess={setProcess}
        revisions={revisions ?? []}
      />
      {revisions ? <FromRevisions deployment={deployment} revisions={revisions} /> : <Skeleton lines={3} />}
    </>
  )
}

type MeasuredProps = {
  workspace: string
  deployment: Deployment
  range: Range
  /** Empty for all. */
  process: string
  onProcess: (process: string) => void
  revisions: Revision[]
}

function Measured({ workspace, deployment, range, process, onProcess, revisions }: MeasuredProps) {
  const minute = Math.floor(now.value / MINUTE_MS) * MINUTE_MS
  const query = {
    from: new Date(minute - range.seconds * 1000).toISOString(),
    to: new Date(minute).toISOString(),
    ...(process && { process }),
  }
  const params = { deployment_id: deployment.id }
  const { data, error, refetch } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/metrics', { params, query })
  // The last minute stays while the next one is read.
  const shown = `${range.name} ${process}`
  const last = useRef<{ shown: string; data: Metrics } | undefined>(undefined)
  if (data) last.current = { shown, data }
  const metrics = data ?? (last.current?.shown === shown ? last.current.data : undefined)
  const text = JSON.stringify(revisions.map(({ id, number, states }) => [id, number, states]))
  const marks = useMemo(() => marksOf(revisions), [text])
  const numbers = useMemo(() => new Map(revisions.map(({ id, number }) => [id, number])), [text])
  if (error && !metrics) return <Problem error={error} onRetry={() => void refetch()} />
  if (!metrics) return <Skeleton lines={12} />
  if (!isMeasured(metrics) && !process)
    return (
      <Empty title="No measurements yet" command={`slipway explain ${deployment.name}`}>
        {explainNoData(deployment, marks, now.value)}
      </Empty>
    )
  return (
    <>
      <ProcessChoice process={process} processes={metrics.processes} onProcess={onProcess} />
      <Health metrics={metrics} range={range} />
      <div class={styles.grid}>
        {[...CHARTS, ...storeChartsOf(metrics)].map(spec => (
          <Measure key={spec.title} spec={spec} metrics={metrics} marks={marks} numbers={numbers} range={range} />
        ))}
      </div>
    </>
  )
}

type ProcessChoiceProps = Pick<MeasuredProps, 'process' | 'onProcess'> & { processes: string[] }

/** A deployment that has `web` only has no choice. */
function ProcessChoice({ process, processes, onProcess }: ProcessChoiceProps) {
  const names = [...new Set([...processes, ...(process ? [process] : [])])]
  if (names.length === 0) return null
  return (
    <div class={styles.bar}>
      <fieldset class={styles.ranges}>
        <legend>Process</legend>
        {['', ...names].map(name => (
          <Chip key={name} pressed={name === process} onPress={() => onProcess(name)}>
            {name || 'All processes'}
          </Chip>
        ))}
      </fieldset>
    </div>
  )
}

const formatTick = (range: Range) => (at: number) => (range.seconds <= 86_400 ? formatClock(at * 1000) : shortDay(at))
const shortDay = (at: number) => new Date(at * 1000).toLocaleDateString(undefined, { day: 'numeric', month: 'short' })
const formatPoint = (range: Range) => (at: number) =>
  range.seconds <= 86_400 ? formatClock(at * 1000) : formatShort(at * 1000)

function Health({ metrics, range }: { metrics: Metrics; range: Range }) {
  const cells = useMemo(() => healthOf(metrics, formatPoint(range)), [metrics, range])
  const summary = summarizeHealth(cells, range.seconds)
  return (
    <ChartFigure
      title="Health"
      aside={summary}
      columns={['Time', 'Health']}
      rows={() => cells.map(({ label }) => splitLabel(label))}
    >
      <Strip cells={cells} label={`Health over ${range.label}: ${summary}`} />
    </ChartFigure>
  )
}
const splitLabel = (label: string) => {
  const at = label.lastIndexOf(': ')
  return { label: label.slice(0, at), cells: [label.slice(at + 2)] }
}

type MeasureProps = {
  spec: ChartSpec
  metrics: Metrics
  marks: PlotMark[]
  numbers: Map<string, number>
  range: Range
}
function Measure({ spec, metrics, marks, numbers, range }: MeasureProps) {
  const [place, setPlace] = useState<number>()
  const [hasFocus, setFocus] = useState(false)
  const times = useMemo(() => timesOf(metrics), [metrics])
  const series = useMemo(() => seriesOf(spec, metrics, numbers), [spec, metrics, numbers])
  const newest = times.findLastIndex((_, i) => series.some(({ values }) => values[i] != null))
  const shown = place ?? newest
  const show = (value: number | null | undefined) => (value == null ? '–' : spec.format(value))
  const isShown = hasValues(series)
  const time = times[shown]
  return (
    <ChartFigure
      title={spec.title}
      aside={isShown && time !== undefined && `${place === undefined ? 'Newest, ' : ''}${formatPoint(range)(time)}`}
      columns={['Time', ...series.map(({ label }) => label)]}
      rows={() =>
        times
          .map((at, i) => ({ label: formatExact(at * 1000), cells: series.map(({ values }) => show(values[i])) }))
          .toReversed()
      }
    >
      {isShown ? (
        <div onFocusIn={() => setFocus(true)} onFocusOut={() => setFocus(false)}>
          <Legend series={series} place={shown} show={show} isLive={hasFocus} />
          <Plot
            times={times}
            series={series}
            marks={marks}
            format={spec.format}
            formatTime={formatTick(range)}
            steps={spec.steps}
            label={describe(spec, series, newest, show)}
            onLook={setPlace}
          />
        </div>
      ) : (
        <NoData>{explainNoValues(spec, metrics)}</NoData>
      )}
    </ChartFigure>
  )
}

const describe = (
  { title }: ChartSpec,
  series: PlotSeries[],
  place: number,
  show: (value: number | null | undefined) => string,
) =>
  `${title}. Newest: ${series.map(({ label, values }) => `${label} ${show(values[place])}`).join(', ')}. ` +
  'The arrow keys move through the times.'

type LegendProps = {
  series: PlotSeries[]
  place: number
  show: (value: number | null | undefined) => string
  isLive: boolean
}
const Legend = ({ series, place, show, isLive }: LegendProps) => (
  <ul class={styles.legend} aria-live={isLive ? 'polite' : 'off'} aria-atomic="true">
    {series.map(({ label, tone, dash, values }) => (
      <li key={label}>
        <svg class={styles[tone]} width="14" height="8" aria-hidden="true">
          <path d="M0 4h14" stroke-dasharray={dash?.join(' ')} />
        </svg>
        {label} <b>{show(values[place])}</b>
      </li>
    ))}
  </ul>
)

function FromRevisions({ deployment, revisions }: { deployment: Deployment; revisions: Revision[] }) {
  const today = Math.floor(now.value / MINUTE_MS) * MINUTE_MS
  const days = deploysPerDay(revisions, today)
  const builds = buildsOf(revisions)
  const median = medianBuild(builds)
  const served = servedBy(revisions, deployment, today)
  const total = days.reduce((sum, { counts }) => sum + counts.deployed + counts.failed, 0)
  const failed = days.reduce((sum, { counts }) => sum + counts.failed, 0)
  const latest = builds.at(-1)
  return (
    <section aria-label="From the revisions">
      <div class={styles.grid}>
        <ChartFigure
          title={`Deploys per day, last ${DAYS} days`}
          value={`${total}${failed ? `, ${failed} failed` : ''}`}
          columns={['Day', 'Deployed', 'Failed', 'Skipped', 'In progress']}
          rows={() =>
            days.map(({ day, counts }) => ({ label: day, cells: Object.values(counts).map(String) })).toReversed()
          }
        >
          <Key
            items={[
              ['ok', 'Deployed'],
              ['bad', 'Failed'],
              ['idle', 'Skipped'],
              ['accent', 'In progress'],
            ]}
          />
          <StackedBars
            bars={toDayBars(days)}
            label={`${total} deploys in ${DAYS} days, ${failed} failed. Today, ${describeDay(days.at(-1)!)}`}
          />
        </ChartFigure>
        <ChartFigure
          title={builds.length > 1 ? `Build time, last ${builds.length} builds` : 'Build time'}
          value={latest && formatSeconds(latest.seconds)}
          aside={median === undefined ? undefined : `Dashed: median ${formatSeconds(median)}`}
          columns={['Revision', 'Build time', 'Outcome']}
          rows={() =>
            builds
              .map(({ number, seconds, failed }) => ({
                label: `r${number}`,
                cells: [formatSeconds(seconds), failed ? 'failed' : 'built'],
              }))
              .toReversed()
          }
        >
          {latest ? (
            <MedianBars
              bars={toBuildBars(builds)}
              median={median}
              label={`The last build took ${formatSeconds(latest.seconds)}, the median is ${formatSeconds(median ?? 0)}.`}
            />
          ) : (
            <NoData>No builds yet. Images and templates may need no build.</NoData>
          )}
        </ChartFigure>
      </div>
      <ChartFigure
        title={`Served revisions, last ${DAYS} days`}
        columns={['From', 'Revision', 'For']}
        rows={() =>
          served
            .map(({ number, from, to }) => ({
              label: formatShort(from),
              cells: [number === undefined ? 'nothing' : `r${number}`, formatSeconds((to - from) / 1000)],
            }))
            .toReversed()
        }
      >
        <Key
          items={[
            ['ok', 'The latest'],
            ['accent', 'An earlier revision'],
            ['idle', 'Not serving'],
          ]}
        />
        <Strip
          cells={served.map(({ number, from, to }, i) => ({
            label: `${number === undefined ? 'Nothing' : `r${number}`} from ${formatShort(from)}`,
            tone: number === undefined ? 'idle' : i === served.length - 1 ? 'ok' : 'accent',
            share: (to - from) / (DAYS * 86_400_000),
          }))}
          label={`${served.filter(({ number }) => number !== undefined).length} revisions served in ${DAYS} days.`}
        />
      </ChartFigure>
    </section>
  )
}
