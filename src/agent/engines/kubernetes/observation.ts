// Observes a deployment in the cluster: its revisions with their health, the routed one, and the database.
import type { KubernetesObject } from '@kubernetes/client-node'
import { describeDeadline, type EngineObservation, type RevisionRef } from '../../engine.ts'
import type { DeploymentObjects } from './deployment-objects.ts'
import { COMPONENT_LABEL, REVISION_LABEL, URL_ANNOTATION } from './names.ts'
import {
  databaseSetOf,
  findProblem,
  isSetReady,
  labelOf,
  nextStartDeadline,
  type ObservedObjects,
  observeCondition,
  observePhase,
  revisionsOf,
  routedRevisionOf,
  webServiceOf,
} from './observed-status.ts'
import type { Finding } from './pod-failures.ts'
import type { KubernetesSettings } from './settings.ts'

type Options = {
  objects: DeploymentObjects
  settings: Pick<KubernetesSettings, 'drain_seconds' | 'progress_seconds'>
  now: () => Date
  /** Observe it again. */
  changed: (deployment_id: string) => void
}

export class Observation {
  readonly #options: Options
  readonly #timers = new Map<string, NodeJS.Timeout>()

  constructor(options: Options) {
    this.#options = options
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const objects = this.#options.objects
    const namespace = await objects.findNamespace(deployment_id)
    if (namespace === null) return { running: [], routed: null, url: null, hasRemains: false, database: null }
    const observed = await objects.listObserved(namespace, deployment_id)
    const running: EngineObservation['running'] = []
    for (const revision_id of revisionsOf(observed))
      running.push(await this.#observeRevision(namespace, observed, { deployment_id, revision_id }))
    const hasObjects = Object.values(observed).some(ofKind => ofKind.length > 0)
    return {
      running,
      routed: routedRevisionOf(observed),
      url: webServiceOf(observed)?.metadata?.annotations?.[URL_ANNOTATION] ?? null,
      hasRemains: hasObjects || (await objects.listRemains(namespace, deployment_id)).length > 0,
      database: await this.#observeDatabase(namespace, observed, deployment_id),
    }
  }

  async #observeRevision(
    namespace: string,
    objects: ObservedObjects,
    of: RevisionRef,
  ): Promise<EngineObservation['running'][number]> {
    const { deployment_id, revision_id } = of
    const { settings } = this.#options
    const now = this.#options.now()
    const { phase, drains_at } = observePhase(revision_id, objects, settings.drain_seconds, now)
    if (phase === 'draining' && drains_at !== null)
      this.observeLater(revision_id, drains_at - now.getTime(), deployment_id)
    const isRouted = routedRevisionOf(objects) === revision_id
    const progress = { now, progress_seconds: settings.progress_seconds }
    const conditionFor = (reason: string | null) => observeCondition(revision_id, objects, phase, reason, progress)
    const isShort = isRouted && conditionFor(null).health.state === 'degraded'
    const withCondition = (reason: string | null) => ({ ...(isRouted && { condition: conditionFor(reason) }) })
    const nextDeadline = isRouted ? nextStartDeadline(revision_id, objects.pods, progress) : null
    if (nextDeadline !== null) this.observeLater(`${revision_id} starts`, nextDeadline - now.getTime(), deployment_id)
    if (phase !== 'starting' && phase !== 'unhealthy' && !isShort)
      return { revision_id, phase, reason: null, ...withCondition(null) }
    const problem = await this.#findProblem(
      namespace,
      objects,
      object => labelOf(object, REVISION_LABEL) === revision_id,
    )
    const isFailing = phase === 'starting' && this.#isHopeless(problem, revision_id, deployment_id)
    const isPending = problem !== null && phase === 'starting' && !isFailing
    const deadline = isPending ? ` ${describeDeadline(this.#deadlineOf(problem, objects, revision_id))}` : ''
    const finding = problem && { ...problem, reason: problem.reason + deadline }
    const reason = finding && (await this.#options.objects.describeFinding(namespace, finding))
    return { revision_id, phase: isFailing ? 'failing' : phase, reason, ...withCondition(reason) }
  }

  /** The time when the cluster gives the rollout up, or earlier if waiting cannot help. */
  #deadlineOf({ hopeless_at }: Finding, { deployments }: ObservedObjects, revision_id: string): number {
    const { now, settings } = this.#options
    const deadlines = deployments
      .filter(object => labelOf(object, REVISION_LABEL) === revision_id)
      .map(({ metadata, spec }) => {
        const created = new Date(metadata?.creationTimestamp ?? now()).getTime()
        return created + (spec?.progressDeadlineSeconds ?? settings.progress_seconds) * 1000
      })
    return Math.min(hopeless_at, ...deadlines)
  }

  async #findProblem(
    namespace: string,
    objects: ObservedObjects,
    filter: (object: KubernetesObject) => boolean,
  ): Promise<Finding | null> {
    const events = await this.#options.objects.listEvents(namespace, objects.pods.filter(filter))
    return findProblem(objects, filter, events)
  }

  async #observeDatabase(
    namespace: string,
    objects: ObservedObjects,
    deployment_id: string,
  ): Promise<EngineObservation['database']> {
    const set = databaseSetOf(objects)
    if (!set) return null
    if (isSetReady(set)) return { ready: true, reason: null }
    const problem = await this.#findProblem(
      namespace,
      objects,
      object => labelOf(object, COMPONENT_LABEL) === 'database',
    )
    const reason = problem && (await this.#options.objects.describeFinding(namespace, problem))
    const isHopeless = this.#isHopeless(problem, deployment_id, deployment_id)
    return { ready: false, reason, ...(isHopeless && { hopeless: true }) }
  }

  #isHopeless(problem: Finding | null, timerKey: string, deployment_id: string): boolean {
    if (!problem) return false
    const remainingMs = problem.hopeless_at - this.#options.now().getTime()
    if (remainingMs > 0 && Number.isFinite(remainingMs)) this.observeLater(timerKey, remainingMs, deployment_id)
    return remainingMs <= 0
  }

  /** A deadline passes without a change in the cluster, so no watch reports it. */
  observeLater(timerKey: string, ms: number, deployment_id: string): void {
    clearTimeout(this.#timers.get(timerKey))
    const observe = () => {
      this.#timers.delete(timerKey)
      this.#options.changed(deployment_id)
    }
    this.#timers.set(timerKey, setTimeout(observe, Math.max(0, ms) + 50).unref())
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
  }
}
