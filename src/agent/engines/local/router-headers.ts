// Decides which headers of a request and an answer the router forwards, and which it sets itself.
import type { IncomingMessage } from 'node:http'
import { findHops, isTrustedProxy, type ProxyRange } from '../../../protocol/client-address.ts'
import { FRAMING_HEADERS, HOP_BY_HOP } from '../../system/connection-headers.ts'
import { TRACE_HEADERS, traceHeaders } from './trace-context.ts'

/** Never forwarded: the router sets its own. `Proxy` becomes HTTP_PROXY in CGI programs. */
const FORWARDING_HEADERS = new Set([
  'forwarded',
  'x-real-ip',
  'client-ip',
  'x-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'fastly-client-ip',
  'x-cluster-client-ip',
  'x-originating-ip',
  'x-remote-ip',
  'x-remote-addr',
  'x-rewrite-url',
  'x-host',
  'x-scheme',
  'x-url-scheme',
  'front-end-https',
  'x-envoy-external-address',
  'proxy',
])
const FORWARDED_PREFIX = /^x-(forwarded|original)(-|$)/

/** Remembers what it has computed for as many keys: requests have the same names and addresses again and again. */
function remember<T>(most: number, compute: (key: string) => T): (key: string) => T {
  const known = new Map<string, T>()
  return key => {
    const value = known.get(key)
    if (value !== undefined) return value
    const fresh = compute(key)
    // Clients choose the keys: long ones are not kept, and many replace all.
    if (known.size >= most) known.clear()
    if (key.length <= MAX_REMEMBERED) known.set(key, fresh)
    return fresh
  }
}
const MAX_REMEMBERED = 100

/** `X-Real-IP`, `X_Real_IP` and `X.Real.IP` become the same environment variable in CGI programs. */
const canonicalName = remember(1_000, name => name.toLowerCase().replace(/[^a-z0-9]/g, '-'))
const lowerName = remember(1_000, name => name.toLowerCase())

const isForwarded = (name: string): boolean => FORWARDING_HEADERS.has(name) || FORWARDED_PREFIX.test(name)

export const headerPairs = (raw: string[]): (readonly [name: string, value: string])[] =>
  raw.flatMap((name, i) => (i % 2 ? [] : [[name, raw[i + 1]!] as const]))

const connectionHeaders = remember(
  100,
  connection => new Set(connection.split(',').map(name => canonicalName(name.trim()))),
)

/** Without its port. */
export const namedHost = (req: IncomingMessage): string =>
  (req.headers.host ?? '').replace(/:\d+$/, '').replace(/\.$/, '').toLowerCase()

const HOST_HEADER = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/i

/** Applications ignore headers beyond some number, which must not hide the router's own or the framing headers. */
export const MAX_HEADERS = 200

/** Null if the request can be forwarded unambiguously. */
export function refusalStatus({ method, url = '', headers, rawHeaders }: IncomingMessage): 400 | 431 | 501 | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return 431
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) if (lowerName(rawHeaders[i]!) === 'host') hosts++
  if (hosts > 1 || !HOST_HEADER.test(headers.host ?? '')) return 400
  // Some applications take a fragment for a part of the path, which then is another one than the router judges.
  if ((!url.startsWith('/') && !(method === 'OPTIONS' && url === '*')) || url.includes('#')) return 400
  if (headers['transfer-encoding'] !== undefined && headers['transfer-encoding'].toLowerCase() !== 'chunked') return 501
  return null
}

/** A WebSocket handshake has one protocol and no body. Any other upgrade is an ordinary request. */
export const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['transfer-encoding'] === undefined &&
  (headers['content-length'] ?? '0') === '0'

/** True for headers that the router sets itself, or that are for this connection alone. */
const isReplaced = remember(
  1_000,
  known =>
    HOP_BY_HOP.has(known) ||
    FRAMING_HEADERS.has(known) ||
    isForwarded(known) ||
    TRACE_HEADERS.has(known) ||
    known === BYPASS_HEADER,
)

/** The headers that the application receives, except for `Connection`. */
export function requestHeaders(req: IncomingMessage, proxies: ProxyRange[]): string[] {
  const { headers, rawHeaders } = req
  const named = connectionHeaders(headers.connection ?? '')
  const sent: string[] = []
  if (headers['transfer-encoding'] !== undefined) sent.push('Transfer-Encoding', 'chunked')
  else if (headers['content-length'] !== undefined) sent.push('Content-Length', headers['content-length'])
  sent.push(...forwardingHeaders(req, proxies), ...traceHeaders(req))
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i]!, rawHeaders[i + 1]!]
    // Pseudo-headers of HTTP/2 are set anew.
    if (name.startsWith(':')) continue
    const known = canonicalName(name)
    if (known === 'host') {
      if (lowerName(name) === known) sent.push(name, value)
    } else if (known === 'cookie') sent.push(...withoutOwnCookies(name, value))
    else if (!isReplaced(known) && !named.has(known)) sent.push(name, value)
  }
  return sent
}

// ---- protected deployments

/** The application sees neither a token of a machine nor the cookies of the router. */
export const BYPASS_HEADER = 'x-slipway-bypass'
const OWN_COOKIE = /^(?:__host-)?slipway-(?:(?:access|state)-|split=)/i

const cookiePairs = (header: string) => header.split(';').map(pair => pair.replace(/^[ \t]+/, ''))

function withoutOwnCookies(name: string, value: string): string[] {
  const kept = cookiePairs(value).filter(pair => !OWN_COOKIE.test(pair))
  return kept.length === 0 ? [] : [name, kept.join('; ')]
}

/** On http, other hosts of the domain may set one of the same name too. */
export const readOwnCookies = ({ headers }: IncomingMessage, name: string): string[] =>
  cookiePairs(headers.cookie ?? '').flatMap(pair => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []))

/** Caches of these would answer others than the one who was let in. */
const SHARED_CACHE_HEADERS = new Set(['surrogate-control', 'cdn-cache-control', 'cloudflare-cdn-cache-control'])
const SHARED_DIRECTIVE = /^(?:public|private|s-maxage|proxy-revalidate)\b/i

const directivesOf = (pairs: ReturnType<typeof headerPairs>) =>
  pairs
    .filter(([name]) => name.toLowerCase() === 'cache-control')
    .flatMap(([, value]) => value.split(',').map(text => text.trim()))
    .filter(text => text !== '')
const IS_SHARED = /^(?:public$|(?:s-maxage|max-age)\s*=\s*"?0*[1-9])/i
const IS_UNSHARED = /^(?:private|no-store)\b/i

/** Its headers say that a cache may keep it, and not only that of one browser. */
export function maySharedCacheKeep(pairs: string[]): boolean {
  const all = headerPairs(pairs)
  const directives = directivesOf(all)
  if (directives.some(text => IS_UNSHARED.test(text))) return false
  const names = all.map(([name]) => name.toLowerCase())
  const hasExpiry = directives.length === 0 && names.includes('expires')
  return (
    hasExpiry || directives.some(text => IS_SHARED.test(text)) || names.some(name => SHARED_CACHE_HEADERS.has(name))
  )
}

/** The answer of a protected deployment is for one browser alone, and for no search engine. */
export function privateHeaders(pairs: string[]): string[] {
  const all = headerPairs(pairs)
  const kept = all.filter(([name]) => {
    const lower = name.toLowerCase()
    return lower !== 'cache-control' && !SHARED_CACHE_HEADERS.has(lower)
  })
  const directives = directivesOf(all).filter(text => !SHARED_DIRECTIVE.test(text))
  return [...kept.flat(), 'Cache-Control', ['private', ...directives].join(', '), 'X-Robots-Tag', 'noindex']
}

const PROTOCOL = /^(http|ws)s?$/

type Hops = { hops: string[]; isProxied: boolean }
const hopsByProxies = new WeakMap<ProxyRange[], (key: string) => Hops>()
function makeHops(proxies: ProxyRange[]): (key: string) => Hops {
  const find = remember(1_000, key => {
    const [peer, forwardedFor] = key.split('|', 2)
    const hops = findHops(peer || undefined, forwardedFor, proxies)
    const last = hops.at(-1)
    return { hops, isProxied: last !== undefined && isTrustedProxy(last, proxies) }
  })
  hopsByProxies.set(proxies, find)
  return find
}

function readProxy({ headers, socket }: IncomingMessage, proxies: ProxyRange[]) {
  const find = hopsByProxies.get(proxies) ?? makeHops(proxies)
  const { hops, isProxied } = find(`${socket.remoteAddress ?? ''}|${headers['x-forwarded-for'] ?? ''}`)
  const fromProxy = (name: string, pattern: RegExp) =>
    isProxied ? pattern.exec(headers[name]?.toString() ?? '')?.[0] : undefined
  return { hops, fromProxy }
}

/** The address of the client, as far as trusted proxies tell. */
export const clientAddress = (req: IncomingMessage, proxies: ProxyRange[]): string =>
  readProxy(req, proxies).hops[0] ?? ''

/** The browser speaks TLS to a trusted proxy. */
export const isSecure = (req: IncomingMessage, proxies: ProxyRange[]): boolean =>
  readProxy(req, proxies).fromProxy('x-forwarded-proto', PROTOCOL)?.endsWith('s') === true

/**
 * The client, host and protocol of the request: those of the connection or, if a trusted proxy connects, those of its
 * headers. Each value is checked, and the headers are written in one spelling.
 */
function forwardingHeaders(req: IncomingMessage, proxies: ProxyRange[]): string[] {
  const { headers, socket } = req
  const { hops, fromProxy } = readProxy(req, proxies)
  const [client = ''] = hops
  const proxyProto = fromProxy('x-forwarded-proto', PROTOCOL)
  const proto = proxyProto ?? 'http'
  const host = fromProxy('x-forwarded-host', HOST_HEADER) ?? headers.host ?? ''
  const portOfProxy = () => /:(\d+)$/.exec(host)?.[1] ?? (proto.endsWith('s') ? '443' : '80')
  const port = fromProxy('x-forwarded-port', /^\d{1,5}$/) ?? (proxyProto ? portOfProxy() : String(socket.localPort))
  return [
    'X-Forwarded-For',
    hops.join(', '),
    'X-Forwarded-Host',
    host,
    'X-Forwarded-Proto',
    proto,
    'X-Forwarded-Port',
    port,
    'X-Real-IP',
    client,
    'Forwarded',
    `for=${client.includes(':') ? `"[${client}]"` : client};host="${host}";proto=${proto}`,
  ]
}

/** The headers that the client receives. The router sets Transfer-Encoding, as an application's may be invalid. */
export function responseHeaders(raw: string[]): string[] {
  let connection = ''
  for (let i = 0; i < raw.length; i += 2) if (lowerName(raw[i]!) === 'connection') connection += `,${raw[i + 1]}`
  const named = connectionHeaders(connection)
  const sent: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const lower = lowerName(raw[i]!)
    if (lower === 'transfer-encoding') continue
    if (FRAMING_HEADERS.has(lower) || !(HOP_BY_HOP.has(lower) || named.has(lower))) sent.push(raw[i]!, raw[i + 1]!)
  }
  return sent
}
