// Requests are counted by status, and in fixed buckets of time. The router loads this at its start: import nothing.

/** Upper bounds of the buckets of response times, in milliseconds. One more bucket has no bound. */
export const LATENCY_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000] as const
export const LATENCY_BUCKETS = LATENCY_BOUNDS_MS.length + 1

/** The place of a time among buckets with these upper bounds. The times of most answers are small. */
export function bucketOf(ms: number, bounds: readonly number[]): number {
  let bucket = 0
  while (bucket < bounds.length && ms > bounds[bucket]!) bucket++
  return bucket
}

export const statusClasses = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** A 1.25th apart, so that two revisions can be compared: a time 50 % longer is two buckets further. */
export const ROLLOUT_BOUNDS_MS: readonly number[] = Array.from({ length: 50 }, (_, i) => 1.25 ** i)
