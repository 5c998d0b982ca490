// The headers that pass through the proxy of models, in both directions (pure).

/** Headers of one connection (RFC 9110, section 7.6.1), and those that `fetch` decides on. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'host',
  'accept-encoding',
  'http2-settings',
]
/** The caller's credentials, and headers with its address. */
const OF_CALLER = [
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
  'cookie2',
  'x-tenant-id',
  'forwarded',
  'x-real-ip',
  'true-client-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'via',
  'origin',
  'referer',
  'x-request-id',
]
const OF_CALLER_PATTERN = /^(x-forwarded-|cf-|sec-|x-envoy-|x-slipway-|proxy-|fly-|fastly-)/

/**
 * Headers that would bind the client to the server's origin, which is ours for the client, and those about the encoded
 * bytes, which were decoded. Our middleware sets some of them anew.
 */
const OF_ANSWER = [
  'set-cookie',
  'set-cookie2',
  'content-encoding',
  'content-length',
  'content-security-policy',
  'clear-site-data',
  'content-security-policy-report-only',
  'strict-transport-security',
  'alt-svc',
  'www-authenticate',
  'refresh',
  'location',
  'link',
  'nel',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'x-frame-options',
  'permissions-policy',
  'referrer-policy',
  'x-content-type-options',
  'ratelimit',
  'ratelimit-policy',
  'vary',
  'authentication-info',
  'origin-agent-cluster',
  'x-powered-by',
  'sourcemap',
  'x-request-id',
  'x-accel-redirect',
]
const OF_ANSWER_PATTERN = /^(access-control-|cross-origin-|slipway-|idempotency-replayed$|proxy-)/

const namedByConnection = (headers: Headers): string[] =>
  (headers.get('connection') ?? '').split(',').map(name => name.trim().toLowerCase())

function copyWithout(headers: Headers, names: string[], pattern: RegExp): Headers {
  const dropped = [...HOP_BY_HOP, ...names, ...namedByConnection(headers)]
  const kept = [...headers].filter(([name]) => !dropped.includes(name) && !pattern.test(name))
  return new Headers(kept)
}

/** `header` is the one that holds our token: a caller must not send it in its place. */
export const forwardRequestHeaders = (headers: Headers, header: string): Headers =>
  copyWithout(headers, [...OF_CALLER, header.toLowerCase()], OF_CALLER_PATTERN)

export function forwardAnswerHeaders(headers: Headers): Headers {
  const forwarded = copyWithout(headers, OF_ANSWER, OF_ANSWER_PATTERN)
  const upstreamId = headers.get('x-request-id')
  if (upstreamId !== null) forwarded.set('X-Upstream-Request-Id', upstreamId)
  forwarded.set('Cache-Control', 'no-store')
  // A browser must not run another server's answer as a page of this origin.
  forwarded.set('Content-Security-Policy', "sandbox; default-src 'none'; frame-ancestors 'none'")
  forwarded.set('X-Content-Type-Options', 'nosniff')
  forwarded.set('X-Accel-Buffering', 'no')
  return forwarded
}
