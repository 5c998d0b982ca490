// Counts, costs, shares and latencies as people read them (pure).
import { formatSeconds } from './time.ts'

const UNITS = ['k', 'M', 'G'] as const

/** `9,420`, `12.3 k`, `1.2 M`. */
export function formatCount(count: number): string {
  if (count < 10_000) return Math.round(count).toLocaleString('en')
  const power = Math.min(UNITS.length, Math.floor(Math.log10(count) / 3))
  const value = count / 1000 ** power
  return `${value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[power - 1]}`
}

/** Costs are decimal numbers in texts: `$0.0042`, `$12.30`. */
export function formatCost(cost: string | number): string {
  const value = Number(cost)
  if (value === 0) return '$0'
  if (value < 0.0001) return '< $0.0001'
  return value < 1 ? `$${Number(value.toPrecision(2))}` : `$${value.toLocaleString('en', { maximumFractionDigits: 2 })}`
}

/** `0 %`, `0.4 %`, `12 %`. */
export function formatShare(share: number): string {
  const percent = share * 100
  return `${percent > 0 && percent < 10 ? Number(percent.toFixed(1)) || '< 0.1' : Math.round(percent)} %`
}

/** `42 ms`, `1.24 s`, `1 m 12 s`. */
export function formatLatency(seconds: number): string {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`
  return seconds < 9.995 ? `${seconds.toFixed(2)} s` : formatSeconds(seconds)
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`

export function medianOf(values: number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length === 0) return undefined
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1]! + sorted[middle]!) / 2
}
