// Which kind of address an IP address is, and whether it is in a network (pure).
import ipaddr from 'ipaddr.js'

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
const SIX_TO_FOUR = ipaddr.IPv6.parseCIDR('2002::/16')

/** What kind of address it is: that of the IPv4 address in it, where it only carries one. */
export function classifyAddress(text: string): string {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return 'invalid'
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv4) return address.range()
  if (address.zoneId) return 'linkLocal'
  const bytes = address.toByteArray()
  const carried = (at: number) => new ipaddr.IPv4(bytes.slice(at, at + 4)).range()
  if (address.isIPv4MappedAddress() || address.match(NAT64)) return carried(12)
  if (address.match(SIX_TO_FOUR)) return carried(2)
  const range = address.range()
  // Whatever is not given out for use by anyone is no host's, whether it has a name of its own or not.
  return range === 'unicast' && !address.match(GLOBAL_UNICAST) ? 'reserved' : range
}

/** `10.0.0.0/8`; null where it is none. */
export function parseNetwork(text: string): Network | null {
  return ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : null
}
export type Network = ReturnType<typeof ipaddr.parseCIDR>

/** An IPv4 address may be written as an IPv6 one. */
export function isInNetworks(text: string, networks: Network[]): boolean {
  const address = ipaddr.isValid(text) ? ipaddr.process(text) : null
  return networks.some(network => address?.kind() === network[0].kind() && address.match(network))
}
