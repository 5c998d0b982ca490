// Reports once a minute what every copy used and answered in it, all deployments in one request.
import type * as z from 'zod'
import type { CopyMetrics, MetricPoint, Metrics } from '../../protocol/metrics.schema.ts'
import { LATENCY_BUCKETS, statusClasses } from '../../protocol/request-buckets.ts'
import type { CopyUsage, Engine, RequestCounts, RevisionUsage } from '../engine.ts'
import type { LogEvent } from '../system/log-event.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Point = z.input<typeof MetricPoint>
type Copy = z.input<typeof CopyMetrics>
type Options = {
  engine: Pick<Engine, 'readUsage'>
  control: Pick<ControlPlaneClient, 'metrics'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
  logEvent: LogEvent
  /** How long is measured for a point. A minute has one point in any case. */
  period_ms?: number | undefined
  now?: () => number
}
/** Totals over all copies since the agent began to report. */
export type UsageTotals = RequestCounts & { cpu_ms: number; restarts: number; unreached: number }
/** What the copies of this agent used last. */
export type UsageNow = { copies: number; memory_bytes: number }

type LastRead = { at: number; copies: Map<string, CopyUsage>; unreached: Map<string, number> }

export const METRICS_PERIOD_MS = 60_000
const MINUTE_MS = 60_000
/** So that agents everywhere do not send in the same moment. */
const MAX_DELAY_MS = 10_000
/** Of one request. With more of both, a body has too many values. */
const MAX_POINTS = 300
const MAX_COPIES = 800
/** The requests that wait while the control plane does not answer. A minute may be sent for an hour. */
const MAX_WAITING = 30
const UNKNOWN_MS = 3600_000
/** Refusals that say nothing about the points. */
const RETRYABLE_STATUSES = new Set([401, 403, 408, 429])

export class MetricsReporter {
  readonly #options: Options
  readonly #periodMs: number
  readonly #now: () => number
  /** What was last read of each copy and revision. Undefined before the first time. */
  #previous: LastRead | undefined
  #lastMinute = 0
  #waiting: Point[][] = []
  #timer: NodeJS.Timeout | undefined
  /** The control plane is of an earlier version, without metrics. */
  #unknownUntil = 0
  totals: UsageTotals = { ...zeroCounts(), cpu_ms: 0, restarts: 0, unreached: 0 }
  usageNow: UsageNow = { copies: 0, memory_bytes: 0 }

  constructor(options: Options) {
    this.#options = options
    this.#periodMs = options.period_ms ?? METRICS_PERIOD_MS
    this.#now = options.now ?? Date.now
  }

  get waitingRequests(): number {
    return this.#waiting.length
  }

  start(): void {
    this.#schedule()
    this.#options.signal.addEventListener('abort', () => clearTimeout(this.#timer))
  }

  /** Under a new lease: what is used from now on counts. */
  async begin(): Promise<void> {
    const revisions = this.#previous ? undefined : await this.#options.engine.readUsage?.().catch(() => undefined)
    if (revisions && !this.#previous) this.#record(revisions)
  }

  #record(revisions: RevisionUsage[]): void {
    const known = revisions.filter(({ unreached }) => unreached !== null)
    this.#previous = {
      at: this.#now(),
      copies: new Map(
        revisions.flatMap(({ revision_id, copies }) => copies.map(one => [`${revision_id} ${one.copy}`, one])),
      ),
      unreached: new Map(known.map(({ revision_id, unreached }) => [revision_id, unreached!])),
    }
    const copies = revisions.flatMap(revision => revision.copies)
    this.usageNow = {
      copies: copies.filter(({ running }) => running).length,
      memory_bytes: copies.reduce((sum, { memory_bytes }) => sum + (memory_bytes ?? 0), 0),
    }
  }

  #schedule(): void {
    if (this.#options.signal.aborted) return
    const untilNext = this.#periodMs - (this.#now() % this.#periodMs)
    this.#timer = setTimeout(() => {
      void this.tick().then(hasPoints => {
        if (hasPoints) this.#sendLater()
      })
      this.#schedule()
    }, untilNext)
  }

  #sendLater(): void {
    const delayMs = Math.random() * Math.min(MAX_DELAY_MS, this.#periodMs / 6)
    const timer = setTimeout(() => void this.send(), delayMs)
    this.#options.signal.addEventListener('abort', () => clearTimeout(timer))
  }

  /** Measures the minute that ends now. Returns whether there is something to send. */
  async tick(): Promise<boolean> {
    const { engine, currentLease } = this.#options
    if (!engine.readUsage || this.#now() < this.#unknownUntil) return false
    // Another agent reports these copies. Under a later lease everything is measured from its beginning.
    if (!currentLease()) {
      this.#previous = undefined
      return false
    }
    const revisions = await engine.readUsage().catch(() => undefined)
    if (!revisions) return false
    const at = this.#now()
    // With a shorter period, a minute that was reported goes on in the next one.
    const minute = Math.floor((at - this.#periodMs / 2) / MINUTE_MS) * MINUTE_MS
    const previous = this.#previous
    // After a pause, such as sleep, what was used does not belong to this minute: a gap is right.
    const isContinuous = previous !== undefined && at - previous.at < 2 * Math.max(this.#periodMs, MINUTE_MS)
    if (isContinuous && minute <= this.#lastMinute) return false
    this.#record(revisions)
    if (!isContinuous) return false
    this.#lastMinute = minute
    const time = new Date(minute).toISOString()
    const points = revisions.map(revision => this.#toPoint(revision, time, previous))
    this.#waiting.push(...splitPoints(points.filter(point => point.unreached || point.copies.some(hasContent))))
    this.#waiting.splice(0, Math.max(0, this.#waiting.length - MAX_WAITING))
    return this.#waiting.length > 0
  }

  #toPoint({ deployment_id, revision_id, unreached, copies }: RevisionUsage, at: string, previous: LastRead): Point {
    const newlyUnreached = unreached === null ? null : increase(unreached, previous.unreached.get(revision_id) ?? 0)
    this.totals.unreached += newlyUnreached ?? 0
    const measured = copies.map(usage => toCopy(usage, previous.copies.get(`${revision_id} ${usage.copy}`)))
    for (const copy of measured) this.#addToTotals(copy)
    return {
      ...{ deployment_id, revision_id, at },
      ...(newlyUnreached !== null && { unreached: newlyUnreached }),
      copies: measured.map(({ metrics }) => metrics),
    }
  }

  #addToTotals({ metrics, requests }: MeasuredCopy): void {
    const { totals } = this
    totals.cpu_ms += metrics.cpu_ms ?? 0
    totals.restarts += metrics.restarts
    for (const [i, count] of (requests?.statuses ?? []).entries()) totals.statuses[i]! += count
    for (const [i, count] of (requests?.latencies ?? []).entries()) totals.latencies[i]! += count
  }

  /** The newest first: the control plane refuses minutes that are too old. */
  async send(): Promise<void> {
    const { control, currentLease, signal, logEvent } = this.#options
    const lease = currentLease()
    const points = this.#waiting.pop()
    if (!lease || !points) return
    try {
      const { refused } = await control.metrics({ ...lease, points } satisfies z.input<typeof Metrics>, signal)
      const ofTime = refused.find(({ code }) => code.startsWith('time_'))
      if (ofTime) logEvent('metrics refused', { reason: ofTime.code, help: 'Set the clock of this machine.' })
    } catch (error) {
      const { status = 0 } = error instanceof RequestRefused ? error : {}
      if (signal.aborted) return
      if (status === 404) this.#unknownUntil = this.#now() + UNKNOWN_MS
      else if (status >= 400 && status < 500 && !RETRYABLE_STATUSES.has(status)) {
        if (status !== 409) logEvent('metrics refused', { reason: (error as RequestRefused).code })
      } else this.#waiting.push(points)
      return
    }
    await this.send()
  }
}

type MeasuredCopy = { metrics: Copy; requests: RequestCounts | undefined }

/** The router remembers copies for a while after their end. */
const hasContent = ({ running, restarts, statuses }: Copy): boolean =>
  running || restarts > 0 || /[1-9]/.test(statuses ?? '')

/** What a total grew by. A lower one than before began again. */
const increase = (now: number, before: number): number => (now >= before ? now - before : now)
const increases = (now: number[], before: number[]): number[] => now.map((count, i) => increase(count, before[i] ?? 0))

/** What was used since `before`. A copy without one is new: its totals began since then. */
function toCopy(usage: CopyUsage, before: CopyUsage | undefined): MeasuredCopy {
  const { copy, running, memory_bytes } = usage
  const cpuMs =
    usage.cpu_cores != null
      ? usage.cpu_cores * METRICS_PERIOD_MS
      : usage.cpu_ms != null && before?.cpu_ms !== null
        ? increase(usage.cpu_ms, before?.cpu_ms ?? 0)
        : null
  const requests =
    usage.requests && before?.requests !== null
      ? {
          statuses: increases(usage.requests.statuses, before?.requests.statuses ?? []),
          latencies: increases(usage.requests.latencies, before?.requests.latencies ?? []),
        }
      : undefined
  const metrics = {
    ...{ copy, running, restarts: increase(usage.restarts, before?.restarts ?? 0) },
    ...(cpuMs !== null && { cpu_ms: Math.round(cpuMs) }),
    ...(memory_bytes !== null && { memory_bytes: Math.round(memory_bytes) }),
    ...(requests && { statuses: requests.statuses.join(), latencies: requests.latencies.join() }),
  }
  return { metrics, requests }
}

function zeroCounts(): RequestCounts {
  return { statuses: Array(statusClasses.length).fill(0), latencies: Array(LATENCY_BUCKETS).fill(0) }
}

/** A revision is never split: a second point of its minute would be ignored. */
function splitPoints(points: Point[]): Point[][] {
  const requests: Point[][] = []
  let copies = 0
  for (const point of points) {
    const last = requests.at(-1)
    copies += point.copies.length
    if (last && last.length < MAX_POINTS && copies <= MAX_COPIES) last.push(point)
    else {
      requests.push([point])
      copies = point.copies.length
    }
  }
  return requests
}
