// Whether a copy is well, asked of applications that answer oddly.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { probe } from '../../src/agent/engines/local/health.ts'
import { waitFor } from '../support/commands.ts'

const OK = 'HTTP/1.1 200 OK\r\n'
const open = new Set<Socket>()
let server: Server
afterEach(() => {
  for (const socket of open) socket.destroy()
  server.close()
})

/** Says that much when it is asked, and goes on without end. */
async function application(first: string, more: string): Promise<number> {
  server = createServer(socket => {
    open.add(socket)
    const speaking = setInterval(() => socket.write(more), 10)
    socket.on('error', () => {})
    socket.once('data', () => socket.write(first))
    socket.once('close', () => open.delete(socket) && clearInterval(speaking))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

test('an answer without an end is well, and is not read forever', async () => {
  const port = await application(`${OK}\r\n`, '')
  expect(await probe(port, '/', 300)).toMatchObject({ ok: true })
  await waitFor(() => open.size === 0)
})

test('a head without an end is no answer', async () => {
  const port = await application(`${OK}X: `, 'x')
  expect(await probe(port, '/', 300)).toMatchObject({ ok: false })
  await waitFor(() => open.size === 0)
})
