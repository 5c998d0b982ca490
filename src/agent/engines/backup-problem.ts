// The health of a deployment whose data nothing saves.
import type { EngineObservation } from '../engine.ts'

/** A revision that serves is degraded while nothing saves its data. */
export function withBackupProblem(observed: EngineObservation, problem: string | null): EngineObservation {
  if (problem === null) return observed
  const running = observed.running.map(revision => {
    const health = revision.condition?.health
    if (revision.revision_id !== observed.routed || health?.state !== 'healthy') return revision
    return {
      ...revision,
      condition: { ...revision.condition!, health: { ...health, state: 'degraded' as const, reason: problem } },
    }
  })
  return { ...observed, running }
}
