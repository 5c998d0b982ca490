// Times and numbers that people write as options.
import { usageError } from './failure.ts'

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const

/** Such as `90s`, `30m`, `12h`, `30d` or `2w`. */
export function parseDuration(text: string, option: string): number {
  const [, count, unit] = /^([1-9]\d{0,5})([smhdw])$/.exec(text) ?? []
  if (count && unit) return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
  throw usageError(`${option} ${text} is not a duration. Write it like 30m, 12h or 30d.`)
}

/** A time, a day in UTC, or a duration before now, as a time in UTC. */
export function parseTime(text: string, option: string): string {
  if (/^\d+[smhdw]$/.test(text)) return new Date(Date.now() - parseDuration(text, option)).toISOString()
  const time = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : Number.NaN
  if (time >= 0) return new Date(time).toISOString()
  throw usageError(`${option} ${text} is not a time. Write it like 2h, 2026-11-22 or 2026-11-22T12:00:00Z.`)
}

export function parseCount(text: string, option: string, max: number, min = 1): number {
  const count = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (count >= min && count <= max) return count
  throw usageError(`${option} ${text} is not a number from ${min} to ${max}.`)
}
