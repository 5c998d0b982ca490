// The features that a deployment can ask for, and which engines have them. Pure. Agents send those of their engine with
// their policy, the control plane refuses the rest when it is planned, and the docs and the dashboard show this table.
import { pathInApplication } from './disks.ts'
import type { Source } from './parts.schema.ts'
import type { ResourceMember, ResourceSpec } from './resources.schema.ts'

export const engineNames = ['process', 'container', 'kubernetes'] as const
export type EngineName = (typeof engineNames)[number]

/** `machine`: done where the machine has what it needs, otherwise refused, or for an amount named by plans. */
type Verdict = 'done' | 'machine' | 'refused'
type Feature = { about: string } & Record<EngineName, Verdict>

export const ENGINE_FEATURES = {
  protection: {
    about: '`protection` of the mode `members`: the router of the agent lets nobody else in',
    process: 'done',
    container: 'done',
    kubernetes: 'refused',
  },
  traffic: {
    about: 'The traffic split between two revisions, and a share for each new one',
    process: 'done',
    container: 'done',
    kubernetes: 'machine',
  },
  traffic_router: {
    about: '`sticky` and `name` of the traffic split',
    process: 'done',
    container: 'done',
    kubernetes: 'refused',
  },
  rollout: {
    about: '`rollout`: the traffic of each later revision by steps',
    process: 'done',
    container: 'done',
    kubernetes: 'machine',
  },
  rollout_gates: {
    about: '`gates.errors`, `gates.latency` and `gates.restarts` of a rollout, and `requests` of a step',
    process: 'done',
    container: 'done',
    kubernetes: 'refused',
  },
  request_logs: {
    about: '`request_logs` of another mode than `off`, and the trace context of requests: the router of the agent',
    process: 'done',
    container: 'done',
    kubernetes: 'refused',
  },
  images: {
    about: 'Images: the sources `external_container` and `internal_container`',
    process: 'refused',
    container: 'done',
    kubernetes: 'done',
  },
  git_ssh: {
    about: '`repo_url` by SSH: the agent’s machine has the program `ssh`',
    process: 'machine',
    container: 'machine',
    kubernetes: 'machine',
  },
  autoscaling: {
    about: '`max_scale` above `min_scale`',
    process: 'done',
    container: 'done',
    kubernetes: 'done',
  },
  request_scaling: {
    about: '`scale_metric` `concurrency` or `requests`',
    process: 'done',
    container: 'done',
    kubernetes: 'refused',
  },
  part_autoscaling: {
    about: '`queue_max_scale` above `queue_min_scale`, also of `orchestrator_*`',
    process: 'done',
    container: 'done',
    kubernetes: 'done',
  },
  process_scaling: { about: '`process_scaling`', process: 'done', container: 'done', kubernetes: 'done' },
  queue_scaling: {
    about: '`scale_metric` `queue`, also in `process_scaling`; Kubernetes needs KEDA',
    process: 'done',
    container: 'done',
    kubernetes: 'machine',
  },
  sleep: { about: '`idle_seconds` and `frozen_seconds`', process: 'done', container: 'done', kubernetes: 'refused' },
  request_limit: { about: '`request_limit`', process: 'done', container: 'done', kubernetes: 'refused' },
  h2c: { about: '`protocol` `h2c`', process: 'done', container: 'done', kubernetes: 'refused' },
  drain: { about: '`drain_seconds`', process: 'done', container: 'done', kubernetes: 'done' },
  processes: {
    about: 'Processes of the source beside `web`, `process_scale` and `process_resources`',
    process: 'done',
    container: 'done',
    kubernetes: 'done',
  },
  queue: { about: '`queue_*`', process: 'done', container: 'done', kubernetes: 'done' },
  orchestrator: { about: '`orchestrator_*`', process: 'done', container: 'done', kubernetes: 'done' },
  executor: { about: '`executor_*`', process: 'done', container: 'done', kubernetes: 'done' },
  cpu_limits: {
    about: '`cpu_limit`, also of other processes, is enforced; elsewhere plans warn',
    process: 'machine',
    container: 'done',
    kubernetes: 'done',
  },
  database: { about: '`db_*`', process: 'machine', container: 'done', kubernetes: 'done' },
  attached_database: { about: '`attached_database`', process: 'done', container: 'done', kubernetes: 'done' },
  redis: { about: '`redis_*`', process: 'machine', container: 'done', kubernetes: 'done' },
  disks: {
    about: '`volumes` of the type `persistentVolumeClaim`',
    process: 'done',
    container: 'done',
    kubernetes: 'done',
  },
  scratch_volumes: {
    about: '`volumes` of the type `emptyDir`; `volume_mounts` outside of `/app`, or `readOnly`',
    process: 'refused',
    container: 'done',
    kubernetes: 'done',
  },
  cluster_volumes: { about: '`volumes` of other types', process: 'refused', container: 'refused', kubernetes: 'done' },
  sub_paths: {
    about: '`subPath` and `mountPropagation` of `volume_mounts`',
    process: 'refused',
    container: 'refused',
    kubernetes: 'done',
  },
  disk_snapshots: {
    about: 'Snapshots of disks',
    process: 'done',
    container: 'done',
    kubernetes: 'machine',
  },
  database_snapshots: {
    about: 'Snapshots of the database',
    process: 'machine',
    container: 'done',
    kubernetes: 'machine',
  },
  database_history: {
    about: 'Restores of the database to a time',
    process: 'machine',
    container: 'done',
    kubernetes: 'refused',
  },
  database_copies: {
    about: '`database` of the mode `copy` in a preview policy: previews with a copy of a database',
    process: 'machine',
    container: 'done',
    kubernetes: 'machine',
  },
  redis_snapshots: { about: 'Snapshots of Redis', process: 'machine', container: 'refused', kubernetes: 'refused' },
  init_containers: { about: '`init_containers`', process: 'refused', container: 'done', kubernetes: 'done' },
  sidecars: { about: '`sidecars`', process: 'refused', container: 'done', kubernetes: 'done' },
  labels: { about: '`labels`', process: 'refused', container: 'done', kubernetes: 'done' },
  annotations: { about: '`annotations`', process: 'refused', container: 'refused', kubernetes: 'done' },
  pull_secrets: { about: '`image_pull_secrets`', process: 'refused', container: 'done', kubernetes: 'done' },
} as const satisfies Record<string, Feature>
export type FeatureName = keyof typeof ENGINE_FEATURES
export const featureNames = Object.keys(ENGINE_FEATURES) as FeatureName[]

/** Amounts that an engine accepts and does not enforce. A plan warns of them. */
export const UNENFORCED: Record<EngineName, readonly ResourceMember[]> = {
  process: [
    'cpu',
    'queue_cpu',
    'orchestrator_cpu',
    'executor_cpu',
    'redis_cpu',
    'redis_cpu_limit',
    'redis_memory_limit_mb',
    'db_cpu',
    'db_cpu_limit',
    'db_memory_limit_mb',
  ],
  container: ['db_storage_gi'],
  kubernetes: [],
}

/** Limits that are not enforced without the feature `cpu_limits`. */
const CPU_LIMITS: readonly ResourceMember[] = [
  'cpu_limit',
  'queue_cpu_limit',
  'orchestrator_cpu_limit',
  'executor_cpu_limit',
]

/** The features of an engine, without those that its machine lacks. Histories and copies begin with snapshots. */
export function featuresOf(engine: EngineName, missing: readonly FeatureName[] = []): FeatureName[] {
  const hasSnapshots = !missing.includes('database_snapshots')
  return featureNames
    .filter(name => ENGINE_FEATURES[name][engine] !== 'refused' && !missing.includes(name))
    .filter(name => hasSnapshots || (name !== 'database_history' && name !== 'database_copies'))
}

/** The engines that can, in a sentence. */
export function enginesWith(feature: FeatureName): string {
  const names = engineNames.filter(engine => ENGINE_FEATURES[feature][engine] !== 'refused')
  return `${names.length > 1 ? `${names.slice(0, -1).join(', ')} or ` : ''}${names.at(-1)} engine`
}

export type FeatureNeed = { path: string; feature: FeatureName }

export function listFeatureNeeds(spec: ResourceSpec, source?: Source | null): FeatureNeed[] {
  const at = (name: string) => `resource_spec.${name}`
  const needs: FeatureNeed[] = []
  const add = (isNeeded: boolean, path: string, feature: FeatureName) => isNeeded && needs.push({ path, feature })
  add(source === 'external_container' || source === 'internal_container', 'source', 'images')
  for (const part of ['', 'queue_', 'orchestrator_'] as const) {
    const [least, most] = [spec[`${part}min_scale`], spec[`${part}max_scale`]]
    const feature = part === '' ? 'autoscaling' : 'part_autoscaling'
    add((most ?? 0) > Math.max(1, least ?? 1), at(`${part}max_scale`), feature)
  }
  const { scale_metric } = spec
  add(scale_metric === 'concurrency' || scale_metric === 'requests', at('scale_metric'), 'request_scaling')
  add(scale_metric === 'queue', at('scale_metric'), 'queue_scaling')
  add(spec.process_scaling != null, at('process_scaling'), 'process_scaling')
  for (const [name, scaling] of Object.entries(spec.process_scaling ?? {}))
    add(scaling.scale_metric === 'queue', at(`process_scaling.${name}.scale_metric`), 'queue_scaling')
  for (const name of ['idle_seconds', 'frozen_seconds'] as const) add(spec[name] != null, at(name), 'sleep')
  add(spec.request_limit != null, at('request_limit'), 'request_limit')
  add(spec.protocol === 'h2c', at('protocol'), 'h2c')
  add(spec.drain_seconds != null, at('drain_seconds'), 'drain')
  for (const name of Object.keys(spec) as ResourceMember[]) {
    const part = PREFIXES.find(prefix => name.startsWith(`${prefix}_`))
    add(part !== undefined && spec[name] != null, at(name), part === 'db' ? 'database' : (part ?? 'queue'))
  }
  add(spec.attached_database != null, at('attached_database'), 'attached_database')
  for (const name of ['process_scale', 'process_resources'] as const) add(spec[name] != null, at(name), 'processes')
  for (const [i, volume] of (spec.volumes ?? []).entries()) {
    const { name: _, ...kinds } = volume
    for (const [kind, value] of Object.entries(kinds))
      add(value != null, at(`volumes.${i}.${kind}`), VOLUMES[kind] ?? 'cluster_volumes')
  }
  for (const [i, { subPath, subPathExpr, mountPropagation, ...mount }] of (spec.volume_mounts ?? []).entries()) {
    add(Boolean(subPath || subPathExpr) || isPropagated(mountPropagation), at(`volume_mounts.${i}`), 'sub_paths')
    // Engines that mount anything can make a folder for it.
    add(pathInApplication(mount.mountPath) === null, at(`volume_mounts.${i}.mountPath`), 'scratch_volumes')
    add(mount.readOnly === true, at(`volume_mounts.${i}.readOnly`), 'scratch_volumes')
  }
  for (const [name, feature] of LISTS) add(Object.keys(spec[name] ?? {}).length > 0, at(name), feature)
  return needs
}

const PREFIXES = ['queue', 'orchestrator', 'executor', 'redis', 'db'] as const
const VOLUMES: Record<string, FeatureName> = { persistentVolumeClaim: 'disks', emptyDir: 'scratch_volumes' }
const LISTS = [
  ['init_containers', 'init_containers'],
  ['sidecars', 'sidecars'],
  ['labels', 'labels'],
  ['annotations', 'annotations'],
  ['image_pull_secrets', 'pull_secrets'],
] as const
const isPropagated = (propagation: string | null | undefined) => (propagation ?? 'None') !== 'None'

type Declared = { engine?: string | null | undefined; features?: readonly string[] | null | undefined }
/** Members that are accepted and have no effect there: amounts that are not enforced, and what was stored before. */
export function listIgnored(spec: ResourceSpec, { engine, features }: Declared): string[] {
  const needs = features ? listFeatureNeeds(spec).filter(({ feature }) => !features.includes(feature)) : []
  const isCpuFree = engine === 'process' && !features?.includes('cpu_limits')
  const unenforced = [...(UNENFORCED[engine as EngineName] ?? []), ...(isCpuFree ? CPU_LIMITS : [])]
  const ignored = unenforced.filter(name => spec[name] != null)
  return [...new Set([...needs.map(({ path }) => path.split('.')[1]!), ...ignored])]
}

export const describeIgnored = (names: string[], engine: string): string =>
  `The ${engine} engine of the listener ignores ${names.map(name => `\`${name}\``).join(', ')}.`
