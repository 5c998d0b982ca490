// Counts the answers of the two revisions of a split, finely enough to compare them, with the requests that failed.
import type { IncomingMessage } from 'node:http'
import { bucketOf, ROLLOUT_BOUNDS_MS } from '../../../protocol/latency-histogram.ts'
import type { FailingRequest } from '../../../protocol/rollout.schema.ts'
import type { SplitTotals } from '../../engine.ts'
import { CLIENT_GONE } from './request-counts.ts'
import { traceOf } from './trace-context.ts'

/** Totals since the router started. */
export type SplitCounts = Omit<SplitTotals, 'restarts'>

const MOST = 20
const MAX_PATH = 500
/** The slowest of a step are no older than this. */
const SLOW_MS = 10 * 60_000

const noCounts = (): SplitCounts => ({ revisions: {}, failing: [], slow: [] })

/** The memory is fixed for each deployment whose traffic is split. */
export class SplitCounter {
  readonly #deployments = new Map<string, SplitCounts>()
  /** The revision that gets a share beside the routed one of each. */
  #beside = new Map<string, string>()

  /** `beside` was the one when the request came. An answer that is as late as the next one counts for none. */
  record(
    { of, revision, beside }: { of: string; revision: string; beside: string },
    req: IncomingMessage,
    status: number,
    ms: number,
  ): void {
    if (this.#beside.get(of) !== beside) return
    const counts = this.#deployments.get(of) ?? noCounts()
    this.#deployments.set(of, counts)
    if (!counts.revisions[revision]) this.#begin(counts, revision, beside)
    const answers = counts.revisions[revision]!
    // A client that left has no answer. Its wait is counted: a revision that hangs has no other sign.
    if (status !== CLIENT_GONE) answers.requests++
    answers.latencies[bucketOf(ms, ROLLOUT_BOUNDS_MS)]!++
    const isFailed = status >= 500
    if (isFailed) answers.failed++
    if (revision !== beside) return
    if (isFailed) {
      counts.failing.push(describe(req, status, ms))
      if (counts.failing.length > MOST) counts.failing.shift()
    } else if (counts.slow.length < MOST || ms > counts.slow.at(-1)!.ms) keepSlow(counts, describe(req, status, ms))
  }

  /** Another routed one begins anew. */
  #begin(counts: SplitCounts, revision: string, beside: string): void {
    for (const known of Object.keys(counts.revisions))
      if (known !== beside && revision !== beside) delete counts.revisions[known]
    counts.revisions[revision] = { requests: 0, failed: 0, latencies: Array(ROLLOUT_BOUNDS_MS.length + 1).fill(0) }
  }

  /** Another revision beside it begins anew. */
  keepOnly(beside: Map<string, string>): void {
    for (const of of this.#deployments.keys()) if (beside.get(of) !== this.#beside.get(of)) this.#deployments.delete(of)
    this.#beside = beside
  }

  read(of: string): SplitCounts {
    return this.#deployments.get(of) ?? noCounts()
  }
}

function keepSlow(counts: SplitCounts, request: FailingRequest): void {
  const since = Date.now() - SLOW_MS
  counts.slow = [...counts.slow.filter(({ at }) => Date.parse(at) >= since), request]
    .sort((a, b) => b.ms - a.ms)
    .slice(0, MOST)
}

function describe(req: IncomingMessage, status: number, ms: number): FailingRequest {
  return {
    at: new Date().toISOString(),
    method: req.method!.slice(0, 20),
    path: req.url!.split('?')[0]!.slice(0, MAX_PATH),
    status,
    ms: Math.round(ms * 10) / 10,
    trace_id: traceOf(req).trace_id,
  }
}
