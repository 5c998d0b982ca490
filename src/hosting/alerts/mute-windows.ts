// Finds the mute that covers a time, and its end (pure). Times are milliseconds since 1970.
import type { WeeklyHours } from '../../protocol/alerts.schema.ts'
import { nextFiring, parseCron } from '../../protocol/cron.ts'

export type MuteWindow = {
  /** Null: has always begun, or never ends. */
  starts_at: string | null
  ends_at: string | null
  weekly: WeeklyHours | null
}

const DAY_MINUTES = 24 * 60
const MINUTE_MS = 60_000
/** Windows that follow each other are one, up to this many. */
const MAX_JOINED = 20

const minutesOf = (clock: string): number => {
  const [hours, minutes] = clock.split(':').map(Number)
  return hours! * 60 + minutes!
}

/** When the window that covers the time ends, or null if none does. A window without an end ends at infinity. */
export function endOfWindow({ starts_at, ends_at, weekly }: MuteWindow, at: number): number | null {
  const start = starts_at === null ? Number.NEGATIVE_INFINITY : Date.parse(starts_at)
  const end = ends_at === null ? Number.POSITIVE_INFINITY : Date.parse(ends_at)
  if (at < start || at >= end) return null
  if (!weekly) return end
  const from = minutesOf(weekly.from)
  const minutes = (minutesOf(weekly.until) - from + DAY_MINUTES) % DAY_MINUTES || DAY_MINUTES
  const cron = parseCron(`${from % 60} ${Math.floor(from / 60)} * * ${weekly.days.join(',')}`)
  const began = nextFiring(cron, at - minutes * MINUTE_MS + 1, weekly.time_zone)
  return began === null || began > at ? null : Math.min(end, began + minutes * MINUTE_MS)
}

/** When all of the windows that cover the time, or follow one that does, have ended. Null: none covers it. */
export function mutedUntil(windows: readonly MuteWindow[], at: number): number | null {
  let until: number | null = null
  for (let i = 0; i < MAX_JOINED; i++) {
    const from = until ?? at
    const ends = windows.map(window => endOfWindow(window, from)).filter(end => end !== null)
    if (ends.length === 0) return until
    until = Math.max(...ends)
    if (until === Number.POSITIVE_INFINITY) return until
  }
  return until
}

/** The same as a time of Postgres. */
export function toMuteEnd(windows: readonly MuteWindow[], at: number): string | null {
  const until = mutedUntil(windows, at)
  if (until === null) return null
  return until === Number.POSITIVE_INFINITY ? 'infinity' : new Date(until).toISOString()
}
