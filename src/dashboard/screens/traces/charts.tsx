// All charts of a tracing project over the chosen time.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useDashboard } from '../../api/project-dashboard.ts'
import { formatClock, formatExact, formatShort } from '../../format/time.ts'
import { ChartFigure, NoData, Plot } from '../../parts/chart.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { dashOf, formatOf, hasValues, type Line, type Series, toneOf, toSeries } from './chart-series.ts'
import styles from './charts.module.css'
import FirstTrace from './first-trace.tsx'
import type { Project } from './project.ts'
import { ProjectFrame } from './project-frame.tsx'
import { type Span, useSpan } from './since.ts'

const DAY_S = 86_400

export default function ChartsPage({ workspace, params }: ScreenProps<{ project: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/charts">
      {project => <Charts workspace={workspace} project={project} />}
    </ProjectFrame>
  )
}

function Charts({ workspace, project }: { workspace: string; project: Project }) {
  const { span, from } = useSpan()
  const { data, error, refetch } = useDashboard(workspace, project.id, { start_time: from, stride: span.stride })
  const all = useMemo(() => data && toSeries(data), [data])
  // Load the charts with the values. Opening one reports a failure.
  useEffect(() => void Plot.preload().catch(() => {}), [])
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!all) return <Skeleton lines={12} />
  if (!all.some(hasValues) && !project.run_count && span.name === '400d')
    return <FirstTrace workspace={workspace} project={project} />
  return (
    <div class={styles.grid}>
      {all.map(series => (
        <SeriesChart key={series.id} series={series} span={span} />
      ))}
    </div>
  )
}

const WHY_EMPTY: Record<string, string> = {
  'time-to-the-first-token': 'No run reported the time of the first token.',
  'error-rate': 'No trace failed.',
  'streaming-rate': 'No trace streamed a response.',
  tokens: 'No run reported tokens.',
  cost: 'No run reported costs.',
}

function SeriesChart({ series, span }: { series: Series; span: Span }) {
  const [place, setPlace] = useState<number>()
  const [hasFocus, setFocus] = useState(false)
  const { title, times, lines } = series
  const newest = times.findLastIndex((_, i) => lines.some(({ values }) => values[i] != null))
  const shown = place ?? newest
  const plotted = useMemo(
    () =>
      lines.map(({ name, metric, values }) => {
        const dash = dashOf(metric)
        return { label: name, tone: toneOf(metric), values, ...(dash && { dash }) }
      }),
    [lines],
  )
  const marks = useMemo(() => [], [])
  const format = formatOf(lines[0]?.metric ?? '')
  const show = (line: Line, i: number) => (line.values[i] == null ? '–' : format(line.values[i]))
  const formatAt = (at: number) => (span.seconds <= DAY_S ? formatClock(at * 1000) : formatShort(at * 1000))
  const formatTick = (at: number) =>
    span.seconds <= DAY_S
      ? formatClock(at * 1000)
      : new Date(at * 1000).toLocaleDateString(undefined, { day: 'numeric', month: 'short' })
  const time = times[shown]
  const described = lines.map(line => `${line.name} ${show(line, newest)}`).join(', ')
  const why = WHY_EMPTY[series.id] ?? 'No traces.'
  return (
    <ChartFigure
      title={title}
      aside={hasValues(series) && time !== undefined && `${place === undefined ? 'Newest, ' : ''}${formatAt(time)}`}
      columns={['From', ...lines.map(({ name }) => name)]}
      rows={() =>
        times.map((at, i) => ({ label: formatExact(at * 1000), cells: lines.map(line => show(line, i)) })).toReversed()
      }
    >
      {hasValues(series) ? (
        <div onFocusIn={() => setFocus(true)} onFocusOut={() => setFocus(false)}>
          <ul class={styles.legend} aria-live={hasFocus ? 'polite' : 'off'} aria-atomic="true">
            {lines.map(line => (
              <li key={line.name}>
                <svg class={styles[toneOf(line.metric)]} width="14" height="8" aria-hidden="true">
                  <path d="M0 4h14" stroke-dasharray={dashOf(line.metric)?.join(' ')} />
                </svg>
                {line.name} <b>{show(line, shown)}</b>
              </li>
            ))}
          </ul>
          <Plot
            times={times}
            series={plotted}
            marks={marks}
            format={format}
            formatTime={formatTick}
            steps={undefined}
            label={`${title}. Newest: ${described}. The arrow keys move through the times.`}
            onLook={setPlace}
          />
        </div>
      ) : (
        <NoData>{why}</NoData>
      )}
    </ChartFigure>
  )
}
