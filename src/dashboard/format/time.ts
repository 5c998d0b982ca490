// Times and durations as people read them (pure).
const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `1 m 12 s`, `3 h 5 m`, `2 d`. Below ten seconds with a decimal, because builds and starts are compared. */
export function formatSeconds(seconds: number): string {
  if (seconds < 9.95) return `${seconds < 0.05 ? '0' : seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < MINUTE) return `${whole} s`
  if (whole < HOUR) return join(Math.floor(whole / MINUTE), 'm', whole % MINUTE, 's')
  if (whole < DAY) return join(Math.floor(whole / HOUR), 'h', Math.floor((whole % HOUR) / MINUTE), 'm')
  return `${Math.floor(whole / DAY)} d`
}
const join = (large: number, largeUnit: string, small: number, smallUnit: string) =>
  small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`

/** One unit: `12 s`, `3 h`, `2 w`. */
export function formatAge(seconds: number): string {
  if (seconds < 5) return 'now'
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} m`
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`
  if (seconds < 14 * DAY) return `${Math.floor(seconds / DAY)} d`
  if (seconds < 365 * DAY) return `${Math.floor(seconds / (7 * DAY))} w`
  return `${Math.floor(seconds / (365 * DAY))} y`
}

const createFormats = (timeZone?: 'UTC') => ({
  exact: new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long', timeZone }),
  clock: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', timeZone }),
  short: new Intl.DateTimeFormat(undefined, {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    timeZone,
  }),
})
let formats = createFormats()
/** Without one, the zone of the viewer. */
export function setTimeZone(timeZone?: 'UTC'): void {
  formats = createFormats(timeZone)
}

export const formatExact = (time: string | number): string => formats.exact.format(new Date(time))
export const formatClock = (time: string | number): string => formats.clock.format(new Date(time))
export const formatShort = (time: string | number): string => formats.short.format(new Date(time))
