// Health checks of applications whose answers never end.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { findAnnouncedPort, probe } from '../../src/agent/engines/local/health.ts'
import { describeMissingStore } from '../../src/agent/engines/local/missing-store.ts'
import { askToSleep } from '../../src/agent/engines/local/sleep-check.ts'
import { waitFor } from '../support/commands.ts'

const OK = 'HTTP/1.1 200 OK\r\n'
const sockets = new Set<Socket>()
let server: Server | undefined
afterEach(() => {
  for (const socket of sockets) socket.destroy()
  server?.close()
})

/** Answers a request with `beginning`, then sends `more` again and again. */
async function startApplication(beginning: string, more: string): Promise<number> {
  server = createServer(socket => {
    sockets.add(socket)
    const sending = setInterval(() => socket.write(more), 10)
    socket.on('error', () => {})
    socket.once('data', () => socket.write(beginning))
    socket.once('close', () => sockets.delete(socket) && clearInterval(sending))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

test('an answer whose body never ends is healthy, and its connection is closed', async () => {
  const port = await startApplication(`${OK}\r\n`, '')
  expect(await probe(port, '/', 300)).toMatchObject({ ok: true })
  await waitFor(() => sockets.size === 0)
})

test('an answer whose headers never end is unhealthy, and its connection is closed', async () => {
  const port = await startApplication(`${OK}X: `, 'x')
  expect(await probe(port, '/', 300)).toMatchObject({ ok: false })
  await waitFor(() => sockets.size === 0)
})

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'
test('an application that changes the protocol is unhealthy, does not sleep, and holds up nothing', async () => {
  const port = await startApplication(SWITCHED, '')
  expect(await probe(port, '/', 10_000)).toMatchObject({ ok: false })
  expect(await askToSleep([{ host: '127.0.0.1', port }], '/', 10_000)).toMatchObject({ may_sleep: false })
  await waitFor(() => sockets.size === 0)
})

describe('the port that a log names', () => {
  test.each([
    ['  ➜  Local:   http://localhost:\u001b[1m5173\u001b[22m/', 5173],
    ['INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)', 8000],
    ['Starting development server at http://127.0.0.1:8001/', 8001],
    ['[12:30:45.123] Server listening on port 3000', 3000],
    ['12:30:45 started in 4080 ms', undefined],
    ['listening on [::]:8080', 8080],
    ['connected to db at 10.0.0.1:5432', undefined],
  ])('is read from %j: %s', (line, port) => {
    expect(findAnnouncedPort(['hello', line, 'GET /'])).toBe(port)
  })
})

test.each([
  ['Error: connect ECONNREFUSED 127.0.0.1:6379', 'redis_memory_mb'],
  ['redis.exceptions.ConnectionError: Error 111 connecting to cache:1. Connection refused.', 'redis_memory_mb'],
  ['dial tcp [::1]:5432: connect: connection refused', 'db_max_connections'],
  ['could not connect to server: is the postgres server running?', 'db_max_connections'],
  ['Error: connect ECONNREFUSED 127.0.0.1:9000', undefined],
  ['redis is ready on 6379', undefined],
])('a log with %j names the member that starts what is missing: %s', (line, member) => {
  const hint = describeMissingStore(['starting', line, '    at TCPConnectWrap'])
  if (member) expect(hint).toContain(member)
  else expect(hint).toBeUndefined()
})
