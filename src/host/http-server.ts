// The HTTP server on Node, Deno and Bun, with limits on how long a request may take to arrive, and a connection may
// stay without one.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { loadOperations } from '../app.ts'
import { loadOnce } from '../kernel/http/load-once.ts'
import { resolveAlias } from '../kernel/http/path-aliases.ts'
import type { Operation } from '../kernel/http/routes.ts'
import { isIdle, watchConnections } from './connections.ts'

type Fetch = Parameters<typeof createAdaptorServer>[0]['fetch']
export type ServerLimits = {
  /** For the headers, and again for the body. */
  requestMs: number
  /** An archive may stream for minutes: pauses and the whole are limited. */
  uploadPauseMs: number
  uploadMs: number
  /** Requests of one connection at a time. A client that sends more reads no answers, which would fill the memory. */
  inProgress: number
  /** Between two requests of a connection, with the headers of the second one. Other bytes do not count. */
  idleMs: number
}
const DEFAULT_LIMITS: ServerLimits = {
  requestMs: 30_000,
  uploadPauseMs: 60_000,
  uploadMs: 30 * 60_000,
  inProgress: 100,
  // Longer than an idle connection is kept and headers may take, so that slow headers get 408.
  idleMs: 45_000,
}
const CHECK_MS = 5000
/** A client that still sends would lose the answer if its connection were closed at once. */
const LINGER_MS = 500
const TIMED_OUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

/** Until `prepare` is done, requests wait, apart from the one that asks whether the process is alive. */
export function createHttpServer(
  fetch: Fetch,
  limits: Partial<ServerLimits> = {},
  prepare: () => Promise<unknown> = loadSlices,
): Server {
  const { requestMs, uploadPauseMs, uploadMs, inProgress, idleMs } = { ...DEFAULT_LIMITS, ...limits }
  const serverOptions = {
    headersTimeout: requestMs,
    // Only where the timer below has not ended the request: what the runtime sends may be lost with the connection.
    requestTimeout: uploadMs + CHECK_MS,
    connectionsCheckingInterval: Math.min(requestMs, CHECK_MS),
  }
  // A request that arrived on a connection that is destroyed by now is not served.
  const serveConnected: Fetch = (request, env) =>
    (env as HttpBindings).incoming.socket.destroyed ? new Response(null, { status: 503 }) : fetch(request, env)
  let serve: Fetch = async (request, env) => {
    if (new URL(request.url).pathname !== LIVENESS) await prepare()
    return serveConnected(request, env)
  }
  const server = createAdaptorServer({ fetch: (request, env) => serve(request, env), serverOptions }) as Server
  // The size of headers is limited. By default, Node and Deno drop those after the 1000th, among them what a trusted
  // proxy added at the end.
  server.maxHeadersCount = 0
  server.prependListener('request', (request: IncomingMessage) => {
    const { socket } = request
    if (connections.get(socket)!.requests > inProgress) socket.destroy()
    // A `Request` of a URL with a user name cannot be made.
    request.url = request.url?.replace(/^(https?:\/\/)[^/?#]*@/i, '$1')
  })
  const connections = watchConnections(server)
  const idleCheck = setInterval(
    () => {
      const now = performance.now()
      for (const [socket, connection] of connections) {
        if (!isIdle(connection)) connection.idleSince = now
        else if (now - connection.idleSince > idleMs) socket.destroy()
      }
    },
    Math.min(idleMs, CHECK_MS),
  ).unref()
  server.once('close', () => clearInterval(idleCheck))
  const setPrepared = () => {
    serve = serveConnected
  }
  // A failure reaches those who wait for it.
  server.once('listening', () => void prepare().then(setPrepared, () => {}))
  return server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    const { headers, socket } = request
    if (!('content-length' in headers || 'transfer-encoding' in headers)) return
    if (!uploads) await loadSlices()
    if (request.destroyed) return
    const end = () => {
      if (request.complete || socket.destroyed || socket.writableEnded) return
      if (response.headersSent) socket.destroy()
      else {
        socket.pause()
        socket.end(TIMED_OUT)
        setTimeout(() => socket.destroy(), LINGER_MS).unref()
      }
    }
    const timer = setTimeout(end, isUpload(request) ? uploadMs : requestMs)
    request.once('close', () => clearTimeout(timer))
    if (isUpload(request)) {
      request.setTimeout(uploadPauseMs, end)
      request.once('close', () => socket.setTimeout(0))
    }
  })
}

const LIVENESS = '/healthz'
let uploads: Operation[] | undefined

/** Imports all slices when the server starts, so that no request waits for one later. */
export const loadSlices = loadOnce(async () => {
  const operations = await loadOperations(setImmediate)
  uploads = operations.filter(one => (one.kind === 'open' || one.kind === 'passThrough') && one.longBody)
})

/** Compares the fixed start of the path. */
function isUpload({ method, url = '' }: IncomingMessage): boolean {
  const path = resolveAlias(url)
  return uploads!.some(
    operation =>
      operation.method.toUpperCase() === method &&
      path.startsWith(operation.path.slice(0, operation.path.indexOf('{'))),
  )
}
