// Cron expressions of five fields, in UTC (pure): when they fire, and how close together.

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
/** The 29th of February of a century that is no leap year. */
const MAX_DAYS = 9 * 366
const FIRINGS = 500

export type Cron = {
  minutes: number[]
  hours: number[]
  days: Set<number>
  months: Set<number>
  weekdays: Set<number>
  /** True if both kinds of days are limited: then one of them suffices, as in cron. */
  isEitherDay: boolean
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

/** The first one at or after the time. Null if there is none. */
export function nextFiring(cron: Cron, from: number): number | null {
  const firstDay = Math.floor(from / DAY_MS) * DAY_MS
  let next = firstDay
  while (next < firstDay + MAX_DAYS * DAY_MS) {
    const day = next
    const date = new Date(day)
    const isInMonth = cron.months.has(date.getUTCMonth() + 1)
    next = isInMonth ? day + DAY_MS : Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
    if (!isInMonth || !firesOnDay(cron, date)) continue
    for (const hour of cron.hours)
      for (const minute of cron.minutes) {
        const time = day + (hour * 60 + minute) * 60_000
        if (time >= from) return time
      }
  }
  return null
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
