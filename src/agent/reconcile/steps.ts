// Takes the steps that the plan names: each leads to one verb of the builds or of the engine, and can be repeated.
import type { Work } from '../../protocol/work.schema.ts'
import type { Builds } from '../builds/builds.ts'
import { type Engine, type LogLevel, PermanentError, type RevisionRef, TransientError } from '../engines/engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { Action } from './plan.ts'
import { buildSourceOf, type Observation, revisionOf, type SecretAccess, unitOf } from './work.ts'

/** `startedGenerations`: of which generation each revision got what it takes to run. `brokenSince`: since when what serves is broken. */
export type DeploymentState = {
  work: Work
  generation: number
  startedGenerations: Map<string, number>
  brokenSince: Map<string, number>
}
export type StepContext = {
  id: string
  engine: Engine
  builds: Builds
  secretAccess: SecretAccess
  logToOperator: (line: string) => void
  log: (of: RevisionRef, message: string, level: LogLevel) => void
  enqueueAfter: (ms: number) => void
}

/** What is let go could not be ended: tried again, and no other revision's failure. */
export class StopFailed extends Error {
  override name = 'StopFailed'
}
const throwStopFailed = (cause: Error): never => {
  throw new StopFailed(describeError(cause), { cause })
}

export const RETRY_MS = 2_000
const REBUILD_DELAY_MS = 60_000

export async function takeStep(
  steps: StepContext,
  action: Action,
  known: DeploymentState | undefined,
  found: Observation,
): Promise<void> {
  const { id, engine, builds, secretAccess: opening, logToOperator: say } = steps
  const work = known?.work
  if (action.do === 'remove') {
    say('remove')
    await engine.remove(id)
    return builds.remove(id)
  }
  if (action.do === 'provide') {
    const revision = work?.revision ?? work?.serving
    return revision ? engine.provide(unitOf(work!, revision, opening)) : undefined
  }

  const ref = { deployment_id: id, revision_id: action.revision }
  const revision = revisionOf(work, action.revision)
  say(`${action.do.replace('_', ' ')} ${revision ? `revision ${revision.number}` : action.revision}`)
  const unit = () => unitOf(work!, revision!, opening)
  switch (action.do) {
    case 'build':
      return orRecordFailure(steps, action.revision, () => {
        const refusal = engine.refusalReason(unit())
        if (refusal) throw new Error(refusal)
        builds.start(unit(), buildSourceOf(work!, revision!, opening), work!.serving?.id)
      })
    case 'start': {
      const record = found.records.get(action.revision)
      if (record?.state !== 'built') return
      return orRecordFailure(steps, action.revision, async () => {
        builds.undoGiveUp(ref)
        await engine.start(unit(), record.artifact)
        known!.startedGenerations.set(action.revision, known!.generation)
      })
    }
    case 'switch':
      return engine.route(unit())
    case 'drain':
      return engine.drain(ref).catch(throwStopFailed)
    case 'stop':
      return engine.stop(ref).catch(throwStopFailed)
    case 'interrupt':
      return builds.interrupt(ref)
    case 'give_up':
      builds.giveUp(ref, found.reasons.get(action.revision) ?? found.databaseFailure ?? 'It was never healthy.')
      return engine.stop(ref)
    case 'forget':
      return builds.forget(ref)
  }
}

async function orRecordFailure(
  { id, builds }: StepContext,
  revision_id: string,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof TransientError) throw error
    builds.recordFailure({ deployment_id: id, revision_id }, describeError(error))
  }
}

/** What runs is given what it takes to be started again, and whatever is other than it was. */
export async function refreshRevisions(steps: StepContext, known: DeploymentState, found: Observation): Promise<void> {
  const { id, engine, secretAccess: opening, log, enqueueAfter: later } = steps
  const { work, generation, startedGenerations: given } = known
  const { observed, records: made } = found
  for (const revision of [work.revision, work.serving]) {
    const phase = revision && observed.revisions[revision.id]
    if (!phase || given.get(revision.id) === generation) continue
    const ref = { deployment_id: id, revision_id: revision.id }
    const record = made.get(revision.id)
    const runs = ['starting', 'healthy', 'unhealthy', 'failing'].includes(phase)
    try {
      if (phase === 'broken' && revision.id !== work.revision?.id) await retryBrokenServing(steps, known, ref)
      if (!runs || record?.state !== 'built') continue
      const unit = unitOf(work, revision, opening)
      await engine.start(unit, record.artifact)
      if (observed.routed === revision.id) await engine.route(unit)
    } catch (error) {
      if (!work.revision || revision.id === work.revision.id) throw error
      // What serves fails no revision that comes after it. What cannot pass is tried again when that one's flight has ended.
      if (!(error instanceof PermanentError)) {
        later(RETRY_MS)
        continue
      }
      log(ref, error.message, 'WARNING')
    }
    given.set(revision.id, generation)
  }
}

/** What serves was lost, and could not be built again: perhaps later, when it has been forgotten. */
async function retryBrokenServing(
  { builds, enqueueAfter: later }: StepContext,
  { brokenSince: lost }: DeploymentState,
  ref: RevisionRef,
): Promise<void> {
  const since = lost.get(ref.revision_id) ?? performance.now()
  lost.set(ref.revision_id, since)
  const left = since + REBUILD_DELAY_MS - performance.now()
  if (left > 0) return later(left)
  await builds.forget(ref)
  lost.delete(ref.revision_id)
  later(0)
}
