// The templates of the copies of a revision: of the process that listens, if there is one, and of each other type.
import type { Artifact, RevisionSpec } from '../../engine.ts'
import { processTypesOf, type RunningType } from '../process-types.ts'
import type { Limits } from './limits.ts'
import type { Moving } from './load-window.ts'
import type { Health, Replica } from './replica.ts'
import type { ReplicaTemplate } from './replica-pool.ts'
import type { Scaling } from './scaler.ts'
import { movingOf } from './scaling-of.ts'
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
  /** The control plane did not know it. */
  warn: (type: RunningType, message: string) => void
}

export const RAISE_COPIES = 'Lower it, or ask the operator to raise AGENT_MAX_COPIES.'
/** No other process can be asked, and without a copy there would never be one. */
const UNASKED =
  'The number of copies stays: `web` tells the depth of the queue, and this source has none. Scale it by `cpu` or ' +
  '`memory`.'

export function makeTemplates(
  spec: RevisionSpec,
  artifact: Artifact,
  { makers, limits, scaling, warn }: Options,
): { web: ReplicaTemplate | null; others: Map<string, ReplicaTemplate>; moving: Map<string, Moving> } {
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
  const moving = new Map<string, Moving>()
  let left = most - (web?.copies ?? 0)
  // Artifacts of earlier agents, which started no others, do not name them.
  for (const type of artifact.processes && !artifact.site ? processTypesOf(spec, artifact) : []) {
    const isUnasked = !web && type.scaling?.scale_metric === 'queue'
    const copies = Math.min(Math.max(type.scale[0], isUnasked ? 1 : 0), Math.max(1, left))
    left -= copies
    if (type.scale[0] > copies)
      warn(type, `\`${type.name}\` has ${copies} copies instead of ${type.scale[0]}. ${RAISE_COPIES}`)
    if (isUnasked) warn(type, UNASKED)
    const way = isUnasked ? null : movingOf(type, copies, most)
    if (way) moving.set(type.name, way)
    others.set(type.name, {
      health_path: null,
      copies,
      ...(way && { most: way.rule.most }),
      ...ready,
      settle_ms: limits.settle_ms,
      launch: () => makers.launchOther(type),
      ...(type.health_command !== null && { check: (replica: Replica) => makers.check(type, replica) }),
      memory_mb: type.memory_mb[1],
    })
  }
  return { web, others, moving }
}
