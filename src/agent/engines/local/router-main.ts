// The router as a process of its own, so that applications are reached while the agent is away; told what to do over a loopback port.
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { readJson, writeJson } from '../../system/files.ts'
import { identityOf } from '../../system/processes.ts'
import { createRouter, type Route } from './router.ts'

const [file = '', wanted = '0', attempt] = process.argv.slice(2)
type RouterState = { token: string; attempt: string }
const { token } = readJson<RouterState>(file)!
const router = createRouter()

async function listen(): Promise<number> {
  // Its old port first, so that addresses stay; then the next one that is free.
  for (let port = Number(wanted); ; port++) {
    const server = router.server()
    const bound = (await bind(server, port, '127.0.0.1')) && (server.address() as AddressInfo).port
    if (!bound) continue
    // Browsers ask for names below localhost there first, so nobody else may have it.
    if (await bind(router.server(), bound, '::1')) return bound
    server.close()
  }
}

/** Whether nobody else has the port: also where there is no such address. */
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
  const given = Buffer.from(req.headers.authorization ?? '')
  const right = Buffer.from(`Bearer ${token}`)
  if (given.length !== right.length || !timingSafeEqual(given, right)) return void res.writeHead(401).end()
  if (req.method === 'PUT') router.apply(JSON.parse(await text(req)) as Route[])
  if (req.method === 'DELETE') res.once('finish', () => process.exit(0))
  const answer = req.url === '/asked' ? router.asked() : router.inFlight()
  res.setHeader('Connection', 'close').end(JSON.stringify(answer))
})

const port = await listen()
control.listen(0, '127.0.0.1')
await once(control, 'listening')
// Its agent was killed before it heard of us, and the next one has started another router.
if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
writeJson(file, {
  token,
  attempt,
  port,
  control: (control.address() as AddressInfo).port,
  identity: identityOf(process.pid),
})
// Its folder was removed, or another router was started in it: nobody knows of this one any more.
setInterval(() => {
  if (readJson<RouterState>(file)?.attempt !== attempt) process.exit(0)
}, 5_000)
