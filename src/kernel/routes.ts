// A route is declared once: its path, schemas and verb. From the declaration come the handler here and the entry in the document.
import type { Context, Hono } from 'hono'
import type * as z from 'zod'
import type { Config } from '../env.ts'
import type { Caller, Seen, Verb } from './context.ts'
import { looksLikeApiKey, type Sealer, sha256Hex } from './crypto.ts'
import type { Database } from './db.ts'
import { type Code, type Fault, fail } from './errors.ts'
import { invalid, readBody, validate } from './input.ts'
import { next } from './paging.ts'
import { Uuid } from './wire.ts'

export type Edge = { Variables: { requestId: string; seen: Seen } }
export type Services = { config: Config; database: Database; sealer: Sealer }
type Method = 'get' | 'post' | 'patch' | 'delete'

/** A single resource carries its version beside its members: it becomes the ETag. */
export const version = Symbol('version')

type Tag = { name: string; description: string }

export type Operation = {
  method: Method
  path: string
  tag: Tag
  /** The document's operationId. */
  id: string
  summary: string
  description?: string
  params?: z.ZodObject
  query?: z.ZodObject
  body?: z.ZodType
  status?: number
  reply?: z.ZodType
  /** Errors beyond those that every such route can give. */
  errors?: Code[]
  /** Has an ETag when read, takes If-Match when written. */
  versioned?: boolean
  location?: (reply: never) => string
  verb?: Verb<never, unknown>
  /** A route without a key answers by itself. */
  open?: (c: Context<Edge>, services: Services) => Response | Promise<Response>
}

type Empty = z.ZodObject<Record<never, never>>
type Declared<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodType, R extends z.ZodType> = Omit<
  Operation,
  'method' | 'path' | 'tag' | 'params' | 'query' | 'body' | 'reply' | 'verb' | 'location'
> & {
  params?: P
  query?: Q
  body?: B
  reply?: R
  verb?: Verb<z.output<Q> & z.output<B> & z.output<P>, z.output<R>>
  location?: (reply: z.output<R>) => string
}

/** The routes of one slice, under one heading of the document. */
export function slice(name: string, description: string) {
  const tag = { name, description }
  const operations: Operation[] = []
  const declare =
    (method: Method) =>
    <
      P extends z.ZodObject = Empty,
      Q extends z.ZodObject = Empty,
      B extends z.ZodType = Empty,
      R extends z.ZodType = z.ZodVoid,
    >(
      path: string,
      declared: Declared<P, Q, B, R>,
    ) => {
      operations.push({ ...(declared as unknown as Operation), method, path, tag })
      return routes
    }
  const routes = {
    operations,
    get: declare('get'),
    post: declare('post'),
    patch: declare('patch'),
    delete: declare('delete'),
  }
  return routes
}

/** `/a/{b}` as the document writes it is `/a/:b` to the router. */
const routed = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

export function mount(app: Hono<Edge>, operations: Operation[], services: Services): void {
  for (const operation of operations) {
    app.on(operation.method.toUpperCase(), routed(operation.path), c =>
      operation.open ? operation.open(c, services) : serve(c, operation, services),
    )
  }
  for (const path of new Set(operations.map(operation => operation.path))) {
    const methods = operations.filter(operation => operation.path === path).map(one => one.method.toUpperCase())
    if (methods.includes('GET')) methods.push('HEAD')
    const headers = { Allow: methods.join(', ') }
    app.all(routed(path), () => {
      throw fail('method_not_allowed', { headers })
    })
  }
}

async function serve(c: Context<Edge>, operation: Operation, services: Services): Promise<Response> {
  const key = apiKeyOf(c)
  const caller = await admit(c, operation, services, key)
  const text = operation.method === 'get' ? '' : await readBody(c.req)
  const input = validate(c.req, operation, text)
  caller.idempotency = await idempotencyOf(c, operation, text)
  const reply = (await operation.verb!(caller, input as never)) as Record<string | symbol, unknown> | undefined
  return answer(c, operation, reply)
}

/** Says who asks before anything of the body is read; garbage is refused here, without a trip. */
function apiKeyOf(c: Context<Edge>): string {
  const bearer = /^Bearer +(\S+) *$/i.exec(c.req.header('Authorization') ?? '')?.[1]
  const key = c.req.header('X-Api-Key') ?? bearer
  if (!key) throw fail('key_missing')
  if (!looksLikeApiKey(key)) throw fail('key_malformed')
  return key
}

async function admit(c: Context<Edge>, operation: Operation, services: Services, key: string): Promise<Caller> {
  const hash = await sha256Hex(key)
  const { limiter } = services.config
  if (limiter && !(await limiter.limit({ key: hash })).success) {
    throw fail('rate_limited', { headers: { 'Retry-After': '60' } })
  }
  const faults: Fault[] = []
  const tenant = c.req.header('X-Tenant-Id')
  if (tenant !== undefined && !Uuid.safeParse(tenant).success) {
    faults.push({ type: 'invalid_format', loc: ['header', 'X-Tenant-Id'], msg: 'needs to be a UUID' })
  }
  const ifMatch = operation.versioned && operation.method !== 'get' ? c.req.header('If-Match') : undefined
  if (faults.length > 0) throw invalid(faults)
  return {
    ...services,
    actor: { kind: 'key', hash },
    tenant: tenant ?? null,
    requestId: c.get('requestId'),
    ifMatch: ifMatch === undefined || ifMatch.trim() === '*' ? null : versionsIn(ifMatch),
    withoutIfMatch: operation.versioned === true && operation.method !== 'get' && ifMatch === undefined,
    idempotency: null,
    seen: c.get('seen'),
  }
}

/** `"3", "4"` names versions 3 and 4; a weak or foreign tag names none, so that it never matches. */
const versionsIn = (ifMatch: string): number[] =>
  [...ifMatch.matchAll(/(?<!W\/)"(\d{1,9})"/g)].map(([, number]) => Number(number))

async function idempotencyOf(c: Context<Edge>, operation: Operation, text: string): Promise<Caller['idempotency']> {
  const key = c.req.header('Idempotency-Key')
  if (key === undefined || (operation.method !== 'post' && operation.method !== 'patch')) return null
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    const msg = 'needs 1 to 255 visible ASCII characters'
    throw invalid([{ type: 'invalid_format', loc: ['header', 'Idempotency-Key'], msg }])
  }
  const { pathname, search } = new URL(c.req.url)
  const tenant = c.req.header('X-Tenant-Id') ?? ''
  return { key, fingerprint: await sha256Hex([c.req.method, pathname + search, tenant, text].join('\n')) }
}

function answer(c: Context<Edge>, operation: Operation, reply: Record<string | symbol, unknown> | undefined): Response {
  const { seen } = c.var
  c.header('Cache-Control', 'no-store')
  if (seen.replayed) c.header('Idempotency-Replayed', 'true')
  if (reply && next in reply) c.header('Link', `<${nextPage(c.req.url, reply)}>; rel="next"`)
  if (operation.location) c.header('Location', operation.location(reply as never))
  if (operation.versioned && reply && version in reply) {
    const tag = `"${String(reply[version])}"`
    c.header('ETag', tag)
    if (operation.method === 'get' && matches(c.req.header('If-None-Match'), tag)) return c.body(null, 304)
  }
  const status = (operation.status ?? (operation.reply ? 200 : 204)) as 200
  return operation.reply ? c.json(reply, status) : c.body(null, status)
}

/** If-None-Match compares weakly. */
const matches = (header: string | undefined, tag: string): boolean =>
  header?.split(',').some(one => one.trim() === '*' || one.trim().replace(/^W\//, '') === tag) ?? false

function nextPage(url: string, reply: Record<string | symbol, unknown>): string {
  const page = new URL(url)
  page.searchParams.set('offset', String(reply.offset))
  page.searchParams.set('cursor', String(reply[next]))
  return page.pathname + page.search
}
