// Derives the phase and health of a deployment's revisions from the objects in the cluster. Pure.
import type {
  KubernetesObject,
  V1ContainerStatus,
  V1Deployment,
  V1Pod,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node'
import type { Incident } from '../../../protocol/report.schema.ts'
import type { Condition, RevisionHealth } from '../../engine.ts'
import { COMPONENT_LABEL, DRAINING_SINCE, MIN_SCALE, REVISION_LABEL } from './names.ts'
import { type Finding, worstFinding } from './pod-failures.ts'

export type ObservedObjects = {
  deployments: V1Deployment[]
  sets: V1StatefulSet[]
  pods: V1Pod[]
  services: V1Service[]
  /** Other objects of revisions: all that remains of a revision without a Deployment. */
  others: KubernetesObject[]
}

export const labelOf = ({ metadata }: KubernetesObject, name: string) => metadata?.labels?.[name]
export const isTerminating = ({ metadata }: KubernetesObject) => metadata?.deletionTimestamp !== undefined

export const webServiceOf = ({ services }: Pick<ObservedObjects, 'services'>) =>
  services.find(object => labelOf(object, COMPONENT_LABEL) === 'web')
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
  const deployments = objects.deployments.filter(object => labelOf(object, REVISION_LABEL) === revision)
  const pods = objects.pods.filter(object => labelOf(object, REVISION_LABEL) === revision)
  // The application's Deployment is created last and removed first: without it, only remains are left.
  const web = deployments.find(object => labelOf(object, COMPONENT_LABEL) === 'web' && !isTerminating(object))
  if (!web) {
    const ending = pods.length > 0 && pods.every(isTerminating)
    return { revision, phase: ending ? 'draining' : 'drained', drains_at: null }
  }
  const since = web.metadata?.annotations?.[DRAINING_SINCE]
  if (since !== undefined) {
    const ends = new Date(since).getTime() + drain_seconds * 1000
    return { revision, phase: now.getTime() >= ends ? 'drained' : 'draining', drains_at: ends }
  }
  const isRouted = routedRevisionOf(objects) === revision
  // Other processes run only while it gets the requests.
  const down = deployments.filter(object => (object === web || isRouted) && !isDeploymentUp(object, isRouted))
  const isStarting = !isRouted || (!down.includes(web) && down.every(object => !wasComplete(object)))
  return { revision, phase: down.length === 0 ? 'healthy' : isStarting ? 'starting' : 'unhealthy', drains_at: null }
}

/** All its replicas were ready at a time. */
const wasComplete = ({ status }: V1Deployment) =>
  status?.conditions?.some(({ type, reason }) => type === 'Progressing' && reason === 'NewReplicaSetAvailable') ?? false

/** A starting revision needs all its replicas. One that serves needs one, as autoscaling may be adding others. */
function isDeploymentUp({ metadata, spec, status }: V1Deployment, isRouted: boolean): boolean {
  if ((status?.observedGeneration ?? 0) < (metadata?.generation ?? 0)) return false
  // An autoscaler needs a moment to reach its minimum.
  const wanted = Math.max(spec?.replicas ?? 1, Number(metadata?.annotations?.[MIN_SCALE] ?? 0))
  const needed = isRouted ? Math.min(1, wanted) : wanted
  return Math.min(status?.availableReplicas ?? 0, isRouted ? needed : (status?.updatedReplicas ?? 0)) >= needed
}

/** A container that is waiting after this many crashes is in a crash loop. */
const MAX_CRASHES = 3

/** The health of a revision that serves, and what happened to its containers. */
export function observeCondition(
  revision: string,
  objects: Pick<ObservedObjects, 'deployments' | 'pods'>,
  phase: RevisionHealth['phase'],
  reason: string | null,
): Condition {
  const ofRevision = (object: KubernetesObject) => labelOf(object, REVISION_LABEL) === revision
  const deployments = objects.deployments.filter(object => ofRevision(object) && !isTerminating(object))
  const containers = objects.pods
    .filter(pod => ofRevision(pod) && !isTerminating(pod))
    .flatMap(({ status }) => [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])
  const wanted = sum(deployments.map(({ spec }) => spec?.replicas ?? 1))
  const up = sum(deployments.map(({ spec, status }) => Math.min(status?.availableReplicas ?? 0, spec?.replicas ?? 1)))
  const isLooping = containers.some(
    ({ state, restartCount }) => restartCount >= MAX_CRASHES && (state?.waiting ?? state?.terminated) !== undefined,
  )
  const isUp = phase === 'healthy'
  const state =
    isUp && wanted === 0
      ? 'sleeping'
      : isUp
        ? up < wanted || isLooping
          ? 'degraded'
          : 'healthy'
        : isLooping
          ? 'crash_looping'
          : 'unhealthy'
  const copies = state === 'degraded' ? `${up} of ${wanted} copies are available. ` : ''
  return {
    health: { state, reason: state === 'healthy' ? null : `${copies}${reason ?? ''}`.trim() || null },
    incidents: listIncidents(containers),
  }
}

function listIncidents(containers: V1ContainerStatus[]): Incident[] {
  const ends = containers.flatMap(({ name, lastState, restartCount }) => {
    const end = restartCount > 0 ? lastState?.terminated : undefined
    return end?.finishedAt ? [{ name, end, at: new Date(end.finishedAt).toISOString(), count: restartCount }] : []
  })
  const ofKind = (kind: Incident['kind'], found: typeof ends, count: number, words: string): Incident[] => {
    const last = found.toSorted((a, b) => a.at.localeCompare(b.at)).at(-1)
    return last ? [{ kind, count, last_at: last.at, message: `The container ${last.name} ${words}.` }] : []
  }
  const killed = ends.filter(({ end }) => end.reason === 'OOMKilled')
  const exit = ends.at(-1)?.end.exitCode
  return [
    ...ofKind('restarted', ends, sum(ends.map(({ count }) => count)), `was restarted after exit code ${exit}`),
    ...ofKind('out_of_memory', killed, killed.length, 'was killed because it exceeded its memory limit'),
  ]
}

const sum = (numbers: number[]): number => numbers.reduce((total, one) => total + one, 0)

/** The problem of a revision or a store, whose objects `filter` selects. */
export function findProblem(
  objects: Pick<ObservedObjects, 'deployments' | 'pods'>,
  filter: (object: KubernetesObject) => boolean,
  events: Parameters<typeof worstFinding>[0]['events'],
): Finding | null {
  return worstFinding({ deployments: objects.deployments.filter(filter), pods: objects.pods.filter(filter), events })
}

export const databaseSetOf = ({ sets }: Pick<ObservedObjects, 'sets'>) =>
  sets.find(object => labelOf(object, COMPONENT_LABEL) === 'database')
export const isSetReady = ({ metadata, spec, status }: V1StatefulSet) =>
  (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0) &&
  (status?.readyReplicas ?? 0) >= (spec?.replicas ?? 1)
