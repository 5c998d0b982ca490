// Decides which receivers a drain may reach: its address is a tenant's choice. A name is looked up for each connection,
// all its addresses are checked, and the connection goes to a checked one.
import { lookup as lookUp } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import type { Network } from '../../protocol/address-kind.ts'
import { findAddressRefusal } from '../builds/allowed-address.ts'

export class ReceiverRefused extends Error {}

/** TLS has the rules of https, plain TCP those of http: it needs a network that the operator allows. */
const judgedUrl = ({ protocol, host }: URL): string =>
  `${protocol === 'https:' || protocol === 'tls:' ? 'https' : 'http'}://${host}/`

export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '')

/** For the option `lookup` of connections. An address in the URL is not looked up: check it before. */
export const createCheckedLookup =
  (url: URL, networks: Network[]): LookupFunction =>
  (name, { all }, callback) => {
    const found = lookUp(name, { all: true, verbatim: true }).then(addresses => {
      requireAllowed(
        url,
        addresses.map(({ address }) => address),
        networks,
      )
      return addresses
    })
    found.then(
      addresses => (all ? callback(null, addresses) : callback(null, addresses[0]!.address, addresses[0]!.family)),
      error => callback(error, ''),
    )
  }

export function requireAllowedLiteral(url: URL, networks: Network[]): void {
  if (isIP(hostOf(url))) requireAllowed(url, [hostOf(url)], networks)
}

function requireAllowed(url: URL, addresses: string[], networks: Network[]): void {
  const refusal =
    addresses.length === 0 ? 'its host has no address.' : findAddressRefusal(judgedUrl(url), addresses, networks)
  if (refusal !== undefined) throw new ReceiverRefused(`${url.host} is not reached: ${refusal}`)
}
