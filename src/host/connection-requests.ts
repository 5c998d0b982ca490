// Counts the requests in progress on each connection of a server, for its limits and for its end.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const countsOf = new WeakMap<Server, ReadonlyMap<Socket, number>>()

/** A request counts once all its headers have arrived. The count of a server runs before its other listeners. */
export function countRequests(server: Server): ReadonlyMap<Socket, number> {
  const known = countsOf.get(server)
  if (known) return known
  const counts = new Map<Socket, number>()
  countsOf.set(server, counts)
  const add = (socket: Socket, requests: number) => counts.set(socket, (counts.get(socket) ?? 0) + requests)
  server.on('connection', (socket: Socket) => {
    add(socket, 0)
    socket.once('close', () => counts.delete(socket))
  })
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    add(socket, 1)
    response.once('close', () => {
      if (counts.has(socket)) add(socket, -1)
    })
  })
  return counts
}
