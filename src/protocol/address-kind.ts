// Classification of IP addresses: public, private, loopback and so on, or in a given network (pure).
import ipaddr from 'ipaddr.js'

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
const SIX_TO_FOUR = ipaddr.IPv6.parseCIDR('2002::/16')

/**
 * Clouds serve credentials and the setup of machines at these, beside the link-local ones: Alibaba, Azure, AWS, Google,
 * Scaleway. Some of them are public or private by their range.
 */
const METADATA_NETWORKS = [
  '100.100.100.200/32',
  '168.63.129.16/32',
  'fd00:ec2::/32',
  'fd20:ce::254/128',
  'fd00:42::42/128',
].map(network => ipaddr.parseCIDR(network))

/**
 * `unicast` is public. `metadata` is an address of a cloud that no request may reach. An IPv6 address that embeds an
 * IPv4 address has the kind of that one.
 */
export function classifyAddress(text: string): string {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return 'invalid'
  const given = ipaddr.parse(text)
  if (given instanceof ipaddr.IPv6 && given.zoneId) return 'linkLocal'
  const address = embeddedAddress(given) ?? given
  if (METADATA_NETWORKS.some(network => isIn(address, network))) return 'metadata'
  const range = address.range()
  // Only 2000::/3 is assigned to hosts; the rest of unicast is reserved.
  const isReserved = address instanceof ipaddr.IPv6 && range === 'unicast' && !address.match(GLOBAL_UNICAST)
  return isReserved ? 'reserved' : range
}

function embeddedAddress(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | undefined {
  if (address instanceof ipaddr.IPv4) return undefined
  const at = address.isIPv4MappedAddress() || address.match(NAT64) ? 12 : address.match(SIX_TO_FOUR) ? 2 : -1
  return at < 0 ? undefined : new ipaddr.IPv4(address.toByteArray().slice(at, at + 4))
}

const isIn = (address: ipaddr.IPv4 | ipaddr.IPv6, network: Network): boolean =>
  address.kind() === network[0].kind() && address.match(network)

/** Networks of an organization. */
const PRIVATE_KINDS = ['private', 'uniqueLocal', 'carrierGradeNat']
export const isPrivateAddress = (text: string): boolean => PRIVATE_KINDS.includes(classifyAddress(text))

/** Link-local and metadata addresses are refused even if the settings of the operator include them. */
export const isNeverAllowed = (text: string): boolean =>
  ['metadata', 'linkLocal', 'invalid'].includes(classifyAddress(text))

export function parseNetwork(text: string): Network | null {
  return ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : null
}
export type Network = ReturnType<typeof ipaddr.parseCIDR>

/** Handles IPv4 addresses in IPv6 notation too. */
export function isInNetworks(text: string, networks: Network[]): boolean {
  const address = ipaddr.isValid(text) ? ipaddr.process(text) : null
  return networks.some(network => address !== null && isIn(address, network))
}
