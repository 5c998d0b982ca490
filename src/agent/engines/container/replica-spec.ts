// From what is wanted of a revision to what the engine is asked to create. Pure.
import {
  deploymentLabels,
  type Labels,
  PART_LABEL,
  REPLICA_LABEL,
  REVISION_LABEL,
  ROLE_LABEL,
  resourcePrefix,
  SIDECARS_LABEL,
} from '../../images/container-labels.ts'
import { type CreateRequest, MAX_PROCESSES } from '../../images/docker-api.ts'
import type { Artifact, RevisionSpec } from '../engine.ts'
import { shellCommand } from '../local/shell-command.ts'
import { MIB, parseCpu, parseMemory } from '../quantities.ts'

type Resources = RevisionSpec['resources']
type Container = NonNullable<Resources['sidecars']>[number]
type Mount = NonNullable<Resources['volume_mounts']>[number]
/** Everything that one copy of an application is made of. */
export type ReplicaParts = {
  copy: string
  volumes: CreateRequest[]
  /** One after the other, each to its end. */
  inits: CreateRequest[]
  app: CreateRequest
  /** In the app's network, beside it. Their bodies name its container, so they come to be once it is there. */
  sidecars: CreateRequest[]
  port: number
}
export type Placement = {
  /** Whose containers these are, among all that the engine has. */
  owner: string
  copy: string
  port: number
  /** The images of init containers and sidecars, as they were pinned. */
  images: Record<string, string>
  /** What references to secrets come to. */
  secret: (name: string, key: string) => string
  secrets: (name: string) => Record<string, string>
  /** What it is given by the engine: variables, and names with their addresses. */
  given?: { env: Record<string, string>; hosts: string[] }
}

/** Where an application listens, unless its image says otherwise. */
export const DEFAULT_PORT = 8000
const LOG_CONFIG = { Type: 'json-file', Config: { 'max-size': '10m' } }

export function replicaParts(unit: RevisionSpec, artifact: Artifact, place: Placement): ReplicaParts {
  const { owner, copy, port } = place
  const { resources, deployment_id, revision_id, name } = unit
  const shared = deploymentLabels(owner, deployment_id)
  const labels = (role: string, part: string): Labels => ({
    ...{
      ...resources.labels,
      ...shared,
      [REVISION_LABEL]: revision_id,
      [REPLICA_LABEL]: copy,
      [ROLE_LABEL]: role,
      [PART_LABEL]: part,
    },
  })
  const network = resourcePrefix(owner, deployment_id)
  const hosts = place.given?.hosts.length ? { ExtraHosts: place.given.hosts } : {}
  const volumes = Object.fromEntries(
    (resources.volumes ?? []).map(volume => [volume.name, volumeOf(volume, unit, place)]),
  )
  const mounted = (mounts: Mount[] = []) =>
    mounts.map(({ name, mountPath, readOnly }) => ({
      ...{ Type: 'volume', Source: volumes[name]!.name, Target: mountPath, ReadOnly: readOnly ?? false },
    }))
  const beside = (container: Container, role: string, mode: string): CreateRequest => ({
    name: `slipway-${name}-${copy}-${container.name}`,
    body: {
      Image: place.images[container.image] ?? container.image,
      Env: envLines(environmentOf(container, place)),
      ...(container.command && { Entrypoint: container.command }),
      ...(container.args && { Cmd: container.args }),
      ...(container.workingDir && { WorkingDir: container.workingDir }),
      ...userOf(container),
      Labels: labels(role, container.name),
      HostConfig: {
        ...hostConfigOf(mode),
        // Those in the network of another one have its names.
        ...(mode === network && hosts),
        ...containerLimits(container),
        ReadonlyRootfs: container.securityContext?.readOnlyRootFilesystem === true,
        Mounts: mounted(container.volumeMounts ?? []),
      },
    },
  })

  const sidecars = sidecarsOf(resources)
  const app = `slipway-${name}-${copy}`
  return {
    copy,
    port,
    volumes: Object.values(volumes),
    inits: initsOf(resources).map(container => beside(container, 'init', network)),
    app: {
      name: app,
      body: {
        Image: artifact.location,
        ...(artifact.start_command && { Entrypoint: shellCommand(artifact.start_command), Cmd: [] }),
        Env: envLines({
          ...artifact.env,
          ...unit.secrets,
          ...Object.fromEntries(
            unit.secret_references.map(({ name, secret_name, secret_key }) => [
              name,
              place.secret(secret_name, secret_key),
            ]),
          ),
          ...place.given?.env,
          PORT: String(port),
          SLIPWAY_DEPLOYMENT_ID: deployment_id,
          SLIPWAY_DEPLOYMENT_NAME: name,
          SLIPWAY_REVISION_ID: revision_id,
        }),
        Labels: {
          ...labels('app', ''),
          [SIDECARS_LABEL]: sidecars.map(sidecar => sidecar.name).join(),
        },
        ExposedPorts: { [`${port}/tcp`]: {} },
        HostConfig: {
          ...hostConfigOf(network),
          ...hosts,
          ...resourceLimits(
            resources.cpu,
            resources.cpu_limit,
            resources.memory_mb * MIB,
            resources.memory_limit_mb * MIB,
          ),
          PortBindings: { [`${port}/tcp`]: [{ HostIp: '127.0.0.1', HostPort: '' }] },
          Mounts: mounted(resources.volume_mounts ?? []),
        },
      },
    },
    sidecars: sidecars.map(container => beside(container, 'sidecar', `container:${app}`)),
  }
}

/** An init container that never ends is a sidecar, as Kubernetes has it. */
const isSidecar = ({ restartPolicy }: Container) => restartPolicy === 'Always'
const initsOf = ({ init_containers }: Resources) => (init_containers ?? []).filter(container => !isSidecar(container))
const sidecarsOf = ({ init_containers, sidecars }: Resources) => [
  ...(init_containers ?? []).filter(isSidecar),
  ...(sidecars ?? []),
]

/** The images that it takes besides its own, and whether each is asked for anew. */
export const sidecarImagesOf = ({ init_containers, sidecars }: Resources): { image: string; fresh: boolean }[] =>
  [...(init_containers ?? []), ...(sidecars ?? [])].map(({ image, imagePullPolicy }) => ({
    image,
    fresh: imagePullPolicy ? imagePullPolicy === 'Always' : isFloating(image),
  }))

/** A digest, or the id of an image that was built here, says which it is; a tag may mean another one tomorrow. */
export const isPinned = (image: string) => image.includes('@') || /^sha256:[0-9a-f]{64}$/.test(image)
const isFloating = (image: string) => !isPinned(image) && (/:latest$/.test(image) || !/:[^:/]*$/.test(image))

/** An empty directory lives as long as its copy; a claim as long as its deployment. */
function volumeOf(
  volume: NonNullable<Resources['volumes']>[number],
  unit: RevisionSpec,
  { owner, copy }: Placement,
): CreateRequest {
  const shared = deploymentLabels(owner, unit.deployment_id)
  const claim = volume.persistentVolumeClaim?.claimName
  const name =
    claim === undefined
      ? `slipway-${unit.name}-${copy}-${volume.name}`
      : `${resourcePrefix(owner, unit.deployment_id)}-${claim}`
  const Labels = claim === undefined ? { ...shared, [REVISION_LABEL]: unit.revision_id, [REPLICA_LABEL]: copy } : shared
  return { name, body: { Name: name, Driver: 'local', Labels } }
}

export const hostConfigOf = (mode: string) => ({
  NetworkMode: mode,
  RestartPolicy: { Name: 'no' },
  SecurityOpt: ['no-new-privileges'],
  PidsLimit: MAX_PROCESSES,
  LogConfig: LOG_CONFIG,
})

function containerLimits({ resources }: Container) {
  const { requests, limits: most } = resources ?? {}
  const [cpu, memory] = [most?.cpu ?? requests?.cpu, most?.memory ?? requests?.memory]
  return resourceLimits(
    ...([requests?.cpu, cpu].map(value => (value === undefined ? undefined : parseCpu(value))) as Pair),
    ...([requests?.memory, memory].map(value => (value === undefined ? undefined : parseMemory(value))) as Pair),
  )
}
type Pair = [number | undefined, number | undefined]

/** What was asked for is its share when there is too little; the limit holds always. Memory is not swapped. */
export const resourceLimits = (cpu?: number, cpuLimit?: number, memory?: number, memoryLimit?: number) => ({
  ...(cpu !== undefined && { CpuShares: Math.max(2, Math.round(cpu * 1024)) }),
  ...(cpuLimit !== undefined && { NanoCpus: Math.round(cpuLimit * 1e9) }),
  ...(memory !== undefined && { MemoryReservation: memory }),
  ...(memoryLimit !== undefined && { Memory: memoryLimit, MemorySwap: memoryLimit }),
})

function userOf({ securityContext }: Container) {
  const { runAsUser, runAsGroup } = securityContext ?? {}
  return runAsUser === undefined
    ? {}
    : { User: runAsGroup === undefined ? `${runAsUser}` : `${runAsUser}:${runAsGroup}` }
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
