// Counts the requests and database trips of this process. The memory is bounded by the number of operations.
import type { MetricFamily } from '../protocol/open-metrics.ts'
import { LATENCY_BOUNDS_MS, LATENCY_BUCKETS, statusClasses } from '../protocol/request-buckets.ts'

/** Of pages and unknown paths. */
const NO_OPERATION = 'none'

type Durations = { counts: number[]; sumMs: number }
const newDurations = (): Durations => ({ counts: Array<number>(LATENCY_BUCKETS).fill(0), sumMs: 0 })

function addDuration(durations: Durations, ms: number): void {
  const bucket = LATENCY_BOUNDS_MS.findIndex(bound => ms <= bound)
  durations.counts[bucket < 0 ? LATENCY_BOUNDS_MS.length : bucket]!++
  durations.sumMs += ms
}

export type ProcessCounters = ReturnType<typeof createProcessCounters>

export function createProcessCounters() {
  const requests = new Map<string, { statuses: number[]; durations: Durations }>()
  const trips = newDurations()
  let failedTrips = 0
  return {
    /** `operation` is one of a fixed set: an id from the routes, or undefined. */
    countRequest(operation: string | undefined, status: number, ms: number): void {
      const id = operation ?? NO_OPERATION
      const counted = requests.get(id) ?? { statuses: statusClasses.map(() => 0), durations: newDurations() }
      requests.set(id, counted)
      counted.statuses[Math.trunc(status / 100) - 1]!++
      addDuration(counted.durations, ms)
    },
    countTrip(ms: number, isAnswered: boolean): void {
      addDuration(trips, ms)
      if (!isAnswered) failedTrips++
    },
    families(): MetricFamily[] {
      const all = [...requests]
      return [
        {
          name: 'slipway_requests',
          type: 'counter',
          help: 'Requests that this process answered, by operation and class of status.',
          samples: all.flatMap(([operation, { statuses }]) =>
            statuses.flatMap((value, i) => (value ? { labels: { operation, status: statusClasses[i]! }, value } : [])),
          ),
        },
        {
          name: 'slipway_request_duration_seconds',
          type: 'histogram',
          help: 'The time until an answer began, by operation. Long polls wait on purpose.',
          samples: all.map(([operation, { durations }]) => ({ labels: { operation }, value: durations })),
        },
        {
          name: 'slipway_database_trip_duration_seconds',
          type: 'histogram',
          help: 'The time of a round trip to the database.',
          samples: [{ value: trips }],
        },
        {
          name: 'slipway_database_trips_failed',
          type: 'counter',
          help: 'Round trips that the database did not answer.',
          samples: [{ value: failedTrips }],
        },
      ]
    },
  }
}
