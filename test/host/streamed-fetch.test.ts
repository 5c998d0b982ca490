// Bodies read by `node:http`: their ends, where the server sends none.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, expect, test } from 'vitest'
import { createPinnedFetch } from '../../src/host/pinned-fetch.ts'
import { fetchStreamed, streamedFetch } from '../../src/kernel/db/streamed-fetch.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const sockets = new Set<Socket>()
let server: Server | undefined
afterEach(() => {
  for (const socket of sockets) socket.destroy()
  server?.close()
})

/** Sends this answer and then nothing, with an open connection. */
async function startServer(answer: string): Promise<string> {
  server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}).once('data', () => socket.write(answer))
    socket.once('close', () => sockets.delete(socket))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
const CUT = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun'
const allClosed = () => expect.poll(() => sockets.size).toBe(0)

test.each([
  ['streamed', streamedFetch],
  ['pinned', createPinnedFetch({ allowLoopback: true })],
])('a stalled body that is %s ends with its signal, also after a collection of garbage', async (_, send) => {
  const stop = new AbortController()
  const response = await send(await startServer(CUT), { signal: stop.signal })
  const end = response.text().catch(() => 'ended')
  for (let i = 0; i < 5; i++) {
    collectGarbage()
    await delay(10)
  }
  stop.abort()
  expect(await end).toBe('ended')
  await allClosed()
})

test('a body that sends nothing while it is read ends, and one that is not read waits', async () => {
  const response = await fetchStreamed(await startServer(CUT), {}, 100)
  await delay(300)
  const reader = response.body!.getReader()
  expect((await reader.read()).value?.byteLength).toBe(5)
  await expect(reader.read()).rejects.toThrow()
  await allClosed()
})

test.each([['101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x'], ['999 Unknown\r\nContent-Length: 2']])(
  'an answer that no Response can be is an error that leaves no connection: %s',
  async head => {
    await expect(streamedFetch(await startServer(`HTTP/1.1 ${head}\r\n\r\n`))).rejects.toThrow()
    await allClosed()
  },
)
