// The templates of the copies of a revision: of the process that listens, if there is one, and of each other type.
import type { Artifact, RevisionSpec } from '../../engine.ts'
import { processTypesOf, type RunningType } from '../process-types.ts'
import type { Limits } from './limits.ts'
import type { Health, Replica } from './replica.ts'
import type { ReplicaTemplate } from './replica-pool.ts'
import type { Scaling } from './scaler.ts'
import { servingOf } from './serving.ts'

type Launched = ReturnType<ReplicaTemplate['launch']>
/** They start a copy of each type, and run the health command of one. */
export type TypeMakers = {
  launchWeb(): Launched
  launchOther(type: RunningType): Launched
  check(type: RunningType, replica: Replica): Promise<Health>
}
type Options = {
  makers: TypeMakers
  limits: Pick<Limits, 'copies' | 'settle_ms'>
  scaling: Scaling | null
  /** A type has fewer copies than the source asks for, which the control plane does not know. */
  onFewer: (type: RunningType, copies: number) => void
}

export function makeTemplates(
  spec: RevisionSpec,
  artifact: Artifact,
  { makers, limits, scaling, onFewer }: Options,
): { web: ReplicaTemplate | null; others: Map<string, ReplicaTemplate> } {
  const { resources } = spec
  const seconds = resources.health_timeout_seconds
  const ready = seconds != null && { ready_ms: seconds * 1000 }
  // A revision that an agent with a higher limit accepted keeps serving, with fewer.
  const most = limits.copies
  const web: ReplicaTemplate | null = artifact.isWithoutWeb
    ? null
    : {
        health_path: artifact.health_path,
        copies: Math.min(most, Math.max(1, resources.min_scale)),
        ...(scaling?.rule && { most: scaling.rule.most }),
        sleeps: scaling?.sleep != null,
        ...ready,
        launch: makers.launchWeb,
        serving: servingOf(resources, artifact),
        memory_mb: resources.memory_limit_mb,
      }
  const others = new Map<string, ReplicaTemplate>()
  let left = most - (web?.copies ?? 0)
  // Artifacts of earlier agents, which started no others, do not name them.
  for (const type of artifact.processes && !artifact.site ? processTypesOf(spec, artifact) : []) {
    const copies = Math.min(type.scale[0], Math.max(1, left))
    left -= copies
    if (type.scale[0] > copies) onFewer(type, copies)
    others.set(type.name, {
      health_path: null,
      copies,
      ...ready,
      settle_ms: limits.settle_ms,
      launch: () => makers.launchOther(type),
      ...(type.health_command !== null && { check: (replica: Replica) => makers.check(type, replica) }),
      memory_mb: type.memory_mb[1],
    })
  }
  return { web, others }
}
