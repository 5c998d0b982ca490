// A route is declared once: its path, schemas and verb. From the declaration come the handler here and the entry in the document.
import type { Context, Hono } from 'hono'
import type * as z from 'zod'
import type { Config } from '../env.ts'
import { Uuid } from '../protocol/wire.ts'
import { createKeyCaller, readApiKey, readCallerHeaders } from './caller.ts'
import { type CallerLimits, createCallerLimits, type KeyedRequest } from './caller-limits.ts'
import type { Code } from './codes.ts'
import { type Caller, type RequestInfo, type Verb, withoutRateLimit } from './context.ts'
import type { Sealer } from './crypto.ts'
import { type Database, verifyKey } from './db.ts'
import { sha256Hex } from './digest.ts'
import { fail } from './errors.ts'
import { matchesEtag } from './etag.ts'
import { readBody, refuseLargeBody, validateInput } from './input.ts'
import { nextCursor } from './paging.ts'

export type AppEnv = { Variables: { requestId: string; seen: RequestInfo; limits: CallerLimits } }
export type Services = { config: Config; database: Database; sealer: Sealer }
type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** A single resource carries its version beside its members: it becomes the ETag. */
export const etagVersion = Symbol('version')

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
  /** The media type of a body that is no JSON, which the route reads by itself. */
  bodyMediaType?: string
  /** Its body may take minutes to arrive: hosts bound its pauses instead. */
  longBody?: boolean
  /** A POST that only asks: it leaves no event, and a repeat needs no key. */
  isReadOnly?: boolean
  /** A repeat of it does nothing more, by what it says itself: it needs no key, and leaves an event only of what it changed. */
  idempotent?: boolean
  /** The media type of an answer that is no JSON: a page, whether it went well or not. */
  pageMediaType?: string
  /** The media type of an answer that is bytes; failures are told as everywhere. */
  streamMediaType?: string
  status?: number
  reply?: z.ZodType
  /** Errors beyond those that every such route can give. */
  errors?: Code[]
  /** Has an ETag when read, takes If-Match when written. */
  versioned?: boolean
  location?: (reply: never) => string
  /** Foreign servers are asked in between: one trip before, one after. */
  asksForeignServers?: boolean
  /** Some of what was asked failed: 207. */
  partial?: (reply: never) => boolean
  /** Where this query parameter is true, another verb answers, under its own permission. */
  variant?: { on: string; reply: z.ZodType; verb: Verb<never, unknown> }
  verb?: Verb<never, unknown>
  /** A route without a key answers by itself. */
  open?: (c: Context<AppEnv>, services: Services) => Response | Promise<Response>
}

type EmptySchema = z.ZodObject<Record<never, never>>
type RouteDeclaration<
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodType,
  R extends z.ZodType,
  D extends z.ZodType,
> = Omit<
  Operation,
  'method' | 'path' | 'tag' | 'params' | 'query' | 'body' | 'reply' | 'verb' | 'location' | 'partial' | 'variant'
> & {
  params?: P
  query?: Q
  body?: B
  reply?: R
  verb?: Verb<z.output<Q> & z.output<B> & z.output<P>, z.output<R>>
  location?: (reply: z.output<R>) => string
  partial?: (reply: z.output<R>) => boolean
  variant?: {
    on: keyof z.output<Q> & string
    reply: D
    verb: Verb<z.output<Q> & z.output<B> & z.output<P>, z.output<D>>
  }
}

/** The routes of one slice, under one heading of the document. */
export function slice(name: string, description: string) {
  const tag = { name, description }
  const operations: Operation[] = []
  const declare =
    (method: Method) =>
    <
      P extends z.ZodObject = EmptySchema,
      Q extends z.ZodObject = EmptySchema,
      B extends z.ZodType = EmptySchema,
      R extends z.ZodType = z.ZodVoid,
      D extends z.ZodType = z.ZodVoid,
    >(
      path: string,
      declared: RouteDeclaration<P, Q, B, R, D>,
    ) => {
      operations.push({ ...(declared as unknown as Operation), method, path, tag })
      return routes
    }
  const routes = {
    operations,
    get: declare('get'),
    post: declare('post'),
    put: declare('put'),
    patch: declare('patch'),
    delete: declare('delete'),
  }
  return routes
}

/** `/a/{b}` as the document writes it is `/a/:b` to the router. */
const toRouterPath = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** Whether a repeat of it can be told from a second one: by its key. */
export const canUseIdempotencyKey = ({ method, verb, isReadOnly: reads, idempotent }: Operation): boolean =>
  verb !== undefined && !reads && !idempotent && (method === 'post' || method === 'patch')

/** A path that is spelt out comes before one with a parameter in its place, with all its methods. */
export function mountOperations(app: Hono<AppEnv>, operations: Operation[], services: Services): void {
  const parameters = (path: string) => path.split('{').length
  const limits = createCallerLimits(services)
  const paths = [...new Set(operations.map(operation => operation.path))]
  for (const path of paths.toSorted((one, other) => parameters(one) - parameters(other))) {
    const own = operations.filter(operation => operation.path === path)
    for (const operation of own) {
      app.on(operation.method.toUpperCase(), toRouterPath(path), c => {
        c.set('limits', limits)
        return operation.open ? operation.open(c, services) : serveOperation(c, operation, services)
      })
    }
    const methods = own.map(one => one.method.toUpperCase())
    if (methods.includes('GET')) methods.push('HEAD')
    const headers = { Allow: methods.join(', ') }
    app.all(toRouterPath(path), () => {
      throw fail('method_not_allowed', { headers })
    })
  }
}

const NO_STORE = { 'Cache-Control': 'no-store' }

/**
 * From what costs least to what costs most: the key's shape, the declared size, the budgets, the body, the database.
 */
async function serveOperation(c: Context<AppEnv>, operation: Operation, services: Services): Promise<Response> {
  const { limits } = c.var
  const address = services.config.clientAddress(c)
  const key = readKeyCountingFailures(c, address)
  if (operation.method !== 'get') refuseLargeBody(c.req)
  const hash = sha256Hex(key)
  const arrival = await limits.arrive(hash, address)
  const caller = createKeyCaller(c, services, hash, arrival.recordAccepted)
  try {
    return await runOperation(c, operation, caller, arrival)
  } catch (error) {
    arrival.recordFailure(error, caller)
    throw error
  }
}

function readKeyCountingFailures(c: Context<AppEnv>, address: string | undefined): string {
  try {
    return readApiKey(c)
  } catch (error) {
    c.var.limits.failedWithoutKey(address)
    throw error
  }
}

async function runOperation(
  c: Context<AppEnv>,
  operation: Operation,
  caller: Caller,
  arrival: KeyedRequest,
): Promise<Response> {
  const { variant } = operation
  // A large body is worth a trip of its own to learn whose it is; of a key that entered lately that is known.
  const beforeLarge = () => (arrival.isRecentlyAccepted() ? undefined : verifyKeyFirst(c, operation, caller))
  const text = operation.method === 'get' ? '' : await readBody(c.req, beforeLarge)
  caller.bodyBytes = Buffer.byteLength(text)
  const faults = readCallerHeaders(c, operation, text, caller)
  const input = validateInput(c.req, operation, text, faults)
  if (variant && input[variant.on] === true) return c.json(await variant.verb(caller, input as never), 200, NO_STORE)
  const reply = (await operation.verb!(caller, input as never)) as Record<string | symbol, unknown> | undefined
  return sendReply(c, operation, reply)
}

async function verifyKeyFirst(c: Context<AppEnv>, { verb, variant }: Operation, caller: Caller): Promise<void> {
  const { data: tenant = null } = Uuid.safeParse(c.req.header('X-Tenant-Id'))
  const isVariant = variant && c.req.query(variant.on)?.toLowerCase() === 'true'
  const { permission } = (isVariant ? variant.verb : verb)!
  await verifyKey({ ...caller, tenant, permission })
  caller.config = withoutRateLimit({ ...caller, permission }).config
}

function sendReply(
  c: Context<AppEnv>,
  operation: Operation,
  reply: Record<string | symbol, unknown> | undefined,
): Response {
  const { seen } = c.var
  c.header('Cache-Control', NO_STORE['Cache-Control'])
  if (seen.replayed) c.header('Idempotency-Replayed', 'true')
  if (reply && nextCursor in reply) c.header('Link', `<${nextPageUrl(c.req.url, reply)}>; rel="next"`)
  if (operation.location) c.header('Location', operation.location(reply as never))
  if (operation.versioned && reply && etagVersion in reply) {
    const tag = `"${String(reply[etagVersion])}"`
    c.header('ETag', tag)
    if (operation.method === 'get' && matchesEtag(c.req.header('If-None-Match'), tag)) return c.body(null, 304)
  }
  const partly = operation.partial?.(reply as never) ? 207 : undefined
  const status = (partly ?? operation.status ?? (operation.reply ? 200 : 204)) as 200
  return operation.reply ? c.json(reply, status) : c.body(null, status)
}

function nextPageUrl(url: string, reply: Record<string | symbol, unknown>): string {
  const page = new URL(url)
  page.searchParams.set('offset', String(reply.offset))
  page.searchParams.set('cursor', String(reply[nextCursor]))
  return page.pathname + page.search
}
