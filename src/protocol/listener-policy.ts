// Finds what a deployment asks for that the operator of its listener has to allow. Pure: the control plane refuses the
// rest when it is planned, and the agent refuses it again.
import * as z from 'zod'
import { Claim } from './disks.ts'
import { enginesWith, type FeatureName, featureNames, listFeatureNeeds } from './engine-features.ts'
import type { Container, Volume, VolumeMount } from './kubernetes.schema.ts'
import type { Source } from './parts.schema.ts'
import type { Protection } from './protection.schema.ts'
import type { RequestLogs } from './request-logs.schema.ts'
import type { ResourceSpec } from './resources.schema.ts'
import type { NewRollout } from './rollout.schema.ts'
import { isSshUrl } from './ssh-url.ts'
import { MAX_INT32 } from './sync-fields.schema.ts'
import type { NewTraffic } from './traffic.schema.ts'
import { arrayOf, boundedText } from './wire.ts'

const MAX_ACCOUNTS = 100
const MAX_FEATURES = 100

/** Parts of terminals and forwarded ports that an agent may offer. */
const tunnelFeatures = ['terminal', 'tty', 'forward', 'postgres', 'redis', 'snapshots'] as const
export type TunnelFeature = (typeof tunnelFeatures)[number]

export const ListenerPolicy = z
  .object({
    privileged: z.boolean().meta({
      description: 'Security contexts, volumes, labels and annotations may open what is closed by default.',
    }),
    service_accounts: arrayOf(boundedText(253).min(1), MAX_ACCOUNTS).meta({
      description: 'The service accounts that a deployment may name.',
    }),
    max_copies: z
      .int()
      .min(1)
      .max(MAX_INT32)
      .nullish()
      .meta({
        description:
          'The most copies of a deployment that may be required (`min_scale`, `process_scale` and `process_scaling` ' +
          'together). Null for no limit.',
      }),
    max_disk_gi: z.int().min(1).max(MAX_INT32).nullish().meta({
      description: 'The largest disk that a deployment may ask for (`storage_gi`). Null for no limit.',
    }),
    engine: boundedText(64).nullish().meta({ description: 'The engine that runs the applications.' }),
    features: arrayOf(boundedText(64), MAX_FEATURES)
      .nullish()
      .meta({
        description:
          'What the engine does of what a deployment can ask for; the rest is refused when it is planned. Null: not ' +
          `told, so only the agent refuses. Known are ${featureNames.map(name => `\`${name}\``).join(', ')}.`,
      }),
    jobs: z
      .boolean()
      .nullish()
      .meta({ description: 'The agent runs jobs and reports them. Without it, they are refused.' }),
    job_processes: z.boolean().nullish().meta({
      description: 'It runs jobs in the environment and with the resources of a process. Without it, they are refused.',
    }),
    tunnels: arrayOf(z.enum(tunnelFeatures), tunnelFeatures.length).nullish().meta({
      description: 'What it offers of terminals and forwarded ports. Without it, nothing.',
    }),
  })
  .meta({ id: 'ListenerPolicy', description: 'What the operator of an agent allows deployments to ask for.' })
export type ListenerPolicy = z.output<typeof ListenerPolicy>

export const CLOSED_POLICY: ListenerPolicy = { privileged: false, service_accounts: [] }

/** A member of the resources that not every policy allows. */
export type PolicyNeed =
  | { path: string; needs: 'privileged' }
  | { path: string; needs: 'service_account'; value: string }
  | { path: string; needs: 'copies' | 'disk_size'; value: number }
  /** `hint`: the engines that can. */
  | { path: string; needs: 'feature'; value: FeatureName; hint: string }
  /** An agent that does not say that it has it would serve the deployment without it. */
  | { path: string; needs: 'told_feature'; value: FeatureName; hint: string }

const ROOT = 'resource_spec'

export function listPolicyNeeds(spec: ResourceSpec): PolicyNeed[] {
  const { service_account_name: account, min_scale: copies, process_scale, process_scaling } = spec
  const needs: PolicyNeed[] = listPrivileges(spec).map(path => ({ path, needs: 'privileged' }))
  if (account != null) needs.push({ path: `${ROOT}.service_account_name`, needs: 'service_account', value: account })
  if (copies != null) needs.push({ path: `${ROOT}.min_scale`, needs: 'copies', value: copies })
  // The limit is that of all together.
  let value = copies ?? 1
  for (const [name, scale] of Object.entries(process_scale ?? {})) {
    // A later patch may have sent the one that acts.
    if (Object.hasOwn(process_scaling ?? {}, name)) continue
    value += scale
    needs.push({ path: `${ROOT}.process_scale.${name}`, needs: 'copies', value })
  }
  for (const [name, { min_scale }] of Object.entries(process_scaling ?? {})) {
    value += min_scale
    needs.push({ path: `${ROOT}.process_scaling.${name}`, needs: 'copies', value })
  }
  for (const [i, { persistentVolumeClaim }] of (spec.volumes ?? []).entries()) {
    const size = Claim.shape.storage_gi.safeParse(persistentVolumeClaim?.storage_gi).data
    if (size != null)
      needs.push({ path: `${ROOT}.volumes.${i}.persistentVolumeClaim.storage_gi`, needs: 'disk_size', value: size })
  }
  return needs
}

/** The privileges that the listener must allow, and the features that its engine must have. */
export const listListenerNeeds = (spec: ResourceSpec, source?: Source | null): PolicyNeed[] => [
  ...listPolicyNeeds(spec),
  ...listFeatureNeeds(spec, source).map(({ path, feature }) => ({
    path,
    needs: 'feature' as const,
    value: feature,
    hint: `needs the ${enginesWith(feature)}`,
  })),
]

export const listProtectionNeeds = (path: string, protection: Protection | null | undefined): PolicyNeed[] =>
  protection?.mode === 'members'
    ? [
        {
          path: `${path}.mode`,
          needs: 'told_feature',
          value: 'protection',
          hint: `needs the ${enginesWith('protection')}`,
        },
      ]
    : []

/** `off` needs nothing. */
export const listRequestLogNeeds = ({ mode }: RequestLogs): PolicyNeed[] =>
  mode === 'off'
    ? []
    : [{ path: 'mode', needs: 'told_feature', value: 'request_logs', hint: `needs the ${enginesWith('request_logs')}` }]

/** Only an agent that splits traffic gets work to split. */
function splitNeed(path: string, value: 'traffic' | 'traffic_router' | 'rollout' | 'rollout_gates'): PolicyNeed {
  const where = value === 'traffic' || value === 'rollout' ? ', Kubernetes with K8S_ROUTES=gateway' : ''
  return { path, needs: 'told_feature', value, hint: `needs the ${enginesWith(value)}${where}` }
}

export const listTrafficNeeds = ({ shares, starts_at, sticky }: NewTraffic): PolicyNeed[] => [
  ...(shares.length > 0 || starts_at < 100 ? [splitNeed('shares', 'traffic')] : []),
  ...(sticky ? [splitNeed('sticky', 'traffic_router')] : []),
  ...shares.flatMap(({ name }, i) => (name == null ? [] : [splitNeed(`shares.${i}.name`, 'traffic_router')])),
]

/** A gateway of a cluster tells no requests, so nothing of it can be judged by them. */
export const listRolloutNeeds = ({ steps, gates }: NewRollout): PolicyNeed[] => [
  splitNeed('steps', 'rollout'),
  ...steps.flatMap(({ requests }, i) => (requests > 0 ? [splitNeed(`steps.${i}.requests`, 'rollout_gates')] : [])),
  ...(['errors', 'latency', 'restarts'] as const).flatMap(name =>
    gates[name] === null ? [] : [splitNeed(`gates.${name}`, 'rollout_gates')],
  ),
]

export const listRepositoryNeeds = (repo_url: string | null | undefined): PolicyNeed[] =>
  repo_url != null && isSshUrl(repo_url)
    ? [
        {
          path: 'source_config.repo_url',
          needs: 'told_feature',
          value: 'git_ssh',
          hint: 'a URL by SSH needs an agent whose machine has the program ssh',
        },
      ]
    : []

/** For previews whose database is a copy. `path`: of its mode. */
export const listCopyNeeds = (path: string): PolicyNeed[] => [
  { path, needs: 'told_feature', value: 'database_copies', hint: `needs the ${enginesWith('database_copies')}` },
]

/** require_listener_allows() of the database decides the same. */
export function isAllowed(
  need: PolicyNeed,
  { privileged, service_accounts, max_copies, max_disk_gi, features }: ListenerPolicy,
): boolean {
  if (need.needs === 'privileged') return privileged
  if (need.needs === 'service_account') return service_accounts.includes(need.value)
  if (need.needs === 'told_feature') return features?.includes(need.value) === true
  if (need.needs === 'feature') return features?.includes(need.value) ?? true
  return need.value <= ((need.needs === 'copies' ? max_copies : max_disk_gi) ?? Number.POSITIVE_INFINITY)
}

type Remedies = Record<Exclude<PolicyNeed['needs'], 'feature' | 'told_feature' | 'disk_size'>, string>
/** Lists in sentences for the user what the policy does not allow; null if it allows everything. */
export function describeRefusal(spec: ResourceSpec, policy: ListenerPolicy, remedies: Remedies): string | null {
  const refused = listPolicyNeeds(spec).filter(need => !isAllowed(need, policy))
  const sentences = (['privileged', 'service_account', 'copies'] as const).flatMap(needs => {
    const paths = refused.filter(need => need.needs === needs).map(({ path }) => `\`${path}\``)
    return paths.length === 0 ? [] : [`${REFUSALS[needs]}: ${paths.join(', ')}. ${remedies[needs]}`]
  })
  const disks = refused.filter(need => need.needs === 'disk_size').map(({ path }) => `\`${path}\``)
  if (disks.length > 0)
    sentences.push(
      `The agent has no disk of this size: ${disks.join(', ')}. Ask for at most ${policy.max_disk_gi}, or the ` +
        'operator to raise AGENT_MAX_DISK_GI.',
    )
  return sentences.length === 0 ? null : sentences.join(' ')
}
const REFUSALS: Remedies = {
  privileged: 'This asks for more than the agent gives every container',
  service_account: 'The agent does not allow this service account',
  copies: 'The agent does not run so many copies',
}

const listPrivileges = (spec: ResourceSpec): string[] => [
  ...listPlatformKeys(`${ROOT}.labels`, spec.labels),
  ...listPlatformKeys(`${ROOT}.annotations`, spec.annotations),
  ...(spec.volumes ?? []).flatMap((volume, i) =>
    listOpenVolumeKinds(volume, spec.service_account_name != null).map(kind => `${ROOT}.volumes.${i}.${kind}`),
  ),
  ...listPropagatedMounts(`${ROOT}.volume_mounts`, spec.volume_mounts),
  ...listOpenContainers(`${ROOT}.init_containers`, spec.init_containers),
  ...listOpenContainers(`${ROOT}.sidecars`, spec.sidecars),
]

/**
 * Programs of the platform obey labels and annotations below these domains: ingress controllers, runtimes, networks,
 * clouds, meshes, and what copies Secrets between namespaces.
 */
const PLATFORM_DOMAINS = [
  'kubernetes.io',
  'k8s.io',
  'x-k8s.io',
  'openshift.io',
  'cncf.io',
  'crio.io',
  'cert-manager.io',
  'nvidia.com',
  'istio.io',
  'linkerd.io',
  'kuma.io',
  'hashicorp.com',
  'banzaicloud.io',
  'dapr.io',
  'keda.sh',
  'cilium.io',
  'projectcalico.org',
  'metallb.io',
  'universe.tf',
  'tailscale.com',
  'haproxy.org',
  'haproxy-ingress.github.io',
  'konghq.com',
  'nginx.org',
  'nginx.com',
  'traefik.io',
  'projectcontour.io',
  'getambassador.io',
  'mittwald.de',
  'emberstack.com',
  'datadoghq.com',
  'amazonaws.com',
  'gke.io',
  'google.com',
  'azure.com',
  'azure.workload.identity',
  'alibabacloud.com',
  'oraclecloud.com',
  'vmware.com',
]
/** Names, and hints for the cluster's autoscaler about the deployment's own pods. */
const HARMLESS_DOMAINS = new Set(['app.kubernetes.io', 'cluster-autoscaler.kubernetes.io', 'tags.datadoghq.com'])
/** Runtimes obey these: a domain in reverse, most without a slash. */
const RUNTIME_KEY = /^(io\.(kubernetes|katacontainers|containerd|containers)|dev\.gvisor|run\.oci|com\.docker)\./
/** Proxies and schedulers beside a container engine read these labels of every container. */
const ENGINE_KEY = /^(traefik|caddy(_\d+)?|ofelia|com\.centurylinklabs)(\.|$)/

function isPlatformKey(key: string): boolean {
  const domain = key.slice(0, Math.max(0, key.indexOf('/')))
  if (HARMLESS_DOMAINS.has(domain)) return false
  if (RUNTIME_KEY.test(key) || ENGINE_KEY.test(key)) return true
  return PLATFORM_DOMAINS.some(platform => domain === platform || domain.endsWith(`.${platform}`))
}

const listPlatformKeys = (path: string, keys: Record<string, unknown> | null | undefined): string[] =>
  Object.keys(keys ?? {})
    .filter(isPlatformKey)
    .map(key => `${path}.${key}`)

type Fields = Record<string, unknown>
const presentEntries = (object: Fields) => Object.entries(object).filter(([, value]) => value != null)

const NAMESPACED_VOLUMES = new Set([
  'configMap',
  'secret',
  'emptyDir',
  'persistentVolumeClaim',
  'downwardAPI',
  'projected',
])
const NAMESPACED_PROJECTIONS = new Set(['configMap', 'secret', 'downwardAPI'])

function listOpenVolumeKinds({ name: _, ...kinds }: z.output<typeof Volume>, hasAccount: boolean): string[] {
  const open = presentEntries(kinds).filter(([kind]) => !NAMESPACED_VOLUMES.has(kind))
  const sources = kinds.projected?.sources
  const openSources = (Array.isArray(sources) ? sources : []).flatMap((source: Fields | null, i) =>
    presentEntries(source ?? {})
      // A deployment with an account has its token anyway.
      .filter(([kind]) => !NAMESPACED_PROJECTIONS.has(kind) && !(hasAccount && kind === 'serviceAccountToken'))
      .map(([kind]) => `projected.sources.${i}.${kind}`),
  )
  return [...open.map(([kind]) => kind), ...openSources]
}

const listPropagatedMounts = (path: string, mounts: z.output<typeof VolumeMount>[] | null | undefined) =>
  (mounts ?? []).flatMap(({ mountPropagation }, i) =>
    mountPropagation === 'Bidirectional' ? [`${path}.${i}.mountPropagation`] : [],
  )

const listOpenContainers = (path: string, containers: z.output<typeof Container>[] | null | undefined): string[] =>
  (containers ?? []).flatMap(({ volumeMounts, securityContext }, i) => [
    ...listPropagatedMounts(`${path}.${i}.volumeMounts`, volumeMounts),
    ...presentEntries(securityContext ?? {})
      .filter(([member, value]) => !isNarrowing(member, value))
      .map(([member]) => `${path}.${i}.securityContext.${member}`),
  ])

const isInteger = (value: unknown, least: number) => Number.isSafeInteger(value) && (value as number) >= least
const isRuntimeDefault = (value: unknown) =>
  presentEntries(value as Fields).every(([member, type]) => member === 'type' && type === 'RuntimeDefault')
const onlyDrops = (value: unknown) =>
  presentEntries(value as Fields).every(
    ([member, names]) => Array.isArray(names) && (member === 'drop' || (member === 'add' && names.length === 0)),
  )

/** The members of a security context that open nothing. */
export const narrowingMembers = (context: Fields): Fields =>
  Object.fromEntries(presentEntries(context).filter(([member, value]) => isNarrowing(member, value)))

const isNarrowing = (member: string, value: unknown) => Object.hasOwn(NARROWING, member) && NARROWING[member]!(value)

/** Members of a security context, with a check for values that open nothing. Other members count as opening. */
const NARROWING: Record<string, (value: unknown) => boolean> = {
  privileged: value => value === false,
  allowPrivilegeEscalation: value => value === false,
  readOnlyRootFilesystem: value => typeof value === 'boolean',
  runAsNonRoot: value => value === true,
  runAsUser: value => isInteger(value, 1),
  runAsGroup: value => isInteger(value, 0),
  procMount: value => value === 'Default',
  capabilities: onlyDrops,
  seccompProfile: isRuntimeDefault,
  appArmorProfile: isRuntimeDefault,
}
