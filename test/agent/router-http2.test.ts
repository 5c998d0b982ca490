// HTTP/2 without TLS through the router: gRPC with trailers and streams, and clients of HTTP/1.1.
import { once } from 'node:events'
import * as http from 'node:http'
import * as http2 from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createRouter } from '../../src/agent/engines/local/router.ts'
import { waitFor } from '../support/commands.ts'

const servers: Server[] = []
const sockets: Socket[] = []
let router: ReturnType<typeof createRouter>
let port: number

async function listen(server: Server): Promise<number> {
  servers.push(server)
  server.on('connection', socket => sockets.push(socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}
beforeEach(async () => {
  router = createRouter()
  port = await listen(router.server())
})
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

type Serve = (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void
async function routeToH2c(serve: Serve): Promise<void> {
  const server = http2.createServer()
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    serve(stream, headers)
  })
  const target = { host: '127.0.0.1', port: await listen(server), h2c: true as const }
  router.apply([{ host: 'app.localhost', path: '/', targets: [target], of: 'app', revision: '1' }])
}
function openSession(): http2.ClientHttp2Session {
  const session = http2.connect(`http://app.localhost:${port}`, { lookup: (_, __, done) => done(null, [LOOPBACK]) })
  onTestFinished(() => session.destroy())
  return session.on('error', () => {})
}
const LOOPBACK = { address: '127.0.0.1', family: 4 }
const GRPC = { ':method': 'POST', ':path': '/shop.Orders/Place', 'content-type': 'application/grpc', te: 'trailers' }

const untilClosed = (call: http2.ClientHttp2Stream) =>
  new Promise<void>(resolve => call.on('error', () => {}).once('close', resolve))

/** Echoes each message, and ends with the status of gRPC. */
const echo: Serve = (stream, headers) => {
  stream.respond({ ':status': 200, 'x-te': headers.te as string }, { waitForTrailers: true })
  stream.on('data', chunk => stream.write(`<${chunk}>`))
  stream.once('end', () => stream.end())
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'x-authority': headers[':authority']! }))
}

test('messages of a stream pass in both directions as they come, and the trailers after them', async () => {
  await routeToH2c(echo)
  const call = openSession().request(GRPC)
  const trailers = once(call, 'trailers')
  let received = ''
  call.setEncoding('utf8').on('data', chunk => (received += chunk))
  for (const message of ['one', 'two']) {
    call.write(message)
    await waitFor(() => received.endsWith(`<${message}>`))
  }
  call.end()
  const [{ 'grpc-status': status, 'x-authority': authority }] = await trailers
  expect([received, status, authority]).toEqual(['<one><two>', '0', `app.localhost:${port}`])
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
  expect(router.requestCounts().unreached).toEqual({})
})

test('an answer of trailers alone passes, and what either side cancels ends at the other one', async () => {
  const ended: number[] = []
  await routeToH2c((stream, { ':path': path }) => {
    stream.once('close', () => ended.push(stream.rstCode))
    if (path === '/alone') return stream.respond({ ':status': 200, 'grpc-status': '5' }, { endStream: true })
    stream.respond({ ':status': 200 })
    stream.write('begun')
    stream.once('data', () => stream.close(http2.constants.NGHTTP2_REFUSED_STREAM))
  })
  const session = openSession()
  const [alone] = await once(session.request({ ...GRPC, ':path': '/alone' }).resume(), 'response')
  expect(alone['grpc-status']).toBe('5')
  const cut = session.request(GRPC)
  cut.once('data', () => cut.write('cut me'))
  await untilClosed(cut)
  expect(cut.rstCode).toBe(http2.constants.NGHTTP2_REFUSED_STREAM)
  const gone = session.request(GRPC)
  await once(gone, 'data')
  gone.close(http2.constants.NGHTTP2_CANCEL)
  await waitFor(() => ended.includes(http2.constants.NGHTTP2_CANCEL))
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

/** A frame of HTTP/2 as an application of its own making may send it. */
function frame(type: number, flags: number, stream: number, body: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(body.length, 0, 3)
  head.set([type, flags], 3)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, body])
}

test('a status that no answer may have neither ends the router nor looks like an answer', async () => {
  const settings = frame(4, 0, 0, Buffer.alloc(0))
  const status = Buffer.from('\x08\x03999', 'latin1')
  const app = createServer(socket => {
    let received = 0
    socket.on('error', () => {}).write(settings)
    socket.on('data', chunk => {
      const before = received
      received += chunk.length
      // After the preface and the settings of the router, the frames of a request are long.
      if (before < 100 && received >= 100) socket.write(frame(1, 5, 1, status))
    })
  })
  const target = { host: '127.0.0.1', port: await listen(app), h2c: true as const }
  router.apply([{ host: 'app.localhost', path: '/', targets: [target], of: 'app', revision: '1' }])
  const call = openSession().request({ ':path': '/' }).resume()
  const closed = untilClosed(call)
  const [answer] = await once(call, 'response')
  await closed
  expect([answer[':status'], call.rstCode]).toEqual([502, http2.constants.NGHTTP2_NO_ERROR])
})

test('clients of HTTP/1.1 reach it, with short and with long bodies', async () => {
  await routeToH2c((stream, headers) => {
    stream.respond({ ':status': 201, 'set-cookie': ['a=1', 'b=2'], 'x-for': headers['x-forwarded-for'] as string })
    stream.pipe(stream)
  })
  for (const body of ['', 'short', 'x'.repeat(200_000)]) {
    const request = http.request({ port, method: 'POST', headers: { host: 'app.localhost' }, agent: false }).end(body)
    const [res] = (await once(request, 'response')) as [http.IncomingMessage]
    expect([res.statusCode, res.headers['set-cookie'], res.headers['x-for']]).toEqual([
      201,
      ['a=1', 'b=2'],
      '127.0.0.1',
    ])
    expect(await text(res)).toBe(body)
  }
})

test('a copy gets no more streams in a session than it takes, and another session for the others', async () => {
  let [most, sessions] = [0, 0]
  const app = http2.createServer({ settings: { maxConcurrentStreams: 2 } })
  app.on('session', session => {
    sessions++
    let open = 0
    session.on('stream', stream => {
      most = Math.max(most, ++open)
      stream.on('error', () => {})
      stream.respond({ ':status': 200 })
      stream.write('held')
    })
  })
  const target = { host: '127.0.0.1', port: await listen(app), h2c: true as const }
  router.apply([{ host: 'app.localhost', path: '/', targets: [target], of: 'app', revision: '1' }])
  const session = openSession()
  await Promise.all(Array.from({ length: 5 }, () => once(session.request({ ':path': '/' }), 'data')))
  expect([most, sessions]).toEqual([2, 3])
})

test('a copy that speaks HTTP/1.1 gets no HTTP/2, and what is not served is answered', async () => {
  let requests = 0
  const app = await listen(http.createServer(() => requests++))
  router.apply([{ host: 'app.localhost', path: '/', targets: [{ host: '127.0.0.1', port: app }] }])
  const session = openSession()
  const call = session.request(GRPC)
  await untilClosed(call)
  expect([call.rstCode, requests]).toEqual([http2.constants.NGHTTP2_HTTP_1_1_REQUIRED, 0])
  const unknown = session.request({ ...GRPC, ':authority': 'unknown.localhost' })
  const [answer] = await once(unknown, 'response')
  expect(answer[':status']).toBe(404)
  await waitFor(() => Object.keys(router.inFlight()).length === 0)
})

test('a session without requests ends after a while, and all are told when the server closes', async () => {
  router = createRouter({ idle_ms: 300 })
  const server = router.server()
  port = await listen(server)
  const finish = Promise.withResolvers<void>()
  await routeToH2c(async stream => {
    stream.respond({ ':status': 200 })
    stream.write('begun ')
    await finish.promise
    stream.end('over')
  })
  const [idle, busy] = [openSession(), openSession()]
  const call = busy.request({ ':path': '/' })
  let received = ''
  call.setEncoding('utf8').on('data', chunk => (received += chunk))
  await Promise.all([once(idle, 'close'), waitFor(() => received !== '')])
  expect(busy.closed).toBe(false)
  const told = once(busy, 'goaway')
  server.close()
  await told
  finish.resolve()
  await untilClosed(call)
  expect([received, call.rstCode]).toEqual(['begun over', http2.constants.NGHTTP2_NO_ERROR])
})

test('an upload that the copy does not read waits at its client', async () => {
  await routeToH2c((stream, { ':path': path }) => {
    if (path === '/unread') return void stream.pause()
    stream.respond({ ':status': 200 })
    stream.end()
  })
  const session = openSession()
  const upload = session.request({ ':method': 'POST', ':path': '/unread' }).on('error', () => {})
  for (let i = 0; i < 200; i++) upload.write(Buffer.alloc(64_000))
  for (let i = 0; i < 400; i++) await untilClosed(session.request({ ':path': '/' }).resume())
  expect(upload.writableLength).toBeGreaterThan(6_000_000)
})
