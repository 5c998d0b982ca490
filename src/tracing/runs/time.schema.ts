// Times as clients of tracing send them.
import * as z from 'zod'
import { boundedText, DAY_SOURCE } from '../../protocol/wire.ts'

const TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/i
const OFFSET = /^([+-]\d\d):?(\d\d)?$/
const NOT_A_TIME = 'must be a time such as 2026-11-22T12:00:00.123456Z, or a number of milliseconds since 1970'
const MAX_MS = Date.UTC(10_000)

/**
 * Returns UTC with microseconds. A text without a zone is UTC; a day alone is its first moment. Undefined if it is no
 * time.
 */
export function readTraceTime(value: string | number): string | undefined {
  if (typeof value === 'number') return formatTime(Math.floor(value), Math.round((value % 1) * 1000))
  const [, day, minutes = '00:00', seconds = '00', fraction = '', zone = 'Z'] = TIME.exec(value) ?? []
  if (!day) return undefined
  const offset = zone.toUpperCase().replace(OFFSET, (_, hours, rest = '00') => `${hours}:${rest}`)
  const time = Date.parse(`${day}T${minutes}:${seconds}${offset}`)
  // Date.parse() takes February 30 for March 2.
  const start = Date.parse(`${day}T00:00:00Z`)
  if (Number.isNaN(time) || !(start >= 0) || !new Date(start).toISOString().startsWith(day)) return undefined
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0'))
  return formatTime(time + Math.floor(micros / 1000), micros % 1000)
}

function formatTime(ms: number, micros: number): string | undefined {
  if (!(ms >= 0 && ms < MAX_MS)) return undefined
  return new Date(ms).toISOString().replace('Z', `${String(micros % 1000).padStart(3, '0')}Z`)
}

/** The texts of `readTraceTime()`, but for a few that only `Date.parse()` knows. */
const TIME_SOURCE = [
  `^${DAY_SOURCE}`,
  String.raw`(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?)?`,
  String.raw`(?:Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?)?$`,
].join('')
/** For parameters of a query, which are texts. */
export const TIME_TEXT = { type: 'string', format: 'date-time', pattern: TIME_SOURCE } as const

export const TraceTime = z
  .union(
    [
      boundedText(64, NOT_A_TIME).meta({ pattern: TIME_SOURCE }),
      z.number({ error: NOT_A_TIME }).meta({ minimum: 0, exclusiveMaximum: MAX_MS }),
    ],
    { error: NOT_A_TIME },
  )
  .transform((value, check) => {
    const time = readTraceTime(value)
    if (time !== undefined) return time
    check.addIssue({ code: 'custom', message: NOT_A_TIME })
    return z.NEVER
  })
  .meta({ description: 'ISO 8601, in UTC where no zone is given, or milliseconds since 1970.' })
