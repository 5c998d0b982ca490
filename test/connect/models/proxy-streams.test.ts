// The model proxy over connections of Node: what is on its way is bounded, in both directions, and long calls go on.
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createHttpServer } from '../../../src/host/http-server.ts'
import { newTenant, type Tenant } from '../../support/app.ts'
import { startModelServer } from '../../support/model-server.ts'
import { newModel, startModelApp } from '../../support/models.ts'

const MIB = 1024 * 1024
/** The buffers of four sockets and the streams between them. */
const ON_THE_WAY = 16 * MIB
const REQUEST_MS = 150

const servers: Server[] = []
async function listen(server: Server): Promise<string> {
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
let tenant: Tenant
let origin: string
beforeAll(async () => {
  const app = startModelApp()
  tenant = await newTenant({ app })
  origin = await listen(createHttpServer(app.fetch, { requestMs: REQUEST_MS }))
})
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

async function openCall(answer: RequestListener, headers: Record<string, string | number> = {}) {
  const id = await newModel(tenant, { base_url: await listen(createServer(answer)) })
  const url = `${origin}/v1/model-proxy/${id}/chat/completions`
  const outgoing = request(url, { method: 'POST', headers: { 'X-Api-Key': tenant.key, ...headers } })
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on('response', resolve).on('error', reject)
  })
  return { outgoing, response }
}

/** Resolves once the number has stopped growing. */
async function settle(read: () => number): Promise<number> {
  for (let before = -1, same = 0; ; before = read()) {
    same = read() === before && before > 0 ? same + 1 : 0
    if (same === 10) return before
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

/** Writes as fast as the other side takes it. Returns the number of bytes that were handed over. */
function pour(to: NodeJS.WritableStream, bytes: number, chunk = Buffer.alloc(64 * 1024, 'x')) {
  const poured = { bytes: 0 }
  const write = () => {
    while (poured.bytes < bytes) {
      poured.bytes += chunk.byteLength
      if (!to.write(chunk)) return void to.once('drain', write)
    }
    to.end()
  }
  write()
  return poured
}

async function countBytes(from: IncomingMessage): Promise<number> {
  let bytes = 0
  for await (const chunk of from) bytes += (chunk as Buffer).byteLength
  return bytes
}

it('a stream of 60 MB waits for a slow client, and arrives whole', async () => {
  let poured = { bytes: 0 }
  const { outgoing, response } = await openCall((_, answer) => {
    answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
    poured = pour(answer, 60 * MIB)
  })
  outgoing.end('{}')
  const incoming = await response
  expect(await settle(() => poured.bytes)).toBeLessThan(ON_THE_WAY)
  expect(await countBytes(incoming)).toBe(60 * MIB)
})

it('a body of 25 MiB waits for a slow server, and arrives whole with its length', async () => {
  const isReleased = Promise.withResolvers<void>()
  const { outgoing, response } = await openCall(
    async (incoming, answer) => {
      await isReleased.promise
      answer.end(JSON.stringify([incoming.headers['content-length'], await countBytes(incoming)]))
    },
    { 'Content-Length': 25 * MIB },
  )
  const poured = pour(outgoing, 25 * MIB)
  expect(await settle(() => poured.bytes)).toBeLessThan(ON_THE_WAY)
  isReleased.resolve()
  const text = await new Response((await response) as unknown as ReadableStream).text()
  expect(JSON.parse(text)).toEqual([String(25 * MIB), 25 * MIB])
})

it('a stream goes on for longer than a request may take to arrive, and ends when the client leaves', async () => {
  const models = await startModelServer()
  try {
    const id = await newModel(tenant, { base_url: models.url })
    models.faults.push('endless_stream')
    const started = Date.now()
    const body = JSON.stringify({ stream: true, messages: [] })
    const headers = { Authorization: `Bearer ${tenant.key}` }
    const reply = await fetch(`${origin}/v1/model-proxy/${id}/chat/completions`, { method: 'POST', headers, body })
    const reader = reply.body!.getReader()
    while (Date.now() - started < 3 * REQUEST_MS) expect((await reader.read()).done).toBe(false)
    await reader.cancel()
    await expect.poll(() => models.calls[0]!.isAborted).toBe(true)
  } finally {
    await models.close()
  }
})
