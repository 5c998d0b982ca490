// Terminals and forwarded ports, from the request to the event of their end, with sockets of a real server.
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { sql } from 'drizzle-orm'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { openTunnel } from '../../../src/cli/tunnel.ts'
import { createPairs } from '../../../src/hosting/relay/pairs.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type Socket, TUNNEL_LIMITS } from '../../../src/platform.ts'
import {
  channels,
  encodeCredit,
  encodeFrame,
  MAX_FRAME_BYTES,
  WINDOW_BYTES,
} from '../../../src/protocol/tunnel-frames.ts'
import { type App, getApp, newTenant, startApp } from '../../support/app.ts'
import { newServingDeployment } from '../../support/serving-deployment.ts'
import { agentUrl, newTerminalUrl, openSocket, openTerminal, serveTunnels } from '../../support/tunnels.ts'

async function readEnd(tunnel_id: string) {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select data::text from events where subject_id = ${tunnel_id}::uuid and type = 'tunnel.ended'`,
  )
  const [row] = rows as [string][]
  return row && { data: JSON.parse(row[0]) }
}
const untilEnded = (tunnel_id: string) => expect.poll(() => readEnd(tunnel_id)).toBeTruthy()

type End = { receive(message: Uint8Array): void; close(): void; isPaused: boolean; got: number[] }

/** Both ends of a tunnel of the relay. `take` decides when the agent has taken a message. */
function pairOfEnds({ services }: App, take: (sent: () => void) => void): { client: End; agent: End } {
  const newEnd = (takes: (sent: () => void) => void) => {
    const end: End = { receive() {}, close() {}, isPaused: false, got: [] }
    const socket: Socket = {
      send(message, sent) {
        end.got.push(message[0]!)
        if (sent) takes(sent)
      },
      pause: () => Object.assign(end, { isPaused: true }),
      resume: () => Object.assign(end, { isPaused: false }),
      close: () => end.close(),
      onMessage: receive => Object.assign(end, { receive }),
      onClose: close => Object.assign(end, { close }),
    }
    return { end, socket }
  }
  const { attach } = createPairs(services)
  const tunnel_id = crypto.randomUUID()
  const client = newEnd(sent => sent())
  const agent = newEnd(take)
  const credential = { kind: 'key', hash: '' } as const
  attach({ side: 'client', tunnel_id, deployment_id: '', workspace: '', credential }, client.socket)
  attach({ side: 'agent', tunnel_id }, agent.socket)
  return { client: client.end, agent: agent.end }
}

describe('a terminal', () => {
  it('is refused to a workspace that would take more of its listener than it leaves', async () => {
    const { tenant, id } = await newServingDeployment()
    const ask = () => tenant.post(`/v2/deployments/${id}/terminals`, {})
    expect((await ask()).status).toBe(201)
    const fill = (owner: string, count: number) =>
      runAsSystem(
        getApp().database,
        sql`
          insert into tunnels (organization_id, tenant_id, deployment_id, revision_id, listener_id, is_terminal,
            actor_kind, expires_at)
          select organization_id, (select tenant_id from deployments where id = ${owner}::uuid), deployment_id,
            revision_id, listener_id, true, actor_kind, expires_at
          from tunnels, generate_series(1, ${count}::integer)
          where id = (select min(id::text)::uuid from tunnels where deployment_id = ${id}::uuid)`,
      )
    const { id: other } = await newServingDeployment()
    await fill(other, 460)
    await fill(id, 18)
    expect((await ask()).status).toBe(201)
    expect(await ask()).toMatchObject({ status: 409, body: { code: 'tunnels_full' } })
  })

  it('is asked for once more by the command line where its socket is refused for a moment', async () => {
    const { address } = await serveTunnels()
    const { tenant, agent, agentKey, id } = await newServingDeployment()
    const { id: tunnel_id, url } = await newTerminalUrl(tenant, id, address, { command: ['true'], tty: false })
    const busy = createHttpServer()
    busy.on('upgrade', (_, socket) => socket.end('HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n'))
    await once(busy.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void busy.close())
    const urls = [`ws://127.0.0.1:${(busy.address() as AddressInfo).port}`, url]
    const { signal } = new AbortController()
    const opening = openTunnel(async () => urls.shift()!, { signal })
    // The agent hears of it once the client is there.
    await expect.poll(async () => (await agent.poll({ wait: 5 })).tunnels?.length, { timeout: 30_000 }).toBe(1)
    const end = openSocket(agentUrl(address, tunnel_id, agent), { 'X-Api-Key': agentKey })
    await end.opened
    end.send(channels.ready, '{}')
    const { ended } = await opening
    end.send(channels.exit, '{"code":3,"signal":null}')
    end.socket.close(1000)
    expect(await ended).toEqual({ code: 3, signal: null })
    // Its ticket works once.
    await expect(openTunnel(async () => url, { signal })).rejects.toMatchObject({ name: 'ApiError' })
  })

  it('carries input, output, size, signals and the exit code, and has two events without its content', async () => {
    const { address } = await serveTunnels()
    const serving = await newServingDeployment()
    const { tenant, agent, agentKey, id } = serving
    const body = { command: ['sh', '-c', 'hush'], tty: true, columns: 100, rows: 40 }
    const { id: tunnel_id, url } = await newTerminalUrl(tenant, id, address, body)
    expect((await agent.poll()).tunnels).toBeUndefined()
    const client = openSocket(url)
    await client.opened
    client.send(channels.data, 'typed early')
    const { tunnels } = await agent.poll({ wait: 5 })
    expect(tunnels).toEqual([
      expect.objectContaining({
        id: tunnel_id,
        deployment_id: id,
        terminal: expect.objectContaining(body),
        forward: null,
      }),
    ])
    expect((await agent.poll()).tunnels).toBeUndefined()
    const end = openSocket(agentUrl(address, tunnel_id, agent), { 'X-Api-Key': agentKey })
    expect(await end.nextText(channels.data)).toBe('typed early')
    client.send(channels.resize, '{"columns":90,"rows":20}')
    client.send(channels.signal, 'SIGINT')
    client.send(channels.end)
    expect(await end.nextText(channels.resize)).toBe('{"columns":90,"rows":20}')
    expect(await end.nextText(channels.signal)).toBe('SIGINT')
    await end.next(channels.end)
    end.send(channels.data, 'output')
    end.send(channels.exit, '{"code":null,"signal":"SIGTERM"}')
    expect(await client.nextText(channels.data)).toBe('output')
    expect(await client.nextJson(channels.exit)).toEqual({ code: null, signal: 'SIGTERM' })
    end.socket.close(1000)
    expect((await client.closed).code).toBe(1000)
    await untilEnded(tunnel_id)
    expect((await readEnd(tunnel_id))!.data).toEqual({
      deployment_id: id,
      kind: 'terminal',
      reason: 'finished',
      seconds: expect.any(Number),
      bytes_in: 11,
      bytes_out: 6,
      exit_code: null,
      signal: 'SIGTERM',
    })
    const [events] = await runAsSystem(
      getApp().database,
      sql`
        select type, actor_id = first_value(actor_id) over (order by seq)
        from events
        where subject_id = ${tunnel_id}::uuid and data::text not like '%hush%'
        order by seq`,
    )
    expect(events).toEqual([
      ['tunnel.opened', true],
      ['tunnel.ended', true],
    ])
  })

  it('reaches the agent through another instance, by the address of the one that has its client', async () => {
    const other = await serveTunnels()
    const first = startApp({})
    first.platform.relay!.address = null
    const { address } = await serveTunnels({}, first)
    first.platform.relay!.address = address.replace('ws', 'http')
    const serving = await newServingDeployment()
    const { client, end } = await openTerminal(serving, address, other.address)
    client.send(channels.data, 'there')
    expect(await end.nextText(channels.data)).toBe('there')
    end.send(channels.data, 'back')
    expect(await client.nextText(channels.data)).toBe('back')
    client.socket.close(1000)
    expect((await end.closed).reason).toBe('closed')
    first.platform.relay!.address = null
    await expect(openTerminal(serving, address, other.address)).rejects.toThrow('refused')
  })

  it.each([
    [
      'its key is revoked',
      'key_revoked',
      async ({ tenant }, key_id) => tenant.delete(`/workspaces/current/api-keys/${key_id}`),
    ],
    [
      'its deployment is deleted',
      'deployment_deleting',
      async ({ tenant, id }) => tenant.delete(`/v2/deployments/${id}`),
    ],
    ['another agent takes over', 'lease_lost', async ({ agent }) => agent.poll({ fence: null })],
  ] satisfies [string, string, (of: Awaited<ReturnType<typeof newServingDeployment>>, key: string) => unknown][])(
    'ends when %s',
    async (_, code, act) => {
      const { address } = await serveTunnels()
      const serving = await newServingDeployment()
      const { tenant } = serving
      const { body: key } = await tenant.post('/workspaces/current/api-keys', { description: 'of a terminal' })
      const { client, end, tunnel_id } = await openTerminal(
        { ...serving, tenant: tenant.as(key.key) as never },
        address,
      )
      await act(serving, key.id)
      expect(await client.nextJson(channels.error)).toMatchObject({ code })
      expect((await end.closed).reason).toBe(code)
      await untilEnded(tunnel_id)
    },
  )

  it('ends when the agent does not come, and when nothing is sent', async () => {
    const serving = await newServingDeployment()
    const { address } = await serveTunnels({ joinMs: 50 })
    const { url } = await newTerminalUrl(serving.tenant, serving.id, address)
    expect(await openSocket(url).nextJson(channels.error)).toMatchObject({ code: 'agent_unreachable' })
    const quiet = await serveTunnels({ idleMs: 50 })
    const { client } = await openTerminal(serving, quiet.address)
    expect(await client.nextJson(channels.error)).toMatchObject({ code: 'idle' })
  })

  it.each([
    ['more than a window that nobody has consumed', Array(6).fill([channels.data, MAX_FRAME_BYTES - 3])],
    ['a channel of agents', [[channels.exit, 2]]],
    ['an unknown channel', [[200, 1]]],
    ['a long frame that no window bounds', [[channels.resize, 5000]]],
    ['a stream again that is open', [...Array(2).fill([channels.open, 0])]],
  ])('ends when its client sends %s', async (_, sent) => {
    const { address } = await serveTunnels()
    const { client, end } = await openTerminal(await newServingDeployment(), address)
    for (const [channel, length] of sent as [0, number][]) client.send(channel, new Uint8Array(length))
    expect(await client.nextJson(channels.error)).toMatchObject({ code: 'invalid_frame' })
    expect((await end.closed).code).toBe(1002)
  })

  it('reads no more of an end than the other one takes', () => {
    const held: (() => void)[] = []
    const { client } = pairOfEnds(getApp(), sent => held.push(sent))
    const frame = encodeFrame(channels.resize, new Uint8Array(4000))
    for (let i = 0; i < 100; i++) client.receive(frame)
    expect(client.isPaused).toBe(true)
    for (const sent of held.splice(0)) sent()
    expect(client.isPaused).toBe(false)
    client.close()
  })

  it('tells an end that it is there, also while that end sends and the other one does not answer', () => {
    vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const app = startApp({ overrides: { tunnelLimits: { ...TUNNEL_LIMITS, checkMs: 3_600_000 } } })
    const { client, agent } = pairOfEnds(app, sent => sent())
    for (let i = 0; i < 50; i++) {
      agent.receive(encodeFrame(channels.data, new Uint8Array(1)))
      client.receive(encodeFrame(channels.pong))
      vi.advanceTimersByTime(1000)
    }
    expect(agent.got.filter(channel => channel === channels.ping)).toHaveLength(2)
    client.close()
  })

  it('goes on for as long as its reader consumes', async () => {
    const { address } = await serveTunnels()
    const { client, end } = await openTerminal(await newServingDeployment(), address)
    const piece = new Uint8Array(MAX_FRAME_BYTES - 3).fill(65)
    let received = 0
    while (received < 3 * WINDOW_BYTES) {
      end.send(channels.data, piece)
      received += (await client.next(channels.data)).payload.length
      client.socket.send(encodeCredit(piece.length, 0))
      await end.next(channels.credit)
    }
    expect(client.socket.readyState).toBe(WebSocket.OPEN)
  })

  it('is open a hundred times at once', async () => {
    const { address } = await serveTunnels()
    const serving = await newServingDeployment()
    const opened: Awaited<ReturnType<typeof openTerminal>>[] = []
    // On a busy machine, the last of a hundred requests would wait longer for a connection to the database than it may.
    while (opened.length < 100)
      opened.push(...(await Promise.all(Array.from({ length: 10 }, () => openTerminal(serving, address)))))
    const answers = opened.map(async ({ client, end }, i) => {
      client.send(channels.data, String(i))
      end.send(channels.data, `${await end.nextText(channels.data)} back`)
      return client.nextText(channels.data)
    })
    expect(await Promise.all(answers)).toEqual(opened.map((_, i) => `${i} back`))
    for (const { client } of opened) client.socket.close()
    await Promise.all(opened.map(({ end }) => end.closed))
  })
})

describe('a ticket', () => {
  it('works once, for its own tunnel, on a socket', async () => {
    const { address } = await serveTunnels()
    const serving = await newServingDeployment()
    const { id, url } = await newTerminalUrl(serving.tenant, serving.id, address)
    await expect(openSocket(url.replace(/ticket=./, 'ticket=x')).opened).rejects.toThrow()
    const another = await newTerminalUrl(serving.tenant, serving.id, address)
    await expect(openSocket(url.replace(id, another.id)).opened).rejects.toThrow()
    const plain = await fetch(url.replace('ws:', 'http:'))
    expect([plain.status, (await plain.json()).code]).toEqual([426, 'upgrade_required'])
    await openSocket(url).opened
    await expect(openSocket(url).opened).rejects.toThrow()
  })

  it('is refused once its key is', async () => {
    const { address } = await serveTunnels()
    const { tenant, id } = await newServingDeployment()
    const { body: key } = await tenant.post('/workspaces/current/api-keys', { description: 'of a ticket' })
    const { url } = await newTerminalUrl(tenant.as(key.key) as never, id, address)
    await tenant.delete(`/workspaces/current/api-keys/${key.id}`)
    await expect(openSocket(url).opened).rejects.toThrow()
  })
})

describe('a request for a terminal is refused', () => {
  it('by name, where the agent does not offer it, is absent, or has nothing that serves', async () => {
    const older = await newServingDeployment(null)
    const ask = ({ tenant, id }: typeof older, what = 'terminals', body: object = {}) =>
      tenant.post(`/v2/deployments/${id}/${what}`, body)
    expect((await ask(older)).body).toMatchObject({ code: 'tunnel_unsupported', status: 409 })
    const serving = await newServingDeployment(['terminal', 'forward'])
    expect((await ask(serving)).body.code).toBe('tunnel_unsupported')
    expect((await ask(serving, 'terminals', { tty: false })).status).toBe(201)
    expect((await ask(serving, 'forwards', { store: 'redis' })).body.code).toBe('tunnel_unsupported')
    expect((await ask(serving, 'forwards', { port: 1, store: 'redis' })).status).toBe(422)
    await serving.agent.post('/v1/sync/release', { agent_id: serving.agent.agent_id, fence: serving.agent.fence })
    expect((await ask(serving, 'terminals', { tty: false })).body.code).toBe('agent_absent')
  })

  it('to other workspaces, and to agents of other listeners', async () => {
    const { address } = await serveTunnels()
    const serving = await newServingDeployment()
    const other = await newServingDeployment()
    const { status } = await (await newTenant()).post(`/v2/deployments/${serving.id}/terminals`, {})
    expect(status).toBe(404)
    const { id, url } = await newTerminalUrl(serving.tenant, serving.id, address)
    await openSocket(url).opened
    const asOther = openSocket(agentUrl(address, id, other.agent), { 'X-Api-Key': other.agentKey })
    await expect(asOther.opened).rejects.toThrow()
    const withOldFence = agentUrl(address, id, { ...serving.agent, fence: 99 } as never)
    await expect(openSocket(withOldFence, { 'X-Api-Key': serving.agentKey }).opened).rejects.toThrow()
  })
})

it.each(['h2c', 'websocket'])('a request for no socket that offers %s is served as any other', async offer => {
  const { address } = await serveTunnels()
  const path = '/v2/deployments/00000000-0000-4000-8000-000000000000/terminals'
  const answer = await sendUpgrade(address, `POST ${path}`, offer, '{"name":1}')
  expect(answer).toMatch(/^HTTP\/1\.1 401 /)
})

it('a request for a socket with a Host that is none is refused', async () => {
  const { address } = await serveTunnels()
  const target = 'GET /v2/tunnels/00000000-0000-4000-8000-000000000000?ticket=x'
  expect(await sendUpgrade(address, target, 'websocket', '', undefined, 'a b')).toMatch(/ 400 /)
  expect(await sendUpgrade(address, target, 'websocket', '', undefined, 'me@a')).toMatch(/ 4\d\d /)
})

it('a request whose target names another host reaches no other host', async () => {
  const calls: string[] = []
  const canary = createServer(socket => {
    calls.push('called')
    socket.destroy()
  })
  await once(canary.listen(0, '127.0.0.1'), 'listening')
  const other = await serveTunnels()
  const first = startApp({})
  const { address } = await serveTunnels({}, first)
  first.platform.relay!.address = address.replace('ws', 'http')
  const serving = await newServingDeployment()
  const { id, url } = await newTerminalUrl(serving.tenant, serving.id, address)
  await openSocket(url).opened
  const { port } = canary.address() as AddressInfo
  for (const start of [`http://127.0.0.1:${port}`, `//127.0.0.1:${port}`]) {
    const target = agentUrl(start, id, serving.agent)
    expect(await sendUpgrade(other.address, `GET ${target}`, 'websocket', '', serving.agentKey)).not.toMatch(/ 101 /)
  }
  canary.close()
  expect(calls).toEqual([])
})

/** The start of the answer. Empty if the connection is closed without one. */
async function sendUpgrade(address: string, target: string, offer: string, body: string, key?: string, host?: string) {
  const { hostname, port } = new URL(address)
  const socket = connect(Number(port), hostname)
  socket.write(
    [
      `${target} HTTP/1.1`,
      `Host: ${host ?? hostname}`,
      'Connection: Upgrade',
      `Upgrade: ${offer}`,
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      ...(key ? [`X-Api-Key: ${key}`] : []),
      'Content-Type: application/json',
      ...(body ? [`Content-Length: ${body.length}`] : []),
      '',
      body,
    ].join('\r\n'),
  )
  const [answer] = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => [''])])
  socket.destroy()
  return String(answer)
}
