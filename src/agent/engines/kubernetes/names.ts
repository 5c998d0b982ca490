// How objects in a cluster are called and labelled, so that they can be found again by nothing but their labels. Pure.
import type { V1ObjectMeta } from '@kubernetes/client-node'
import type { Unit } from '../engine.ts'
import type { KubernetesSettings } from './settings.ts'

export const MANAGER = 'slipway'
export const MANAGED_BY = 'app.kubernetes.io/managed-by'
export const OWNER = 'slipway/owner'
export const DEPLOYMENT = 'slipway/deployment-id'
export const TENANT = 'slipway/tenant-id'
export const REVISION = 'slipway/revision-id'
export const COMPONENT = 'app.kubernetes.io/component'
/** Of a revision's Deployment: since when it gets no new requests. */
export const DRAINING = 'slipway/draining-since'
/** Of a store: the number of the revision that decided last how it is. */
export const DECIDED = 'slipway/revision-number'
/** Of a Deployment whose copies an autoscaler decides on: the fewest. */
export const LEAST = 'slipway/min-scale'
/** Of a Service: where the deployment answers. */
export const URL_NOTE = 'slipway/url'

/** Of a pull secret: when another one is to be got, and until when this one is good. */
export const RENEW = 'slipway/renew-at'
export const EXPIRES = 'slipway/expires-at'

export type Component = 'web' | 'queue' | 'orchestrator' | 'executor' | 'redis' | 'database' | 'pull'
export type Named = Pick<Unit, 'name' | 'deployment_id' | 'tenant_id'>

/** Of what all revisions share. A name is unique in its workspace only; a Service's may not begin with a digit. */
export function baseName({ name, deployment_id }: Pick<Named, 'name' | 'deployment_id'>): string {
  let cut = name.slice(0, 30)
  while (cut.endsWith('-')) cut = cut.slice(0, -1)
  return `${/^[a-z]/.test(cut) ? cut : `d${cut}`}-${deployment_id.replaceAll('-', '').slice(0, 10)}`
}
export const revisionName = (unit: Pick<Unit, 'name' | 'deployment_id' | 'number'>) =>
  `${baseName(unit)}-r${unit.number}`
export const workloadName = (unit: Unit, component: Component) =>
  component === 'web' ? revisionName(unit) : `${revisionName(unit)}-${component}`
export const storeName = (unit: Named, component: 'redis' | 'database') =>
  `${baseName(unit)}-${component === 'database' ? 'db' : 'redis'}`

/** What carries these is ours, and nothing else is ever changed or removed. */
export const ownedBy = ({ owner }: Pick<KubernetesSettings, 'owner'>, deployment?: string) => ({
  [MANAGED_BY]: MANAGER,
  [OWNER]: owner,
  ...(deployment !== undefined && { [DEPLOYMENT]: deployment }),
})
export const selectorOf = (labels: Record<string, string>) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')

/** Labels that are never a user's to say. */
const labelsOf = (settings: KubernetesSettings, unit: Unit, component?: Component, ofRevision = false) => ({
  'app.kubernetes.io/name': unit.name,
  'app.kubernetes.io/instance': baseName(unit),
  ...ownedBy(settings, unit.deployment_id),
  [TENANT]: unit.tenant_id,
  ...(component && { [COMPONENT]: component }),
  ...(ofRevision && { [REVISION]: unit.revision_id }),
})

/** By which a revision's pods are known from those of any other, of ours or of anybody's. */
export const selectorLabels = (settings: KubernetesSettings, unit: Unit, component: Component) => ({
  ...ownedBy(settings, unit.deployment_id),
  [COMPONENT]: component,
  [REVISION]: unit.revision_id,
})

/** What is decided by is written by the agent alone, also where an object carries no such note. */
const theirs = (notes: Record<string, string> | null | undefined) =>
  Object.fromEntries(Object.entries(notes ?? {}).filter(([key]) => !key.startsWith('slipway/')))

/** Names an object; the user's labels and annotations stand on everything, under ours. */
export function metaOf(
  settings: KubernetesSettings,
  unit: Unit,
  name: string,
  { component, ofRevision = false }: { component?: Component; ofRevision?: boolean } = {},
): V1ObjectMeta & { name: string; namespace: string; labels: Record<string, string> } {
  const annotations = theirs(unit.resources.annotations)
  return {
    name,
    namespace: namespaceOf(settings, unit),
    labels: { ...theirs(unit.resources.labels), ...labelsOf(settings, unit, component, ofRevision) },
    ...(Object.keys(annotations).length > 0 && { annotations }),
  }
}

/** What names no namespace goes to the first. */
export const namespaceOf = (settings: Pick<KubernetesSettings, 'namespaces'>, unit: Pick<Unit, 'namespace'>): string =>
  unit.namespace ?? settings.namespaces[0]!
