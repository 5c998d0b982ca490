// A deployment's objects in the cluster: found by their labels, made, and removed in two phases.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { CoreV1Event, KubernetesObject, V1PersistentVolumeClaim, V1Pod, V1Secret } from '@kubernetes/client-node'
import { PermanentError, type RevisionSpec, TransientError } from '../engine.ts'
import { type Cluster, deploymentIdOf, type Kind } from './cluster.ts'
import { COMPONENT_LABEL, DECIDED_BY_REVISION, namespaceOf, storeName, TENANT_LABEL } from './names.ts'
import { isTerminating, labelOf, type ObservedObjects } from './observed-status.ts'
import { type Finding, withLog } from './pod-failures.ts'
import { GRACE_SECONDS } from './pod-template.ts'
import { hostsOf } from './routing.ts'
import type { KubernetesSettings } from './settings.ts'
import type { StoreObjects } from './store-objects.ts'

/** By these a revision is seen that has no Deployment yet, or none any more. */
const REVISION_KINDS = ['Secret', 'ServiceAccount', 'HorizontalPodAutoscaler'] as const
/** Of a deployment that is whole, some of these are there. */
const DEPLOYMENT_KINDS = ['Deployment', 'StatefulSet', 'Pod', 'Service', ...REVISION_KINDS] as const
const LASTING_KINDS = ['NetworkPolicy', 'PersistentVolumeClaim'] as const
/** What makes pods goes first; what they stand on, when they are gone. */
const POD_CREATING_KINDS = new Set<string | undefined>(['HorizontalPodAutoscaler', 'Deployment', 'StatefulSet'])
const LOG_TAIL_LINES = 12

type ObjectFilter = (object: KubernetesObject) => boolean

export class DeploymentObjects {
  readonly #cluster: Cluster
  readonly #settings: KubernetesSettings
  readonly #pauseMs: number
  /** Where deployments are, as far as it was seen: it never changes. */
  readonly #namespaces = new Map<string, string>()

  constructor(cluster: Cluster, settings: KubernetesSettings, pause_ms: number) {
    this.#cluster = cluster
    this.#settings = settings
    this.#pauseMs = pause_ms
  }

  get #routeKinds(): Kind[] {
    return this.#settings.routes === 'gateway' ? ['Ingress', 'HTTPRoute'] : ['Ingress']
  }

  async listDeployments(): Promise<string[]> {
    const found = new Set<string>()
    for (const namespace of this.#settings.namespaces)
      for (const object of await this.#listOwned(namespace, [
        ...DEPLOYMENT_KINDS,
        ...LASTING_KINDS,
        ...this.#routeKinds,
      ])) {
        const deployment = deploymentIdOf(object)
        if (deployment === undefined) continue
        found.add(deployment)
        this.#namespaces.set(deployment, namespace)
      }
    return [...found]
  }

  async findNamespace(deployment: string): Promise<string | null> {
    const known = this.#namespaces.get(deployment)
    if (known !== undefined) return known
    for (const namespace of this.#settings.namespaces)
      if ((await this.listRemains(namespace, deployment)).length > 0) {
        this.#namespaces.set(deployment, namespace)
        return namespace
      }
    return null
  }

  async #listOwned(namespace: string, kinds: readonly Kind[], deployment?: string): Promise<KubernetesObject[]> {
    return (await Promise.all(kinds.map(kind => this.#cluster.listOwned(kind, namespace, deployment)))).flat()
  }

  async listObserved(namespace: string, deployment: string): Promise<ObservedObjects> {
    const found = await this.#listOwned(namespace, DEPLOYMENT_KINDS, deployment)
    const of = <T extends KubernetesObject>(kind: Kind) => found.filter(one => one.kind === kind) as T[]
    return {
      ...{ deployments: of('Deployment'), sets: of('StatefulSet'), pods: of('Pod'), services: of('Service') },
      others: REVISION_KINDS.flatMap(kind => of(kind)),
    }
  }

  listRoutes(namespace: string, deployment: string): Promise<KubernetesObject[]> {
    return this.#listOwned(namespace, this.#routeKinds, deployment)
  }

  /**
   * The control plane gives a host to one workspace. In case it is wrong, whoever has it in this cluster first keeps
   * it; and a host that has just moved is free in a moment.
   */
  async checkHosts({ tenant_id, custom_url }: RevisionSpec, routes: KubernetesObject[]): Promise<void> {
    if (custom_url === null || routes.length === 0) return
    const wanted = new Set(routes.flatMap(hostsOf))
    for (const namespace of this.#settings.namespaces)
      for (const other of await this.#listOwned(namespace, this.#routeKinds)) {
        const host = hostsOf(other).find(one => wanted.has(one))
        if (host !== undefined && labelOf(other, TENANT_LABEL) !== tenant_id)
          throw new TransientError(`The host ${host} is still served for another workspace in this cluster.`)
      }
  }

  listRemains(namespace: string, deployment: string): Promise<KubernetesObject[]> {
    return this.#listOwned(namespace, [...DEPLOYMENT_KINDS, ...LASTING_KINDS, ...this.#routeKinds], deployment)
  }

  /** Tells in which namespace the deployment is before anything of it is there. */
  async apply(
    unit: RevisionSpec,
    object: KubernetesObject,
    adjust?: (there: KubernetesObject) => KubernetesObject | null,
  ): Promise<string | null> {
    this.#namespaces.set(unit.deployment_id, namespaceOf(this.#settings, unit))
    return this.#cluster.apply(object, adjust)
  }

  dryRunApply(object: KubernetesObject): Promise<void> {
    return this.#cluster.dryRunApply(object)
  }

  /** What is secret of it, where it is there. */
  async readStoreSecrets(unit: RevisionSpec, { component }: StoreObjects): Promise<string[]> {
    const secret = await this.#cluster.read('Secret', namespaceOf(this.#settings, unit), storeName(unit, component))
    const { data = {} } = (secret ?? {}) as V1Secret
    return Object.values(data).map(value => Buffer.from(value, 'base64').toString())
  }

  /** The password that is there stays; one is made only where there is certainly none, and no data that has another. */
  async ensureStore(unit: RevisionSpec, store: StoreObjects): Promise<string[]> {
    const namespace = namespaceOf(this.#settings, unit)
    const name = storeName(unit, store.component)
    if ((await this.#cluster.read('Secret', namespace, name)) === null) {
      if (store.component === 'database' && (await this.#cluster.read('PersistentVolumeClaim', namespace, name)))
        throw new PermanentError(
          `The data of the database is there, and the Secret ${name} with its password is not: bring that back, with the members password and uri.`,
        )
      await this.apply(unit, store.secret(randomBytes(24).toString('base64url')), () => null)
    }
    const conflicts: (string | null)[] = []
    for (const object of store.objects)
      conflicts.push(
        await this.apply(unit, object, there => {
          // Revisions share it, and an older one that still serves takes nothing back.
          if (Number(there.metadata?.annotations?.[DECIDED_BY_REVISION] ?? 0) > unit.number) return null
          return object.kind === 'PersistentVolumeClaim'
            ? withLargerStorage(object as V1PersistentVolumeClaim, there)
            : object
        }),
      )
    return conflicts.filter(conflict => conflict !== null)
  }

  /**
   * Twice the same list is no proof: it returns once the cluster has confirmed that nothing is there any more. Whoever
   * looks again need not wait for pods that are ending, and then has the rest removed.
   */
  async removeAll(namespace: string, deployment: string, which: ObjectFilter, waits = true): Promise<void> {
    const left = async () => (await this.listRemains(namespace, deployment)).filter(which)
    await this.#repeatUntil(async () => {
      const objects = await left()
      const first = objects
        .filter(({ kind }) => POD_CREATING_KINDS.has(kind))
        .sort((a, b) => removalOrder(a) - removalOrder(b))
      for (const one of first) await this.#cluster.remove(one)
      return objects.every(one =>
        one.kind === 'Pod' ? !waits && isTerminating(one) : !POD_CREATING_KINDS.has(one.kind),
      )
    })
    if ((await left()).some(({ kind }) => kind === 'Pod')) return
    await this.#repeatUntil(async () => {
      const objects = await left()
      for (const one of objects) await this.#cluster.remove(one)
      return objects.length === 0
    })
  }

  async #repeatUntil(done: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + (GRACE_SECONDS + 90) * 1000
    while (!(await done())) {
      if (Date.now() > deadline) throw new Error('Its objects are still being removed.')
      await delay(this.#pauseMs)
    }
  }

  async remove(objects: KubernetesObject[]): Promise<void> {
    for (const one of objects) await this.#cluster.remove(one)
  }

  forget(deployment: string): void {
    this.#namespaces.delete(deployment)
  }

  /** What the cluster said of pods that are not ready. */
  async listEvents(namespace: string, pods: V1Pod[]): Promise<CoreV1Event[]> {
    const unready = pods.filter(
      ({ metadata, status }) => !metadata?.deletionTimestamp && !status?.containerStatuses?.every(one => one.ready),
    )
    const asked = unready
      .slice(0, 3)
      .map(({ metadata }) =>
        this.#cluster.list<CoreV1Event>('Event', namespace, { fields: `involvedObject.uid=${metadata!.uid}` }),
      )
    return (await Promise.all(asked)).flat()
  }

  async describeFinding(namespace: string, { reason, log }: Finding): Promise<string> {
    if (log === null) return reason
    return withLog(reason, await this.#cluster.tailLog(namespace, log.pod, log.container, log.previous, LOG_TAIL_LINES))
  }
}

/** The application’s own Deployment is the last: as long as it is there, the revision is seen. */
const removalOrder = (one: KubernetesObject) =>
  one.kind === 'HorizontalPodAutoscaler' ? 0 : labelOf(one, COMPONENT_LABEL) === 'web' ? 2 : 1

/** A volume can grow, and never shrink or move. */
function withLargerStorage(wanted: V1PersistentVolumeClaim, there: V1PersistentVolumeClaim): V1PersistentVolumeClaim {
  const sizeOf = ({ spec }: V1PersistentVolumeClaim) => spec?.resources?.requests?.storage ?? '0'
  const [asked, has] = [sizeOf(wanted), sizeOf(there)]
  const storage = quantityBytes(asked) > quantityBytes(has) ? asked : has
  const { storageClassName: _, ...spec } = wanted.spec!
  const kept = there.spec?.storageClassName
  return {
    ...wanted,
    spec: { ...spec, ...(kept !== undefined && { storageClassName: kept }), resources: { requests: { storage } } },
  }
}

/** Of a quantity, which a cluster writes its own way: 2048Gi comes back as 2Ti. */
function quantityBytes(quantity: string): number {
  const [, amount, prefix, binary] = /^([\d.]+)([kKMGTPE]?)(i?)$/.exec(quantity) ?? []
  const power = ['', 'k', 'm', 'g', 't', 'p', 'e'].indexOf(prefix?.toLowerCase() ?? '')
  return Number(amount ?? quantity) * (binary ? 1024 : 1000) ** power
}
