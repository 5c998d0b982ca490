// Keeps a client at its revision while the traffic is split: by a cookie of the router, or by a header of the client.
import { createHash, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { ProxyRange } from '../../../protocol/client-address.ts'
import { isSecure, maySharedCacheKeep, readOwnCookies } from './router-headers.ts'
import { pickRevision, type Split } from './split.ts'

const COOKIE_DAYS = 30
const KEY = /^[\w-]{16}$/

/** Another revision beside the routed one draws anew, so that it is not always the same clients that try. */
export const pointOf = (key: string, revision: string): number =>
  createHash('sha256').update(`${revision} ${key}`).digest().readUInt32BE() / 2 ** 32

/**
 * Chooses the revision of a request, each time that a copy is to be tried. `cookie`: what its client has to keep.
 */
export function createChooser(req: IncomingMessage, proxies: ProxyRange[]) {
  const drawn = Math.random()
  let tries = 0
  let cookie: string | undefined
  function pointIn({ sticky, revision }: Split): number {
    if (!sticky) return drawn
    if (sticky.by === 'header') {
      // Not `constructor` and the like, which every object has.
      const value = Object.hasOwn(req.headers, sticky.header) ? req.headers[sticky.header]?.toString() : undefined
      return value === undefined ? drawn : pointOf(value, revision)
    }
    const secure = isSecure(req, proxies)
    const name = `${secure ? '__Host-' : ''}slipway-split`
    const known = readOwnCookies(req, name).find(value => KEY.test(value))
    const key = known ?? keyOf(cookie) ?? randomBytes(12).toString('base64url')
    const attributes = `Path=/; Max-Age=${COOKIE_DAYS * 86_400}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
    if (known === undefined) cookie = `${name}=${key}; ${attributes}`
    return pointOf(key, revision)
  }
  return {
    choose: <Route extends Parameters<typeof pickRevision>[0]>(route: Route): Route =>
      route.split ? pickRevision(route, pointIn(route.split), tries++) : route,
    /**
     * The headers of the answer, with the cookie. A cache that keeps an answer for many clients would give all of them
     * the same one: an answer that is meant for such a cache has none, and any other one is private.
     */
    withCookie: (headers: string[]): string[] =>
      cookie === undefined || maySharedCacheKeep(headers)
        ? headers
        : [...headers, 'Set-Cookie', cookie, 'Cache-Control', 'private'],
  }
}

const keyOf = (cookie: string | undefined) => cookie?.replace(/^[^=]*=/, '').replace(/;.*$/s, '')
