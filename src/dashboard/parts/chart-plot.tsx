// A chart of values over time, drawn by uPlot. A pointer or the arrow keys move through the times, on all charts of the
// page together.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import styles from './chart-plot.module.css'

export type PlotTone = 'accent' | 'ok' | 'warn' | 'bad' | 'idle' | 'violet' | 'cyan'
export type PlotSeries = { label: string; tone: PlotTone; values: (number | null)[]; dash?: number[]; filled?: boolean }
export type PlotMark = { at: number; label: string }

export type PlotProps = {
  /** Seconds since 1970, one for each value. */
  times: number[]
  series: PlotSeries[]
  marks: PlotMark[]
  format: (value: number) => string
  formatTime: (at: number) => string
  /** The distances that lines of the grid may have. */
  steps: number[] | undefined
  label: string
  /** The place in `times` that is looked at. */
  onLook: (place: number | undefined) => void
}

const HEIGHT = 148
const GROUP = 'slipway'

/** Changes with the theme, which the colors of a canvas do not follow by themselves. */
function useTheme(): string {
  const read = () =>
    `${document.documentElement.dataset.theme} ${matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'}`
  const [theme, setTheme] = useState(read)
  useEffect(() => {
    const update = () => setTheme(read())
    const media = matchMedia('(prefers-color-scheme: dark)')
    const observer = new MutationObserver(update)
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    media.addEventListener('change', update)
    return () => {
      observer.disconnect()
      media.removeEventListener('change', update)
    }
  }, [])
  return theme
}

export default function Plot({ times, series, marks, format, formatTime, steps, label, onLook }: PlotProps) {
  const place = useRef<HTMLDivElement>(null)
  const colors = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | undefined>(undefined)
  const theme = useTheme()
  const shape = series.map(({ label, tone }) => label + tone).join()

  useLayoutEffect(() => {
    const colorOf = (name: string) => getComputedStyle(colors.current!.querySelector(`[data-color="${name}"]`)!).color
    const width = place.current!.clientWidth
    const options = toOptions({ series, marks, format, formatTime, steps, onLook, width, colorOf })
    const drawn = new UPlot(options, toData(times, series), place.current!)
    plot.current = drawn
    const observer = new ResizeObserver(([entry]) =>
      drawn.setSize({ width: Math.max(80, entry!.contentRect.width), height: HEIGHT }),
    )
    observer.observe(place.current!)
    return () => {
      observer.disconnect()
      drawn.destroy()
      plot.current = undefined
    }
  }, [theme, shape, marks])
  useEffect(() => plot.current?.setData(toData(times, series)), [times, series])

  const moveByKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length }[event.key]
    const drawn = plot.current
    if (!drawn || step === undefined) return
    event.preventDefault()
    const from = drawn.cursor.idx ?? times.length
    const next = Math.max(0, Math.min(times.length - 1, from + step))
    // Imitate a pointer, so that the other charts follow.
    const { left, top } = drawn.over.getBoundingClientRect()
    const at = { clientX: left + drawn.valToPos(times[next]!, 'x'), clientY: top + drawn.over.clientHeight / 2 }
    for (const type of ['mouseenter', 'mousemove']) drawn.over.dispatchEvent(new MouseEvent(type, at))
  }
  return (
    <div class={styles.plot}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move through the times */}
      <div ref={place} class={styles.canvas} role="img" aria-label={label} tabIndex={0} onKeyDown={moveByKey} />
      <div ref={colors} hidden>
        {COLORS.map(name => (
          <i key={name} data-color={name} class={styles[name]} />
        ))}
      </div>
    </div>
  )
}

const COLORS = ['accent', 'ok', 'warn', 'bad', 'idle', 'violet', 'cyan', 'text', 'line', 'wash'] as const

const toData = (times: number[], series: PlotSeries[]): UPlot.AlignedData => [
  times,
  ...series.map(({ values }) => values),
]

type Drawn = Pick<PlotProps, 'series' | 'marks' | 'format' | 'formatTime' | 'steps' | 'onLook'> & {
  width: number
  colorOf: (name: (typeof COLORS)[number]) => string
}
function toOptions({ series, marks, format, formatTime, steps, onLook, width, colorOf }: Drawn): UPlot.Options {
  const font = '11px system-ui, sans-serif'
  const axis = { stroke: colorOf('text'), font, ticks: { show: false }, grid: { stroke: colorOf('line'), width: 1 } }
  return {
    width: Math.max(80, width),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: GROUP } },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    // The names of marks are above the values.
    padding: [18, null, null, null],
    axes: [
      { ...axis, grid: { show: false }, space: 70, values: (_, ticks) => ticks.map(formatTime), size: 30, gap: 10 },
      {
        ...axis,
        space: 34,
        gap: GAP,
        size: (drawn, labels) => widthOf(drawn, labels, font),
        values: (_, ticks) => ticks.map(format),
        ...(steps && { incrs: steps }),
      },
    ],
    series: [
      {},
      ...series.map(({ label, tone, dash, filled }) => ({
        label,
        stroke: colorOf(tone),
        width: 1.5,
        ...(dash && { dash }),
        ...(filled && { fill: colorOf('wash') }),
        points: { show: false, size: 6, fill: colorOf(tone), filter: findLonePoints },
      })),
    ],
    hooks: {
      setCursor: [drawn => onLook(drawn.cursor.left! >= 0 ? (drawn.cursor.idx ?? undefined) : undefined)],
      draw: [drawn => drawMarks(drawn, marks, colorOf('text'), font)],
    },
  }
}

const LEAST_WIDTH = 58
const GAP = 6

function widthOf({ ctx }: UPlot, labels: string[] | null, font: string): number {
  ctx.save()
  ctx.font = font
  const widths = (labels ?? []).map(label => ctx.measureText(label).width)
  ctx.restore()
  return Math.max(LEAST_WIDTH, Math.ceil(Math.max(0, ...widths)) + GAP + 4)
}

/** Points between gaps, which no line reaches. */
function findLonePoints(drawn: UPlot, series: number): number[] {
  const values = drawn.data[series]!
  return [...values.keys()].filter(i => values[i] != null && values[i - 1] == null && values[i + 1] == null)
}

/** A dotted line for each revision that began to serve. Those that are close share one label. */
function drawMarks(drawn: UPlot, marks: PlotMark[], color: string, font: string): void {
  const { ctx, bbox } = drawn
  const scale = devicePixelRatio || 1
  ctx.save()
  ctx.strokeStyle = color
  ctx.fillStyle = color
  ctx.lineWidth = scale
  ctx.setLineDash([2 * scale, 3 * scale])
  ctx.font = font.replace(/^\d+/, size => String(Number(size) * scale))
  const groups: { from: number; to: number; first: string; last: string }[] = []
  for (const { at, label } of marks) {
    const x = drawn.valToPos(at, 'x', true)
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    const group = groups.at(-1)
    // The width of two labels such as “r12–r15” beside each other.
    if (group && x - group.to < ctx.measureText(`${group.first}–${label}`).width + 8 * scale)
      Object.assign(group, { to: x, last: label })
    else groups.push({ from: x, to: x, first: label, last: label })
  }
  ctx.textAlign = 'center'
  for (const { from, to, first, last } of groups) {
    const text = first === last ? first : `${first}–${last}`
    const half = ctx.measureText(text).width / 2
    const middle = Math.min((from + to) / 2, bbox.left + bbox.width - half)
    ctx.fillText(text, Math.max(middle, bbox.left + half), bbox.top - 5 * scale)
  }
  ctx.restore()
}
