// The names, labels and annotations of objects in a cluster. Labels alone are enough to find them again. Pure.
import { createHash } from 'node:crypto'
import type { V1ObjectMeta } from '@kubernetes/client-node'
import type { RevisionSpec } from '../../engine.ts'
import type { KubernetesSettings } from './settings.ts'

export const MANAGER = 'slipway'
export const MANAGED_BY_LABEL = 'app.kubernetes.io/managed-by'
export const OWNER_LABEL = 'slipway/owner'
export const DEPLOYMENT_LABEL = 'slipway/deployment-id'
/** The name that the names of all objects of a deployment begin with. */
export const INSTANCE_LABEL = 'app.kubernetes.io/instance'
export const TENANT_LABEL = 'slipway/tenant-id'
export const REVISION_LABEL = 'slipway/revision-id'
/** On a Job and its pod. They have no label of a revision, which they may outlive. */
export const RUN_LABEL = 'slipway/run-id'
/** The time of the last line that was read from the log of a Job. */
export const LOG_READ = 'slipway/log-read'
/** The deployment whose snapshots an object has, which outlives the deployment for a time. */
export const BACKUP_OF_LABEL = 'slipway/backup-of'
/** On a Job and a VolumeSnapshot, the snapshot that it makes. */
export const SNAPSHOT_ANNOTATION = 'slipway/snapshot'
/** On the claim of dumps, followed by an id: a snapshot that it has, and one whose file is to be deleted. */
export const HELD_PREFIX = 'slipway/held.'
export const REMOVED_PREFIX = 'slipway/removed.'
/** On a VolumeSnapshot, the claim that is made anew of it. */
export const RESTORES_ANNOTATION = 'slipway/restores'
/** On a Job of the agent's own, what it does. */
export const TASK_LABEL = 'slipway/task'
/** The controller of Jobs sets it on their pods. */
export const JOB_NAME_LABEL = 'batch.kubernetes.io/job-name'
export const COMPONENT_LABEL = 'app.kubernetes.io/component'
/** The time when a revision's Deployment stopped receiving new requests. */
export const DRAINING_SINCE = 'slipway/draining-since'
/** The number of the revision that applied a store last. */
export const DECIDED_BY_REVISION = 'slipway/revision-number'
/** The minimum number of replicas of an autoscaled Deployment. */
export const MIN_SCALE = 'slipway/min-scale'
/** The URL of the deployment, on its Service. */
export const URL_ANNOTATION = 'slipway/url'
/** The times when a pull secret is renewed and expires. */
export const RENEW_AT = 'slipway/renew-at'
export const EXPIRES_AT = 'slipway/expires-at'

export type NamedDeployment = Pick<RevisionSpec, 'name' | 'deployment_id' | 'tenant_id'>

/** The name of objects that all revisions share. A Service's name must not begin with a digit. */
export function baseName({ name, deployment_id }: Pick<NamedDeployment, 'name' | 'deployment_id'>): string {
  let cut = name.slice(0, 30)
  while (cut.endsWith('-')) cut = cut.slice(0, -1)
  return `${/^[a-z]/.test(cut) ? cut : `d${cut}`}-${deployment_id.replaceAll('-', '').slice(0, 10)}`
}
export const revisionName = (spec: Pick<RevisionSpec, 'name' | 'deployment_id' | 'number'>) =>
  `${baseName(spec)}-r${spec.number}`
export const tracingName = (spec: Pick<RevisionSpec, 'name' | 'deployment_id' | 'number'>) =>
  `${revisionName(spec)}-tracing`
export const modelVariablesName = (spec: Pick<RevisionSpec, 'name' | 'deployment_id' | 'number'>) =>
  `${revisionName(spec)}-models`
/** The Secret with the token, which all revisions share. */
export const modelTokenName = (spec: Pick<NamedDeployment, 'name' | 'deployment_id'>) => `${baseName(spec)}-models`
export const workloadName = (spec: RevisionSpec, component: string) =>
  component === 'web' ? revisionName(spec) : `${revisionName(spec)}-${component}`
/** KEDA has it as the value of a label, which has at most 63 characters. */
export const scaledObjectName = (workload: string) =>
  workload.length <= 63
    ? workload
    : `${workload.slice(0, 52)}-${createHash('sha256').update(workload).digest('hex').slice(0, 10)}`
/** The end of an id is its random part. */
export const runName = (spec: Pick<NamedDeployment, 'name' | 'deployment_id'>, id: string) =>
  `${baseName(spec)}-run-${id.replaceAll('-', '').slice(-12)}`
export const storeName = (spec: NamedDeployment, component: 'redis' | 'database') =>
  `${baseName(spec)}-${component === 'database' ? 'db' : 'redis'}`

/** The claim with the dumps of the database. */
export const dumpsName = (spec: Pick<NamedDeployment, 'name' | 'deployment_id'>) => `${baseName(spec)}-db-dumps`

export const DISK_INFIX = '-disk-'
export const diskName = (spec: Pick<NamedDeployment, 'name' | 'deployment_id'>, disk: string) =>
  `${baseName(spec)}${DISK_INFIX}${disk}`

/** The agent changes and removes only objects with these labels. */
export const ownerLabels = ({ owner }: Pick<KubernetesSettings, 'owner'>, deployment?: string) => ({
  [MANAGED_BY_LABEL]: MANAGER,
  [OWNER_LABEL]: owner,
  ...(deployment !== undefined && { [DEPLOYMENT_LABEL]: deployment }),
})
export const selectorOf = (labels: Record<string, string>) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')

/** Labels that a user cannot override. */
const objectLabels = (settings: KubernetesSettings, spec: RevisionSpec, component?: string, ofRevision = false) => ({
  'app.kubernetes.io/name': spec.name,
  [INSTANCE_LABEL]: baseName(spec),
  ...ownerLabels(settings, spec.deployment_id),
  [TENANT_LABEL]: spec.tenant_id,
  ...(component && { [COMPONENT_LABEL]: component }),
  ...(ofRevision && { [REVISION_LABEL]: spec.revision_id }),
})

export const selectorLabels = (settings: KubernetesSettings, spec: RevisionSpec, component: string) => ({
  ...ownerLabels(settings, spec.deployment_id),
  [COMPONENT_LABEL]: component,
  [REVISION_LABEL]: spec.revision_id,
})

/** The agent decides by its own labels and annotations, so users must not set them. */
const withoutReservedKeys = (metadata: Record<string, string> | null | undefined) =>
  Object.fromEntries(Object.entries(metadata ?? {}).filter(([key]) => !key.startsWith('slipway/')))

/** The metadata of an object, with the user's labels and annotations unless the agent sets the same key. */
export function metadataOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  name: string,
  { component, ofRevision = false }: { component?: string; ofRevision?: boolean } = {},
): V1ObjectMeta & { name: string; namespace: string; labels: Record<string, string> } {
  const annotations = withoutReservedKeys(spec.resources.annotations)
  return {
    name,
    namespace: namespaceOf(settings, spec),
    labels: { ...withoutReservedKeys(spec.resources.labels), ...objectLabels(settings, spec, component, ofRevision) },
    ...(Object.keys(annotations).length > 0 && { annotations }),
  }
}

export const namespaceOf = (
  settings: Pick<KubernetesSettings, 'namespaces'>,
  spec: Pick<RevisionSpec, 'namespace'>,
): string => spec.namespace ?? settings.namespaces[0]!
