// Runs jobs: commands that run once, in the revision that serves. Each is started by one agent only, and at most once.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type JobReport, type JobWork, MAX_JOB_REPORTS } from '../../protocol/jobs.schema.ts'
import type { JobAction } from '../../protocol/snapshots.schema.ts'
import { type ControlPlaneClient, RequestRefused } from '../control-plane/client.ts'
import {
  type Artifact,
  type Engine,
  type LogLevel,
  PermanentError,
  type RevisionRef,
  type RevisionSpec,
  type RunEnd,
  TransientError,
  type WriteLog,
} from '../engine.ts'
import { asProcess } from '../engines/process-types.ts'
import { describeError } from '../redaction/error-messages.ts'
import { listFolder, readJson, writeJson } from '../system/files.ts'
import type { LogEvent } from '../system/log-event.ts'

export type Runnable = { spec: RevisionSpec; artifact: Artifact }
type Options = {
  engine: Engine
  control: Pick<ControlPlaneClient, 'jobs'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  /** The revision that serves. Null: none does. Throws a TransientError while it is not ready. */
  findServing: (deployment_id: string) => Runnable | null
  /** The revision that serves or is in flight. Null: there is none. */
  findSpec: (deployment_id: string) => RevisionSpec | null
  /** Takes or restores a snapshot. Repeated after a restart, it continues. */
  perform: (work: JobWork & { action: JobAction }, log: WriteLog, signal: AbortSignal) => Promise<void>
  log: (of: RevisionRef & { job_id: string }, message: string, level: LogLevel) => void
  flushLogs: () => Promise<void>
  redact: (deployment_id: string, text: string) => string
  onEnd: (deployment_id: string) => void
  onFenced: () => void
  logEvent: LogEvent
  /** Records the jobs that this machine has started. Null: the engine finds runs from every machine. */
  folder: string | null
  max_running?: number
}

/** The record of a job, from before it starts until its end is reported. */
type SavedJob = { deployment_id: string; revision_id: string | null }
type TrackedJob = {
  work: JobWork
  revision_id: string | null
  /** Aborted when this agent stops acting. The command keeps running. */
  waiting: AbortController
  isCancelled: boolean
  isStarted: boolean
  /** Ends the action of a job that has one. */
  acting: AbortController
}
type QueuedReport = { report: JobReport; answer: PromiseWithResolvers<boolean> }

const MAX_RUNNING = 20
const MAX_ENDED = 10_000
const RETRY_MS = 2_000
const MAX_REASON_LENGTH = 2000
const NOTHING_SERVES = 'No revision of the deployment serves on this agent.'
const NOT_FOUND = 'It was started by an agent on another machine, and this agent cannot find it.'

export class JobRunner {
  readonly #options: Options
  readonly #jobs = new Map<string, TrackedJob>()
  readonly #reports = new Map<string, QueuedReport>()
  readonly #starting: (() => void)[] = []
  readonly #ended = new Set<string>()
  #running = 0
  #isSending = false
  /** Fewer while the control plane refuses one of them. */
  #sentAtOnce = MAX_JOB_REPORTS
  #retryAt = 0

  constructor(options: Options) {
    this.#options = options
    if (options.folder) fs.mkdirSync(options.folder, { recursive: true })
  }

  /** With `isComplete`, these are all jobs that have not ended. */
  apply(jobs: JobWork[], isComplete: boolean): void {
    for (const work of jobs) {
      const known = this.#jobs.get(work.job_id)
      // The answer to a poll may be older than the answer to the report of the end.
      if (this.#ended.has(work.job_id)) continue
      if (!known) this.#track(work)
      else if (work.cancel && !known.isCancelled) void this.#cancel(known)
    }
    if (isComplete) void this.#forgetAllBut(new Set(jobs.map(({ job_id }) => job_id)))
  }

  /** Its files must not be removed. */
  isInUse({ deployment_id, revision_id }: RevisionRef): boolean {
    const uses = (job: { revision_id: string | null }) => job.revision_id === revision_id
    if ([...this.#jobs.values()].some(uses)) return true
    return this.#listSaved().some(([, saved]) => saved.deployment_id === deployment_id && uses(saved))
  }

  /** Ends the jobs of a deployment that is deleted. */
  cancelOf(deployment_id: string): void {
    for (const job of this.#jobs.values())
      if (job.work.deployment_id === deployment_id && !job.isCancelled) void this.#cancel(job)
  }

  /** Nothing is started or reported without the lease. Commands keep running, and the next lease finds them. */
  release(): void {
    for (const { waiting } of this.#jobs.values()) waiting.abort(new TransientError('The lease was lost.'))
    for (const { answer } of this.#reports.values()) answer.resolve(false)
    this.#jobs.clear()
    this.#reports.clear()
    this.#starting.length = 0
    this.#running = 0
  }

  #track(work: JobWork): void {
    const { job_id, deployment_id } = work
    const saved = this.#readSaved(job_id)
    const job: TrackedJob = {
      work,
      revision_id: saved?.revision_id ?? null,
      waiting: new AbortController(),
      isCancelled: work.cancel,
      isStarted: work.status === 'RUNNING',
      acting: new AbortController(),
    }
    this.#jobs.set(job_id, job)
    const { signal } = job.waiting
    this.#follow(job, signal)
      .then(report => report && this.#end(job, report))
      .catch(error => {
        if (signal.aborted) return
        this.#options.logEvent('job failed', { job: job_id, deployment: deployment_id, error: describeError(error) })
        if (this.#jobs.get(job_id) === job) this.#jobs.delete(job_id)
      })
  }

  /** Returns how it ended; undefined if it must not be started, or if this agent stops acting. */
  async #follow(job: TrackedJob, signal: AbortSignal): Promise<Omit<JobReport, 'job_id'> | undefined> {
    const { job_id, starts_in_ms } = job.work
    if (job.isStarted) {
      if (job.isCancelled) return this.#stop(job)
      if (this.#options.folder && !this.#readSaved(job_id)) return { state: 'lost', reason: NOT_FOUND }
    } else await delay(starts_in_ms, undefined, { signal })
    await this.#enter(job)
    try {
      signal.throwIfAborted()
      if (job.work.action) return await this.#act(job, job.work.action, signal)
      const serving = await this.#waitForServing(job, signal)
      if (!serving) return { state: job.isStarted ? 'lost' : 'failed', reason: NOTHING_SERVES }
      if (!job.isStarted && !(await this.#claim(job, serving.spec.revision_id))) return this.#drop(job)
      return await this.#run(job, serving, signal)
    } finally {
      if (!signal.aborted) this.#leave()
    }
  }

  async #enter(job: TrackedJob): Promise<void> {
    // One that runs already takes its place at once.
    if (!job.isStarted && this.#running >= (this.#options.max_running ?? MAX_RUNNING))
      await new Promise<void>(resolve => this.#starting.push(resolve))
    this.#running++
  }

  #leave(): void {
    this.#running--
    this.#starting.shift()?.()
  }

  async #waitForServing({ work }: TrackedJob, signal: AbortSignal): Promise<Runnable | null> {
    for (;;)
      try {
        return this.#options.findServing(work.deployment_id)
      } catch (error) {
        if (!(error instanceof TransientError)) throw error
        await delay(RETRY_MS, undefined, { signal })
      }
  }

  /** The record is written first: an agent that finds it knows that the job can be running on this machine only. */
  async #claim(job: TrackedJob, revision_id: string | null): Promise<boolean> {
    const { job_id, deployment_id } = job.work
    job.revision_id = revision_id
    this.#save(job_id, { deployment_id, revision_id })
    return this.#report({ job_id, state: 'running', revision_id })
  }

  async #act(job: TrackedJob, action: JobAction, signal: AbortSignal): Promise<Omit<JobReport, 'job_id'> | undefined> {
    const { job_id, deployment_id, timeout_seconds } = job.work
    if (!job.isStarted && !(await this.#claim(job, null))) return this.#drop(job)
    job.isStarted = true
    const { log, findSpec, perform } = this.#options
    const revision_id = findSpec(deployment_id)?.revision_id
    const write = (message: string, level: LogLevel = 'INFO') =>
      revision_id && log({ deployment_id, revision_id, job_id }, message, level)
    const deadline = AbortSignal.timeout(timeout_seconds * 1000)
    const until = AbortSignal.any([signal, deadline, job.acting.signal])
    for (;;)
      try {
        until.throwIfAborted()
        await perform({ ...job.work, action }, write, until)
        return { state: 'succeeded', exit_code: 0 }
      } catch (error) {
        signal.throwIfAborted()
        if (job.isCancelled) return { state: 'cancelled' }
        if (deadline.aborted)
          return { state: 'timed_out', reason: `It did not end within ${timeout_seconds} s and was ended.` }
        if (!(error instanceof TransientError)) return { state: 'failed', reason: describeError(error as Error) }
        await delay(RETRY_MS, undefined, { signal })
      }
  }

  async #run(job: TrackedJob, { spec, artifact }: Runnable, signal: AbortSignal): Promise<Omit<JobReport, 'job_id'>> {
    const { engine, log } = this.#options
    const { job_id, deployment_id, command, timeout_seconds, process } = job.work
    const revision_id = job.revision_id ?? spec.revision_id
    const ofProcess = process ? asProcess(spec, artifact, process) : spec
    if (!ofProcess) return { state: 'failed', reason: `The revision has no process ${process}.`, revision_id }
    const role = process ? { role: process } : {}
    const run = { id: job_id, command: toShell(command), timeout_seconds, wasStarted: job.isStarted, ...role }
    job.isStarted = true
    for (;;) {
      if (job.isCancelled) return this.#stop(job)
      try {
        const write = (message: string, level: LogLevel = 'INFO') =>
          log({ deployment_id, revision_id, job_id }, message, level)
        const end = await engine.runOnce(ofProcess, artifact, run, write, signal)
        return { ...(job.isCancelled ? { state: 'cancelled' } : describeEnd(end)), revision_id }
      } catch (error) {
        signal.throwIfAborted()
        if (job.isCancelled) return this.#stop(job)
        if (!(error instanceof TransientError)) {
          const reason = error instanceof PermanentError ? error.message : describeError(error)
          return { state: 'failed', reason, revision_id }
        }
        await delay(RETRY_MS, undefined, { signal })
      }
    }
  }

  /** Repeats it until the end: a command that is just being started cannot be found yet. */
  async #cancel(job: TrackedJob): Promise<void> {
    const { work, waiting } = job
    job.isCancelled = true
    job.acting.abort()
    // The control plane cancels one that is not started itself.
    while (job.isStarted && !work.action && this.#jobs.get(work.job_id) === job) {
      await this.#forgetRun(work)
      await delay(RETRY_MS, undefined, { signal: waiting.signal }).catch(() => {})
    }
  }

  async #stop(job: TrackedJob): Promise<Omit<JobReport, 'job_id'>> {
    await this.#forgetRun(job.work)
    return { state: 'cancelled' }
  }

  async #end(job: TrackedJob, end: Omit<JobReport, 'job_id'>): Promise<void> {
    const { work, waiting } = job
    const { job_id } = work
    // A reader of the lines stops at the end of the job.
    await this.#options.flushLogs()
    const shown = end.reason && this.#options.redact(work.deployment_id, end.reason)
    // The control plane refuses NUL.
    const reason = shown?.replaceAll('\0', '').slice(0, MAX_REASON_LENGTH).toWellFormed() ?? null
    await this.#report({ job_id, ...end, reason })
    if (waiting.signal.aborted) return
    await this.#forgetRun(work)
    this.#drop(job)
  }

  #drop({ work, waiting }: TrackedJob): undefined {
    if (waiting.signal.aborted) return
    this.#jobs.delete(work.job_id)
    if (this.#ended.size >= MAX_ENDED) this.#ended.clear()
    this.#ended.add(work.job_id)
    if (this.#options.folder) fs.rmSync(join(this.#options.folder, work.job_id), { force: true })
    this.#options.onEnd(work.deployment_id)
  }

  async #forgetRun({ job_id, deployment_id }: Pick<JobWork, 'job_id' | 'deployment_id'>): Promise<void> {
    await this.#options.engine.forgetRun(deployment_id, job_id).catch(error => {
      this.#options.logEvent('job not removed', { job: job_id, error: describeError(error) })
    })
  }

  /** The control plane has given them up, or their deployment is gone. */
  async #forgetAllBut(named: Set<string>): Promise<void> {
    for (const [job_id, job] of this.#jobs) {
      if (named.has(job_id)) continue
      job.waiting.abort(new TransientError('The control plane does not know the job.'))
      this.#jobs.delete(job_id)
      if (job.isStarted) await this.#forgetRun(job.work)
    }
    for (const [job_id, { deployment_id }] of this.#listSaved()) {
      if (named.has(job_id)) continue
      await this.#forgetRun({ job_id, deployment_id })
      fs.rmSync(join(this.#options.folder!, job_id), { force: true })
      this.#options.onEnd(deployment_id)
    }
  }

  // ---- reports

  /** Repeats it until it is answered. True if it was accepted. */
  #report(report: JobReport): Promise<boolean> {
    const answer = Promise.withResolvers<boolean>()
    this.#reports.set(report.job_id, { report, answer })
    return answer.promise
  }

  async flush(): Promise<void> {
    const lease = this.#options.currentLease()
    if (this.#isSending || this.#reports.size === 0 || !lease || performance.now() < this.#retryAt) return
    this.#isSending = true
    const sent = [...this.#reports.values()].slice(0, this.#sentAtOnce)
    try {
      const { results } = await this.#options.control.jobs({ ...lease, reports: sent.map(({ report }) => report) })
      for (const [i, queued] of sent.entries()) this.#settle(queued, results[i]!.accepted)
      if (this.#reports.size === 0) this.#sentAtOnce = MAX_JOB_REPORTS
    } catch (error) {
      const { status } = error instanceof RequestRefused ? error : {}
      if (status === 409) this.#options.onFenced()
      else if (status === 422 && sent.length > 1) this.#sentAtOnce = 1
      else if (status === 422) this.#settle(sent[0]!, false)
      else this.#retryAt = performance.now() + RETRY_MS
    } finally {
      this.#isSending = false
    }
  }

  #settle({ report, answer }: QueuedReport, isAccepted: boolean): void {
    if (this.#reports.get(report.job_id)?.report === report) this.#reports.delete(report.job_id)
    answer.resolve(isAccepted)
  }

  // ---- records

  #save(job_id: string, saved: SavedJob): void {
    if (this.#options.folder) writeJson(join(this.#options.folder, job_id), saved)
  }

  #readSaved(job_id: string): SavedJob | undefined {
    return this.#options.folder ? readJson<SavedJob>(join(this.#options.folder, job_id)) : undefined
  }

  #listSaved(): [job_id: string, saved: SavedJob][] {
    if (!this.#options.folder) return []
    return listFolder(this.#options.folder).flatMap((job_id): [string, SavedJob][] => {
      const saved = this.#readSaved(job_id)
      return saved ? [[job_id, saved]] : []
    })
  }
}

function describeEnd({ exit_code, reason }: RunEnd): Omit<JobReport, 'job_id'> {
  if (exit_code === 0) return { state: 'succeeded', exit_code }
  if (reason?.startsWith('is gone')) return { state: 'lost', reason: `The command ${reason}.` }
  const state = reason?.startsWith('did not end within ') ? 'timed_out' : 'failed'
  return { state, exit_code, reason: reason && `The command ${reason}.` }
}

/** Engines run a command by the shell. */
export function toShell(command: JobWork['command']): string {
  return typeof command === 'string'
    ? command
    : command.map(argument => `'${argument.replaceAll("'", `'\\''`)}'`).join(' ')
}
