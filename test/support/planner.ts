// A planner like that of Terraform: it holds a state, refreshes it, compares it with what is wanted, and applies.
import { isDeepStrictEqual } from 'node:util'
import * as z from 'zod'
import { loadOperations } from '../../src/app.ts'
import type { Operation } from '../../src/kernel/http/routes.ts'
import type { Reply, Tenant } from './app.ts'

export type Members = Record<string, unknown>
export type Calls = Pick<Tenant, 'get' | 'post' | 'put' | 'patch' | 'delete'>
/** The memory between two runs. `fingerprints` stand for the secrets, which no read shows. */
export type State = { id: string; read: Members; fingerprints: unknown; etag: string | null }
export type Plan = 'create' | 'update' | 'replace' | 'nothing'

export type Routes = {
  /** One resource: parameters of parents are filled in, `{id}` is not. */
  item: string
  /** Set if the id is in the query, and updates have it in their body. */
  updatePath?: string | undefined
  create: { method: 'post' | 'put'; path: string; route: string }
  /** Null for a resource that a change replaces. */
  update: { method: 'patch' | 'put'; accepts: ReadonlySet<string> } | null
  /** Members that no read shows. */
  secrets: readonly string[]
  fingerprintsOf: (read: Members) => unknown
  /** Members within a member that the server fills in, as paths: a provider declares them as computed. */
  computed: readonly string[]
  /** Returns true if the resource is being deleted. */
  isLeaving: (read: Members) => boolean
  /** Reads a resource that has no route to read one. */
  read?: ((id: string) => Promise<Members | undefined>) | undefined
}

const operations = await loadOperations()
export const findRoute = (method: string, path: string): Operation | undefined =>
  operations.find(one => one.method === method && one.path === path)

type JsonSchema = {
  $ref?: string
  $defs?: Record<string, JsonSchema>
  type?: string | string[]
  anyOf?: JsonSchema[]
  properties?: Record<string, JsonSchema>
}
const isNullable = (one: JsonSchema): boolean =>
  [one.type].flat().includes('null') || (one.anyOf ?? []).some(isNullable)

/** The members of a body, and whether each may be null. */
export function describeBody(operation: Operation | undefined): Map<string, boolean> {
  if (operation?.kind !== 'json' || !operation.body) return new Map()
  const schema = z.toJSONSchema(operation.body, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  const named = schema.$defs?.[schema.$ref?.split('/').at(-1) ?? ''] ?? schema
  return new Map(Object.entries(named.properties ?? {}).map(([name, one]) => [name, isNullable(one)]))
}

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An unwanted member may be null in the read resource. Any other value of it is a difference. */
export const isSame = (wanted: unknown, read: unknown): boolean => {
  if (!isObject(wanted) || !isObject(read)) return isDeepStrictEqual(wanted ?? null, read ?? null)
  return [...new Set([...Object.keys(wanted), ...Object.keys(read)])].every(name => isSame(wanted[name], read[name]))
}

/** Removes members that the server has filled in because they are not wanted. */
function withoutComputed(read: Members, wanted: Members, paths: readonly string[]): Members {
  const rest = structuredClone(read)
  for (const path of paths) {
    const [outer = '', inner = ''] = path.split('.')
    const [given, within] = [wanted[outer], rest[outer]]
    if (isObject(given) && isObject(within) && !(inner in given)) delete within[inner]
  }
  return rest
}

export function createPlanner(calls: Calls, routes: Routes) {
  const pathOf = (id: string) => routes.item.replace('{id}', encodeURIComponent(id))
  const visible = (members: Members) =>
    Object.fromEntries(Object.entries(members).filter(([name]) => !routes.secrets.includes(name)))

  async function readState(id: string): Promise<State | undefined> {
    if (routes.read) {
      const read = await routes.read(id)
      return read && { id, read, fingerprints: routes.fingerprintsOf(read), etag: null }
    }
    const { status, body, headers } = await calls.get(pathOf(id))
    if (status === 404) return undefined
    if (status === 200 && routes.isLeaving(body)) return undefined
    if (status !== 200) throw new Error(`GET ${pathOf(id)} answered ${status}`)
    return { id, read: body, fingerprints: routes.fingerprintsOf(body), etag: headers.get('ETag') }
  }

  /** The members that differ. Secrets differ when their fingerprints are no longer those of the last write. */
  function compare(wanted: Members, state: State, now: State): string[] {
    const found = withoutComputed(now.read, wanted, routes.computed)
    const members = Object.keys(visible(wanted)).filter(name => !isSame(wanted[name], found[name]))
    return isDeepStrictEqual(state.fingerprints, now.fingerprints) ? members : [...members, ...routes.secrets]
  }

  return {
    routes,
    pathOf,
    readState,
    compare,
    /** Plans the step from what is found now to `wanted`. */
    plan(wanted: Members, state: State | undefined, now: State | undefined): Plan {
      if (!state || !now) return 'create'
      const members = compare(wanted, state, now)
      if (members.length === 0) return 'nothing'
      return members.every(name => routes.update?.accepts.has(name)) ? 'update' : 'replace'
    },
    create: (wanted: Members, headers: Record<string, string> = {}): Promise<Reply> =>
      calls[routes.create.method](routes.create.path, wanted, headers),
    update(wanted: Members, state: State): Promise<Reply> {
      const { method, accepts } = routes.update!
      const body = Object.fromEntries(Object.entries(wanted).filter(([name]) => accepts.has(name)))
      return calls[method](
        routes.updatePath ?? pathOf(state.id),
        body,
        state.etag === null ? {} : { 'If-Match': state.etag },
      )
    },
    destroy: (id: string): Promise<Reply> => calls.delete(pathOf(id)),
  }
}
