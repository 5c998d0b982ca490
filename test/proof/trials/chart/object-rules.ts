// Rules for every object that the chart renders, with any values.
import type {
  KubernetesObject,
  V1Container,
  V1Deployment,
  V1Job,
  V1NetworkPolicy,
  V1Pod,
  V1PodTemplateSpec,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node'

type Labels = Record<string, string>
type Pods = { owner: KubernetesObject; template: V1PodTemplateSpec }

const LABELS = ['name', 'instance', 'component', 'version', 'managed-by', 'part-of'].map(
  name => `app.kubernetes.io/${name}`,
)
const VOLUMES = ['emptyDir', 'configMap', 'secret', 'persistentVolumeClaim', 'projected', 'downwardAPI', 'csi']
const LONGEST_NAME = 63

/** `values` are those of the operator: what they name exists already. */
export function findFaults(objects: KubernetesObject[], values: object): string[] {
  const pods = objects.flatMap(toPods)
  return [
    ...objects.flatMap(object => nameFaults(object).concat(labelFaults(object)).map(at(object))),
    ...pods.flatMap(each => podFaults(each).map(at(each.owner))),
    ...pods.flatMap(each => referenceFaults(each, objects, JSON.stringify(values)).map(at(each.owner))),
    ...pods.flatMap(each => secretFaults(each).map(at(each.owner))),
    ...objects.flatMap(object => selectorFaults(object, pods).map(at(object))),
    ...duplicates(objects.map(({ kind, metadata }) => `${kind} ${metadata!.namespace ?? ''}/${metadata!.name}`)),
  ]
}

const at =
  ({ kind, metadata }: KubernetesObject) =>
  (fault: string) =>
    `${kind} ${metadata!.name}: ${fault}`
const duplicates = (names: string[]) =>
  names.filter((name, i) => names.indexOf(name) !== i).map(name => `${name} is there twice`)

function toPods(owner: KubernetesObject): Pods[] {
  if (owner.kind === 'Pod') return [{ owner, template: owner as V1Pod as V1PodTemplateSpec }]
  const template = (owner as V1Deployment).spec?.template
  return template?.spec ? [{ owner, template }] : []
}

const nameFaults = ({ metadata }: KubernetesObject): string[] =>
  metadata!.name!.length > LONGEST_NAME ? [`its name has ${metadata!.name!.length} characters`] : []

function labelFaults({ metadata }: KubernetesObject): string[] {
  const labels = metadata!.labels ?? {}
  return [...LABELS, 'helm.sh/chart'].filter(name => !labels[name]).map(name => `it lacks the label ${name}`)
}

/** The profile `restricted`, and a root that is read-only. */
function podFaults({ owner, template: { spec } }: Pods): string[] {
  const pod = spec!
  const containers = [...(pod.initContainers ?? []), ...pod.containers]
  const claims = (owner as V1StatefulSet).spec?.volumeClaimTemplates ?? []
  const volumeNames = [...(pod.volumes ?? []), ...claims.map(({ metadata }) => metadata!)].map(({ name }) => name!)
  const isAgent = owner.metadata!.labels!['app.kubernetes.io/component'] === 'agent'
  return [
    ...(pod.securityContext?.runAsNonRoot ? [] : ['it may run as root']),
    ...(pod.securityContext?.seccompProfile?.type === 'RuntimeDefault' ? [] : ['it has no seccomp profile']),
    ...(pod.hostNetwork || pod.hostPID || pod.hostIPC ? ['it uses namespaces of the host'] : []),
    ...(pod.automountServiceAccountToken === isAgent ? [] : ['it has a token of its service account, or lacks one']),
    ...(pod.enableServiceLinks === false ? [] : ['it gets variables of every Service']),
    ...(pod.volumes ?? [])
      .filter(volume => !VOLUMES.some(kind => kind in volume))
      .map(({ name }) => `the volume ${name} is not allowed`),
    ...containers.flatMap(container => containerFaults(container).map(fault => `${container.name}: ${fault}`)),
    ...duplicates(volumeNames.map(name => `volume ${name}`)),
    ...containers.flatMap(({ volumeMounts = [] }) =>
      volumeMounts
        .filter(({ name }) => !volumeNames.includes(name))
        .map(({ name }) => `it mounts ${name}, which is no volume`),
    ),
  ]
}

function containerFaults({ image, securityContext: security, resources, env = [], command }: V1Container): string[] {
  const isPinned = /(:[^:/]+|@sha256:[0-9a-f]{64})$/.test(image ?? '') && !image!.endsWith(':latest')
  return [
    ...(isPinned ? [] : [`the image ${image} is not one version`]),
    ...(security?.allowPrivilegeEscalation === false ? [] : ['it may get more privileges']),
    ...(security?.readOnlyRootFilesystem ? [] : ['its root is writable']),
    ...(security?.capabilities?.drop?.includes('ALL') && !security.capabilities.add ? [] : ['it has capabilities']),
    ...(security?.privileged ? ['it is privileged'] : []),
    ...['cpu', 'memory'].filter(name => !resources?.requests?.[name]).map(name => `it requests no ${name}`),
    ...(resources?.limits?.memory ? [] : ['its memory has no limit']),
    ...duplicates(env.map(({ name }) => name)),
    // The agent's image has a program of its own before Node, which reaps processes.
    ...(command && command[0] !== '/usr/local/bin/node' ? [`it runs ${command[0]}`] : []),
  ]
}

/** Hooks run before the other objects exist, so they use only hooks of a lower weight. */
function referenceFaults({ owner, template: { spec } }: Pods, objects: KubernetesObject[], values: string): string[] {
  const hook = owner.metadata!.annotations?.['helm.sh/hook']
  const weightOf = ({ metadata }: KubernetesObject) => Number(metadata!.annotations?.['helm.sh/hook-weight'] ?? 0)
  const isThere = (object: KubernetesObject) =>
    hook?.startsWith('pre-')
      ? object.metadata!.annotations?.['helm.sh/hook'] === hook && weightOf(object) < weightOf(owner)
      : !object.metadata!.annotations?.['helm.sh/hook']
  const check = (kind: string, name: string | undefined): string[] =>
    name === undefined ||
    name === 'default' ||
    values.includes(JSON.stringify(name)) ||
    objects.some(object => object.kind === kind && object.metadata!.name === name && isThere(object))
      ? []
      : [`the ${kind} ${name} is not there`]
  const containers = [...(spec!.initContainers ?? []), ...spec!.containers]
  const keyFaults = (kind: 'Secret' | 'ConfigMap', name: string | undefined, key: string): string[] => {
    const object = objects.find(object => object.kind === kind && object.metadata!.name === name && isThere(object))
    if (!object) return check(kind, name)
    const entries = (object as { stringData?: Labels }).stringData ?? (object as { data?: Labels }).data ?? {}
    return key in entries ? [] : [`the ${kind} ${name} has no ${key}`]
  }
  return [
    ...check('ServiceAccount', spec!.serviceAccountName),
    ...(spec!.imagePullSecrets ?? []).flatMap(({ name }) => check('Secret', name)),
    ...(spec!.volumes ?? []).flatMap(volume => [
      ...check('Secret', volume.secret?.secretName),
      ...check('ConfigMap', volume.configMap?.name),
      ...check('PersistentVolumeClaim', volume.persistentVolumeClaim?.claimName),
    ]),
    ...containers.flatMap(({ envFrom = [], env = [] }) => [
      ...envFrom.flatMap(({ configMapRef, secretRef }) => [
        ...check('ConfigMap', configMapRef?.name),
        ...check('Secret', secretRef?.name),
      ]),
      ...env.flatMap(({ valueFrom }) =>
        valueFrom?.secretKeyRef ? keyFaults('Secret', valueFrom.secretKeyRef.name, valueFrom.secretKeyRef.key) : [],
      ),
    ]),
  ]
}

/** Each program gets only the secrets that it needs. */
const SECRETS_OF: Record<string, RegExp> = {
  api: /^(?!DATABASE_OWNER_URL|SLIPWAY_LISTENER_KEY)/,
  migration: /^(DATABASE_(OWNER_|SYSTEM_)?URL|TRACES_CLICKHOUSE_URL)$/,
  agent: /^(SLIPWAY_LISTENER_KEY|METRICS_TOKEN)$/,
  postgres: /^POSTGRES_PASSWORD$/,
  test: /^$/,
}
function secretFaults({ owner, template: { spec } }: Pods): string[] {
  const component = owner.metadata!.labels!['app.kubernetes.io/component']!
  return [...(spec!.initContainers ?? []), ...spec!.containers]
    .flatMap(({ env = [] }) => env)
    .filter(({ name, valueFrom }) => valueFrom?.secretKeyRef && !SECRETS_OF[component]!.test(name))
    .map(({ name }) => `it gets ${name}`)
}

/** A selector that selects no pods of the chart, or one that changes with the version. */
function selectorFaults(object: KubernetesObject, pods: Pods[]): string[] {
  const selector = selectorOf(object)
  if (!selector) return []
  const matches = (labels: Labels | undefined) =>
    Object.entries(selector).every(([name, value]) => labels?.[name] === value)
  const selected = pods.filter(({ template }) => matches(template.metadata?.labels))
  return [
    ...(selected.length === 0 ? ['it selects no pods'] : []),
    ...('app.kubernetes.io/version' in selector || 'helm.sh/chart' in selector ? ['it selects one version'] : []),
    ...(['Deployment', 'StatefulSet', 'Service'].includes(object.kind!) && selected.length > 1
      ? ['it selects pods of several parts']
      : []),
  ]
}
function selectorOf(object: KubernetesObject): Labels | undefined {
  switch (object.kind) {
    case 'Service':
      return (object as V1Service).spec?.selector
    case 'NetworkPolicy':
      return (object as V1NetworkPolicy).spec?.podSelector?.matchLabels
    case 'Deployment':
    case 'StatefulSet':
    case 'PodDisruptionBudget':
      return (object as V1Deployment | V1Job).spec?.selector?.matchLabels
    default:
      return undefined
  }
}
