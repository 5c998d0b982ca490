// Which other origins' pages may call, and what of an answer they see.
import type { MiddlewareHandler } from 'hono'

const METHODS = 'GET, HEAD, POST, PATCH, DELETE'
const EXPOSED = 'ETag, Idempotency-Replayed, Link, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'
const A_DAY = '86400'

/** Written onto the finished answer: what Hono's own middleware sets ahead of it makes Hono wrap every answer again. */
export function cors(origins: string[]): MiddlewareHandler {
  const everyone = origins.includes('*')
  return async (c, proceed) => {
    if (c.req.method === 'OPTIONS') c.res = preflight(c.req.header('Access-Control-Request-Headers'))
    else await proceed()
    const { headers } = c.res
    headers.append('Vary', 'Origin')
    const origin = c.req.header('Origin')
    if (origin === undefined || !(everyone || origins.includes(origin))) return
    headers.set('Access-Control-Allow-Origin', everyone ? '*' : origin)
    headers.set('Access-Control-Expose-Headers', EXPOSED)
  }
}

function preflight(wanted: string | undefined): Response {
  const headers = new Headers({ 'Access-Control-Allow-Methods': METHODS, 'Access-Control-Max-Age': A_DAY })
  if (wanted !== undefined) {
    headers.set('Access-Control-Allow-Headers', wanted)
    headers.set('Vary', 'Access-Control-Request-Headers')
  }
  return new Response(null, { status: 204, headers })
}
