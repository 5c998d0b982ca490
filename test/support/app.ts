// What every test begins with: the app, a tenant of its own, and requests whose every answer is held against the document.

import { sql } from 'drizzle-orm'
import { expect } from 'vitest'
import { startRuntime } from '#runtime'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { operations } from '../../src/app.ts'
import type { Config } from '../../src/env.ts'
import { createSealer } from '../../src/kernel/crypto.ts'
import { type Database, runAsSystem, type Trip } from '../../src/kernel/db.ts'
import { errorStatuses } from '../../src/kernel/openapi.ts'
import type { Operation } from '../../src/kernel/routes.ts'
import { makeFakeFetch } from './fake-fetch.ts'
import { GITHUB_APP } from './fake-git-hosts.ts'
import { PKCS1 } from './github-app-key.ts'
import { REGISTRY_SETTINGS } from './registry-settings.ts'

export const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
/** The operator's own GitHub App, with its key as GitHub gives it. */
const GITHUB_SETTINGS = {
  GITHUB_APP_ID: GITHUB_APP.id,
  GITHUB_APP_SLUG: GITHUB_APP.slug,
  GITHUB_APP_PRIVATE_KEY: PKCS1,
  GITHUB_APP_CLIENT_ID: GITHUB_APP.clientId,
  GITHUB_APP_CLIENT_SECRET: GITHUB_APP.clientSecret,
  GITHUB_APP_WEBHOOK_SECRET: 'hush-webhook-secret',
}
export const logLines: Record<string, unknown>[] = []
/** Milliseconds that the app believes to have passed. */
export const clock = { ahead: 0 }
/** What comes of it once as much time has passed. */
export async function withClockAhead<T>(ms: number, act: () => Promise<T>): Promise<T> {
  clock.ahead += ms
  return act().finally(() => (clock.ahead -= ms))
}

/** Every foreign server there is: none, unless a test puts some here. */
export const foreignServers: { fetch: typeof fetch } = { fetch: makeFakeFetch({}) }
/** Every TXT record of DNS, by name. */
export const txtRecords = new Map<string, string[]>()

export type AppOptions = {
  settings?: Record<string, unknown>
  overrides?: Partial<Config>
  through?: 'gateway' | 'unwalled'
}
export function startApp({ settings = {}, through = 'gateway', ...options }: AppOptions = {}) {
  const log = (line: Record<string, unknown>) => void logLines.push(line)
  const foreignFetch: typeof fetch = (input, init) => foreignServers.fetch(input, init)
  const resolveTxt = async (name: string) => (txtRecords.get(name) ?? []).map(text => [text])
  const overrides: Partial<Config> = {
    log,
    clockOffset: () => clock.ahead,
    foreignFetch,
    resolveTxt,
    ...options.overrides,
  }
  const common = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, RATE_LIMIT_PER_MINUTE: '0' }
  return startRuntime({ ...common, ...GITHUB_SETTINGS, ...REGISTRY_SETTINGS, ...settings }, overrides, through)
}

export type App = ReturnType<typeof startApp>
let sharedApp: App | undefined
export const getApp = (): App => (sharedApp ??= startApp())
export function getServices({ config, database } = getApp()) {
  return { config, database, sealer: createSealer(config.sealingKeys) }
}
/** The database with the trips of both logins led through `around`. */
export const wrapTrips = (database: Database, around: (trip: Trip) => Trip): Database =>
  Object.assign(around(database), { asSystem: around(database.asSystem) })
/** For tests of what looks at every workspace, as the schedule does. A listener is deleted after what it serves. */
export const deleteOrganizations = () =>
  runAsSystem(getApp().database, sql`delete from deployments`, sql`delete from organizations`)

/** A body is read as the test expects it; `expectDocumented` has held it against its schema. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type Reply = { status: number; headers: Headers; body: any; text: string }
type SendOptions = {
  body?: unknown
  raw?: string | Uint8Array<ArrayBuffer> | ReadableStream
  headers?: Record<string, string>
  app?: App
}

/** Sends a request and holds the answer against what the document says of it. */
export async function send(
  method: string,
  path: string,
  { body, raw, headers = {}, app = getApp() }: SendOptions = {},
): Promise<Reply> {
  const init: RequestInit & { duplex: 'half' } = {
    method,
    // Node wants to be told that a streamed body comes before the answer.
    duplex: 'half',
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
  }
  if (body !== undefined || raw !== undefined) init.body = raw ?? JSON.stringify(body)
  const response = await app.fetch(new Request(`http://slipway.test${path}`, init))
  const text = await response.text()
  const json = text && response.headers.get('Content-Type')?.includes('json') ? JSON.parse(text) : undefined
  const reply = { status: response.status, headers: response.headers, body: json, text }
  expectDocumented(method, path, reply)
  await expectEvent(method, path, reply, app)
  return reply
}

export function findOperation(method: string, path: string) {
  const { pathname } = new URL(path, 'http://slipway.test')
  const matching = operations.filter(
    one =>
      one.method === method.toLowerCase() && new RegExp(`^${one.path.replace(/\{\w+\}/g, '[^/]+')}$`).test(pathname),
  )
  // A literal segment wins over a parameter, as in the router.
  return matching.sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0]
}

export async function readEvents(requestId: string, app: App = getApp()): Promise<Record<string, unknown>[]> {
  // Written so that the counter of trips does not take this look for one of the request's own.
  const columns = ['type', 'subject_id', 'actor_kind', 'actor_id', 'organization_id', 'tenant_id', 'scope_id', 'data']
  const query = sql`select ${sql.raw(columns.join(', '))} from events where 'of ' || request_id = ${`of ${requestId}`}`
  const [rows] = await runAsSystem(app.database, query)
  return (rows as unknown[][]).map(row => Object.fromEntries(row.map((value, i) => [columns[i], value])))
}

/** A write that succeeded has left its event. */
async function expectEvent(method: string, path: string, { status, headers }: Reply, app: App): Promise<void> {
  const wrote = method !== 'GET' && !/dry_run=true/i.test(path) && status < 207 && !headers.has('Idempotency-Replayed')
  const operation = findOperation(method, path)
  if (!wrote || !operation || operation.isReadOnly || operation.idempotent) return
  expect(await readEvents(headers.get('X-Request-Id')!, app), `${method} ${path}`).not.toEqual([])
}

function expectDocumented(method: string, path: string, { status, headers, body, text }: Reply): void {
  expect(headers.get('X-Request-Id')).toBeTruthy()
  const operation = findOperation(method, path)
  if (operation?.pageMediaType) {
    expect(headers.get('Content-Type')).toBe(`${operation.pageMediaType}; charset=utf-8`)
    expect(headers.get('Content-Security-Policy')).not.toMatch(/script|unsafe/)
  } else if (status >= 400) {
    expect(headers.get('Content-Type')).toBe('application/problem+json')
    const members = ['type', 'title', 'status', 'detail', 'code', 'request_id']
    if (method === 'HEAD') expect(text).toBe('')
    else expect(body).toMatchObject({ ...Object.fromEntries(members.map(name => [name, expect.anything()])), status })
    if (status === 422 && body?.code === 'invalid_request') expect(body.errors.length).toBeGreaterThan(0)
  }
  if (!operation) return
  const success =
    operation.status ?? (operation.reply || operation.pageMediaType || operation.streamMediaType ? 200 : 204)
  if (status < 300) {
    const { variant } = operation
    const varied =
      variant && new URL(path, 'http://slipway.test').searchParams.get(variant.on)?.toLowerCase() === 'true'
    expect(operation.partial ? [success, 207] : [varied ? 200 : success]).toContain(status)
    const schema = varied ? variant.reply : operation.reply
    if (schema) expect(schema.parse(body)).toEqual(body)
    else if (!operation.pageMediaType && !operation.streamMediaType) expect(text).toBe('')
  } else if (status !== 304) {
    expect(errorStatuses(operation), `${operation.id} answered ${status}`).toContain(status)
  }
}

export type Tenant = Awaited<ReturnType<typeof newTenant>>

/** An organization with one workspace, an Admin key of it and an organization key, and one person who is Admin of all. */
export async function newTenant(options: { app?: App } = {}) {
  const app = options.app ?? getApp()
  const organization = `org-${crypto.randomUUID()}`
  const wanted = { organization, emails: ['owner@example.com'] }
  const admin = await bootstrap(app.database, wanted)
  const owner = await bootstrap(app.database, { ...wanted, scope: 'organization' })
  const as = (key: string, standing: Record<string, string> = {}) => {
    const call =
      (method: string) =>
      (path: string, body?: unknown, headers: Record<string, string> = {}) =>
        send(method, path, { body, headers: { 'X-Api-Key': key, ...standing, ...headers }, app })
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
    organization_id: admin.organization_id,
    tenant_id: admin.tenant_id,
    as,
    /** The workspace's Admin. */
    ...as(admin.api_key),
    /** The organization's Admin. */
    owner: as(owner.api_key),
  }
}

/** A body that an operation takes, from its schema. */
export const getExampleBody = (operation: Operation): Record<string, unknown> | undefined =>
  operation.body && ((operation.body.meta() as { example?: Record<string, unknown> }).example ?? {})

/** A query that an operation needs, from its schema. */
export const getExampleQuery = (operation: Operation): string => {
  const { example } = (operation.query?.meta() ?? {}) as { example?: Record<string, string> }
  return example ? `?${new URLSearchParams(example)}` : ''
}

/** Every route that takes a key, and beside it the variant that another verb answers. */
export const guardedOperations: Operation[] = operations
  .filter(operation => operation.verb)
  .flatMap(operation => {
    const { variant, query } = operation
    if (!variant || !query) return [operation]
    const example = { ...(query.meta()?.example as object), [variant.on]: 'true' }
    const { id, verb } = { id: `${operation.id} with ${variant.on}`, verb: variant.verb }
    return [operation, { ...operation, id, verb, query: query.meta({ example }) }]
  })

/** A made-up id that is nobody's. */
export const unusedId = () => crypto.randomUUID()
