// Volume, latency and failures of a project in short, each with its table.
import { useDashboard } from '../../api/project-dashboard.ts'
import { formatCount, formatLatency, formatShare } from '../../format/amount.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { ChartFigure, Key, StackedBars } from '../../parts/chart.tsx'
import { sum, toSeries, valuesOf } from './chart-series.ts'
import styles from './charts.module.css'
import type { Project } from './project.ts'
import { useSpan } from './since.ts'

type Props = { workspace: string; project: Project }
export function OverviewCharts({ workspace, project }: Props) {
  const { span, from } = useSpan()
  const { data } = useDashboard(workspace, project.id, { start_time: from, stride: span.stride })
  if (!data) return <div class={styles.overviewPlace} />
  const all = toSeries(data)
  const times = all[0]?.times ?? []
  const [counts, errors, p50, p99] = ['run_count', 'error_count', 'latency_p50', 'latency_p99'].map(metric =>
    valuesOf(all, metric),
  ) as [number[], number[], (number | null)[], (number | null)[]]
  const [total, failed] = [sum(counts), sum(errors)]
  if (total === 0) return null
  const rate = (i: number) => (counts[i] ? (errors[i] ?? 0) / counts[i] : 0)
  const shown = (value: number | null | undefined, format: (value: number) => string) =>
    value == null ? '–' : format(value)
  const label = (i: number) => formatShort((times[i] ?? 0) * 1000)
  const tableOf = (cells: (i: number) => string[]) => () =>
    times.map((at, i) => ({ label: formatExact(at * 1000), cells: cells(i) })).toReversed()
  const slowest = Math.max(...p99.map(value => value ?? 0))
  return (
    <div class={styles.overview}>
      <ChartFigure
        title="Traces"
        aside={`${formatCount(total)} in ${span.label}`}
        columns={['From', 'Traces', 'Failed']}
        rows={tableOf(i => [formatCount(counts[i] ?? 0), formatCount(errors[i] ?? 0)])}
      >
        <Key
          items={[
            ['accent', 'Succeeded'],
            ['bad', 'Failed'],
          ]}
        />
        <StackedBars
          label={`${total} traces in ${span.label}, ${failed} failed`}
          bars={times.map((_, i) => ({
            label: `${label(i)}: ${counts[i]} traces, ${errors[i]} failed`,
            parts: [
              ['bad', errors[i] ?? 0],
              ['accent', (counts[i] ?? 0) - (errors[i] ?? 0)],
            ],
          }))}
        />
      </ChartFigure>
      <ChartFigure
        title="Latency"
        aside={`At most ${formatLatency(slowest)}`}
        columns={['From', 'Median', 'p99']}
        rows={tableOf(i => [shown(p50[i], formatLatency), shown(p99[i], formatLatency)])}
      >
        <Key
          items={[
            ['accent', 'Median'],
            ['idle', 'Up to p99'],
          ]}
        />
        <StackedBars
          label={`Latency in ${span.label}: at most ${formatLatency(slowest)}`}
          bars={times.map((_, i) => ({
            label: `${label(i)}: median ${shown(p50[i], formatLatency)}, p99 ${shown(p99[i], formatLatency)}`,
            parts: [
              ['accent', p50[i] ?? 0],
              ['idle', Math.max(0, (p99[i] ?? 0) - (p50[i] ?? 0))],
            ],
          }))}
        />
      </ChartFigure>
      <ChartFigure
        title="Error rate"
        aside={failed ? `${formatShare(failed / total)} in ${span.label}` : 'No failures'}
        columns={['From', 'Error rate']}
        rows={tableOf(i => [counts[i] ? formatShare(rate(i)) : '–'])}
      >
        <Key items={[['bad', 'Failed of all']]} />
        <StackedBars
          label={`${formatShare(failed / total)} of the traces in ${span.label} failed`}
          bars={times.map((_, i) => ({ label: `${label(i)}: ${formatShare(rate(i))}`, parts: [['bad', rate(i)]] }))}
        />
      </ChartFigure>
    </div>
  )
}
