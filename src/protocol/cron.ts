// Cron expressions of five fields in a time zone (pure): when they fire, and how close together.

type Field = { name: string; min: number; max: number; names?: string[] }
const FIELDS: Field[] = [
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of the month', min: 1, max: 31 },
  {
    name: 'month',
    min: 1,
    max: 12,
    names: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
  },
  { name: 'day of the week', min: 0, max: 7, names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] },
]
const PART = /^(?:\*|(\w{1,3})(?:-(\w{1,3}))?)(?:\/(\d{1,2}))?$/
const DAY_MS = 86_400_000
/** The 29th of February is the same day of the week again after 40 years at most, and no date later than that. */
const MAX_DAYS = 41 * 366
const FIRINGS = 500
const MINUTE_MS = 60_000

export type Cron = {
  minutes: number[]
  hours: number[]
  days: Set<number>
  months: Set<number>
  weekdays: Set<number>
  /** True if both kinds of days are limited: then one of them suffices, as in cron. */
  isEitherDay: boolean
  /** True if the hours begin with `*`: then it fires by real time where clocks change. */
  isByRealTime: boolean
}

/** Explains the fault to the person who wrote the text. */
export class CronFault extends Error {}

export function parseCron(text: string): Cron {
  const fields = text.trim().split(/\s+/)
  if (fields.length !== FIELDS.length)
    throw new CronFault('must have five fields, such as `0 8 * * 1`: minute, hour, day, month and day of the week')
  const [minutes, hours, days, months, weekdays] = fields.map((field, i) => readField(field, FIELDS[i]!)) as [
    number[],
    number[],
    number[],
    number[],
    number[],
  ]
  const cron = {
    minutes,
    hours,
    days: new Set(days),
    months: new Set(months),
    weekdays: new Set(weekdays.map(day => day % 7)),
    isEitherDay: !fields[2]!.startsWith('*') && !fields[4]!.startsWith('*'),
    isByRealTime: fields[1]!.startsWith('*'),
  }
  if (nextFiring(cron, 0) === null) throw new CronFault('never fires')
  return cron
}

/** Ascending. */
function readField(text: string, field: Field): number[] {
  const values = new Set<number>()
  for (const part of text.split(',')) {
    const [whole, first, last, step] = PART.exec(part) ?? []
    if (whole === undefined) throw new CronFault(`has the invalid ${field.name} \`${part.slice(0, 20)}\``)
    const from = first === undefined ? field.min : readNumber(first, field)
    const to = last !== undefined ? readNumber(last, field) : first === undefined || step ? field.max : from
    const by = step === undefined ? 1 : Number(step)
    if (from > to || by === 0) throw new CronFault(`has the invalid ${field.name} \`${part.slice(0, 20)}\``)
    for (let value = from; value <= to; value += by) values.add(value)
  }
  return [...values].sort((a, b) => a - b)
}

function readNumber(text: string, { name, min, max, names = [] }: Field): number {
  const named = names.indexOf(text.toLowerCase())
  const value = named >= 0 ? named + min : /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new CronFault(`has the invalid ${name} \`${text.slice(0, 20)}\``)
}

function firesOnDay(cron: Cron, date: Date): boolean {
  const [day, weekday] = [cron.days.has(date.getUTCDate()), cron.weekdays.has(date.getUTCDay())]
  return cron.isEitherDay ? day || weekday : day && weekday
}

/**
 * The first firing at or after the time. Null if there is none. Where clocks change, a time that does not exist fires
 * at the end of the gap, and one that comes twice fires the first time. An expression whose hours begin with `*` goes
 * on by real time.
 */
export function nextFiring(cron: Cron, from: number, timeZone = 'UTC'): number | null {
  const firstDay = Math.floor((from + offsetAt(timeZone, from)) / DAY_MS) * DAY_MS
  let next = firstDay
  while (next < firstDay + MAX_DAYS * DAY_MS) {
    const day = next
    const date = new Date(day)
    const isInMonth = cron.months.has(date.getUTCMonth() + 1)
    next = isInMonth ? day + DAY_MS : Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
    if (!isInMonth || !firesOnDay(cron, date)) continue
    const clocks = clocksOn(day, timeZone)
    const isChanged = clocks.before !== clocks.after
    const time = isChanged ? firstOfChangedDay(cron, day, from, clocks) : firstOfDay(cron, day, from, clocks.before)
    if (time !== null) return time
  }
  return null
}

function firstOfDay(cron: Cron, day: number, from: number, offset: number): number | null {
  for (const hour of cron.hours)
    for (const minute of cron.minutes) {
      const time = day + (hour * 60 + minute) * MINUTE_MS - offset
      if (time >= from) return time
    }
  return null
}

/** The offsets from UTC around a day. If they differ, clocks change at `at`. */
type Clocks = { before: number; after: number; at: number }

/** A day begins and ends within these hours of the same day in UTC. */
const [EARLIEST_START, LATEST_END] = [-14 * 3_600_000, 36 * 3_600_000]

const knownClocks = new Map<string, Clocks>()
const MAX_KNOWN = 2000

function clocksOn(day: number, timeZone: string): Clocks {
  const key = `${timeZone} ${day}`
  const known = knownClocks.get(key)
  if (known) return known
  if (knownClocks.size >= MAX_KNOWN) knownClocks.clear()
  const clocks = findClocks(day, timeZone)
  knownClocks.set(key, clocks)
  return clocks
}

function findClocks(day: number, timeZone: string): Clocks {
  let [start, end] = [day + EARLIEST_START, day + LATEST_END]
  const [before, after] = [offsetAt(timeZone, start), offsetAt(timeZone, end)]
  if (before !== after)
    while (end - start > MINUTE_MS) {
      const middle = Math.floor((start + end) / 2 / MINUTE_MS) * MINUTE_MS
      if (offsetAt(timeZone, middle) === before) start = middle
      else end = middle
    }
  return { before, after, at: end }
}

function firstOfChangedDay(cron: Cron, day: number, from: number, { before, after, at }: Clocks): number | null {
  if (cron.isByRealTime) {
    const [minutes, hours] = [new Set(cron.minutes), new Set(cron.hours)]
    const [start, end] = [day - Math.max(before, after), day + DAY_MS - Math.min(before, after)]
    const passed = Math.max(0, Math.ceil((from - start) / MINUTE_MS))
    for (let time = start + passed * MINUTE_MS; time < end; time += MINUTE_MS) {
      const shown = time + (time < at ? before : after)
      const date = new Date(shown)
      const isOnDay = shown >= day && shown < day + DAY_MS
      if (isOnDay && hours.has(date.getUTCHours()) && minutes.has(date.getUTCMinutes())) return time
    }
    return null
  }
  for (const hour of cron.hours)
    for (const minute of cron.minutes) {
      const shown = day + (hour * 60 + minute) * MINUTE_MS
      const time = shown < at + before ? shown - before : Math.max(at, shown - after)
      if (time >= from) return time
    }
  return null
}

const formats = new Map<string, Intl.DateTimeFormat>()
/** Names come from requests, so the cache is bounded. */
const MAX_FORMATS = 600

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone)
  if (known) return known
  const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' })
  if (formats.size >= MAX_FORMATS) formats.clear()
  formats.set(timeZone, format)
  return format
}

/** Milliseconds that its clocks are ahead of UTC. */
function offsetAt(timeZone: string, time: number): number {
  if (timeZone === 'UTC') return 0
  const name = formatOf(timeZone)
    .formatToParts(time)
    .find(({ type }) => type === 'timeZoneName')!.value
  const [, sign, hours, minutes, seconds = '0'] = /^GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(name) ?? []
  if (sign === undefined) return 0
  const offset = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
  return sign === '-' ? -offset : offset
}

/** True for a name of the IANA database, such as `Europe/Berlin`. */
export function isTimeZone(name: string): boolean {
  try {
    formatOf(name)
    return /^[A-Za-z]/.test(name)
  } catch {
    return false
  }
}

/** Returns the last firing from `first` on until the time. Firings more than two days before it are not looked at. */
export function lastFiring(cron: Cron, first: number, until: number): number {
  let last = nextFiring(cron, Math.max(first, until - 2 * DAY_MS)) ?? first
  if (last > until) return first
  for (let next = nextFiring(cron, last + 1); next !== null && next <= until; next = nextFiring(cron, last + 1))
    last = next
  return last
}

/** Between two of the next firings. */
export function smallestGapSeconds(cron: Cron, from: number): number {
  let smallest = Number.POSITIVE_INFINITY
  let last = nextFiring(cron, from)
  for (let i = 1; i < FIRINGS && last !== null; i++) {
    const next = nextFiring(cron, last + 1)
    if (next !== null) smallest = Math.min(smallest, next - last)
    last = next
  }
  return smallest / 1000
}
