// The server of `npm start`, on each runtime, ends requests that arrive too slowly. The limits here are milliseconds.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { createHttpServer, loadSlices, type ServerLimits } from '../../src/host/http-server.ts'
import { jsonResponse } from '../../src/kernel/http/json-response.ts'

let server: Server
beforeAll(loadSlices)
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

const UPLOAD = 'PUT /v2/uploads/one/two'
/** Starts a server that answers the length of the body once it has read it. */
async function startServer(limits: Partial<ServerLimits>, answersAfterMs = 0) {
  const fetch = async ({ body }: Request) => {
    // Reads the stream, for which the server makes a `Request`.
    const { length } = await new Response(body).text()
    await delay(answersAfterMs)
    return new Response(String(length))
  }
  server = createHttpServer(fetch, limits)
  await once(server.listen(0, '127.0.0.1'), 'listening')
}
/** Sends the pieces one after another in this interval, then nothing, and returns all that the server sent. */
async function sendSlowly(pieces: string[], intervalMs = 0): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let answer = ''
  socket.on('data', data => (answer += data))
  socket.on('error', () => {})
  // `once` would reject if the connection is reset.
  const closed = new Promise(resolve => socket.once('close', resolve))
  const remaining = [...pieces]
  socket.write(remaining.shift()!)
  const timer = setInterval(() => {
    const piece = remaining.shift()
    if (piece !== undefined && socket.writable) socket.write(piece)
  }, intervalMs)
  await closed
  clearInterval(timer)
  return answer
}
/** Some runtimes send it as a chunk. */
const answerOf = (length: number) => new RegExp(`^HTTP/1\\.1 200 .*\\r\\n${length}(\\r\\n0\\r\\n\\r\\n)?$`, 's')
const head = (line: string, length: number) =>
  `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`

test.each([
  ['whose headers never end', ['POST /v2/deployments HTTP/1.1\r\nHost: x\r\n']],
  ['whose body never ends', [head('POST /v2/deployments', 100), '{']],
  ['whose body arrives too slowly', [head('POST /v2/deployments', 100), ...Array<string>(90).fill('x')]],
])('a request %s gets 408', async (_, pieces) => {
  await startServer({ requestMs: 100 })
  expect(await sendSlowly(pieces, 20)).toMatch(/^HTTP\/1\.1 408 /)
})

test('a connection with too many requests in progress is closed, and the rest of them is not served', async () => {
  let served = 0
  const fetch = () => {
    served++
    return new Promise<Response>(() => {})
  }
  server = createHttpServer(fetch, { inProgress: 5 })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  expect(await sendSlowly(['GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(500)])).toBe('')
  expect(served).toBe(5)
})

const KEPT = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
test.each([
  ['before its first request', []],
  ['after many requests', Array<string>(30).fill(KEPT)],
])('a connection is closed that sends anything but a request: %s', async (_, requests) => {
  await startServer({ idleMs: 1000 })
  const answers = await sendSlowly([...requests, ...Array<string>(2000).fill('\r\n')], 50)
  expect(answers.match(/HTTP\/1\.1 200 /g) ?? []).toHaveLength(requests.length)
})

test('a request whose many headers hide the length of its body is ended or refused', async () => {
  await startServer({ requestMs: 100 })
  const many = head('POST /v2/deployments', 100).replace('Host: x\r\n', `Host: x\r\n${'a:b\r\n'.repeat(1500)}`)
  expect(await sendSlowly([many, '{'])).toMatch(/^HTTP\/1\.1 (408|431) /)
})

test('a request whose slow body is not read is answered, and its connection is closed', async () => {
  await startServer({ requestMs: 100 })
  const pieces = [head('GET /v2/deployments', 100).replace('close', 'keep-alive'), ...Array<string>(90).fill('x')]
  expect(await sendSlowly(pieces, 20)).toMatch(answerOf(0))
})

test('a body that arrives in time is answered, even if the response takes longer', async () => {
  await startServer({ requestMs: 1000 }, 1500)
  expect(await sendSlowly([head('POST /v2/deployments', 3), 'x', 'xx'], 10)).toMatch(answerOf(3))
})

test('the upload of an archive may take longer than other requests if it does not pause', async () => {
  await startServer({ requestMs: 50, uploadPauseMs: 2000 })
  const pieces = Array<string>(20).fill('x')
  expect(await sendSlowly([head(UPLOAD, 20), ...pieces], 20)).toMatch(answerOf(20))
})

test('the upload of an archive that pauses for too long gets 408', async () => {
  await startServer({ uploadPauseMs: 100 })
  expect(await sendSlowly([head(UPLOAD, 20), 'x'])).toMatch(/^HTTP\/1\.1 408 /)
})

test('the upload of an archive that is too slow in total gets 408', async () => {
  await startServer({ requestMs: 100, uploadMs: 200, uploadPauseMs: 2000 })
  expect(await sendSlowly([head(UPLOAD, 1000), ...Array<string>(900).fill('x')], 20)).toMatch(/^HTTP\/1\.1 408 /)
})

test('a request whose URL has a user name is like one without', async () => {
  await startServer({})
  expect(await sendSlowly([`${head('POST http://a:b@x/sessions', 2)}{}`])).toMatch(/^HTTP\/1\.1 200 /)
})

test('until it is prepared, the server answers whether it is alive, and other requests wait', async () => {
  const prepared = Promise.withResolvers<void>()
  server = createHttpServer(
    () => new Response('served'),
    {},
    () => prepared.promise,
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const order: string[] = []
  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, init)
    order.push(path)
    return response.text()
  }
  const others = [ask('/readyz'), ask('/v2/deployments', { method: 'POST', body: '{}' })]
  expect(await ask('/healthz')).toBe('served')
  prepared.resolve()
  expect(await Promise.all(others)).toEqual(['served', 'served'])
  expect(order[0]).toBe('/healthz')
})

test('the headers of one response do not show in the next', async () => {
  const answer = (request: Request) => {
    const response = jsonResponse('{}')
    response.headers.append('Vary', 'Origin')
    response.headers.set('X-Path', new URL(request.url).pathname)
    return response
  }
  server = createHttpServer(answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  for (const path of ['/one', '/two', '/three']) {
    const { headers } = await fetch(`http://127.0.0.1:${port}${path}`)
    expect([headers.get('Vary'), headers.get('X-Path')]).toEqual(['Origin', path])
  }
  expect(jsonResponse('{}').headers.has('X-Path')).toBe(false)
})
