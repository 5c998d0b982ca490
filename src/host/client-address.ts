// Finds the client's address: the socket's, or the one that a trusted proxy forwards.
import type { RequestHead } from '../platform.ts'
import { findHops, parseRange } from '../protocol/client-address.ts'

type NodeRequest = { incoming?: { socket?: { remoteAddress?: string | undefined } } } | undefined

export function createAddressReader(trusted: string[]): (request: RequestHead) => string | undefined {
  const ranges = trusted.map(parseRange)
  return ({ req, env }) => {
    const peer = (env as NodeRequest)?.incoming?.socket?.remoteAddress
    return findHops(peer, req.header('X-Forwarded-For'), ranges)[0]
  }
}
