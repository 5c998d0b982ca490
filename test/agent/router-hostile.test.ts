// The router against hostile clients and applications that send arbitrary bytes.
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createRouter } from '../../src/agent/engines/local/router.ts'
import { RouterClient } from '../../src/agent/engines/local/router-client.ts'
import { waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const servers: Server[] = []
const sockets: Socket[] = []
let router: ReturnType<typeof createRouter>
let port: number
/** Every byte that the application received, and every request as Node parses it. */
let receivedBytes: string
let receivedRequests: http.IncomingMessage[]

async function listen<S extends Server>(server: S): Promise<number> {
  servers.push(server)
  server.on('connection', socket => void sockets.push(socket.on('error', () => {})))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}
const routeTo = (to: number) =>
  router.apply([{ host: 'app.localhost', path: '/', targets: [{ host: '127.0.0.1', port: to }], of: 'app' }])

/** Routes to an application that gives every request the same answer, upgrades included. */
async function startApplication(answer: (req: http.IncomingMessage) => string = () => OK) {
  const app = http.createServer((req, res) => {
    receivedRequests.push(req)
    req.resume()
    res.socket!.write(answer(req), 'latin1')
  })
  app.on('upgrade', (req, socket) => {
    receivedRequests.push(req)
    socket.write(answer(req), 'latin1')
  })
  app.on('connection', socket =>
    socket.prependListener('data', (chunk: Buffer) => (receivedBytes += chunk.toString('latin1'))),
  )
  routeTo(await listen(app))
}
/** Routes to an application that does not parse HTTP: it accepts all bytes. */
async function startRawApplication(answer: string) {
  routeTo(
    await listen(
      createServer(socket => {
        socket.on('data', chunk => (receivedBytes += chunk.toString('latin1')))
        socket.once('data', () => socket.write(answer, 'latin1'))
      }),
    ),
  )
}

async function startRouter(limits: Parameters<typeof createRouter>[0] = {}, proxies: string[] = []) {
  router = createRouter(limits, proxies)
  port = await listen(router.server())
}
beforeEach(() => {
  receivedBytes = ''
  receivedRequests = []
  return startRouter()
})
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

function openConnection() {
  const client = connect(port, '127.0.0.1').setEncoding('latin1')
  sockets.push(client.on('error', () => {}))
  let answer = ''
  client.on('data', chunk => (answer += chunk))
  return { client, readAnswer: () => answer, closed: once(client, 'close').then(() => answer) }
}
/** Returns everything that the router sends until it closes the connection. */
async function exchange(bytes: string): Promise<string> {
  const { client, closed } = openConnection()
  client.write(bytes, 'latin1')
  return closed
}

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'
const request = (headers: string, line = 'GET / HTTP/1.1') => `${line}\r\nHost: app.localhost\r\n${headers}\r\n`
const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: app.localhost\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'

describe('a connection becomes a tunnel only after the application has answered the upgrade with 101', () => {
  test.each([
    ['200', OK],
    ['404', 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'],
    [
      '426 that offers an upgrade',
      'HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n',
    ],
    [
      '200 that claims to upgrade',
      'HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nok',
    ],
    ['101 to another protocol', 'HTTP/1.1 101 Other\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n'],
    ['100 and then 200', `HTTP/1.1 100 Continue\r\n\r\n${OK}`],
  ])('after an answer of %s, no further bytes reach the application', async (_, answer) => {
    await startRawApplication(answer)
    const { client, readAnswer, closed } = openConnection()
    client.write(request(UPGRADE) + SMUGGLED)
    await waitFor(() => readAnswer().includes('\r\n\r\n'))
    client.write(SMUGGLED)
    await closed
    expect(receivedBytes.match(/ HTTP\/1\.1\r\n/g)).toHaveLength(1)
    expect(receivedBytes).not.toContain('smuggled')
    expect(readAnswer()).toMatch(/^HTTP\/1\.1 (200|404|426|502) .*\r\nConnection: close\r\n/s)
    await waitFor(() => Object.keys(router.inFlight()).length === 0)
  })

  test('bytes that the client sends before the answer arrive, and the tunnel works in both directions', async () => {
    const app = http.createServer()
    app.on('upgrade', (_, socket) => {
      socket.write('HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello')
      socket.on('data', chunk => {
        receivedBytes += chunk
        socket.write(chunk)
      })
    })
    routeTo(await listen(app))
    const { client, readAnswer, closed } = openConnection()
    client.write(`${request(UPGRADE)}early`)
    await waitFor(() => readAnswer().includes('helloearly'))
    client.write('late')
    await waitFor(() => readAnswer().endsWith('late'))
    client.end()
    await closed
    expect(receivedBytes).toBe('earlylate')
  })

  test.each([
    ['no Upgrade header', 'Connection: Upgrade\r\n'],
    ['no Connection header', 'Upgrade: websocket\r\n'],
    ['two protocols', 'Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n'],
    ['two Upgrade headers', 'Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n'],
    [
      'the protocol HTTP/2',
      'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n',
    ],
    ['the protocol TLS', 'Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n'],
    ['a body', `${UPGRADE}Content-Length: ${SMUGGLED.length}\r\n`],
    ['a chunked body', `${UPGRADE}Transfer-Encoding: chunked\r\n`],
  ])('an upgrade with %s is handled as an ordinary request', async (_, headers) => {
    await startApplication()
    const body = headers.includes('chunked') ? '0\r\n\r\n' : headers.includes('Length') ? SMUGGLED : ''
    const { client, readAnswer } = openConnection()
    client.write(request(headers) + body)
    await waitFor(() => readAnswer().includes('ok'))
    // The router still parses the connection: it routes the next request, with its own X-Forwarded-For.
    client.write(SMUGGLED)
    await waitFor(() => receivedRequests.length === 2)
    expect(receivedRequests.map(({ url }) => url)).toEqual(['/', '/smuggled'])
    expect(receivedRequests[0]!.headers.upgrade).toBeUndefined()
    expect(receivedRequests[0]!.headers['http2-settings']).toBeUndefined()
    expect(receivedRequests[1]!.headers['x-forwarded-for']).toBe('127.0.0.1')
  })

  test('after the connection preface of HTTP/2, bytes of HTTP/1.1 are no request', async () => {
    await startApplication()
    await exchange(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${SMUGGLED}`)
    expect(receivedRequests).toEqual([])
  })
})

/** Headers in which proxies name the client, its protocol or the original request. */
const FORWARDING_HEADERS = [
  'Forwarded',
  'X-Forwarded',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'X-Forwarded-Proto',
  'X-Forwarded-Port',
  'X-Forwarded-Prefix',
  'X-Forwarded-Server',
  'X-Forwarded-Scheme',
  'X-Forwarded-Ssl',
  'X-Forwarded-User',
  'X-Forwarded-Client-Cert',
  'X-Real-IP',
  'X-Client-IP',
  'Client-IP',
  'True-Client-IP',
  'CF-Connecting-IP',
  'CF-Connecting-IPv6',
  'Fastly-Client-IP',
  'X-Cluster-Client-IP',
  'X-Originating-IP',
  'X-Remote-IP',
  'X-Remote-Addr',
  'X-Original-URL',
  'X-Original-Host',
  'X-Original-Forwarded-For',
  'X-Rewrite-URL',
  'X-Host',
  'X-Scheme',
  'X-Url-Scheme',
  'Front-End-Https',
  'X-Envoy-External-Address',
  'Proxy',
]
const spellings = (name: string) => [name, name.toUpperCase(), name.replaceAll('-', '_'), name.replaceAll('-', '.')]
/** The name for programs that turn headers into environment variables, as CGI does. */
const canonicalName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '-')

test.each([
  ['a request', ''],
  ['an upgrade', UPGRADE],
])('%s reaches the application with only the router’s own headers about the client', async (_, more) => {
  await startApplication()
  const forged = FORWARDING_HEADERS.flatMap(spellings).map(name => `${name}: 6.6.6.6\r\n`)
  for (let i = 0; i < forged.length; i += 20)
    await exchange(request((more || 'Connection: close\r\n') + forged.slice(i, i + 20).join('')))
  expect(receivedRequests).toHaveLength(Math.ceil(forged.length / 20))
  const expectedHeaders = {
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-host': 'app.localhost',
    'x-forwarded-proto': 'http',
    'x-forwarded-port': String(port),
    'x-real-ip': '127.0.0.1',
    forwarded: 'for=127.0.0.1;host="app.localhost";proto=http',
  }
  const forwardingNames = new Set(FORWARDING_HEADERS.map(canonicalName))
  for (const { rawHeaders } of receivedRequests) {
    const names = rawHeaders.filter((_, i) => i % 2 === 0)
    const headers = names.map((name, i) => [canonicalName(name), rawHeaders[2 * i + 1]] as const)
    expect(rawHeaders).not.toContain('6.6.6.6')
    expect(Object.fromEntries(headers.filter(([name]) => forwardingNames.has(name)))).toEqual(expectedHeaders)
  }
})

describe('behind a proxy that the operator trusts', () => {
  beforeEach(() => startRouter({}, ['127.0.0.0/8', '10.0.0.0/8']))
  const BY_PROXY = {
    'X-Forwarded-For': '198.51.100.7, 10.0.0.2',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'shop.example.com',
  }
  const EXPECTED = {
    'x-forwarded-for': '198.51.100.7, 10.0.0.2, 127.0.0.1',
    'x-forwarded-host': 'shop.example.com',
    'x-forwarded-proto': 'https',
    'x-forwarded-port': '443',
    'x-real-ip': '198.51.100.7',
    forwarded: 'for=198.51.100.7;host="shop.example.com";proto=https',
  }
  /** The forwarding headers that the application gets, each name in one spelling and once. */
  async function readForwarded(headers: Record<string, string>, more = 'Connection: close\r\n') {
    await startApplication()
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    await exchange(request(more + lines.join('')))
    const { rawHeaders } = receivedRequests.at(-1)!
    const known = new Set(FORWARDING_HEADERS.map(canonicalName))
    const pairs = rawHeaders.flatMap((name, i) =>
      i % 2 === 0 && known.has(canonicalName(name)) ? [[canonicalName(name), rawHeaders[i + 1]!] as const] : [],
    )
    expect(new Set(pairs.map(([name]) => name)).size).toBe(pairs.length)
    return Object.fromEntries(pairs)
  }

  test.each([
    ['a request', 'Connection: close\r\n'],
    ['an upgrade', UPGRADE],
  ])('the application of %s is told the client, host and protocol that the proxy names', async (_, more) => {
    expect(await readForwarded(BY_PROXY, more)).toEqual(EXPECTED)
  })

  test.each<[string, Record<string, string>, Partial<typeof EXPECTED>]>([
    [
      'addresses that the client wrote itself are left out',
      { 'X-Forwarded-For': '6.6.6.6, 10.0.0.9, 198.51.100.7, 10.0.0.2' },
      EXPECTED,
    ],
    [
      'an entry that is not an address ends the list',
      { 'X-Forwarded-For': '198.51.100.7, unknown, 10.0.0.2' },
      {
        'x-forwarded-for': '10.0.0.2, 127.0.0.1',
        'x-real-ip': '10.0.0.2',
        forwarded: 'for=10.0.0.2;host="shop.example.com";proto=https',
      },
    ],
    [
      'an address of IPv6 is quoted where that is needed',
      { 'X-Forwarded-For': '2001:DB8::7' },
      {
        'x-forwarded-for': '2001:db8::7, 127.0.0.1',
        'x-real-ip': '2001:db8::7',
        forwarded: 'for="[2001:db8::7]";host="shop.example.com";proto=https',
      },
    ],
    [
      'an invalid protocol counts as none',
      { 'X-Forwarded-Proto': 'https;x' },
      { 'x-forwarded-proto': 'http', 'x-forwarded-port': 'own' },
    ],
    [
      'two protocols count as none',
      { 'X-Forwarded-Proto': 'https, http' },
      { 'x-forwarded-proto': 'http', 'x-forwarded-port': 'own' },
    ],
    ['an invalid host counts as none', { 'X-Forwarded-Host': 'a"; b' }, { 'x-forwarded-host': 'app.localhost' }],
    [
      'the port of the host counts',
      { 'X-Forwarded-Host': 'shop.example.com:8443' },
      { 'x-forwarded-host': 'shop.example.com:8443', 'x-forwarded-port': '8443' },
    ],
    ['a port counts', { 'X-Forwarded-Port': '8443' }, { 'x-forwarded-port': '8443' }],
    ['an invalid port counts as none', { 'X-Forwarded-Port': '1e3' }, { 'x-forwarded-port': '443' }],
    [
      'other spellings and other forwarding headers count for nothing',
      {
        X_Forwarded_For: '6.6.6.6',
        'X.Forwarded.Proto': 'ws',
        'X-Real-IP': '6.6.6.6',
        Forwarded: 'for=6.6.6.6',
        'X-Forwarded-User': 'root',
        'X-Forwarded-Prefix': '/x',
        'X-Original-URL': '/admin',
      },
      EXPECTED,
    ],
  ])('%s', async (_, headers, expected) => {
    const own = expected['x-forwarded-port'] === 'own' ? { 'x-forwarded-port': String(port) } : {}
    expect(await readForwarded({ ...BY_PROXY, ...headers })).toMatchObject({ ...expected, ...own })
  })

  test('a header that repeats is read as one list, so that its first copy does not win', async () => {
    const twice = 'Connection: close\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: http\r\n'
    expect(await readForwarded(BY_PROXY, twice)).toMatchObject({
      'x-real-ip': '198.51.100.7',
      'x-forwarded-proto': 'http',
    })
  })

  test('a request is routed by its Host, not by the host that the proxy names', async () => {
    await startApplication()
    const answer = await exchange(
      'GET / HTTP/1.1\r\nHost: unknown.localhost\r\nX-Forwarded-Host: app.localhost\r\nConnection: close\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 404 /)
    expect(receivedRequests).toEqual([])
  })

  test('the next request of a connection to the proxy can have another client', async () => {
    await startApplication()
    const { client, readAnswer } = openConnection()
    for (const [i, address] of ['198.51.100.7', '198.51.100.8'].entries()) {
      client.write(request(`X-Forwarded-For: ${address}\r\n`))
      await waitFor(() => readAnswer().match(/ok/g)?.length === i + 1)
    }
    expect(receivedRequests.map(({ headers }) => headers['x-real-ip'])).toEqual(['198.51.100.7', '198.51.100.8'])
  })
})

test.each([[[]], [['10.0.0.0/8', '::1']]])('a peer that is not one of the proxies %j is the client', async proxies => {
  await startRouter({}, proxies)
  await startApplication()
  await exchange(request('Connection: close\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n'))
  expect(receivedRequests[0]!.headers).toMatchObject({ 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http' })
})

test('headers named in Connection are removed, except framing headers, Host and X-Forwarded-For', async () => {
  await startApplication()
  const names = 'X-Own, Content-Length, Host, X-Forwarded-For, Transfer-Encoding, Upgrade'
  const headers = `Connection: close, ${names}\r\nX-Own: 1\r\nX_Own: 2\r\nKeep: me\r\nContent-Length: 4\r\n`
  await exchange(`${request(headers, 'POST / HTTP/1.1')}body`)
  expect(receivedRequests[0]!.headers).toMatchObject({ host: 'app.localhost', 'content-length': '4', keep: 'me' })
  expect(receivedRequests[0]!.headers['x-forwarded-for']).toBe('127.0.0.1')
  expect(receivedRequests[0]!.headers['x-own'] ?? receivedRequests[0]!.headers.x_own).toBeUndefined()
  expect(receivedBytes).not.toMatch(/^te:|^trailer:|content_length/im)
})

describe('an ambiguous or malformed message', () => {
  test.each([
    [
      'a Content-Length and chunks',
      `${request('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', 'POST / HTTP/1.1')}0\r\n\r\n${SMUGGLED}`,
    ],
    ['two Content-Length headers', request('Content-Length: 0\r\nContent-Length: 5\r\n', 'POST / HTTP/1.1') + SMUGGLED],
    ['a Content-Length that is not a number', request('Content-Length: +5\r\n', 'POST / HTTP/1.1') + SMUGGLED],
    [
      'a repeated chunked coding',
      `${request('Transfer-Encoding: chunked, chunked\r\n', 'POST / HTTP/1.1')}0\r\n\r\n${SMUGGLED}`,
    ],
    [
      'another coding before chunks',
      `${request('Transfer-Encoding: gzip, chunked\r\n', 'POST / HTTP/1.1')}0\r\n\r\n${SMUGGLED}`,
    ],
    ['an unknown coding', `${request('Transfer-Encoding: xchunked\r\n', 'POST / HTTP/1.1')}0\r\n\r\n${SMUGGLED}`],
    [
      'a space before the colon',
      `${request('Transfer-Encoding : chunked\r\n', 'POST / HTTP/1.1')}0\r\n\r\n${SMUGGLED}`,
    ],
    ['a folded header', request('X-A: b\r\n Transfer-Encoding: chunked\r\n', 'POST / HTTP/1.1') + SMUGGLED],
    ['a bare line feed', `GET / HTTP/1.1\nHost: app.localhost\n\n${SMUGGLED}`],
    ['two Host headers', request('Host: other.localhost\r\n')],
    ['an invalid Host header', 'GET / HTTP/1.1\r\nHost: app.localhost"; x\r\n\r\n'],
    ['no Host header', 'GET / HTTP/1.1\r\n\r\n'],
    ['the URL of another host', request('', 'GET http://other.localhost/ HTTP/1.1')],
    ['a target that is not a path', request('', 'GET app HTTP/1.1')],
    ['the method CONNECT', request('', 'CONNECT other:443 HTTP/1.1')],
    [
      'more headers than Node reads',
      `${request(`${'a:\r\n'.repeat(2500)}Content-Length: ${SMUGGLED.length}\r\n`)}${SMUGGLED}`,
    ],
    ['headers over the size limit', request(`a: ${'b'.repeat(20_000)}\r\n`)],
  ])('with %s is refused, and the application receives no request', async (_, bytes) => {
    await startApplication()
    const { client, readAnswer, closed } = openConnection()
    client.write(bytes, 'latin1')
    await closed
    expect(readAnswer()).toMatch(/^$|^HTTP\/1\.1 (400|404|431|501) /)
    expect(receivedRequests.map(({ url }) => url)).not.toContain('/smuggled')
    expect(receivedRequests).toEqual([])
  })

  test.each([
    ['two Content-Length headers', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok'],
    [
      'a Content-Length and chunks',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a carriage return in a header', 'HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok'],
    ['headers that never end', `HTTP/1.1 200 OK\r\n${`a: ${'b'.repeat(1000)}\r\n`.repeat(40)}`],
  ])('from the application, with %s, is replaced by a 502', async (_, answer) => {
    await startRawApplication(answer)
    const { client, readAnswer } = openConnection()
    client.write(request(''))
    await waitFor(() => readAnswer().includes('\r\n\r\n'))
    expect(readAnswer()).toMatch(/^HTTP\/1\.1 502 /)
    expect(readAnswer()).not.toMatch(/^set-cookie/im)
  })
})

test.each(['identity', 'chunked, identity', 'xchunked', 'gzip, chunked'])(
  'an answer with the transfer coding %s is sent in chunks by the router',
  async coding => {
    await startRawApplication(
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: ${coding}\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
    )
    const { client, readAnswer } = openConnection()
    client.write(request('Connection: close\r\n'))
    await waitFor(() => readAnswer().includes('ok'))
    expect(readAnswer().match(/^transfer-encoding: .*$/gim)).toEqual(['Transfer-Encoding: chunked'])
  },
)

test.each([
  ['refuses', '/refused'],
  ['accepts', '/accepted'],
])('a request in the body of another one, which the application %s unread, is answered to nobody', async (_, path) => {
  let arrived = () => {}
  const mine = new Promise<void>(resolve => (arrived = resolve))
  const app = createServer(socket => {
    let [received, before] = ['', Promise.resolve()]
    const answer = (path: string, status: string) =>
      socket.write(`HTTP/1.1 ${status}\r\nContent-Length: ${path.length}\r\n\r\n${path}`)
    socket.on('data', chunk => {
      received += chunk
      for (let end = received.indexOf('\r\n\r\n'); end >= 0; end = received.indexOf('\r\n\r\n')) {
        const path = received.split(' ')[1]!
        received = received.slice(end + 4)
        if (path === '/mine') arrived()
        before = before.then(async () => {
          if (path === '/hidden') await mine
          answer(path, path === '/refused' ? '401 Unauthorized' : '200 OK')
        })
      }
    })
  })
  routeTo(await listen(app))
  const ask = async (path: string, body = '') => {
    const headers = { host: 'app.localhost', 'content-length': String(body.length) }
    const request = http.request({ port, method: 'POST', path, headers, agent: false }).end(body)
    return text(((await once(request, 'response')) as [http.IncomingMessage])[0])
  }
  const get = async (path: string) => {
    const request = http.get({ port, path, headers: { host: 'app.localhost' }, agent: false })
    return text(((await once(request, 'response')) as [http.IncomingMessage])[0])
  }
  await get('/first')
  expect(await ask(path, 'GET /hidden HTTP/1.1\r\nHost: app.localhost\r\n\r\n')).toBe(path)
  expect(await get('/mine')).toBe('/mine')
})

test.each([
  ['GET', ''],
  ['POST', 'Content-Length: 4\r\n\r\nbody'],
  ['POST', 'Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n'],
])('answers to %s that are not the last one, and nobody has asked for, are no fault', async (method, body) => {
  const early = ['100 Continue', '102 Processing', '103 Early Hints\r\nLink: </a.css>; rel=preload']
  await startRawApplication(`${early.map(one => `HTTP/1.1 ${one}\r\n\r\n`).join('')}${OK}`)
  const { client, closed } = openConnection()
  client.write(`${method} / HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n${body || '\r\n'}`)
  const answer = await closed
  expect(answer).toMatch(/HTTP\/1\.1 200 OK\r\n[\s\S]*ok$/)
  expect(answer).not.toContain('502')
})

test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('a %s without a body has none at the application', async method => {
  await startRawApplication(OK)
  const { client, closed } = openConnection()
  client.write(request('Connection: close\r\n', `${method} / HTTP/1.1`))
  expect(await closed).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  // Many servers of WSGI and FastCGI refuse a body of unknown length.
  expect(receivedBytes).not.toMatch(/transfer-encoding/i)
  expect(receivedBytes).toMatch(/\r\n\r\n$/)
})

test('a limited number of early hints is passed on', async () => {
  await startRawApplication(`${'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n'.repeat(1000)}${OK}`)
  const answer = await exchange(request('Connection: close\r\n'))
  expect(answer.match(/ 103 /g)!.length).toBeLessThan(50)
  expect(answer).toMatch(/HTTP\/1\.1 200 OK\r\n[\s\S]*ok$/)
})

test('the router does not take a port that another program uses on IPv6', async ({ skip }) => {
  const otherProgram = createServer()
  servers.push(otherProgram)
  const takenPort = await once(otherProgram.listen(0, '::1'), 'listening').then(
    () => (otherProgram.address() as AddressInfo).port,
    () => undefined,
  )
  if (takenPort === undefined) return skip('this machine has no IPv6')
  const home = makeTempFolder()
  const client = new RouterClient(join(home, 'router.json'), takenPort)
  onTestFinished(async () => {
    await client.close()
    fs.rmSync(home, { recursive: true, force: true })
  })
  await client.open()
  expect(client.port).toBeGreaterThan(takenPort)
})

test.runIf(process.platform === 'linux')(
  'the router listens on loopback alone, or also on the address that the operator names',
  async () => {
    for (const [host, wanted] of [
      [undefined, ['127.0.0.1', '::1']],
      ['127.0.0.7', ['127.0.0.1', '127.0.0.7', '::1']],
      ['0.0.0.0', ['0.0.0.0', '::1']],
    ] as const) {
      const home = makeTempFolder()
      const client = new RouterClient(join(home, 'router.json'), 0, { host })
      onTestFinished(async () => {
        await client.close()
        fs.rmSync(home, { recursive: true, force: true })
      })
      await client.open()
      const hasIPv6 = listeningAddresses(client.port).includes('::1')
      expect(listeningAddresses(client.port)).toEqual(wanted.filter(address => hasIPv6 || address !== '::1'))
    }
  },
)

/** From the kernel's table of sockets, in which an address is hexadecimal, each group of four bytes reversed. */
function listeningAddresses(port: number): string[] {
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0')
  const lines = ['tcp', 'tcp6'].flatMap(name => fs.readFileSync(`/proc/net/${name}`, 'utf8').split('\n'))
  const LISTEN = '0A'
  return lines
    .flatMap(line => {
      const [, local = '', , state] = line.trim().split(/\s+/)
      const [address = '', at] = local.split(':')
      if (at !== hexPort || state !== LISTEN) return []
      if (address.length > 8) return address === '00000000000000000000000001000000' ? '::1' : address
      return [...Buffer.from(address, 'hex').reverse()].join('.')
    })
    .sort()
}

describe('a connection does not stay open while nothing is sent', () => {
  beforeEach(() => startRouter({ headers_ms: 300, body_ms: 300, answer_ms: 600, check_ms: 50 }))

  test.each([
    ['headers that never end', 'GET / HTTP/1.1\r\nHost: app.localhost\r\nX-Slow: '],
    ['a body that never arrives', request('Content-Length: 5\r\n', 'POST / HTTP/1.1')],
  ])('a request with %s is ended with 408', async (_, bytes) => {
    await startApplication(req => (req.method === 'POST' ? '' : OK))
    expect(await exchange(bytes)).toMatch(/^HTTP\/1\.1 408 /)
    await waitFor(() => Object.keys(router.inFlight()).length === 0)
  })

  test.each([
    ['a request', ''],
    ['an upgrade', UPGRADE],
  ])('%s that the application never answers is ended with 504', async (_, more) => {
    await startRawApplication('')
    const { client, readAnswer } = openConnection()
    client.write(request(more))
    await waitFor(() => readAnswer().includes('\r\n\r\n'))
    expect(readAnswer()).toMatch(/^HTTP\/1\.1 504 /)
    await waitFor(() => Object.keys(router.inFlight()).length === 0)
  })
})
