// Derives the phase and health of a deployment's revisions from the objects in the cluster. Pure.
import type {
  KubernetesObject,
  V1ContainerStatus,
  V1Deployment,
  V1Pod,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node'
import type { HealthState } from '../../../protocol/parts.schema.ts'
import type { Incident, ProcessHealth } from '../../../protocol/report.schema.ts'
import type { Condition, RevisionHealth } from '../../engine.ts'
import { WEB } from '../process-types.ts'
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

/** Reasons for which a container that has not run yet waits in a start without a fault. */
const STARTING = ['ContainerCreating', 'PodInitializing', undefined]

/** When a new pod that is starting without a fault becomes one; null for any other pod. A new copy is no fault. */
function startDeadlineOf({ metadata, status }: V1Pod, progress_seconds: number): number | null {
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
  const hasFault = containers.some(
    ({ restartCount, state }) => restartCount > 0 || (state?.waiting && !STARTING.includes(state.waiting.reason)),
  )
  if (isReady || hasFault || !metadata?.creationTimestamp) return null
  return new Date(metadata.creationTimestamp).getTime() + progress_seconds * 1000
}

type Progress = { now: Date; progress_seconds: number }
type Process = { name: string; deployment: V1Deployment; pods: V1Pod[] }
type ProcessState = { name: string; wanted: number; up: number; state: HealthState }

function observeProcess({ name, deployment, pods }: Process, { now, progress_seconds }: Progress): ProcessState {
  const { spec, status } = deployment
  const wanted = spec?.replicas ?? 1
  const up = Math.min(status?.availableReplicas ?? 0, wanted)
  const isRefused = status?.conditions?.some(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  const uncreated = isRefused ? 0 : Math.max(0, wanted - pods.length)
  const deadlines = pods.map(pod => startDeadlineOf(pod, progress_seconds) ?? 0)
  const starting = deadlines.filter(deadline => deadline > now.getTime()).length + uncreated
  const isLooping = isInCrashLoop(pods)
  const isShort = up + starting < wanted
  if (up === 0 && wanted > 0 && (isLooping || isShort || name === WEB))
    return { name, wanted, up, state: isLooping ? 'crash_looping' : 'unhealthy' }
  return { name, wanted, up, state: isShort || isLooping ? 'degraded' : 'healthy' }
}

const isInCrashLoop = (pods: V1Pod[]) =>
  containersOf(pods).some(
    ({ state, restartCount }) => restartCount >= MAX_CRASHES && (state?.waiting ?? state?.terminated) !== undefined,
  )
const containersOf = (pods: V1Pod[]) =>
  pods.flatMap(({ status }) => [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])

/** The health of a revision that serves, and what happened to its containers. */
export function observeCondition(
  revision: string,
  objects: Pick<ObservedObjects, 'deployments' | 'pods'>,
  phase: RevisionHealth['phase'],
  reason: string | null,
  progress: Progress,
): Condition {
  const [deployments, pods] = [objects.deployments, objects.pods].map(all =>
    all.filter(object => labelOf(object, REVISION_LABEL) === revision && !isTerminating(object)),
  ) as [V1Deployment[], V1Pod[]]
  const nameOf = (object: KubernetesObject) => labelOf(object, COMPONENT_LABEL) ?? WEB
  const processes = deployments.map(deployment => {
    const name = nameOf(deployment)
    return observeProcess({ name, deployment, pods: pods.filter(pod => nameOf(pod) === name) }, progress)
  })
  const isLooping = isInCrashLoop(pods)
  const isShort = processes.some(({ state }) => state !== 'healthy')
  // The one that listens is up while others of a revision that serves start.
  const state =
    phase === 'healthy' || phase === 'starting'
      ? isShort || isLooping
        ? 'degraded'
        : 'healthy'
      : isLooping
        ? 'crash_looping'
        : 'unhealthy'
  const [up, wanted] = [sum(processes.map(({ up }) => up)), sum(processes.map(({ wanted }) => wanted))]
  const copies = state === 'degraded' ? `${up} of ${wanted} copies are available. ` : ''
  return {
    health: {
      state,
      reason: state === 'healthy' ? null : `${copies}${reason ?? ''}`.trim() || null,
      ...(processes.some(({ name }) => name !== WEB) && { processes: processes.map(toProcessHealth) }),
    },
    incidents: listIncidents(containersOf(pods)),
  }
}

const toProcessHealth = ({ name, up, wanted, state }: ProcessState): ProcessHealth => ({
  name,
  state,
  reason: state === 'healthy' ? null : `${up} of ${wanted} copies are available.`,
})

/** The time when the next new copy would count as a fault; null if none is starting. */
export function nextStartDeadline(revision: string, pods: V1Pod[], { now, progress_seconds }: Progress): number | null {
  const deadlines = pods
    .filter(pod => labelOf(pod, REVISION_LABEL) === revision && !isTerminating(pod))
    .flatMap(pod => startDeadlineOf(pod, progress_seconds) ?? [])
    .filter(deadline => deadline > now.getTime())
  return deadlines.length > 0 ? Math.min(...deadlines) : null
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
