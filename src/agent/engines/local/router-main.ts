// The router's process. It serves while the agent is down, and takes routes over a control port on loopback.
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { readJson, writeJson } from '../../system/files.ts'
import { identityOf } from '../../system/processes.ts'
import { createRouter, type Route } from './router.ts'

const [file = '', firstPort = '0', attempt] = process.argv.slice(2)
type RouterState = { token: string; attempt: string }
const { token } = readJson<RouterState>(file)!
const router = createRouter()

async function listen(): Promise<number> {
  // The previous port first, so that URLs stay valid, then the next free one.
  for (let port = Number(firstPort); ; port++) {
    const server = router.server()
    const bound = (await bind(server, port, '127.0.0.1')) && (server.address() as AddressInfo).port
    if (!bound) continue
    // Browsers try ::1 first for names below localhost, so no other program may listen there.
    if (await bind(router.server(), bound, '::1')) return bound
    server.close()
  }
}

/** True also on a machine without IPv6. */
async function bind(server: Server, port: number, host: string): Promise<boolean> {
  try {
    await once(server.listen(port, host), 'listening')
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return host === '::1' && code !== 'EADDRINUSE' && code !== 'EACCES'
  }
}

const control = http.createServer(async (req, res) => {
  const authorization = Buffer.from(req.headers.authorization ?? '')
  const expected = Buffer.from(`Bearer ${token}`)
  if (authorization.length !== expected.length || !timingSafeEqual(authorization, expected))
    return void res.writeHead(401).end()
  if (req.method === 'PUT') router.apply(JSON.parse(await text(req)) as Route[])
  if (req.method === 'DELETE') res.once('finish', () => process.exit(0))
  const answer = req.url === '/asked' ? router.lastRequests() : router.inFlight()
  res.setHeader('Connection', 'close').end(JSON.stringify(answer))
})

const port = await listen()
control.listen(0, '127.0.0.1')
await once(control, 'listening')
// The agent was killed during the start, and the next agent has started another router.
if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
writeJson(file, {
  token,
  attempt,
  port,
  control: (control.address() as AddressInfo).port,
  identity: identityOf(process.pid),
})
// The state file was removed, or another router has replaced this one.
setInterval(() => {
  if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
}, 5_000)
