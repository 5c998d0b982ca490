// The lookups of the certificate gate: the machine that a host resolves to, and the certificates of the proxy.
import { Resolver } from 'node:dns/promises'
import * as tls from 'node:tls'
import type { Direction } from './certificate-gate.ts'

/** A proxy answers a handshake once its order is done: one order may take three minutes. */
const HANDSHAKE_TIMEOUT_MS = 200_000
const HTTPS_PORT = 443
const NO_ADDRESS = new Set(['ENOTFOUND', 'ENODATA'])

/** The addresses of this machine, or a host that has them. */
export type PublicAddresses = string[] | string

/** Asks DNS and not /etc/hosts, as an authority does. */
export async function findDirection(host: string, addresses: PublicAddresses): Promise<Direction> {
  try {
    const known = typeof addresses === 'string' ? resolveAddresses(addresses) : addresses
    const [own, found] = await Promise.all([known, resolveAddresses(host)])
    return found.some(address => own.includes(address)) ? 'here' : own.length > 0 ? 'elsewhere' : 'unknown'
  } catch {
    return 'unknown'
  }
}

/** Empty if the name has none. Throws if the resolvers do not answer. */
async function resolveAddresses(host: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 1_500, tries: 2 })
  const none = (error: NodeJS.ErrnoException): string[] => {
    if (NO_ADDRESS.has(error.code ?? '')) return []
    throw error
  }
  const found = await Promise.all([resolver.resolve4(host).catch(none), resolver.resolve6(host).catch(none)])
  return found.flat()
}

/** The chain is not checked: whether clients trust the authority is for the operator to choose. */
export function hasCertificate(host: string, port = HTTPS_PORT): Promise<boolean> {
  return new Promise(resolve => {
    const socket = tls.connect({ host: '127.0.0.1', port, servername: host, rejectUnauthorized: false })
    const end = (isCertified: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(isCertified)
    }
    const timer = setTimeout(end, HANDSHAKE_TIMEOUT_MS, false)
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate()
      end(tls.checkServerIdentity(host, certificate) === undefined && Date.parse(certificate.valid_to) > Date.now())
    })
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
