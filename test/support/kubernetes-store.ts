// The objects of a small Kubernetes, with the rules that its API server keeps: versions, owners of fields, schemas, what cannot change.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Kind } from '../../src/agent/engines/kubernetes/cluster.ts'
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

export type Meta = {
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
// biome-ignore lint/suspicious/noExplicitAny: whatever an object of a cluster may hold
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
    const found = this.objects.get(`${kind}/${namespace}/${name}`)
    if (!found) throw new Error(`no ${kind} ${name}; there are ${this.all(kind).map(one => one.metadata.name)}`)
    return found.object
  }
  has = (kind: Kind, name: string, namespace = 'apps') => this.objects.has(`${kind}/${namespace}/${name}`)

  /** As another client writes it, whose fields they are from then on. */
  put(
    object: { apiVersion: string; kind: string; metadata: Record<string, unknown> } & Record<string, unknown>,
    by = 'somebody',
  ): Stored {
    const said = { ...object, metadata: { namespace: 'apps', ...object.metadata } } as unknown as Stored
    const there = this.objects.get(getObjectKey(said))
    const owners: Owners = there?.owners ?? new Map()
    const stated = listStatedFields(said)
    for (const [other, fields] of owners) if (other !== by) for (const path of stated.keys()) fields.delete(path)
    owners.set(by, new Map([...(owners.get(by) ?? []), ...stated]))
    return this.#store({ ...(mergeObjects(there?.object, said) as Stored) }, owners)
  }
  status(kind: Kind, name: string, status: unknown, namespace = 'apps'): void {
    const { object, owners } = this.objects.get(`${kind}/${namespace}/${name}`)!
    this.#store({ ...object, status } as Stored, owners, true)
  }
  delete(kind: Kind, name: string, namespace = 'apps'): void {
    this.remove(this.get(kind, name, namespace))
  }
  /** Ends what was kept by a finalizer. */
  release(kind: Kind, name: string): void {
    const found = this.objects.get(`${kind}/apps/${name}`)!
    delete found.object.metadata.finalizers
    if (found.object.metadata.deletionTimestamp) this.remove(found.object)
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
    if (before && isDeepStrictEqual(before, next)) return before
    metadata.resourceVersion = String(++this.version)
    this.objects.set(getObjectKey(object), { object: next, owners })
    this.#tell({ type: before ? 'MODIFIED' : 'ADDED', object: next, version: this.version })
    return next
  }
  remove(object: Stored): void {
    const { kind, metadata } = object
    if (metadata.finalizers?.length) {
      metadata.deletionTimestamp ??= new Date().toISOString()
      metadata.resourceVersion = String(++this.version)
      this.#tell({ type: 'MODIFIED', object, version: this.version })
      return
    }
    this.objects.delete(getObjectKey(object))
    const last = { ...metadata, resourceVersion: String(++this.version) }
    this.#tell({ type: 'DELETED', object: { ...object, metadata: last } as Stored, version: this.version })
    // What a controller and the garbage collector of a cluster would do.
    if (kind === 'Deployment' || kind === 'StatefulSet')
      for (const pod of this.all('Pod')) if (matchesLabels(pod, object.spec.selector.matchLabels)) this.remove(pod)
  }
  #tell(change: Change): void {
    this.changes.push(change)
    for (const told of this.listeners) told(change)
  }

  apply(said: Stored, manager: string, force: boolean, dry = false): Stored {
    const faults = listSchemaFaults(said as never)
    const invalid = (message: string) => new ApiError({ code: 422, reason: 'Invalid', message })
    const [wrong] = [...findDuplicateKeys(said as Fields), ...faults]
    if (wrong !== undefined) {
      const of = `${said.metadata.namespace}/${said.metadata.name}; ${said.apiVersion}, Kind=${said.kind}`
      throw new ApiError({ code: 500, message: `failed to create typed patch object (${of}): ${wrong}` })
    }
    const there = this.objects.get(getObjectKey(said))
    const owners: Owners = new Map([...(there?.owners ?? [])].map(([name, fields]) => [name, new Map(fields)]))
    const outcome = applyObject(there?.object ?? null, said, owners, manager, force)
    if ('conflicts' in outcome) {
      const told = outcome.conflicts.map(({ manager, field }) => `conflict with "${manager}": ${field}`)
      throw new ApiError({
        code: 409,
        reason: 'Conflict',
        message: `Apply failed with ${told.length} conflict(s): ${told}`,
      })
    }
    const object = canonicalizeQuantities(outcome.object) as Stored
    if (there) {
      const immutable = (of: (one: Stored) => unknown) =>
        JSON.stringify(of(there.object)) !== JSON.stringify(of(object))
      if (object.kind === 'Deployment' && immutable(one => one.spec.selector))
        throw invalid('spec.selector: field is immutable')
      if (object.kind === 'Secret' && there.object.immutable && immutable(one => one.data))
        throw invalid('data: field is immutable when `immutable` is set')
      if (
        object.kind === 'PersistentVolumeClaim' &&
        parseStorageBytes(object.spec.resources.requests.storage) <
          parseStorageBytes(there.object.spec.resources.requests.storage)
      )
        throw invalid('spec.resources.requests.storage: Forbidden: field can not be less than previous value')
    }
    return dry ? object : this.#store(object, owners)
  }
}

const getObjectKey = ({ kind, metadata }: Stored) => `${kind}/${metadata.namespace}/${metadata.name}`
export const matchesLabels = ({ metadata }: Stored, labels: Record<string, string>) =>
  Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value)
