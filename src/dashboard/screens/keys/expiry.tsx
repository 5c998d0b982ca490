// When a key ends, and whether that is soon.
import { formatExact, formatSeconds } from '../../format/time.ts'
import { Badge } from '../../parts/state.tsx'
import { now } from '../../parts/time.tsx'
import { isSoon } from './actions.ts'

export function Expiry({ time }: { time: string | null }) {
  if (!time) return <>Never</>
  const seconds = Math.floor((Date.parse(time) - now.value) / 1000)
  if (seconds <= 0) return <Badge tone="bad">Expired</Badge>
  const text = `in ${formatSeconds(seconds)}`
  return (
    <time dateTime={time} title={formatExact(time)}>
      {isSoon(time, now.value) ? <Badge tone="warn">{text}</Badge> : text}
    </time>
  )
}
