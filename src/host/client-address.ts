// Which address a request comes from: the socket's, or what a proxy that the operator trusts says of it.
import ipaddr from 'ipaddr.js'
import type { RequestHead } from '../env.ts'

type NodeRequest = { incoming?: { socket?: { remoteAddress?: string | undefined } } } | undefined
type Range = [ipaddr.IPv4 | ipaddr.IPv6, number]

const isAddress = (text: string) => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text)

export function isRange(text: string): boolean {
  if (!text.includes('/')) return isAddress(text)
  return ipaddr.isValidCIDR(text) && isAddress(text.split('/')[0]!)
}

const parseRange = (text: string): Range => {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

/** Without the mapping of IPv4 into IPv6 that a socket of both kinds shows, and without a zone. */
const normaliseAddress = (text: string): string | undefined => {
  const [address = ''] = text.trim().split('%')
  return isAddress(address) ? ipaddr.process(address).toString() : undefined
}

export function createAddressReader(trusted: string[]): (request: RequestHead) => string | undefined {
  const ranges = trusted.map(parseRange)
  const isTrusted = (text: string) => {
    const address = ipaddr.parse(text)
    return ranges.some(range => range[0].kind() === address.kind() && address.match(range as [ipaddr.IPv4, number]))
  }
  return ({ req, env }) => {
    const socket = normaliseAddress((env as NodeRequest)?.incoming?.socket?.remoteAddress ?? '')
    if (socket === undefined) return undefined
    const forwarded = (req.header('X-Forwarded-For') ?? '').split(',')
    let address = socket
    // Each proxy appends whom it was asked by, so the list is trusted from its end, as far as trusted proxies wrote it.
    while (isTrusted(address) && forwarded.length > 0) {
      const previous = normaliseAddress(forwarded.pop()!)
      if (previous === undefined) break
      address = previous
    }
    return address
  }
}
