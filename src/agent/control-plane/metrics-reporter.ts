// Reports once a minute what every copy used and answered in it, all deployments in one request, and within the minute
// those where requests begin to fail.
import type * as z from 'zod'
import { LATENCY_BOUNDS_MS, LATENCY_BUCKETS, statusClasses } from '../../protocol/latency-histogram.ts'
import { type CopyMetrics, MAX_COUNT, type MetricPoint, type Metrics } from '../../protocol/metrics.schema.ts'
import type { CopyUsage, Engine, RequestCounts, RevisionUsage, StoreUsage } from '../engine.ts'
import type { LogEvent } from '../system/log-event.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Point = z.input<typeof MetricPoint>
type Copy = z.input<typeof CopyMetrics>
type Options = {
  engine: Pick<Engine, 'readUsage' | 'storeUsage'>
  control: Pick<ControlPlaneClient, 'metrics' | 'earlyMetrics'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
  logEvent: LogEvent
  /** Gets the points of a minute when it ends. */
  onPoints?: (points: Point[]) => void
  /** The period of a measurement. A minute has one point in any case. */
  period_ms?: number | undefined
  now?: () => number
}
/** Totals over all copies since the agent began to report. */
export type UsageTotals = RequestCounts & { cpu_ms: number; restarts: number; unreached: number }
/** The last usage of all copies of this agent. */
export type UsageNow = { copies: number; memory_bytes: number }

/** The last reading of a revision, and the last minute that was reported. */
type LastRead = { minute: number; copies: Map<string, CopyUsage>; unreached: number | null }

const METRICS_PERIOD_MS = 60_000
/** Alerts are to know of failures before the minute is over. */
const EARLY_MS = 10_000
/** The end of a minute is near enough. */
const LEAST_LEFT_MS = 5000
const MINUTE_MS = 60_000
/** A timer may be early. */
const TIMER_SLACK_MS = 100
/** Spreads the requests of all agents. */
const MAX_DELAY_MS = 10_000
/** The limits of one request. A body with more of both has too many values. */
const MAX_POINTS = 300
const MAX_COPIES = 800
const MAX_STORES = 20
/** The requests that wait while the control plane does not answer. A minute may be sent for an hour. */
const MAX_WAITING = 30
const UNKNOWN_MS = 3600_000
/** Refusals that say nothing about the points. */
const RETRYABLE_STATUSES = new Set([401, 403, 408, 429])

export class MetricsReporter {
  readonly #options: Options
  readonly #periodMs: number
  readonly #now: () => number
  /** Undefined before the first time. */
  #previous: { at: number; revisions: Map<string, LastRead> } | undefined
  #waiting: Point[][] = []
  #timer: NodeJS.Timeout | undefined
  #sendTimer: NodeJS.Timeout | undefined
  /** The control plane is of an earlier version, without metrics. */
  #unknownUntil = 0
  #earlyTimer: NodeJS.Timeout | undefined
  /** The control plane is of an earlier version, without early metrics. */
  #noEarlyUntil = 0
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
    this.#earlyTimer = setInterval(() => void this.lookEarly(), EARLY_MS)
    this.#options.signal.addEventListener('abort', () => {
      clearTimeout(this.#timer)
      clearInterval(this.#earlyTimer)
      clearTimeout(this.#sendTimer)
    })
  }

  /** A new lease counts the usage from now on. */
  async begin(): Promise<void> {
    const revisions = this.#previous ? undefined : await this.#options.engine.readUsage?.().catch(() => undefined)
    if (revisions && !this.#previous)
      this.#previous = { at: this.#now(), revisions: new Map(revisions.map(toLastRead)) }
  }

  #schedule(): void {
    if (this.#options.signal.aborted) return
    const untilNext = this.#periodMs - (this.#now() % this.#periodMs)
    this.#timer = setTimeout(() => {
      void this.tick().then(when => {
        if (when === 'soon') this.#sendLater()
        else if (when === 'now') void this.send()
      })
      this.#schedule()
    }, untilNext)
  }

  #sendLater(): void {
    const delayMs = Math.random() * Math.min(MAX_DELAY_MS, this.#periodMs / 6)
    clearTimeout(this.#sendTimer)
    this.#sendTimer = setTimeout(() => void this.send(), delayMs)
  }

  /** Measures the minute that ends now. Returns when to send: a minute with failures does not wait for its turn. */
  async tick(): Promise<'now' | 'soon' | false> {
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
    const minute = Math.floor((at - this.#periodMs / 2) / MINUTE_MS) * MINUTE_MS
    const previous = this.#previous
    // Leaves a gap after a pause such as sleep, because the usage does not belong to this minute.
    const isContinuous = previous !== undefined && at - previous.at < 2 * Math.max(this.#periodMs, MINUTE_MS)
    this.#previous = { at, revisions: new Map(revisions.map(toLastRead)) }
    this.#noteUsage(revisions)
    if (!isContinuous) return false
    const points: Point[] = []
    const stores = Map.groupBy(engine.storeUsage?.() ?? [], ({ deployment_id }) => deployment_id)
    for (const revision of revisions) {
      const before = previous.revisions.get(revision.revision_id)
      // A period may be under a minute: the rest of a reported minute counts in the next one.
      // While no copy runs, too: a minute has one point, and copies that start within it count.
      const isStarting = !revision.copies.some(({ running }) => running) && at < minute + MINUTE_MS - TIMER_SLACK_MS
      if (before && (before.minute >= minute || isStarting)) this.#previous.revisions.set(revision.revision_id, before)
      else if (isStarting) this.#previous.revisions.delete(revision.revision_id)
      else {
        const point = this.#toPoint(revision, minute, before)
        points.push(withStores(point, stores.get(point.deployment_id)))
        if (point.copies.some(hasContent)) stores.delete(point.deployment_id)
      }
    }
    const full = points.filter(point => point.unreached || point.copies.some(hasContent))
    this.#options.onPoints?.(full)
    this.#waiting.push(...splitPoints(full))
    this.#waiting.splice(0, Math.max(0, this.#waiting.length - MAX_WAITING))
    return full.some(isFailing) ? 'now' : this.#waiting.length > 0 && 'soon'
  }

  /**
   * Sends the points of revisions whose requests fail or are slow, or that were restarted, before the minute is over.
   * It does so only where requests are counted on this machine: elsewhere a look is dear, and reports tell of restarts.
   */
  async lookEarly(): Promise<void> {
    const { engine, control, currentLease, signal } = this.#options
    const lease = currentLease()
    const previous = this.#previous
    const now = this.#now()
    const isOver = MINUTE_MS - (now % MINUTE_MS) < LEAST_LEFT_MS
    if (!lease || !previous || isOver || now < this.#noEarlyUntil || !hasRequests(previous.revisions)) return
    const revisions = (await engine.readUsage?.().catch(() => undefined)) ?? []
    // The minute was measured meanwhile.
    if (this.#previous !== previous) return
    const at = new Date(now - (now % MINUTE_MS)).toISOString()
    const points = revisions
      .map(revision => ({ at, ...measure(revision, previous.revisions.get(revision.revision_id)) }))
      .filter(isFailing)
    const [first] = splitPoints(points)
    if (!first) return
    await control.earlyMetrics({ ...lease, points: first }, signal).catch(error => {
      if (error instanceof RequestRefused && error.status === 404) this.#noEarlyUntil = now + UNKNOWN_MS
    })
  }

  #noteUsage(revisions: RevisionUsage[]): void {
    const copies = revisions.flatMap(revision => revision.copies)
    this.usageNow = {
      copies: copies.filter(({ running }) => running).length,
      memory_bytes: copies.reduce((sum, { memory_bytes }) => sum + (memory_bytes ?? 0), 0),
    }
  }

  #toPoint(revision: RevisionUsage, minute: number, before: LastRead | undefined): Point {
    const { deployment_id, revision_id, unreached, queue, copies } = revision
    const newlyUnreached = unreached === null ? null : increase(unreached, before?.unreached ?? 0)
    this.totals.unreached += newlyUnreached ?? 0
    const measured = copies.map(usage => toCopy(usage, before?.copies.get(usage.copy)))
    for (const copy of measured) this.#addToTotals(copy)
    this.#previous!.revisions.get(revision_id)!.minute = minute
    return {
      deployment_id,
      revision_id,
      at: new Date(minute).toISOString(),
      ...(newlyUnreached !== null && { unreached: newlyUnreached }),
      ...(queue !== undefined && { queue: Math.min(Math.round(queue), MAX_COUNT) }),
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

const hasRequests = (revisions: Map<string, LastRead>): boolean =>
  [...revisions.values()].some(({ copies }) => [...copies.values()].some(({ requests }) => requests !== null))

function measure(
  { deployment_id, revision_id, unreached, copies }: RevisionUsage,
  before: LastRead | undefined,
): Omit<Point, 'at'> {
  return {
    deployment_id,
    revision_id,
    ...(unreached !== null && { unreached: increase(unreached, before?.unreached ?? 0) }),
    copies: copies.map(usage => toCopy(usage, before?.copies.get(usage.copy)).metrics),
  }
}

const LEAST_FAILURES = 5
const SHARE = 0.02
const SLOW_FROM = LATENCY_BOUNDS_MS.findIndex(bound => bound > 1000)
const sumOf = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0)
const readCounts = (text: string | null | undefined): number[] => text?.split(',').map(Number) ?? []

/** Requests fail, or take over a second, in a number that rules may ask for; or a copy was started again. */
function isFailing({ unreached, copies }: Point): boolean {
  const failed = (unreached ?? 0) + sumOf(copies.map(({ statuses }) => readCounts(statuses).at(-1) ?? 0))
  const slow = sumOf(copies.flatMap(({ latencies }) => readCounts(latencies).slice(SLOW_FROM)))
  const all = (unreached ?? 0) + sumOf(copies.flatMap(({ statuses }) => readCounts(statuses)))
  const isMany = (count: number) => count >= LEAST_FAILURES && count >= SHARE * all
  return isMany(failed) || isMany(slow) || copies.some(({ restarts }) => restarts > 0)
}

type MeasuredCopy = { metrics: Copy; requests: RequestCounts | undefined }

/** The router remembers copies for a while after their end. */
const hasContent = ({ running, restarts, statuses }: Copy): boolean =>
  running || restarts > 0 || /[1-9]/.test(statuses ?? '')

/** Revisions share them: one of a deployment has them. */
const withStores = (point: Point, stores: StoreUsage[] = []): Point =>
  stores.length === 0 || !point.copies.some(hasContent)
    ? point
    : { ...point, stores: stores.slice(0, MAX_STORES).map(({ deployment_id: _, ...amounts }) => amounts) }

const toLastRead = ({ revision_id, copies, unreached }: RevisionUsage): [string, LastRead] => [
  revision_id,
  { minute: 0, copies: new Map(copies.map(usage => [usage.copy, usage])), unreached },
]

/** The growth of a total. A lower one than before has started again at 0. */
const increase = (now: number, before: number): number => (now >= before ? now - before : now)
const increases = (now: number[], before: number[]): number[] => now.map((count, i) => increase(count, before[i] ?? 0))

/** The usage since `before`. A copy without a `before` is new, so its totals began at 0. */
function toCopy(usage: CopyUsage, before: CopyUsage | undefined): MeasuredCopy {
  const { copy, process, running, memory_bytes } = usage
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
    copy,
    process,
    running,
    restarts: increase(usage.restarts, before?.restarts ?? 0),
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
    copies += sizeOf(point)
    if (last && last.length < MAX_POINTS && copies <= MAX_COPIES) last.push(point)
    else {
      requests.push([point])
      copies = sizeOf(point)
    }
  }
  return requests
}

const sizeOf = ({ copies, stores }: Point): number => copies.length + (stores?.length ?? 0)
