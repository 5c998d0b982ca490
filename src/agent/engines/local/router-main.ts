// The router as a process of its own, so that applications are reached while the agent is away; told what to do over a loopback port.
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { readJson, writeJson } from '../../files.ts'
import { identityOf } from '../../processes.ts'
import { createRouter, type Route } from './router.ts'

const [file = '', wanted = '0', attempt] = process.argv.slice(2)
type Kept = { token: string; attempt: string }
const { token } = readJson<Kept>(file)!
const router = createRouter()

async function listen(): Promise<number> {
  // Its old port first, so that addresses stay; then the next one that is free.
  for (let port = Number(wanted); ; port++) {
    const server = router.server().listen(port, '127.0.0.1')
    const bound = await once(server, 'listening').then(
      () => (server.address() as AddressInfo).port,
      () => 0,
    )
    if (!bound) continue
    // Browsers ask for names below localhost there first.
    router
      .server()
      .on('error', () => {})
      .listen(bound, '::1')
    return bound
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
if (readJson<Kept>(file)?.attempt !== attempt) process.exit(0)
writeJson(file, {
  token,
  attempt,
  port,
  control: (control.address() as AddressInfo).port,
  identity: identityOf(process.pid),
})
// Its folder was removed, or another router was started in it: nobody knows of this one any more.
setInterval(() => {
  if (readJson<Kept>(file)?.attempt !== attempt) process.exit(0)
}, 5_000)
