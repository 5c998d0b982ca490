// Decides which servers sources may be fetched from. A name is resolved once; git connects to the checked addresses.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import {
  classifyAddress,
  isInNetworks,
  isNeverAllowed,
  type Network,
  parseNetwork,
} from '../../protocol/address-kind.ts'
import { judgeUrl } from '../../protocol/guarded-address.ts'
import { parseSshUrl, toSshRemote, toSshUrl } from '../../protocol/ssh-url.ts'
import { PermanentError, TransientError } from '../engine.ts'

type ResolveHost = (name: string) => Promise<{ address: string }[]>
/** `addresses`: those of the host name; empty if the URL has an IP address instead. */
export type AllowedAddress = { url: URL; addresses: string[] }

const resolveWithDns: ResolveHost = name => lookup(name, { all: true, verbatim: true })
const SSH_PORT = '22'
const CORRECTION_HINT =
  'Correct the URL, or ask the operator of the agent to add its network to AGENT_ALLOWED_NETWORKS.'

/** Parses a list like `127.0.0.0/8, 10.1.0.0/16`. */
export function parseNetworks(list: string): Network[] {
  const texts = list.split(',').flatMap(text => text.trim() || [])
  return texts.map(text => {
    const network = parseNetwork(text)
    if (!network) throw new Error(`${text} in AGENT_ALLOWED_NETWORKS is not a network. Set one like 10.1.0.0/16.`)
    return network
  })
}

/** `networks` may be reached although they are not public, also without TLS. Metadata of a cloud never may. */
export async function resolveAllowedAddress(
  text: string,
  networks: Network[],
  resolve = resolveWithDns,
): Promise<AllowedAddress> {
  const refused = (reason: string) =>
    new PermanentError(`The repository ${withoutPassword(text)} cannot be read: ${reason}`)
  const ssh = parseSshUrl(text)
  const url = ssh ? toSshUrl(ssh) : URL.parse(text)
  if (!url || !(ssh || /^https?:$/.test(url.protocol))) throw refused('its URL is not `https`. Correct it.')
  if (!ssh && (url.username || url.password)) throw refused('its URL contains a user name or password. Remove them.')
  url.hash = ''
  url.hostname = url.hostname.replace(/\.$/, '')
  const name = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(name) ? [name] : await lookUpAddresses(name, resolve)
  const refusal = findAddressRefusal(judgedUrl(url), addresses, networks)
  if (refusal !== undefined) throw refused(refusal)
  return { url, addresses: isIP(name) ? [] : addresses }
}

/** Says why the addresses of a host must not be reached. `networks` may be, also without TLS. */
export function findAddressRefusal(url: string, addresses: string[], networks: Network[]): string | undefined {
  if (addresses.some(isNeverAllowed))
    return 'its host is a link-local address, or one of a cloud’s own services. Correct the URL.'
  if (addresses.every(address => isInNetworks(address, networks))) return undefined
  const { refusal } = judgeUrl({ publicUrl: undefined, allowLoopback: false }, '', url)
  if (refusal !== undefined) return `${refusal}. ${CORRECTION_HINT}`
  if (addresses.every(address => classifyAddress(address) === 'unicast' || isInNetworks(address, networks)))
    return undefined
  return `its host name resolves to an address that is not public. ${CORRECTION_HINT}`
}

/** The rules for hosts are those of https. Its own port is an ordinary one. */
const judgedUrl = ({ protocol, hostname, port, href }: URL): string =>
  protocol === 'ssh:' ? `https://${hostname}${port === '' || port === SSH_PORT ? '' : `:${port}`}/` : href

async function lookUpAddresses(name: string, resolve: ResolveHost): Promise<string[]> {
  const found = await resolve(name).catch(error => {
    if (error.code === 'ENOTFOUND')
      throw new PermanentError(`The host ${name} does not exist. Correct the URL of the repository.`)
    throw new TransientError(`The host ${name} cannot be looked up: ${error.code}.`)
  })
  if (found.length === 0)
    throw new PermanentError(`The host ${name} has no address. Correct the URL of the repository.`)
  return found.map(({ address }) => address)
}

/** The URL as git takes it. */
export const remoteOf = (url: URL): string => (url.protocol === 'ssh:' ? toSshRemote(url) : url.href)

function withoutPassword(text: string): string {
  const url = URL.parse(text)
  if (!url || parseSshUrl(text)) return text.slice(0, 200)
  url.username = ''
  url.password = ''
  return url.href
}
