// Finds the client's address: the socket's, or the one that a trusted proxy forwards.
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

/** Unwraps an IPv4 address mapped into IPv6, and removes the zone. */
const normalizeAddress = (text: string): string | undefined => {
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
    const socket = normalizeAddress((env as NodeRequest)?.incoming?.socket?.remoteAddress ?? '')
    if (socket === undefined) return undefined
    const forwarded = (req.header('X-Forwarded-For') ?? '').split(',')
    let address = socket
    // Each proxy appends its client. So the list is read from its end, as long as a trusted proxy wrote the entry.
    while (isTrusted(address) && forwarded.length > 0) {
      const previous = normalizeAddress(forwarded.pop()!)
      if (previous === undefined) break
      address = previous
    }
    return address
  }
}
