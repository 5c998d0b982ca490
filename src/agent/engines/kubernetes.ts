// The engine that makes deployments real objects of a Kubernetes cluster, and reads how they fare from there alone.
import { KubeConfig, type KubernetesObject, type V1Pod } from '@kubernetes/client-node'
import {
  type Artifact,
  type Engine,
  type Events,
  type Ref,
  type Seen,
  type Task,
  type Tree,
  UNHEARD,
  type Unit,
} from './engine.ts'
import { Cluster, deploymentOf } from './kubernetes/cluster.ts'
import { Images } from './kubernetes/images.ts'
import { Logs } from './kubernetes/logs.ts'
import { COMPONENT, DRAINING, namespaceOf, REVISION, URL_NOTE } from './kubernetes/names.ts'
import { revisionObjects } from './kubernetes/objects.ts'
import {
  databaseOf,
  faresOf,
  isReady,
  label,
  type Objects,
  revisionsOf,
  routedOf,
  wayOf,
  wrongWith,
} from './kubernetes/observed.ts'
import { APP } from './kubernetes/pods.ts'
import { Pulls } from './kubernetes/pulls.ts'
import type { Finding } from './kubernetes/reasons.ts'
import type { KubernetesSettings } from './kubernetes/settings.ts'
import { type Store, storesOf } from './kubernetes/stores.ts'
import { routesOf, serviceOf } from './kubernetes/ways.ts'
import { World } from './kubernetes/world.ts'

const WATCHED = ['Pod', 'Deployment', 'StatefulSet'] as const

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
  readonly #world: World
  readonly #images: Images
  readonly #pulls: Pulls
  readonly #renew: number
  readonly #now: () => Date
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stops: (() => void)[] = []
  #logs: Logs | null = null
  #events: Events = UNHEARD

  constructor({
    settings,
    config = surroundings(),
    now = () => new Date(),
    pause_ms = 1000,
    renew_ms = 60_000,
    agent_id,
  }: Options) {
    this.#settings = settings
    this.#cluster = new Cluster(config, settings.owner)
    this.#world = new World(this.#cluster, settings, pause_ms)
    this.#renew = renew_ms
    this.#now = now
    const cluster = this.#cluster
    const ask: Events['registry'] = (of, image) => this.#events.registry(of, image)
    const warn = (of: Ref, message: string) => this.#events.log(of, message, 'WARNING')
    this.#pulls = new Pulls({ settings, cluster, now, ask, warn })
    this.#images = new Images({ settings, cluster, pulls: this.#pulls, ask, agent_id: agent_id ?? settings.owner })
  }

  refuses(unit: Unit): string | null {
    const unbuilt = this.#images.refuses(unit)
    if (unbuilt !== null) return unbuilt
    const namespace = namespaceOf(this.#settings, unit)
    if (!this.#settings.namespaces.includes(namespace))
      return `This agent deploys to ${this.#settings.namespaces.join(', ')}, and not to the namespace ${namespace}: choose one of these as k8s_namespace.`
    const { sidecars, init_containers } = unit.resources
    if ([...(sidecars ?? []), ...(init_containers ?? [])].some(({ name }) => name === APP))
      return `\`${APP}\` is the name of the application’s own container: name the one in resource_spec otherwise.`
    return null
  }

  async open(events: Events): Promise<void> {
    this.#events = events
    const logs = new Logs(this.#cluster.config, (of, message, level) => events.log(of, message, level))
    this.#logs = logs
    const since = this.#now()
    const changed = (object: KubernetesObject, gone: boolean) => {
      const deployment = deploymentOf(object)
      if (deployment === undefined) return
      if (object.kind === 'Pod') logs.seen(object as V1Pod, gone, since)
      events.changed(deployment)
    }
    for (const namespace of this.#settings.namespaces)
      for (const kind of WATCHED) this.#stops.push(this.#cluster.watch(kind, namespace, changed))
    this.#images.open(() => this.#world.deployments())
    const renewing = setInterval(() => void this.#pulls.renew(), this.#renew).unref()
    this.#stops.push(() => clearInterval(renewing))
    void this.#pulls.renew()
  }

  deployments(): Promise<string[]> {
    return this.#world.deployments()
  }

  async observe(deployment_id: string): Promise<Seen> {
    const namespace = await this.#world.placeOf(deployment_id)
    if (namespace === null) return { running: [], routed: null, url: null, left: false, database: null }
    const objects = await this.#world.look(namespace, deployment_id)
    const running: Seen['running'] = []
    for (const revision_id of revisionsOf(objects))
      running.push(await this.#fares(namespace, objects, { deployment_id, revision_id }))
    const there = Object.values(objects).some(kind => kind.length > 0)
    return {
      running,
      routed: routedOf(objects),
      url: wayOf(objects)?.metadata?.annotations?.[URL_NOTE] ?? null,
      left: there || (await this.#world.remains(namespace, deployment_id)).length > 0,
      database: await this.#database(namespace, objects, deployment_id),
    }
  }

  async #fares(namespace: string, objects: Objects, of: Ref): Promise<Seen['running'][number]> {
    const { deployment_id, revision_id } = of
    const now = this.#now()
    const { phase, drains_at } = faresOf(revision_id, objects, this.#settings.drain_seconds, now)
    if (phase === 'draining' && drains_at !== null) this.#later(revision_id, drains_at - now.getTime(), deployment_id)
    if (phase !== 'starting' && phase !== 'unhealthy') return { revision_id, phase, reason: null }
    const wrong = await this.#wrong(namespace, objects, one => label(one, REVISION) === revision_id)
    const reason = wrong && (await this.#world.told(namespace, wrong))
    const failing = phase === 'starting' && this.#isHopeless(wrong, revision_id, deployment_id)
    return { revision_id, phase: failing ? 'failing' : phase, reason }
  }

  async #wrong(
    namespace: string,
    objects: Objects,
    which: (one: KubernetesObject) => boolean,
  ): Promise<Finding | null> {
    const events = await this.#world.eventsOf(namespace, objects.pods.filter(which))
    return wrongWith(objects, which, events)
  }

  async #database(namespace: string, objects: Objects, deployment_id: string): Promise<Seen['database']> {
    const set = databaseOf(objects)
    if (!set) return null
    if (isReady(set)) return { ready: true, reason: null }
    const wrong = await this.#wrong(namespace, objects, one => label(one, COMPONENT) === 'database')
    const reason = wrong && (await this.#world.told(namespace, wrong))
    return { ready: false, reason, ...(this.#isHopeless(wrong, deployment_id, deployment_id) && { hopeless: true }) }
  }

  /** What waiting may still help is looked at again when it does not any more. */
  #isHopeless(wrong: Finding | null, which: string, deployment_id: string): boolean {
    if (!wrong) return false
    const left = wrong.hopeless_at - this.#now().getTime()
    if (left > 0 && Number.isFinite(left)) this.#later(which, left, deployment_id)
    return left <= 0
  }

  /** Time passes without a change in the cluster. */
  #later(which: string, ms: number, deployment_id: string): void {
    clearTimeout(this.#timers.get(which))
    const passed = () => {
      this.#timers.delete(which)
      this.#events.changed(deployment_id)
    }
    this.#timers.set(which, setTimeout(passed, Math.max(0, ms) + 50).unref())
  }

  async provide(unit: Unit): Promise<void> {
    for (const store of storesOf(this.#settings, unit))
      if (store.component === 'database') await this.#ensure(unit, store)
  }

  prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    return this.#images.prepare(unit, tree, task)
  }

  async reuse(unit: Unit, artifact: Artifact, task: Task): Promise<Artifact | null> {
    return (await this.#images.has(unit, artifact, task)) ? artifact : null
  }

  async start(unit: Unit, artifact: Artifact): Promise<void> {
    // Before anything of it is told: an earlier agent may have given them to what runs.
    for (const store of storesOf(this.#settings, unit)) await this.#hide(unit, store)
    // An address that cannot be is told now, and not when the revision is up.
    const routes = routesOf(this.#settings, unit)
    await this.#world.checkHosts(unit, routes)
    for (const route of routes) await this.#world.check(route)
    for (const store of storesOf(this.#settings, unit)) await this.#ensure(unit, store)
    const pulling = await this.#images.pulling(unit, artifact)
    // A Secret that cannot change is what is wanted, where it is there.
    for (const object of revisionObjects(this.#settings, pulling, artifact))
      await this.#apply(unit, object, object.kind === 'Secret' ? () => null : undefined)
  }

  async #ensure(unit: Unit, store: Store): Promise<void> {
    for (const conflict of await this.#world.ensure(unit, store)) this.#tookBack(unit, conflict)
    await this.#hide(unit, store)
  }

  async #hide(unit: Unit, store: Store): Promise<void> {
    this.#events.hide(unit.deployment_id, await this.#world.secretsOf(unit, store))
  }

  async #apply(unit: Unit, object: KubernetesObject, adjust?: () => null): Promise<void> {
    const conflict = await this.#world.apply(unit, object, adjust)
    if (conflict !== null) this.#tookBack(unit, conflict)
  }

  #tookBack(unit: Unit, conflict: string): void {
    const { deployment_id, revision_id } = unit
    const message = `Somebody else had changed what is this agent’s to say, and it was changed back. ${conflict}`
    this.#events.log({ deployment_id, revision_id }, message, 'WARNING')
  }

  async route(unit: Unit): Promise<void> {
    const routes = routesOf(this.#settings, unit)
    await this.#world.checkHosts(unit, routes)
    // The Service is the last, as it is what says that this revision gets the requests.
    for (const object of [...routes, serviceOf(this.#settings, unit)]) await this.#apply(unit, object)
    const named = new Set(routes.map(({ kind, metadata }) => `${kind} ${metadata!.name}`))
    const there = await this.#world.ways(namespaceOf(this.#settings, unit), unit.deployment_id)
    await this.#world.remove(there.filter(({ kind, metadata }) => !named.has(`${kind} ${metadata!.name}`)))
  }

  async drain({ deployment_id, revision_id }: Ref): Promise<void> {
    const namespace = await this.#world.placeOf(deployment_id)
    if (namespace === null) return
    const objects = await this.#world.look(namespace, deployment_id)
    if (routedOf(objects) === revision_id)
      await this.#world.remove([...(await this.#world.ways(namespace, deployment_id)), wayOf(objects)!])
    const since = this.#now().toISOString()
    for (const one of objects.deployments)
      if (label(one, REVISION) === revision_id && one.metadata?.annotations?.[DRAINING] === undefined)
        await this.#cluster.annotate(one, { [DRAINING]: since })
    this.#later(revision_id, this.#settings.drain_seconds * 1000, deployment_id)
  }

  /** Pods may take their time, and nothing else of the deployment waits for them: until they are gone it is draining. */
  async stop({ deployment_id, revision_id }: Ref): Promise<void> {
    const namespace = await this.#world.placeOf(deployment_id)
    if (namespace === null) return
    await this.#world.removeAll(namespace, deployment_id, one => label(one, REVISION) === revision_id, false)
  }

  async remove(deployment_id: string): Promise<void> {
    await this.#images.forget(deployment_id)
    const namespace = await this.#world.placeOf(deployment_id)
    if (namespace === null) return
    await this.#world.remove(await this.#world.ways(namespace, deployment_id))
    await this.#world.removeAll(namespace, deployment_id, () => true)
    this.#world.forget(deployment_id)
  }

  /** What a cluster runs does not end with whoever started it. */
  async close(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#logs?.close()
  }
}

function surroundings(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  return config
}
