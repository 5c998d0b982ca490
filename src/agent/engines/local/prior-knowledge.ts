// Accepts HTTP/2 without TLS at the port of an HTTP/1.1 server, from clients that begin with its preface, as Caddy does
// for gRPC. Others notice nothing.
import type * as http from 'node:http'
import * as http2 from 'node:http2'
import type { Socket } from 'node:net'

/** The time that a session without requests stays, as an idle connection of HTTP/1.1 does. */
export const IDLE_MS = 75_000
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

type Options = {
  /** Until the first bytes arrive. */
  headers_ms: number
  idle_ms: number
  onRequest: (req: http.IncomingMessage, res: http.ServerResponse) => void
}

export function acceptHttp2(server: http.Server, { headers_ms, idle_ms, onRequest }: Options): void {
  const http2Server = http2.createServer({ settings: { enableConnectProtocol: false, maxConcurrentStreams: 250 } })
  http2Server.on('request', (req, res) => {
    req.headers.host = req.authority
    Object.defineProperty(res, 'destroyed', { get: () => res.stream?.destroyed !== false })
    onRequest(req as unknown as http.IncomingMessage, res as unknown as http.ServerResponse)
  })
  http2Server.on('sessionError', () => {})
  const sessions = new Set<http2.ServerHttp2Session>()
  http2Server.on('session', session => {
    let open = 0
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    session.on('stream', stream => {
      open++
      stream.once('close', () => open--)
    })
    session.setTimeout(idle_ms, () => open === 0 && session.close())
  })
  // A server that closes does this, too: then clients send their next requests elsewhere.
  const closeIdle = server.closeIdleConnections
  server.closeIdleConnections = () => {
    closeIdle.call(server)
    for (const session of sessions) session.close()
  }
  // The first one is that of the server itself.
  const [accept] = server.listeners('connection') as ((socket: Socket) => void)[]
  server.removeListener('connection', accept!)
  server.on('connection', (socket: Socket) => {
    const giveUp = () => socket.destroy()
    const late = setTimeout(giveUp, headers_ms)
    const look = () => {
      const chunk = socket.read() as Buffer | null
      if (chunk === null) return
      const isPreface = chunk.subarray(0, PREFACE.length).equals(PREFACE.subarray(0, chunk.length))
      socket.unshift(chunk)
      if (isPreface && chunk.length < PREFACE.length) return
      clearTimeout(late)
      socket.off('readable', look).off('error', giveUp).off('end', giveUp).off('close', onClose)
      if (isPreface) http2Server.emit('connection', socket)
      else accept!.call(server, socket)
    }
    const onClose = () => clearTimeout(late)
    socket.on('error', giveUp).on('end', giveUp).on('close', onClose).on('readable', look)
  })
}
