// The basis of every test: the app, a tenant of its own, and requests whose answers are checked against the document.

import { isDeepStrictEqual } from 'node:util'
import { sql } from 'drizzle-orm'
import { expect, inject } from 'vitest'
import type * as z from 'zod'
import { startRuntime } from '#runtime'
import { loadOperations } from '../../src/app.ts'
import type { Config } from '../../src/env.ts'
import { createSealer, makeKeyHint, newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { type Database, runAsSystem, type Trip } from '../../src/kernel/db/db.ts'
import { isWorkspaceScoped } from '../../src/kernel/http/context.ts'
import { errorStatuses } from '../../src/kernel/http/openapi.ts'
import { resolveAlias } from '../../src/kernel/http/path-aliases.ts'
import type { KeyedOperation, Operation, ReplyingOperation } from '../../src/kernel/http/routes.ts'
import { ADMIN, ORGANIZATION_ADMIN } from '../../src/people/access/built-in-roles.ts'
import { EVENT_OPERATIONS } from '../../src/people/audit/operation-names.ts'
import { createClock, type Platform } from '../../src/platform.ts'
import { makeFakeFetch } from './fake-fetch.ts'
import { GITHUB_APP } from './fake-git-hosts.ts'
import { onFileEnd } from './file-state.ts'
import { PKCS1 } from './github-app-key.ts'
import { REGISTRY_SETTINGS } from './registry-settings.ts'

const operations = await loadOperations()

export const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
/** The operator's own GitHub App. GitHub issues its key as PKCS#1. */
const GITHUB_SETTINGS = {
  GITHUB_APP_ID: GITHUB_APP.id,
  GITHUB_APP_SLUG: GITHUB_APP.slug,
  GITHUB_APP_PRIVATE_KEY: PKCS1,
  GITHUB_APP_CLIENT_ID: GITHUB_APP.clientId,
  GITHUB_APP_CLIENT_SECRET: GITHUB_APP.clientSecret,
  GITHUB_APP_WEBHOOK_SECRET: 'hush-webhook-secret',
}
export const logLines: Record<string, unknown>[] = []
/** Milliseconds by which the app's clock is ahead. */
export const clock = { ahead: 0 }
export async function withClockAhead<T>(ms: number, act: () => Promise<T>): Promise<T> {
  clock.ahead += ms
  return act().finally(() => (clock.ahead -= ms))
}

/** Answers requests to foreign servers: there are none, unless a test replaces it. */
export const foreignServers: { fetch: typeof fetch } = { fetch: makeFakeFetch({}) }
/** The TXT records of DNS, by name. */
export const txtRecords = new Map<string, string[]>()

/** Parts of the settings and of the platform that a test replaces. */
export type Overrides = Partial<Config & Platform>
export type AppOptions = {
  settings?: Record<string, unknown>
  overrides?: Overrides
  through?: 'gateway' | 'withoutTenantPredicates' | 'withoutRowSecurity'
}
export function startApp({ settings = {}, through = 'gateway', ...options }: AppOptions = {}) {
  const log = (line: Record<string, unknown>) => void logLines.push(line)
  const foreignFetch: typeof fetch = (input, init) => foreignServers.fetch(input, init)
  const resolveTxt = async (name: string) => (txtRecords.get(name) ?? []).map(text => [text])
  const overrides: Overrides = {
    log,
    clock: createClock(() => clock.ahead),
    foreignFetch,
    resolveTxt,
    exchangeMs: 0,
    // Streams end after their first page. Tests that need more start another app.
    liveStreams: { seconds: 0, trips: 45, perKey: 100, lookMs: [10, 20], keyCheckMs: 15_000 },
    ...options.overrides,
  }
  const unlimited = { RATE_LIMIT_PER_MINUTE: '0', INGESTION_RATE_LIMIT_PER_MINUTE: '0' }
  const clickHouse = inject('clickHouse')
  const common = {
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS,
    ...unlimited,
    ...(clickHouse && { TRACES_CLICKHOUSE_URL: clickHouse }),
  }
  return startRuntime({ ...common, ...GITHUB_SETTINGS, ...REGISTRY_SETTINGS, ...settings }, overrides, through)
}

export type App = ReturnType<typeof startApp>
let sharedApp: App | undefined
onFileEnd(() => {
  sharedApp = undefined
  logLines.length = 0
  clock.ahead = 0
  foreignServers.fetch = makeFakeFetch({})
  txtRecords.clear()
})
export const getApp = (): App => (sharedApp ??= startApp())
export function getServices({ config, platform, database, traces, logs, shareGroups } = getApp()) {
  return { config, platform, database, sealer: createSealer(config.sealingKeys), traces, logs, shareGroups }
}
/** Wraps the round trips of both logins. */
export const wrapTrips = (database: Database, around: (trip: Trip) => Trip): Database =>
  Object.assign(around(database), { asSystem: around(database.asSystem) })
/** For tests of schedules, which see every workspace. Deployments refer to listeners, so they are deleted first. */
export const deleteOrganizations = () =>
  runAsSystem(getApp().database, sql`delete from deployments`, sql`delete from organizations`)

/** `expectDocumented` has checked the body against its schema. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type Reply = { status: number; headers: Headers; body: any; text: string }
type SendOptions = {
  body?: unknown
  raw?: string | Uint8Array<ArrayBuffer> | ReadableStream
  headers?: Record<string, string>
  app?: App
}

export async function send(
  method: string,
  path: string,
  { body, raw, headers = {}, app = getApp() }: SendOptions = {},
): Promise<Reply> {
  const init: RequestInit & { duplex: 'half' } = {
    method,
    // Node requires this for a streamed body.
    duplex: 'half',
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
  }
  if (body !== undefined || raw !== undefined) init.body = raw ?? JSON.stringify(body)
  const response = await app.fetch(new Request(`http://slipway.test${path}`, init))
  const text = await response.text()
  const json = text && /[/+]json/.test(response.headers.get('Content-Type') ?? '') ? JSON.parse(text) : undefined
  const reply = { status: response.status, headers: response.headers, body: json, text }
  expectDocumented(method, path, reply)
  await expectEvent(method, path, reply, app)
  return reply
}

// A literal segment wins over a parameter, as in the router.
const operationPatterns = operations
  .map(one => ({
    one,
    pattern: new RegExp(`^${one.path.replace(/\{\w+\}/g, '[^/]+')}${one.kind === 'passThrough' ? '.*' : ''}$`),
  }))
  .sort((a, b) => a.one.path.split('{').length - b.one.path.split('{').length)

export function findOperation(method: string, path: string): Operation | undefined {
  const pathname = resolveAlias(new URL(`http://slipway.test${path}`).pathname)
  const name = method.toLowerCase()
  const found = operationPatterns.filter(({ pattern }) => pattern.test(pathname))
  // A path without parameters answers for all methods of its own.
  const [{ one: first } = { one: undefined }] = found
  const exact = first && !first.path.includes('{') && found.filter(({ one }) => one.path === first.path)
  return (exact || found).find(({ one }) => one.method === name)?.one
}

export async function readEvents(requestId: string, app: App = getApp()): Promise<Record<string, unknown>[]> {
  // The prefix hides the id from the counter of round trips, which would count this query for the request.
  const columns = [
    'type',
    'subject_id',
    'actor_kind',
    'actor_id',
    'actor_name',
    'organization_id',
    'tenant_id',
    'scope_id',
    'seq',
    'part_of',
    'request_id',
    'request',
    'data',
    'changes',
  ]
  const query = sql`
    select ${sql.raw(columns.join(', '))}
    from events
    where 'of ' || request_id = ${`of ${requestId}`}
    order by scope_id, seq`
  const [rows] = await runAsSystem(app.database, query)
  return (rows as unknown[][]).map(row => Object.fromEntries(row.map((value, i) => [columns[i], value])))
}

/** A successful write has an event that names the actor and the operation. */
async function expectEvent(method: string, path: string, { status, headers }: Reply, app: App): Promise<void> {
  const hasWritten =
    method !== 'GET' && !/dry_run=true/i.test(path) && status < 207 && !headers.has('Idempotency-Replayed')
  const operation = findOperation(method, path)
  if (!hasWritten || !operation || operation.isReadOnly || operation.idempotent) return
  const event = { request: expect.stringContaining(`"operation":"${operation.id}"`), part_of: null }
  const actor = operation.kind !== 'open' && { actor_name: expect.any(String) }
  const events = await readEvents(headers.get('X-Request-Id')!, app)
  expect(events, `${method} ${path}`).toContainEqual(expect.objectContaining({ ...event, ...actor }))
  for (const { type } of events)
    expect(EVENT_OPERATIONS, 'src/people/audit/operation-names.ts').toHaveProperty([String(type)])
}

function expectDocumented(method: string, path: string, { status, headers, body, text }: Reply): void {
  expect(headers.get('X-Request-Id')).toBeTruthy()
  const operation = findOperation(method, path)
  const open = operation?.kind === 'open' ? operation : undefined
  if (operation?.kind === 'passThrough' && headers.get('Content-Type') !== 'application/problem+json') return
  if (open?.pageMediaType && status !== 302) {
    expect(headers.get('Content-Type')).toBe(`${open.pageMediaType}; charset=utf-8`)
    expect(headers.get('Content-Security-Policy')).not.toMatch(/script|unsafe/)
  } else if (open?.oauthErrors && status >= 400) {
    expect(headers.get('Content-Type')).toBe('application/json')
    expect(body).toMatchObject({ error: expect.any(String), error_description: expect.any(String) })
  } else if (status >= 400) {
    expect(headers.get('Content-Type')).toBe('application/problem+json')
    const members = ['type', 'title', 'status', 'detail', 'code', 'request_id']
    if (method === 'HEAD') expect(text).toBe('')
    else expect(body).toMatchObject({ ...Object.fromEntries(members.map(name => [name, expect.anything()])), status })
    if (status === 422 && body?.code === 'invalid_request') expect(body.errors.length).toBeGreaterThan(0)
  }
  if (!operation) return
  const { reply, status: ownStatus }: ReplyingOperation = operation
  const success = ownStatus ?? (reply || hasTextReply(operation) ? 200 : 204)
  if (status < 300 || status === ownStatus) {
    const json = operation.kind === 'json' ? operation : undefined
    const variant = json?.variant
    const isVariant =
      variant && new URL(path, 'http://slipway.test').searchParams.get(variant.on)?.toLowerCase() === 'true'
    expect(json?.partial ? [success, 207] : [isVariant ? 200 : success]).toContain(status)
    const schema = isVariant ? variant.reply : reply
    if (schema) expectEqual(schema.parse(body), body)
    else if (!hasTextReply(operation)) expect(text).toBe('')
  } else if (status !== 304) {
    expect(errorStatuses(operation), `${operation.id} answered ${status}`).toContain(status)
  }
}

const hasTextReply = (operation: Operation) =>
  operation.kind === 'liveStream' ||
  (operation.kind === 'open' && operation.pageMediaType !== undefined) ||
  ('streamMediaType' in operation && operation.streamMediaType !== undefined)

/** `toEqual`, but a quarter of its time where the two are equal: a page of a hundred deployments took it 3 ms. */
const expectEqual = (found: unknown, wanted: unknown): void => {
  if (!isDeepStrictEqual(found, wanted)) expect(found).toEqual(wanted)
}

export type Tenant = Awaited<ReturnType<typeof newTenant>>

/** The rows of two runs of `bootstrap()`, one for each key. */
async function insertTenant(app: App) {
  const [organization_id, tenant_id, member_id] = Array.from({ length: 3 }, () => crypto.randomUUID())
  const keys = { admin: newApiKey(), owner: newApiKey() }
  const keyRow = (key: string, role: string) => sql`'Key of a test', ${makeKeyHint(key)}, ${sha256Hex(key)}, ${role}`
  await runAsSystem(
    app.database,
    sql`
      with new_organization as (
        insert into organizations (id, display_name)
        values (${organization_id}, ${`org-${organization_id}`})),
      new_workspace as (
        insert into workspaces (id, organization_id, display_name)
        values (${tenant_id}, ${organization_id}, 'Default')),
      new_member as (
        insert into members (id, organization_id, email, role_id)
        values (${member_id}, ${organization_id}, 'owner@example.com', ${ORGANIZATION_ADMIN})),
      new_workspace_member as (
        insert into workspace_members (organization_id, tenant_id, member_id, role_id)
        values (${organization_id}, ${tenant_id}, ${member_id}, ${ADMIN})),
      new_keys as (
        insert into api_keys (organization_id, tenant_id, description, hint, key_hash, role_id)
        values
          (${organization_id}, ${tenant_id}, ${keyRow(keys.admin, ADMIN)}),
          (${organization_id}, null, ${keyRow(keys.owner, ORGANIZATION_ADMIN)})
        returning id, organization_id, tenant_id, coalesce(tenant_id, organization_id) scope_id),
      new_journals as (
        insert into journals (scope_id, organization_id, seq)
        select scope_id, organization_id, 1
        from new_keys)
      insert into events
        (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
      select scope_id, 1, organization_id, tenant_id, 'api_key.created', id, 'operator', 'bootstrap', '{}'
      from new_keys`,
  )
  return { organization_id: organization_id!, tenant_id: tenant_id!, keys }
}

/** An organization with one workspace, an Admin key of each, and one person who is Admin of both. */
export async function newTenant(options: { app?: App } = {}) {
  const app = options.app ?? getApp()
  const { organization_id, tenant_id, keys } = await insertTenant(app)
  const as = (key: string, defaultHeaders: Record<string, string> = {}) => {
    const call =
      (method: string) =>
      (path: string, body?: unknown, headers: Record<string, string> = {}) =>
        send(method, path, { body, headers: { 'X-Api-Key': key, ...defaultHeaders, ...headers }, app })
    return {
      key,
      get: (path: string, headers?: Record<string, string>) => call('GET')(path, undefined, headers),
      post: call('POST'),
      put: call('PUT'),
      patch: call('PATCH'),
      delete: call('DELETE'),
    }
  }
  return {
    organization_id,
    tenant_id,
    as,
    /** The workspace's Admin. */
    ...as(keys.admin),
    /** The organization's Admin. */
    owner: as(keys.owner),
  }
}

export const getExampleBody = (operation: Operation): Record<string, unknown> | undefined =>
  operation.kind === 'json' || operation.kind === 'open' ? getExampleOf(operation.body) : undefined

const getExampleOf = (schema: z.ZodType | undefined) =>
  schema && ((schema.meta() as { example?: Record<string, unknown> }).example ?? {})

/** The body of the example and its headers, as `send` takes them. */
export function getExampleRequest(operation: Operation): { body?: unknown; raw?: string; headers: Headings } {
  const [media] = operation.kind === 'raw' ? Object.entries(operation.rawBody) : []
  if (!media) return { body: getExampleBody(operation), headers: {} }
  const [type, { schema, example }] = media
  if (example) return { raw: example.text, headers: { 'Content-Type': example.contentType } }
  return { raw: JSON.stringify(getExampleOf(schema)), headers: { 'Content-Type': type } }
}
type Headings = Record<string, string>

export const getExampleQuery = (operation: Operation): string => {
  const { example } = (operation.query?.meta() ?? {}) as { example?: Record<string, string> }
  return example ? `?${new URLSearchParams(example)}` : ''
}

/** Lists every route that needs a key. A variant with another verb counts as an operation. */
export const guardedOperations: KeyedOperation[] = operations
  .filter(operation => operation.kind !== 'open')
  .flatMap(operation => {
    if (operation.kind !== 'json' || !operation.variant || !operation.query) return [operation]
    const { variant, query } = operation
    const example = { ...(query.meta()?.example as object), [variant.on]: 'true' }
    const { id, verb } = { id: `${operation.id} with ${variant.on}`, verb: variant.verb }
    return [operation, { ...operation, id, verb, query: query.meta({ example }) }]
  })

/** Keeps one operation of each permission for a workspace, and one for an organization. */
export const onePerPermission = (all: KeyedOperation[]): KeyedOperation[] => [
  ...new Map(all.map(one => [`${one.verb.permission} ${isWorkspaceScoped(one.verb)}`, one])).values(),
]

export const unusedId = () => crypto.randomUUID()
