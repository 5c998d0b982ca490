// Brings each deployment to its wanted state: observes, plans, takes the steps, and reports the result.
import type { Report, ReportResult } from '../../protocol/report.schema.ts'
import type { RevisionWork, Work } from '../../protocol/work.schema.ts'
import type { Builds } from '../builds/builds.ts'
import type { RequestRefused } from '../control-plane/client.ts'
import type { WorkIds } from '../control-plane/received-changes.ts'
import type { ReportSender } from '../control-plane/report-sender.ts'
import { type Engine, type LogLevel, type RevisionRef, type RevisionSpec, TransientError } from '../engine.ts'
import type { Runnable } from '../jobs/job-runner.ts'
import { cutMessage, type Redaction } from '../redaction/redaction.ts'
import type { CopiedSnapshots } from '../snapshots/copy-database.ts'
import type { Snapshots } from '../snapshots/snapshots.ts'
import type { LogEvent } from '../system/log-event.ts'
import { DatabaseCopies } from './database-copies.ts'
import { FailurePolicy } from './failure-policy.ts'
import { type Observation, observeDeployment } from './observe.ts'
import { plan } from './plan.ts'
import { Releases } from './releases.ts'
import { composeReport, describeOutcome, serializeReportFacts } from './report.ts'
import { Rollouts } from './rollouts.ts'
import { SerialQueue } from './serial-queue.ts'
import {
  type DeploymentState,
  RETRY_MS,
  refreshRevisions,
  removeClearedStores,
  type StepContext,
  takeStep,
} from './steps.ts'
import {
  digestGenerations,
  revisionOf,
  revisionSpecOf,
  type SecretAccess,
  wantedOf,
  withPlanned,
  workAfterReport,
} from './work.ts'

type TrackedDeployment = DeploymentState & {
  /** The last known name: a deployment that is being deleted is listed without one. */
  name: string | null
  lastReported?: string
  isDatabaseReported: boolean
  isUnhealthy: boolean
}
type UnreadableDeployment = {
  generation: number
  /** Until it is answered. */
  report?: Report
}
type Options = {
  engine: Engine
  home: string
  builds: Builds
  reports: Pick<ReportSender, 'add' | 'drop'>
  redaction: Redaction
  secretAccess: () => SecretAccess
  /** False without the lease, during shutdown, and while it is unknown which deployments are wanted. */
  canAct: () => boolean
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  logEvent: LogEvent
  isInUse: (ref: RevisionRef) => boolean
  cancelJobs: (deployment_id: string) => void
  snapshots: Pick<Snapshots, 'keepLast' | 'takeAll'> & CopiedSnapshots
  give_up_ms?: number
}

/** They end the rollout, which gives the deployment a new generation. */
const FINAL_STATES = new Set<Report['state']>(['deployed', 'failed'])

export class Reconciler {
  readonly #options: Options
  readonly #deployments = new Map<string, TrackedDeployment>()
  /** Deployments whose newest work is unreadable. They are left as they run. */
  readonly #unreadable = new Map<string, UnreadableDeployment>()
  readonly #failurePolicy: FailurePolicy
  readonly #releases: Releases
  readonly #copies: DatabaseCopies
  readonly #rollouts: Rollouts
  /** Deployments that served when this agent began, and have not served or failed since. Undefined until known. */
  #restoring: Set<string> | undefined
  #restored = 0
  /** The reason to keep deployments that the control plane does not list. */
  #keepReason: string | null = null
  readonly #kept = new Set<string>()
  readonly #queue = new SerialQueue(
    id => this.#reconcile(id),
    (id, error) => this.#handleFailure(id, error as Error),
  )

  constructor(options: Options) {
    this.#options = options
    this.#failurePolicy = new FailurePolicy(options)
    const onChange = (id: string) => this.enqueue(id)
    this.#releases = new Releases({ ...options, onChange, retry_ms: RETRY_MS })
    this.#copies = new DatabaseCopies({ ...options, onChange, retry_ms: RETRY_MS })
    this.#rollouts = new Rollouts({ ...options, changed: onChange })
  }

  applyWork(work: Work): void {
    const { deployment_id, generation } = work
    const previous = this.#deployments.get(deployment_id)
    this.#unreadable.delete(deployment_id)
    this.#deployments.set(deployment_id, {
      work,
      generation,
      name: work.name ?? previous?.name ?? null,
      startedGenerations: previous?.startedGenerations ?? new Map(),
      brokenSince: previous?.brokenSince ?? new Map(),
      removedStores: new Set([...(previous?.removedStores ?? [])].filter(name => work.cleared_stores?.includes(name))),
      isDatabaseReported: previous?.isDatabaseReported ?? false,
      isUnhealthy: previous?.isUnhealthy ?? false,
    })
  }

  /** Fails the revision that it asks for. The control plane then sends the deployment without that revision. */
  holdUnreadable({ deployment_id, generation, revision, serving }: WorkIds, faults: string): void {
    const message = cutMessage(
      `The agent cannot read what the control plane wants of this deployment: ${faults}. Running copies stay as they ` +
        'are. Update the agent to the release of the control plane, or undo the change.',
    )
    this.#logEvent(deployment_id, 'work not readable', { error: faults })
    const report: Report = { deployment_id, generation, revision_id: revision, state: 'failed', message }
    this.#unreadable.set(deployment_id, { generation, ...(revision && { report }) })
    if (serving && !revision) this.#options.log({ deployment_id, revision_id: serving }, message, 'WARNING')
  }

  #reportUnreadable(id: string, { report }: UnreadableDeployment): void {
    const { reports } = this.#options
    if (report) reports.add(report)
    // Earlier reports are not of this generation.
    else reports.drop(id)
  }

  /** The revision that serves, to run jobs in. Null: none is wanted. Throws a TransientError while it is not built. */
  findServing(id: string): Runnable | null {
    const work = this.#deployments.get(id)?.work
    const serving = work?.wanted === 'present' ? work.serving : null
    if (!serving) return null
    const record = this.#options.builds.readRecord({ deployment_id: id, revision_id: serving.id })
    if (record?.state !== 'built') throw new TransientError('The revision is not built yet.')
    return { spec: this.#plannedSpecOf(work!, serving), artifact: record.artifact }
  }

  /** The revision that serves, or the one in flight. Null: there is none. */
  findSpec(id: string): RevisionSpec | null {
    const work = this.#deployments.get(id)?.work
    const revision = work?.wanted === 'present' ? (work.serving ?? work.revision) : null
    return revision ? this.#plannedSpecOf(work!, revision) : null
  }

  #plannedSpecOf(work: Work, { id: revision_id }: RevisionWork): RevisionSpec {
    const { builds, secretAccess } = this.#options
    const { deployment_id } = work
    const planned = withPlanned(work, revision_id => builds.readRecord({ deployment_id, revision_id }))
    return revisionSpecOf(planned, revisionOf(planned, revision_id)!, secretAccess())
  }

  /** Logs once when all deployments serve or have failed. Later calls do nothing. */
  watchRestored(): void {
    if (this.#restoring) return
    const serving = [...this.#deployments].filter(([, { work }]) => work.serving)
    this.#restoring = new Set(serving.map(([id]) => id))
    this.#restored = this.#restoring.size
    if (this.#restored === 0) this.#options.logEvent('applications restored', { applications: 0 })
  }

  #checkRestored(id: string, serving: string | undefined, { observed: { revisions, routed } }: Observation): void {
    const phase = serving && revisions[serving]
    const hasEnded = phase === 'healthy' ? routed === serving : phase !== 'built' && phase !== 'starting'
    if (!hasEnded || !this.#restoring?.delete(id) || this.#restoring.size > 0) return
    this.#options.logEvent('applications restored', { applications: this.#restored })
  }

  enqueue(id: string): void {
    this.#queue.enqueue(id)
  }

  /** Also while it may not act: sending requests back to the revision that serves waits for nothing. */
  judgeRollouts(): Promise<void> {
    return this.#rollouts.judge()
  }

  forgetAllBut(wantedIds: Set<string>): void {
    for (const id of [...this.#deployments.keys(), ...this.#unreadable.keys()]) if (!wantedIds.has(id)) this.#forget(id)
  }

  /** True if they were kept until now. */
  keepUnknown(reason: string | null): boolean {
    const isEnding = this.#keepReason !== null && reason === null
    this.#keepReason = reason
    if (isEnding) this.#kept.clear()
    return isEnding
  }

  digest(): string {
    return digestGenerations(new Map([...this.#deployments, ...this.#unreadable]))
  }

  close(): Promise<void> {
    this.#releases.leave()
    this.#copies.leave()
    return this.#queue.close()
  }

  async #reconcile(id: string): Promise<void> {
    const { engine, builds, canAct } = this.#options
    for (let previousActions = ''; ; ) {
      if (!canAct()) {
        this.#failurePolicy.clear(id)
        return this.#queue.enqueueAfter(id, RETRY_MS)
      }
      const unreadable = this.#unreadable.get(id)
      if (unreadable) return this.#reportUnreadable(id, unreadable)
      const deployment = this.#deployments.get(id)
      if (!deployment && this.#keepReason !== null) return this.#keep(id, this.#keepReason)
      const context = this.#stepContext(id)
      const seen = await observeDeployment(id, builds, await engine.observe(id), this.#releases)
      if (deployment) deployment.work = withPlanned(deployment.work, id => seen.records.get(id))
      if (deployment?.work.wanted !== 'present') await this.#copies.stop(id)
      const observation = deployment ? this.#judgeCopy(deployment.work, seen) : seen
      if (deployment) {
        // Before what may fail: a change of who may see it never waits. An earlier control plane says nothing of it.
        const { protection, request_logs = null } = deployment.work
        if (protection !== undefined) await engine.protect?.(id, protection)
        await engine.logRequests?.(id, request_logs)
        await engine.split?.(id, this.#rollouts.splitOf(deployment.work))
        this.#rollouts.see(deployment.work, observation)
        await refreshRevisions(context, deployment, observation).finally(() =>
          this.#options.redaction.confirmEngineSecrets(id),
        )
        this.#queueReport(deployment, observation)
        this.#checkRestored(id, deployment.work.serving?.id, observation)
      }
      const isUnconfirmed = this.#copies.isUnconfirmed(deployment?.work, deployment?.isDatabaseReported ?? false)
      const { observed } = observation
      const actions = plan(
        wantedOf(deployment?.work, engine.name),
        isUnconfirmed && observed.database === 'ready' ? { ...observed, database: 'coming' } : observed,
      )
      for (const action of actions) {
        if (!canAct()) return this.#queue.enqueueAfter(id, RETRY_MS)
        await takeStep(context, action, deployment, observation)
      }
      if (actions.length === 0) {
        if (deployment) await removeClearedStores(context, deployment)
        return this.#failurePolicy.clear(id)
      }
      // The same actions again: they had no effect, so they are not repeated in a tight loop.
      if (JSON.stringify(actions) === previousActions) return this.#queue.enqueueAfter(id, RETRY_MS)
      previousActions = JSON.stringify(actions)
    }
  }

  #judgeCopy(work: Work, seen: Observation): Observation {
    return this.#copies.judge(work, seen, () => revisionSpecOf(work, work.revision!, this.#options.secretAccess()))
  }

  #keep(id: string, reason: string): void {
    if (this.#kept.has(id)) return
    this.#kept.add(id)
    this.#logEvent(id, 'deployment kept', { reason })
  }

  #handleFailure(id: string, error: Error): void {
    const { reports, redaction } = this.#options
    this.#logEvent(id, 'reconcile failed', { error: redaction.text(id, error.message) })
    const deployment = this.#deployments.get(id)
    const { retryMs, failure } = this.#failurePolicy.handleFailure(id, deployment?.work, error)
    if (deployment && failure)
      reports.add(redaction.redactReport({ deployment_id: id, generation: deployment.generation, ...failure }))
    this.#queue.enqueueAfter(id, retryMs)
  }

  #stepContext(id: string): StepContext {
    const { engine, builds, secretAccess, log, isInUse, cancelJobs, snapshots } = this.#options
    return {
      id,
      engine,
      builds,
      snapshots,
      releases: this.#releases,
      secretAccess: secretAccess(),
      log,
      logEvent: (event, fields) => this.#logEvent(id, event, fields),
      enqueueAfter: ms => this.#queue.enqueueAfter(id, ms),
      isInUse,
      cancelJobs,
    }
  }

  #queueReport({ work, generation, isDatabaseReported, lastReported }: TrackedDeployment, seen: Observation): void {
    const { reports, redaction } = this.#options
    const rollout = {
      failed: this.#rollouts.failed(work),
      told: this.#rollouts.told(work.deployment_id, work.traffic?.revision_id),
    }
    const composed = composeReport(work, generation, { ...seen, rollout }, isDatabaseReported)
    const report = composed && redaction.redactReport(composed)
    if (!report || serializeReportFacts(report) === lastReported) reports.drop(work.deployment_id)
    else reports.add(report)
  }

  /** While a report is sent, the control plane may or may not know its facts: they have to be sent again. */
  markUnreported(id: string): void {
    delete this.#deployments.get(id)?.lastReported
  }

  /** Another agent may act. What runs goes on. */
  leave(): void {
    this.#releases.leave()
    this.#copies.leave()
    this.#rollouts.leave()
    this.markAllUnreported()
  }

  markAllUnreported(): void {
    for (const id of this.#deployments.keys()) this.markUnreported(id)
  }

  /** It is not repeated: the same report would be rejected again. */
  handleRejectedReport(report: Report, { message }: RequestRefused): void {
    const { deployment_id, state } = report
    this.#markAnswered(report)
    this.#logEvent(deployment_id, 'report rejected', { state, error: message })
    const deployment = this.#deployments.get(deployment_id)
    if (deployment) deployment.lastReported = serializeReportFacts(report)
  }

  handleReportResult(report: Report, { outcome, generation, code }: ReportResult): void {
    const { deployment_id: id, state } = report
    this.#markAnswered(report)
    const deployment = this.#deployments.get(id)
    if (!deployment || deployment.generation !== report.generation) return
    deployment.lastReported = serializeReportFacts(report)
    if (outcome === 'refused') this.#logEvent(id, 'report refused', { state, code })
    if (state === 'database_ready' && outcome !== 'stale') {
      deployment.isDatabaseReported = true
      this.enqueue(id)
    }
    if (outcome !== 'accepted') return
    if (state === 'deploying' && report.revision_id && deployment.deploying !== report.revision_id) {
      deployment.deploying = report.revision_id
      this.enqueue(id)
    }
    const { work, isUnhealthy } = deployment
    const result = describeOutcome(work, report, { wasUnhealthy: isUnhealthy })
    if (result) this.#logEvent(id, result.event, result.fields)
    deployment.isUnhealthy = state === 'serving' && report.healthy === false
    if (generation === null) return void this.#forget(id)
    // A larger step means that the deployment was also changed by a user, which only a poll brings.
    if (generation <= report.generation + Number(FINAL_STATES.has(state))) deployment.generation = generation
    deployment.work = workAfterReport(report, work)
    if (deployment.work !== work) this.enqueue(id)
  }

  #markAnswered(report: Report): void {
    const unreadable = this.#unreadable.get(report.deployment_id)
    if (unreadable?.report === report) delete unreadable.report
  }

  #forget(id: string): void {
    if (this.#deployments.delete(id)) this.#rollouts.drop(id)
    this.#unreadable.delete(id)
    this.#options.redaction.forget(id)
  }

  #logEvent(id: string, event: string, fields: Parameters<LogEvent>[1] = {}): void {
    this.#options.logEvent(event, { deployment: this.#deployments.get(id)?.name ?? id, ...fields })
  }
}
