// The client of the cluster's API: applies, lists, watches and removes the agent's objects, and explains API errors.
import {
  ApiException,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  ListWatch,
  PatchStrategy,
  type V1Deployment,
  Watch,
} from '@kubernetes/client-node'
import { PermanentError, TransientError } from '../../engine.ts'
import { EXCEEDED_QUOTA, isNamespaceError, messageOf, NO_PERMISSION, toEngineError } from './cluster-errors.ts'
import {
  DEPLOYMENT_LABEL,
  MANAGED_BY_LABEL,
  MANAGER,
  MIN_SCALE,
  OWNER_LABEL,
  ownerLabels,
  scaledObjectName,
  selectorOf,
} from './names.ts'

export const API_VERSIONS = {
  Pod: 'v1',
  Service: 'v1',
  Secret: 'v1',
  ServiceAccount: 'v1',
  PersistentVolumeClaim: 'v1',
  Event: 'v1',
  Deployment: 'apps/v1',
  StatefulSet: 'apps/v1',
  Job: 'batch/v1',
  CronJob: 'batch/v1',
  HorizontalPodAutoscaler: 'autoscaling/v2',
  Ingress: 'networking.k8s.io/v1',
  NetworkPolicy: 'networking.k8s.io/v1',
  HTTPRoute: 'gateway.networking.k8s.io/v1',
  ScaledObject: 'keda.sh/v1alpha1',
  VolumeSnapshot: 'snapshot.storage.k8s.io/v1',
} as const
export type Kind = keyof typeof API_VERSIONS
const PAGE_SIZE = 500
const RETRY_MS = 2000

/** An admission controller answers `refused`. `forbidden` means that the agent may not create such an object. */
export type CreationVerdict = { outcome: 'admitted' | 'refused' | 'forbidden'; message: string }

type PodMetrics = { metadata: { name: string }; containers: { usage?: { cpu?: unknown; memory?: unknown } }[] }

/** Owns fields that an apply by MANAGER leaves as they are. */
const SECOND_MANAGER = `${MANAGER}-notes`

/** For unused positional parameters of the client. */
const UNUSED = undefined

export class Cluster {
  readonly config: KubeConfig
  readonly #objects: KubernetesObjectApi
  readonly #core: CoreV1Api
  readonly #custom: CustomObjectsApi
  readonly #owner: string
  /** False: it certainly has none, or the agent may not use its ScaledObjects. */
  mayHaveKeda = false

  constructor(config: KubeConfig, owner: string) {
    this.config = config
    this.#objects = KubernetesObjectApi.makeApiClient(config)
    this.#core = config.makeApiClient(CoreV1Api)
    this.#custom = config.makeApiClient(CustomObjectsApi)
    this.#owner = owner
  }

  isOwned({ metadata }: KubernetesObject): boolean {
    return metadata?.labels?.[MANAGED_BY_LABEL] === MANAGER && metadata.labels[OWNER_LABEL] === this.#owner
  }

  /** Null only if the object certainly does not exist; a failed request throws. */
  async read<T extends KubernetesObject>(kind: Kind, namespace: string, name: string): Promise<T | null> {
    const response = this.#objects.read({ apiVersion: API_VERSIONS[kind], kind, metadata: { namespace, name } })
    return (await response.catch(nullIfAbsent(kind, name))) as T | null
  }

  async list<T extends KubernetesObject>(
    kind: Kind,
    namespace: string,
    { labels, fields }: { labels?: Record<string, string>; fields?: string } = {},
  ): Promise<T[]> {
    const items: T[] = []
    let cursor: string | undefined
    do {
      const selector = labels && selectorOf(labels)
      const page = await this.#objects
        .list<T>(API_VERSIONS[kind], kind, namespace, UNUSED, UNUSED, UNUSED, fields, selector, PAGE_SIZE, cursor)
        .catch(error => Promise.reject(toEngineError(error, `list ${kind} in ${namespace}`)))
      items.push(...withKind(kind, page).items)
      cursor = page.metadata?._continue || undefined
    } while (cursor !== undefined)
    return items
  }

  listOwned<T extends KubernetesObject>(kind: Kind, namespace: string, deployment?: string): Promise<T[]> {
    return this.list<T>(kind, namespace, { labels: ownerLabels({ owner: this.#owner }, deployment) })
  }

  /**
   * Creates or updates an object of this agent, unless `adjust` returns null for the existing one. If another manager
   * had changed the agent's fields, they are changed back and the conflict is returned.
   */
  async apply<T extends KubernetesObject>(object: T, adjust?: (existing: T) => T | null): Promise<string | null> {
    const { kind, metadata } = object
    const [namespace, name] = [metadata!.namespace!, metadata!.name!]
    const existing = await this.read<T>(kind as Kind, namespace, name)
    if (existing !== null && !this.isOwned(existing))
      throw new PermanentError(
        `The namespace ${namespace} has a ${kind} ${name} that this agent did not create. Remove or rename it.`,
      )
    if (existing?.metadata?.deletionTimestamp) throw new TransientError(`${kind} ${name} is still being removed.`)
    const wanted = existing !== null && adjust ? adjust(existing) : object
    if (wanted === null) return null
    await this.#removeOtherScaler(wanted)
    const isForced = existing !== null && (await this.#changeScaler(existing, wanted))
    try {
      await this.#serverSideApply(wanted, isForced)
      const minScale = existing === null ? metadata!.annotations?.[MIN_SCALE] : undefined
      if (minScale !== undefined)
        await this.#mergePatch({
          kind: kind!,
          metadata: { namespace, name },
          spec: { replicas: Number(minScale) },
        } as KubernetesObject)
      return null
    } catch (error) {
      if (!(error instanceof ApiException && error.code === 409)) throw toEngineError(error, `apply ${kind} ${name}`)
      await this.#serverSideApply(wanted, true).catch(forceError =>
        Promise.reject(toEngineError(forceError, `apply ${kind} ${name}`)),
      )
      return `${kind} ${name}: ${messageOf(error)}`
    }
  }

  #serverSideApply = (object: KubernetesObject, force: boolean, dryRun?: 'All', manager = MANAGER) =>
    this.#objects.patch(object, undefined, dryRun, manager, force, PatchStrategy.ServerSideApply)

  /**
   * A Deployment whose scale has changed may get an autoscaler, or lose it. Returns true if its number of replicas has
   * to be taken back from the autoscaler.
   */
  async #changeScaler(existing: KubernetesObject, wanted: KubernetesObject): Promise<boolean> {
    if (existing.kind !== 'Deployment') return false
    const [before, after] = [existing, wanted].map(({ metadata }) => metadata?.annotations?.[MIN_SCALE])
    const { namespace, name } = existing.metadata!
    if (before !== undefined && after === undefined) {
      await this.remove({ kind: 'HorizontalPodAutoscaler', metadata: { namespace: namespace!, name: name! } })
      await this.#removeOwned('ScaledObject', namespace!, scaledObjectName(name!))
      return true
    }
    if (before === undefined && after !== undefined) {
      // A field that no manager owns any more returns to its default, which is one replica.
      const replicas = Math.max(Number(after), (existing as V1Deployment).spec?.replicas ?? 1)
      const scaled = {
        apiVersion: wanted.apiVersion!,
        kind: wanted.kind!,
        metadata: { namespace, name },
        spec: { replicas },
      }
      const action = `scale Deployment ${name}`
      await this.#serverSideApply(scaled as KubernetesObject, true, undefined, SECOND_MANAGER).catch(error =>
        Promise.reject(toEngineError(error, action)),
      )
    }
    return false
  }

  /** Two of them would move the same Deployment. */
  async #removeOtherScaler({ kind, metadata, ...object }: KubernetesObject): Promise<void> {
    const [namespace, name] = [metadata!.namespace!, metadata!.name!]
    if (kind === 'HorizontalPodAutoscaler') await this.#removeOwned('ScaledObject', namespace, scaledObjectName(name))
    if (kind !== 'ScaledObject') return
    const { scaleTargetRef } = (object as { spec: { scaleTargetRef: { name: string } } }).spec
    await this.#removeOwned('HorizontalPodAutoscaler', namespace, scaleTargetRef.name)
  }

  async #removeOwned(kind: Kind, namespace: string, name: string): Promise<void> {
    const found = this.mayHaveKeda ? await this.read(kind, namespace, name).catch(nullIfRefused) : null
    if (found && this.isOwned(found)) await this.remove(found)
  }

  async dryRunApply(object: KubernetesObject): Promise<void> {
    const action = `apply ${object.kind} ${object.metadata!.name}`
    await this.#serverSideApply(object, true, 'All').catch(error => Promise.reject(toEngineError(error, action)))
  }

  /** Asks the API server whether it would create the object. Throws if the answer decides nothing. */
  async dryRunCreate(object: KubernetesObject): Promise<CreationVerdict> {
    try {
      await this.#objects.create(object, UNUSED, 'All', MANAGER)
      return { outcome: 'admitted', message: '' }
    } catch (error) {
      const message = error instanceof ApiException ? messageOf(error) : ''
      const code = error instanceof ApiException ? error.code : 0
      if (code === 401 || (code === 403 && (message === '' || NO_PERMISSION.test(message))))
        return { outcome: 'forbidden', message: message || String(code) }
      // The quota is the last to be asked, and an object of this name passed the others.
      if (code === 409 || (code === 403 && EXCEEDED_QUOTA.test(message))) return { outcome: 'admitted', message }
      if (code === 400 || code === 403 || code === 422) return { outcome: 'refused', message }
      throw toEngineError(error, `check ${object.kind} ${object.metadata!.name}`)
    }
  }

  /** Null removes an annotation. */
  annotate({ kind, metadata }: KubernetesObject, annotations: Record<string, string | null>): Promise<void> {
    const { namespace, name } = metadata!
    const changed = annotations as Record<string, string>
    return this.#mergePatch({ kind: kind!, metadata: { namespace: namespace!, name: name!, annotations: changed } })
  }

  /** Ignores a Secret that is gone: it is not created again. */
  updateSecret({ metadata }: KubernetesObject, data: Record<string, string>): Promise<void> {
    const { namespace, name } = metadata!
    return this.#mergePatch({
      kind: 'Secret',
      metadata: { namespace: namespace!, name: name! },
      data,
    } as KubernetesObject)
  }

  /** Uses a field manager of its own, so that the next apply keeps these fields. Ignores an object that is gone. */
  async #mergePatch({ kind, metadata, ...more }: KubernetesObject): Promise<void> {
    const { namespace, name, annotations } = metadata!
    const patch = {
      ...more,
      apiVersion: API_VERSIONS[kind as Kind],
      kind: kind!,
      metadata: { namespace: namespace!, name: name!, ...(annotations && { annotations }) },
    }
    await this.#objects
      .patch(patch, UNUSED, UNUSED, SECOND_MANAGER, UNUSED, PatchStrategy.MergePatch)
      .catch(nullIfAbsent(kind!, name!))
  }

  /** Removes the object with this uid, not one that was created in its place since. */
  async remove({ kind, metadata }: KubernetesObject): Promise<void> {
    const object = { apiVersion: API_VERSIONS[kind as Kind], kind: kind!, metadata: metadata! }
    const { uid } = metadata!
    const body = { preconditions: { ...(uid !== undefined && { uid }) }, propagationPolicy: 'Background' }
    try {
      await this.#objects.delete(object, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED, body)
    } catch (error) {
      if (error instanceof ApiException && (error.code === 404 || error.code === 409)) return
      throw toEngineError(error, `delete ${kind} ${metadata!.name}`)
    }
  }

  /** Returns no lines if the log cannot be read. */
  async tailLog(
    namespace: string,
    name: string,
    container: string,
    previous: boolean,
    tailLines: number,
  ): Promise<string[]> {
    try {
      const text = await this.#core.readNamespacedPodLog({ namespace, name, container, previous, tailLines })
      return text.split('\n').filter(line => line.trim() !== '')
    } catch {
      return []
    }
  }

  /** The usage of the pods of this agent, by name. Null without a metrics API or a permission to read it. */
  async podMetrics(namespace: string): Promise<Map<string, PodMetrics['containers']> | null> {
    const labelSelector = selectorOf(ownerLabels({ owner: this.#owner }))
    const kind = { group: 'metrics.k8s.io', version: 'v1beta1', namespace, plural: 'pods' }
    const list = (await this.#custom.listNamespacedCustomObject({ ...kind, labelSelector }).catch(() => null)) as {
      items?: PodMetrics[]
    } | null
    return list?.items ? new Map(list.items.map(({ metadata, containers }) => [metadata.name, containers])) : null
  }

  /** False if the cluster certainly does not have the API of a kind. */
  async hasKind(kind: Kind): Promise<boolean> {
    const [group, version] = API_VERSIONS[kind].split('/') as [string, string]
    try {
      await this.#custom.getAPIResources({ group, version })
      return true
    } catch (error) {
      if (error instanceof ApiException && error.code === 404) return false
      throw toEngineError(error, `find ${kind}`)
    }
  }

  /** Objects without a namespace. Null without the permission to list them. */
  async listClusterWide<T extends KubernetesObject>(of: {
    group: string
    version: string
    plural: string
  }): Promise<T[] | null> {
    try {
      return ((await this.#custom.listClusterCustomObject(of)) as { items: T[] }).items
    } catch (error) {
      if (error instanceof ApiException && error.code === 403) return null
      throw toEngineError(error, `list ${of.plural}`)
    }
  }

  /** Reports each change, and reconnects after an error. Returns the function that stops it. */
  watch(kind: Kind, namespace: string, changed: (object: KubernetesObject, gone: boolean) => void): () => void {
    const version = API_VERSIONS[kind]
    const path = `${version === 'v1' ? '/api' : '/apis'}/${version}/namespaces/${namespace}/${kind.toLowerCase()}s`
    const selector = selectorOf(ownerLabels({ owner: this.#owner }))
    const list = async () =>
      withKind(kind, await this.#objects.list(version, kind, namespace, UNUSED, UNUSED, UNUSED, UNUSED, selector))
    let timer: NodeJS.Timeout | undefined
    let stopped = false
    const start = () => {
      if (!stopped) informer.start().catch(restart)
    }
    const restart = () => {
      clearTimeout(timer)
      if (!stopped) timer = setTimeout(start, RETRY_MS).unref()
    }
    const watch = new Watch(this.config)
    const startWatch = watch.watch.bind(watch)
    watch.watch = async (...args) => {
      // A reconnecting informer does not catch a rejection, such as a failed login: pass it to the error handler.
      const request = await startWatch(...args).catch(error => {
        const onDone = args[3]
        void onDone(error)
        return new AbortController()
      })
      // `informer.stop()` does not abort a request that was not returned yet.
      if (stopped) request.abort()
      return request
    }
    const informer = new ListWatch<KubernetesObject>(path, watch, list, false, selector)
    const notify = (gone: boolean) => (object: KubernetesObject) => {
      if (!stopped) changed(object, gone)
    }
    informer.on('add', notify(false))
    informer.on('update', notify(false))
    informer.on('delete', notify(true))
    informer.on('error', restart)
    start()
    return () => {
      stopped = true
      clearTimeout(timer)
      void informer.stop()
    }
  }
}

/** The items of a list response have no apiVersion and kind. */
function withKind<List extends { items: KubernetesObject[] }>(kind: Kind, list: List): List {
  for (const item of list.items) Object.assign(item, { apiVersion: API_VERSIONS[kind], kind })
  return list
}

const nullIfAbsent = (kind: string, name: string) => (error: unknown) => {
  // The answer names the object itself. Otherwise its namespace or its kind is missing.
  if (
    error instanceof ApiException &&
    error.code === 404 &&
    messageOf(error).includes(`"${name}" not found`) &&
    !isNamespaceError(error)
  )
    return null
  throw toEngineError(error, `read ${kind} ${name}`)
}

const nullIfRefused = (error: unknown): null => {
  if (error instanceof PermanentError) return null
  throw error
}

export const deploymentIdOf = ({ metadata }: KubernetesObject) => metadata?.labels?.[DEPLOYMENT_LABEL]

/** The configuration of kubectl, or the service account of the agent's pod. */
export function loadDefaultConfig(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  return config
}
