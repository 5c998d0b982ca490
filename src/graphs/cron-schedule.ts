// Cron expressions of five fields, in a time zone.
type Field = { name: string; min: number; max: number; names?: string[] }
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const FIELDS: Field[] = [
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of the month', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12, names: MONTHS },
  { name: 'day of the week', min: 0, max: 7, names: DAYS },
]
const NICKNAMES: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

export type CronSchedule = {
  minutes: Set<number>
  hours: Set<number>
  days: Set<number>
  months: Set<number>
  weekdays: Set<number>
  /** Two restricted fields of days are alternatives, as cron has it. */
  isEitherDay: boolean
}

/** Throws a sentence that names the field. */
export function parseCron(expression: string): CronSchedule {
  const text = NICKNAMES[expression.trim().toLowerCase()] ?? expression.trim()
  const parts = text.split(' ').filter(part => part !== '')
  if (parts.length !== 5)
    throw new Error(`\`schedule\` must have five fields, such as "0 9 * * 1-5"; "${expression}" has ${parts.length}.`)
  const [minutes, hours, days, months, weekdays] = FIELDS.map((field, i) => parseField(parts[i]!, field)) as [
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
  ]
  if (weekdays.has(7)) weekdays.add(0)
  const isRestricted = (part: string) => !part.startsWith('*')
  return { minutes, hours, days, months, weekdays, isEitherDay: isRestricted(parts[2]!) && isRestricted(parts[4]!) }
}

function parseField(text: string, field: Field): Set<number> {
  const values = new Set<number>()
  const refuse = () => new Error(`\`schedule\`: "${text}" is not a ${field.name} from ${field.min} to ${field.max}.`)
  const toNumber = (word: string) => {
    const named = field.names?.indexOf(word.toLowerCase()) ?? -1
    const number = named >= 0 ? named + (field.min === 1 ? 1 : 0) : /^\d{1,2}$/.test(word) ? Number(word) : Number.NaN
    if (!(number >= field.min && number <= field.max)) throw refuse()
    return number
  }
  for (const part of text.split(',')) {
    const [range = '', step] = part.split('/')
    const by = step === undefined ? 1 : /^\d{1,2}$/.test(step) ? Number(step) : 0
    if (by < 1) throw refuse()
    const [from, to, more] = range === '*' ? [`${field.min}`, `${field.max}`] : range.split('-')
    if (more !== undefined) throw refuse()
    const first = toNumber(from!)
    const last = to === undefined ? (step === undefined ? first : field.max) : toNumber(to)
    if (last < first) throw refuse()
    for (let value = first; value <= last; value += by) values.add(value)
  }
  return values
}

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

const MINUTE = 60_000

/** The first minute after a moment that fits, or null if none does within five years. */
export function nextDate(schedule: CronSchedule, after: Date, timeZone = 'UTC'): Date | null {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    weekday: 'short',
    hour: 'numeric',
    minute: 'numeric',
  })
  let time = Math.floor(after.valueOf() / MINUTE) * MINUTE + MINUTE
  const end = time + 5 * 366 * 24 * 60 * MINUTE
  while (time < end) {
    const parts = Object.fromEntries(format.formatToParts(time).map(part => [part.type, part.value]))
    const [month, day, hour, minute] = [parts.month, parts.day, parts.hour, parts.minute].map(Number) as [
      number,
      number,
      number,
      number,
    ]
    const isDay = schedule.days.has(day)
    const isWeekday = schedule.weekdays.has(DAYS.indexOf(parts.weekday!.toLowerCase()))
    const fitsDay = schedule.months.has(month) && (schedule.isEitherDay ? isDay || isWeekday : isDay && isWeekday)
    if (fitsDay && schedule.hours.has(hour) && schedule.minutes.has(minute)) return new Date(time)
    // To the next hour, but not over midnight at once: the clock may change on the way.
    time += fitsDay && schedule.hours.has(hour) ? MINUTE : (60 - minute) * MINUTE
  }
  return null
}
