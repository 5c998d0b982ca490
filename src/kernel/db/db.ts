// Access to Postgres: one round trip authenticates the caller and runs the verb's statement in one transaction.
import { type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { Config } from '../../env.ts'
import { type Budget, type DatabaseConnections, ONE_PLAN, type SendStatements, StatementError } from '../../platform.ts'
import { describeAccess } from '../access-scopes.ts'
import type { Code } from '../http/codes.ts'
import {
  type CredentialActor,
  type Ctx,
  type DatabaseServices,
  hasCredential,
  isWorkspaceScoped,
  type KeylessActor,
} from '../http/context.ts'
import { type Failure, fail, isDatabaseUnavailable, loadCodes } from '../http/errors.ts'
import type { Permission } from '../permissions.ts'
import { ROWS_PATH, sendToGateway } from './gateway.ts'
import {
  compileQuery,
  type Database,
  db,
  type Placeholders,
  prepareStatement,
  type Query,
  type Row,
  type Trip,
  type TripUse,
} from './statement.ts'

export { type Database, db, type Query, type Row, type Trip }

/** Every statement filters by its tenant. Row-level security stays as the second wall behind this filter. */
export const inTenant = (table: { tenant_id: AnyPgColumn }): SQL => sql`${table.tenant_id} = current_tenant()`
export const servedByListener = (table: { listener_id: AnyPgColumn }): SQL =>
  sql`${table.listener_id} = current_listener()`
export const inOrganization = (table: { organization_id: AnyPgColumn }): SQL =>
  sql`${table.organization_id} = current_organization()`

/** Thrown for a repeated request, with the answer that is stored under its idempotency key. */
export class Replay extends Error {
  readonly rows: unknown[]
  constructor(rows: unknown[]) {
    super('replay')
    this.rows = rows
  }
}

const TRIP_TIMEOUT_MS = 4500
const SYSTEM_GROUP = 'system'

/** A statement that fails counts as answered. */
type CountTrip = (ms: number, isAnswered: boolean) => void

/** Without connections of this process, trips go over HTTP: to a gateway where there is one, otherwise to Neon. */
export function connect(
  { database }: Pick<Config, 'database'>,
  connections?: DatabaseConnections,
  countTrip: CountTrip = () => {},
): Database {
  const { app, system } = connections ?? {
    app: sendOverHttp(database.url, database.gateway),
    system: sendOverHttp(database.systemUrl, database.gateway),
  }
  return Object.assign(createTrip(app, countTrip), { asSystem: createTrip(system, countTrip) })
}

/** Only our own gateway answers at `/rows`. Neon's driver is loaded by its first trip. */
function sendOverHttp(url: string, gateway: string | undefined): SendStatements {
  if (gateway && new URL(gateway).pathname === ROWS_PATH) return sendToGateway(url, gateway)
  let send: SendStatements | undefined
  return async (...trip) => {
    send ??= (await import('./neon.ts')).sendToNeon(url, gateway)
    return send(...trip)
  }
}

function createTrip(send: SendStatements, countTrip: CountTrip): Trip {
  return async (statements, { group = SYSTEM_GROUP, isSlow, untilKnown, signal, onSpent } = {}) => {
    const compiled = statements.map(compileQuery)
    // Not `AbortSignal.timeout()`, which keeps the memory of the request until it fires.
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(new Error('The database did not answer in time')), TRIP_TIMEOUT_MS)
    const abandon = () => timeout.abort(signal!.reason)
    if (signal?.aborted) abandon()
    signal?.addEventListener('abort', abandon)
    const started = Date.now()
    try {
      const results = await send(compiled, { group, isSlow, untilKnown, onReleased: onSpent }, timeout.signal)
      countTrip(Date.now() - started, true)
      return compiled.map((statement, i) => statement.read(results[i] as Row[]))
    } catch (error) {
      const translated = await translateError(error)
      countTrip(Date.now() - started, !isDatabaseUnavailable(translated))
      throw translated
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abandon)
    }
  }
}

type Entered = [organization: string, tenant: string | null, actor: string, isLimited: unknown, budget: string]

/**
 * Authenticates the caller and runs one statement, in the same round trip. `lock` runs as a statement of its own before
 * it: a statement that waits for a row lock does not see what the other transaction wrote meanwhile.
 */
export async function run<T>(
  ctx: Ctx,
  query: Query<T>,
  lock: Query<unknown> | Query<unknown>[] = [],
  use: Pick<TripUse, 'isSlow' | 'signal'> = {},
): Promise<T[]> {
  const { actor } = ctx
  const role = ctx.permission === 'listeners:sync' ? 'agent' : 'app'
  const enter = hasCredential(actor)
    ? enterBy[actor.kind][role](callerParameters(ctx, actor))
    : enterWithoutKey(ctx, actor)
  ctx.requestInfo.keyLookedUp = true
  const off = ctx.config.abac ? [] : [POLICIES_OFF]
  const statements = [enter, ...off, ...[lock].flat(), query]
  const results = await ctx.database(statements, hasCredential(actor) ? use : { ...use, group: groupOfKeyless(actor) })
  const [organization, tenant, id, isLimited, budget] = results[0]![0] as Entered
  ctx.onKeyAccepted?.(organization, budget)
  Object.assign(ctx.requestInfo, { organization, tenant, actor: id, isLimited: isLimited === true })
  if (hasCredential(actor)) ctx.shareGroups.remember(actor.hash, organization, tenant ?? undefined)
  return results.at(-1) as T[]
}

/** Refuses a key or session that does not exist or lacks the permission. A key's workspace is not checked. */
export async function verifyKey(ctx: Ctx): Promise<void> {
  const { actor } = ctx
  if (!hasCredential(actor)) return
  const parameters = callerParameters(ctx, actor)
  // The rights of a session depend on the workspace, so only the rights of a key can be checked without one.
  const inWorkspace = actor.kind === 'session' && parameters.inWorkspace
  const enter = enterBy[actor.kind].app({ ...parameters, inWorkspace, key: null, fingerprint: null })
  ctx.requestInfo.keyLookedUp = true
  const results = await ctx.database([enter])
  const [organization, tenant, , , budget] = results[0]![0] as Entered
  ctx.shareGroups.remember(actor.hash, organization, tenant ?? undefined)
  ctx.onKeyAccepted?.(organization, budget)
}

const callerParameters = (ctx: Ctx, { hash }: CredentialActor) => ({
  hash,
  workspace: ctx.tenant,
  permission: ctx.permission,
  inWorkspace: isWorkspaceScoped(ctx),
  requestId: ctx.requestId,
  request: ctx.request,
  clockOffset: clockOffsetText(ctx),
  withoutIfMatch: ctx.withoutIfMatch,
  key: ctx.idempotency?.key ?? null,
  fingerprint: ctx.idempotency?.fingerprint ?? null,
  access: ctx.config.abac ? describeAccess(ctx.permission, ctx.path, ctx.byPolicy) : null,
})

const buildEnterStatement = (entry: SQL, setRole: SQL) =>
  prepareStatement(
    (caller: Placeholders<ReturnType<typeof callerParameters>>) => sql<Row>`${sql.raw(ONE_PLAN)}
      select
        e.*,
        set_config('app.request', ${caller.request}, true),
        set_config('app.credential', ${caller.hash}, true),
        ${setRole}
      from ${entry}(
        ${caller.hash},
        ${caller.workspace}::uuid,
        ${caller.permission},
        ${caller.inWorkspace},
        ${caller.requestId},
        ${caller.clockOffset},
        ${caller.withoutIfMatch},
        ${caller.key},
        ${caller.fingerprint},
        ${caller.access}::jsonb
      ) e`,
  )
/** Agents of the platform write into journals of other organizations, which must not see the operator's addresses. */
const HIDE_PLATFORM_ADDRESS = sql`
  case when setting('platform') = 'true' then set_config(
    'app.request', (setting('request')::jsonb - '{client_address, user_agent}'::text[])::text, true
  ) end`
const APP_ROLE = sql`case when e.is_limited then 'slipway_limited' else 'slipway_app' end`
const buildEnterStatements = (entry: SQL, role = APP_ROLE) => ({
  app: buildEnterStatement(entry, sql`set_config('role', ${role}, true)`),
  agent: buildEnterStatement(
    entry,
    sql`become_listener(e.actor_id), ${HIDE_PLATFORM_ADDRESS}, set_config('role', 'slipway_agent', true)`,
  ),
})
const enterBy = {
  key: buildEnterStatements(sql`enter_by_key`),
  session: buildEnterStatements(sql`enter_by_session`),
  deployment: buildEnterStatements(sql`enter_by_deployment`, sql`'slipway_confined'`),
}
const POLICIES_OFF = compileQuery(sql`select set_config('app.policies_off', 'true', true)`)
/** Background work of a workspace uses its share. Requests without a key are bound to that of their address. */
const groupOfKeyless = ({ tenant, organization }: KeylessActor): string => tenant ?? organization

const enterWithoutKey = (ctx: Ctx, { kind, id, name, organization, tenant }: KeylessActor): SQL => {
  const settings = {
    organization_id: organization,
    tenant_id: tenant ?? '',
    actor_kind: kind,
    actor_id: id ?? '',
    actor_name: name ?? '',
    request_id: ctx.requestId,
    request: ctx.request ?? '',
    clock_offset: clockOffsetText(ctx),
  }
  const setSettings = Object.entries(settings).map(([name, value]) => sql`set_config(${`app.${name}`}, ${value}, true)`)
  return sql`${sql.raw(ONE_PLAN)}
    select
      ${organization},
      ${tenant}::text,
      ${id}::text,
      ${sql.join(setSettings, sql`, `)},
      set_config('role', 'slipway_app', true)`
}

export const clockOffsetText = ({ platform }: Pick<Ctx, 'platform'>): string => `${platform.clock.ahead()} ms`

const SYSTEM_ROLE = compileQuery(sql`select set_config('role', 'slipway_system', true)`)

export async function runAsSystem(database: Database, ...statements: Query<unknown>[]): Promise<unknown[][]> {
  const [, ...results] = await database.asSystem([SYSTEM_ROLE, ...statements])
  return results
}

/** Runs reads of visitors of a workspace, which may take seconds. */
export async function runSlowAsSystem(database: Database, ...statements: Query<unknown>[]): Promise<unknown[][]> {
  const [, ...results] = await database.asSystem([SYSTEM_ROLE, ...statements], { isSlow: true })
  return results
}

export type CountedRequests = { hash: string; budget: string; requests: number; reset: number }

/** Adds the requests of several callers to their budgets. Returns those that may enter, and no others. */
export async function countAnsweredRequests(
  { config, platform, database }: DatabaseServices,
  kind: Budget,
  requests: Map<string, number>,
): Promise<CountedRequests[]> {
  const [rows] = await database([
    sql<Row>`
      select key_hash, budget_id, coalesce(requests, 0), coalesce(reset, 0)
      from count_answered_requests(
        ${kind},
        ${textArray([...requests.keys()])},
        ${sql.param([...requests.values()])}::integer[],
        ${clockOffsetText({ platform })},
        ${config.rateLimits[kind] > 0}
      )`,
  ])
  return (rows as string[][]).map(([hash, budget, requests, reset]) => ({
    hash: hash!,
    budget: budget!,
    requests: Number(requests),
    reset: Number(reset),
  }))
}

/** One array parameter. Drizzle alone would spread an array into a list of parameters. */
export const textArray = (items: readonly string[]): SQL => sql`${sql.param(items)}::text[]`

export const uuidArray = (ids: readonly string[]): SQL => sql`${sql.param(ids)}::uuid[]`

/** The `lock` of a write that decides on these rows, or records their values before the change. */
export const lockRows = (table: PgTable, condition: SQL | undefined): SQL =>
  sql`select from ${table} where ${condition} for update`

/** For a where clause: fails the statement with the code unless the condition holds. */
export const refuseUnless = (code: string, condition: SQL): SQL =>
  sql`case when ${condition} then true else refuse(${code}) end`

/** For a where clause: a permission that a key needs besides that of the verb. */
export const requirePermission = (permission: Permission): SQL => sql`case
  when ${permission} = any(actor_permissions()) then true
  else refuse('permission_missing', ${permission})
end`

/** For a where clause: fails the statement when the caller's If-Match names another version. */
export const versionMatches = (ctx: Ctx, table: { version: AnyPgColumn | SQL }): SQL | undefined =>
  ctx.ifMatch
    ? refuseUnless('precondition_failed', sql`${table.version} = any(${sql.param(ctx.ifMatch)}::integer[])`)
    : undefined

export const bumpVersion = (table: { version: AnyPgColumn }) => ({
  version: sql`${table.version} + 1`,
  updated_at: sql`clock()`,
})

/** A write that would end in a resource which the access policies of the caller do not admit. */
const POLICY_ON_TAGS = 'row-level security policy "admitted"'
/** A write by a trace key that would end in another project. */
const POLICY_ON_TRACE_KEYS = 'row-level security policy "confined"'

const UNAVAILABLE_STATES = /^(08|53|57|40001|40P01)/

/** A missing parent row: Drizzle names a foreign key after the table that it references. */
const parentNotFoundCode = (constraint = '') => `${/_([a-z]+)s_id_fk$/.exec(constraint)?.[1]}_not_found`

async function translateError(error: unknown): Promise<unknown> {
  if (!(error instanceof StatementError)) return databaseUnavailable(error)
  const { isCode } = await loadCodes()
  const { code, message, detail, constraint } = error
  if (code === 'SW000' && isCode(message)) return failureFromRefusal(message, detail ?? '')
  if (code === 'SW001') return new Replay(JSON.parse(detail!))
  if (code === '42501' && message.includes(POLICY_ON_TAGS)) return fail('denied_by_policy', { cause: error })
  if (code === '42501' && message.includes(POLICY_ON_TRACE_KEYS)) return fail('trace_key_confined', { cause: error })
  const constraintCode = isCode(constraint) ? constraint : parentNotFoundCode(constraint)
  const isConstraintViolation = code === '23505' || code === '23503'
  if (isConstraintViolation && isCode(constraintCode)) return fail(constraintCode, { cause: error })
  return UNAVAILABLE_STATES.test(code) ? databaseUnavailable(error) : error
}

const databaseUnavailable = (cause: unknown): Failure =>
  fail('database_unavailable', { headers: { 'Retry-After': '1' }, cause })

/** The detail of these refusals is the time to wait, in seconds. */
const RETRYABLE_REFUSALS: Code[] = ['rate_limited', 'journal_full', 'lease_held', 'database_busy', 'confirmations_full']

function failureFromRefusal(code: Code, detail: string): Failure {
  if (RETRYABLE_REFUSALS.includes(code)) return fail(code, { headers: { 'Retry-After': detail } })
  if (code === 'idempotency_in_flight') return fail(code, { headers: { 'Retry-After': '1' } })
  return fail(code, { about: detail || undefined })
}
