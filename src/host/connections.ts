// Tracks the requests in progress on each connection, for the limits of the server and for its shutdown.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

type Connection = {
  /** In progress. A request counts once all its headers have arrived. */
  requests: number
  /** When it was opened, or had its last response. */
  idleSince: number
  /** The last request, if it was answered before its whole body had arrived. */
  arriving: IncomingMessage | undefined
}
export type Connections = ReadonlyMap<Socket, Connection>

const connectionsOf = new WeakMap<Server, Connections>()

/** The requests of a server are counted before its other listeners run. */
export function watchConnections(server: Server): Connections {
  const known = connectionsOf.get(server)
  if (known) return known
  const connections = new Map<Socket, Connection>()
  connectionsOf.set(server, connections)
  const watch = (socket: Socket): Connection => {
    const connection = { requests: 0, idleSince: performance.now(), arriving: undefined }
    connections.set(socket, connection)
    socket.once('close', () => connections.delete(socket))
    return connection
  }
  server.on('connection', watch)
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(request.socket) ?? watch(request.socket)
    connection.requests++
    response.once('close', () => {
      connection.requests--
      connection.idleSince = performance.now()
      connection.arriving = request.complete ? undefined : request
    })
  })
  return connections
}

export const isIdle = ({ requests, arriving }: Connection): boolean =>
  requests === 0 && (arriving === undefined || arriving.complete)
