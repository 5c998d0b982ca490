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
import { Passing, Unworkable } from '../engine.ts'
import { DEPLOYMENT, LEAST, MANAGED_BY, MANAGER, OWNER, ownedBy, selectorOf } from './names.ts'

export const KINDS = {
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
export type Kind = keyof typeof KINDS
/** How many a list brings at once. */
const PAGE = 500
const AGAIN_MS = 2000

/** The client's parameters go by position: for those that are of no use here. */
const none = undefined

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

  isOurs({ metadata }: KubernetesObject): boolean {
    return metadata?.labels?.[MANAGED_BY] === MANAGER && metadata.labels[OWNER] === this.#owner
  }

  /** Null says that it is not there, and not that it could not be asked for. */
  async read<T extends KubernetesObject>(kind: Kind, namespace: string, name: string): Promise<T | null> {
    const asked = this.#objects.read({ apiVersion: KINDS[kind], kind, metadata: { namespace, name } })
    return (await asked.catch(absent(kind, name))) as T | null
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
        .list<T>(KINDS[kind], kind, namespace, none, none, none, fields, selector, PAGE, from)
        .catch(fault => Promise.reject(explained(fault, `list ${kind} in ${namespace}`)))
      items.push(...named(kind, page).items)
      from = page.metadata?._continue || undefined
    } while (from !== undefined)
    return items
  }

  owned<T extends KubernetesObject>(kind: Kind, namespace: string, deployment?: string): Promise<T[]> {
    return this.list<T>(kind, namespace, { labels: ownedBy({ owner: this.#owner }, deployment) })
  }

  /** Makes it, or makes it so; what it is not ours is left alone. Tells who else had changed our fields. */
  async apply<T extends KubernetesObject>(object: T, adjust?: (there: T) => T | null): Promise<string | null> {
    const { kind, metadata } = object
    const [namespace, name] = [metadata!.namespace!, metadata!.name!]
    const there = await this.read<T>(kind as Kind, namespace, name)
    if (there !== null && !this.isOurs(there))
      throw new Unworkable(
        `The namespace ${namespace} has a ${kind} ${name} that this agent did not make: remove or rename it.`,
      )
    if (there?.metadata?.deletionTimestamp) throw new Passing(`${kind} ${name} is still being removed.`)
    const wanted = there !== null && adjust ? adjust(there) : object
    if (wanted === null) return null
    try {
      await this.#apply(wanted, false)
      const least = there === null ? metadata!.annotations?.[LEAST] : undefined
      if (least !== undefined)
        await this.#note({
          kind: kind!,
          metadata: { namespace, name },
          spec: { replicas: Number(least) },
        } as KubernetesObject)
      return null
    } catch (fault) {
      if (!(fault instanceof ApiException && fault.code === 409)) throw explained(fault, `apply ${kind} ${name}`)
      await this.#apply(wanted, true).catch(again => Promise.reject(explained(again, `apply ${kind} ${name}`)))
      return `${kind} ${name}: ${messageOf(fault)}`
    }
  }

  #apply = (object: KubernetesObject, force: boolean, dryRun?: 'All') =>
    this.#objects.patch(object, undefined, dryRun, MANAGER, force, PatchStrategy.ServerSideApply)

  /** Throws what an apply would throw, and changes nothing. */
  async check(object: KubernetesObject): Promise<void> {
    const doing = `apply ${object.kind} ${object.metadata!.name}`
    await this.#apply(object, true, 'All').catch(fault => Promise.reject(explained(fault, doing)))
  }

  annotate({ kind, metadata }: KubernetesObject, annotations: Record<string, string>): Promise<void> {
    const { namespace, name } = metadata!
    return this.#note({ kind: kind!, metadata: { namespace: namespace!, name: name!, annotations } })
  }

  /** Writes what is not said for good: by a manager of its own, so that the next apply leaves it. Nothing, where it is gone. */
  async #note({ kind, metadata, ...more }: KubernetesObject): Promise<void> {
    const { namespace, name, annotations } = metadata!
    const at = { namespace: namespace!, name: name!, ...(annotations && { annotations }) }
    const noted = { ...more, apiVersion: KINDS[kind as Kind], kind: kind!, metadata: at }
    const asked = this.#objects.patch(
      noted,
      ...([undefined, undefined, `${MANAGER}-notes`, undefined, PatchStrategy.MergePatch] as const),
    )
    await asked.catch(absent(kind!, name!))
  }

  /** Removes exactly what was seen: not what may have come in its place since. */
  async remove({ kind, metadata }: KubernetesObject): Promise<void> {
    const object = { apiVersion: KINDS[kind as Kind], kind: kind!, metadata: metadata! }
    const { uid } = metadata!
    const body = { preconditions: { ...(uid !== undefined && { uid }) }, propagationPolicy: 'Background' }
    try {
      await this.#objects.delete(object, ...([undefined, undefined, undefined, undefined, undefined] as const), body)
    } catch (fault) {
      if (fault instanceof ApiException && (fault.code === 404 || fault.code === 409)) return
      throw explained(fault, `delete ${kind} ${metadata!.name}`)
    }
  }

  /** The last lines; none where there are none, for whatever reason. */
  async tail(
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
    const version = KINDS[kind]
    const path = `${version === 'v1' ? '/api' : '/apis'}/${version}/namespaces/${namespace}/${kind.toLowerCase()}s`
    const selector = selectorOf(ownedBy({ owner: this.#owner }))
    const list = async () =>
      named(kind, await this.#objects.list(version, kind, namespace, none, none, none, none, selector))
    let timer: NodeJS.Timeout | undefined
    let stopped = false
    const start = () => {
      if (!stopped) informer.start().catch(again)
    }
    const again = () => {
      clearTimeout(timer)
      if (!stopped) timer = setTimeout(start, AGAIN_MS).unref()
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
function named<List extends { items: KubernetesObject[] }>(kind: Kind, list: List): List {
  for (const item of list.items) Object.assign(item, { apiVersion: KINDS[kind], kind })
  return list
}

const absent = (kind: string, name: string) => (fault: unknown) => {
  // Its own name is in the answer: neither its namespace nor its kind is what is missing.
  if (
    fault instanceof ApiException &&
    fault.code === 404 &&
    messageOf(fault).includes(`"${name}" not found`) &&
    !isNamespace(fault)
  )
    return null
  throw explained(fault, `read ${kind} ${name}`)
}
const isNamespace = (fault: ApiException<unknown>) => /^namespaces? /.test(messageOf(fault))

export const deploymentOf = ({ metadata }: KubernetesObject) => metadata?.labels?.[DEPLOYMENT]

function messageOf({ body }: ApiException<unknown>): string {
  const told = typeof body === 'string' ? parsed(body) : body
  const message = (told as { message?: unknown } | null)?.message
  return typeof message === 'string' ? message : typeof body === 'string' ? body.slice(0, 500) : ''
}
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function changeOf(doing: string): string {
  if (/ (Ingress|HTTPRoute) /.test(doing)) return 'Change custom_url.'
  return / Secret /.test(doing) ? 'Change the secrets.' : 'Change what resource_spec says of it.'
}

/** Server-side apply answers 500 to what does not fit a type: a name that is there twice, a quantity that is none. */
const UNREADABLE = /^failed to (create typed patch object|convert new )/

/** A refusal that stands is told to whoever wanted it; whatever may pass is tried again. */
export function explained(fault: unknown, doing: string): Error {
  if (!(fault instanceof ApiException)) {
    const cause = fault instanceof Error ? fault : new Error(String(fault))
    return new Passing(`The cluster was not reached to ${doing}: ${cause.message}`, { cause })
  }
  const { code } = fault
  const message = messageOf(fault)
  if (code === 403 && /exceeded quota/.test(message))
    return new Unworkable(
      `The namespace’s quota is used up (${message}). Ask for less in resource_spec, or have the quota raised.`,
    )
  if (code === 403 && /because it is being terminated/.test(message))
    return new Unworkable(`The namespace is being deleted (${message}). Deploy to another one.`)
  // Whoever may do it is told by an admission controller, in the same code, that this object is not let in.
  if (code === 403 && message !== '' && !/User "[^"]*" cannot /.test(message))
    return new Unworkable(`The cluster refuses to ${doing}: ${message}. ${changeOf(doing)}`)
  if (code === 403 || code === 401)
    return new Unworkable(
      `The cluster does not let the agent ${doing} (${message || code}). Its operator has to grant that to the agent’s service account.`,
    )
  if (code === 404 && isNamespace(fault))
    return new Unworkable(`The cluster has no such namespace (${message}). Its operator has to create it.`)
  if (code === 404)
    return new Unworkable(
      `The cluster does not know what is needed to ${doing}. Its operator has to install that, or set the agent up without it.`,
    )
  if (code === 400 || code === 413 || code === 422 || (code === 500 && UNREADABLE.test(message)))
    return new Unworkable(`The cluster refuses to ${doing}: ${message}. ${changeOf(doing)}`)
  return new Passing(`The cluster answered ${code} when asked to ${doing}: ${message}`)
}
