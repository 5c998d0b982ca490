// The processes of a revision besides the one that listens: the parts of its resources, and those that its plan names.
// All are of the same build. Pure.
import type { ProcessHealth, ReportedHealth } from '../../protocol/report.schema.ts'
import type { Part } from '../../protocol/resources.schema.ts'
import type { ProcessScaling } from '../../protocol/scale-members.schema.ts'
import type { Artifact, RevisionSpec } from '../engine.ts'
import { truncateText } from '../system/last-lines.ts'

export const WEB = 'web'
/** The role of a command that runs once. */
export const RUN_ROLE = 'run'

const MAX_REASON_LENGTH = 500
/** Without the last lines of its log, which the whole has. */
export const toProcessHealth = (
  name: string,
  { state, reason }: ReportedHealth,
  copies?: ProcessHealth['copies'],
): ProcessHealth => ({
  name,
  state,
  ...(copies && { copies }),
  reason:
    reason == null ? null : truncateText(reason.split('\n')[0]!.replace(/ Its last lines:$/, ''), MAX_REASON_LENGTH),
})

export type RunningType = {
  name: string
  /** Null: that of the image. */
  command: string | null
  /** The least and the most copies. */
  scale: readonly [number, number]
  /** In which way they move. Null: by the CPU on a cluster, and nowhere else. */
  scaling: ProcessScaling | null
  /** The reserved amount, and the limit. */
  cpu: readonly [number, number]
  memory_mb: readonly [number, number]
  /** It is healthy if this ends with 0. Null: while it runs. */
  health_command: string | null
}

const PARTS = ['queue', 'orchestrator', 'executor'] as const satisfies Part[]

export function processTypesOf(spec: Pick<RevisionSpec, 'resources' | 'parts'>, artifact: Artifact): RunningType[] {
  const planned = artifact.processes ?? []
  const parts = PARTS.filter(part => spec.parts.includes(part) && !planned.some(({ name }) => name === part))
  return [
    ...parts.map(name => ({ command: artifact.start_command, health_command: null, ...amountsOf(name, spec) })),
    ...planned.map(({ name, command, health_command = null, ...own }) => ({
      command,
      health_command,
      ...amountsOf(name, spec, own),
    })),
  ]
}

/** The revision with the amounts of a process for those of its application. */
export const withAmounts = (spec: RevisionSpec, { cpu, memory_mb }: Pick<RunningType, 'cpu' | 'memory_mb'>) => ({
  ...spec,
  resources: {
    ...spec.resources,
    cpu: cpu[0],
    cpu_limit: cpu[1],
    memory_mb: memory_mb[0],
    memory_limit_mb: memory_mb[1],
  },
})

/** The revision for a command in the environment of one of its processes. Undefined: it has none of this name. */
export function asProcess(spec: RevisionSpec, artifact: Artifact, name: string): RevisionSpec | undefined {
  if (name === WEB) return spec
  const type = processTypesOf(spec, artifact).find(one => one.name === name)
  return type && withAmounts(spec, type)
}

/** A process may be named `constructor`. */
const ownMember = <Value>(all: Record<string, Value> | null | undefined, name: string): Value | undefined =>
  all && Object.hasOwn(all, name) ? all[name] : undefined

type OwnAmounts = { scale?: number | undefined; cpu?: number | undefined; memory_mb?: number | undefined }

/** The deployment decides before the source, and that before the amounts of the application. */
function amountsOf(
  name: string,
  { resources: r, parts }: Pick<RevisionSpec, 'resources' | 'parts'>,
  own: OwnAmounts = {},
): Pick<RunningType, 'name' | 'scale' | 'scaling' | 'cpu' | 'memory_mb'> {
  const scaling = ownMember(r.process_scaling, name) ?? null
  const copies = ownMember(r.process_scale, name)
  const chosen = ownMember(r.process_resources, name)
  const part = PARTS.find(part => part === name && parts.includes(part))
  const pair = (least: number | null | undefined, most: number | null | undefined, whole: readonly [number, number]) =>
    least == null && most == null
      ? whole
      : ([least ?? Math.min(whole[0], most!), Math.max(least ?? 0, most ?? 2 * least!)] as const)
  const ofPart = part && partAmounts(part, r)
  const scale = ofPart?.scale ?? [own.scale ?? 1, own.scale ?? 1]
  const cpu = ofPart?.cpu ?? pair(own.cpu, null, [r.cpu, r.cpu_limit])
  const memory_mb = ofPart?.memory_mb ?? pair(own.memory_mb, null, [r.memory_mb, r.memory_limit_mb])
  return {
    name,
    scale: scaling
      ? [scaling.min_scale, scaling.max_scale]
      : copies === undefined
        ? (scale as [number, number])
        : [copies, copies],
    scaling,
    cpu: pair(chosen?.cpu, chosen?.cpu_limit, cpu),
    memory_mb: pair(chosen?.memory_mb, chosen?.memory_limit_mb, memory_mb),
  }
}

/** The executor has no scale of its own: it uses the application's. */
function partAmounts(part: (typeof PARTS)[number], r: RevisionSpec['resources']) {
  const scaled =
    part === 'executor' ? (['min_scale', 'max_scale'] as const) : ([`${part}_min_scale`, `${part}_max_scale`] as const)
  return {
    scale: [r[scaled[0]], r[scaled[1]]] as const,
    cpu: [r[`${part}_cpu`], r[`${part}_cpu_limit`]] as const,
    memory_mb: [r[`${part}_memory_mb`], r[`${part}_memory_limit_mb`]] as const,
  }
}
