// The router makes lines of requests, with the trace context that the application gets.
import { once } from 'node:events'
import * as http from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { RequestLine, RequestLines } from '../../src/agent/engines/local/request-log.ts'
import { createRouter, type Route } from '../../src/agent/engines/local/router.ts'
import { DEFAULT_REQUEST_LOGS } from '../../src/protocol/defaults.ts'
import type { RequestLogs } from '../../src/protocol/request-logs.schema.ts'

const servers: http.Server[] = []
async function listen(server: http.Server): Promise<number> {
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function startRouter(handler: http.RequestListener, logs: Partial<RequestLogs> = {}) {
  const sent: RequestLines[] = []
  const state = { isTaken: true }
  const send = (lines: RequestLines[]) => state.isTaken && sent.push(...lines) > 0
  const router = createRouter({}, ['127.0.0.1'], undefined, undefined, undefined, undefined, send)
  const port = await listen(router.server())
  const targets = [{ host: '127.0.0.1', port: await listen(http.createServer(handler)), copy: '2' }]
  const route: Route = {
    ...{ host: 'app.localhost', path: '/', targets, of: 'd', revision: 'r' },
    logs: { ...DEFAULT_REQUEST_LOGS, mode: 'all', ...logs },
  }
  router.apply([route])
  const lines = (): RequestLine[] => {
    router.sendWaitingLines()
    return sent.splice(0).flatMap(one => one.lines)
  }
  return { router, port, route, state, lines, sent }
}

async function ask(port: number, path: string, options: http.RequestOptions & { body?: string } = {}) {
  const { body, headers, ...more } = options
  const req = http.request({ port, path, headers: { host: 'app.localhost', ...headers }, agent: false, ...more })
  const [res] = (await once(req.end(body), 'response')) as [http.IncomingMessage]
  let text = ''
  for await (const chunk of res.setEncoding('utf8')) text += chunk
  await new Promise(setImmediate)
  return { status: res.statusCode, text }
}
const untilLine = async (lines: () => RequestLine[]) => {
  for (;;) {
    const found = lines()
    if (found.length > 0) return found
    await new Promise(setImmediate)
  }
}

test('a request is a line without its query, with the ids that the application gets', async () => {
  const { port, lines } = await startRouter(({ headers }, res) => res.end(JSON.stringify(headers)))
  const headers = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'x-forwarded-for': '203.0.113.9',
    'user-agent': 'x'.repeat(1_000),
    trace_state: 'kept',
  }
  const { text } = await ask(port, '/cart?token=secret', { method: 'POST', body: 'hello', headers })
  const received = JSON.parse(text)
  const [line] = await untilLine(lines)
  expect(received.traceparent).toBe(headers.traceparent)
  expect(line).toMatchObject({
    level: 'INFO',
    attributes: {
      ...{ method: 'POST', host: 'app.localhost', path: '/cart', status: 200, copy: '2' },
      ...{ client: '203.0.113.0', user_agent: 'x'.repeat(150), bytes_in: 5 },
      ...{ trace_id: '0af7651916cd43dd8448eb211c80319c', request_id: received['x-request-id'] },
    },
  })
  expect(JSON.stringify(line)).not.toContain('secret')
  expect(line!.attributes.bytes_out).toBeGreaterThan(text.length)
  for (const name of ['duration_ms', 'first_byte_ms', 'wait_ms'])
    expect(line!.attributes[name]).toBeGreaterThanOrEqual(0)
})

test('failed and slow requests are lines of their own mode, and none is with `off`', async () => {
  const { port, router, route, lines } = await startRouter(
    (req, res) => (req.url === '/bad' ? res.writeHead(500).end() : res.end()),
    { mode: 'errors', slow_ms: 60_000 },
  )
  await ask(port, '/fine')
  await ask(port, '/bad')
  const failed = await untilLine(lines)
  expect(failed.map(({ level, attributes: { path, status } }) => [level, path, status])).toEqual([
    ['ERROR', '/bad', 500],
  ])
  router.apply([{ ...route, targets: [], holds: false, logs: { ...route.logs!, mode: 'off' } }])
  const socket = connect(port, '127.0.0.1').end('GET /off HTTP/1.1\r\nHost: app.localhost\r\n\r\n')
  await once(socket.resume(), 'close')
  expect(lines()).toEqual([])
})

test('a WebSocket and a client that leaves are lines with 101 and 499', async () => {
  const { port, lines, router } = await startRouter((req, res) => {
    if (req.url !== '/never') res.end()
  })
  const leaving = connect(port, '127.0.0.1')
  leaving.write('GET /never HTTP/1.1\r\nHost: app.localhost\r\n\r\n')
  while (Object.keys(router.inFlight()).length === 0) await new Promise(setImmediate)
  leaving.destroy()
  const [gone] = await untilLine(lines)
  expect(gone).toMatchObject({ level: 'WARNING', attributes: { path: '/never', status: 499 } })

  const [, application] = servers
  application!.on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.end()
  })
  const handshake = 'GET /ws HTTP/1.1\r\nHost: app.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const tunnel = connect(port, '127.0.0.1')
  tunnel.write(handshake)
  await once(tunnel.resume(), 'close')
  const [opened] = await untilLine(lines)
  expect(opened).toMatchObject({ level: 'INFO', attributes: { path: '/ws', status: 101 } })
})

test('lines wait for an agent, within a bound, and what was left out is counted', async () => {
  const { port, lines, state } = await startRouter((_, res) => res.end(), { mode: 'sampled', rate: 1 })
  state.isTaken = false
  for (let i = 0; i < 40; i++) await ask(port, `/${i}`)
  expect(lines()).toEqual([])
  state.isTaken = true
  const all = await untilLine(lines)
  const counted = all.filter(({ attributes }) => attributes.left_out !== undefined)
  const left = counted.reduce((sum, { attributes }) => sum + Number(attributes.left_out), 0)
  const kept = all.length - counted.length
  // More fit while the requests take their time.
  expect([kept >= 30, kept + left]).toEqual([true, 40])
})
