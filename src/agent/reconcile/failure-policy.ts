// Decides what a failed reconciliation leads to: a retry, a warning in the deploy log, or the failure of the revision.
import type { Report } from '../../protocol/report.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import type { Builds } from '../builds/builds.ts'
import { type LogLevel, PermanentError, type RevisionRef } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { RETRY_MS, StopFailed } from './steps.ts'

type Options = {
  builds: Pick<Builds, 'readRecord' | 'isBuilding' | 'recordFailure' | 'giveUp'>
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  give_up_ms?: number
}
type FailureStreak = { target: string | null; since: number; lastLogged: string }
/** `failure`: the report of the revision that was given up. */
type FailureDecision = { retryMs: number; failure?: Pick<Report, 'revision_id' | 'state' | 'message'> }

/** A serving revision is never given up: its permanent failures are retried too, until the cause is fixed. */
const PERMANENT_RETRY_MS = 30_000
const LOG_AFTER_MS = 30_000
/** Shorter than the control plane's deadline, which would not know the reason. */
const GIVE_UP_MS = 10 * 60_000

export class FailurePolicy {
  readonly #options: Options
  readonly #streaks = new Map<string, FailureStreak>()

  constructor(options: Options) {
    this.#options = options
  }

  handleFailure(id: string, work: Work | undefined, error: Error): FailureDecision {
    const { builds, log, give_up_ms = GIVE_UP_MS } = this.#options
    const message = describeError(error)
    const isStopFailure = error instanceof StopFailed
    const isPermanent = (isStopFailure ? error.cause : error) instanceof PermanentError
    const target = work?.revision?.id ?? null
    const streak = this.#streakOf(id, target)
    const duration = performance.now() - streak.since
    const ref = { deployment_id: id, revision_id: target ?? work?.serving?.id ?? '' }
    if (target && !isStopFailure && (isPermanent || duration >= give_up_ms) && !builds.isBuilding(ref)) {
      const minutes = Math.max(1, Math.round(duration / 60_000))
      const reason = isPermanent ? message : `The revision kept failing for ${minutes} min despite retries: ${message}`
      if (builds.readRecord(ref)) builds.giveUp(ref, reason)
      else builds.recordFailure(ref, reason)
      return { retryMs: RETRY_MS, failure: { revision_id: target, state: 'failed', message: reason } }
    }
    if (ref.revision_id && streak.lastLogged !== message && (isPermanent || duration >= LOG_AFTER_MS)) {
      streak.lastLogged = message
      log(ref, message, 'WARNING')
    }
    return { retryMs: isPermanent && !target ? PERMANENT_RETRY_MS : RETRY_MS }
  }

  clear(id: string): void {
    this.#streaks.delete(id)
  }

  /** A new target starts a new streak. */
  #streakOf(id: string, target: string | null): FailureStreak {
    const current = this.#streaks.get(id)
    if (current?.target === target) return current
    const streak = { target, since: performance.now(), lastLogged: '' }
    this.#streaks.set(id, streak)
    return streak
  }
}
