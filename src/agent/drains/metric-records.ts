// Turns the points of minutes into records of metrics. Receivers such as Prometheus take totals, so they are added up.
import type * as z from 'zod'
import type { MetricRecord, MetricValue } from '../../protocol/drain-records.ts'
import { LATENCY_BOUNDS_MS, statusClasses } from '../../protocol/latency-histogram.ts'
import type { CopyMetrics, MetricPoint } from '../../protocol/metrics.schema.ts'

type Point = z.input<typeof MetricPoint>
type Copy = z.input<typeof CopyMetrics>
type Totals = { since: string; at: number; cpu_ms: number; restarts: number; statuses: number[]; latencies: number[] }

/** A copy that is gone for as long begins again at 0. */
const FORGOTTEN_MS = 2 * 3600_000
const BOUNDS = LATENCY_BOUNDS_MS.map(ms => ms / 1000)

export class MetricTotals {
  readonly #copies = new Map<string, Totals>()

  /** The records of the copies of a point, and one of the revision. */
  add(point: Point): MetricRecord[] {
    const { revision_id, at, copies, unreached } = point
    const time = new Date(Date.parse(at) + 60_000).toISOString()
    const revision: MetricValue[] = [
      { name: 'slipway.copies', unit: '{copy}', kind: 'gauge', value: copies.filter(({ running }) => running).length },
    ]
    if (unreached != null)
      revision.push({ name: 'slipway.requests.unreached', unit: '{request}', kind: 'gauge', value: unreached })
    const records = copies.map(copy => this.#toRecord(revision_id, at, time, copy))
    return [...records, { time, since: at, attributes: {}, values: revision }]
  }

  #toRecord(revision: string, since: string, time: string, copy: Copy): MetricRecord {
    const name = `${revision} ${copy.copy}`
    const totals = this.#copies.get(name) ?? { since, at: 0, cpu_ms: 0, restarts: 0, statuses: [], latencies: [] }
    this.#copies.set(name, totals)
    totals.at = Date.parse(time)
    totals.cpu_ms += copy.cpu_ms ?? 0
    totals.restarts += copy.restarts
    addCounts(totals.statuses, copy.statuses)
    addCounts(totals.latencies, copy.latencies)
    const attributes = { 'slipway.copy': copy.copy, ...(copy.process != null && { 'slipway.process': copy.process }) }
    return { time, since: totals.since, attributes, values: [...toValues(totals, copy)] }
  }

  prune(now: number): void {
    for (const [name, { at }] of this.#copies) if (at < now - FORGOTTEN_MS) this.#copies.delete(name)
  }
}

function addCounts(totals: number[], text: string | null | undefined): void {
  for (const [i, count] of (text ?? '').split(',').entries()) totals[i] = (totals[i] ?? 0) + Number(count)
}

function* toValues({ cpu_ms, restarts, statuses, latencies }: Totals, copy: Copy): Generator<MetricValue> {
  if (copy.memory_bytes != null)
    yield { name: 'slipway.copy.memory', unit: 'By', kind: 'gauge', value: copy.memory_bytes }
  if (copy.cpu_ms != null) yield { name: 'slipway.copy.cpu', unit: 's', kind: 'sum', value: cpu_ms / 1000 }
  yield { name: 'slipway.copy.restarts', unit: '{restart}', kind: 'sum', value: restarts }
  if (copy.statuses != null)
    for (const [i, status] of statusClasses.entries()) {
      const attributes = { 'http.response.status_class': status }
      yield { name: 'slipway.requests', unit: '{request}', kind: 'sum', value: statuses[i] ?? 0, attributes }
    }
  if (copy.latencies != null)
    yield { name: 'http.server.request.duration', unit: 's', kind: 'histogram', bounds: BOUNDS, counts: [...latencies] }
}
