// The engine that makes deployments real objects of a Kubernetes cluster, and reads how they fare from there alone.
import { KubeConfig, type KubernetesObject, type V1Pod } from '@kubernetes/client-node'
import {
  type Artifact,
  type BuildTask,
  type Engine,
  type EngineEvents,
  type EngineObservation,
  NO_EVENTS,
  type RevisionRef,
  type RevisionSpec,
  type SourceTree,
} from './engine.ts'
import { Cluster, deploymentIdOf } from './kubernetes/cluster.ts'
import { DeploymentObjects } from './kubernetes/deployment-objects.ts'
import { Images } from './kubernetes/images.ts'
import { COMPONENT_LABEL, DRAINING_SINCE, namespaceOf, REVISION_LABEL, URL_ANNOTATION } from './kubernetes/names.ts'
import {
  databaseSetOf,
  findProblem,
  isSetReady,
  labelOf,
  type ObservedObjects,
  observePhase,
  revisionsOf,
  routedRevisionOf,
  webServiceOf,
} from './kubernetes/observed-status.ts'
import type { Finding } from './kubernetes/pod-failures.ts'
import { PodLogs } from './kubernetes/pod-logs.ts'
import { APP_CONTAINER } from './kubernetes/pod-template.ts'
import { PullSecrets } from './kubernetes/pull-secrets.ts'
import { revisionObjects } from './kubernetes/revision-objects.ts'
import { routesOf, serviceOf } from './kubernetes/routing.ts'
import type { KubernetesSettings } from './kubernetes/settings.ts'
import { type StoreObjects, storesFor } from './kubernetes/store-objects.ts'

const WATCHED_KINDS = ['Pod', 'Deployment', 'StatefulSet'] as const

/** `config` is the cluster's; left out, the pod's own that the agent runs in, or that of kubectl. */
type Options = {
  settings: KubernetesSettings
  config?: KubeConfig
  now?: () => Date
  pause_ms?: number
  /** Tells what it builds from what others do with the same builder. */
  agent_id?: string
  /** How often it looks whether what nodes pull images with is to be renewed. */
  renew_ms?: number
}

export class KubernetesEngine implements Engine {
  readonly name = 'kubernetes'
  readonly #settings: KubernetesSettings
  readonly #cluster: Cluster
  readonly #objects: DeploymentObjects
  readonly #images: Images
  readonly #pullSecrets: PullSecrets
  readonly #renewMs: number
  readonly #now: () => Date
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stopWatches: (() => void)[] = []
  #logs: PodLogs | null = null
  #events: EngineEvents = NO_EVENTS

  constructor({
    settings,
    config = loadDefaultConfig(),
    now = () => new Date(),
    pause_ms = 1000,
    renew_ms = 60_000,
    agent_id,
  }: Options) {
    this.#settings = settings
    this.#cluster = new Cluster(config, settings.owner)
    this.#objects = new DeploymentObjects(this.#cluster, settings, pause_ms)
    this.#renewMs = renew_ms
    this.#now = now
    const cluster = this.#cluster
    const ask: EngineEvents['registryCredential'] = (of, image) => this.#events.registryCredential(of, image)
    const warn = (of: RevisionRef, message: string) => this.#events.log(of, message, 'WARNING')
    this.#pullSecrets = new PullSecrets({ settings, cluster, now, requestCredential: ask, warn })
    this.#images = new Images({
      settings,
      cluster,
      pullSecrets: this.#pullSecrets,
      requestCredential: ask,
      agent_id: agent_id ?? settings.owner,
    })
  }

  refusalReason(unit: RevisionSpec): string | null {
    const unbuilt = this.#images.refusalReason(unit)
    if (unbuilt !== null) return unbuilt
    const namespace = namespaceOf(this.#settings, unit)
    if (!this.#settings.namespaces.includes(namespace))
      return `This agent deploys to ${this.#settings.namespaces.join(', ')}, and not to the namespace ${namespace}: choose one of these as k8s_namespace.`
    const { sidecars, init_containers } = unit.resources
    if ([...(sidecars ?? []), ...(init_containers ?? [])].some(({ name }) => name === APP_CONTAINER))
      return `\`${APP_CONTAINER}\` is the name of the application’s own container: name the one in resource_spec otherwise.`
    return null
  }

  async open(events: EngineEvents): Promise<void> {
    this.#events = events
    const logs = new PodLogs(this.#cluster.config, (of, message, level) => events.log(of, message, level))
    this.#logs = logs
    const since = this.#now()
    const changed = (object: KubernetesObject, gone: boolean) => {
      const deployment = deploymentIdOf(object)
      if (deployment === undefined) return
      if (object.kind === 'Pod') logs.handlePod(object as V1Pod, gone, since)
      events.changed(deployment)
    }
    for (const namespace of this.#settings.namespaces)
      for (const kind of WATCHED_KINDS) this.#stopWatches.push(this.#cluster.watch(kind, namespace, changed))
    this.#images.open(() => this.#objects.listDeployments())
    const renewing = setInterval(() => void this.#pullSecrets.renew(), this.#renewMs).unref()
    this.#stopWatches.push(() => clearInterval(renewing))
    void this.#pullSecrets.renew()
  }

  deployments(): Promise<string[]> {
    return this.#objects.listDeployments()
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return { running: [], routed: null, url: null, hasRemains: false, database: null }
    const objects = await this.#objects.listObserved(namespace, deployment_id)
    const running: EngineObservation['running'] = []
    for (const revision_id of revisionsOf(objects))
      running.push(await this.#observeRevision(namespace, objects, { deployment_id, revision_id }))
    const there = Object.values(objects).some(kind => kind.length > 0)
    return {
      running,
      routed: routedRevisionOf(objects),
      url: webServiceOf(objects)?.metadata?.annotations?.[URL_ANNOTATION] ?? null,
      hasRemains: there || (await this.#objects.listRemains(namespace, deployment_id)).length > 0,
      database: await this.#observeDatabase(namespace, objects, deployment_id),
    }
  }

  async #observeRevision(
    namespace: string,
    objects: ObservedObjects,
    of: RevisionRef,
  ): Promise<EngineObservation['running'][number]> {
    const { deployment_id, revision_id } = of
    const now = this.#now()
    const { phase, drains_at } = observePhase(revision_id, objects, this.#settings.drain_seconds, now)
    if (phase === 'draining' && drains_at !== null)
      this.#observeLater(revision_id, drains_at - now.getTime(), deployment_id)
    if (phase !== 'starting' && phase !== 'unhealthy') return { revision_id, phase, reason: null }
    const wrong = await this.#findProblem(namespace, objects, one => labelOf(one, REVISION_LABEL) === revision_id)
    const reason = wrong && (await this.#objects.describeFinding(namespace, wrong))
    const failing = phase === 'starting' && this.#isHopeless(wrong, revision_id, deployment_id)
    return { revision_id, phase: failing ? 'failing' : phase, reason }
  }

  async #findProblem(
    namespace: string,
    objects: ObservedObjects,
    which: (one: KubernetesObject) => boolean,
  ): Promise<Finding | null> {
    const events = await this.#objects.listEvents(namespace, objects.pods.filter(which))
    return findProblem(objects, which, events)
  }

  async #observeDatabase(
    namespace: string,
    objects: ObservedObjects,
    deployment_id: string,
  ): Promise<EngineObservation['database']> {
    const set = databaseSetOf(objects)
    if (!set) return null
    if (isSetReady(set)) return { ready: true, reason: null }
    const wrong = await this.#findProblem(namespace, objects, one => labelOf(one, COMPONENT_LABEL) === 'database')
    const reason = wrong && (await this.#objects.describeFinding(namespace, wrong))
    return { ready: false, reason, ...(this.#isHopeless(wrong, deployment_id, deployment_id) && { hopeless: true }) }
  }

  /** What waiting may still help is looked at again when it does not any more. */
  #isHopeless(wrong: Finding | null, which: string, deployment_id: string): boolean {
    if (!wrong) return false
    const left = wrong.hopeless_at - this.#now().getTime()
    if (left > 0 && Number.isFinite(left)) this.#observeLater(which, left, deployment_id)
    return left <= 0
  }

  /** Time passes without a change in the cluster. */
  #observeLater(which: string, ms: number, deployment_id: string): void {
    clearTimeout(this.#timers.get(which))
    const passed = () => {
      this.#timers.delete(which)
      this.#events.changed(deployment_id)
    }
    this.#timers.set(which, setTimeout(passed, Math.max(0, ms) + 50).unref())
  }

  async provide(unit: RevisionSpec): Promise<void> {
    for (const store of storesFor(this.#settings, unit))
      if (store.component === 'database') await this.#ensureStore(unit, store)
  }

  prepare(unit: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    return this.#images.prepare(unit, tree, task)
  }

  async reuse(unit: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null> {
    return (await this.#images.isInRegistry(unit, artifact, task)) ? artifact : null
  }

  async start(unit: RevisionSpec, artifact: Artifact): Promise<void> {
    // Before anything of it is told: an earlier agent may have given them to what runs.
    for (const store of storesFor(this.#settings, unit)) await this.#hideStoreSecrets(unit, store)
    // An address that cannot be is told now, and not when the revision is up.
    const routes = routesOf(this.#settings, unit)
    await this.#objects.checkHosts(unit, routes)
    for (const route of routes) await this.#objects.dryRunApply(route)
    for (const store of storesFor(this.#settings, unit)) await this.#ensureStore(unit, store)
    const pulling = await this.#images.withPullSecret(unit, artifact)
    // A Secret that cannot change is what is wanted, where it is there.
    for (const object of revisionObjects(this.#settings, pulling, artifact))
      await this.#apply(unit, object, object.kind === 'Secret' ? () => null : undefined)
  }

  async #ensureStore(unit: RevisionSpec, store: StoreObjects): Promise<void> {
    for (const conflict of await this.#objects.ensureStore(unit, store)) this.#logConflict(unit, conflict)
    await this.#hideStoreSecrets(unit, store)
  }

  async #hideStoreSecrets(unit: RevisionSpec, store: StoreObjects): Promise<void> {
    this.#events.hide(unit.deployment_id, await this.#objects.readStoreSecrets(unit, store))
  }

  async #apply(unit: RevisionSpec, object: KubernetesObject, adjust?: () => null): Promise<void> {
    const conflict = await this.#objects.apply(unit, object, adjust)
    if (conflict !== null) this.#logConflict(unit, conflict)
  }

  #logConflict(unit: RevisionSpec, conflict: string): void {
    const { deployment_id, revision_id } = unit
    const message = `Somebody else had changed what is this agent’s to say, and it was changed back. ${conflict}`
    this.#events.log({ deployment_id, revision_id }, message, 'WARNING')
  }

  async route(unit: RevisionSpec): Promise<void> {
    const routes = routesOf(this.#settings, unit)
    await this.#objects.checkHosts(unit, routes)
    // The Service is the last, as it is what says that this revision gets the requests.
    for (const object of [...routes, serviceOf(this.#settings, unit)]) await this.#apply(unit, object)
    const named = new Set(routes.map(({ kind, metadata }) => `${kind} ${metadata!.name}`))
    const there = await this.#objects.listRoutes(namespaceOf(this.#settings, unit), unit.deployment_id)
    await this.#objects.remove(there.filter(({ kind, metadata }) => !named.has(`${kind} ${metadata!.name}`)))
  }

  async drain({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    const objects = await this.#objects.listObserved(namespace, deployment_id)
    if (routedRevisionOf(objects) === revision_id)
      await this.#objects.remove([
        ...(await this.#objects.listRoutes(namespace, deployment_id)),
        webServiceOf(objects)!,
      ])
    const since = this.#now().toISOString()
    for (const one of objects.deployments)
      if (labelOf(one, REVISION_LABEL) === revision_id && one.metadata?.annotations?.[DRAINING_SINCE] === undefined)
        await this.#cluster.annotate(one, { [DRAINING_SINCE]: since })
    this.#observeLater(revision_id, this.#settings.drain_seconds * 1000, deployment_id)
  }

  /** Pods may take their time, and nothing else of the deployment waits for them: until they are gone it is draining. */
  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    await this.#objects.removeAll(namespace, deployment_id, one => labelOf(one, REVISION_LABEL) === revision_id, false)
  }

  async remove(deployment_id: string): Promise<void> {
    await this.#images.forget(deployment_id)
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    await this.#objects.remove(await this.#objects.listRoutes(namespace, deployment_id))
    await this.#objects.removeAll(namespace, deployment_id, () => true)
    this.#objects.forget(deployment_id)
  }

  /** What a cluster runs does not end with whoever started it. */
  async close(): Promise<void> {
    for (const stop of this.#stopWatches.splice(0)) stop()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#logs?.close()
  }
}

function loadDefaultConfig(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  return config
}
