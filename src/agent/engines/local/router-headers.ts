// What of a request's and an answer's headers goes through the router, and what the router says itself. Pure.
import type { IncomingMessage } from 'node:http'

/** Of one connection only. What the body is framed by is said anew. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ...['upgrade', 'expect', 'http2-settings'],
])
const FRAMING_HEADERS = new Set(['content-length', 'transfer-encoding'])
/**
 * Who asked, over what and for what, in the words of one proxy or another. `Proxy` becomes HTTP_PROXY in CGI
 * programs.
 */
const FORWARDING_HEADERS = new Set([
  ...['forwarded', 'x-real-ip', 'client-ip', 'x-client-ip', 'true-client-ip', 'cf-connecting-ip', 'cf-connecting-ipv6'],
  ...['fastly-client-ip', 'x-cluster-client-ip', 'x-originating-ip', 'x-remote-ip', 'x-remote-addr', 'x-rewrite-url'],
  ...['x-host', 'x-scheme', 'x-url-scheme', 'front-end-https', 'x-envoy-external-address', 'proxy'],
])
const FORWARDED_PREFIX = /^x-(forwarded|original)(-|$)/

/** Programs that make environment variables of headers see these as one name: `X-Real-IP`, `X_Real_IP`, `X.Real.IP`. */
const canonicalName = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '-')

const isForwarded = (name: string): boolean => FORWARDING_HEADERS.has(name) || FORWARDED_PREFIX.test(name)

export const headerPairs = (raw: string[]): (readonly [name: string, value: string])[] =>
  raw.flatMap((name, i) => (i % 2 ? [] : [[name, raw[i + 1]!] as const]))

const connectionHeaders = (connection: string | undefined): Set<string> =>
  new Set((connection ?? '').split(',').map(name => canonicalName(name.trim())))

const HOST_HEADER = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/i

/** Applications stop reading at some number: ours, and the one that frames the body, must not be behind it. */
export const MAX_HEADERS = 200

/** Null where the request can be passed on as exactly one. */
export function refusalStatus({ method, url = '', headers, rawHeaders }: IncomingMessage): 400 | 431 | 501 | null {
  if (rawHeaders.length > 2 * MAX_HEADERS) return 431
  const hosts = headerPairs(rawHeaders).filter(([name]) => name.toLowerCase() === 'host')
  if (hosts.length > 1 || !HOST_HEADER.test(headers.host ?? '')) return 400
  if (!url.startsWith('/') && !(method === 'OPTIONS' && url === '*')) return 400
  if (headers['transfer-encoding'] !== undefined && headers['transfer-encoding'].toLowerCase() !== 'chunked') return 501
  return null
}

/** A WebSocket and nothing else: one protocol, no body. Everything else is an ordinary request. */
export const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  headers['transfer-encoding'] === undefined &&
  (headers['content-length'] ?? '0') === '0'

/** What the application hears of a request, without `Connection`. */
export function requestHeaders({ headers, rawHeaders, socket }: IncomingMessage): string[] {
  const named = connectionHeaders(headers.connection)
  const kept = headerPairs(rawHeaders).filter(([name]) => {
    const known = canonicalName(name)
    if (known === 'host') return name.toLowerCase() === known
    return !(HOP_BY_HOP.has(known) || FRAMING_HEADERS.has(known) || named.has(known) || isForwarded(known))
  })
  const framing =
    headers['transfer-encoding'] !== undefined
      ? ['Transfer-Encoding', 'chunked']
      : headers['content-length'] !== undefined
        ? ['Content-Length', headers['content-length']]
        : []
  const client = (socket.remoteAddress ?? '').replace(/^::ffff:/, '')
  const host = headers.host ?? ''
  return [
    ...framing,
    ...['X-Forwarded-For', client, 'X-Forwarded-Host', host, 'X-Forwarded-Proto', 'http'],
    ...['X-Forwarded-Port', String(socket.localPort), 'X-Real-IP', client],
    ...['Forwarded', `for=${client.includes(':') ? `"[${client}]"` : client};host="${host}";proto=http`],
    ...kept.flat(),
  ]
}

/**
 * What the client hears of an answer. An encoding of its transfer is ours: an application could name one that is
 * none.
 */
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
