// Which servers the agent fetches sources from: a name is resolved once, its addresses are judged, and only they are
// connected to.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isIn, kindOf, type Network, networkOf } from '../kernel/address-kind.ts'
import { judge } from '../kernel/guarded-address.ts'
import { Passing, Unworkable } from './engines/engine.ts'

export type Resolve = (name: string) => Promise<{ address: string }[]>
/** `addresses` are those of the name; none where an address stands in its place. */
export type Reached = { url: URL; addresses: string[] }

const resolved: Resolve = name => lookup(name, { all: true, verbatim: true })
const ASK = 'correct the address, or ask whoever runs the agent to add its network to AGENT_ALLOWED_NETWORKS'

/** Of a list like `127.0.0.0/8, 10.1.0.0/16`. */
export function networksIn(list: string): Network[] {
  const texts = list.split(',').flatMap(text => text.trim() || [])
  return texts.map(text => {
    const network = networkOf(text)
    if (!network) throw new Error(`AGENT_ALLOWED_NETWORKS: ${text} is not a network. Give one like 10.1.0.0/16.`)
    return network
  })
}

/** `networks`: what may be reached though it is not public, and without TLS. */
export async function reach(text: string, networks: Network[], resolve = resolved): Promise<Reached> {
  const refused = (why: string) => new Unworkable(`The repository ${shown(text)} cannot be read: ${why}.`)
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw refused('its address is not `https`; correct it')
  if (url.username || url.password) throw refused('a user name or password stands in its address; remove it')
  url.hash = ''
  url.hostname = url.hostname.replace(/\.$/, '')
  const name = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(name) ? [name] : await addressesOf(name, resolve)
  if (!addresses.every(address => isIn(address, networks))) {
    const { refusal } = judge({ publicUrl: undefined, allowLoopback: false }, '', url.href)
    if (refusal !== undefined) throw refused(`${refusal}; ${ASK}`)
    if (!addresses.every(address => kindOf(address) === 'unicast' || isIn(address, networks)))
      throw refused(`its name leads to an address that is not public; ${ASK}`)
  }
  return { url, addresses: isIP(name) ? [] : addresses }
}

async function addressesOf(name: string, resolve: Resolve): Promise<string[]> {
  const found = await resolve(name).catch(error => {
    if (error.code === 'ENOTFOUND') throw new Unworkable(`There is no host ${name}: correct the repository’s address.`)
    throw new Passing(`The host ${name} cannot be looked up now: ${error.code}.`)
  })
  if (found.length === 0) throw new Unworkable(`The host ${name} has no address: correct the repository’s address.`)
  return found.map(({ address }) => address)
}

/** Nothing of a password that stands in it. */
function shown(text: string): string {
  const url = URL.parse(text)
  if (!url) return text.slice(0, 200)
  url.username = ''
  url.password = ''
  return url.href
}
