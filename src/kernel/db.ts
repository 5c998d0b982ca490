// The way to Postgres: one HTTP round trip that enters and runs the verb's statement, in one transaction.
import { type FullQueryResults, NeonDbError, neon, neonConfig } from '@neondatabase/serverless'
import { type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/neon-http'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type { Config } from '../env.ts'
import { isCode } from './codes.ts'
import { type Ctx, isWorkspaceScoped, type KeyActor, type KeylessActor } from './context.ts'
import { type Failure, fail } from './errors.ts'
import { compileQuery, type Placeholders, prepareStatement, type Query, type Row } from './statement.ts'

export type { Query, Row }

/** Builds statements; it has no connection. */
export const db = drizzle.mock()

/** The first wall: a statement names its tenant. Row-level security is the second. */
export const inTenant = (table: { tenant_id: AnyPgColumn }): SQL => sql`${table.tenant_id} = current_tenant()`
export const servedByListener = (table: { listener_id: AnyPgColumn }): SQL =>
  sql`${table.listener_id} = current_listener()`
export const inOrganization = (table: { organization_id: AnyPgColumn }): SQL =>
  sql`${table.organization_id} = current_organization()`

export type Trip = (statements: Query<unknown>[]) => Promise<unknown[][]>
/** By the app's login, or by the one that may act for every workspace. */
export type Database = Trip & { asSystem: Trip }

/** A write that was answered before: what enter() found stored for its idempotency key. */
export class Replay extends Error {
  readonly rows: unknown[]
  constructor(rows: unknown[]) {
    super('replay')
    this.rows = rows
  }
}

const TRIP_MS = 4500

/** How a trip leaves: to Neon's own host, to a gateway's address, or to a gateway in this process. */
type TripRoute = { endpoint?: string | undefined; via?: typeof fetch | undefined }
neonConfig.fetchFunction = (url: string, { endpoint = url, via = fetch, ...init }: RequestInit & TripRoute) =>
  via(endpoint, init)

export function connect({ database }: Pick<Config, 'database'>, inProcess?: typeof fetch): Database {
  const way: TripRoute = { endpoint: database.gateway, via: inProcess }
  return Object.assign(createTrip(database.url, way), { asSystem: createTrip(database.systemUrl, way) })
}

function createTrip(url: string, way: TripRoute): Trip {
  const client = neon(url, { fullResults: true, arrayMode: true })
  return async statements => {
    const compiled = statements.map(compileQuery)
    const queries = compiled.map(one => client.query(one.sql, one.params, { types: TEXT_PARSERS }))
    const fetchOptions = { ...way, signal: AbortSignal.timeout(TRIP_MS) }
    const results = await client.transaction(queries, { fetchOptions }).catch((error: unknown) => {
      throw translateError(error)
    })
    return compiled.map((one, i) => one.read((results[i] as FullQueryResults<true>).rows))
  }
}

/**
 * Enters as the caller and runs one statement, in the same round trip. What must be held before the statement looks at anything is
 * locked by one of its own: a statement does not see what others wrote while it waited.
 */
export async function run<T>(ctx: Ctx, query: Query<T>, lock: SQL | SQL[] = []): Promise<T[]> {
  const { actor } = ctx
  const byKey = ctx.permission === 'listeners:sync' ? enterAsAgent : enterAsKey
  const enter = actor.kind === 'key' ? byKey(keyParameters(ctx, actor)) : enterWithoutKey(ctx, actor)
  const counted = actor.kind === 'key' ? buildCountStatements(ctx, actor) : []
  ctx.requestInfo.keyLookedUp = true
  const results = await ctx.database([...counted, enter, ...[lock].flat(), query])
  ctx.onKeyAccepted?.()
  if (counted.length > 0) recordRate(ctx, results[0] as Row[])
  const [organization, tenant, id] = results[counted.length]![0] as [string, string | null, string]
  Object.assign(ctx.requestInfo, { organization, tenant, actor: id })
  return results.at(-1) as T[]
}

/** Enters and does nothing: it finds out whether this key exists and has the permission, in whichever workspace. */
export async function verifyKey(ctx: Ctx): Promise<void> {
  const { actor } = ctx
  if (actor.kind !== 'key') return
  const counted = buildCountStatements(ctx, actor)
  const enter = enterAsKey({ ...keyParameters(ctx, actor), inWorkspace: false, key: null, fingerprint: null })
  ctx.requestInfo.keyLookedUp = true
  const results = await ctx.database([...counted, enter])
  ctx.onKeyAccepted?.()
  if (counted.length > 0) recordRate(ctx, results[0] as Row[])
}

/**
 * Counts the request in a transaction of its own at the head of the trip: a refusal later on does not undo the count,
 * and the budget's row is locked for the count alone, not for the request.
 */
function buildCountStatements(ctx: Ctx, { hash }: KeyActor): Query<unknown>[] {
  const { rateLimit } = ctx.config
  return rateLimit === 0
    ? []
    : [countRequest({ hash, clockOffset: clockOffsetText(ctx), limit: rateLimit }), NEXT_TRANSACTION]
}

function recordRate({ requestInfo: seen }: Ctx, [count]: Row[]): void {
  if (count) seen.rate = { remaining: Number(count[0]), reset: Number(count[1]) }
}

const keyParameters = (ctx: Ctx, { hash }: KeyActor) => ({
  hash,
  workspace: ctx.tenant,
  permission: ctx.permission,
  inWorkspace: isWorkspaceScoped(ctx),
  requestId: ctx.requestId,
  clockOffset: clockOffsetText(ctx),
  withoutIfMatch: ctx.withoutIfMatch,
  key: ctx.idempotency?.key ?? null,
  fingerprint: ctx.idempotency?.fingerprint ?? null,
})

const buildEnterStatement = (as: SQL) =>
  prepareStatement(
    (caller: Placeholders<ReturnType<typeof keyParameters>>) => sql<Row>`
    select e.*, ${as} from enter(${caller.hash}, ${caller.workspace}::uuid, ${caller.permission},
    ${caller.inWorkspace}, ${caller.requestId}, ${caller.clockOffset}, ${caller.withoutIfMatch}, ${caller.key},
    ${caller.fingerprint}) e`,
  )
const enterAsKey = buildEnterStatement(sql`set_config('role', 'slipway_app', true)`)
/** An agent's key becomes its listener, and sees what that serves. */
const enterAsAgent = buildEnterStatement(sql`become_listener(e.actor_id), set_config('role', 'slipway_agent', true)`)
const countRequest = prepareStatement(
  ({ hash, clockOffset, limit }: Placeholders<{ hash: string; clockOffset: string; limit: number }>) =>
    sql<Row>`select * from count_request(${hash}, ${clockOffset}, ${limit}::integer)`,
)
/** Ends the transaction that the driver opened for the batch, and opens the one that it commits. */
const NEXT_TRANSACTION = sql`commit and chain`

/** Behind the same walls as a key. */
const enterWithoutKey = (ctx: Ctx, { kind, id, name, organization, tenant }: KeylessActor): SQL => {
  const actor = { actor_kind: kind, actor_id: id ?? '', actor_name: name ?? '' }
  const settings = { organization_id: organization, tenant_id: tenant ?? '', ...actor }
  const set = Object.entries({ ...settings, request_id: ctx.requestId, clock_offset: clockOffsetText(ctx) }).map(
    ([name, value]) => sql`set_config(${`app.${name}`}, ${value}, true)`,
  )
  return sql`select ${organization}, ${tenant}::text, ${id}::text, ${sql.join(set, sql`, `)}, set_config('role', 'slipway_app', true)`
}

const clockOffsetText = ({ config }: Pick<Ctx, 'config'>): string => `${config.clockOffset()} ms`

/** Scheduled work and the operator's own, which belong to no tenant; all statements are one transaction. */
export async function runAsSystem(database: Database, ...statements: Query<unknown>[]): Promise<unknown[][]> {
  const [, ...results] = await database.asSystem([
    sql`select set_config('role', 'slipway_system', true)`,
    ...statements,
  ])
  return results
}

/**
 * Counts requests that were refused before their trip. Tells of each key that may enter how its budget stands; the
 * others are left out.
 */
export async function countRefusedRequests(
  { config, database }: Pick<Ctx, 'config' | 'database'>,
  requests: Map<string, number>,
): Promise<Map<string, { requests: number; reset: number }>> {
  const [hashes, numbers] = [[...requests.keys()], [...requests.values()]]
  const [rows] = await database([
    sql<Row>`select key_hash, coalesce(requests, 0), coalesce(reset, 0) from count_requests(${textArray(hashes)},
    ${sql.param(numbers)}::integer[], ${clockOffsetText({ config })}, ${config.rateLimit || null}::integer)`,
  ])
  return new Map(
    (rows as string[][]).map(([hash, count, reset]) => [hash!, { requests: Number(count), reset: Number(reset) }]),
  )
}

/** Drizzle spreads an array into a list; this is one array. */
export const textArray = (items: readonly string[]): SQL => sql`${sql.param(items)}::text[]`

export const uuidArray = (ids: readonly string[]): SQL => sql`${sql.param(ids)}::uuid[]`

/** In a where clause: passes when the condition holds, and refuses with the code when it does not. */
export const refuseUnless = (code: string, condition: SQL): SQL =>
  sql`case when ${condition} then true else refuse(${code}) end`

/** In a where clause: the version that the caller's If-Match names is still the current one. */
export const versionMatches = (ctx: Ctx, table: { version: AnyPgColumn | SQL }): SQL | undefined =>
  ctx.ifMatch
    ? refuseUnless('precondition_failed', sql`${table.version} = any(${sql.param(ctx.ifMatch)}::integer[])`)
    : undefined

/** What every change in place sets besides. */
export const bumpVersion = (table: { version: AnyPgColumn }) => ({
  version: sql`${table.version} + 1`,
  updated_at: sql`clock()`,
})

/** Drizzle's columns read Postgres' text themselves; only booleans they expect ready-made. */
const TEXT_PARSERS = {
  getTypeParser: (type: number) => (value: string) => (type === 16 ? value === 't' : value),
} as never

const UNAVAILABLE_STATES = /^(08|53|57|40001|40P01)/

/** What a row belongs to was deleted meanwhile; Drizzle names a foreign key after the table that it points to. */
const parentNotFoundCode = (constraint = '') => `${/_([a-z]+)s_id_fk$/.exec(constraint)?.[1]}_not_found`

function translateError(error: unknown): unknown {
  // The driver reports what Postgres and fetch refuse; an answer that broke off within its body it passes on as it is.
  if (!(error instanceof NeonDbError)) return databaseUnavailable(error)
  const { code, message, detail, constraint } = error
  if (code === 'SW000' && isCode(message)) return failureFromRefusal(message, detail ?? '')
  if (code === 'SW001') return new Replay(JSON.parse(detail!))
  const meant = isCode(constraint) ? constraint : parentNotFoundCode(constraint)
  if ((code === '23505' || code === '23503') && isCode(meant)) return fail(meant, { cause: error })
  // Without a code it is not Postgres that answered.
  return !code || UNAVAILABLE_STATES.test(code) ? databaseUnavailable(error) : error
}

const databaseUnavailable = (cause: unknown): Failure =>
  fail('database_unavailable', { headers: { 'Retry-After': '1' }, cause })

function failureFromRefusal(code: Parameters<typeof fail>[0], detail: string): Failure {
  if (code === 'rate_limited') return fail(code, { headers: { 'Retry-After': detail } })
  if (code === 'journal_full') return fail(code, { headers: { 'Retry-After': detail } })
  if (code === 'lease_held') return fail(code, { headers: { 'Retry-After': detail } })
  if (code === 'idempotency_in_flight') return fail(code, { headers: { 'Retry-After': '1' } })
  return fail(code, { about: detail || undefined })
}
