// How a deployment fares, read from the objects that are there. Pure.
import type { KubernetesObject, V1Deployment, V1Pod, V1Service, V1StatefulSet } from '@kubernetes/client-node'
import type { RevisionHealth } from '../engine.ts'
import { COMPONENT_LABEL, DRAINING_SINCE, MIN_SCALE, REVISION_LABEL } from './names.ts'
import { type Finding, worstFinding } from './pod-failures.ts'

export type ObservedObjects = {
  deployments: V1Deployment[]
  sets: V1StatefulSet[]
  pods: V1Pod[]
  services: V1Service[]
  /** Whatever else is labelled with a revision: what is left of one that has no Deployment any more. */
  others: KubernetesObject[]
}

export const labelOf = ({ metadata }: KubernetesObject, name: string) => metadata?.labels?.[name]
export const isTerminating = ({ metadata }: KubernetesObject) => metadata?.deletionTimestamp !== undefined

/** The application’s own Service says who gets the requests. */
export const webServiceOf = ({ services }: Pick<ObservedObjects, 'services'>) =>
  services.find(one => labelOf(one, COMPONENT_LABEL) === 'web')
export const routedRevisionOf = (objects: Pick<ObservedObjects, 'services'>) =>
  webServiceOf(objects)?.spec?.selector?.[REVISION_LABEL] ?? null

export const revisionsOf = ({ deployments, pods, others }: ObservedObjects): string[] => [
  ...new Set([...deployments, ...pods, ...others].flatMap(object => labelOf(object, REVISION_LABEL) ?? [])),
]

type ObservedPhase = { revision: string; phase: RevisionHealth['phase']; drains_at: number | null }

export function observePhase(
  revision: string,
  objects: ObservedObjects,
  drain_seconds: number,
  now: Date,
): ObservedPhase {
  const deployments = objects.deployments.filter(one => labelOf(one, REVISION_LABEL) === revision)
  const pods = objects.pods.filter(one => labelOf(one, REVISION_LABEL) === revision)
  // The application's own is made last and removed first: without it, only remains are left.
  const web = deployments.find(one => labelOf(one, COMPONENT_LABEL) === 'web' && !isTerminating(one))
  if (!web) {
    const ending = pods.length > 0 && pods.every(isTerminating)
    return { revision, phase: ending ? 'draining' : 'drained', drains_at: null }
  }
  const since = web.metadata?.annotations?.[DRAINING_SINCE]
  if (since !== undefined) {
    const ends = new Date(since).getTime() + drain_seconds * 1000
    return { revision, phase: now.getTime() >= ends ? 'drained' : 'draining', drains_at: ends }
  }
  const routed = routedRevisionOf(objects) === revision
  const fine = deployments.every(one => isDeploymentUp(one, routed))
  return { revision, phase: fine ? 'healthy' : routed ? 'unhealthy' : 'starting', drains_at: null }
}

/** A first time, every copy is waited for; later one is enough to serve, and autoscaling may be adding others. */
function isDeploymentUp({ metadata, spec, status }: V1Deployment, serves: boolean): boolean {
  if ((status?.observedGeneration ?? 0) < (metadata?.generation ?? 0)) return false
  // An autoscaler takes a moment before it makes as many as it is to.
  const wanted = Math.max(spec?.replicas ?? 1, Number(metadata?.annotations?.[MIN_SCALE] ?? 0))
  const needed = serves ? Math.min(1, wanted) : wanted
  return Math.min(status?.availableReplicas ?? 0, serves ? needed : (status?.updatedReplicas ?? 0)) >= needed
}

/** What is wrong with a revision, or with a store, by the objects that make it. */
export function findProblem(
  objects: Pick<ObservedObjects, 'deployments' | 'pods'>,
  which: (object: KubernetesObject) => boolean,
  events: Parameters<typeof worstFinding>[0]['events'],
): Finding | null {
  return worstFinding({ deployments: objects.deployments.filter(which), pods: objects.pods.filter(which), events })
}

/** Its database; undefined where it has none. */
export const databaseSetOf = ({ sets }: Pick<ObservedObjects, 'sets'>) =>
  sets.find(one => labelOf(one, COMPONENT_LABEL) === 'database')
export const isSetReady = ({ metadata, spec, status }: V1StatefulSet) =>
  (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0) &&
  (status?.readyReplicas ?? 0) >= (spec?.replicas ?? 1)
