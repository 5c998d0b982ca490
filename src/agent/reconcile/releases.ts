// Checks the attached database of each revision, and runs its release command once: after its build, before its first
// start, one at a time for each deployment. The run has the id of the revision, so the next agent finds it instead of
// starting it again.
import { setTimeout as delay } from 'node:timers/promises'
import type { BuildRecord, Builds } from '../builds/builds.ts'
import { type Engine, type LogLevel, PermanentError, type RevisionRef, type RevisionSpec } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { Snapshots } from '../snapshots/snapshots.ts'
import { appendLastLines } from '../system/last-lines.ts'
import { CHECK_SECONDS, checkCommand, checkIdOf, describeCheck } from './database-check.ts'

type Options = {
  engine: Engine
  builds: Builds
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  onChange: (deployment_id: string) => void
  retry_ms: number
  snapshots: Pick<Snapshots, 'takeAll'>
}
type BuiltRecord = Extract<BuildRecord, { state: 'built' }>

const KEPT_LINES = 40
/** The engine may be restarting. */
const SNAPSHOT_ATTEMPTS = 4

export const awaitsRelease = (record: BuildRecord | undefined): record is BuiltRecord =>
  record?.state === 'built' &&
  (record.artifact.release !== undefined || record.artifact.attached_database !== undefined) &&
  !record.isReleased

export class Releases {
  readonly #options: Options
  readonly #running = new Map<string, Promise<void>>()
  /** The revisions whose command this agent has begun to start. */
  readonly #begun = new Set<string>()
  #leaving = new AbortController()

  constructor(options: Options) {
    this.#options = options
  }

  isRunning({ revision_id }: RevisionRef): boolean {
    return this.#running.has(revision_id)
  }

  /** Runs it in the background and calls `onChange` at the end. */
  start(spec: RevisionSpec, record: BuiltRecord): void {
    const { deployment_id, revision_id } = spec
    if (this.#running.has(revision_id)) return
    const { signal } = this.#leaving
    const ended = this.#run(spec, record, signal).finally(() => {
      this.#running.delete(revision_id)
      if (!signal.aborted) this.#options.onChange(deployment_id)
    })
    this.#running.set(revision_id, ended)
  }

  async #run(spec: RevisionSpec, { artifact, isReleasing = false }: BuiltRecord, signal: AbortSignal): Promise<void> {
    const { engine, builds, log } = this.#options
    const { deployment_id, revision_id } = spec
    const ref = { deployment_id, revision_id }
    const lines: string[] = []
    const writeLog = (message: string, level: LogLevel = 'INFO') => {
      lines.push(message)
      lines.splice(0, lines.length - KEPT_LINES)
      log(ref, message, level)
    }
    try {
      if (artifact.attached_database && !isReleasing) await this.#checkDatabase(spec, artifact, signal)
      if (!artifact.release) return builds.recordRelease(ref, { isReleased: true })
      const { command, timeout_seconds } = artifact.release
      await this.#takeSnapshots(spec, log, signal)
      log(ref, `Release command: ${command}`, 'INFO')
      const wasStarted = isReleasing && !this.#begun.has(revision_id)
      this.#begun.add(revision_id)
      builds.recordRelease(ref, { isReleasing: true })
      const run = { id: revision_id, command, timeout_seconds, wasStarted }
      const { reason } = await engine.runOnce(spec, artifact, run, writeLog, signal)
      if (reason === null) return builds.recordRelease(ref, { isReleased: true })
      const failure = `The release command \`${command}\` ${reason}. The revision was not started.`
      log(ref, failure, 'ERROR')
      builds.giveUp(ref, appendLastLines(failure, lines))
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof PermanentError) return builds.giveUp(ref, error.message)
      log(ref, `What comes before the start was cut off: ${describeError(error)}. It is tried again.`, 'WARNING')
      await delay(this.#options.retry_ms, undefined, { ref: false })
    }
  }

  async #checkDatabase(spec: RevisionSpec, artifact: BuiltRecord['artifact'], signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#options
    const { deployment_id, revision_id } = spec
    const variable = artifact.attached_database!
    const run = { id: checkIdOf(revision_id), command: checkCommand(variable), timeout_seconds: CHECK_SECONDS }
    const { exit_code } = await engine.runOnce(spec, artifact, run, () => {}, signal)
    await engine.forgetRun(deployment_id, run.id)
    const found = describeCheck(variable, exit_code)
    if (found && 'failure' in found) {
      log({ deployment_id, revision_id }, found.failure, 'ERROR')
      throw new PermanentError(found.failure)
    }
    const message = found ? found.warning : `The attached database of \`${variable}\` answers.`
    log({ deployment_id, revision_id }, message, found ? 'WARNING' : 'INFO')
  }

  /** Once for each revision: a command that is followed again may have changed the data. */
  async #takeSnapshots(spec: RevisionSpec, log: Options['log'], signal: AbortSignal): Promise<void> {
    const { builds, snapshots } = this.#options
    const { deployment_id, revision_id, has_copied_database } = spec
    const ref = { deployment_id, revision_id }
    const except = has_copied_database ? 'database' : undefined
    if (builds.hasSnapshots(ref)) return
    const write = (message: string, level: LogLevel = 'INFO') => log(ref, message, level)
    const { retry_ms } = this.#options
    for (let attempt = 1; ; attempt++) {
      const error = await snapshots.takeAll(deployment_id, 'before_release', signal, write, except).then(
        () => null,
        (error: Error) => error,
      )
      if (error === null) break
      signal.throwIfAborted()
      const failure = `The snapshot before the release command failed: ${describeError(error)}`
      if (attempt === SNAPSHOT_ATTEMPTS || error instanceof PermanentError) throw new PermanentError(failure)
      write(`${failure}. It is tried again.`, 'WARNING')
      await delay(retry_ms * attempt, undefined, { signal })
    }
    builds.recordRelease(ref, { hasSnapshots: true })
  }

  /** Ends the command. One that is just being started cannot be found yet, so it is looked for again. */
  async interrupt({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const { engine, retry_ms } = this.#options
    const running = this.#running.get(revision_id)
    while (running && this.#running.get(revision_id) === running) {
      await engine.forgetRun(deployment_id, checkIdOf(revision_id))
      await engine.forgetRun(deployment_id, revision_id)
      await Promise.race([running, delay(retry_ms, undefined, { ref: false })])
    }
  }

  /** Leaves running commands to the agent that takes over. */
  leave(): void {
    this.#leaving.abort()
    this.#leaving = new AbortController()
  }
}
