// Classification of IP addresses: public, private, loopback and so on, or in a given network (pure).
import ipaddr from 'ipaddr.js'

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
const SIX_TO_FOUR = ipaddr.IPv6.parseCIDR('2002::/16')

/** An IPv6 address that embeds an IPv4 address has the kind of that one. */
export function classifyAddress(text: string): string {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return 'invalid'
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv4) return address.range()
  if (address.zoneId) return 'linkLocal'
  const bytes = address.toByteArray()
  const embeddedKind = (at: number) => new ipaddr.IPv4(bytes.slice(at, at + 4)).range()
  if (address.isIPv4MappedAddress() || address.match(NAT64)) return embeddedKind(12)
  if (address.match(SIX_TO_FOUR)) return embeddedKind(2)
  const range = address.range()
  // Only 2000::/3 is assigned to hosts; the rest of unicast is reserved.
  return range === 'unicast' && !address.match(GLOBAL_UNICAST) ? 'reserved' : range
}

/** Networks of an organization. */
const PRIVATE_KINDS = ['private', 'uniqueLocal', 'carrierGradeNat']
/** Clouds serve credentials at these, beside the link-local ones. */
const METADATA_ADDRESSES = ['100.100.100.200', 'fd00:ec2::254', 'fd20:ce::254']
export const isPrivateAddress = (text: string): boolean =>
  PRIVATE_KINDS.includes(classifyAddress(text)) && !METADATA_ADDRESSES.includes(ipaddr.process(text).toString())

export function parseNetwork(text: string): Network | null {
  return ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : null
}
export type Network = ReturnType<typeof ipaddr.parseCIDR>

/** Handles IPv4 addresses in IPv6 notation too. */
export function isInNetworks(text: string, networks: Network[]): boolean {
  const address = ipaddr.isValid(text) ? ipaddr.process(text) : null
  return networks.some(network => address?.kind() === network[0].kind() && address.match(network))
}
