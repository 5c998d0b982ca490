// Builds the create requests of a replica's containers and volumes from its revision. Pure.

import { diskVariable, listDisks } from '../../../protocol/disks.ts'
import { toMillicores } from '../../../protocol/resources.schema.ts'
import type { Artifact, RevisionSpec } from '../../engine.ts'
import {
  deploymentLabels,
  type Labels,
  PART_LABEL,
  REPLICA_LABEL,
  REVISION_LABEL,
  ROLE_LABEL,
  resourcePrefix,
  SIDECARS_LABEL,
  TYPE_LABEL,
} from '../../images/container-labels.ts'
import { type CreateRequest, MAX_PROCESSES } from '../../images/docker-api.ts'
import { shellCommand } from '../../system/shell-command.ts'
import { RUN_VARIABLE } from '../../system/tracked-process.ts'
import { graphVariables } from '../graph-variables.ts'
import { imageCommand } from '../image-command.ts'
import { MODEL_TOKEN_FILE, modelVariables } from '../model-variables.ts'
import { RUN_ROLE, type RunningType, WEB, withAmounts } from '../process-types.ts'
import { MIB, parseCpu, parseMemory } from '../quantities.ts'
import { urlAliases } from '../store-variables.ts'
import { tracingVariables } from '../tracing-variables.ts'

type Resources = RevisionSpec['resources']
type Container = NonNullable<Resources['sidecars']>[number]
type Mount = NonNullable<Resources['volume_mounts']>[number]
export type ReplicaParts = {
  copy: string
  volumes: CreateRequest[]
  /** Init containers run to completion, one after the other. */
  inits: CreateRequest[]
  app: CreateRequest
  /** Create them after the app's container, whose network they join. */
  sidecars: CreateRequest[]
  /** Null: it listens on no port. */
  port: number | null
}
export type Placement = {
  owner: string
  copy: string
  port: number | null
  /** The type of process, in SLIPWAY_ROLE. */
  role?: string
  /** The pinned images of init containers and sidecars, by name. */
  images: Record<string, string>
  secret: (name: string, key: string) => string
  secrets: (name: string) => Record<string, string>
  /** The folder on this machine that holds the token for models. */
  tokenFolder: string
  /** The variables and host entries of its stores. */
  stores?: { env: Record<string, string>; hosts: string[] }
}

/** The port of an application whose image exposes none. */
export const DEFAULT_PORT = 8000
const TOKEN_FOLDER = '/run/slipway/models'
const LOG_CONFIG = { Type: 'json-file', Config: { 'max-size': '10m' } }

export function replicaParts(spec: RevisionSpec, artifact: Artifact, placement: Placement): ReplicaParts {
  const { owner, copy, port, role = WEB } = placement
  const listens = port !== null && role === WEB
  const { resources, deployment_id, revision_id, name } = spec
  const shared = deploymentLabels(owner, deployment_id)
  const labels = (role: string, part: string): Labels => ({
    ...resources.labels,
    ...shared,
    [REVISION_LABEL]: revision_id,
    [REPLICA_LABEL]: copy,
    [ROLE_LABEL]: role,
    [PART_LABEL]: part,
  })
  const network = resourcePrefix(owner, deployment_id)
  const hosts = placement.stores?.hosts.length ? { ExtraHosts: placement.stores.hosts } : {}
  const volumes = Object.fromEntries(
    (resources.volumes ?? []).map(volume => [volume.name, volumeOf(volume, spec, placement)]),
  )
  const mounted = (mounts: Mount[] = []) =>
    mounts.map(({ name, mountPath, readOnly }) => ({
      Type: 'volume',
      Source: volumes[name]!.name,
      Target: mountPath,
      ReadOnly: readOnly ?? false,
    }))
  const containerRequest = (container: Container, role: string, mode: string): CreateRequest => ({
    name: `slipway-${name}-${copy}-${container.name}`,
    body: {
      Image: placement.images[container.image] ?? container.image,
      Env: envLines(environmentOf(container, placement)),
      ...(container.command && { Entrypoint: container.command }),
      ...(container.args && { Cmd: container.args }),
      ...(container.workingDir && { WorkingDir: container.workingDir }),
      ...userOf(container),
      Labels: labels(role, container.name),
      HostConfig: {
        ...hostConfigOf(mode),
        // A container in the app's network uses the app's host entries.
        ...(mode === network && hosts),
        ...containerLimits(container, resources),
        ReadonlyRootfs: container.securityContext?.readOnlyRootFilesystem === true,
        Mounts: mounted(container.volumeMounts ?? []),
      },
    },
  })

  const sidecars = sidecarsOf(resources)
  const app = `slipway-${name}-${copy}`
  return {
    copy,
    port: listens ? port : null,
    volumes: Object.values(volumes),
    inits: initsOf(resources).map(container => containerRequest(container, 'init', network)),
    app: {
      name: app,
      body: {
        Image: artifact.location,
        ...(artifact.start_command && { Entrypoint: shellCommand(artifact.start_command), Cmd: [] }),
        Env: envLines(appEnvironmentOf(spec, artifact, placement)),
        Labels: {
          ...labels('app', ''),
          [TYPE_LABEL]: role,
          [SIDECARS_LABEL]: sidecars.map(sidecar => sidecar.name).join(),
        },
        ...(listens && { ExposedPorts: { [`${port}/tcp`]: {} } }),
        HostConfig: {
          ...hostConfigOf(network),
          ...hosts,
          ...resourceLimits(
            resources.cpu,
            resources.cpu_limit,
            resources.memory_mb * MIB,
            resources.memory_limit_mb * MIB,
          ),
          ...(listens && { PortBindings: { [`${port}/tcp`]: [{ HostIp: '127.0.0.1', HostPort: '' }] } }),
          Mounts: mounted(resources.volume_mounts ?? []),
          // SELinux lets a container read a folder only if it is labelled for containers.
          ...(spec.models_url !== null && { Binds: [`${placement.tokenFolder}:${TOKEN_FOLDER}:ro,z`] }),
        },
      },
    },
    sidecars: sidecars.map(container => containerRequest(container, 'sidecar', `container:${app}`)),
  }
}

/** A replica of a process that listens on nothing, with the amounts of its type. */
export function otherReplicaParts(spec: RevisionSpec, artifact: Artifact, placement: Placement, type: RunningType) {
  const isOwn = type.command !== null && type.command !== artifact.start_command
  const start_command = isOwn ? imageCommand(artifact, type.command!) : artifact.start_command
  return replicaParts(withAmounts(spec, type), { ...artifact, start_command }, { ...placement, role: type.name })
}

/** A container for a command that runs once: without a port, init containers and sidecars. Its copy is the run's id. */
export function runParts(
  spec: RevisionSpec,
  artifact: Artifact,
  placement: Omit<Placement, 'port'>,
  command: string,
): { volumes: CreateRequest[]; container: CreateRequest } {
  const alone = { ...spec, resources: { ...spec.resources, init_containers: [], sidecars: [] } }
  const parts = replicaParts(
    alone,
    { ...artifact, start_command: imageCommand(artifact, command) },
    { ...placement, port: null, role: placement.role ?? RUN_ROLE },
  )
  const { name, body } = parts.app
  const Labels = { ...(body.Labels as Labels), [ROLE_LABEL]: RUN_ROLE }
  const Env = [...(body.Env as string[]), ...envLines({ [RUN_VARIABLE]: placement.copy })]
  return { volumes: parts.volumes, container: { name, body: { ...body, Labels, Env } } }
}

const appEnvironmentOf = (spec: RevisionSpec, artifact: Artifact, { port, role = WEB, stores, secret }: Placement) => ({
  ...urlAliases(stores?.env ?? {}),
  ...tracingVariables(spec, artifact.env),
  ...graphVariables(spec, artifact),
  ...artifact.env,
  ...spec.secrets,
  ...Object.fromEntries(
    spec.secret_references.map(({ name, secret_name, secret_key }) => [name, secret(secret_name, secret_key)]),
  ),
  ...stores?.env,
  ...modelVariables(spec, `${TOKEN_FOLDER}/${MODEL_TOKEN_FILE}`),
  ...(port !== null && { PORT: String(port) }),
  ...diskVariables(spec),
  SLIPWAY_ROLE: role,
  SLIPWAY_DEPLOYMENT_ID: spec.deployment_id,
  SLIPWAY_DEPLOYMENT_NAME: spec.name,
  SLIPWAY_REVISION_ID: spec.revision_id,
})

/** A disk without a mount has no path in a container. */
const diskVariables = ({ resources }: RevisionSpec) =>
  Object.fromEntries(
    listDisks(resources).flatMap(({ name, paths: [path] }) => (path ? [[diskVariable(name), path]] : [])),
  )

/** An init container that always restarts is a sidecar, as in Kubernetes. */
const isSidecar = ({ restartPolicy }: Container) => restartPolicy === 'Always'
const initsOf = ({ init_containers }: Resources) => (init_containers ?? []).filter(container => !isSidecar(container))
const sidecarsOf = ({ init_containers, sidecars }: Resources) => [
  ...(init_containers ?? []).filter(isSidecar),
  ...(sidecars ?? []),
]

/** The images of its init containers and sidecars. `fresh`: pull even if the image is present. */
export const sidecarImagesOf = ({ init_containers, sidecars }: Resources): { image: string; fresh: boolean }[] =>
  [...(init_containers ?? []), ...(sidecars ?? [])].map(({ image, imagePullPolicy }) => ({
    image,
    fresh: imagePullPolicy ? imagePullPolicy === 'Always' : isFloating(image),
  }))

/** A digest or an image id never changes its meaning; a tag may. */
export const isPinned = (image: string) => image.includes('@') || /^sha256:[0-9a-f]{64}$/.test(image)
const isFloating = (image: string) => !isPinned(image) && (/:latest$/.test(image) || !/:[^:/]*$/.test(image))

/** An emptyDir lives as long as its replica, a claim as long as its deployment. */
function volumeOf(
  volume: NonNullable<Resources['volumes']>[number],
  spec: RevisionSpec,
  { owner, copy }: Placement,
): CreateRequest {
  const shared = deploymentLabels(owner, spec.deployment_id)
  const claim = volume.persistentVolumeClaim?.claimName
  const name =
    claim === undefined
      ? `slipway-${spec.name}-${copy}-${volume.name}`
      : `${resourcePrefix(owner, spec.deployment_id)}-${claim}`
  const Labels = claim === undefined ? { ...shared, [REVISION_LABEL]: spec.revision_id, [REPLICA_LABEL]: copy } : shared
  return { name, body: { Name: name, Driver: 'local', Labels } }
}

export const hostConfigOf = (mode: string) => ({
  NetworkMode: mode,
  RestartPolicy: { Name: 'no' },
  SecurityOpt: ['no-new-privileges'],
  PidsLimit: MAX_PROCESSES,
  LogConfig: LOG_CONFIG,
})

/** Without limits of its own, or with some that an engine takes for none, a container has those of the application. */
function containerLimits({ resources }: Container, { cpu_limit, memory_limit_mb }: Resources) {
  const { requests, limits } = resources ?? {}
  const read = (quantity: unknown, parse: (quantity: unknown) => number) =>
    quantity == null ? undefined : parse(quantity)
  const cpuLimit = read(limits?.cpu ?? requests?.cpu, parseCpu) ?? 0
  return resourceLimits(
    read(requests?.cpu, parseCpu),
    cpuLimit < MIN_CPU ? cpu_limit : cpuLimit,
    read(requests?.memory, parseMemory),
    read(limits?.memory ?? requests?.memory, parseMemory) || memory_limit_mb * MIB,
  )
}
/** Kubernetes knows no smaller part of a CPU. */
const MIN_CPU = 0.001

/** Requests are shares under contention, limits always hold. No swap. */
export const resourceLimits = (cpu?: number, cpuLimit?: number, memory?: number, memoryLimit?: number) => ({
  ...(cpu !== undefined && { CpuShares: Math.max(2, Math.round((toMillicores(cpu) * 1024) / 1000)) }),
  ...(cpuLimit !== undefined && limitCpu(toMillicores(cpuLimit))),
  ...(memory !== undefined && { MemoryReservation: memory }),
  ...(memoryLimit !== undefined && { Memory: memoryLimit, MemorySwap: memoryLimit }),
})

/** Linux has no quota below a millisecond. In the usual period of 100 ms, that is a hundredth of a core. */
const limitCpu = (millicores: number) =>
  millicores < 10 ? { CpuPeriod: 1_000_000, CpuQuota: millicores * 1000 } : { NanoCpus: millicores * 1e6 }

function userOf({ securityContext }: Container) {
  const { runAsUser, runAsGroup } = securityContext ?? {}
  return runAsUser == null ? {} : { User: runAsGroup == null ? `${runAsUser}` : `${runAsUser}:${runAsGroup}` }
}

type SecretRef = { name?: string; key?: string }
function environmentOf({ env, envFrom }: Container, { secret, secrets }: Placement): Record<string, string> {
  const all: Record<string, string> = {}
  for (const { prefix = '', secretRef } of (envFrom ?? []) as { prefix?: string; secretRef?: SecretRef }[])
    for (const [name, value] of Object.entries(secrets(secretRef?.name ?? ''))) all[prefix + name] = value
  for (const { name, value, valueFrom } of env ?? []) {
    const ref = valueFrom?.secretKeyRef as SecretRef | undefined
    all[name] = ref ? secret(ref.name ?? '', ref.key ?? '') : (value ?? '')
  }
  return all
}

const envLines = (env: Record<string, string>) => Object.entries(env).map(([name, value]) => `${name}=${value}`)
