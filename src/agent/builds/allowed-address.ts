// Which servers the agent fetches sources from: a name is resolved once, its addresses are judged, and only they are
// connected to.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { classifyAddress, isInNetworks, type Network, parseNetwork } from '../../protocol/address-kind.ts'
import { judgeUrl } from '../../protocol/guarded-address.ts'
import { PermanentError, TransientError } from '../engines/engine.ts'

export type ResolveHost = (name: string) => Promise<{ address: string }[]>
/** `addresses` are those of the name; none where an address stands in its place. */
export type AllowedAddress = { url: URL; addresses: string[] }

const resolveWithDns: ResolveHost = name => lookup(name, { all: true, verbatim: true })
const CORRECTION_HINT =
  'correct the address, or ask whoever runs the agent to add its network to AGENT_ALLOWED_NETWORKS'

/** Of a list like `127.0.0.0/8, 10.1.0.0/16`. */
export function parseNetworks(list: string): Network[] {
  const texts = list.split(',').flatMap(text => text.trim() || [])
  return texts.map(text => {
    const network = parseNetwork(text)
    if (!network) throw new Error(`AGENT_ALLOWED_NETWORKS: ${text} is not a network. Give one like 10.1.0.0/16.`)
    return network
  })
}

/** `networks`: what may be reached though it is not public, and without TLS. */
export async function resolveAllowedAddress(
  text: string,
  networks: Network[],
  resolve = resolveWithDns,
): Promise<AllowedAddress> {
  const refused = (why: string) => new PermanentError(`The repository ${withoutPassword(text)} cannot be read: ${why}.`)
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw refused('its address is not `https`; correct it')
  if (url.username || url.password) throw refused('a user name or password stands in its address; remove it')
  url.hash = ''
  url.hostname = url.hostname.replace(/\.$/, '')
  const name = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(name) ? [name] : await lookUpAddresses(name, resolve)
  if (!addresses.every(address => isInNetworks(address, networks))) {
    const { refusal } = judgeUrl({ publicUrl: undefined, allowLoopback: false }, '', url.href)
    if (refusal !== undefined) throw refused(`${refusal}; ${CORRECTION_HINT}`)
    if (!addresses.every(address => classifyAddress(address) === 'unicast' || isInNetworks(address, networks)))
      throw refused(`its name leads to an address that is not public; ${CORRECTION_HINT}`)
  }
  return { url, addresses: isIP(name) ? [] : addresses }
}

async function lookUpAddresses(name: string, resolve: ResolveHost): Promise<string[]> {
  const found = await resolve(name).catch(error => {
    if (error.code === 'ENOTFOUND')
      throw new PermanentError(`There is no host ${name}: correct the repository’s address.`)
    throw new TransientError(`The host ${name} cannot be looked up now: ${error.code}.`)
  })
  if (found.length === 0) throw new PermanentError(`The host ${name} has no address: correct the repository’s address.`)
  return found.map(({ address }) => address)
}

/** Nothing of a password that stands in it. */
function withoutPassword(text: string): string {
  const url = URL.parse(text)
  if (!url) return text.slice(0, 200)
  url.username = ''
  url.password = ''
  return url.href
}
