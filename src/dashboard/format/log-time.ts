// The times of log lines, in the zone of the reader or in UTC (pure). Not by `Intl`: there are thousands of them.
const two = (value: number) => String(value).padStart(2, '0')
const three = (value: number) => String(value).padStart(3, '0')

const shift = (at: number, utc: boolean): Date => new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60_000)

/** `14:20:24.101` */
export function formatLineTime(at: number, utc: boolean): string {
  const time = shift(at, utc)
  const clock = [time.getUTCHours(), time.getUTCMinutes(), time.getUTCSeconds()].map(two).join(':')
  return `${clock}.${three(time.getUTCMilliseconds())}`
}

/** `2026-11-23` */
export const formatLineDay = (at: number, utc: boolean): string => shift(at, utc).toISOString().slice(0, 10)

/** The value of an input for a local time: `2026-11-23T14:20`. */
export const toLocalInput = (at: number, utc: boolean): string => shift(at, utc).toISOString().slice(0, 19)
export const fromLocalInput = (text: string, utc: boolean): string => new Date(utc ? `${text}Z` : text).toISOString()
