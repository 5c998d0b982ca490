// Quantiles of the latencies of answers, from the counts of their buckets (pure).
import { LATENCY_BOUNDS_MS } from '../../protocol/latency-histogram.ts'

/** Interpolates within the bucket. In the last one, which has no upper bound, it is the lower one. Pure. */
export function quantileOf(counts: number[], fraction: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let before = 0
  for (const [i, count] of counts.entries()) {
    if (count > 0 && before + count >= fraction * total) {
      const lower = LATENCY_BOUNDS_MS[i - 1] ?? 0
      const upper = LATENCY_BOUNDS_MS[i] ?? lower
      return lower + (upper - lower) * ((fraction * total - before) / count)
    }
    before += count
  }
  return null
}
