// What goes wrong around a deployment besides its builds: tried again, told to whoever wanted it, and in the end its revision's failure.
import type { Report } from '../sync/report.schema.ts'
import type { Work } from '../sync/work.schema.ts'
import type { Builds } from './builds/builds.ts'
import { type Level, type Ref, Unworkable } from './engines/engine.ts'
import { faultOf } from './faults.ts'
import { Lingering, RETRY_MS } from './steps.ts'

type Options = {
  builds: Pick<Builds, 'made' | 'isBuilding' | 'refuse' | 'giveUp'>
  log: (of: Ref, message: string, level: Level) => void
  /** Milliseconds. */
  lasting?: number
}
type Met = { target: string | null; since: number; told: string }
/** When it is tried again, and what is reported of the revision that was given up for it. */
type Outcome = { again: number; failure?: Pick<Report, 'revision_id' | 'state' | 'message'> }

/** What cannot pass is tried again for somebody who mends it, and what serves is never given up. */
const HOPELESS_MS = 30_000
const TOLD_AFTER_MS = 30_000
/** Somewhat less than the control plane waits, which would not know why. */
const LASTING_MS = 10 * 60_000

export class Troubles {
  readonly #options: Options
  readonly #met = new Map<string, Met>()

  constructor(options: Options) {
    this.#options = options
  }

  meet(id: string, work: Work | undefined, error: Error): Outcome {
    const { builds, log, lasting = LASTING_MS } = this.#options
    const message = faultOf(error)
    const lingers = error instanceof Lingering
    const hopeless = (lingers ? error.cause : error) instanceof Unworkable
    const target = work?.revision?.id ?? null
    const before = this.#met.get(id)
    const met: Met = before?.target === target ? before : { target, since: performance.now(), told: '' }
    this.#met.set(id, met)
    const lasted = performance.now() - met.since
    const ref = { deployment_id: id, revision_id: target ?? work?.serving?.id ?? '' }
    if (target && !lingers && (hopeless || lasted >= lasting) && !builds.isBuilding(ref)) {
      const minutes = Math.max(1, Math.round(lasted / 60_000))
      const reason = hopeless ? message : `It was tried again for ${minutes} min, and goes on failing: ${message}`
      if (builds.made(ref)) builds.giveUp(ref, reason)
      else builds.refuse(ref, reason)
      return { again: RETRY_MS, failure: { revision_id: target, state: 'failed', message: reason } }
    }
    if (ref.revision_id && met.told !== message && (hopeless || lasted >= TOLD_AFTER_MS)) {
      met.told = message
      log(ref, message, 'WARNING')
    }
    return { again: hopeless && !target ? HOPELESS_MS : RETRY_MS }
  }

  over(id: string): void {
    this.#met.delete(id)
  }
}
