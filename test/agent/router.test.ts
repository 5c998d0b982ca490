// The router alone: streams, sockets, uploads and odd answers pass through; a request is sent again only while nothing of it was.
import { once } from 'node:events'
import * as http from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createRouter } from '../../src/agent/engines/local/router.ts'
import { silenceRejection, waitFor } from '../support/commands.ts'

const open: Server[] = []
let router: ReturnType<typeof createRouter>
let port: number

async function listen<S extends Server>(server: S, at = 0): Promise<number> {
  open.push(server)
  server.listen(at, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
const serve = (handler: http.RequestListener) => listen(http.createServer(handler))
const target = (port: number) => ({ host: '127.0.0.1', port })
const routeTo = (...ports: number[]) => router.apply([{ host: 'app.localhost', path: '/', targets: ports.map(target) }])

beforeEach(async () => {
  router = createRouter()
  port = await listen(router.server())
})
afterEach(() => {
  for (const server of open.splice(0)) {
    if (server instanceof http.Server) server.closeAllConnections()
    server.close()
  }
})

function send(options: http.RequestOptions & { body?: string } = {}) {
  const { body, headers, ...more } = options
  const asked = http.request({ port, headers: { host: 'app.localhost', ...headers }, agent: false, ...more })
  asked.end(body)
  return asked
}
async function answered(options: Parameters<typeof send>[0] = {}) {
  const [res] = (await once(send(options), 'response')) as [http.IncomingMessage]
  let body = ''
  for await (const chunk of res.setEncoding('utf8')) body += chunk
  return { status: res.statusCode, headers: res.headers, raw: res.rawHeaders, body }
}

test('a request arrives unchanged, with headers that name the client', async () => {
  routeTo(
    await serve(async (req, res) => {
      let body = ''
      for await (const chunk of req.setEncoding('utf8')) body += chunk
      res.setHeader('Set-Cookie', ['a=1', 'b=2'])
      res.writeHead(418, 'Teapot').end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }))
    }),
  )
  const headers = { 'X-Own': 'yes', 'X-Forwarded-For': '6.6.6.6', Connection: 'keep-alive' }
  const { status, headers: back, body } = await answered({ method: 'PUT', path: '/a%2Fb?c=d', body: 'hello', headers })
  const told = JSON.parse(body)
  expect([status, back['set-cookie']]).toEqual([418, ['a=1', 'b=2']])
  expect(told).toMatchObject({ method: 'PUT', url: '/a%2Fb?c=d', body: 'hello' })
  expect(told.headers).toMatchObject({ 'x-own': 'yes', host: 'app.localhost', 'x-forwarded-host': 'app.localhost' })
  expect(told.headers['x-forwarded-for']).toBe('127.0.0.1')
  for (const method of ['HEAD', 'DELETE']) expect((await answered({ method })).status).toBe(418)
})

test('streams are passed on chunk by chunk in both directions', async () => {
  const release = Promise.withResolvers<void>()
  routeTo(
    await serve(async (req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
      for await (const chunk of req) res.write(`data: ${chunk}\n\n`)
      await release.promise
      res.end('data: end\n\n')
    }),
  )
  const asked = http.request({ port, method: 'POST', headers: { host: 'app.localhost' }, agent: false })
  asked.write('first')
  const [res] = (await once(asked, 'response')) as [http.IncomingMessage]
  let body = ''
  res.setEncoding('utf8').on('data', chunk => (body += chunk))
  await waitFor(() => body.includes('data: 1') && body.includes('first'))
  asked.end('second')
  await waitFor(() => body.includes('second'))
  release.resolve()
  await once(res, 'end')
  expect(body.endsWith('data: end\n\n')).toBe(true)
})

test('a WebSocket is passed through after its upgrade', async () => {
  const app = http.createServer()
  app.on('upgrade', (req, socket) => {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${req.headers.upgrade}\r\nConnection: Upgrade\r\n\r\n`)
    socket.on('data', chunk => socket.write(`echo ${chunk}`))
  })
  routeTo(await listen(app))
  const headers = { host: 'app.localhost', Connection: 'Upgrade', Upgrade: 'websocket' }
  const asked = http.request({ port, headers, agent: false }).end()
  const [, socket] = (await once(asked, 'upgrade')) as [unknown, import('node:net').Socket]
  socket.write('hello')
  expect(String((await once(socket, 'data'))[0])).toBe('echo hello')
  expect(Object.values(router.inFlight())).toEqual([1])
  socket.destroy()
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('an offer of HTTP/2 is ignored, and the next request on the connection is routed by itself', async () => {
  routeTo(await serve((_, res) => res.end('old')))
  const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n'
  const client = connect(port, '127.0.0.1').setEncoding('utf8')
  client.write(`GET / HTTP/1.1\r\nHost: app.localhost\r\n${offer}\r\n`)
  const read = (text: string) => new Promise(seen => client.on('data', chunk => chunk.includes(text) && seen(text)))
  await read('old')
  routeTo(await serve((_, res) => res.end('new')))
  client.write('GET / HTTP/1.1\r\nHost: app.localhost\r\n\r\n')
  expect(await read('new')).toBe('new')
  client.destroy()
})

test('an upgrade also has the router’s headers that name the client', async () => {
  const app = http.createServer()
  app.on('upgrade', (req, socket) => {
    const said = `Connection: Upgrade\r\nUpgrade: websocket\r\nX-For: ${req.headers['x-forwarded-for']}`
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n${said}\r\n\r\n`)
  })
  routeTo(await listen(app))
  const headers = { Connection: 'Upgrade', Upgrade: 'websocket', 'X-Forwarded-For': '6.6.6.6' }
  const [res] = (await once(send({ headers }), 'upgrade')) as [http.IncomingMessage]
  expect(res.headers['x-for']).toBe('127.0.0.1')
})

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const hints = (...links: string[]) =>
  `HTTP/1.1 103 Early Hints\r\n${links.map(link => `Link: ${link}\r\n`).join('')}\r\n`
test.each([
  ['several hints', hints('</a.css>; rel=preload', '</b.js>; rel=preload') + OK, 200],
  ['a hint that is none', hints('nonsense') + OK, 200],
  ['a reason that is no text', OK.replace('OK', 'O\x01K'), 502],
  ['a status that is none', OK.replace('200', '099'), 502],
  ['an upgrade that nobody asked for', 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n', 502],
])('%s from one application ends nobody’s service', async (_, said, status) => {
  routeTo(await listen(createServer(socket => socket.once('data', () => socket.write(said, 'latin1')))))
  expect((await answered()).status).toBe(status)
  routeTo(await serve((_, res) => res.end()))
  expect((await answered()).status).toBe(200)
})

test('a replica that refuses connections is skipped, and a request waits while there is none', async () => {
  const dead = await serve(() => {})
  await new Promise(closed => open.pop()!.close(closed))
  const alive = await serve((_, res) => res.end('alive'))
  routeTo(dead, alive)
  const answers = await Promise.all(Array.from({ length: 10 }, () => answered({ method: 'POST', body: 'x' })))
  expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['alive']))

  routeTo(dead)
  const waiting = silenceRejection(answered({ method: 'POST', body: 'later' }))
  let got = ''
  await listen(
    http.createServer(async (req, res) => {
      for await (const chunk of req) got += chunk
      res.end('came')
    }),
    dead,
  )
  expect([(await waiting).body, got]).toEqual(['came', 'later'])
})

test('a request that was sent is not retried', async () => {
  let times = 0
  const app = createServer(socket => {
    times++
    socket.once('data', () => socket.destroy())
  })
  routeTo(await listen(app))
  const { status, headers } = await answered({ method: 'GET' })
  expect([status, headers['content-type'], times]).toEqual([502, 'application/problem+json', 1])
})

test('a broken answer ends the client’s connection, and a client that leaves ends the request', async () => {
  const left = Promise.withResolvers<void>()
  const at = await serve((req, res) => {
    res.write('half')
    if (req.url === '/break') setImmediate(() => res.destroy())
    res.once('close', left.resolve)
  })
  routeTo(at)
  await expect(answered({ path: '/break' })).rejects.toThrow()
  const asked = send()
  await once(asked, 'response')
  asked.destroy()
  await left.promise
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('an early answer to a long upload reaches the client', async () => {
  routeTo(await serve((_, res) => res.writeHead(413).end('too much')))
  const asked = http.request({ port, method: 'POST', headers: { host: 'app.localhost' }, agent: false })
  asked.on('error', () => {})
  asked.write(Buffer.alloc(1e6))
  const [res] = (await once(asked, 'response')) as [http.IncomingMessage]
  expect(res.statusCode).toBe(413)
  asked.destroy()
})

test('requests wait until the router has received its routes', async () => {
  const at = await serve((_, res) => res.end('here'))
  const [early, lost] = [answered(), answered({ headers: { host: 'nobody.localhost' } })]
  const first = await Promise.race([early, lost, new Promise(resolve => setTimeout(resolve, 100, 'nobody yet'))])
  expect(first).toBe('nobody yet')
  routeTo(at)
  expect([(await early).body, (await lost).status]).toEqual(['here', 404])
})

test('an unknown host is answered with 404, and malformed requests do no harm', async () => {
  routeTo(await serve((_, res) => res.end()))
  expect((await answered({ headers: { host: 'nobody.localhost' } })).status).toBe(404)
  const socket = connect(port, '127.0.0.1')
  socket.end('GARBAGE\r\n\r\n')
  await once(socket.resume(), 'close')
  expect((await answered()).status).toBe(200)
})

test('the last request of each deployment is recorded until its route is removed', async () => {
  const held = Promise.withResolvers<void>()
  const at = await serve(async (req, res) => {
    if (req.url === '/long') await held.promise
    res.end()
  })
  const route = (host: string, of: string) => ({ host, path: '/', targets: [target(at)], of })
  router.apply([route('app.localhost', 'one'), route('other.localhost', 'two')])
  expect(router.lastRequests()).toEqual({})
  await answered({ headers: { host: 'nobody.localhost' } })
  await answered()
  const { one: first } = router.lastRequests()
  expect(router.lastRequests()).toEqual({ one: expect.any(Number) })
  // Whoever is still being answered is using it.
  const long = silenceRejection(answered({ path: '/long' }))
  await waitFor(() => Object.keys(router.inFlight()).length === 1)
  await waitFor(() => Date.now() > first! + 20)
  held.resolve()
  await long
  await waitFor(() => router.lastRequests().one! > first! + 10)
  router.apply([route('other.localhost', 'two')])
  expect(router.lastRequests()).toEqual({})
})
