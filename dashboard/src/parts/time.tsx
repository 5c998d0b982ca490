// Times: relative where people compare, with the exact one on hover. One clock ticks for all of them.
import { signal } from '@preact/signals'
import { formatAge, formatExact, formatSeconds } from '../format/time.ts'

export const now = signal(Date.now())
setInterval(() => {
  if (!document.hidden) now.value = Date.now()
}, 1000)

const secondsSince = (time: string | number) => Math.max(0, (now.value - new Date(time).getTime()) / 1000)

export const Ago = ({ time, suffix = '' }: { time: string; suffix?: string }) => {
  const age = formatAge(secondsSince(time))
  return (
    <time dateTime={time} title={formatExact(time)}>
      {age === 'now' ? 'just now' : age + suffix}
    </time>
  )
}

/** A duration that goes on. */
export const Running = ({ since }: { since: string }) => <>{formatSeconds(Math.floor(secondsSince(since)))}</>
