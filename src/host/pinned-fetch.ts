// fetch() for foreign servers: resolves the name once, checks every address, and connects to a checked one.
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request as plain } from 'node:http'
import { request as secure } from 'node:https'
import { connect, isIP, type LookupFunction } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { type ConnectionOptions, connect as connectSecurely } from 'node:tls'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { Config } from '../env.ts'
import { BlockedAddressError } from '../kernel/http/guarded-fetch.ts'
import { classifyAddress, isPrivateAddress } from '../protocol/address-kind.ts'
import { toWebStream } from './web-stream.ts'

export type Resolve = (name: string) => Promise<{ address: string; family: number }[]>
type PinnedFetchOptions = Pick<Config, 'allowLoopback'> & {
  allowPrivate?: boolean
  resolve?: Resolve
  ca?: ConnectionOptions['ca']
}

/** With a final dot: without it, a resolver may try the search domains of this machine first. */
const resolveName: Resolve = name => lookup(name === 'localhost' ? name : `${name}.`, { all: true, verbatim: true })

export function createPinnedFetch(options: PinnedFetchOptions): typeof fetch {
  const { allowLoopback, allowPrivate = false, resolve = resolveName, ca } = options
  /** Returns undefined for an address that may be reached. */
  const findRefusal = (name: string, address: string, isSecure: boolean): string | undefined => {
    const kind = classifyAddress(address)
    const isLocalAllowed = allowLoopback && (name === 'localhost' || isIP(name) !== 0)
    if (isLocalAllowed && kind === 'loopback') return undefined
    if (allowPrivate && isPrivateAddress(address)) return undefined
    if (kind !== 'unicast' || isLocalAllowed) return 'its name leads to an address that is not public'
    return isSecure ? undefined : 'it is not `https`, and its address is public'
  }

  async function resolveChecked(name: string, isSecure: boolean): Promise<Awaited<ReturnType<Resolve>>> {
    const family = isIP(name)
    const addresses = family ? [{ address: name, family }] : await resolve(name)
    if (addresses.length === 0) throw new Error('no address')
    for (const { address } of addresses) {
      const refusal = findRefusal(name, address, isSecure)
      if (refusal !== undefined) throw new BlockedAddressError(refusal)
    }
    return addresses
  }

  return async (input, init) => {
    const request = new Request(input, init)
    const { url: href, method, headers, body } = request
    // The signal of the Request aborts nothing any more once the Request is collected as garbage.
    const signal = init?.signal ?? request.signal
    const url = new URL(href)
    const name = url.hostname.replace(/^\[|\]$/g, '')
    const isSecure = url.protocol === 'https:'
    const addresses = await resolveChecked(name, isSecure)
    signal.throwIfAborted()
    const to = { host: name, port: Number(url.port || (isSecure ? 443 : 80)), lookup: pinAddresses(addresses) }
    const send = isSecure ? secure : plain
    const stream = init?.body instanceof ReadableStream ? body! : undefined
    const bytes = body && !stream ? Buffer.from(await new Response(body).arrayBuffer()) : undefined
    const outgoing = send(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...Object.fromEntries(headers), ...frameBody(headers, stream, bytes) },
      // A pooled connection may lead to another address. Agents of Deno also obey the proxies of the environment.
      createConnection: () => (isSecure ? connectSecurely({ ...to, ...secureOptions(name, ca) }) : connect(to)),
      signal,
    })
    // After the response has begun, its stream reports errors.
    outgoing.on('error', () => {})
    // Nothing asked for another protocol. Without a listener the request would not end.
    outgoing.on('upgrade', (_response, socket) => {
      socket.destroy()
      outgoing.emit('error', new Error('the server changed the protocol'))
    })
    if (stream) sendStream(stream, outgoing)
    else outgoing.end(bytes)
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
    return toResponse(incoming)
  }
}

/**
 * Sets the length of the body, or chunked encoding. Node sets neither for DELETE, so a server would take the body for
 * the next request.
 */
function frameBody(headers: Headers, stream?: ReadableStream, bytes?: Buffer): Record<string, string> {
  if (bytes) return { 'content-length': String(bytes.byteLength) }
  return stream && !headers.has('content-length') ? { 'transfer-encoding': 'chunked' } : {}
}

/** Each part is read when the server takes it. An error of the stream ends the request, and the other way round. */
function sendStream(body: ReadableStream<Uint8Array>, outgoing: ClientRequest): void {
  pipeline(Readable.fromWeb(body as WebStream), outgoing, () => {})
}

const pinAddresses =
  (addresses: { address: string; family: number }[]): LookupFunction =>
  (_name, { all }, callback) =>
    all ? callback(null, addresses) : callback(null, addresses[0]!.address, addresses[0]!.family)

/** A certificate's name is never an address in the handshake (RFC 6066, section 3). */
const secureOptions = (name: string, ca: ConnectionOptions['ca']): ConnectionOptions => ({
  ...(isIP(name) === 0 && { servername: name }),
  ALPNProtocols: ['http/1.1'],
  ...(ca && { ca }),
})

const DECODERS: Record<string, () => NodeJS.ReadWriteStream> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}
const BODILESS_STATUSES = [204, 205, 304]

function toResponse(incoming: IncomingMessage): Response {
  const headers = new Headers()
  const { rawHeaders, statusCode: status = 0 } = incoming
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!)
  if (BODILESS_STATUSES.includes(status)) {
    incoming.resume()
    return new Response(null, { status, headers })
  }
  // Some servers compress although the request does not accept it.
  const decoder = DECODERS[headers.get('content-encoding')?.toLowerCase() ?? '']?.()
  const stream = decoder ? pipeline(incoming, decoder, () => {}) : incoming
  return new Response(toWebStream(stream as Readable), { status, headers })
}
