// Decides which headers of a request and an answer the router forwards, and which it sets itself. Pure.
import type { IncomingMessage } from 'node:http'
import { findHops, isTrustedProxy, type ProxyRange } from '../../../protocol/client-address.ts'
import { FRAMING_HEADERS, HOP_BY_HOP } from '../../system/connection-headers.ts'

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

/** `X-Real-IP`, `X_Real_IP` and `X.Real.IP` become the same environment variable in CGI programs. */
const canonicalName = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '-')

const isForwarded = (name: string): boolean => FORWARDING_HEADERS.has(name) || FORWARDED_PREFIX.test(name)

export const headerPairs = (raw: string[]): (readonly [name: string, value: string])[] =>
  raw.flatMap((name, i) => (i % 2 ? [] : [[name, raw[i + 1]!] as const]))

const connectionHeaders = (connection: string | undefined): Set<string> =>
  new Set((connection ?? '').split(',').map(name => canonicalName(name.trim())))

/** Without its port. */
export const namedHost = (req: IncomingMessage): string =>
  (req.headers.host ?? '').replace(/:\d+$/, '').replace(/\.$/, '').toLowerCase()

const HOST_HEADER = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/i

/** Applications ignore headers beyond some number, which must not hide the router's own or the framing headers. */
export const MAX_HEADERS = 200

/** Null if the request can be forwarded unambiguously. */
export function refusalStatus({ method, url = '', headers, rawHeaders }: IncomingMessage): 400 | 431 | 501 | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return 431
  const hosts = headerPairs(rawHeaders).filter(([name]) => name.toLowerCase() === 'host')
  if (hosts.length > 1 || !HOST_HEADER.test(headers.host ?? '')) return 400
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

/** The headers that the application receives, except for `Connection`. */
export function requestHeaders(req: IncomingMessage, proxies: ProxyRange[]): string[] {
  const { headers, rawHeaders } = req
  const named = connectionHeaders(headers.connection)
  const kept = headerPairs(rawHeaders).filter(([name]) => {
    const known = canonicalName(name)
    if (known === 'host') return name.toLowerCase() === known
    if (known === BYPASS_HEADER) return false
    return !(HOP_BY_HOP.has(known) || FRAMING_HEADERS.has(known) || named.has(known) || isForwarded(known))
  })
  const framing =
    headers['transfer-encoding'] !== undefined
      ? ['Transfer-Encoding', 'chunked']
      : headers['content-length'] !== undefined
        ? ['Content-Length', headers['content-length']]
        : []
  return [...framing, ...forwardingHeaders(req, proxies), ...kept.flatMap(withoutOwnCookies)]
}

// ---- protected deployments

/** The application sees neither a token of a machine nor the cookies of the router. */
export const BYPASS_HEADER = 'x-slipway-bypass'
const OWN_COOKIE = /^(?:__host-)?slipway-(?:(?:access|state)-|split=)/i

const cookiePairs = (header: string) => header.split(';').map(pair => pair.replace(/^[ \t]+/, ''))

function withoutOwnCookies([name, value]: readonly [name: string, value: string]): string[] {
  if (name.toLowerCase() !== 'cookie') return [name, value]
  const kept = cookiePairs(value).filter(pair => !OWN_COOKIE.test(pair))
  return kept.length === 0 ? [] : [name, kept.join('; ')]
}

/** On http, other hosts of the domain may set one of the same name too. */
export const readOwnCookies = ({ headers }: IncomingMessage, name: string): string[] =>
  cookiePairs(headers.cookie ?? '').flatMap(pair => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []))

/** Caches of these would answer others than the one who was let in. */
const SHARED_CACHE_HEADERS = new Set(['surrogate-control', 'cdn-cache-control', 'cloudflare-cdn-cache-control'])
const SHARED_DIRECTIVE = /^(?:public|private|s-maxage|proxy-revalidate)\b/i

/** The answer of a protected deployment is for one browser alone, and for no search engine. */
export function privateHeaders(pairs: string[]): string[] {
  const all = headerPairs(pairs)
  const kept = all.filter(([name]) => {
    const lower = name.toLowerCase()
    return lower !== 'cache-control' && !SHARED_CACHE_HEADERS.has(lower)
  })
  const directives = all
    .filter(([name]) => name.toLowerCase() === 'cache-control')
    .flatMap(([, value]) => value.split(',').map(text => text.trim()))
    .filter(text => text !== '' && !SHARED_DIRECTIVE.test(text))
  return [...kept.flat(), 'Cache-Control', ['private', ...directives].join(', '), 'X-Robots-Tag', 'noindex']
}

const PROTOCOL = /^(http|ws)s?$/

function readProxy({ headers, socket }: IncomingMessage, proxies: ProxyRange[]) {
  const hops = findHops(socket.remoteAddress, headers['x-forwarded-for']?.toString(), proxies)
  const peer = hops.at(-1)
  const isProxied = peer !== undefined && isTrustedProxy(peer, proxies)
  const fromProxy = (name: string, pattern: RegExp) =>
    isProxied ? pattern.exec(headers[name]?.toString() ?? '')?.[0] : undefined
  return { hops, fromProxy }
}

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
export function responseHeaders({ headers, rawHeaders }: IncomingMessage): string[] {
  const named = connectionHeaders(headers.connection)
  return headerPairs(rawHeaders)
    .filter(([name]) => {
      const lower = name.toLowerCase()
      if (lower === 'transfer-encoding') return false
      return FRAMING_HEADERS.has(lower) || !(HOP_BY_HOP.has(lower) || named.has(lower))
    })
    .flat()
}
