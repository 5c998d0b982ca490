// The addresses to which a client may have its answers sent (pure).
import { LOOPBACK_HOST } from '../../protocol/guarded-address.ts'

/**
 * Schemes of applications that are no reversed domain name, as RFC 8252 wants it. Any other scheme without a dot may be
 * one of the browser or of the system, which runs or shows the contents of the address.
 */
const KNOWN_SCHEMES = ['claude:', 'cursor:', 'vscode:', 'vscode-insiders:', 'vscodium:', 'windsurf:', 'zed:']
const VISIBLE_ASCII = /^[\x21-\x7e]{1,2048}$/

const parse = (uri: string): URL | undefined =>
  VISIBLE_ASCII.test(uri) && !uri.includes('\\') && URL.canParse(uri) ? new URL(uri) : undefined

export const isLoopback = (uri: string): boolean => {
  const { protocol, hostname } = new URL(uri)
  return protocol === 'http:' && LOOPBACK_HOST.test(hostname)
}

/** https, http to this machine, or a private-use scheme of an application (RFC 8252, section 7.1). */
export function isAllowedRedirectUri(uri: string): boolean {
  const url = parse(uri)
  if (!url || uri.includes('#') || url.username || url.password) return false
  if (url.protocol === 'http:') return isLoopback(uri)
  return url.protocol === 'https:' || url.protocol.includes('.') || KNOWN_SCHEMES.includes(url.protocol)
}

/** A browser that goes there shows a page, and starts no application. */
export const isPage = (uri: string): boolean => new URL(uri).protocol === 'https:' || isLoopback(uri)

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

/** A person recognizes the host, or the scheme of an application. */
export function describeTarget(uri: string): string {
  const { protocol, host } = new URL(uri)
  return protocol === 'https:' || protocol === 'http:' ? host : protocol
}
