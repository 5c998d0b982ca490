// Lines per time, with warnings and errors apart. A press goes to that time.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { formatLineTime } from '../../format/log-time.ts'
import { type Block, toHistogram } from './blocks.ts'
import styles from './timeline.module.css'

const BARS = 120
const HEIGHT = 32
/** A busy log would be counted for each line. */
const PAUSE_MS = 400

function useCalm<Value>(value: Value): Value {
  const [calm, setCalm] = useState(value)
  const [latest] = useState({ value, timer: undefined as ReturnType<typeof setTimeout> | undefined })
  latest.value = value
  useEffect(() => {
    latest.timer ??= setTimeout(() => {
      latest.timer = undefined
      setCalm(latest.value)
    }, PAUSE_MS)
  }, [value])
  useEffect(() => () => clearTimeout(latest.timer), [])
  return calm
}

type TimelineProps = { blocks: Block[]; utc: boolean; onSelect: (arrival: number) => void }
export function Timeline({ blocks, utc, onSelect }: TimelineProps) {
  const calm = useCalm(blocks)
  // The first lines need not wait.
  const counted = calm.length === 0 ? blocks : calm
  const bars = useMemo(() => toHistogram(counted, BARS), [counted])
  const heights = bars.map(({ counts }) => Object.values(counts).reduce((sum, count) => sum + count, 0))
  const most = Math.max(...heights, 1)
  const errors = bars.reduce((sum, { counts }) => sum + counts.ERROR + counts.CRITICAL, 0)
  const warnings = bars.reduce((sum, { counts }) => sum + counts.WARNING, 0)
  const press = ({ offsetX, currentTarget }: MouseEvent) => {
    const place = Math.floor((offsetX / (currentTarget as Element).clientWidth) * BARS)
    const first = (bars.slice(place).find(bar => bar.first !== undefined) ?? bars.at(-1))?.first
    if (first !== undefined) onSelect(first)
  }
  const span = bars.length > 0 && `${formatLineTime(bars[0]!.from, utc)} to ${formatLineTime(bars.at(-1)!.from, utc)}`
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: X and Shift X lead from error to error
    <svg
      class={styles.timeline}
      viewBox={`0 0 ${BARS} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Lines over time${span ? `, ${span}` : ''}: ${errors} errors, ${warnings} warnings`}
      onClick={press}
    >
      {bars.map(({ counts }, place) => {
        const scale = (count: number) => (count === 0 ? 0 : Math.max(1.5, (count / most) * (HEIGHT - 4)))
        const bad = scale(counts.ERROR + counts.CRITICAL)
        const warn = scale(counts.WARNING)
        const rest = scale(counts.DEBUG + counts.INFO)
        return (
          <g key={place}>
            {rest > 0 && bar(place, bad + warn, rest, styles.rest)}
            {warn > 0 && bar(place, bad, warn, styles.warn)}
            {bad > 0 && bar(place, 0, bad, styles.bad)}
          </g>
        )
      })}
    </svg>
  )
}

const bar = (place: number, below: number, height: number, style: string | undefined) => (
  <rect class={style} x={place + 0.1} y={HEIGHT - below - height} width="0.8" height={height} />
)
