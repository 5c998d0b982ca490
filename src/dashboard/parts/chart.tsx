// Charts: values over time, stacked bars, and bars with the median, each with a table of its values.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import styles from './chart.module.css'
import type { PlotProps } from './chart-plot.tsx'
import { lazily } from './lazily.tsx'

export type Tone = 'ok' | 'bad' | 'warn' | 'idle' | 'accent'
type ChartRow = { label: string; cells: string[] }

type FigureProps = {
  title: string
  /** The newest or the most telling value. */
  value?: ComponentChildren
  aside?: ComponentChildren
  children: ComponentChildren
  columns: string[]
  rows: () => ChartRow[]
}
/** A chart and its table, which is made when it is opened. */
export function ChartFigure({ title, value, aside, children, columns, rows }: FigureProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <figure class={styles.figure}>
      <figcaption class={styles.caption}>
        <h2>{title}</h2>
        {aside && <span class={styles.aside}>{aside}</span>}
        {value && <strong class={styles.value}>{value}</strong>}
      </figcaption>
      {children}
      <details class={styles.details} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          Table<span class={styles.unseen}> of {title}</span>
        </summary>
        {isOpen && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls with keys
          <section class={styles.scroll} aria-label={`Table of ${title}`} tabIndex={0}>
            <table>
              <thead>
                <tr>
                  {columns.map(column => (
                    <th key={column} scope="col">
                      {column}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows().map(({ label, cells }) => (
                  <tr key={label}>
                    <th scope="row">{label}</th>
                    {cells.map((cell, i) => (
                      <td key={columns[i + 1]}>{cell}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </details>
    </figure>
  )
}

/** Values over time. The chart library loads on demand: it is as large as the rest of the page. */
export const Plot = lazily<PlotProps>(() => import('./chart-plot.tsx'), <div class={styles.plot} />)

export const NoData = ({ children }: { children: ComponentChildren }) => <p class={styles.nothing}>{children}</p>

export const Key = ({ items }: { items: [tone: Tone, label: string][] }) => (
  <ul class={styles.key}>
    {items.map(([tone, label]) => (
      <li key={label}>
        <svg class={styles[tone]} width="8" height="8" aria-hidden="true">
          <rect width="8" height="8" />
        </svg>
        {label}
      </li>
    ))}
  </ul>
)

const HEIGHT = 72
const FEWEST_PLACES = 20

export type StackedBar = { label: string; parts: [tone: Tone, count: number][] }

/** `label` describes the drawing in a sentence. */
export function StackedBars({ bars, label }: { bars: StackedBar[]; label: string }) {
  const sums = bars.map(({ parts }) => parts.reduce((sum, [, count]) => sum + count, 0))
  const most = Math.max(...sums, 1)
  return (
    <svg class={styles.bars} viewBox={`0 0 ${bars.length * 10} ${HEIGHT}`} preserveAspectRatio="none" role="img">
      <title>{label}</title>
      {bars.map(({ label, parts }, place) => {
        let top = HEIGHT
        return (
          <g key={label}>
            <title>{label}</title>
            <rect class={styles.bed} x={place * 10 + 1} y={HEIGHT - 1} width="8" height="1" />
            {parts.map(([tone, count]) => {
              if (count <= 0) return null
              const height = Math.max(1, (count / most) * HEIGHT)
              top -= height
              return <rect key={tone} class={styles[tone]} x={place * 10 + 1} y={top} width="8" height={height - 0.5} />
            })}
          </g>
        )
      })}
    </svg>
  )
}

export type MedianBar = { label: string; value: number; tone: Tone }

export function MedianBars({ bars, median, label }: { bars: MedianBar[]; median: number | undefined; label: string }) {
  const most = Math.max(...bars.map(({ value }) => value), median ?? 0, 0.001)
  const line = median === undefined ? undefined : HEIGHT - (median / most) * (HEIGHT - 2)
  // Few bars are aligned at the end, where the newest is.
  const places = Math.max(bars.length, FEWEST_PLACES)
  return (
    <svg class={styles.bars} viewBox={`0 0 ${places * 10} ${HEIGHT}`} preserveAspectRatio="none" role="img">
      <title>{label}</title>
      {bars.map(({ label, value, tone }, place) => {
        const height = Math.max(1, (value / most) * (HEIGHT - 2))
        const x = (places - bars.length + place) * 10 + 1
        return (
          <rect key={label} class={styles[tone]} x={x} y={HEIGHT - height} width="8" height={height}>
            <title>{label}</title>
          </rect>
        )
      })}
      {line !== undefined && <path class={styles.median} d={`M0 ${line}H${places * 10}`} />}
    </svg>
  )
}

export type StripCell = { label: string; tone: Tone; share: number }

/** Told apart without colors. */
const STRIP_HEIGHTS: Record<Tone, number> = { ok: 16, accent: 16, warn: 20, bad: 24, idle: 5 }

/** A strip of states, each as wide as it lasted, from left to right. */
export function Strip({ cells, label }: { cells: StripCell[]; label: string }) {
  let at = 0
  return (
    <svg class={styles.strip} viewBox="0 0 1000 24" preserveAspectRatio="none" role="img">
      <title>{label}</title>
      {cells.map(({ label, tone, share }) => {
        const x = at * 1000
        at += share
        return (
          <rect
            key={label}
            class={styles[tone]}
            x={x}
            y={24 - STRIP_HEIGHTS[tone]}
            width={Math.max(1, share * 1000 - 1)}
            height={STRIP_HEIGHTS[tone]}
          >
            <title>{label}</title>
          </rect>
        )
      })}
    </svg>
  )
}
