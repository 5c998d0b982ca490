// The last revisions in a row: up for those that were deployed, as high as their build was long, down for failed ones.
import type { Revision } from '../format/state.ts'
import styles from './spark.module.css'

export type Outcome = 'deployed' | 'failed' | 'skipped' | 'in flight'
export type SparkMark = { outcome: Outcome; seconds: number }

export function outcomeOf(status: Revision['status']): Outcome {
  if (status === 'DEPLOYED') return 'deployed'
  if (status.endsWith('_FAILED')) return 'failed'
  return status === 'SKIPPED' || status === 'INTERRUPTED' || status === 'UNKNOWN' ? 'skipped' : 'in flight'
}

const STEP = 5
const BASE = 14
const SHORTEST = 3
const FALL = 5

/** `label` is the sentence that says the same. */
export function Spark({ marks, label }: { marks: SparkMark[]; label: string }) {
  const longest = Math.max(...marks.map(({ seconds }) => seconds), 0.001)
  return (
    <svg class={styles.spark} width={marks.length * STEP} height="20" role="img" aria-label={label}>
      {marks.map(({ outcome, seconds }, place) => {
        const x = place * STEP + 0.5
        const rise = SHORTEST + (BASE - SHORTEST - 1) * (seconds / longest)
        if (outcome === 'failed') return <rect key={place} class={styles.bad} x={x} y={BASE} width="4" height={FALL} />
        if (outcome === 'skipped') return <circle key={place} class={styles.idle} cx={x + 2} cy={BASE - 1} r="1" />
        if (outcome === 'deployed')
          return <rect key={place} class={styles.ok} x={x} y={BASE - rise} width="4" height={rise} />
        return <rect key={place} class={styles.busy} x={x + 0.5} y={BASE - rise + 0.5} width="3" height={rise - 1} />
      })}
    </svg>
  )
}
