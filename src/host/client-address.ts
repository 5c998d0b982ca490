// Finds the client's address: the socket's, or the one that a trusted proxy forwards.
import type { Platform, RequestHead } from '../platform.ts'
import { findHops, parseRange } from '../protocol/client-address.ts'

type NodeRequest = { incoming?: { socket?: { remoteAddress?: string | undefined } } } | undefined

export type ReadPeer = (request: RequestHead) => string | undefined

export const readSocketPeer: ReadPeer = ({ env }) => (env as NodeRequest)?.incoming?.socket?.remoteAddress

export function createAddressReader(trusted: string[], readPeer = readSocketPeer): Platform['clientAddress'] {
  const ranges = trusted.map(parseRange)
  return request => findHops(readPeer(request), request.req.header('X-Forwarded-For'), ranges)[0]
}
