// Builds the pod template of an application: containers, environment, probes, resources and security. Pure.
import type {
  V1Container,
  V1EnvVar,
  V1PodTemplateSpec,
  V1Probe,
  V1ResourceRequirements,
  V1Volume,
} from '@kubernetes/client-node'
import type * as z from 'zod'
import { diskVariable, listDisks } from '../../../protocol/disks.ts'
import type { Container } from '../../../protocol/kubernetes.schema.ts'
import { narrowingMembers } from '../../../protocol/listener-policy.ts'
import { toMillicores } from '../../../protocol/resources.schema.ts'
import { QUEUE_PATH, SCALE_TARGETS } from '../../../protocol/scaling.ts'
import type { Artifact, RevisionSpec } from '../../engine.ts'
import { shellCommand } from '../../system/shell-command.ts'
import { imageCommand } from '../image-command.ts'
import { processTypesOf, RUN_ROLE, WEB } from '../process-types.ts'
import { URL_ALIASES } from '../store-variables.ts'
import { ownDisksOf, volumesOf } from './disk-objects.ts'
import {
  metadataOf,
  modelTokenName,
  modelVariablesName,
  revisionName,
  selectorLabels,
  storeName,
  tracingName,
  workloadName,
} from './names.ts'
import type { KubernetesSettings } from './settings.ts'

export const APP_CONTAINER = 'app'
export const APP_PORT = 8000
/** The folder with the token for models. */
export const TOKEN_FOLDER = '/var/run/secrets/slipway'
const TOKEN_VOLUME = 'slipway-models'
/** The time for requests in flight to end. */
export const GRACE_SECONDS = 30
/** A terminating pod keeps listening at least this long, until proxies stop sending it requests. */
const PRE_STOP_SECONDS = 5
/** Nothing counts the requests of a pod here, so it always takes the whole time. */
const preStopSecondsOf = ({ resources }: RevisionSpec) => Math.max(PRE_STOP_SECONDS, resources.drain_seconds ?? 0)

export const resourcesOf = (
  cpu: readonly [number, number],
  memory: readonly [number, number],
): V1ResourceRequirements => ({
  requests: { cpu: millicoresOf(cpu[0]), memory: `${memory[0]}Mi` },
  limits: { cpu: millicoresOf(cpu[1]), memory: `${memory[1]}Mi` },
})
const millicoresOf = (cpus: number) => `${toMillicores(cpus)}m`

/** The requirements of the pod security profile `restricted` for each container. */
export const RESTRICTED_SECURITY = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}

/** `percent`: of the request. `tasks`: those that wait for each copy. */
export type ScalingMetric = { name: 'cpu' | 'memory'; percent: number } | { name: 'queue'; tasks: number; path: string }

export type Workload = {
  /** `web`, the name of another type of process, or `run`. */
  component: string
  scale: readonly [number, number]
  /** By what an autoscaler moves it. Absent: 75 percent of the CPU. */
  metric?: ScalingMetric
  resources: V1ResourceRequirements
  /** Null: that of the artifact. */
  command: string | null
  health_command: string | null
}

/** Without a process that listens, its Deployment has no pods: it only says that the revision is complete. */
export function webWorkloadOf({ resources: r }: Pick<RevisionSpec, 'resources'>, isWithoutWeb = false): Workload {
  return {
    component: WEB,
    scale: isWithoutWeb ? [0, 0] : [r.min_scale, r.scale_metric === 'fixed' ? Math.max(1, r.min_scale) : r.max_scale],
    metric: metricOf(r),
    resources: resourcesOf([r.cpu, r.cpu_limit], [r.memory_mb, r.memory_limit_mb]),
    command: null,
    health_command: null,
  }
}

type ScaledBy = Pick<RevisionSpec['resources'], 'scale_metric' | 'scale_target' | 'scale_path'>
/** The autoscaler of a cluster sees no requests. */
function metricOf({ scale_metric, scale_target, scale_path }: ScaledBy): ScalingMetric {
  if (scale_metric === 'queue')
    return { name: 'queue', tasks: scale_target ?? SCALE_TARGETS.queue, path: scale_path ?? QUEUE_PATH }
  const name = scale_metric === 'memory' ? 'memory' : 'cpu'
  return { name, percent: scale_target ?? SCALE_TARGETS[name] }
}

/** Components of other objects. */
const OTHER_COMPONENTS = new Set(['redis', 'database', 'dumps', 'disk', 'pull', 'models', RUN_ROLE])

/** The processes besides the one that listens. */
export const otherWorkloadsOf = (spec: RevisionSpec, artifact: Artifact): Workload[] =>
  processTypesOf(spec, artifact).map(({ name, scale, scaling, cpu, memory_mb, command, health_command }) => ({
    component: OTHER_COMPONENTS.has(name) ? `${name}-process` : name,
    scale,
    ...(scaling && { metric: metricOf(scaling) }),
    resources: resourcesOf(cpu, memory_mb),
    command: command === null || command === artifact.start_command ? null : imageCommand(artifact, command),
    health_command: health_command && imageCommand(artifact, health_command),
  }))

const envFromSecret = (name: string, secret: string, key: string): V1EnvVar => ({
  name,
  valueFrom: { secretKeyRef: { name: secret, key } },
})

/** Kubernetes expands `$$` and `$(NAME)`, so both are escaped. It keeps every other dollar. */
const escapeDollars = (text: string) => text.replace(/\$(?=[$(])/g, '$$$$')

/** Secrets override the runtime configuration, and the platform's variables override both. */
function environmentOf(spec: RevisionSpec, artifact: Artifact, component: string): V1EnvVar[] {
  const userSecrets = new Set([...Object.keys(spec.secrets), ...spec.secret_references.map(({ name }) => name)])
  const configured = Object.entries(artifact.env).filter(([name]) => !userSecrets.has(name))
  const stores = [
    ...(spec.needs_database ? [envFromSecret('DATABASE_URI', storeName(spec, 'database'), 'uri')] : []),
    ...(spec.parts.includes('redis') ? [envFromSecret('REDIS_URI', storeName(spec, 'redis'), 'uri')] : []),
  ]
  const isOwn = (name: string) => userSecrets.has(name) || name in artifact.env
  const aliases = stores.map(store => ({ ...store, name: URL_ALIASES[store.name]! })).filter(({ name }) => !isOwn(name))
  return [
    ...configured.map(([name, value]) => ({ name, value: escapeDollars(value) })),
    ...Object.keys(spec.secrets).map(name => envFromSecret(name, revisionName(spec), name)),
    ...spec.secret_references.map(from => envFromSecret(from.name, from.secret_name, from.secret_key)),
    ...stores,
    ...aliases,
    ...(component === RUN_ROLE ? [] : [{ name: 'PORT', value: String(APP_PORT) }]),
    ...listDisks(spec.resources).flatMap(({ name, paths: [path] }) =>
      path ? [{ name: diskVariable(name), value: escapeDollars(path) }] : [],
    ),
    { name: 'SLIPWAY_ROLE', value: component },
  ]
}

/** The seconds in which a revision must become healthy. */
export const progressSecondsOf = ({ resources }: RevisionSpec, { progress_seconds }: KubernetesSettings): number =>
  resources.health_timeout_seconds ?? progress_seconds

function probesOf(artifact: Artifact, seconds: number): Partial<V1Container> {
  const check: V1Probe = artifact.health_path
    ? { httpGet: { path: artifact.health_path, port: 'http' } }
    : { tcpSocket: { port: 'http' } }
  return {
    startupProbe: {
      ...check,
      periodSeconds: 2,
      timeoutSeconds: 2,
      failureThreshold: Math.max(1, Math.ceil(seconds / 2)),
    },
    readinessProbe: { ...check, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
    livenessProbe: { ...check, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
  }
}

function commandProbesOf(command: string, seconds: number): Partial<V1Container> {
  const check: V1Probe = { exec: { command: ['/bin/sh', '-c', escapeDollars(command)] }, timeoutSeconds: 5 }
  const failureThreshold = Math.max(1, Math.ceil(seconds / 5))
  return {
    startupProbe: { ...check, periodSeconds: 5, failureThreshold },
    livenessProbe: { ...check, periodSeconds: 10, failureThreshold: 3 },
  }
}

function appContainerOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
  workload: Workload,
): V1Container {
  const image = artifact.location
  const command = workload.command ?? artifact.start_command
  return {
    name: APP_CONTAINER,
    image,
    // A digest never changes; a tag may have moved.
    imagePullPolicy: image.includes('@') ? 'IfNotPresent' : 'Always',
    ...(command !== null && { command: shellCommand(command).map(escapeDollars) }),
    env: environmentOf(spec, artifact, workload.component),
    // The volume is always there, so pods are not replaced when a revision gets or loses its Secret.
    envFrom: [tracingName(spec), modelVariablesName(spec)].map(name => ({ secretRef: { name, optional: true } })),
    resources: workload.resources,
    securityContext: RESTRICTED_SECURITY,
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      ...((spec.resources.volume_mounts ?? []) as V1Container['volumeMounts'] & {}),
      { name: TOKEN_VOLUME, mountPath: TOKEN_FOLDER, readOnly: true },
    ],
    ...(workload.health_command !== null &&
      commandProbesOf(workload.health_command, progressSecondsOf(spec, settings))),
    ...(workload.component === WEB && {
      ports: [{ name: 'http', containerPort: APP_PORT, protocol: 'TCP' }],
      lifecycle: { preStop: { sleep: { seconds: preStopSecondsOf(spec) } } },
      ...probesOf(artifact, progressSecondsOf(spec, settings)),
    }),
  }
}

/** Narrows our context by a user's. If the operator allows privileges, the user's context replaces ours. */
function securityContextOf({ privileges }: KubernetesSettings, { securityContext }: z.output<typeof Container>) {
  if (privileges) return securityContext ?? RESTRICTED_SECURITY
  return { ...narrowingMembers(securityContext ?? {}), ...RESTRICTED_SECURITY }
}
const containerOf = (settings: KubernetesSettings, container: z.output<typeof Container>): V1Container =>
  ({ ...container, securityContext: securityContextOf(settings, container) }) as V1Container

/** Kubernetes starts such a sidecar before the application and ends it afterwards. */
const isNativeSidecar = ({ restartPolicy }: z.output<typeof Container>) => restartPolicy === 'Always'

/** The group of images that the agent builds. Any group does: each process of a pod has it, too. */
const DISK_GROUP = 1000

/**
 * A new volume belongs to root, so no application could write to it. Claims that exist are their owner's, and the
 * cluster would give the group the files of each volume of the pod: beside one, there is none.
 */
function groupOf({ run_as_user }: KubernetesSettings, spec: RevisionSpec) {
  if (run_as_user !== null) return { fsGroup: run_as_user }
  const own = ownDisksOf(spec).length
  return (
    own > 0 &&
    own === listDisks(spec.resources).length && { fsGroup: DISK_GROUP, fsGroupChangePolicy: 'OnRootMismatch' }
  )
}

/** The volume is always there, too. The cluster updates its file without a restart. */
const tokenVolumeOf = (spec: RevisionSpec): V1Volume => ({
  name: TOKEN_VOLUME,
  secret: { secretName: modelTokenName(spec), optional: true, defaultMode: 0o444 },
})

export function podTemplateOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
  workload: Workload,
): V1PodTemplateSpec {
  const { resources } = spec
  const sidecars = resources.sidecars ?? []
  const initContainers = [...sidecars.filter(isNativeSidecar), ...(resources.init_containers ?? [])].map(one =>
    containerOf(settings, one),
  )
  const pullSecrets = new Set([
    ...(resources.image_pull_secrets ?? []).map(({ name }) => name),
    ...settings.pull_secrets,
  ])
  const { labels, annotations } = metadataOf(settings, spec, workloadName(spec, workload.component), {
    component: workload.component,
    ofRevision: true,
  })
  const accountName = resources.service_account_name
  return {
    metadata: { labels, ...(annotations && { annotations }) },
    spec: {
      // A user's account is named for its token. The agent's own account has no permissions.
      serviceAccountName: accountName ?? revisionName(spec),
      ...(accountName == null && { automountServiceAccountToken: false }),
      enableServiceLinks: false,
      terminationGracePeriodSeconds: GRACE_SECONDS + preStopSecondsOf(spec),
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        ...(settings.run_as_user !== null && { runAsUser: settings.run_as_user }),
        ...groupOf(settings, spec),
      },
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: 'kubernetes.io/hostname',
          whenUnsatisfiable: 'ScheduleAnyway',
          labelSelector: { matchLabels: selectorLabels(settings, spec, workload.component) },
        },
      ],
      ...(pullSecrets.size > 0 && { imagePullSecrets: [...pullSecrets].map(name => ({ name })) }),
      volumes: [...volumesOf(spec), tokenVolumeOf(spec)],
      ...(initContainers.length > 0 && { initContainers }),
      containers: [
        appContainerOf(settings, spec, artifact, workload),
        ...sidecars.filter(sidecar => !isNativeSidecar(sidecar)).map(one => containerOf(settings, one)),
      ],
    },
  }
}
