// Where a client may have its answers sent (pure).
import { LOOPBACK_HOST } from '../protocol/guarded-address.ts'

/** A browser that is sent there would run or show what the address itself holds. */
const UNSAFE_SCHEMES = ['javascript:', 'data:', 'vbscript:', 'blob:', 'file:', 'filesystem:', 'about:', 'ws:', 'wss:']
const VISIBLE_ASCII = /^[\x21-\x7e]{1,2048}$/

const parse = (uri: string): URL | undefined =>
  VISIBLE_ASCII.test(uri) && !uri.includes('\\') && URL.canParse(uri) ? new URL(uri) : undefined

export const isLoopback = (uri: string): boolean => {
  const { protocol, hostname } = new URL(uri)
  return protocol === 'http:' && LOOPBACK_HOST.test(hostname)
}

/** https, http to this machine, or a scheme that an application has registered with its system. */
export function isAllowedRedirectUri(uri: string): boolean {
  const url = parse(uri)
  if (!url || uri.includes('#') || url.username || url.password) return false
  return url.protocol === 'http:' ? isLoopback(uri) : !UNSAFE_SCHEMES.includes(url.protocol)
}

/** Exact, but for the port on this machine, which a program learns when it starts to listen (RFC 8252, section 7.3). */
export function matchesRedirectUri(registered: string[], uri: string): boolean {
  if (!isAllowedRedirectUri(uri)) return false
  if (registered.includes(uri)) return true
  if (!isLoopback(uri)) return false
  const withoutPort = (text: string) => {
    const url = new URL(text)
    url.port = ''
    return url.href
  }
  return registered.some(one => isAllowedRedirectUri(one) && isLoopback(one) && withoutPort(one) === withoutPort(uri))
}

/** What a person recognizes: the host, or the scheme of an application. */
export function describeTarget(uri: string): string {
  const { protocol, host } = new URL(uri)
  return protocol === 'https:' || protocol === 'http:' ? host : protocol
}
