// The last revisions of a deployment as bars: up with the build time if deployed, down if failed.
import { type Summary, stateOfRevision } from '../../format/state.ts'
import styles from './outcomes.module.css'

const STEP = 6
const MIDDLE = 14

type Recent = Summary['recent_revisions']

export default function Outcomes({ revisions }: { revisions: Recent }) {
  if (revisions.length === 0) return null
  const longest = Math.max(1, ...revisions.map(({ seconds }) => seconds ?? 0))
  return (
    <svg class={styles.bars} viewBox="0 0 48 20" role="img" aria-label={describeOutcomes(revisions)}>
      <title>{describeOutcomes(revisions)}</title>
      <path class={styles.axis} d={`M0 ${MIDDLE}.5h48`} />
      {revisions.map((revision, i) => (
        <Bar
          key={revision.number}
          x={48 - (i + 1) * STEP + 1}
          height={4 + (9 * (revision.seconds ?? 0)) / longest}
          {...revision}
        />
      ))}
    </svg>
  )
}

type BarProps = Recent[number] & { x: number; height: number }
function Bar({ status, x, height }: BarProps) {
  const { tone } = stateOfRevision({ status })
  if (tone === 'busy') return <rect class={styles.flying} x={x + 0.5} y={MIDDLE - 9.5} width="3" height="9" />
  if (tone === 'bad') return <rect class={styles.fell} x={x} y={MIDDLE + 1} width="4" height="5" />
  if (tone !== 'ok') return <rect class={styles.passed} x={x + 1} y={MIDDLE - 3} width="2" height="2" />
  return <rect class={styles.rose} x={x} y={MIDDLE - height} width="4" height={height} />
}

function describeOutcomes(revisions: Recent): string {
  const tones = revisions.map(revision => stateOfRevision(revision).tone)
  const count = (tone: string) => tones.filter(one => one === tone).length
  const parts = [
    [count('ok'), 'deployed'],
    [count('bad'), 'failed'],
    [count('busy'), 'in progress'],
    [count('idle') + count('warn'), 'skipped, interrupted or unknown'],
  ] as const
  const text = parts.flatMap(([number, word]) => (number ? [`${number} ${word}`] : [])).join(', ')
  return `The last ${revisions.length}: ${text}`
}
