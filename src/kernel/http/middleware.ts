// The middleware of every request: id, log line, security headers, CORS, size of the head, and error responses.
import type { Context, MiddlewareHandler, NotFoundHandler } from 'hono'
import type { Config } from '../../env.ts'
import type { Platform } from '../../platform.ts'
import { describeAbsentFamily } from './absent-families.ts'
import type { Code } from './codes.ts'
import type { RequestInfo } from './context.ts'
import { type Failure, fail, oauthErrorResponse, problemResponse, toFailure } from './errors.ts'
import { addSecurityHeaders } from './json-response.ts'
import { isOurHost, requestOrigin } from './origin.ts'
import { resolvePath } from './path-aliases.ts'
import type { AppEnv } from './routes.ts'
import { maskPath } from './secret-paths.ts'

const REQUEST_ID = /^[\w.:-]{1,128}$/
const MAX_HEAD_LENGTH = 16 * 1024

const ALLOWED_METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
const EXPOSED_HEADERS =
  'ETag, Idempotency-Replayed, Link, Location, RateLimit, RateLimit-Policy, Retry-After, Slipway-Warnings, X-Request-Id'
const ONE_DAY_SECONDS = '86400'

type ErrorContext = { config: Config; platform: Pick<Platform, 'log'> }
type CountRequest = (operation: string | undefined, status: number, ms: number) => void

export function wrapRequest(
  { config, platform }: ErrorContext,
  countRequest: CountRequest = () => {},
): MiddlewareHandler<AppEnv> {
  return async (c, proceed) => {
    const started = Date.now()
    const sentId = c.req.header('X-Request-Id')
    const requestId = sentId && REQUEST_ID.test(sentId) ? sentId : crypto.randomUUID()
    c.set('requestId', requestId)
    const requestInfo: RequestInfo = {}
    c.set('requestInfo', requestInfo)
    if (hasOversizedHead(c)) c.res = await respondWithError(c, fail('headers_too_large'), { config, platform })
    else if (!isOurHost(config, c.req.url))
      c.res = await respondWithError(c, fail('host_unknown'), { config, platform })
    else await proceed()
    const { headers, status } = c.res
    headers.set('X-Request-Id', requestId)
    addSecurityHeaders(headers)
    setRateHeaders(headers, requestInfo, config)
    const { code, organization, tenant, actor, operation } = requestInfo
    countRequest(operation, status, Date.now() - started)
    platform.log({
      level: status >= 500 ? 'error' : 'info',
      request_id: requestId,
      method: c.req.method,
      path: maskPath(c.req.path),
      status,
      ms: Date.now() - started,
      ...(code && { code }),
      ...(actor && { organization_id: organization, tenant_id: tenant, actor_id: actor }),
    })
  }
}

function hasOversizedHead(c: Context): boolean {
  if (c.req.url.length > MAX_HEAD_LENGTH) return true
  let size = 0
  // On Node, the headers of a request are an object only once somebody reads them.
  const { rawHeaders } = (c.env as { incoming?: { rawHeaders?: string[] } } | undefined)?.incoming ?? {}
  if (rawHeaders) return rawHeaders.reduce((sum, text) => sum + text.length, 0) > MAX_HEAD_LENGTH
  c.req.raw.headers.forEach((value, name) => {
    size += name.length + value.length
  })
  return size > MAX_HEAD_LENGTH
}

function setRateHeaders(headers: Headers, requestInfo: RequestInfo, { rateLimits }: Config): void {
  const { budget = 'key', rate, actor, code } = requestInfo
  if (rateLimits[budget] === 0 || (!actor && !rate && code !== 'rate_limited')) return
  headers.set('RateLimit-Policy', `"${budget}";q=${rateLimits[budget]};w=60`)
  if (code === 'rate_limited') headers.set('RateLimit', `"${budget}";r=0;t=${headers.get('Retry-After')}`)
  else if (rate) headers.set('RateLimit', `"${budget}";r=${rate.remaining};t=${rate.reset}`)
}

/**
 * Sets headers on the finished response. Hono's own middleware sets them earlier, so that Hono copies the response.
 * Routes under `publicPath` take no key and no cookie.
 */
export function cors(origins: string[], publicPath: string): MiddlewareHandler {
  return async (c, proceed) => {
    const isAnyOrigin = origins.includes('*') || c.req.path.startsWith(publicPath)
    if (c.req.method === 'OPTIONS') c.res = answerPreflight(c.req.header('Access-Control-Request-Headers'))
    else await proceed()
    const { headers } = c.res
    headers.append('Vary', 'Origin')
    const origin = c.req.header('Origin')
    if (origin === undefined || !(isAnyOrigin || origins.includes(origin))) return
    headers.set('Access-Control-Allow-Origin', isAnyOrigin ? '*' : origin)
    headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS)
  }
}

function answerPreflight(requestedHeaders: string | undefined): Response {
  const headers = new Headers({
    'Access-Control-Allow-Methods': ALLOWED_METHODS,
    'Access-Control-Max-Age': ONE_DAY_SECONDS,
  })
  if (requestedHeaders !== undefined) {
    headers.set('Access-Control-Allow-Headers', requestedHeaders)
    headers.set('Vary', 'Access-Control-Request-Headers')
  }
  return new Response(null, { status: 204, headers })
}

/** The causes of these go to the log and never into a response. */
const OPERATOR_FAULTS: Code[] = [
  'internal',
  'not_configured',
  'database_unavailable',
  'storage_unavailable',
  'trace_storage_unavailable',
  'sign_in_refused',
]

/** Exported for routes that answer a failure with a page. */
export function logFailureCause(failure: Failure, requestId: string, { log }: Pick<Platform, 'log'>): void {
  if (!OPERATOR_FAULTS.includes(failure.code)) return
  const { name, message, stack } = (failure.cause ?? failure) as Error
  log({ level: 'error', request_id: requestId, error: name, message, stack })
}

export function respondWithError(
  c: Context<AppEnv>,
  error: unknown,
  { config, platform }: ErrorContext,
): Promise<Response> {
  const failure = toFailure(error)
  const { code } = failure
  const requestInfo = c.get('requestInfo')
  const requestId = c.get('requestId')
  requestInfo.code = code
  logFailureCause(failure, requestId, platform)
  if (requestInfo.oauthErrors) return oauthErrorResponse(failure, requestId)
  return problemResponse(failure, requestId, requestOrigin(config, c.req.url), {
    hasErrorMember: requestInfo.passThrough,
  })
}

export const notFound: NotFoundHandler<AppEnv> = c => {
  const detail = describeAbsentFamily(resolvePath(c.req.raw))
  throw fail('route_not_found', detail === undefined ? {} : { detail })
}
