// Ranges of days in UTC, both ends included.
import { fail } from './errors.ts'

const DAY_MS = 86_400_000
const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

type Days = { start?: string | undefined; end?: string | undefined }

export function chooseDays(
  { start, end }: Days,
  now: number,
  { byDefault, most }: { byDefault: number; most: number },
): { start: string; end: string } {
  const last = end === undefined ? now : Date.parse(end)
  const first = start === undefined ? last - (byDefault - 1) * DAY_MS : Date.parse(start)
  const fault = (msg: string) => fail('invalid_request', { errors: [{ type: 'custom', loc: ['query', 'start'], msg }] })
  if (first > last) throw fault('must not be after `end`')
  if (last - first >= most * DAY_MS) throw fault(`must be less than ${most} days before \`end\``)
  return { start: dayOf(first), end: dayOf(last) }
}
