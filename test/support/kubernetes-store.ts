// The objects of a small Kubernetes, with the rules of its API server: versions, field owners, schemas, immutable
// fields.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Kind } from '../../src/agent/engines/kubernetes/cluster.ts'
import { JOB_NAME_LABEL } from '../../src/agent/engines/kubernetes/names.ts'
import {
  applyObject,
  canonicalizeQuantities,
  type Fields,
  findDuplicateKeys,
  type Json,
  listStatedFields,
  mergeObjects,
  type Owners,
  parseStorageBytes,
} from './kubernetes-apply.ts'
import { listSchemaFaults } from './kubernetes-fixtures.ts'

type Meta = {
  name: string
  namespace: string
  uid: string
  resourceVersion: string
  generation: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  deletionTimestamp?: string
  creationTimestamp: string
}
// biome-ignore lint/suspicious/noExplicitAny: an object of any kind
export type Stored = { apiVersion: string; kind: Kind; metadata: Meta; spec: any; status?: any; data?: any } & Fields
export type Change = { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Stored; version: number }
export type Refusal = { code: number; message: string; reason?: string; details?: Json }
export class ApiError extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

export class KubernetesObjects {
  readonly objects = new Map<string, { object: Stored; owners: Owners }>()
  readonly changes: Change[] = []
  readonly listeners = new Set<(change: Change) => void>()
  version = 100

  all = (kind?: Kind): Stored[] =>
    [...this.objects.values()].map(({ object }) => object).filter(object => kind === undefined || object.kind === kind)
  get(kind: Kind, name: string, namespace = 'apps'): Stored {
    const stored = this.objects.get(`${kind}/${namespace}/${name}`)
    if (!stored) throw new Error(`There is no ${kind} ${name}, but ${this.all(kind).map(one => one.metadata.name)}`)
    return stored.object
  }
  has = (kind: Kind, name: string, namespace = 'apps') => this.objects.has(`${kind}/${namespace}/${name}`)

  /** Writes as another client, which then owns the fields. */
  put(
    object: { apiVersion: string; kind: string; metadata: Record<string, unknown> } & Record<string, unknown>,
    by = 'other-client',
  ): Stored {
    const applied = { ...object, metadata: { namespace: 'apps', ...object.metadata } } as unknown as Stored
    const existing = this.objects.get(getObjectKey(applied))
    const owners: Owners = existing?.owners ?? new Map()
    const stated = listStatedFields(applied)
    for (const [other, fields] of owners) if (other !== by) for (const path of stated.keys()) fields.delete(path)
    owners.set(by, new Map([...(owners.get(by) ?? []), ...stated]))
    return this.#store({ ...(mergeObjects(existing?.object, applied) as Stored) }, owners)
  }
  status(kind: Kind, name: string, status: unknown, namespace = 'apps'): void {
    const { object, owners } = this.objects.get(`${kind}/${namespace}/${name}`)!
    this.#store({ ...object, status } as Stored, owners, true)
  }
  delete(kind: Kind, name: string, namespace = 'apps'): void {
    this.remove(this.get(kind, name, namespace))
  }
  /** Removes the finalizers, and the object if it is being deleted. */
  release(kind: Kind, name: string): void {
    const { object } = this.objects.get(`${kind}/apps/${name}`)!
    delete object.metadata.finalizers
    if (object.metadata.deletionTimestamp) this.remove(object)
  }
  #store(object: Stored, owners: Owners, onlyStatus = false): Stored {
    const before = this.objects.get(getObjectKey(object))?.object
    const changed = JSON.stringify(before?.spec) !== JSON.stringify(object.spec)
    const metadata: Meta = {
      ...object.metadata,
      uid: before?.metadata.uid ?? randomUUID(),
      creationTimestamp: before?.metadata.creationTimestamp ?? new Date().toISOString(),
      generation: (before?.metadata.generation ?? 0) + (changed && !onlyStatus ? 1 : 0),
      resourceVersion: before?.metadata.resourceVersion ?? '0',
    }
    const next = { ...object, metadata }
    if (before && isDeepStrictEqual(before, next)) {
      this.objects.set(getObjectKey(object), { object: before, owners })
      return before
    }
    metadata.resourceVersion = String(++this.version)
    this.objects.set(getObjectKey(object), { object: next, owners })
    this.#notify({ type: before ? 'MODIFIED' : 'ADDED', object: next, version: this.version })
    return next
  }
  remove(object: Stored): void {
    const { kind, metadata } = object
    if (metadata.finalizers?.length) {
      metadata.deletionTimestamp ??= new Date().toISOString()
      metadata.resourceVersion = String(++this.version)
      this.#notify({ type: 'MODIFIED', object, version: this.version })
      return
    }
    this.objects.delete(getObjectKey(object))
    const last = { ...metadata, resourceVersion: String(++this.version) }
    this.#notify({ type: 'DELETED', object: { ...object, metadata: last } as Stored, version: this.version })
    // A controller and the garbage collector of a cluster would remove them.
    const selector = kind === 'Job' ? { [JOB_NAME_LABEL]: metadata.name } : object.spec?.selector?.matchLabels
    if (kind === 'Deployment' || kind === 'StatefulSet' || kind === 'Job')
      for (const pod of this.all('Pod')) if (matchesLabels(pod, selector)) this.remove(pod)
  }
  #notify(change: Change): void {
    this.changes.push(change)
    for (const listener of this.listeners) listener(change)
  }

  apply(applied: Stored, manager: string, force: boolean, dry = false): Stored {
    const live = this.objects.get(getObjectKey(applied))?.object
    // The object may have what an apply leaves out.
    const faults = listSchemaFaults(mergeObjects(live as never, applied as never) as never)
    const invalid = (message: string) => new ApiError({ code: 422, reason: 'Invalid', message })
    const [wrong] = [...findDuplicateKeys(applied as Fields), ...faults]
    if (wrong !== undefined) {
      const of = `${applied.metadata.namespace}/${applied.metadata.name}; ${applied.apiVersion}, Kind=${applied.kind}`
      throw new ApiError({ code: 500, message: `failed to create typed patch object (${of}): ${wrong}` })
    }
    const existing = this.objects.get(getObjectKey(applied))
    const owners: Owners = new Map([...(existing?.owners ?? [])].map(([name, fields]) => [name, new Map(fields)]))
    const outcome = applyObject(existing?.object ?? null, applied, owners, manager, force)
    if ('conflicts' in outcome) {
      const messages = outcome.conflicts.map(({ manager, field }) => `conflict with "${manager}": ${field}`)
      throw new ApiError({
        code: 409,
        reason: 'Conflict',
        message: `Apply failed with ${messages.length} conflict(s): ${messages}`,
      })
    }
    const object = canonicalizeQuantities(outcome.object) as Stored
    if (existing) {
      const hasChanged = (of: (one: Stored) => unknown) =>
        JSON.stringify(of(existing.object)) !== JSON.stringify(of(object))
      if (object.kind === 'Deployment' && hasChanged(one => one.spec.selector))
        throw invalid('spec.selector: field is immutable')
      if (object.kind === 'Secret' && existing.object.immutable && hasChanged(one => one.data))
        throw invalid('data: field is immutable when `immutable` is set')
      if (
        object.kind === 'PersistentVolumeClaim' &&
        parseStorageBytes(object.spec.resources.requests.storage) <
          parseStorageBytes(existing.object.spec.resources.requests.storage)
      )
        throw invalid('spec.resources.requests.storage: Forbidden: field can not be less than previous value')
    }
    return dry ? object : this.#store(object, owners)
  }
}

const getObjectKey = ({ kind, metadata }: Stored) => `${kind}/${metadata.namespace}/${metadata.name}`
export const matchesLabels = ({ metadata }: Stored, labels: Record<string, string>) =>
  Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value)
