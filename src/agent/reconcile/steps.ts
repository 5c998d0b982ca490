// Takes the steps of the plan. Each step calls one verb of the builds or of the engine and can be repeated.
import { findExclusiveDisk, isDiskName } from '../../protocol/disks.ts'
import { diskOfStore } from '../../protocol/snapshots.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import type { Builds } from '../builds/builds.ts'
import {
  type Artifact,
  type Engine,
  type LogLevel,
  PermanentError,
  type RevisionRef,
  TransientError,
} from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { Snapshots } from '../snapshots/snapshots.ts'
import type { LogEvent } from '../system/log-event.ts'
import type { Observation } from './observe.ts'
import type { Action } from './plan.ts'
import { awaitsRelease, type Releases } from './releases.ts'
import { buildSourceOf, revisionOf, revisionSpecOf, type SecretAccess } from './work.ts'

export type DeploymentState = {
  work: Work
  generation: number
  /** The generation with which each revision was last started. */
  startedGenerations: Map<string, number>
  brokenSince: Map<string, number>
  /** The stores that were cleared and are gone. */
  removedStores: Set<string>
  /** The revision that the control plane has accepted as deploying. */
  deploying?: string
}
export type StepContext = {
  id: string
  engine: Engine
  builds: Builds
  releases: Releases
  secretAccess: SecretAccess
  logEvent: LogEvent
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  enqueueAfter: (ms: number) => void
  snapshots: Pick<Snapshots, 'keepLast' | 'takeAll'>
  /** A job runs with the files of the revision. */
  isInUse: (ref: RevisionRef) => boolean
  cancelJobs: (deployment_id: string) => void
}

/** An old revision could not be stopped. It is retried, and does not fail the revision that replaces it. */
export class StopFailed extends Error {
  override name = 'StopFailed'
}
const throwStopFailed = (cause: Error): never => {
  throw new StopFailed(describeError(cause), { cause })
}

export const RETRY_MS = 2_000
const REBUILD_DELAY_MS = 60_000
const NEVER_HEALTHY = 'The application never became healthy. Read its deploy log.'

export async function takeStep(
  context: StepContext,
  action: Action,
  deployment: DeploymentState | undefined,
  observation: Observation,
): Promise<void> {
  const { id, engine, builds, releases, secretAccess, logEvent } = context
  const work = deployment?.work
  if (action.do === 'remove') {
    logEvent('reconcile', { step: 'remove' })
    // A copy of another database has no successor to wait for.
    await context.snapshots.keepLast(id, work?.database_copy ? { except: 'database' } : {})
    await engine.remove(id)
    return builds.remove(id)
  }
  if (action.do === 'provide') {
    const revision = work?.revision ?? work?.serving
    return revision ? engine.provide(revisionSpecOf(work!, revision, secretAccess)) : undefined
  }

  const ref = { deployment_id: id, revision_id: action.revision }
  const revision = revisionOf(work, action.revision)
  logEvent('reconcile', { step: action.do, revision: revision?.number ?? action.revision })
  const spec = () => revisionSpecOf(work!, revision!, secretAccess)
  switch (action.do) {
    case 'build':
      return orRecordFailure(context, action.revision, () => {
        const refusal = engine.refusalReason(spec())
        if (refusal) throw new Error(refusal)
        builds.start(spec(), buildSourceOf(work!, revision!, secretAccess), work!.serving?.id)
      })
    case 'release': {
      const record = observation.records.get(action.revision)
      if (!awaitsRelease(record)) return
      // A revision that has served was released before this agent built it again.
      if (action.revision === work!.serving?.id || action.revision === work!.beside?.id)
        return builds.recordRelease(ref, { isReleased: true })
      // Only then a failure is one of the deploy, and the revision is certainly still wanted.
      if (deployment!.deploying !== action.revision) return
      return orRecordFailure(context, action.revision, () => releases.start(spec(), record))
    }
    case 'start': {
      const record = observation.records.get(action.revision)
      if (record?.state !== 'built') return
      return orRecordFailure(context, action.revision, async () => {
        requireSplittable(work!, action.revision, record.artifact, engine.name)
        builds.undoGiveUp(ref)
        await engine.start(spec(), record.artifact)
        // After a restart nothing switches to it again, which would start its other processes.
        if (observation.observed.routed === action.revision) await engine.route(spec())
        deployment!.startedGenerations.set(action.revision, deployment!.generation)
      })
    }
    case 'switch':
      return engine.route(spec())
    case 'drain':
      return engine.drain(ref).catch(throwStopFailed)
    case 'stop':
      return engine.stop(ref).catch(throwStopFailed)
    case 'interrupt':
      await releases.interrupt(ref)
      return builds.interrupt(ref)
    case 'give_up':
      builds.giveUp(ref, observation.reasons.get(action.revision) ?? observation.databaseFailure ?? NEVER_HEALTHY)
      return engine.stop(ref)
    case 'forget':
      // The end of the job brings the deployment back into the queue. A deletion does not wait for it.
      if (context.isInUse(ref)) return work?.wanted === 'present' ? undefined : context.cancelJobs(id)
      await engine.forgetRun(id, action.revision)
      return builds.forget(ref)
  }
}

/** The control plane knows neither the disks of a new source nor that nothing of it listens. */
function requireSplittable(work: Work, id: string, artifact: Artifact, engine: string): void {
  if (work.traffic?.revision_id !== id || work.traffic.share === 100) return
  if (artifact.isWithoutWeb)
    throw new PermanentError('Nothing of this revision listens, so it gets no share of the traffic. Give it all.')
  const disk = findExclusiveDisk(revisionOf(work, id)!.resource_spec, engine)
  if (disk)
    throw new PermanentError(
      `The disk \`${disk.name}\` has one writer, so two revisions cannot run at once. Give the new one all traffic.`,
    )
}

/** The control plane takes any name of a claim, also one that no engine accepts, such as a path. */
function isRemovable(store: string): boolean {
  const disk = diskOfStore(store)
  return disk === null || isDiskName(disk)
}

/** Only `?clear=` names them. They stay until no revision runs that used them. */
export async function removeClearedStores(
  { id, engine, snapshots, logEvent }: StepContext,
  deployment: DeploymentState,
): Promise<void> {
  const { work, removedStores } = deployment
  const cleared = (work.cleared_stores ?? []).filter(store => isRemovable(store) && !removedStores.has(store))
  if (cleared.length === 0 || work.revision || !engine.removeStore) return
  const { running } = await engine.observe(id)
  if (running.some(({ revision_id }) => revision_id !== work.serving?.id)) return
  for (const store of cleared) {
    await snapshots.keepLast(id, { only: store })
    await engine.removeStore(id, store)
    removedStores.add(store)
    logEvent('store removed', { store })
  }
}

async function orRecordFailure(
  { id, builds }: StepContext,
  revision_id: string,
  step: () => void | Promise<void>,
): Promise<void> {
  try {
    await step()
  } catch (error) {
    if (error instanceof TransientError) throw error
    builds.recordFailure({ deployment_id: id, revision_id }, describeError(error))
  }
}

/** Starts what already runs once more in each generation, so that it gets changed resources, secrets and addresses. */
export async function refreshRevisions(
  context: StepContext,
  deployment: DeploymentState,
  observation: Observation,
): Promise<void> {
  const { id, log, enqueueAfter } = context
  const { work, generation, startedGenerations } = deployment
  for (const revision of [work.revision, work.serving, work.beside]) {
    const phase = revision && observation.observed.revisions[revision.id]
    if (!phase || startedGenerations.get(revision.id) === generation) continue
    const ref = { deployment_id: id, revision_id: revision.id }
    try {
      if (phase === 'broken' && revision.id === work.serving?.id) await retryBrokenServing(context, deployment, ref)
      const isRunning = ['starting', 'healthy', 'unhealthy', 'failing'].includes(phase)
      const record = observation.records.get(revision.id)
      if (!isRunning || record?.state !== 'built') continue
      const spec = revisionSpecOf(work, revision, context.secretAccess)
      await context.engine.start(spec, record.artifact)
      if (observation.observed.routed === revision.id) await context.engine.route(spec)
    } catch (error) {
      const isAlone = !work.revision && revision.id === work.serving?.id
      if (isAlone || revision.id === work.revision?.id) throw error
      // A failure of the serving revision must not fail the rollout that replaces it.
      if (!(error instanceof PermanentError)) {
        enqueueAfter(RETRY_MS)
        continue
      }
      log(ref, error.message, 'WARNING')
    }
    startedGenerations.set(revision.id, generation)
  }
}

/** The serving revision was lost and its rebuild failed: forgets the failure after a while, so that it is rebuilt. */
async function retryBrokenServing(
  { builds, enqueueAfter }: StepContext,
  { brokenSince }: DeploymentState,
  ref: RevisionRef,
): Promise<void> {
  const since = brokenSince.get(ref.revision_id) ?? performance.now()
  brokenSince.set(ref.revision_id, since)
  const remaining = since + REBUILD_DELAY_MS - performance.now()
  if (remaining > 0) return enqueueAfter(remaining)
  await builds.forget(ref)
  brokenSince.delete(ref.revision_id)
  enqueueAfter(0)
}
