// The router's process. It serves while the agent is down, and takes routes over a control port on loopback.
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import * as http from 'node:http'
import { flushCompileCache } from 'node:module'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createCertificateGate, type Pauses } from '../../public-proxy/certificate-gate.ts'
import { findDirection, hasCertificate } from '../../public-proxy/host-probes.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { identityOf } from '../../system/processes.ts'
import type { RequestLines } from './request-log.ts'
import { createRouter, type Route } from './router.ts'
import { certificatePath, type RouterState } from './router-client.ts'

const [file = '', firstPort = '0', attempt] = process.argv.slice(2)
const { token, setup } = readJson<RouterState>(file)!
const { host: chosenHost, trusted_proxies, public_addresses } = setup!
/** A router that starts again, as after an upgrade, keeps the pauses. */
const pausesFile = join(dirname(file), 'certificate-pauses.json')
const gate = public_addresses
  ? createCertificateGate({
      isServed: name => !/(^|\.)localhost$/.test(name) && router.isServed(name),
      findDirection: name => findDirection(name, public_addresses),
      hasCertificate,
      pauses: readJson<Pauses>(pausesFile) ?? {},
      storePauses: pauses => writeJson(pausesFile, pauses),
    })
  : undefined
const router = createRouter(
  {},
  trusted_proxies,
  gate && {
    path: certificatePath(token),
    answer: query => gate.mayOrder(query.get('domain') ?? ''),
  },
  token,
  deployment => announce([deployment]),
  renewal => announce([JSON.stringify(renewal)]),
  sendRequestLines,
)
const MAX_UNREAD_BYTES = 4 * 1024 * 1024
/** Connections of agents, which never end while this process lives. */
const lives = new Set<http.ServerResponse>()
/** One line for each deployment that a request has to wake, and a JSON object for each grant to renew. */
function announce(lines: string[]): void {
  for (const life of lives) for (const line of lines) life.write(`${line}\n`)
}
/** To the newest agent alone: two would store each line twice. */
function sendRequestLines(lines: RequestLines[]): boolean {
  const life = [...lives].at(-1)
  if (!life || life.writableLength > MAX_UNREAD_BYTES) return false
  life.write(`${JSON.stringify(lines)}\n`)
  return true
}
/** The least time for requests in flight after another router has taken over. */
const HANDOVER_MS = 30_000

/** Loopback always. Browsers try ::1 first for names below localhost, so no other program may listen there. */
const hosts: string[] =
  chosenHost === '::'
    ? ['::']
    : [...new Set([chosenHost === '0.0.0.0' ? chosenHost : '127.0.0.1', '::1', chosenHost ?? '127.0.0.1'])]
let servers: http.Server[] = []

async function listen(): Promise<number> {
  // The previous port first, so that URLs stay valid, then the next free one.
  for (let first = Number(firstPort); ; first += first ? 1 : 0) {
    servers = hosts.map(() => router.server())
    let port: number | undefined = first
    for (const [at, host] of hosts.entries()) port = port === undefined ? port : await bind(servers[at]!, port, host)
    if (port !== undefined) return port
    for (const server of servers) server.close()
  }
}

/** The port, or undefined if it is taken. A machine without IPv6 has no ::1 to take. */
async function bind(server: http.Server, port: number, host: string): Promise<number | undefined> {
  try {
    await once(server.listen(port, host), 'listening')
    return (server.address() as AddressInfo).port
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE' || code === 'EACCES') return undefined
    if (host === '::1') return port
    // The chosen address does not exist on this machine.
    throw error
  }
}

/** The server of each port that stands for a host. */
const ports = new Map<number, http.Server>()

/** Returns those that another program has. */
async function listenOn(wanted: number[]): Promise<number[]> {
  for (const [port, server] of ports)
    if (!wanted.includes(port)) {
      server.close()
      server.closeIdleConnections()
      ports.delete(port)
    }
  const taken: number[] = []
  for (const port of wanted) {
    if (ports.has(port)) continue
    const server = router.server()
    if ((await bind(server, port, '127.0.0.1')) === undefined) taken.push(port)
    else ports.set(port, server)
  }
  return taken
}

// The state file was removed, or another router has replaced this one.
const replacementCheck = setInterval(() => {
  if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
}, 5_000)

const control = http.createServer(async (req, res) => {
  const authorization = Buffer.from(req.headers.authorization ?? '')
  const expected = Buffer.from(`Bearer ${token}`)
  if (authorization.length !== expected.length || !timingSafeEqual(authorization, expected))
    return void res.writeHead(401).end()
  // Stays open as long as this process lives: its end tells the agent that the router is gone.
  if (req.url === '/life') {
    res.writeHead(200).flushHeaders()
    lives.add(res)
    res.once('close', () => lives.delete(res))
    announce(router.waking())
    return router.sendWaitingLines()
  }
  if (req.method === 'PUT') {
    const routes = JSON.parse(await text(req)) as Route[]
    router.apply(routes)
    gate?.forgetUnserved()
    const taken = await listenOn(routes.flatMap(({ port }) => port ?? []))
    return void res.setHeader('Connection', 'close').end(JSON.stringify(taken))
  }
  if (req.method === 'POST') {
    const { isRenewed, ...renewal } = JSON.parse(await text(req)) as { renewal: string; isRenewed: boolean }
    router.answerRenewal(renewal, isRenewed)
  }
  if (req.method === 'DELETE') handOver()
  const answers: Record<string, () => object> = {
    '/asked': router.lastRequests,
    '/counts': router.requestCounts,
    '/certificates': () => gate?.certificates() ?? {},
    '/loads': router.loads,
  }
  const [path, split] = req.url!.split('?split=')
  const answer = split ? router.splitCounts(split) : (answers[path!] ?? router.inFlight)()
  res.setHeader('Connection', 'close').end(JSON.stringify(answer))
})

/** Frees the port at once, and ends when the requests in flight are answered. */
function handOver(): void {
  clearInterval(replacementCheck)
  const closing = [...servers, ...ports.values()].filter(server => server.listening)
  for (const server of closing) server.close()
  setInterval(() => {
    for (const server of closing) server.closeIdleConnections()
    if (Object.keys(router.inFlight()).length === 0) process.exit(0)
  }, 100)
  setTimeout(() => process.exit(0), Math.max(HANDOVER_MS, router.drainMs()))
}

const port = await listen()
control.listen(0, '127.0.0.1')
await once(control, 'listening')
// The agent was killed during the start, and the next agent has started another router.
if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
writeJson(file, {
  token,
  attempt,
  setup,
  port,
  control: (control.address() as AddressInfo).port,
  identity: identityOf(process.pid),
} satisfies RouterState)
// So that the next router starts faster.
flushCompileCache()
