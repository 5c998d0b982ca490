// The server of `npm start` ends requests that arrive too slowly. The limits here are milliseconds.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { createHttpServer, type ServerLimits } from '../../src/host/http-server.ts'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

const UPLOAD = 'PUT /v2/uploads/one/two'
/** Answers the length of the body once it is whole. */
async function start(limits: Partial<ServerLimits>) {
  const fetch = async (request: Request) => new Response(String((await request.text()).length))
  server = createHttpServer(fetch, limits)
  await once(server.listen(0, '127.0.0.1'), 'listening')
}
/** Sends these pieces, one each time that so many milliseconds have passed, and then nothing. */
async function sent(pieces: string[], everyMs = 0): Promise<string> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let answer = ''
  socket.on('data', data => (answer += data))
  socket.on('error', () => {})
  // `once` would reject with a reset, which is an end like any other.
  const closed = new Promise(resolve => socket.once('close', resolve))
  const left = [...pieces]
  socket.write(left.shift()!)
  const timer = setInterval(() => {
    const piece = left.shift()
    if (piece !== undefined && socket.writable) socket.write(piece)
  }, everyMs)
  await closed
  clearInterval(timer)
  return answer
}
const head = (line: string, length: number) =>
  `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`

test.each([
  ['headers that never end', ['POST /v2/deployments HTTP/1.1\r\nHost: x\r\n']],
  ['a body that never ends', [head('POST /v2/deployments', 100), '{']],
  ['a body that trickles', [head('POST /v2/deployments', 100), ...Array<string>(90).fill('x')]],
])('%s: the request gets 408', async (_, pieces) => {
  await start({ requestMs: 100 })
  expect(await sent(pieces, 20)).toMatch(/^HTTP\/1\.1 408 /)
})

test('a slow body that no handler reads gets 408 too', async () => {
  await start({ requestMs: 100 })
  const pieces = [head('GET /v2/deployments', 100).replace('close', 'keep-alive'), ...Array<string>(90).fill('x')]
  expect(await sent(pieces, 20)).toMatch(/^HTTP\/1\.1 200 .*\r\n0$/s)
})

test('a body that arrives in time is answered, even if the response takes longer', async () => {
  await start({ requestMs: 200 })
  expect(await sent([head('POST /v2/deployments', 3), 'x', 'xx'], 10)).toMatch(/^HTTP\/1\.1 200 .*\r\n3$/s)
})

test('an archive may take longer than other requests if it does not pause', async () => {
  await start({ requestMs: 50, uploadPauseMs: 2000 })
  const pieces = Array<string>(20).fill('x')
  expect(await sent([head(UPLOAD, 20), ...pieces], 20)).toMatch(/^HTTP\/1\.1 200 .*\r\n20$/s)
})

test('an archive that pauses gets 408', async () => {
  await start({ uploadPauseMs: 100 })
  expect(await sent([head(UPLOAD, 20), 'x'])).toMatch(/^HTTP\/1\.1 408 /)
})

test('an archive that trickles gets 408 at the total limit', async () => {
  await start({ requestMs: 100, uploadMs: 200, uploadPauseMs: 2000 })
  expect(await sent([head(UPLOAD, 1000), ...Array<string>(900).fill('x')], 20)).toMatch(/^HTTP\/1\.1 408 /)
})
