// Finds the address of a client behind trusted proxies (pure).
import ipaddr from 'ipaddr.js'

export type ProxyRange = [ipaddr.IPv4 | ipaddr.IPv6, number]

const isAddress = (text: string) => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text)

/** An address, or a network such as 10.0.0.0/8. */
export function isRange(text: string): boolean {
  if (!text.includes('/')) return isAddress(text)
  return ipaddr.isValidCIDR(text) && isAddress(text.split('/')[0]!)
}

export const parseRange = (text: string): ProxyRange => {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

/** Unwraps an IPv4 address mapped into IPv6, and removes the zone. */
const normaliseAddress = (text: string): string | undefined => {
  const [address = ''] = text.trim().split('%')
  return isAddress(address) ? ipaddr.process(address).toString() : undefined
}

/**
 * The addresses that a request came through: the client, the proxies, and last the peer of the socket. Each proxy
 * appends its client to `X-Forwarded-For`. So the list is read from its end, as long as a trusted proxy wrote the
 * entry, and what the client itself wrote is left out. Empty if the peer is unknown.
 */
export function findHops(peer: string | undefined, forwardedFor: string | undefined, trusted: ProxyRange[]): string[] {
  const hops = (peer ? [normaliseAddress(peer)] : []).filter(hop => hop !== undefined)
  const forwarded = (forwardedFor ?? '').split(',')
  while (hops[0] !== undefined && isTrustedProxy(hops[0], trusted) && forwarded.length > 0) {
    const previous = normaliseAddress(forwarded.pop()!)
    if (previous === undefined) break
    hops.unshift(previous)
  }
  return hops
}

export function isTrustedProxy(text: string, trusted: ProxyRange[]): boolean {
  const address = ipaddr.process(text)
  return trusted.some(range => range[0].kind() === address.kind() && address.match(range as [ipaddr.IPv4, number]))
}
