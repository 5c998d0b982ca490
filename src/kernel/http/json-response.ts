// JSON responses, with the security headers that every response has.

/** A page may replace these. */
const SECURITY_HEADERS = Object.entries({
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Permissions-Policy': 'interest-cohort=()',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=63072000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
})
/** Copied as a whole into each response: on Workers, every header that is set by itself costs a call out of V8. */
const JSON_HEADERS = new Headers([...SECURITY_HEADERS, ['Content-Type', 'application/json']])

/** The copy matters: on Node, a response keeps the object that it is given, and later headers would add to it. */
export const jsonResponse = (json: string, status = 200): Response =>
  new Response(json, { status, headers: new Headers(JSON_HEADERS) })

export function addSecurityHeaders(headers: Headers): void {
  // No page sets this one, so the response has all of them already.
  if (headers.has('Permissions-Policy')) return
  for (const [name, value] of SECURITY_HEADERS) if (!headers.has(name)) headers.set(name, value)
}
