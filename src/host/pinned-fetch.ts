// Reaches foreign servers from Node: the name is resolved once, every address checked, and only a checked one connected to.
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { type IncomingMessage, request as plain } from 'node:http'
import { type RequestOptions, request as secure } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import ipaddr from 'ipaddr.js'
import type { Config } from '../env.ts'
import { Unreachable } from '../kernel/guarded-fetch.ts'

export type Resolve = (name: string) => Promise<{ address: string; family: number }[]>
type Way = Pick<Config, 'allowLoopback'> & { resolve?: Resolve; ca?: RequestOptions['ca'] }

/** The whole name: without its last dot, a resolver may try it within the domains of this machine first. */
const resolved: Resolve = name => lookup(name === 'localhost' ? name : `${name}.`, { all: true, verbatim: true })

const GLOBAL = ipaddr.IPv6.parseCIDR('2000::/3')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
const SIX_TO_FOUR = ipaddr.IPv6.parseCIDR('2002::/16')

/** What kind of address it is: that of the IPv4 address in it, where it only carries one. */
export function kindOf(text: string): string {
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
  return range === 'unicast' && !address.match(GLOBAL) ? 'reserved' : range
}

export function pinnedFetch({ allowLoopback, resolve = resolved, ca }: Way): typeof fetch {
  const mayReach = (name: string, address: string): boolean => {
    const kind = kindOf(address)
    const here = allowLoopback && (name === 'localhost' || isIP(name) !== 0)
    return here ? kind === 'loopback' : kind === 'unicast'
  }

  async function checked(name: string): Promise<Awaited<ReturnType<Resolve>>> {
    const family = isIP(name)
    const addresses = family ? [{ address: name, family }] : await resolve(name)
    if (addresses.length === 0) throw new Error('no address')
    for (const { address } of addresses)
      if (!mayReach(name, address)) throw new Unreachable('its name leads to an address that is not public')
    return addresses
  }

  return async (input, init) => {
    const { url: href, method, headers, body, signal } = new Request(input, init)
    const url = new URL(href)
    const name = url.hostname.replace(/^\[|\]$/g, '')
    const addresses = await checked(name)
    signal.throwIfAborted()
    const send = url.protocol === 'https:' ? secure : plain
    const outgoing = send(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...Object.fromEntries(headers) },
      // A connection of its own: none that was opened for another address is used again.
      ...{ agent: false, lookup: pin(addresses), signal, ...(ca && { ca }) },
    })
    // After its answer has begun, the answer's stream tells of it.
    outgoing.on('error', () => {})
    outgoing.end(body ? Buffer.from(await new Response(body).arrayBuffer()) : undefined)
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
    return answered(incoming)
  }
}

/** Whatever is looked up, these are the addresses. */
const pin =
  (addresses: { address: string; family: number }[]): LookupFunction =>
  (_name, { all }, found) =>
    all ? found(null, addresses) : found(null, addresses[0]!.address, addresses[0]!.family)

const DECODERS: Record<string, () => NodeJS.ReadWriteStream> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}
const BODILESS = [204, 205, 304]

function answered(incoming: IncomingMessage): Response {
  const headers = new Headers()
  const { rawHeaders, statusCode: status = 0 } = incoming
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!)
  if (BODILESS.includes(status)) {
    incoming.resume()
    return new Response(null, { status, headers })
  }
  // Some servers compress without being asked to.
  const decoder = DECODERS[headers.get('content-encoding')?.toLowerCase() ?? '']?.()
  const stream = decoder ? pipeline(incoming, decoder, () => {}) : incoming
  return new Response(Readable.toWeb(stream as Readable) as ReadableStream<Uint8Array>, { status, headers })
}
