// The badge of the live connection: live, reconnecting for some seconds, or stale since a time.
import { formatClock } from '../format/time.ts'
import { live } from '../live/state.ts'
import styles from './live-badge.module.css'
import { now } from './time.tsx'

/** A cut of this length is no news: a stream ends and continues every few minutes. */
const QUIET_MS = 2_000
const STALE_MS = 30_000

export function LiveBadge() {
  const { state, since } = live.value
  const age = state === 'live' ? 0 : now.value - since
  const [kind, text] = describe(state, since, age)
  return (
    <span class={`${styles.badge} ${styles[kind]}`} role="status">
      {text}
    </span>
  )
}

function describe(state: string, since: number, age: number): [kind: 'live' | 'wait' | 'stale', text: string] {
  if (state === 'live' || (state === 'reconnecting' && age < QUIET_MS)) return ['live', 'Live']
  if (state === 'connecting' && age < STALE_MS) return ['wait', 'Connecting']
  if (state === 'polling') return ['wait', 'Every 15 s']
  if (state === 'offline') return ['stale', `Offline since ${formatClock(since)}`]
  if (age < STALE_MS) return ['wait', `No connection for ${Math.floor(age / 1000)} s`]
  return ['stale', `Stale since ${formatClock(since)}`]
}
