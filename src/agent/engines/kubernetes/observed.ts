// How a deployment fares, read from the objects that are there. Pure.
import type { KubernetesObject, V1Deployment, V1Pod, V1Service, V1StatefulSet } from '@kubernetes/client-node'
import type { Running } from '../engine.ts'
import { COMPONENT, DRAINING, LEAST, REVISION } from './names.ts'
import { type Finding, findingOf } from './reasons.ts'

export type Objects = {
  deployments: V1Deployment[]
  sets: V1StatefulSet[]
  pods: V1Pod[]
  services: V1Service[]
  /** Whatever else is labelled with a revision: what is left of one that has no Deployment any more. */
  others: KubernetesObject[]
}

export const label = ({ metadata }: KubernetesObject, name: string) => metadata?.labels?.[name]
export const isLeaving = ({ metadata }: KubernetesObject) => metadata?.deletionTimestamp !== undefined

/** The application’s own Service says who gets the requests. */
export const wayOf = ({ services }: Pick<Objects, 'services'>) => services.find(one => label(one, COMPONENT) === 'web')
export const routedOf = (objects: Pick<Objects, 'services'>) => wayOf(objects)?.spec?.selector?.[REVISION] ?? null

export const revisionsOf = ({ deployments, pods, others }: Objects): string[] => [
  ...new Set([...deployments, ...pods, ...others].flatMap(object => label(object, REVISION) ?? [])),
]

type Fares = { revision: string; phase: Running['phase']; drains_at: number | null }

export function faresOf(revision: string, objects: Objects, drain_seconds: number, now: Date): Fares {
  const deployments = objects.deployments.filter(one => label(one, REVISION) === revision)
  const pods = objects.pods.filter(one => label(one, REVISION) === revision)
  // The application's own is made last and removed first: without it, only remains are left.
  const web = deployments.find(one => label(one, COMPONENT) === 'web' && !isLeaving(one))
  if (!web) {
    const ending = pods.length > 0 && pods.every(isLeaving)
    return { revision, phase: ending ? 'draining' : 'drained', drains_at: null }
  }
  const since = web.metadata?.annotations?.[DRAINING]
  if (since !== undefined) {
    const ends = new Date(since).getTime() + drain_seconds * 1000
    return { revision, phase: now.getTime() >= ends ? 'drained' : 'draining', drains_at: ends }
  }
  const routed = routedOf(objects) === revision
  const fine = deployments.every(one => isUp(one, routed))
  return { revision, phase: fine ? 'healthy' : routed ? 'unhealthy' : 'starting', drains_at: null }
}

/** A first time, every copy is waited for; later one is enough to serve, and autoscaling may be adding others. */
function isUp({ metadata, spec, status }: V1Deployment, serves: boolean): boolean {
  if ((status?.observedGeneration ?? 0) < (metadata?.generation ?? 0)) return false
  // An autoscaler takes a moment before it makes as many as it is to.
  const wanted = Math.max(spec?.replicas ?? 1, Number(metadata?.annotations?.[LEAST] ?? 0))
  const needed = serves ? Math.min(1, wanted) : wanted
  return Math.min(status?.availableReplicas ?? 0, serves ? needed : (status?.updatedReplicas ?? 0)) >= needed
}

/** What is wrong with a revision, or with a store, by the objects that make it. */
export function wrongWith(
  objects: Pick<Objects, 'deployments' | 'pods'>,
  which: (object: KubernetesObject) => boolean,
  events: Parameters<typeof findingOf>[0]['events'],
): Finding | null {
  return findingOf({ deployments: objects.deployments.filter(which), pods: objects.pods.filter(which), events })
}

/** Its database; undefined where it has none. */
export const databaseOf = ({ sets }: Pick<Objects, 'sets'>) => sets.find(one => label(one, COMPONENT) === 'database')
export const isReady = ({ metadata, spec, status }: V1StatefulSet) =>
  (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0) &&
  (status?.readyReplicas ?? 0) >= (spec?.replicas ?? 1)
