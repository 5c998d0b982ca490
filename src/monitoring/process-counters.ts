// Counts the requests and database trips of this process. The memory is bounded by the number of operations.

import { LATENCY_BOUNDS_MS, LATENCY_BUCKETS, statusClasses } from '../protocol/latency-histogram.ts'
import type { MetricFamily } from '../protocol/open-metrics.ts'

/** The label of pages and unknown paths. */
const NO_OPERATION = 'none'

type Durations = { counts: number[]; sumMs: number }
const newDurations = (): Durations => ({ counts: Array<number>(LATENCY_BUCKETS).fill(0), sumMs: 0 })

function addDuration(durations: Durations, ms: number): void {
  const bucket = LATENCY_BOUNDS_MS.findIndex(bound => ms <= bound)
  durations.counts[bucket < 0 ? LATENCY_BOUNDS_MS.length : bucket]!++
  durations.sumMs += ms
}

type SweepCounts = Map<string, { done: number; failed: number; lastMs: number; doneAt: number }>
type SweptCounts = Map<string, { rows: number; longestMs: number }>

/** The scheduled work of this process. */
function sweepFamilies(sweeps: SweepCounts, swept: SweptCounts): MetricFamily[] {
  const runs = [...sweeps]
  const tables = [...swept]
  return [
    {
      name: 'slipway_sweeps',
      type: 'counter',
      help: 'Runs of the scheduled work, by its part and outcome.',
      samples: runs.flatMap(([sweep, { done, failed }]) => [
        { labels: { sweep, outcome: 'done' }, value: done },
        { labels: { sweep, outcome: 'failed' }, value: failed },
      ]),
    },
    {
      name: 'slipway_sweep_seconds',
      type: 'gauge',
      help: 'How long the last run of a part of the scheduled work took.',
      samples: runs.map(([sweep, { lastMs }]) => ({ labels: { sweep }, value: lastMs / 1000 })),
    },
    {
      name: 'slipway_sweep_done_timestamp_seconds',
      type: 'gauge',
      help: 'When a part of the scheduled work was last done.',
      samples: runs.flatMap(([sweep, { doneAt }]) => (doneAt ? [{ labels: { sweep }, value: doneAt / 1000 }] : [])),
    },
    {
      name: 'slipway_swept_rows',
      type: 'counter',
      help: 'Expired rows that this process deleted.',
      samples: tables.map(([table, { rows }]) => ({ labels: { table }, value: rows })),
    },
    {
      name: 'slipway_sweep_longest_batch_seconds',
      type: 'gauge',
      help: 'The longest trip that deleted a batch of expired rows.',
      samples: tables.map(([table, { longestMs }]) => ({ labels: { table }, value: longestMs / 1000 })),
    },
  ]
}

export type ProcessCounters = ReturnType<typeof createProcessCounters>

export function createProcessCounters() {
  const requests = new Map<string, { statuses: number[]; durations: Durations }>()
  const trips = newDurations()
  let failedTrips = 0
  const sweeps: SweepCounts = new Map()
  const swept: SweptCounts = new Map()
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
    countSweep(sweep: string, ms: number, isDone: boolean): void {
      const counted = sweeps.get(sweep) ?? { done: 0, failed: 0, lastMs: 0, doneAt: 0 }
      sweeps.set(sweep, counted)
      counted.lastMs = ms
      if (!isDone) counted.failed++
      else Object.assign(counted, { done: counted.done + 1, doneAt: Date.now() })
    },
    countSwept({ table, rows, ms }: { table: string; rows: number; ms: number }): void {
      const counted = swept.get(table) ?? { rows: 0, longestMs: 0 }
      swept.set(table, { rows: counted.rows + rows, longestMs: Math.max(counted.longestMs, ms) })
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
        ...sweepFamilies(sweeps, swept),
      ]
    },
  }
}
