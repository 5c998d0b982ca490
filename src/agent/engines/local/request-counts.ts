// Counts the answers of each copy by status and by the time until they began. The memory is fixed for each copy.
import { bucketOf, LATENCY_BOUNDS_MS, LATENCY_BUCKETS, statusClasses } from '../../../protocol/latency-histogram.ts'
import type { RequestCounts } from '../../engine.ts'

/** Counts by deployment, revision and copy, and those of requests that no copy accepted. */
export type CountedRequests = { copies: Record<string, RequestCounts>; unreached: Record<string, number> }

/** A client that disconnects before the answer counts as this status, as in the logs of nginx. */
export const CLIENT_GONE = 499

export const countsKey = (...ids: string[]): string => ids.join('/')

export const zeroCounts = (): RequestCounts => ({
  statuses: Array<number>(statusClasses.length).fill(0),
  latencies: Array<number>(LATENCY_BUCKETS).fill(0),
})

export function countAnswer({ statuses, latencies }: RequestCounts, status: number, ms: number): void {
  const place = Math.min(Math.max(Math.trunc(status / 100), 1), statuses.length) - 1
  statuses[place]!++
  latencies[bucketOf(ms, LATENCY_BOUNDS_MS)]!++
}
