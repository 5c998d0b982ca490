// How objects in a cluster are called and labelled, so that they can be found again by nothing but their labels. Pure.
import type { V1ObjectMeta } from '@kubernetes/client-node'
import type { RevisionSpec } from '../engine.ts'
import type { KubernetesSettings } from './settings.ts'

export const MANAGER = 'slipway'
export const MANAGED_BY_LABEL = 'app.kubernetes.io/managed-by'
export const OWNER_LABEL = 'slipway/owner'
export const DEPLOYMENT_LABEL = 'slipway/deployment-id'
export const TENANT_LABEL = 'slipway/tenant-id'
export const REVISION_LABEL = 'slipway/revision-id'
export const COMPONENT_LABEL = 'app.kubernetes.io/component'
/** Of a revision's Deployment: since when it gets no new requests. */
export const DRAINING_SINCE = 'slipway/draining-since'
/** Of a store: the number of the revision that decided last how it is. */
export const DECIDED_BY_REVISION = 'slipway/revision-number'
/** Of a Deployment whose copies an autoscaler decides on: the fewest. */
export const MIN_SCALE = 'slipway/min-scale'
/** Of a Service: where the deployment answers. */
export const URL_ANNOTATION = 'slipway/url'

/** Of a pull secret: when another one is to be got, and until when this one is good. */
export const RENEW_AT = 'slipway/renew-at'
export const EXPIRES_AT = 'slipway/expires-at'

export type Component = 'web' | 'queue' | 'orchestrator' | 'executor' | 'redis' | 'database' | 'pull'
export type NamedDeployment = Pick<RevisionSpec, 'name' | 'deployment_id' | 'tenant_id'>

/** Of what all revisions share. A name is unique in its workspace only; a Service's may not begin with a digit. */
export function baseName({ name, deployment_id }: Pick<NamedDeployment, 'name' | 'deployment_id'>): string {
  let cut = name.slice(0, 30)
  while (cut.endsWith('-')) cut = cut.slice(0, -1)
  return `${/^[a-z]/.test(cut) ? cut : `d${cut}`}-${deployment_id.replaceAll('-', '').slice(0, 10)}`
}
export const revisionName = (unit: Pick<RevisionSpec, 'name' | 'deployment_id' | 'number'>) =>
  `${baseName(unit)}-r${unit.number}`
export const workloadName = (unit: RevisionSpec, component: Component) =>
  component === 'web' ? revisionName(unit) : `${revisionName(unit)}-${component}`
export const storeName = (unit: NamedDeployment, component: 'redis' | 'database') =>
  `${baseName(unit)}-${component === 'database' ? 'db' : 'redis'}`

/** What carries these is ours, and nothing else is ever changed or removed. */
export const ownerLabels = ({ owner }: Pick<KubernetesSettings, 'owner'>, deployment?: string) => ({
  [MANAGED_BY_LABEL]: MANAGER,
  [OWNER_LABEL]: owner,
  ...(deployment !== undefined && { [DEPLOYMENT_LABEL]: deployment }),
})
export const selectorOf = (labels: Record<string, string>) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')

/** Labels that are never a user's to say. */
const objectLabels = (settings: KubernetesSettings, unit: RevisionSpec, component?: Component, ofRevision = false) => ({
  'app.kubernetes.io/name': unit.name,
  'app.kubernetes.io/instance': baseName(unit),
  ...ownerLabels(settings, unit.deployment_id),
  [TENANT_LABEL]: unit.tenant_id,
  ...(component && { [COMPONENT_LABEL]: component }),
  ...(ofRevision && { [REVISION_LABEL]: unit.revision_id }),
})

/** By which a revision's pods are known from those of any other, of ours or of anybody's. */
export const selectorLabels = (settings: KubernetesSettings, unit: RevisionSpec, component: Component) => ({
  ...ownerLabels(settings, unit.deployment_id),
  [COMPONENT_LABEL]: component,
  [REVISION_LABEL]: unit.revision_id,
})

/** What is decided by is written by the agent alone, also where an object carries no such note. */
const withoutReservedKeys = (notes: Record<string, string> | null | undefined) =>
  Object.fromEntries(Object.entries(notes ?? {}).filter(([key]) => !key.startsWith('slipway/')))

/** Names an object; the user's labels and annotations stand on everything, under ours. */
export function metadataOf(
  settings: KubernetesSettings,
  unit: RevisionSpec,
  name: string,
  { component, ofRevision = false }: { component?: Component; ofRevision?: boolean } = {},
): V1ObjectMeta & { name: string; namespace: string; labels: Record<string, string> } {
  const annotations = withoutReservedKeys(unit.resources.annotations)
  return {
    name,
    namespace: namespaceOf(settings, unit),
    labels: { ...withoutReservedKeys(unit.resources.labels), ...objectLabels(settings, unit, component, ofRevision) },
    ...(Object.keys(annotations).length > 0 && { annotations }),
  }
}

/** What names no namespace goes to the first. */
export const namespaceOf = (
  settings: Pick<KubernetesSettings, 'namespaces'>,
  unit: Pick<RevisionSpec, 'namespace'>,
): string => unit.namespace ?? settings.namespaces[0]!
