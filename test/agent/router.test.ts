// The router forwards requests, streams, WebSockets and uploads. It retries only requests that were not sent.
import { once } from 'node:events'
import * as http from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createRouter } from '../../src/agent/engines/local/router.ts'
import { pointOf } from '../../src/agent/engines/local/sticky.ts'
import { silenceRejection, waitFor } from '../support/commands.ts'

const servers: Server[] = []
let router: ReturnType<typeof createRouter>
let port: number
let routerServer: http.Server

async function listen<S extends Server>(server: S, fixedPort = 0): Promise<number> {
  servers.push(server)
  server.listen(fixedPort, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
const serve = (handler: http.RequestListener) => listen(http.createServer(handler))
const target = (port: number) => ({ host: '127.0.0.1', port })
const routeTo = (...ports: number[]) => router.apply([{ host: 'app.localhost', path: '/', targets: ports.map(target) }])

beforeEach(async () => {
  router = createRouter()
  routerServer = router.server()
  port = await listen(routerServer)
})
afterEach(() => {
  for (const server of servers.splice(0)) {
    if (server instanceof http.Server) server.closeAllConnections()
    server.close()
  }
})

function send(options: http.RequestOptions & { body?: string } = {}) {
  const { body, headers, ...more } = options
  const request = http.request({ port, headers: { host: 'app.localhost', ...headers }, agent: false, ...more })
  request.end(body)
  return request
}
async function fetchAnswer(options: Parameters<typeof send>[0] = {}) {
  const [res] = (await once(send(options), 'response')) as [http.IncomingMessage]
  let body = ''
  for await (const chunk of res.setEncoding('utf8')) body += chunk
  return { status: res.statusCode, headers: res.headers, raw: res.rawHeaders, body }
}

test('a request arrives unchanged, with the router’s headers about the client', async () => {
  routeTo(
    await serve(async (req, res) => {
      let body = ''
      for await (const chunk of req.setEncoding('utf8')) body += chunk
      res.setHeader('Set-Cookie', ['a=1', 'b=2'])
      res.writeHead(418, 'Teapot').end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }))
    }),
  )
  const headers = { 'X-Own': 'yes', 'X-Forwarded-For': '6.6.6.6', Connection: 'keep-alive' }
  const answer = await fetchAnswer({ method: 'PUT', path: '/a%2Fb?c=d', body: 'hello', headers })
  const received = JSON.parse(answer.body)
  expect([answer.status, answer.headers['set-cookie']]).toEqual([418, ['a=1', 'b=2']])
  expect(received).toMatchObject({ method: 'PUT', url: '/a%2Fb?c=d', body: 'hello' })
  expect(received.headers).toMatchObject({ 'x-own': 'yes', host: 'app.localhost', 'x-forwarded-host': 'app.localhost' })
  expect(received.headers['x-forwarded-for']).toBe('127.0.0.1')
  for (const method of ['HEAD', 'DELETE']) expect((await fetchAnswer({ method })).status).toBe(418)
})

test('a port that stands for a host is that of its application, but not for a page of the web', async () => {
  const local = await listen(router.server())
  const own = await serve((_, res) => res.end('own'))
  router.apply([
    { host: 'app.localhost', path: '/', targets: [target(await serve((_, res) => res.end('other')))] },
    { host: 'own.localhost', path: '/', targets: [target(own)], port: local },
  ])
  for (const host of ['127.0.0.1', `localhost:${local}`, '[::1]:80', 'app.localhost', 'host.docker.internal'])
    expect((await fetchAnswer({ port: local, headers: { host } })).body, host).toBe('own')
  // Its name led to another address when the page was loaded.
  expect((await fetchAnswer({ port: local, headers: { host: 'rebound.example' } })).status).toBe(404)
  expect((await fetchAnswer()).body).toBe('other')
  expect((await fetchAnswer({ headers: { host: '127.0.0.1' } })).status).toBe(404)
})

test('its own path is answered by the router, whatever the host, and no other path', async () => {
  routeTo(await serve((_, res) => res.end('application')))
  router = createRouter({}, [], { path: '/own', answer: async query => query.get('domain') === 'app.localhost' })
  port = await listen(router.server())
  router.apply([])
  const statusOf = async (path: string, host = '127.0.0.1') => (await fetchAnswer({ path, headers: { host } })).status
  expect(await statusOf('/own?domain=app.localhost')).toBe(200)
  expect(await statusOf('/own?domain=other.localhost', 'app.localhost')).toBe(403)
  expect(await statusOf('/own/more')).toBe(404)
})

test('requests that do not wait for the answers before them are answered in their order', async () => {
  let open = 0
  let most = 0
  routeTo(
    await serve((req, res) => {
      most = Math.max(most, ++open)
      setImmediate(() => {
        open--
        res.end(`<${req.url}>`)
      })
    }),
  )
  const paths = Array.from({ length: 30 }, (_, i) => `/${i}`)
  const requests = paths.map(path => `GET ${path} HTTP/1.1\r\nHost: app.localhost\r\n\r\n`)
  const socket = connect(port, '127.0.0.1')
  socket.write(requests.join(''))
  let answers = ''
  socket.setEncoding('latin1').on('data', chunk => (answers += chunk))
  await waitFor(() => answers.includes('</29>'))
  expect(answers.match(/<[^>]+>/g)).toEqual(paths.map(path => `<${path}>`))
  expect(most).toBe(1)
  socket.destroy()
  // A client that goes away in between leaves nothing in flight.
  const gone = connect(port, '127.0.0.1')
  gone.write(requests.join(''))
  await once(gone, 'data')
  gone.destroy()
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('a handshake right behind another request ends the connection, and nothing else', async () => {
  routeTo(await serve((_, res) => setTimeout(() => res.end('late'), 50)))
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  const handshake = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA=='
  const request = 'GET / HTTP/1.1\r\nHost: app.localhost\r\n'
  socket.write(`${request}\r\n${request}${handshake}\r\n\r\n`)
  await once(socket.resume(), 'close')
  expect((await fetchAnswer()).body).toBe('late')
})

test('streamed bodies are forwarded chunk by chunk in both directions', async () => {
  const release = Promise.withResolvers<void>()
  routeTo(
    await serve(async (req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
      for await (const chunk of req) res.write(`data: ${chunk}\n\n`)
      await release.promise
      res.end('data: end\n\n')
    }),
  )
  const request = http.request({ port, method: 'POST', headers: { host: 'app.localhost' }, agent: false })
  request.write('first')
  const [res] = (await once(request, 'response')) as [http.IncomingMessage]
  let body = ''
  res.setEncoding('utf8').on('data', chunk => (body += chunk))
  await waitFor(() => body.includes('data: 1') && body.includes('first'))
  request.end('second')
  await waitFor(() => body.includes('second'))
  release.resolve()
  await once(res, 'end')
  expect(body.endsWith('data: end\n\n')).toBe(true)
})

test('a WebSocket is forwarded after its upgrade', async () => {
  const app = http.createServer()
  app.on('upgrade', (req, socket) => {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${req.headers.upgrade}\r\nConnection: Upgrade\r\n\r\n`)
    socket.on('data', chunk => socket.write(`echo ${chunk}`))
  })
  routeTo(await listen(app))
  const headers = { host: 'app.localhost', Connection: 'Upgrade', Upgrade: 'websocket' }
  const request = http.request({ port, headers, agent: false }).end()
  const [, socket] = (await once(request, 'upgrade')) as [unknown, Socket]
  socket.write('hello')
  expect(String((await once(socket, 'data'))[0])).toBe('echo hello')
  expect(Object.values(router.inFlight())).toEqual([1])
  socket.destroy()
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('an offer to upgrade to HTTP/2 is ignored, and the next request on the connection is routed anew', async () => {
  routeTo(await serve((_, res) => res.end('old')))
  const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n'
  const client = connect(port, '127.0.0.1').setEncoding('utf8')
  client.write(`GET / HTTP/1.1\r\nHost: app.localhost\r\n${offer}\r\n`)
  const read = (text: string) =>
    new Promise(resolve => client.on('data', chunk => chunk.includes(text) && resolve(text)))
  await read('old')
  routeTo(await serve((_, res) => res.end('new')))
  client.write('GET / HTTP/1.1\r\nHost: app.localhost\r\n\r\n')
  expect(await read('new')).toBe('new')
  client.destroy()
})

test('an upgrade arrives with the router’s headers about the client', async () => {
  const app = http.createServer()
  app.on('upgrade', (req, socket) => {
    const answerHeaders = `Connection: Upgrade\r\nUpgrade: websocket\r\nX-For: ${req.headers['x-forwarded-for']}`
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n${answerHeaders}\r\n\r\n`)
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
  ['an answer with several early hints', hints('</a.css>; rel=preload', '</b.js>; rel=preload') + OK, 200],
  ['an answer with an invalid early hint', hints('nonsense') + OK, 200],
  ['an answer with a control character in its reason', OK.replace('OK', 'O\x01K'), 502],
  ['an answer with a reason in Latin-1', OK.replace('OK', 'Caf\xe9'), 200],
  ['an answer with an invalid status', OK.replace('200', '099'), 502],
  ['an upgrade that the client did not request', 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n', 502],
])('%s does not stop the router', async (_, answer, status) => {
  routeTo(await listen(createServer(socket => socket.once('data', () => socket.write(answer, 'latin1')))))
  expect((await fetchAnswer()).status).toBe(status)
  routeTo(await serve((_, res) => res.end()))
  expect((await fetchAnswer()).status).toBe(200)
})

test('a replica that refuses connections is skipped, and a request waits while all replicas refuse them', async () => {
  const closedPort = await serve(() => {})
  await new Promise(resolve => servers.pop()!.close(resolve))
  const openPort = await serve((_, res) => res.end('alive'))
  routeTo(closedPort, openPort)
  const answers = await Promise.all(Array.from({ length: 10 }, () => fetchAnswer({ method: 'POST', body: 'x' })))
  expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['alive']))

  routeTo(closedPort)
  const waitingRequest = silenceRejection(fetchAnswer({ method: 'POST', body: 'later' }))
  let receivedBody = ''
  await listen(
    http.createServer(async (req, res) => {
      for await (const chunk of req) receivedBody += chunk
      res.end('served')
    }),
    closedPort,
  )
  expect([(await waitingRequest).body, receivedBody]).toEqual(['served', 'later'])
})

test('a request that was sent to a replica is not sent again', async () => {
  let connectionCount = 0
  const app = createServer(socket => {
    connectionCount++
    socket.once('data', () => socket.destroy())
  })
  routeTo(await listen(app))
  const { status, headers } = await fetchAnswer({ method: 'GET' })
  expect([status, headers['content-type'], connectionCount]).toEqual([502, 'application/problem+json', 1])
})

describe('a copy with a limit of requests', () => {
  async function startLimited(limit: number, limits: Parameters<typeof createRouter>[0] = {}) {
    router = createRouter(limits)
    port = await listen(router.server())
    const answers: http.ServerResponse[] = []
    let most = 0
    const copies = await Promise.all(
      [1, 2].map(() => {
        let open = 0
        return serve((_, res) => {
          most = Math.max(most, ++open)
          res.once('finish', () => open--)
          answers.push(res)
        })
      }),
    )
    const targets = copies.map(port => ({ ...target(port), limit }))
    router.apply([{ host: 'app.localhost', path: '/', targets, of: 'app', revision: '1' }])
    return { answers, readMost: () => most }
  }

  test('has no more at once, and the others wait in turn', async () => {
    const { answers, readMost } = await startLimited(2)
    const done: number[] = []
    const all = Array.from({ length: 12 }, async (_, i) => {
      const { status } = await fetchAnswer()
      done.push(i)
      return status
    })
    for (let i = 0; i < 12; i++) {
      await waitFor(() => answers.length > 0)
      answers.shift()!.end()
    }
    expect(new Set(await Promise.all(all))).toEqual(new Set([200]))
    expect(readMost()).toBe(2)
    expect(Object.keys(router.inFlight())).toEqual([])
  })

  test('refuses with 503 what would wait too long, or beside too many', async () => {
    const { answers } = await startLimited(1, { waiting: 1, wait_ms: 200 })
    const served = [fetchAnswer(), fetchAnswer()]
    await waitFor(() => answers.length === 2)
    const [late, crowded] = await Promise.all([fetchAnswer(), fetchAnswer()])
    for (const { status, headers } of [late, crowded]) expect([status, headers['retry-after']]).toEqual([503, '5'])
    expect(router.requestCounts().unreached).toEqual({ 'app/1': 2 })
    for (const res of answers) res.end()
    expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
    const next = fetchAnswer()
    await waitFor(() => answers.length === 3)
    answers.at(-1)!.end()
    expect((await next).status).toBe(200)
  })

  test('gives the place of a client that goes away while it waits to the next one', async () => {
    const { answers } = await startLimited(1)
    const served = [fetchAnswer(), fetchAnswer()]
    await waitFor(() => answers.length === 2)
    const gone = send()
    silenceRejection(once(gone, 'response'))
    await waitFor(() => router.loads().app!.in_flight === 3)
    const last = fetchAnswer()
    await waitFor(() => router.loads().app!.in_flight === 4)
    gone.destroy()
    let isOver = false
    const all = Promise.all([...served, last]).finally(() => (isOver = true))
    await waitFor(() => {
      for (const res of answers.splice(0)) res.end()
      return isOver
    })
    expect((await all).map(({ status }) => status)).toEqual([200, 200, 200])
  })
})

test('a revision that is stuck holds up no other one, and long queues leave places to others', async () => {
  router = createRouter({ waiting: 4, waiting_in_all: 4 })
  port = await listen(router.server())
  const answers: http.ServerResponse[] = []
  const make = async () => [{ ...target(await serve((_, res) => answers.push(res))), limit: 1 }]
  const stuck = [{ ...target(await serve(() => {})), limit: 1 }]
  const split = { revision: '2', targets: stuck, share: 50, sticky: { by: 'header' as const, header: 'x-key' } }
  router.apply([
    { host: 'app.localhost', path: '/', of: 'app', revision: '1', targets: await make(), split },
    { host: 'other.localhost', path: '/', of: 'other', targets: await make() },
  ])
  const keyOf = (isBeside: boolean) =>
    Array.from({ length: 99 }, (_, i) => String(i)).find(key => pointOf(key, '2') < 0.5 === isBeside)!
  const inFlight = (name: string, count: number) => waitFor(() => router.loads()[name]?.in_flight === count)
  const held = Array.from({ length: 5 }, () => send({ headers: { 'x-key': keyOf(true) } }))
  for (const request of held) silenceRejection(once(request, 'response'))
  await inFlight('app', 5)
  const hosts = ['app', 'app', 'other', 'other']
  const served = hosts.map(name => fetchAnswer({ headers: { host: `${name}.localhost`, 'x-key': keyOf(false) } }))
  await Promise.all([inFlight('app', 7), inFlight('other', 2)])
  for (const _ of hosts) {
    await waitFor(() => answers.length > 0)
    answers.shift()!.end()
  }
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
  for (const request of held) request.destroy()
  // Clients that are gone take no place in the queue.
  await inFlight('app', 0)
})

test('a copy that answers with 5xx again and again gets no more requests while another one answers', async () => {
  let bad = 0
  const failing = await serve((_, res) => {
    bad++
    res.writeHead(500).end()
  })
  routeTo(failing, await serve((_, res) => res.end('good')))
  for (let i = 0; i < 40; i++) await fetchAnswer()
  expect(bad).toBe(5)
})

describe('connections to a copy', () => {
  const readPort = async (options: Parameters<typeof send>[0] = {}) => (await fetchAnswer(options)).body

  test('are used again, one for each request in flight, and closed once the copy has no route', async () => {
    const open = new Set<Socket>()
    const release = Promise.withResolvers<void>()
    const app = http.createServer(async (req, res) => {
      if (req.url === '/slow') await release.promise
      req.resume().once('end', () => res.end(String(req.socket.remotePort)))
    })
    app.on('connection', socket => open.add(socket.once('close', () => open.delete(socket))))
    routeTo(await listen(app))
    const first = await readPort()
    for (const options of [{}, { method: 'OPTIONS' }, { path: '/other' }]) expect(await readPort(options)).toBe(first)
    for (const options of [{ method: 'POST', body: 'short' }, { method: 'DELETE' }])
      expect(await readPort(options)).not.toBe(first)
    expect(await readPort()).toBe(first)
    const slow = readPort({ path: '/slow' })
    await waitFor(() => Object.keys(router.inFlight()).length === 1)
    const second = await readPort()
    release.resolve()
    expect(new Set([first, second, await slow]).size).toBe(2)
    router.apply([])
    await waitFor(() => open.size === 0)
  })

  test('that end before an answer: only what is safe and has no body is sent again, on a new one', async () => {
    const received: string[] = []
    const app = http.createServer((req, res) => {
      received.push(`${req.method} ${req.url}`)
      const isLater = received.filter(line => line === received.at(-1)).length > 1
      if (req.url === '/cut' && !isLater) return void req.socket.destroy()
      res.end('answered')
    })
    routeTo(await listen(app))
    await fetchAnswer()
    expect((await fetchAnswer({ path: '/cut', method: 'POST', body: 'x' })).status).toBe(502)
    expect((await fetchAnswer({ path: '/cut' })).body).toBe('answered')
    expect(received.filter(line => line.endsWith('/cut'))).toEqual(['POST /cut', 'GET /cut', 'GET /cut'])
  })

  test('that the copy closes while they are idle are not used', async () => {
    const app = http.createServer((_, res) => res.end('answered'))
    routeTo(await listen(app))
    for (let i = 0; i < 20; i++) {
      expect((await fetchAnswer()).status).toBe(200)
      app.closeIdleConnections()
    }
  })
})

test('a broken answer closes the client’s connection, and a disconnected client ends its request', async () => {
  const answerClosed = Promise.withResolvers<void>()
  const appPort = await serve((req, res) => {
    res.write('half')
    if (req.url === '/break') setImmediate(() => res.destroy())
    res.once('close', answerClosed.resolve)
  })
  routeTo(appPort)
  await expect(fetchAnswer({ path: '/break' })).rejects.toThrow()
  const request = send()
  await once(request, 'response')
  request.destroy()
  await answerClosed.promise
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('an early answer to a long upload reaches the client', async () => {
  routeTo(await serve((_, res) => res.writeHead(413).end('too much')))
  const request = http.request({ port, method: 'POST', headers: { host: 'app.localhost' }, agent: false })
  request.on('error', () => {})
  request.write(Buffer.alloc(1e6))
  const [res] = (await once(request, 'response')) as [http.IncomingMessage]
  expect(res.statusCode).toBe(413)
  request.destroy()
})

async function sendGarbage() {
  const socket = connect(port, '127.0.0.1')
  socket.end('GARBAGE\r\n\r\n')
  await once(socket.resume(), 'close')
}

test('requests wait until the router has received its routes', async () => {
  const appPort = await serve((_, res) => res.end('here'))
  let waitingCount = 0
  routerServer.on('request', () => waitingCount++)
  let answerCount = 0
  const fetchCounted = (host: string) => fetchAnswer({ headers: { host } }).finally(() => answerCount++)
  const [routed, unrouted] = ['app.localhost', 'unknown.localhost'].map(fetchCounted)
  await waitFor(() => waitingCount === 2)
  // The router answers this one without routes, and after the requests above.
  await sendGarbage()
  expect(answerCount).toBe(0)
  routeTo(appPort)
  expect([(await routed!).body, (await unrouted!).status]).toEqual(['here', 404])
})

test('requests to a sleeper wake it, wait in bounded number and time, and are answered in the end', async () => {
  const woken: string[] = []
  router = createRouter({ held: 2, wake_ms: 300 }, [], undefined, undefined, id => woken.push(id))
  port = await listen(router.server())
  const asleep = { host: 'app.localhost', path: '/', targets: [], of: 'app', revision: '1', holds: true }
  router.apply([asleep])
  const first = [1, 2].map(() => fetchAnswer({ method: 'POST', body: 'x'.repeat(100_000) }))
  await waitFor(() => router.loads().app?.held)
  const refused = await fetchAnswer()
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5'])
  expect(router.waking()).toEqual(['app'])
  const own = await serve((req, res) => req.resume().once('end', () => res.end('awake')))
  router.apply([{ ...asleep, holds: false, targets: [target(own)] }])
  expect((await Promise.all(first)).map(({ body }) => body)).toEqual(['awake', 'awake'])
  router.apply([asleep])
  const late = await fetchAnswer()
  expect([late.status, late.headers['retry-after'], router.waking()]).toEqual([503, '5', []])
  // Each wait says so once.
  expect(woken).toEqual(['app', 'app'])
  expect(router.loads().app).toMatchObject({ requests: 2, in_flight: 0, held: false })
})

test('an unknown host is answered with 404, and a malformed request does not stop the router', async () => {
  routeTo(await serve((_, res) => res.end()))
  expect((await fetchAnswer({ headers: { host: 'unknown.localhost' } })).status).toBe(404)
  await sendGarbage()
  expect((await fetchAnswer()).status).toBe(200)
})

test('the time of the last request is recorded for each deployment until its route is removed', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const release = Promise.withResolvers<void>()
  const appPort = await serve(async (req, res) => {
    if (req.url === '/long') await release.promise
    res.end()
  })
  const route = (host: string, of: string) => ({ host, path: '/', targets: [target(appPort)], of })
  router.apply([route('app.localhost', 'one'), route('other.localhost', 'two')])
  expect(router.lastRequests()).toEqual({})
  await fetchAnswer({ headers: { host: 'unknown.localhost' } })
  await fetchAnswer()
  expect(router.lastRequests()).toEqual({ one: Date.now() })
  const longRequest = silenceRejection(fetchAnswer({ path: '/long' }))
  await waitFor(() => Object.keys(router.inFlight()).length === 1)
  // The end of a request counts, too.
  vi.setSystemTime(Date.now() + 60_000)
  release.resolve()
  await longRequest
  await waitFor(() => router.lastRequests().one === Date.now())
  router.apply([route('other.localhost', 'two')])
  expect(router.lastRequests()).toEqual({})
})

test('answers are counted once, by copy, status and the time until they begin', async () => {
  const release = Promise.withResolvers<void>()
  const hanging = Promise.withResolvers<void>()
  const application = http.createServer(async (req, res) => {
    if (req.url === '/hang') return hanging.resolve()
    if (req.url === '/cut') return void req.socket.destroy()
    res.writeHead(Number(req.url!.slice(1))).write('first')
    await release.promise
    res.end()
  })
  application.on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  })
  const copy = { ...target(await listen(application)), copy: '1' }
  const route = { host: 'app.localhost', path: '/', of: 'deployment', revision: 'revision' }
  router.apply([{ ...route, targets: [copy] }])
  const countedStatuses = () => router.requestCounts().copies['deployment/revision/1']?.statuses
  // Its answer has begun and goes on.
  const stream = send({ path: '/200' })
  await once(stream, 'response')
  expect(countedStatuses()).toEqual([0, 1, 0, 0, 0])
  release.resolve()
  for (const path of ['/302', '/404', '/cut']) await fetchAnswer({ path })
  const upgrade = send({ headers: { Connection: 'Upgrade', Upgrade: 'websocket' } })
  const [, socket] = (await once(upgrade, 'upgrade')) as [unknown, Socket]
  socket.destroy()
  const gone = send({ path: '/hang' })
  silenceRejection(once(gone, 'response'))
  await hanging.promise
  gone.destroy()
  await waitFor(() => countedStatuses()![3] === 2)
  const { copies, unreached } = router.requestCounts()
  const { statuses, latencies } = copies['deployment/revision/1']!
  // 101, 200, 302, 404, 502 of the router for the connection that was cut, and a client that did not wait.
  expect([statuses, unreached]).toEqual([[1, 1, 1, 2, 1], {}])
  expect(latencies.reduce((sum, count) => sum + count, 0)).toBe(6)
})

test('requests that no copy accepted are counted by revision, and counts end some time after the route', async () => {
  const closed = await listen(createServer())
  servers.pop()!.close()
  const route = { host: 'app.localhost', path: '/', of: 'deployment', revision: 'revision' }
  router.apply([{ ...route, targets: [{ ...target(closed), copy: '1' }] }])
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const answer = fetchAnswer()
  await waitFor(() => Object.keys(router.lastRequests()).length > 0)
  vi.setSystemTime(Date.now() + 11_000)
  expect((await answer).status).toBe(503)
  router.apply([])
  expect(router.requestCounts().unreached).toEqual({ 'deployment/revision': 1 })
  vi.setSystemTime(Date.now() + 301_000)
  expect(router.requestCounts()).toEqual({ copies: {}, unreached: {} })
})
