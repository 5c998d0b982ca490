// The cluster's API as the engine uses it: what is ours is applied, listed, watched and removed, and a refusal becomes a sentence.
import {
  ApiException,
  CoreV1Api,
  type KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  ListWatch,
  PatchStrategy,
  Watch,
} from '@kubernetes/client-node'
import { PermanentError, TransientError } from '../engine.ts'
import {
  DEPLOYMENT_LABEL,
  MANAGED_BY_LABEL,
  MANAGER,
  MIN_SCALE,
  OWNER_LABEL,
  ownerLabels,
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
  HorizontalPodAutoscaler: 'autoscaling/v2',
  Ingress: 'networking.k8s.io/v1',
  NetworkPolicy: 'networking.k8s.io/v1',
  HTTPRoute: 'gateway.networking.k8s.io/v1',
} as const
export type Kind = keyof typeof API_VERSIONS
/** How many a list brings at once. */
const PAGE_SIZE = 500
const RETRY_MS = 2000

/** The client's parameters go by position: for those that are of no use here. */
const UNUSED = undefined

export class Cluster {
  readonly config: KubeConfig
  readonly #objects: KubernetesObjectApi
  readonly #core: CoreV1Api
  readonly #owner: string

  constructor(config: KubeConfig, owner: string) {
    this.config = config
    this.#objects = KubernetesObjectApi.makeApiClient(config)
    this.#core = config.makeApiClient(CoreV1Api)
    this.#owner = owner
  }

  isOwned({ metadata }: KubernetesObject): boolean {
    return metadata?.labels?.[MANAGED_BY_LABEL] === MANAGER && metadata.labels[OWNER_LABEL] === this.#owner
  }

  /** Null says that it is not there, and not that it could not be asked for. */
  async read<T extends KubernetesObject>(kind: Kind, namespace: string, name: string): Promise<T | null> {
    const asked = this.#objects.read({ apiVersion: API_VERSIONS[kind], kind, metadata: { namespace, name } })
    return (await asked.catch(nullIfAbsent(kind, name))) as T | null
  }

  async list<T extends KubernetesObject>(
    kind: Kind,
    namespace: string,
    { labels, fields }: { labels?: Record<string, string>; fields?: string } = {},
  ): Promise<T[]> {
    const items: T[] = []
    let from: string | undefined
    do {
      const selector = labels && selectorOf(labels)
      const page = await this.#objects
        .list<T>(API_VERSIONS[kind], kind, namespace, UNUSED, UNUSED, UNUSED, fields, selector, PAGE_SIZE, from)
        .catch(fault => Promise.reject(toEngineError(fault, `list ${kind} in ${namespace}`)))
      items.push(...withKind(kind, page).items)
      from = page.metadata?._continue || undefined
    } while (from !== undefined)
    return items
  }

  listOwned<T extends KubernetesObject>(kind: Kind, namespace: string, deployment?: string): Promise<T[]> {
    return this.list<T>(kind, namespace, { labels: ownerLabels({ owner: this.#owner }, deployment) })
  }

  /** Makes it, or makes it so; what it is not ours is left alone. Tells who else had changed our fields. */
  async apply<T extends KubernetesObject>(object: T, adjust?: (there: T) => T | null): Promise<string | null> {
    const { kind, metadata } = object
    const [namespace, name] = [metadata!.namespace!, metadata!.name!]
    const there = await this.read<T>(kind as Kind, namespace, name)
    if (there !== null && !this.isOwned(there))
      throw new PermanentError(
        `The namespace ${namespace} has a ${kind} ${name} that this agent did not make: remove or rename it.`,
      )
    if (there?.metadata?.deletionTimestamp) throw new TransientError(`${kind} ${name} is still being removed.`)
    const wanted = there !== null && adjust ? adjust(there) : object
    if (wanted === null) return null
    try {
      await this.#serverSideApply(wanted, false)
      const least = there === null ? metadata!.annotations?.[MIN_SCALE] : undefined
      if (least !== undefined)
        await this.#mergePatch({
          kind: kind!,
          metadata: { namespace, name },
          spec: { replicas: Number(least) },
        } as KubernetesObject)
      return null
    } catch (fault) {
      if (!(fault instanceof ApiException && fault.code === 409)) throw toEngineError(fault, `apply ${kind} ${name}`)
      await this.#serverSideApply(wanted, true).catch(again =>
        Promise.reject(toEngineError(again, `apply ${kind} ${name}`)),
      )
      return `${kind} ${name}: ${messageOf(fault)}`
    }
  }

  #serverSideApply = (object: KubernetesObject, force: boolean, dryRun?: 'All') =>
    this.#objects.patch(object, undefined, dryRun, MANAGER, force, PatchStrategy.ServerSideApply)

  /** Throws what an apply would throw, and changes nothing. */
  async dryRunApply(object: KubernetesObject): Promise<void> {
    const doing = `apply ${object.kind} ${object.metadata!.name}`
    await this.#serverSideApply(object, true, 'All').catch(fault => Promise.reject(toEngineError(fault, doing)))
  }

  annotate({ kind, metadata }: KubernetesObject, annotations: Record<string, string>): Promise<void> {
    const { namespace, name } = metadata!
    return this.#mergePatch({ kind: kind!, metadata: { namespace: namespace!, name: name!, annotations } })
  }

  /** Writes what is not said for good: by a manager of its own, so that the next apply leaves it. Nothing, where it is gone. */
  async #mergePatch({ kind, metadata, ...more }: KubernetesObject): Promise<void> {
    const { namespace, name, annotations } = metadata!
    const at = { namespace: namespace!, name: name!, ...(annotations && { annotations }) }
    const noted = { ...more, apiVersion: API_VERSIONS[kind as Kind], kind: kind!, metadata: at }
    const asked = this.#objects.patch(
      noted,
      ...([undefined, undefined, `${MANAGER}-notes`, undefined, PatchStrategy.MergePatch] as const),
    )
    await asked.catch(nullIfAbsent(kind!, name!))
  }

  /** Removes exactly what was seen: not what may have come in its place since. */
  async remove({ kind, metadata }: KubernetesObject): Promise<void> {
    const object = { apiVersion: API_VERSIONS[kind as Kind], kind: kind!, metadata: metadata! }
    const { uid } = metadata!
    const body = { preconditions: { ...(uid !== undefined && { uid }) }, propagationPolicy: 'Background' }
    try {
      await this.#objects.delete(object, ...([undefined, undefined, undefined, undefined, undefined] as const), body)
    } catch (fault) {
      if (fault instanceof ApiException && (fault.code === 404 || fault.code === 409)) return
      throw toEngineError(fault, `delete ${kind} ${metadata!.name}`)
    }
  }

  /** The last lines; none where there are none, for whatever reason. */
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

  /** Tells of each change, and begins again when the connection or its place is lost. */
  watch(kind: Kind, namespace: string, changed: (object: KubernetesObject, gone: boolean) => void): () => void {
    const version = API_VERSIONS[kind]
    const path = `${version === 'v1' ? '/api' : '/apis'}/${version}/namespaces/${namespace}/${kind.toLowerCase()}s`
    const selector = selectorOf(ownerLabels({ owner: this.#owner }))
    const list = async () =>
      withKind(kind, await this.#objects.list(version, kind, namespace, UNUSED, UNUSED, UNUSED, UNUSED, selector))
    let timer: NodeJS.Timeout | undefined
    let stopped = false
    const start = () => {
      if (!stopped) informer.start().catch(again)
    }
    const again = () => {
      clearTimeout(timer)
      if (!stopped) timer = setTimeout(start, RETRY_MS).unref()
    }
    const watch = new Watch(this.config)
    const ask = watch.watch.bind(watch)
    watch.watch = async (...asked) => {
      // Beginning again by itself, the informer catches nothing: a login that fails is to be an error like any other.
      const request = await ask(...asked).catch(fault => {
        void asked[3](fault)
        return new AbortController()
      })
      // The informer only ends what it had been given by then.
      if (stopped) request.abort()
      return request
    }
    const informer = new ListWatch<KubernetesObject>(path, watch, list, false, selector)
    const tell = (gone: boolean) => (object: KubernetesObject) => {
      if (!stopped) changed(object, gone)
    }
    informer.on('add', tell(false))
    informer.on('update', tell(false))
    informer.on('delete', tell(true))
    informer.on('error', again)
    start()
    return () => {
      stopped = true
      clearTimeout(timer)
      void informer.stop()
    }
  }
}

/** A list names no kind, as everything in it is of one. */
function withKind<List extends { items: KubernetesObject[] }>(kind: Kind, list: List): List {
  for (const item of list.items) Object.assign(item, { apiVersion: API_VERSIONS[kind], kind })
  return list
}

const nullIfAbsent = (kind: string, name: string) => (fault: unknown) => {
  // Its own name is in the answer: neither its namespace nor its kind is what is missing.
  if (
    fault instanceof ApiException &&
    fault.code === 404 &&
    messageOf(fault).includes(`"${name}" not found`) &&
    !isNamespaceError(fault)
  )
    return null
  throw toEngineError(fault, `read ${kind} ${name}`)
}
const isNamespaceError = (fault: ApiException<unknown>) => /^namespaces? /.test(messageOf(fault))

export const deploymentIdOf = ({ metadata }: KubernetesObject) => metadata?.labels?.[DEPLOYMENT_LABEL]

function messageOf({ body }: ApiException<unknown>): string {
  const told = typeof body === 'string' ? parseJson(body) : body
  const message = (told as { message?: unknown } | null)?.message
  return typeof message === 'string' ? message : typeof body === 'string' ? body.slice(0, 500) : ''
}
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function suggestChange(doing: string): string {
  if (/ (Ingress|HTTPRoute) /.test(doing)) return 'Change custom_url.'
  return / Secret /.test(doing) ? 'Change the secrets.' : 'Change what resource_spec says of it.'
}

/** Server-side apply answers 500 to what does not fit a type: a name that is there twice, a quantity that is none. */
const INVALID_OBJECT = /^failed to (create typed patch object|convert new )/

/** A refusal that stands is told to whoever wanted it; whatever may pass is tried again. */
export function toEngineError(fault: unknown, doing: string): Error {
  if (!(fault instanceof ApiException)) {
    const cause = fault instanceof Error ? fault : new Error(String(fault))
    return new TransientError(`The cluster was not reached to ${doing}: ${cause.message}`, { cause })
  }
  const { code } = fault
  const message = messageOf(fault)
  if (code === 403 && /exceeded quota/.test(message))
    return new PermanentError(
      `The namespace’s quota is used up (${message}). Ask for less in resource_spec, or have the quota raised.`,
    )
  if (code === 403 && /because it is being terminated/.test(message))
    return new PermanentError(`The namespace is being deleted (${message}). Deploy to another one.`)
  // Whoever may do it is told by an admission controller, in the same code, that this object is not let in.
  if (code === 403 && message !== '' && !/User "[^"]*" cannot /.test(message))
    return new PermanentError(`The cluster refuses to ${doing}: ${message}. ${suggestChange(doing)}`)
  if (code === 403 || code === 401)
    return new PermanentError(
      `The cluster does not let the agent ${doing} (${message || code}). Its operator has to grant that to the agent’s service account.`,
    )
  if (code === 404 && isNamespaceError(fault))
    return new PermanentError(`The cluster has no such namespace (${message}). Its operator has to create it.`)
  if (code === 404)
    return new PermanentError(
      `The cluster does not know what is needed to ${doing}. Its operator has to install that, or set the agent up without it.`,
    )
  if (code === 400 || code === 413 || code === 422 || (code === 500 && INVALID_OBJECT.test(message)))
    return new PermanentError(`The cluster refuses to ${doing}: ${message}. ${suggestChange(doing)}`)
  return new TransientError(`The cluster answered ${code} when asked to ${doing}: ${message}`)
}
