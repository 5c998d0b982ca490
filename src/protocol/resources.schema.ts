// ResourceSpec: the resources of a deployment, and the defaults of absent members.
import * as z from 'zod'
import { Claim, hasOneWriter, listDisks } from './disks.ts'
import {
  Annotations,
  Container,
  checkUniqueNames,
  DnsSubdomain,
  isObject,
  Labels,
  MAX_MOUNTS,
  nullishMembers,
  omitNulls,
  rejectPrototypeKey,
  textMatching,
  Volume,
  VolumeMount,
} from './kubernetes.schema.ts'
import { ProcessScaling, Scale, scaleMembers } from './scale-members.schema.ts'
import { arrayOf, recordOf } from './wire.ts'

export const deploymentTypes = ['dev_free', 'dev', 'prod'] as const
export const DeploymentType = z.enum(deploymentTypes)
export type DeploymentType = z.output<typeof DeploymentType>

/** Engines count in thousandths of a core. Rounds what floating point adds, as in 0.1 + 0.2. */
export const toMillicores = (cpus: number): number => Math.round(cpus * 1000)
/** The error of `cpus * 1000` in floating point is far below this. */
const TOLERANCE = 1e-9
const isWholeMillicores = (cpus: number) => Math.abs(cpus * 1000 - toMillicores(cpus)) < TOLERANCE
/** `multipleOf` is not in the document: validators divide in floating point, and refuse 1.005. */
const cpuUpTo = (most: number) =>
  z
    .number()
    .min(0.001)
    .max(most)
    .refine(isWholeMillicores, { error: 'must not be finer than a thousandth of a core (0.001)' })
const Cpu = cpuUpTo(8)
const CpuLimit = cpuUpTo(16)
const Memory = z.int().min(64)
const MAX_CONTAINERS = 20

/** The control plane gives a revision up after 15 minutes. */
const HealthTimeout = z
  .int()
  .min(1)
  .max(840)
  .meta({
    description:
      'The seconds in which a revision must become healthy. ' +
      'Default: 120 for processes and containers, and on Kubernetes the setting of the operator (600).',
  })

const ProcessResources = z
  .strictObject(nullishMembers({ cpu: Cpu, cpu_limit: CpuLimit, memory_mb: Memory, memory_limit_mb: Memory }))
  .superRefine((amounts, check) => {
    for (const [low, high] of [
      ['cpu', 'cpu_limit'],
      ['memory_mb', 'memory_limit_mb'],
    ] as const) {
      const [least, most] = [amounts[low], amounts[high]]
      if (least == null || most == null || least <= most) continue
      check.addIssue({ code: 'custom', path: [high], message: `must be at least \`${low}\`` })
    }
  })
  .overwrite(omitNulls)
export const AppProtocol = z.enum(['http', 'h2c'])
export type AppProtocol = z.output<typeof AppProtocol>
/** In which way the router of an agent, or the cluster, sends requests to the copies of `web`. */
const servingMembers = {
  request_limit: z
    .int()
    .min(1)
    .max(100_000)
    .meta({
      description:
        'The most requests that a copy of `web` has at once, WebSockets and streams included. Up to 100 more wait 10 ' +
        'seconds for a place, and others are answered with 503 and `Retry-After`. Default: no limit.',
    }),
  drain_seconds: z
    .int()
    .min(1)
    .max(3_600)
    .meta({
      description:
        'The seconds that requests, streams and WebSockets have to end once their copy is to stop: after a new ' +
        'revision, or with fewer copies. Default: 30, on Kubernetes 5.',
    }),
  protocol: AppProtocol.meta({
    description:
      'What `web` speaks at its port: `http` (HTTP/1.1), or `h2c`, HTTP/2 without TLS, as servers of gRPC do. ' +
      'Default: what slipway.json says, or `http`.',
  }),
}
const MAX_PROCESS_TYPES = 20
/** The name of a process type, `web` too. */
export const ProcessType = textMatching(
  30,
  '[a-z]([a-z0-9-]*[a-z0-9])?',
  'must be lower-case letters, digits and inner hyphens',
)
const ProcessName = ProcessType.refine(name => name !== 'web', {
  error: 'must not be `web`: set `min_scale`, `cpu` and `memory_mb`',
})
const byProcess = <Value extends z.ZodType>(value: Value) =>
  z.preprocess(rejectPrototypeKey<Record<string, z.input<Value>>>, recordOf(ProcessName, value, MAX_PROCESS_TYPES))

/** The second of a pair must not be below the first. */
export const REQUEST_LIMIT_PAIRS = [
  ['min_scale', 'max_scale'],
  ['cpu', 'cpu_limit'],
  ['memory_mb', 'memory_limit_mb'],
  ['queue_min_scale', 'queue_max_scale'],
  ['queue_cpu', 'queue_cpu_limit'],
  ['queue_memory_mb', 'queue_memory_limit_mb'],
  ['orchestrator_cpu', 'orchestrator_cpu_limit'],
  ['orchestrator_memory_mb', 'orchestrator_memory_limit_mb'],
  ['orchestrator_min_scale', 'orchestrator_max_scale'],
  ['executor_cpu', 'executor_cpu_limit'],
  ['executor_memory_mb', 'executor_memory_limit_mb'],
  ['redis_cpu', 'redis_cpu_limit'],
  ['redis_memory_mb', 'redis_memory_limit_mb'],
  ['db_cpu', 'db_cpu_limit'],
  ['db_memory_mb', 'db_memory_limit_mb'],
] as const

export const ResourceSpec = z
  .object(
    nullishMembers({
      min_scale: Scale,
      max_scale: Scale,
      cpu: Cpu,
      cpu_limit: CpuLimit,
      memory_mb: Memory,
      memory_limit_mb: Memory,
      health_timeout_seconds: HealthTimeout,
      ...scaleMembers,
      ...servingMembers,
      process_scale: byProcess(Scale).meta({
        description:
          'The copies of each process type of the source beside `web`, by name. Acts at once. Default: what the ' +
          'source says, or 1.',
      }),
      process_scaling: byProcess(ProcessScaling).meta({
        description:
          'In which way the copies of a process type beside `web` move by themselves, by name, in place of its ' +
          '`process_scale`. Acts at once.',
      }),
      process_resources: byProcess(ProcessResources).meta({
        description: 'The CPU and memory of each process type beside `web`, by name. Default: those of `web`.',
      }),
      queue_min_scale: Scale,
      queue_max_scale: Scale,
      queue_cpu: Cpu,
      queue_cpu_limit: CpuLimit,
      queue_memory_mb: Memory,
      queue_memory_limit_mb: Memory,
      orchestrator_cpu: Cpu,
      orchestrator_cpu_limit: CpuLimit,
      orchestrator_memory_mb: Memory,
      orchestrator_memory_limit_mb: Memory,
      orchestrator_min_scale: Scale,
      orchestrator_max_scale: Scale,
      executor_cpu: Cpu,
      executor_cpu_limit: CpuLimit,
      executor_memory_mb: Memory,
      executor_memory_limit_mb: Memory,
      redis_cpu: Cpu,
      redis_cpu_limit: CpuLimit,
      redis_memory_mb: Memory,
      redis_memory_limit_mb: Memory,
      labels: Labels,
      annotations: Annotations,
      service_account_name: DnsSubdomain,
      image_pull_secrets: arrayOf(z.object({ name: DnsSubdomain }), 50),
      volumes: arrayOf(Volume, MAX_MOUNTS),
      volume_mounts: arrayOf(VolumeMount, MAX_MOUNTS),
      init_containers: arrayOf(Container, MAX_CONTAINERS),
      sidecars: arrayOf(Container, MAX_CONTAINERS),
      db_cpu: Cpu,
      db_cpu_limit: CpuLimit,
      db_memory_mb: Memory,
      db_memory_limit_mb: Memory,
      db_storage_gi: z.int().min(1),
      db_max_connections: z.int().min(1),
      attached_database: textMatching(253, '[A-Za-z_][A-Za-z0-9_]*', 'must be the name of a variable').meta({
        description:
          'A secret or another variable of the application with the address of a database that exists. Each revision ' +
          'tries it before its release command and its start, and fails if it does not answer.',
      }),
    }),
  )
  .superRefine(
    (spec, check) => {
      for (const [low, high] of REQUEST_LIMIT_PAIRS) {
        const [least, most] = [spec[low], spec[high]]
        if (typeof least !== 'number' || typeof most !== 'number' || toMillicores(least) <= toMillicores(most)) continue
        check.addIssue({ code: 'custom', path: [high], message: `must be at least \`${low}\`` })
      }
      checkUniqueNames(check, 'volumes', spec.volumes)
      checkClaims(check, spec)
      checkMovingProcesses(check, spec)
      const containers = new Set()
      checkUniqueNames(check, 'init_containers', spec.init_containers, containers)
      checkUniqueNames(check, 'sidecars', spec.sidecars, containers)
    },
    // Runs even when single members are invalid: an answer lists every fault at once.
    { when: ({ value }) => isObject(value) },
  )
  .overwrite(omitNulls)
  .meta({
    id: 'ResourceSpec',
    description:
      'CPU in cores (fractions down to 0.001), memory in megabytes, storage in gibibytes. ' +
      'An absent limit is twice its request (for Redis memory the same). ' +
      'An absent `queue_*` member is that of the application.',
    example: { cpu: 1, memory_mb: 1024, min_scale: 1, max_scale: 3 },
  })
export type ResourceSpec = z.output<typeof ResourceSpec>
export type ResourceMember = keyof ResourceSpec
export const RESOURCE_MEMBERS = Object.keys(ResourceSpec.shape) as ResourceMember[]

/** Reports faults of disks. Skips lists that are not valid otherwise. */
function checkClaims(check: z.RefinementCtx, spec: Partial<Record<ResourceMember, unknown>>): void {
  const volumes = Array.isArray(spec.volumes) ? spec.volumes : []
  for (const [i, volume] of volumes.entries()) {
    const claim = isObject(volume) ? volume.persistentVolumeClaim : null
    if (!isObject(claim)) continue
    // Agents check the name, as they do with those of other volumes.
    for (const { path, message } of Claim.safeParse(claim).error?.issues ?? [])
      if (path[0] !== 'claimName')
        check.addIssue({ code: 'custom', path: ['volumes', i, 'persistentVolumeClaim', ...path], message })
  }
  const copies = spec.min_scale
  const [single] = listDisks({ volumes: volumes.filter(isObject) as ResourceSpec['volumes'] }).filter(hasOneWriter)
  if (single && typeof copies === 'number' && copies > 1)
    check.addIssue({
      code: 'custom',
      path: ['min_scale'],
      message: `must be at most 1, because one copy at a time uses the disk \`${single.name}\` (ReadWriteOncePod)`,
    })
}

/** A number of copies that moves has no other one. */
function checkMovingProcesses(check: z.RefinementCtx, spec: Partial<Record<ResourceMember, unknown>>): void {
  const [fixed, moving] = [Object(spec.process_scale), Object(spec.process_scaling)]
  for (const name of Object.keys(moving).filter(one => Object.hasOwn(fixed, one)))
    check.addIssue({
      code: 'custom',
      path: ['process_scale', name],
      message: 'must not be beside its `process_scaling`: leave one of them out',
    })
}

/** The number of copies. It is a setting of the deployment, at once in effect; a revision has the other members. */
export const SCALE_MEMBERS = RESOURCE_MEMBERS.filter(
  name =>
    /(^|_)((min|max)|process)_scale$/.test(name) || name === 'process_scaling' || Object.hasOwn(scaleMembers, name),
)
/** The resources of a revision, at the present scale of its deployment. */
export const withScale = (ofRevision: ResourceSpec, ofDeployment: ResourceSpec): ResourceSpec => ({
  ...ofRevision,
  ...Object.fromEntries(SCALE_MEMBERS.map(name => [name, ofDeployment[name]])),
})

type RequestMember = (typeof REQUEST_LIMIT_PAIRS)[number][0]
type LimitMember = (typeof REQUEST_LIMIT_PAIRS)[number][1]
type AmountMember = RequestMember | LimitMember | 'db_storage_gi' | 'db_max_connections'
type MainMember = Exclude<AmountMember, `queue_${string}` | `${string}_limit` | `${string}_limit_mb`>
export type CompleteResourceSpec = ResourceSpec & Record<AmountMember, number>

const BASE_DEFAULTS = {
  min_scale: 1,
  max_scale: 1,
  cpu: 1,
  memory_mb: 1024,
  orchestrator_min_scale: 1,
  orchestrator_max_scale: 1,
  orchestrator_cpu: 1,
  orchestrator_memory_mb: 1024,
  executor_cpu: 1,
  executor_memory_mb: 1024,
  redis_cpu: 0.5,
  redis_memory_mb: 256,
  db_cpu: 0.5,
  db_memory_mb: 1024,
  db_storage_gi: 10,
  db_max_connections: 100,
}
/** `queue_*` members and limits follow from these (`withDefaults`). */
const RESOURCE_DEFAULTS: Record<DeploymentType, Record<MainMember, number>> = {
  dev_free: { ...BASE_DEFAULTS, cpu: 0.5, memory_mb: 512, db_storage_gi: 1 },
  dev: BASE_DEFAULTS,
  prod: { ...BASE_DEFAULTS, max_scale: 10, memory_mb: 2048, redis_memory_mb: 1024, db_cpu: 1, db_memory_mb: 4096 },
}

/** Processes that can run beside the application; the database is not among them. */
export const parts = ['queue', 'orchestrator', 'executor', 'redis'] as const
export type Part = (typeof parts)[number]
/** Any member of a part requests it. */
export const partsOf = (spec: ResourceSpec): Part[] =>
  parts.filter(part => Object.entries(spec).some(([name, value]) => value != null && name.startsWith(`${part}_`)))

/** Defaults adapt to the values that were sent, never the other way round. */
export function withDefaults(spec: ResourceSpec, type: DeploymentType): CompleteResourceSpec {
  const whole: Record<string, number> = { ...RESOURCE_DEFAULTS[type] }
  // The main pairs come before the queue's, which follow them.
  for (const [low, high] of REQUEST_LIMIT_PAIRS) {
    const [ownLow, ownHigh] = [low.replace(/^queue_/, ''), high.replace(/^queue_/, '')]
    const follows = ownLow !== low && spec[low] == null
    const least = spec[low] ?? Math.min(whole[ownLow]!, spec[high] ?? Number.POSITIVE_INFINITY)
    const doubled = Math.min(least * (low === 'redis_memory_mb' ? 1 : 2), Number.MAX_SAFE_INTEGER)
    const most = low.endsWith('_scale') ? whole[ownHigh]! : doubled
    whole[low] = least
    whole[high] = spec[high] ?? Math.max(least, follows ? whole[ownHigh]! : most)
  }
  const storage = spec.db_storage_gi ?? whole.db_storage_gi
  const connections = spec.db_max_connections ?? whole.db_max_connections
  return { ...spec, ...whole, db_storage_gi: storage, db_max_connections: connections } as CompleteResourceSpec
}

/** Only copies that were asked for move by themselves: a `max_scale` that is a default makes none. */
export function withScaleMetric(asked: ResourceSpec, complete: CompleteResourceSpec): CompleteResourceSpec {
  const moves = asked.max_scale != null && asked.max_scale > Math.max(1, complete.min_scale)
  const moving = Object.fromEntries(
    (['queue', 'orchestrator'] as const).flatMap(part => {
      const [min_scale, max_scale] = [Math.max(1, complete[`${part}_min_scale`]), asked[`${part}_max_scale`]]
      const isFixed = Object.hasOwn(asked.process_scale ?? {}, part)
      if (max_scale == null || max_scale <= min_scale || isFixed) return []
      return [[part, { min_scale, max_scale, scale_metric: 'cpu' as const }]]
    }),
  )
  return {
    ...complete,
    ...(complete.scale_metric == null && moves && { scale_metric: 'concurrency' }),
    ...(Object.keys(moving).length > 0 && { process_scaling: { ...moving, ...asked.process_scaling } }),
  }
}

/** In steps of a tenth of a core, rounded: agents of earlier releases take no others. */
export const inTenthsOfCores = (spec: CompleteResourceSpec): CompleteResourceSpec =>
  Object.fromEntries(
    Object.entries(spec).map(([name, value]) => [
      name,
      /(^|_)cpu(_limit)?$/.test(name) && typeof value === 'number' ? Math.max(1, Math.round(value * 10)) / 10 : value,
    ]),
  ) as CompleteResourceSpec

/** Any `db_*` member requests a database. */
export const hasDatabase = (spec: ResourceSpec | null | undefined): boolean =>
  Object.entries(spec ?? {}).some(([name, value]) => name.startsWith('db_') && value != null)
