// Fills the database of a preview once with a copy, before anything of it starts. The control plane knows when that is
// done: an agent that is killed before begins again, and nothing has used the data until then.
import { setTimeout as delay } from 'node:timers/promises'
import type { Work } from '../../protocol/work.schema.ts'
import { BuildSlots } from '../builds/build-slots.ts'
import { type Engine, type LogLevel, PermanentError, type RevisionRef, type RevisionSpec } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { type CopiedSnapshots, copyDatabase } from '../snapshots/copy-database.ts'
import type { Observation } from './observe.ts'
import type { Phase } from './plan.ts'

type Options = {
  engine: Engine
  snapshots: CopiedSnapshots
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  onChange: (deployment_id: string) => void
  retry_ms: number
  patience_ms?: number
}
type Copy = NonNullable<Work['database_copy']>
/** `revision_id`: the one that waited for it, which fails. */
type Failure = { revision_id: string; reason: string }
type Waiting = { revision_id: string; since: number }

const WAITING_PHASES: (Phase | undefined)[] = ['built', 'unreleased']
const ATTEMPTS = 4
/** Each reads and writes all data, and runs a server. One of each source: its previews leave room for others. */
const MAX_CONCURRENT_COPIES = 2
const TIMEOUT_MS = 4 * 3600_000
/** Shorter than the control plane's deadline, which would not know the reason. */
const PATIENCE_MS = 12 * 60_000

export class DatabaseCopies {
  readonly #options: Options
  readonly #running = new Map<string, { stopping: AbortController; ended: Promise<void> }>()
  /** The control plane may not know of these yet. */
  readonly #copied = new Set<string>()
  readonly #failed = new Map<string, Failure>()
  readonly #waiting = new Map<string, Waiting>()
  readonly #slots = new BuildSlots(MAX_CONCURRENT_COPIES)
  #leaving = new AbortController()

  constructor(options: Options) {
    this.#options = options
  }

  /** The state of the database as the plan and the reports take it. Starts the copy once its database is there. */
  judge(work: Work, seen: Observation, specOf: () => RevisionSpec): Observation {
    const { deployment_id: id, database_copy: copy, revision } = work
    if (work.wanted !== 'present' || !copy || copy.copied) {
      this.#copied.delete(id)
      return seen
    }
    if (seen.observed.database !== 'ready' || this.#copied.has(id)) return seen
    const failure = this.#failed.get(id)
    if (failure && failure.revision_id === revision?.id) return withDatabase(seen, 'failing', failure.reason)
    if (revision && !this.#running.has(id)) this.#start(copy, specOf())
    const isWaiting = revision && WAITING_PHASES.includes(seen.observed.revisions[revision.id])
    if (isWaiting && this.#hasWaitedLong(id, revision.id)) return withDatabase(seen, 'failing', describeSlow(copy))
    return withDatabase(seen, 'coming', `It is being copied from \`${copy.from_name}\`.`)
  }

  /** Nothing starts before the control plane has the report: the next agent would copy again. */
  isUnconfirmed(work: Work | undefined, isReported: boolean): boolean {
    return work?.database_copy?.copied === false && !isReported
  }

  #hasWaitedLong(id: string, revision_id: string): boolean {
    const { onChange, patience_ms = PATIENCE_MS } = this.#options
    const known = this.#waiting.get(id)
    if (known?.revision_id === revision_id) return performance.now() - known.since >= patience_ms
    this.#waiting.set(id, { revision_id, since: performance.now() })
    setTimeout(() => onChange(id), patience_ms).unref()
    return false
  }

  #start(copy: Copy, spec: RevisionSpec): void {
    const { deployment_id: id, revision_id } = spec
    const stopping = new AbortController()
    const signal = AbortSignal.any([stopping.signal, this.#leaving.signal])
    this.#failed.delete(id)
    const ended = this.#copy(copy, spec, signal)
      .then(
        () => void (signal.aborted || this.#copied.add(id)),
        error => this.#fail(copy, { deployment_id: id, revision_id }, error, signal),
      )
      .finally(() => {
        this.#running.delete(id)
        this.#waiting.delete(id)
        if (!signal.aborted) this.#options.onChange(id)
      })
    this.#running.set(id, { stopping, ended })
  }

  /** Before the deployment is removed. */
  async stop(id: string): Promise<void> {
    const running = this.#running.get(id)
    running?.stopping.abort()
    await running?.ended
  }

  async #copy({ from_deployment_id, from_name }: Copy, spec: RevisionSpec, signal: AbortSignal): Promise<void> {
    const { log, retry_ms } = this.#options
    const { deployment_id, revision_id } = spec
    const write = (message: string, level: LogLevel = 'INFO') => log({ deployment_id, revision_id }, message, level)
    const from = { deployment_id: from_deployment_id, name: from_name }
    const until = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
    for (let attempt = 1; ; attempt++)
      try {
        return await this.#inSlot(from_deployment_id, until, () =>
          copyDatabase(this.#options, spec, from, write, until),
        )
      } catch (error) {
        if (until.aborted || error instanceof PermanentError || attempt === ATTEMPTS) throw error
        write(`The copy of the database failed: ${describeError(error as Error)}. It is tried again.`, 'WARNING')
        await delay(retry_ms * attempt, undefined, { signal: until })
      }
  }

  async #inSlot(from_deployment_id: string, signal: AbortSignal, copy: () => Promise<void>): Promise<void> {
    if (!(await this.#slots.acquire(from_deployment_id, signal))) return signal.throwIfAborted()
    try {
      await copy()
    } finally {
      this.#slots.release(from_deployment_id)
    }
  }

  #fail({ from_name }: Copy, ref: RevisionRef, error: Error, signal: AbortSignal): void {
    if (signal.aborted) return
    const cause = describeError(error).replace(/\.$/, '')
    const reason = `The copy of the database of \`${from_name}\` failed: ${cause}. Deploy again to try it again.`
    this.#options.log(ref, reason, 'ERROR')
    this.#failed.set(ref.deployment_id, { revision_id: ref.revision_id, reason })
  }

  /** Another agent may act, and copies again what the control plane does not know. */
  leave(): void {
    this.#leaving.abort()
    this.#leaving = new AbortController()
    this.#copied.clear()
  }
}

const describeSlow = ({ from_name }: Copy): string =>
  `The copy of the database of \`${from_name}\` is not complete yet. It goes on: deploy again later.`

const withDatabase = (
  seen: Observation,
  database: Observation['observed']['database'],
  databaseFailure: string,
): Observation => ({ ...seen, observed: { ...seen.observed, database }, databaseFailure })
