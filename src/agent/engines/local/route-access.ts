// Decides who may see a protected deployment. The router asks nobody: it verifies the grants of the control plane by
// public keys, and signs the cookies that it gives for them by a key of its own.
import {
  createHash,
  createHmac,
  createPublicKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
  verify,
} from 'node:crypto'
import type * as http from 'node:http'
import type { AccessRenewal } from '../../../protocol/access-renewals.schema.ts'
import { ACCESS_PATH, GRANT_TYPE, isOpenPath, MAX_RENEWAL_LENGTH } from '../../../protocol/access-rules.ts'
import type { ProxyRange } from '../../../protocol/client-address.ts'
import type { GrantIssuer, WorkProtection } from '../../../protocol/protection.schema.ts'
import { ACCESS_PAGE, ACCESS_PAGE_HEADERS } from './access-page.ts'
import { AccessRenewals } from './access-renewals.ts'
import { BYPASS_HEADER, isSecure, namedHost, readOwnCookies } from './router-headers.ts'
import { respondAndClose } from './router-responses.ts'

type Bypass = WorkProtection['bypasses'][number]
/** `grants` is null while the agent has not learned who signs them: then nobody can sign in. */
export type RouteAccess = WorkProtection & {
  deployment_id: string
  workspace_id: string
  grants: GrantIssuer | null
}
type AccessRoute = { path: string; access?: RouteAccess | undefined }

const MAX_SESSION_SECONDS = 86_400
const STATE_SECONDS = 600
const MAX_BODY_BYTES = 8192
const BODY_TIMEOUT_MS = 10_000
/** A longer path is left out: the browser comes back to the start page. */
const MAX_KEPT_URL = 2000

const hashOf = (text: string, encoding: 'hex' | 'base64url') => createHash('sha256').update(text).digest(encoding)
function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
const isLiving = ({ expires_at }: Bypass, now: number) => expires_at === null || Date.parse(expires_at) > now
const accessPathOf = ({ path }: AccessRoute) => `${path.replace(/\/$/, '')}${ACCESS_PATH}`
const portOf = (req: http.IncomingMessage) => /:(\d+)$/.exec(req.headers.host ?? '')?.[1] ?? '80'

/** `key` signs the cookies. It lasts as long as the port of the router. */
export function createRouteAccess(
  key: string,
  proxies: ProxyRange[],
  clock = Date.now,
  askRenewal: (renewal: AccessRenewal) => void = () => {},
) {
  const renewals = new AccessRenewals(askRenewal, clock)
  const renewedCookies = new WeakMap<http.IncomingMessage, string>()
  const cookieKey = createHash('sha256').update(`cookies ${key}`).digest()
  const signatureOf = (req: http.IncomingMessage, { deployment_id }: RouteAccess, text: string) =>
    createHmac('sha256', cookieKey)
      .update([deployment_id, namedHost(req), text].join('\n'))
      .digest('base64url')

  /** For one host alone. Cookies ignore ports, so on http the name has the port. */
  function cookieName(req: http.IncomingMessage, { deployment_id }: RouteAccess, kind: 'access' | 'state'): string {
    const id = deployment_id.slice(0, 8)
    return isSecure(req, proxies) ? `__Host-slipway-${kind}-${id}` : `slipway-${kind}-${portOf(req)}-${id}`
  }
  const formatCookie = (req: http.IncomingMessage, name: string, value: string, seconds: number) =>
    `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${isSecure(req, proxies) ? '; Secure' : ''}`

  function findBypass({ bypasses }: RouteAccess, kind: Bypass['kind'], hash: string): Bypass | undefined {
    const now = clock()
    return bypasses.filter(bypass => isSame(bypass.hash, hash)).find(one => one.kind === kind && isLiving(one, now))
  }

  function hasToken(req: http.IncomingMessage, access: RouteAccess): boolean {
    const token = req.headers[BYPASS_HEADER]
    return typeof token === 'string' && findBypass(access, 'token', hashOf(token, 'hex')) !== undefined
  }

  /** `<until>.<hash of a link, or nothing>.<signature>`, and of a grant that can be renewed `.<renewal>` */
  function isCookieValid(req: http.IncomingMessage, access: RouteAccess, value: string): boolean {
    const [, until = '', hash = '', signature = '', renewal = ''] = ACCESS_COOKIE.exec(value) ?? []
    if (!until || !isSame(signature, signatureOf(req, access, signedText(Number(until), hash, renewal)))) return false
    if (Number(until) <= clock() / 1000 || renewals.isRefused(renewal)) return false
    if (hash !== '') return findBypass(access, 'link', hash) !== undefined
    if (renewal !== '') renew(req, access, Number(until), renewal)
    return true
  }

  /** The cookie that takes the place of this one goes with the answer to the request. */
  function renew(req: http.IncomingMessage, access: RouteAccess, until: number, renewal: string): void {
    const { deployment_id } = access
    const end = renewals.use({ deployment_id, host: req.headers.host ?? '', renewal }, until)
    if (end !== undefined) renewedCookies.set(req, makeCookie(req, access, end, '', renewal))
  }

  function permits(req: http.IncomingMessage, route: AccessRoute, path: string): boolean {
    if (path === accessPathOf(route)) return false
    const { access } = route
    if (!access || isOpenPath(access.open_paths, path) || hasToken(req, access)) return true
    return (
      isOfOwnHost(req) &&
      readOwnCookies(req, cookieName(req, access, 'access')).some(value => isCookieValid(req, access, value))
    )
  }

  /** Answers a request that is not permitted, or is for the router's own page. */
  async function answer(req: http.IncomingMessage, res: http.ServerResponse, route: AccessRoute, path: string) {
    res.setHeader('Cache-Control', 'private, no-store')
    res.setHeader('X-Robots-Tag', 'noindex')
    const isRead = req.method === 'GET' || req.method === 'HEAD'
    // A body that never ends would keep the connection.
    if (isRead && !req.complete) res.setHeader('Connection', 'close')
    if (path === accessPathOf(route)) {
      if (isRead) return void res.writeHead(200, ACCESS_PAGE_HEADERS).end(req.method === 'GET' ? ACCESS_PAGE : '')
      if (req.method === 'POST') return exchange(req, res, route.access)
      res.setHeader('Allow', 'GET, HEAD, POST')
      return respondAndClose(res, 405, 'This page is for browsers that come from the sign-in.')
    }
    const access = route.access!
    if (isRead && path === '/robots.txt')
      return void res
        .writeHead(200, { 'Content-Type': 'text/plain' })
        .end(req.method === 'GET' ? 'User-agent: *\nDisallow: /\n' : '')
    if (isNavigation(req) && access.grants) return sendToSignIn(req, res, access, access.grants)
    respondAndClose(
      res,
      401,
      'This deployment is protected. Open it in a browser and sign in, or send a bypass token as X-Slipway-Bypass.',
    )
  }

  function sendToSignIn(
    req: http.IncomingMessage,
    res: http.ServerResponse,
    access: RouteAccess,
    { url }: GrantIssuer,
  ) {
    const name = cookieName(req, access, 'state')
    // Tabs that are opened at once share it, so that each of them can come back.
    const known = readOwnCookies(req, name).find(value => /^[\w-]{43}$/.test(value))
    const nonce = known ?? randomBytes(32).toString('base64url')
    res.setHeader('Set-Cookie', formatCookie(req, name, nonce, STATE_SECONDS))
    const query = new URLSearchParams({
      workspace: access.workspace_id,
      deployment: access.deployment_id,
      host: req.headers.host ?? '',
      state: hashOf(nonce, 'base64url'),
    })
    const path = req.url!.length <= MAX_KEPT_URL ? encodeURIComponent(req.url!) : ''
    res.writeHead(302, { Location: `${url}?${query}#${path}`, 'Referrer-Policy': 'no-referrer' }).end()
  }

  /** Takes a grant or the secret of a share link for a cookie. */
  async function exchange(req: http.IncomingMessage, res: http.ServerResponse, access: RouteAccess | undefined) {
    if (!['same-origin', undefined].includes(req.headers['sec-fetch-site'] as string | undefined))
      return respondAndClose(res, 403, 'The request comes from another site. Open the link again.')
    const body = await readBody(req)
    if (res.destroyed) return
    // The protection was switched off since.
    if (!access) return void res.writeHead(204).end()
    const { grant, token } = parseObject(body ?? '') ?? {}
    const cookie =
      typeof grant === 'string'
        ? cookieForGrant(req, access, grant)
        : typeof token === 'string'
          ? cookieForLink(req, access, token)
          : undefined
    if (!cookie)
      return respondAndClose(res, 403, 'This link is no longer valid. Ask for another one, or sign in again.')
    res.setHeader('Set-Cookie', cookie)
    res.writeHead(204).end()
  }

  const makeCookie = (req: http.IncomingMessage, access: RouteAccess, until: number, hash = '', renewal = '') => {
    const signature = signatureOf(req, access, signedText(until, hash, renewal))
    const value = `${until}.${hash}.${signature}${renewal && `.${renewal}`}`
    const seconds = Math.max(1, Math.floor(until - clock() / 1000))
    return formatCookie(req, cookieName(req, access, 'access'), value, seconds)
  }

  function cookieForLink(req: http.IncomingMessage, access: RouteAccess, token: string): string | undefined {
    const bypass = findBypass(access, 'link', hashOf(token, 'hex'))
    if (!bypass) return undefined
    const end = bypass.expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(bypass.expires_at) / 1000
    return makeCookie(req, access, Math.floor(Math.min(end, clock() / 1000 + 30 * MAX_SESSION_SECONDS)), bypass.hash)
  }

  /** The grant is for this host, this deployment, and the browser that was sent to sign in. */
  function cookieForGrant(req: http.IncomingMessage, access: RouteAccess, grant: string): string | undefined {
    const claims = access.grants && verifyGrant(access.grants, grant)
    if (!claims) return undefined
    const { aud, deployment_id, state, nbf, exp, session_seconds, renewal } = claims
    const now = clock() / 1000
    if (aud !== namedHost(req) || deployment_id !== access.deployment_id || typeof state !== 'string') return undefined
    if (!isTime(nbf) || !isTime(exp) || !isTime(session_seconds) || nbf > now || exp <= now) return undefined
    const nonces = readOwnCookies(req, cookieName(req, access, 'state'))
    if (!nonces.some(nonce => isSame(hashOf(nonce, 'base64url'), state))) return undefined
    const until = Math.floor(now + Math.min(session_seconds, MAX_SESSION_SECONDS))
    return makeCookie(req, access, until, '', isRenewal(renewal) ? renewal : '')
  }

  /** The header for the answer to a request that was permitted. */
  const renewedCookie = (req: http.IncomingMessage): string[] => {
    const cookie = renewedCookies.get(req)
    return cookie === undefined ? [] : ['Set-Cookie', cookie]
  }
  const answerRenewal = (renewal: Pick<AccessRenewal, 'renewal'>, isRenewed: boolean) =>
    renewals.answer(renewal, isRenewed)

  return { permits, answer, renewedCookie, answerRenewal }
}

const ACCESS_COOKIE = /^(\d{1,12})\.([0-9a-f]{64})?\.([\w-]{43})(?:\.([\w.-]{1,1000}))?$/
const signedText = (until: number, hash: string, renewal: string): string =>
  `${until}.${hash}${renewal && `.${renewal}`}`
const isRenewal = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_RENEWAL_LENGTH && /^[\w.-]+$/.test(value)

const isTime = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value > 0

/** Other requests cannot be led through a sign-in: of scripts, of frames, and those with a body. */
function isNavigation({ method, headers }: http.IncomingMessage): boolean {
  if (method !== 'GET' || headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode !== undefined) return mode === 'navigate' && headers['sec-fetch-dest'] === 'document'
  return (headers.accept ?? '').includes('text/html')
}

/**
 * Hosts below one domain are the same site for a browser, which sends the cookie although a page of another workspace
 * asks: from there only a page is opened, as from any other site.
 */
const isOfOwnHost = (req: http.IncomingMessage): boolean =>
  ['same-origin', 'none', undefined].includes(req.headers['sec-fetch-site'] as string | undefined) || isNavigation(req)

type Claims = Record<string, unknown>
const COMPACT_JWT = /^([\w-]{1,1000})\.([\w-]{1,4000})\.([\w-]{86})$/
const publicKeys = new Map<string, KeyObject>()

function verifyGrant({ issuer, keys }: GrantIssuer, grant: string): Claims | undefined {
  const [, head, body, signature] = COMPACT_JWT.exec(grant) ?? []
  const header = parseObject(decode(head))
  const found = keys.find(({ kid }) => kid === header?.kid)
  if (!found || header!.alg !== 'EdDSA' || header!.typ !== GRANT_TYPE || header!.crit !== undefined) return undefined
  const bytes = Buffer.from(signature!, 'base64url')
  if (!verify(null, Buffer.from(`${head}.${body}`), publicKeyOf(found.x), bytes)) return undefined
  const claims = parseObject(decode(body))
  return claims?.iss === issuer ? claims : undefined
}

function publicKeyOf(x: string): KeyObject {
  const known = publicKeys.get(x)
  if (known) return known
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  // Only the keys of one control plane, which rotates them rarely.
  if (publicKeys.size > 100) publicKeys.clear()
  publicKeys.set(x, key)
  return key
}

const decode = (part: string | undefined) => Buffer.from(part ?? '', 'base64url').toString()
function parseObject(text: string): Claims | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Claims) : undefined
  } catch {
    return undefined
  }
}

/** Null for a body that is too large, or is cut off. One that does not arrive in time ends the connection. */
function readBody(req: http.IncomingMessage): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const late = setTimeout(() => req.socket.destroy(), BODY_TIMEOUT_MS)
  const chunks: Buffer[] = []
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk)
    else resolve(null)
  })
  req.once('end', () => resolve(Buffer.concat(chunks).toString()))
  req.once('close', () => resolve(null))
  return promise.finally(() => clearTimeout(late))
}
