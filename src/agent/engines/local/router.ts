// The local router: finds the revision that serves a host and path, and passes requests, streams and sockets through.
import * as http from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export type Target = { host: string; port: number }
/** Where a deployment is served: a host, or null for any, and a path below which everything is its. `of` is what is noted as asked. */
export type Route = { host: string | null; path: string; targets: Target[]; of?: string }

/** A request waits so long for a copy that is just being started again. */
const PATIENCE_MS = 10_000
const PAUSE_MS = 25
const PER_HOP = new Set(
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade expect'.split(' '),
)

export const nameOf = ({ host, port }: Target) => `${host}:${port}`

export function createRouter() {
  /** Until it is told for the first time nobody knows who is served: everybody waits. */
  let routes: Route[] | undefined
  const inFlight = new Map<string, number>()
  /** When each was last asked, or was still answering. */
  const asked = new Map<string, number>()
  let turn = 0

  const note = ({ of }: Route) => of !== undefined && asked.set(of, Date.now())
  const find = (host: string, path: string) =>
    routes?.find(route => (route.host === null || route.host === host) && isBelow(path, route.path))

  /** Counted from when it is chosen: nothing is drained while a request is on its way to it. */
  function take(targets: Target[]): { target: Target; release: () => void } | undefined {
    const target = targets[turn++ % targets.length]
    if (!target) return undefined
    const name = nameOf(target)
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
    const deadline = Date.now() + PATIENCE_MS
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
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
  }

  async function onRequest(req: http.IncomingMessage, res: http.ServerResponse) {
    const host = hostOf(req)
    const reached = await reach(host, pathOf(req), () => res.destroyed)
    if (typeof reached === 'string') return void refuse(res, reached, host)
    const { socket, release } = reached
    res.once('close', release)
    const out = http.request({
      method: req.method!,
      path: req.url!,
      headers: [...forwarded(req, PER_HOP), 'Connection', 'keep-alive'],
      setHost: false,
      createConnection: () => socket,
    })
    out.on('error', () => {})
    // It may answer before it has read everything, and close; an answer that breaks off is seen below.
    out.once('close', () => {
      if (!res.headersSent) answer(res, 502, 'The application closed the connection without an answer.')
    })
    // What Node would not say itself is no reason to end, here where every deployment is served.
    out.on('information', ({ statusCode, headers, rawHeaders }) => {
      const link = pairs(rawHeaders).flatMap(([name, value]) => (name.toLowerCase() === 'link' ? [value] : []))
      if (statusCode === 103) unlessRefused(() => res.writeEarlyHints({ ...(headers as Record<string, string>), link }))
    })
    out.once('response', from => {
      const { statusCode, statusMessage, rawHeaders } = from
      const said = unlessRefused(() => res.writeHead(statusCode!, statusMessage, without(rawHeaders, PER_HOP)))
      if (!said) {
        answer(res, 502, 'The application’s answer is none that can be passed on.')
        return void out.destroy()
      }
      res.flushHeaders()
      from.once('error', () => res.destroy())
      from.once('aborted', () => res.destroy())
      from.pipe(res)
    })
    // Ours to close, once the answer is through: an application that closes first may cut off what it answered early.
    res.once('close', () => socket.destroy())
    req.pipe(out)
  }

  async function onUpgrade(req: http.IncomingMessage, client: Duplex, head: Buffer) {
    client.on('error', () => client.destroy())
    const reached = await reach(hostOf(req), pathOf(req), () => client.destroyed)
    if (typeof reached === 'string')
      return void client.end(`HTTP/1.1 ${reached === 'nowhere' ? '404 Not Found' : '503 Service Unavailable'}\r\n\r\n`)
    const { socket, release } = reached
    const lines = pairs(forwarded(req, NONE)).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`${req.method} ${req.url} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1')
    if (head.length) socket.write(head)
    socket.on('error', () => client.destroy())
    // Whoever ends it ends it for both: nobody goes on listening to half a conversation.
    const finish = () => client.end(() => client.destroy())
    socket.once('close', finish)
    client.once('end', finish)
    client.once('close', () => {
      release()
      socket.destroy()
    })
    socket.pipe(client).pipe(socket)
  }

  const server = () => {
    const made = http.createServer(
      // Whoever offers HTTP/2 is answered without it: each of its requests finds its own way.
      {
        requestTimeout: 0,
        keepAliveTimeout: 75_000,
        shouldUpgradeCallback: ({ headers }) => headers.upgrade !== 'h2c',
      },
      (req, res) => void onRequest(req, res),
    )
    made.on('upgrade', (req, socket, head) => void onUpgrade(req, socket, head))
    return made
  }

  return {
    server,
    /** From when it returns, every new request goes by these. */
    apply(wanted: Route[]) {
      // The longest path of a host that is named comes first.
      const weight = ({ host, path }: Route) => (host === null ? 0 : 1_000_000) + path.length
      routes = wanted.toSorted((a, b) => weight(b) - weight(a))
      const here = new Set(routes.map(({ of }) => of))
      for (const of of asked.keys()) if (!here.has(of)) asked.delete(of)
    },
    asked: () => Object.fromEntries(asked),
    inFlight: () => Object.fromEntries(inFlight),
  }
}

const NONE = new Set<string>()
const hostOf = (req: http.IncomingMessage) => (req.headers.host ?? '').replace(/:\d+$/, '').toLowerCase()
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

const pairs = (raw: string[]) => raw.flatMap((name, i) => (i % 2 ? [] : [[name, raw[i + 1]!] as const]))

const without = (raw: string[], names: Set<string>) =>
  pairs(raw)
    .filter(([name]) => !names.has(name.toLowerCase()))
    .flat()

/** What a client says of itself here cannot be told from what we say: ours stands. */
function forwarded(req: http.IncomingMessage, dropped: Set<string>): string[] {
  const ours = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']
  return [
    ...without(req.rawHeaders, new Set([...dropped, ...ours])),
    ...['X-Forwarded-For', req.socket.remoteAddress ?? '', 'X-Forwarded-Proto', 'http'],
    ...['X-Forwarded-Host', req.headers.host ?? ''],
  ]
}

function unlessRefused(say: () => void): boolean {
  try {
    say()
    return true
  } catch {
    return false
  }
}

function refuse(res: http.ServerResponse, why: 'nowhere' | 'nobody', host: string): void {
  if (why === 'nowhere') answer(res, 404, `No deployment is served at ${host.slice(0, 100)}.`)
  else {
    res.setHeader('Retry-After', '1')
    answer(res, 503, 'The deployment is there, and none of its copies takes a connection: see its log.')
  }
}

function answer(res: http.ServerResponse, status: number, detail: string): void {
  if (res.destroyed) return
  res.writeHead(status, http.STATUS_CODES[status], { 'Content-Type': 'application/problem+json' })
  res.end(JSON.stringify({ type: 'about:blank', status, title: http.STATUS_CODES[status], detail }))
}
