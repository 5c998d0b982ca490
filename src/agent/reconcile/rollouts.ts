// Judges the rollouts of the deployments here, each half second, and sends the traffic back if a gate fails. It needs
// no control plane for that: what failed is stored, and reported once it answers.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Report } from '../../protocol/report.schema.ts'
import type { ReportedRollout, WorkRollout } from '../../protocol/rollout.schema.ts'
import { describeFailure, judgeStep, NO_ANSWERS, type SideCounts } from '../../protocol/rollout-step.ts'
import type { WorkTraffic } from '../../protocol/traffic.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import { uptimeMs } from '../control-plane/lease.ts'
import type { Engine, SplitTotals } from '../engine.ts'
import { readJson, writeJson } from '../system/files.ts'
import type { LogEvent } from '../system/log-event.ts'
import type { Observation } from './observe.ts'

type Options = {
  engine: Pick<Engine, 'split' | 'readSplit'>
  /** Keeps what failed. */
  home: string
  changed: (deployment_id: string) => void
  logEvent: LogEvent
}
/** The clock of the machine can be set, so lengths are by its uptime. */
type Moment = { at: number; uptime: number }
type Step = {
  traffic: WorkTraffic & { rollout: WorkRollout }
  serving: string
  isHealthy: boolean
  began: Moment
  base?: SplitTotals
  last?: SplitTotals
  /** The last minutes of a long step, in which a new fault is not hidden by the many requests before it. */
  recent?: { base: SplitTotals; began: Moment; number: number }
  /** The numbers that were told last. */
  told?: ReportedRollout
  toldAt: number
}
/** `message`: for the revision. */
type Failure = { revision_id: string; share: number; message: string; rollout: ReportedRollout }

const RECENT_MS = 60_000
/** Numbers that only move are told so often. */
const TELL_MS = 10_000
const NO_TOTALS: SplitTotals = { revisions: {}, failing: [], slow: [], restarts: {} }

export class Rollouts {
  readonly #options: Options
  readonly #steps = new Map<string, Step>()
  readonly #failures = new Map<string, Failure | null>()
  readonly #judging = new Set<string>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The split to apply. A failed revision gets nothing, also while the control plane still gives it a share. */
  splitOf({ deployment_id, traffic }: Work): WorkTraffic | null {
    if (!traffic) return null
    const { rollout: _, ...split } = traffic
    return this.#failureOf(deployment_id, traffic) ? { ...split, share: 0 } : split
  }

  /** A step begins once its share is applied. A restart of the agent, or of the router, begins it anew. */
  see({ deployment_id: id, traffic }: Work, { observed, split }: Observation): void {
    const known = this.#steps.get(id)
    const isFailed = traffic != null && this.#failureOf(id, traffic) !== null
    if (!traffic?.rollout || isFailed || !observed.routed) {
      this.#steps.delete(id)
      if (!isFailed) this.#forget(id)
      return
    }
    const { revision_id, share, rollout } = traffic
    if (split?.revision_id !== revision_id || split.share !== share) return
    const isHealthy = observed.revisions[revision_id] === 'healthy'
    const isSame = known?.traffic.revision_id === revision_id && known.traffic.rollout.step === rollout.step
    if (isSame && known.serving === observed.routed) {
      Object.assign(known, { traffic: { ...traffic, rollout }, isHealthy })
      return
    }
    const toldAt = Number.NEGATIVE_INFINITY
    const began = momentNow()
    this.#steps.set(id, { traffic: { ...traffic, rollout }, serving: observed.routed, isHealthy, began, toldAt })
  }

  /** The part of the deployment's report about its rollout. */
  told(id: string, revision_id: string | undefined): ReportedRollout | undefined {
    const step = this.#steps.get(id)
    return step && step.traffic.revision_id === revision_id ? step.told : undefined
  }

  /** The members of the report that ends the revision in flight. */
  failed({ deployment_id, traffic, revision }: Work): Pick<Report, 'message' | 'traffic'> | null {
    const failure = traffic && traffic.revision_id === revision?.id ? this.#failureOf(deployment_id, traffic) : null
    if (!failure) return null
    const { revision_id, message, rollout } = failure
    return { message, traffic: { revision_id, share: 0, rollout } }
  }

  async judge(): Promise<void> {
    await Promise.all(
      [...this.#steps].map(async ([id, step]) => {
        // The router may answer more slowly than it is asked.
        if (this.#judging.has(id)) return
        this.#judging.add(id)
        await this.#judge(id, step)
          .catch(error => this.#options.logEvent('rollout not judged', { deployment: id, error: String(error) }))
          .finally(() => this.#judging.delete(id))
      }),
    )
  }

  /** The deployment is no longer one of this agent. */
  drop(id: string): void {
    this.#steps.delete(id)
    this.#failures.delete(id)
    rmSync(this.#file(id), { force: true })
  }

  /** Another agent may act. */
  leave(): void {
    this.#steps.clear()
  }

  async #judge(id: string, step: Step): Promise<void> {
    const { engine, changed, logEvent } = this.#options
    const totals = engine.readSplit ? await engine.readSplit(id) : NO_TOTALS
    if (this.#steps.get(id) !== step) return
    const { traffic, serving } = step
    const { revision_id, share, rollout } = traffic
    if (!step.last || isReset(step.last, totals))
      Object.assign(step, { base: totals, began: momentNow(), recent: undefined })
    step.last = totals
    const judgeSince = (base: SplitTotals, from: Moment, isWhole: boolean, part: number) =>
      judgeStep(withPart(rollout, isWhole, part), {
        canary: countedSince(base, totals, revision_id),
        serving: countedSince(base, totals, serving),
        restarts: (totals.restarts[revision_id] ?? 0) - (base.restarts[revision_id] ?? 0),
        seconds: (uptimeMs() - from.uptime) / 1000,
      })
    const whole = judgeSince(step.base!, step.began, true, 1 / 2)
    step.recent = nextRecent(step.recent, totals)
    const { recent } = step
    // Half of `alpha` is for the whole step, and the other half for all its minutes together, however many they are.
    const late = judgeSince(recent.base, recent.began, false, 1 / (2 * recent.number * (recent.number + 1)))
    const isLate = whole.outcome !== 'failed' && late.outcome === 'failed'
    const judged = isLate ? late : whole
    const since = new Date((isLate ? recent : step).began.at).toISOString()
    const report: ReportedRollout = { step: rollout.step, since, ...judged }
    // One without a ready copy has no requests, so it fails at none.
    if (report.outcome === 'passed' && !step.isHealthy) report.outcome = 'holds'
    if (judged.outcome === 'failed') {
      const isSince = ({ at }: { at: string }) => at >= since
      const failing = totals.failing.filter(isSince)
      report.failing_requests = failing.length > 0 ? failing : totals.slow.filter(isSince)
      const message = describeFailure(judged.gates, share)
      this.#keep(id, { revision_id, share, message, rollout: report })
      this.#steps.delete(id)
      logEvent('rollout failed', { deployment: id, revision: revision_id, reason: message })
      const { rollout: _, ...split } = traffic
      try {
        await engine.split?.(id, { ...split, share: 0 })
      } finally {
        changed(id)
      }
      return
    }
    const isNews = report.outcome !== step.told?.outcome || uptimeMs() - step.toldAt >= TELL_MS
    if (!isNews) return
    step.told = report
    step.toldAt = uptimeMs()
    changed(id)
  }

  #failureOf(id: string, { revision_id, rollout }: WorkTraffic): Failure | null {
    if (!rollout) return null
    if (!this.#failures.has(id)) this.#failures.set(id, readJson<Failure>(this.#file(id)) ?? null)
    const failure = this.#failures.get(id)!
    return failure?.revision_id === revision_id ? failure : null
  }

  /** A full disk keeps no request at a bad revision. */
  #keep(id: string, failure: Failure): void {
    this.#failures.set(id, failure)
    try {
      writeJson(this.#file(id), failure)
    } catch (error) {
      this.#options.logEvent('failed rollout not stored', { deployment: id, error: String(error) })
    }
  }

  #forget(id: string): void {
    if (this.#failures.get(id) === null) return
    rmSync(this.#file(id), { force: true })
    this.#failures.set(id, null)
  }

  #file(id: string): string {
    return join(this.#options.home, 'rollouts', `${id}.json`)
  }
}

function nextRecent(recent: Step['recent'], totals: SplitTotals): NonNullable<Step['recent']> {
  if (recent && uptimeMs() - recent.began.uptime < RECENT_MS) return recent
  return { base: totals, began: momentNow(), number: (recent?.number ?? 0) + 1 }
}

/** With a part of the probability of a false alarm. Restarts are counted over the whole step alone. */
function withPart(rollout: WorkRollout, isWhole: boolean, part: number): WorkRollout {
  const { errors, latency, restarts } = rollout
  return {
    ...rollout,
    errors: errors && { ...errors, alpha: errors.alpha * part },
    latency: latency && { ...latency, alpha: latency.alpha * part },
    restarts: isWhole ? restarts : null,
  }
}

/** Another router counts from 0. */
const isReset = (last: SplitTotals, totals: SplitTotals): boolean =>
  Object.entries(last.revisions).some(([id, counts]) => {
    const now = totals.revisions[id] ?? NO_ANSWERS
    return now.requests < counts.requests || now.latencies.some((count, i) => count < counts.latencies[i]!)
  })

const momentNow = (): Moment => ({ at: Date.now(), uptime: uptimeMs() })

function countedSince(base: SplitTotals, totals: SplitTotals, revision: string): SideCounts {
  const now = totals.revisions[revision] ?? NO_ANSWERS
  const before = base.revisions[revision] ?? NO_ANSWERS
  return {
    requests: now.requests - before.requests,
    failed: now.failed - before.failed,
    latencies: now.latencies.map((count, i) => count - before.latencies[i]!),
  }
}
