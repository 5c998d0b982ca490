// What surrounds every request: its id, one line of log, headers, limits, and the one shape of errors.
import type { Context, MiddlewareHandler, NotFoundHandler } from 'hono'
import type { Config } from '../env.ts'
import { Failure, fail, problem } from './errors.ts'
import type { Edge } from './routes.ts'

const REQUEST_ID = /^[\w.:-]{1,128}$/
const LONGEST = 16 * 1024

const SECURITY = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Permissions-Policy': 'interest-cohort=()',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=63072000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
}

export const EXPOSED =
  'ETag, Idempotency-Replayed, Link, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'

export function edge(config: Config): MiddlewareHandler<Edge> {
  return async (c, proceed) => {
    const started = Date.now()
    const given = c.req.header('X-Request-Id')
    const requestId = given && REQUEST_ID.test(given) ? given : crypto.randomUUID()
    c.set('requestId', requestId)
    c.set('seen', {})
    if (tooLong(c)) c.res = failed(c, fail('headers_too_large'), config)
    else await proceed()
    const { headers, status } = c.res
    headers.set('X-Request-Id', requestId)
    for (const [name, value] of Object.entries(SECURITY)) if (!headers.has(name)) headers.set(name, value)
    rateHeaders(c, config)
    const { code, organization, tenant, actor } = c.var.seen
    config.log({
      level: status >= 500 ? 'error' : 'info',
      request_id: requestId,
      method: c.req.method,
      path: c.req.path,
      status,
      ms: Date.now() - started,
      ...(code && { code }),
      ...(actor && { organization_id: organization, tenant_id: tenant, actor_id: actor }),
    })
  }
}

function tooLong(c: Context): boolean {
  if (c.req.url.length > LONGEST) return true
  let size = 0
  for (const [name, value] of c.req.raw.headers) size += name.length + value.length
  return size > LONGEST
}

/** The binding says yes or no and keeps its count to itself; then only the policy can be told. */
function rateHeaders(c: Context<Edge>, { rateLimit, limiter }: Config): void {
  const { rate, actor, code } = c.var.seen
  if (rateLimit === 0 || (!actor && code !== 'rate_limited')) return
  const { headers } = c.res
  headers.set('RateLimit-Policy', `"key";q=${rateLimit};w=60`)
  if (code === 'rate_limited') headers.set('RateLimit', `"key";r=0;t=${headers.get('Retry-After')}`)
  else if (!limiter && rate) headers.set('RateLimit', `"key";r=${rate.remaining};t=${rate.reset}`)
}

/** An unknown error is logged whole and answered with nothing but the request's id. */
export function failed(c: Context<Edge>, error: unknown, config: Config): Response {
  const failure = error instanceof Failure ? error : fail('internal', { cause: error })
  const { code } = failure
  c.var.seen.code = code
  if (code === 'internal' || code === 'database_unavailable') {
    const { name, message, stack } = (failure.cause ?? failure) as Error
    config.log({ level: 'error', request_id: c.var.requestId, error: name, message, stack })
  }
  return problem(failure, c.var.requestId, new URL(c.req.url).origin)
}

export const notFound: NotFoundHandler<Edge> = () => {
  throw fail('route_not_found')
}
