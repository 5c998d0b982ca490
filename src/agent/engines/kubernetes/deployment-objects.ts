// A deployment's objects in the cluster: finds them by label, applies them, and removes them in two phases.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { CoreV1Event, KubernetesObject, V1PersistentVolumeClaim, V1Pod, V1Secret } from '@kubernetes/client-node'
import { PermanentError, type RevisionRef, type RevisionSpec, TransientError } from '../../engine.ts'
import { WEB } from '../process-types.ts'
import { parseMemory } from '../quantities.ts'
import { type Cluster, deploymentIdOf, type Kind } from './cluster.ts'
import { isNameOfAnother, listNamedObjects } from './named-objects.ts'
import {
  baseName,
  COMPONENT_LABEL,
  DECIDED_BY_REVISION,
  MANAGED_BY_LABEL,
  MANAGER,
  namespaceOf,
  ownerLabels,
  REVISION_LABEL,
  storeName,
  TENANT_LABEL,
} from './names.ts'
import { isTerminating, labelOf, type ObservedObjects } from './observed-status.ts'
import { type Finding, withLog } from './pod-failures.ts'
import { GRACE_SECONDS } from './pod-template.ts'
import { hostsOf } from './routing.ts'
import type { KubernetesSettings } from './settings.ts'
import type { StoreObjects } from './store-objects.ts'

/** They show a revision that has no Deployment yet, or no longer has one. */
const REVISION_KINDS = ['Secret', 'ServiceAccount', 'HorizontalPodAutoscaler'] as const satisfies Kind[]
/** A complete deployment has at least one of these. */
const DEPLOYMENT_KINDS = ['Deployment', 'StatefulSet', 'Pod', 'Service', ...REVISION_KINDS] as const
/** No revision is observed by these. */
const LASTING_KINDS = ['NetworkPolicy', 'PersistentVolumeClaim', 'Job', 'CronJob'] as const
/** The kinds that are removed first. Objects that pods use are removed after the pods. */
const POD_CREATING_KINDS = new Set<string | undefined>([
  'HorizontalPodAutoscaler',
  'ScaledObject',
  'Deployment',
  'StatefulSet',
  'CronJob',
  'Job',
])
/** A role from before them lets the agent create none, so there is none to see. Nor are there any without KEDA. */
const LATE_KINDS = new Set<Kind>(['Job', 'CronJob', 'ScaledObject'])
const LOG_TAIL_LINES = 12

type ObjectFilter = (object: KubernetesObject) => boolean

export class DeploymentObjects {
  readonly #cluster: Cluster
  readonly #settings: KubernetesSettings
  readonly #pauseMs: number
  /** A cache: the namespace of a deployment never changes. */
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
    const list = (kind: Kind) => this.#cluster.listOwned(kind, namespace, deployment)
    const all =
      this.#cluster.mayHaveKeda && kinds.includes('HorizontalPodAutoscaler') ? [...kinds, 'ScaledObject'] : kinds
    return (
      await Promise.all(
        (all as Kind[]).map(kind => (LATE_KINDS.has(kind) ? list(kind).catch(noneIfForbidden) : list(kind))),
      )
    ).flat()
  }

  async listObserved(namespace: string, deployment: string): Promise<ObservedObjects> {
    const found = await this.#listOwned(namespace, DEPLOYMENT_KINDS, deployment)
    const of = <T extends KubernetesObject>(kind: Kind) => found.filter(one => one.kind === kind) as T[]
    return {
      deployments: of('Deployment'),
      sets: of('StatefulSet'),
      pods: of('Pod'),
      services: of('Service'),
      others: [...REVISION_KINDS, 'ScaledObject' as const].flatMap(kind => of(kind)),
    }
  }

  listRoutes(namespace: string, deployment: string): Promise<KubernetesObject[]> {
    return this.#listOwned(namespace, this.#routeKinds, deployment)
  }

  /** The control plane checks hosts too. The error is transient: a host that moves between workspaces is free soon. */
  async checkHosts({ tenant_id, ...spec }: RevisionSpec, routes: KubernetesObject[]): Promise<void> {
    // The name of the first has a part of the deployment's id.
    const wanted = new Set(routes.filter(({ metadata }) => metadata!.name !== baseName(spec)).flatMap(hostsOf))
    if (wanted.size === 0) return
    for (const namespace of this.#settings.namespaces)
      for (const other of await this.#listOwned(namespace, this.#routeKinds)) {
        const host = hostsOf(other).find(otherHost => wanted.has(otherHost))
        if (host !== undefined && labelOf(other, TENANT_LABEL) !== tenant_id)
          throw new TransientError(`The host ${host} still serves another workspace in this cluster.`)
      }
  }

  /** Keeps a deployment from naming the Secrets and volumes that an agent made for another one in its namespace. */
  async checkNamedObjects(spec: RevisionSpec): Promise<void> {
    const namespace = namespaceOf(this.#settings, spec)
    for (const { kind, name, path } of listNamedObjects(spec)) {
      const object = await this.#cluster.read(kind, namespace, name)
      const isMade = object !== null && labelOf(object, MANAGED_BY_LABEL) === MANAGER
      if (isMade ? deploymentIdOf(object) !== spec.deployment_id : isNameOfAnother(name, spec))
        throw new PermanentError(
          `\`${path}\` names the ${kind} ${name}, which belongs to another deployment. Remove it.`,
        )
    }
  }

  listRemains(namespace: string, deployment: string): Promise<KubernetesObject[]> {
    return this.#listOwned(namespace, [...DEPLOYMENT_KINDS, ...LASTING_KINDS, ...this.#routeKinds], deployment)
  }

  async apply(
    spec: RevisionSpec,
    object: KubernetesObject,
    adjust?: (existing: KubernetesObject) => KubernetesObject | null,
  ): Promise<string | null> {
    this.#namespaces.set(spec.deployment_id, namespaceOf(this.#settings, spec))
    return this.#cluster.apply(object, adjust)
  }

  dryRunApply(object: KubernetesObject): Promise<void> {
    return this.#cluster.dryRunApply(object)
  }

  async readStoreSecrets(spec: RevisionSpec, { component }: StoreObjects): Promise<string[]> {
    const secret = await this.#cluster.read('Secret', namespaceOf(this.#settings, spec), storeName(spec, component))
    const { data = {} } = (secret ?? {}) as V1Secret
    return Object.values(data).map(value => Buffer.from(value, 'base64').toString())
  }

  listClaims(namespace: string, deployment: string): Promise<V1PersistentVolumeClaim[]> {
    return this.#cluster.listOwned<V1PersistentVolumeClaim>('PersistentVolumeClaim', namespace, deployment)
  }

  /** The Secret of a store with its URI, by labels. */
  async readStoreSecret(namespace: string, deployment: string, component: string): Promise<V1Secret | undefined> {
    const labels = { ...ownerLabels(this.#settings, deployment), [COMPONENT_LABEL]: component }
    return (await this.#cluster.list<V1Secret>('Secret', namespace, { labels }))[0]
  }

  /** Creates a password only if there is none, and no data that was created with another one. */
  async ensureStore(spec: RevisionSpec, store: StoreObjects): Promise<string[]> {
    const namespace = namespaceOf(this.#settings, spec)
    const name = storeName(spec, store.component)
    if ((await this.#cluster.read('Secret', namespace, name)) === null) {
      if (store.component === 'database' && (await this.#cluster.read('PersistentVolumeClaim', namespace, name)))
        throw new PermanentError(
          `The database has data, but the Secret ${name} with its password is missing. ` +
            `Restore that Secret with the keys \`password\` and \`uri\`.`,
        )
      await this.apply(spec, store.secret(randomBytes(24).toString('base64url')), () => null)
    }
    const conflicts: (string | null)[] = []
    for (const object of store.objects)
      conflicts.push(
        await this.apply(spec, object, existing => {
          // Revisions share a store. An older revision that still serves must not undo a newer one's changes.
          if (Number(existing.metadata?.annotations?.[DECIDED_BY_REVISION] ?? 0) > spec.number) return null
          return object.kind === 'PersistentVolumeClaim'
            ? withLargerStorage(object as V1PersistentVolumeClaim, existing)
            : object
        }),
      )
    return conflicts.filter(conflict => conflict !== null)
  }

  /** Returns once no object is left. Without `waits`, pods may still terminate, and the caller repeats it. */
  async removeAll(namespace: string, deployment: string, filter: ObjectFilter, waits = true): Promise<void> {
    const listLeft = async () => (await this.listRemains(namespace, deployment)).filter(filter)
    await this.#repeatUntil(async () => {
      const objects = await listLeft()
      const podCreators = objects
        .filter(({ kind }) => POD_CREATING_KINDS.has(kind))
        .sort((a, b) => removalOrder(a) - removalOrder(b))
      await this.remove(podCreators)
      return objects.every(object =>
        object.kind === 'Pod' ? !waits && isTerminating(object) : !POD_CREATING_KINDS.has(object.kind),
      )
    })
    if ((await listLeft()).some(({ kind }) => kind === 'Pod')) return
    await this.#repeatUntil(async () => {
      const objects = await listLeft()
      await this.remove(objects)
      return objects.length === 0
    })
  }

  /** Ends the processes besides the one that listens of all revisions but this one. Returns when they have ended. */
  async removeOthers(namespace: string, { deployment_id, revision_id }: RevisionRef): Promise<void> {
    const isOther = (object: KubernetesObject) =>
      ![undefined, revision_id].includes(labelOf(object, REVISION_LABEL)) && labelOf(object, COMPONENT_LABEL) !== WEB
    await this.#repeatUntil(async () => {
      const kinds = ['HorizontalPodAutoscaler', 'Deployment', 'Pod'] as const
      const left = (await this.#listOwned(namespace, kinds, deployment_id)).filter(
        object => isOther(object) && labelOf(object, COMPONENT_LABEL) !== undefined,
      )
      await this.remove(left.filter(({ kind }) => kind !== 'Pod'))
      return left.length === 0
    })
  }

  async #repeatUntil(isDone: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + (GRACE_SECONDS + 90) * 1000
    while (!(await isDone())) {
      if (Date.now() > deadline)
        throw new Error('The cluster is still removing objects of the deployment. Check their finalizers.')
      await delay(this.#pauseMs)
    }
  }

  async remove(objects: KubernetesObject[]): Promise<void> {
    for (const object of objects) await this.#cluster.remove(object)
  }

  forget(deployment: string): void {
    this.#namespaces.delete(deployment)
  }

  /** The events of pods that are not ready, of three at most. */
  async listEvents(namespace: string, pods: V1Pod[]): Promise<CoreV1Event[]> {
    const unready = pods.filter(
      ({ metadata, status }) => !metadata?.deletionTimestamp && !status?.containerStatuses?.every(({ ready }) => ready),
    )
    const requests = unready
      .slice(0, 3)
      .map(({ metadata }) =>
        this.#cluster.list<CoreV1Event>('Event', namespace, { fields: `involvedObject.uid=${metadata!.uid}` }),
      )
    return (await Promise.all(requests)).flat()
  }

  async describeFinding(namespace: string, { reason, log }: Finding): Promise<string> {
    if (log === null) return reason
    return withLog(reason, await this.#cluster.tailLog(namespace, log.pod, log.container, log.previous, LOG_TAIL_LINES))
  }
}

export function noneIfForbidden(error: unknown): [] {
  if (error instanceof PermanentError) return []
  throw error
}

/** The application's Deployment is removed last, because the revision is observed by it. */
const removalOrder = (object: KubernetesObject) =>
  object.kind === 'HorizontalPodAutoscaler' || object.kind === 'ScaledObject' || object.kind === 'CronJob'
    ? 0
    : labelOf(object, COMPONENT_LABEL) === 'web'
      ? 2
      : 1

/** A volume can grow, but not shrink or change its storage class, access modes or the snapshot that it was made of. */
export function withLargerStorage(
  wanted: V1PersistentVolumeClaim,
  existing: V1PersistentVolumeClaim,
): V1PersistentVolumeClaim {
  const sizeOf = ({ spec }: V1PersistentVolumeClaim) => spec?.resources?.requests?.storage ?? '0'
  const [wantedSize, existingSize] = [sizeOf(wanted), sizeOf(existing)]
  const storage = parseMemory(wantedSize) > parseMemory(existingSize) ? wantedSize : existingSize
  const { storageClassName: _, ...spec } = wanted.spec!
  const { storageClassName, accessModes = spec.accessModes, dataSource } = existing.spec ?? {}
  return {
    ...wanted,
    spec: {
      ...spec,
      ...(accessModes && { accessModes }),
      ...(storageClassName !== undefined && { storageClassName }),
      ...(dataSource && { dataSource }),
      resources: { requests: { storage } },
    },
  }
}
