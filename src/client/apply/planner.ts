// The state that the planners of all kinds share: faults, owners, names and secrets.
import type { Change } from '../changes.ts'
import type { Client, Item, Reply } from '../client.ts'
import { ApiError } from '../errors.ts'
import type { DeclaredDocument, DocumentFault, Kind } from './documents.ts'

/** Stands for a stored value. */
export const MASK = '********'

export type PlanOptions = {
  /** The workspace, for a key of the organization. */
  workspace?: string | undefined
  /** The owner of all documents. Without one, each has its own. */
  owner?: string | undefined
  /** Also changes what another owner has declared. */
  takeOver?: boolean | undefined
  /** Deletes what has the owner and is in no document. */
  prune?: boolean | undefined
  /** The value of a secret, by `NAME`, `DEPLOYMENT/NAME` or `KIND/DOCUMENT/NAME`. */
  secrets?: ReadonlyMap<string, string> | undefined
  signal?: AbortSignal | undefined
}

export type SecretChange = { name: string; change: 'added' | 'changed' | 'removed' }
export type Action = {
  kind: Kind
  name: string
  action: 'create' | 'change' | 'nothing' | 'delete'
  changes: Change[]
  secrets: SecretChange[]
  warnings: string[]
  digest: string
}
export type Deployment = Reply<'GET /v2/deployments/{deployment_id}'>
/** `deployment` is set if a revision was created. */
export type Done = { deployment?: Deployment }
export type Step = Action & { run: () => Promise<Done> }
export type ApplyPlan = { steps: Step[]; faults: DocumentFault[]; digest: string }

/** The part of an action that the planner of its kind adds. */
export type Planned = Partial<Omit<Action, 'kind' | 'name' | 'digest'>> & {
  /** The inputs of the action, such as the version that was read and the body that is sent. */
  basis?: unknown
  /** Adds its results to `done`. */
  run?: (done: Done) => Promise<unknown>
}

export type Named = Map<string, string>
export type Planner = {
  client: Client
  signal: AbortSignal | undefined
  options: PlanOptions
  documents: DeclaredDocument[]
  workspace: { id: string }
  state: State
  /** Ids by kind and name. What is created is added. */
  ids: Named
  addFault: (document: DeclaredDocument, path: (string | number)[], message: string) => void
  /** True for a document with a fault: the server would only report consequences of the fault. */
  hasFault: (document: DeclaredDocument) => boolean
}

export type State = {
  roles: Map<string, Item<'GET /orgs/current/roles'>>
  listeners: Map<string, Item<'GET /v2/listeners'>>
  providers: Set<string>
  deployments: Map<string, string>
  webhooks: Item<'GET /v2/webhooks'>[]
  hosts: Set<string>
}

const AT_ONCE = 5

export async function mapInParts<T, R>(items: T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(act))))
  return results
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** The order of members does not matter. */
export function isSame(a: unknown, b: unknown): boolean {
  return sortedJson(a) === sortedJson(b)
}
const sortedJson = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : (member ?? null),
  )

export async function digestOf(value: unknown): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(sortedJson(value)))
  return [...new Uint8Array(bytes).slice(0, 16)].map(byte => byte.toString(16).padStart(2, '0')).join('')
}

/** Lists of these members are sets. */
const SETS = ['permissions', 'event_types', 'deployment_ids', 'tag_value_ids', 'scopes', 'k8s_namespaces']
const inOrder = (name: string, value: unknown): unknown =>
  Array.isArray(value) && SETS.includes(name) ? value.toSorted() : value

/** The members that differ, as changes and as the body of a patch. */
export function compareMembers(wanted: object, stored: object): { changes: Change[]; patch: Record<string, unknown> } {
  const before = new Map<string, unknown>(Object.entries(stored))
  const differing = Object.entries(wanted).filter(
    ([name, value]) =>
      value !== undefined && !isSame(inOrder(name, value ?? null), inOrder(name, before.get(name) ?? null)),
  )
  return {
    changes: differing.map(([path, after]) => ({ path, before: before.get(path) ?? null, after })),
    patch: Object.fromEntries(differing),
  }
}

export const changesOfNew = (body: object): Change[] =>
  Object.entries(body).flatMap(([path, after]) =>
    after === undefined || after === null || (Array.isArray(after) && after.length === 0)
      ? []
      : [{ path, before: null, after }],
  )

/** Faults of the server, at the members of the document that they are about. */
export function addServerFaults(planner: Planner, document: DeclaredDocument, error: unknown): void {
  if (!(error instanceof ApiError) || error.status >= 500 || [401, 429].includes(error.status)) throw error
  if (error.errors.length === 0) planner.addFault(document, [], `${error.message} (${error.code})`)
  for (const { loc, msg } of error.errors) {
    const [, ...path] = loc
    const secret = path[0] === 'secrets' && typeof path[1] === 'number' ? document.secrets?.[path[1]] : undefined
    if (secret !== undefined) planner.addFault(document, ['secrets', path[1]!], `${secret} ${msg}`)
    else planner.addFault(document, ['spec', ...path], msg)
  }
}

// ---- owners

/** Undefined keeps it. Refuses what another owner has declared. */
export function ownerOf(planner: Planner, document: DeclaredDocument, stored: string | null): string | undefined {
  const wanted = planner.options.owner ?? document.owner
  if (stored === null || stored === wanted || planner.options.takeOver) return wanted === stored ? undefined : wanted
  const message = `belongs to the owner ${stored}. Apply it with --owner ${stored}, or take it over with --take-over`
  planner.addFault(document, ['owner'], message)
  return undefined
}

// ---- names and ids

export const idKey = (kind: Kind, name: string) => `${kind} ${name}`

/** An id, undefined for what this plan creates. What is neither there nor declared is a fault. */
export function findId(
  planner: Planner,
  document: DeclaredDocument,
  path: (string | number)[],
  kind: Kind,
  name: string,
): string | undefined {
  const id = planner.ids.get(idKey(kind, name))
  if (id !== undefined) return id
  if (!planner.documents.some(one => one.kind === kind && one.name === name))
    planner.addFault(document, path, `There is no ${kind} ${name}, and no document declares one`)
  return undefined
}

/** When the plan is applied, what is named is there. */
export function requireId({ ids }: Planner, kind: Kind, name: string): string {
  const id = ids.get(idKey(kind, name))
  if (id === undefined) throw new Error(`${kind} ${name} has no id.`)
  return id
}

// ---- secrets

export const findSecret = (
  { options }: Planner,
  { kind, name }: Pick<DeclaredDocument, 'kind' | 'name'>,
  variable: string,
): string | undefined => {
  const qualified = options.secrets?.get(`${kind}/${name}/${variable}`)
  // A preview of a fork must not get the value of a production variable by accident.
  if (qualified !== undefined || kind !== 'Deployment') return qualified
  return options.secrets?.get(`${name}/${variable}`) ?? options.secrets?.get(variable)
}

export function addMissingSecret(
  planner: Planner,
  document: DeclaredDocument,
  path: (string | number)[],
  name: string,
) {
  const key = document.kind === 'Deployment' ? `${document.name}/${name}` : `${document.kind}/${document.name}/${name}`
  planner.addFault(document, path, `${name} has no value. Add a line ${key}=… to the file of --secrets-file`)
}
