// Times: relative where people compare, with the exact one on hover. One clock ticks for all of them.
import { signal, useComputed } from '@preact/signals'
import { formatAge, formatExact, formatSeconds } from '../format/time.ts'

export const now = signal(Date.now())
setInterval(() => {
  if (!document.hidden) now.value = Date.now()
}, 1000)

const secondsSince = (time: string | number) => Math.max(0, (now.value - new Date(time).getTime()) / 1000)

/** Only the text changes with the clock: a list has a thousand of these. */
export function Ago({ time, suffix = '' }: { time: string; suffix?: string }) {
  const text = useComputed(() => {
    const age = formatAge(secondsSince(time))
    return age === 'now' ? 'just now' : age + suffix
  })
  return (
    <time dateTime={time} title={formatExact(time)}>
      {text}
    </time>
  )
}

/** A duration that still grows. */
export const Running = ({ since }: { since: string }) => <>{formatSeconds(Math.floor(secondsSince(since)))}</>
