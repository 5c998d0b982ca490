// The cookie of a session. Applications under APPS_DOMAIN may be on the same site as this installation, so SameSite
// alone does not keep their pages from using it: it counts only for requests that the browser calls same-origin.
import type { Context } from 'hono'
import { looksLikeSessionToken } from '../crypto/crypto.ts'
import { fail } from './errors.ts'

/** Used on https: `__Host-` keeps other hosts of the domain from setting the cookie. */
export const SESSION_COOKIE = '__Host-slipway'
const MAX_AGE_SECONDS = 30 * 24 * 60 * 60

/** Cookies ignore ports, so on http the name has the port. */
function sessionCookieName(origin: string): string {
  const { protocol, port } = new URL(origin)
  return protocol === 'https:' ? SESSION_COOKIE : `slipway-${port || '80'}`
}

/** Without a token, the browser deletes the cookie. */
export function formatSessionCookie(origin: string, token: string | null): string {
  const secure = origin.startsWith('https:') ? '; Secure' : ''
  const maxAge = token === null ? 0 : MAX_AGE_SECONDS
  const attributes = `Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`
  return `${sessionCookieName(origin)}=${token ?? ''}; ${attributes}`
}

/** Lax: it has to come back from the identity provider, which is another site. */
export function formatFlowCookie(origin: string, sealed: string | null, seconds: number): string {
  const secure = origin.startsWith('https:') ? '; Secure' : ''
  const maxAge = sealed === null ? 0 : seconds
  return `${flowCookieName(origin)}=${sealed ?? ''}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${secure}`
}
export const flowCookieName = (origin: string): string => `${sessionCookieName(origin)}-sign-in`

/**
 * A name that occurs twice counts as missing: one of the values may be an attacker's. Spaces of Unicode belong to the
 * name, as they do for browsers, which let any host of the domain set such a cookie.
 */
export function readCookie(c: Context, name: string): string | undefined {
  const values = (c.req.header('Cookie') ?? '')
    .split(';')
    .map(pair => pair.replace(/^[ \t]+/, ''))
    .filter(pair => pair.startsWith(`${name}=`))
    .map(pair => pair.slice(name.length + 1))
  return values.length === 1 ? values[0] : undefined
}

export function readSessionToken(c: Context, origin: string, mediaTypes: string[]): string | undefined {
  const token = readCookie(c, sessionCookieName(origin))
  if (!token || c.req.header('Sec-Fetch-Site') !== 'same-origin') return undefined
  if (!looksLikeSessionToken(token)) throw fail('session_ended')
  const hasBody = ['POST', 'PUT', 'PATCH'].includes(c.req.method)
  const sentType = (c.req.header('Content-Type') ?? '').split(';')[0]!.trim().toLowerCase()
  if (hasBody && !mediaTypes.includes(sentType)) throw fail('not_json')
  return token
}

/** Absent outside browsers, and in browsers only on plain http, where they send no such header. */
export const isCrossSite = (c: Context): boolean => !['same-origin', undefined].includes(c.req.header('Sec-Fetch-Site'))
