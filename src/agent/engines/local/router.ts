// The local router: finds the revision that serves a host and path, and passes requests, streams and sockets through.
import * as http from 'node:http'
import { connect, type Socket } from 'node:net'
import {
  headerPairs,
  isWebSocket,
  MAX_HEADERS,
  refusalStatus,
  requestHeaders,
  responseHeaders,
} from './router-headers.ts'
import { forwardResponse, isWritten, respondAndClose, respondProblem, respondUnrouted } from './router-responses.ts'

export type Target = { host: string; port: number }
/** Where a deployment is served: a host, and a path below which everything is its. `of` is what is noted as asked. */
export type Route = { host: string; path: string; targets: Target[]; of?: string }

/** A request waits so long for a copy that is just being started again. */
const CONNECT_WAIT_MS = 10_000
const CONNECT_RETRY_MS = 25
/**
 * How long a client may take for its headers, how long nothing of its body may come, and how long an application may
 * think.
 */
export type RouterLimits = { headers_ms: number; body_ms: number; answer_ms: number; check_ms: number }
const DEFAULT_ROUTER_LIMITS: RouterLimits = {
  headers_ms: 30_000,
  body_ms: 60_000,
  answer_ms: 15 * 60_000,
  check_ms: 5_000,
}
/** Of one answer: further ones are left out. */
const MAX_EARLY_HINTS = 16
/**
 * A client is heard, and not listened to, for so long after its connection was ended: closing at once could cut the
 * answer off.
 */
const LINGER_MS = 2_000

export const targetKey = ({ host, port }: Target) => `${host}:${port}`

export function createRouter(given: Partial<RouterLimits> = {}) {
  const limits = { ...DEFAULT_ROUTER_LIMITS, ...given }
  /** Until it is told for the first time nobody knows who is served: everybody waits. */
  let routes: Route[] | undefined
  const inFlight = new Map<string, number>()
  /** When each was last asked, or was still answering. */
  const asked = new Map<string, number>()
  let turn = 0

  const note = ({ of }: Route) => of !== undefined && asked.set(of, Date.now())
  const find = (host: string, path: string) => routes?.find(route => route.host === host && isBelow(path, route.path))

  /** Counted from when it is chosen: nothing is drained while a request is on its way to it. */
  function take(targets: Target[]): { target: Target; release: () => void } | undefined {
    const target = targets[turn++ % targets.length]
    if (!target) return undefined
    const name = targetKey(target)
    inFlight.set(name, (inFlight.get(name) ?? 0) + 1)
    let held = true
    const release = () => {
      if (!held) return
      held = false
      const left = inFlight.get(name)! - 1
      if (left) inFlight.set(name, left)
      else inFlight.delete(name)
    }
    return { target, release }
  }

  /** A connection to a copy, whichever takes one: nothing was sent yet, so nothing can be done twice. */
  async function reach(host: string, path: string, gone: () => boolean) {
    const deadline = Date.now() + CONNECT_WAIT_MS
    for (;;) {
      const route = find(host, path)
      if (!route && routes) return 'nowhere'
      const taken = route && take(route.targets)
      if (route) note(route)
      if (route && taken) {
        const socket = await dial(taken.target)
        const release = () => {
          note(route)
          taken.release()
        }
        if (socket && !gone()) return { socket, release }
        taken.release()
        socket?.destroy()
      }
      if (gone() || Date.now() > deadline) return 'nobody'
      await new Promise(resolve => setTimeout(resolve, CONNECT_RETRY_MS))
    }
  }

  /** The request to the application, on a connection of its own; null where the client has been answered already. */
  async function pass(req: http.IncomingMessage, res: http.ServerResponse, connection: string[]) {
    const refusal = refusalStatus(req)
    if (refusal)
      return void respondAndClose(
        res,
        refusal,
        'The request cannot be passed on: see its host, path, headers and length.',
      )
    const host = hostOf(req)
    const reached = await reach(host, pathOf(req), () => res.destroyed || res.socket!.destroyed)
    if (typeof reached === 'string') return void respondUnrouted(res, reached, host)
    const { socket, release } = reached
    const out = http.request({
      method: req.method!,
      path: req.url!,
      headers: [...requestHeaders(req), ...connection],
      setHost: false,
      createConnection: () => socket,
    })
    const late = watch(req, res, out)
    res.once('close', () => {
      clearInterval(late)
      release()
      // Ours to close, once the answer is through: an application that closes first may cut off what it answered early.
      socket.destroy()
    })
    out.on('error', () => {})
    // It may answer before it has read everything, and close; an answer that breaks off is seen below.
    out.once('close', () => {
      if (!res.headersSent) respondProblem(res, 502, 'The application closed the connection without an answer.')
    })
    out.once('response', from => forwardResponse(res, out, from))
    return { out, socket, release, late }
  }

  /** Ends a request whose body does not come, or whose application does not answer. */
  function watch(req: http.IncomingMessage, res: http.ServerResponse, out: http.ClientRequest) {
    const since = Date.now()
    let heard = since
    req.on('data', () => {
      heard = Date.now()
    })
    const late = (status: number, detail: string) => {
      respondAndClose(res, status, detail)
      out.destroy()
    }
    return setInterval(() => {
      if (res.headersSent) return
      const now = Date.now()
      // While the application does not read, it is not the client who is slow.
      const isReading = !out.writableNeedDrain
      if (!req.complete && isReading && now - heard > limits.body_ms) late(408, 'The body of the request did not come.')
      else if (now - since > limits.answer_ms) late(504, 'The application did not answer.')
    }, limits.check_ms)
  }

  async function onRequest(req: http.IncomingMessage, res: http.ServerResponse) {
    const passed = await pass(req, res, ['Connection', 'keep-alive'])
    if (!passed) return
    let hints = 0
    // What Node would not say itself is no reason to end, here where every deployment is served.
    passed.out.on('information', ({ statusCode, headers, rawHeaders }) => {
      const link = headerPairs(rawHeaders).flatMap(([name, value]) => (name.toLowerCase() === 'link' ? [value] : []))
      // A client that does not read what an application hints at without end would fill the memory.
      if (statusCode === 103 && ++hints <= MAX_EARLY_HINTS)
        isWritten(() => res.writeEarlyHints({ ...(headers as Record<string, string>), link }))
    })
    req.pipe(passed.out)
  }

  /**
   * Until the application says 101 nothing of the client but its headers is passed on; anything else ends the
   * connection.
   */
  async function onUpgrade(req: http.IncomingMessage, client: Socket, head: Buffer) {
    client.on('error', () => client.destroy())
    const res = new http.ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(client)
    client.once('close', () => res.destroy())
    res.once('finish', () => {
      client.end()
      // Read and forgotten.
      client.resume()
      setTimeout(() => client.destroy(), LINGER_MS).unref()
    })
    const passed = await pass(req, res, ['Connection', 'Upgrade', 'Upgrade', 'websocket'])
    if (!passed) return
    const { out, socket, late } = passed
    out.once('upgrade', (from, upstream, early) => {
      if (from.headers.upgrade?.toLowerCase() !== 'websocket')
        return void respondProblem(res, 502, 'The application switched to a protocol that nobody asked for.')
      clearInterval(late)
      res.detachSocket(client)
      const said = headerPairs(responseHeaders(from)).map(([name, value]) => `${name}: ${value}\r\n`)
      const status = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
      client.write(`${status}${said.join('')}\r\n`, 'latin1')
      if (early.length) client.write(early)
      if (head.length) upstream.write(head)
      upstream.on('error', () => client.destroy())
      // Whoever ends it ends it for both: nobody goes on listening to half a conversation.
      upstream.once('close', () => client.end(() => client.destroy()))
      client.once('end', () => client.end(() => client.destroy()))
      client.once('close', () => {
        passed.release()
        socket.destroy()
      })
      upstream.pipe(client).pipe(upstream)
    })
    out.end()
  }

  const server = () => {
    const made = http.createServer(
      {
        // Streams may last; without headersTimeout of its own this would lift the limit of the headers too.
        requestTimeout: 0,
        headersTimeout: limits.headers_ms,
        connectionsCheckingInterval: limits.check_ms,
        keepAliveTimeout: 75_000,
        // Whoever offers HTTP/2 is answered without it: each of its requests finds its own way.
        shouldUpgradeCallback: isWebSocket,
      },
      (req, res) => void onRequest(req, res),
    )
    // Node passes over further ones, and `refusalStatus` sees that there are more.
    made.maxHeadersCount = MAX_HEADERS + 1
    made.on('upgrade', (req, socket, head) => void onUpgrade(req, socket as Socket, head))
    return made
  }

  return {
    server,
    /** From when it returns, every new request goes by these. */
    apply(wanted: Route[]) {
      // The longest path comes first.
      routes = wanted.toSorted((a, b) => b.path.length - a.path.length)
      const here = new Set(routes.map(({ of }) => of))
      for (const of of asked.keys()) if (!here.has(of)) asked.delete(of)
    },
    asked: () => Object.fromEntries(asked),
    inFlight: () => Object.fromEntries(inFlight),
  }
}

const hostOf = (req: http.IncomingMessage) =>
  (req.headers.host ?? '').replace(/:\d+$/, '').replace(/\.$/, '').toLowerCase()
const pathOf = (req: http.IncomingMessage) => req.url!.replace(/[?#].*$/s, '')
const isBelow = (path: string, prefix: string) =>
  path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)

function dial(target: Target): Promise<Socket | undefined> {
  return new Promise(resolve => {
    const socket = connect({ ...target, noDelay: true })
    socket.once('connect', () => {
      socket.off('error', failed)
      resolve(socket)
    })
    const failed = () => resolve(undefined)
    socket.once('error', failed)
  })
}
