// WebSockets on Node, Deno and Bun: connections that a route has taken become ends of tunnels, or go on to another
// instance.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { type createApp, loadOperations } from '../app.ts'
import { PASSED_HEADER } from '../hosting/relay/tunnels.ts'
import { loadOnce } from '../kernel/http/load-once.ts'
import { resolveAlias } from '../kernel/http/path-aliases.ts'
import type { Relay, Socket, TunnelEnd } from '../platform.ts'
import { MAX_FRAME_BYTES } from '../protocol/tunnel-frames.ts'
import { watchConnections } from './connections.ts'

const CLOSE_MS = 5000

type Taken = { end: TunnelEnd } | { address: string }
const taken = new WeakMap<Request, Taken>()

/** An instance lives as long as its process. */
export const createRelay = (address: string | null): Relay => ({
  instance: randomUUID(),
  address,
  accept: async (request, end) => void taken.set(request, { end }),
  pass: async (request, to) => void taken.set(request, { address: to }),
})

const loadServer = loadOnce(async () => {
  const { WebSocketServer, WebSocket } = await import('ws')
  const options = { noServer: true, maxPayload: MAX_FRAME_BYTES, perMessageDeflate: false }
  return { server: new WebSocketServer(options), WebSocket }
})

type App = Pick<ReturnType<typeof createApp>, 'fetch' | 'services'>

/** Answers requests for WebSockets by the routes of the app. */
export function takeSockets(server: Server, { fetch, services }: App, prepare: () => Promise<unknown>): void {
  const connections = watchConnections(server)
  const loadPairs = loadOnce(async () => {
    const { createPairs } = await import('../hosting/relay/pairs.ts')
    return createPairs(services)
  })
  server.on('upgrade', (incoming: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', () => {})
    if (incoming.headers.upgrade?.toLowerCase() !== 'websocket') return serveWithoutUpgrade(server, incoming, head)
    void upgrade(incoming, connection, head).catch(error => {
      services.platform.log({ level: 'error', notice: 'A WebSocket could not be opened.', error: String(error) })
      connection.destroy()
    })
  })

  async function upgrade(incoming: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    await prepare()
    if (connection.destroyed) return
    if (!(await isForSocket(incoming))) return serveWithoutUpgrade(server, incoming, head)
    const open = connections as Map<unknown, unknown>
    // It is not idle between requests.
    open.delete(incoming.socket)
    const request = toRequest(incoming)
    if (!request) return answer(connection, new Response(null, { status: 400 }))
    const response = await fetch(request, { incoming })
    const how = taken.get(request)
    if (!how) return answer(connection, response)
    const { server: sockets, WebSocket: Client } = await loadServer()
    if ('end' in how) {
      const pairs = await loadPairs()
      return sockets.handleUpgrade(incoming, connection, head, socket => pairs.attach(how.end, toSocket(socket)))
    }
    // The request may name another host in its target, which gets nothing.
    const { pathname, search } = new URL(request.url)
    const url = Object.assign(new URL(how.address.replace(/^http/, 'ws')), { pathname, search })
    const further = new Client(url, {
      headers: { ...credentialOf(incoming), [PASSED_HEADER]: '1' },
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
      handshakeTimeout: 10_000,
    })
    further.once('error', () => connection.destroy())
    further.once('open', () =>
      sockets.handleUpgrade(incoming, connection, head, socket => {
        join(socket, further)
        join(further, socket)
      }),
    )
  }
}

const loadPaths = loadOnce(async () => {
  const operations = await loadOperations()
  return operations.flatMap(({ isSocket, path }) => (isSocket ? [path.slice(0, path.indexOf('{'))] : []))
})

/** Other routes answer with more than a socket: streams, files, and changes. Compares the fixed start of the path. */
async function isForSocket({ method, url = '' }: IncomingMessage): Promise<boolean> {
  if (method !== 'GET') return false
  const path = resolveAlias(url)
  return (await loadPaths()).some(start => path.startsWith(start))
}

const credentialOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    ['x-api-key', 'authorization'].flatMap(name => {
      const value = headers[name]
      return typeof value === 'string' ? [[name, value]] : []
    }),
  )

/** Reads a message once the one before is on its way. */
function join(from: WebSocket, to: WebSocket): void {
  from.on('error', () => from.terminate())
  from.on('message', (data, isBinary) => {
    from.pause()
    to.send(data as Buffer, { binary: isBinary }, () => from.resume())
  })
  from.once('close', (code, reason) => to.close(isSendable(code) ? code : 1011, reason))
}
const isSendable = (code: number): boolean => code >= 1000 && code !== 1005 && code !== 1006 && code !== 1015

function toSocket(socket: WebSocket): Socket {
  socket.on('error', () => socket.terminate())
  return {
    send: (message, sent) => socket.send(message, () => sent?.()),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close(code, reason) {
      socket.close(code, reason)
      // A peer that does not answer.
      setTimeout(() => socket.terminate(), CLOSE_MS).unref()
    },
    onMessage(receive) {
      socket.on('message', (data: RawData, isBinary) => {
        if (isBinary) receive(data as Buffer)
        else socket.close(1003, 'Send binary messages.')
      })
    },
    onClose: end => void socket.once('close', end),
  }
}

/** Clients of HTTP/2 offer it to every server. A request for anything but a socket is served as if they had not. */
function serveWithoutUpgrade(server: Server, incoming: IncomingMessage, head: Buffer): void {
  const { method, url, rawHeaders, socket } = incoming
  const lines = [`${method} ${url} HTTP/1.1`]
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!/^(upgrade|connection|http2-settings)$/i.test(rawHeaders[i]!))
      lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  socket.removeAllListeners('error')
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}

/** Undefined if its Host is none. */
function toRequest({ headers, url }: IncomingMessage): Request | undefined {
  const sent = new Headers()
  for (const [name, value] of Object.entries(headers))
    for (const one of [value ?? []].flat()) if (!/^sec-websocket-/.test(name)) sent.append(name, one)
  try {
    return new Request(new URL(url!, `http://${headers.host ?? 'localhost'}`), { headers: sent })
  } catch {
    return undefined
  }
}

async function answer(connection: Duplex, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const head = `HTTP/1.1 ${response.status} \r\n${headers}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`
  connection.end(Buffer.concat([Buffer.from(head), body]))
  // A peer that does not close its half.
  setTimeout(() => connection.destroy(), CLOSE_MS).unref()
}
