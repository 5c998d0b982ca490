// What goes wrong around a deployment besides its builds: tried again, told to whoever wanted it, and in the end its revision's failure.
import type { Report } from '../../protocol/report.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import type { Builds } from '../builds/builds.ts'
import { type LogLevel, PermanentError, type RevisionRef } from '../engines/engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { RETRY_MS, StopFailed } from './steps.ts'

type Options = {
  builds: Pick<Builds, 'readRecord' | 'isBuilding' | 'recordFailure' | 'giveUp'>
  log: (of: RevisionRef, message: string, level: LogLevel) => void
  /** Milliseconds. */
  give_up_ms?: number
}
type FailureStreak = { target: string | null; since: number; lastLogged: string }
/** When it is tried again, and what is reported of the revision that was given up for it. */
type FailureDecision = { retryMs: number; failure?: Pick<Report, 'revision_id' | 'state' | 'message'> }

/** What cannot pass is tried again for somebody who mends it, and what serves is never given up. */
const HOPELESS_RETRY_MS = 30_000
const LOG_AFTER_MS = 30_000
/** Somewhat less than the control plane waits, which would not know why. */
const GIVE_UP_MS = 10 * 60_000

export class FailurePolicy {
  readonly #options: Options
  readonly #streaks = new Map<string, FailureStreak>()

  constructor(options: Options) {
    this.#options = options
  }

  handleFailure(id: string, work: Work | undefined, error: Error): FailureDecision {
    const { builds, log, give_up_ms: lasting = GIVE_UP_MS } = this.#options
    const message = describeError(error)
    const lingers = error instanceof StopFailed
    const hopeless = (lingers ? error.cause : error) instanceof PermanentError
    const target = work?.revision?.id ?? null
    const before = this.#streaks.get(id)
    const met: FailureStreak = before?.target === target ? before : { target, since: performance.now(), lastLogged: '' }
    this.#streaks.set(id, met)
    const lasted = performance.now() - met.since
    const ref = { deployment_id: id, revision_id: target ?? work?.serving?.id ?? '' }
    if (target && !lingers && (hopeless || lasted >= lasting) && !builds.isBuilding(ref)) {
      const minutes = Math.max(1, Math.round(lasted / 60_000))
      const reason = hopeless ? message : `It was tried again for ${minutes} min, and goes on failing: ${message}`
      if (builds.readRecord(ref)) builds.giveUp(ref, reason)
      else builds.recordFailure(ref, reason)
      return { retryMs: RETRY_MS, failure: { revision_id: target, state: 'failed', message: reason } }
    }
    if (ref.revision_id && met.lastLogged !== message && (hopeless || lasted >= LOG_AFTER_MS)) {
      met.lastLogged = message
      log(ref, message, 'WARNING')
    }
    return { retryMs: hopeless && !target ? HOPELESS_RETRY_MS : RETRY_MS }
  }

  clear(id: string): void {
    this.#streaks.delete(id)
  }
}
