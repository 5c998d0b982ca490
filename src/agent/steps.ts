// Takes the steps that the plan names: each leads to one verb of the builds or of the engine, and can be repeated.
import type { Work } from '../sync/work.schema.ts'
import type { Builds } from './builds/builds.ts'
import { type Engine, type Level, Passing, type Ref, Unworkable } from './engines/engine.ts'
import { faultOf } from './faults.ts'
import type { Action } from './plan.ts'
import { type Found, type Opening, originOf, revisionOf, unitOf } from './work.ts'

/** `given`: of which generation each revision got what it takes to run. `lost`: since when what serves is broken. */
export type Known = { work: Work; generation: number; given: Map<string, number>; lost: Map<string, number> }
export type Steps = {
  id: string
  engine: Engine
  builds: Builds
  opening: Opening
  say: (line: string) => void
  log: (of: Ref, message: string, level: Level) => void
  later: (ms: number) => void
}

/** What is let go could not be ended: tried again, and no other revision's failure. */
export class Lingering extends Error {
  override name = 'Lingering'
}
const lingers = (cause: Error): never => {
  throw new Lingering(faultOf(cause), { cause })
}

export const RETRY_MS = 2_000
const REBUILD_MS = 60_000

export async function take(steps: Steps, action: Action, known: Known | undefined, found: Found): Promise<void> {
  const { id, engine, builds, opening, say } = steps
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
      return orRefuse(steps, action.revision, () => {
        const refusal = engine.refuses(unit())
        if (refusal) throw new Error(refusal)
        builds.start(unit(), originOf(work!, revision!, opening), work!.serving?.id)
      })
    case 'start': {
      const record = found.made.get(action.revision)
      if (record?.state !== 'built') return
      return orRefuse(steps, action.revision, async () => {
        builds.takeBack(ref)
        await engine.start(unit(), record.artifact)
        known!.given.set(action.revision, known!.generation)
      })
    }
    case 'switch':
      return engine.route(unit())
    case 'drain':
      return engine.drain(ref).catch(lingers)
    case 'stop':
      return engine.stop(ref).catch(lingers)
    case 'interrupt':
      return builds.interrupt(ref)
    case 'give_up':
      builds.giveUp(ref, found.reasons.get(action.revision) ?? found.missing ?? 'It was never healthy.')
      return engine.stop(ref)
    case 'forget':
      return builds.forget(ref)
  }
}

async function orRefuse({ id, builds }: Steps, revision_id: string, work: () => void | Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof Passing) throw error
    builds.refuse({ deployment_id: id, revision_id }, faultOf(error))
  }
}

/** What runs is given what it takes to be started again, and whatever is other than it was. */
export async function refresh(steps: Steps, known: Known, found: Found): Promise<void> {
  const { id, engine, opening, log, later } = steps
  const { work, generation, given } = known
  const { observed, made } = found
  for (const revision of [work.revision, work.serving]) {
    const phase = revision && observed.revisions[revision.id]
    if (!phase || given.get(revision.id) === generation) continue
    const ref = { deployment_id: id, revision_id: revision.id }
    const record = made.get(revision.id)
    const runs = ['starting', 'healthy', 'unhealthy', 'failing'].includes(phase)
    try {
      if (phase === 'broken' && revision.id !== work.revision?.id) await forgetLost(steps, known, ref)
      if (!runs || record?.state !== 'built') continue
      const unit = unitOf(work, revision, opening)
      await engine.start(unit, record.artifact)
      if (observed.routed === revision.id) await engine.route(unit)
    } catch (error) {
      if (!work.revision || revision.id === work.revision.id) throw error
      // What serves fails no revision that comes after it. What cannot pass is tried again when that one's flight has ended.
      if (!(error instanceof Unworkable)) {
        later(RETRY_MS)
        continue
      }
      log(ref, error.message, 'WARNING')
    }
    given.set(revision.id, generation)
  }
}

/** What serves was lost, and could not be built again: perhaps later, when it has been forgotten. */
async function forgetLost({ builds, later }: Steps, { lost }: Known, ref: Ref): Promise<void> {
  const since = lost.get(ref.revision_id) ?? performance.now()
  lost.set(ref.revision_id, since)
  const left = since + REBUILD_MS - performance.now()
  if (left > 0) return later(left)
  await builds.forget(ref)
  lost.delete(ref.revision_id)
  later(0)
}
