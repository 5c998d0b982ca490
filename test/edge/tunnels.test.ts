// A terminal on workerd: both sockets go to one durable object, which joins them.
import { expect, it } from 'vitest'
import { createTunnelObject, passToObject } from '../../src/host/workers-relay.ts'
import { TUNNEL_LIMITS } from '../../src/platform.ts'
import { channels, encodeFrame, parseJson, readFrame, readText } from '../../src/protocol/tunnel-frames.ts'
import { type App, startApp } from '../support/app.ts'
import { newServingDeployment } from '../support/serving-deployment.ts'

type Accepted = WebSocket & { accept(): void }

function startWithObjects() {
  const objects = new Map<unknown, ReturnType<typeof createTunnelObject>>()
  const answers = new WeakMap<Request, Response>()
  const binding = {
    idFromName: (name: string) => name,
    get: (id: unknown) => {
      const object = objects.get(id) ?? createTunnelObject({ waitUntil() {} }, app.services)
      objects.set(id, object)
      return { fetch: object }
    },
  }
  const relay = {
    instance: 'workers',
    address: null,
    accept: async (...[request, end]: Parameters<NonNullable<App['platform']['relay']>['accept']>) =>
      void answers.set(request, await passToObject(binding, request, end)),
    pass: async () => {},
  }
  const app: App = startApp({ overrides: { relay, tunnelLimits: { ...TUNNEL_LIMITS, checkMs: 20 } } })
  async function open(path: string, headers: Record<string, string> = {}) {
    const request = new Request(`http://slipway.test${path}`, { headers: { Upgrade: 'websocket', ...headers } })
    const { status } = await app.fetch(request)
    const socket = (answers.get(request) as unknown as { webSocket: Accepted } | undefined)?.webSocket
    if (!socket) throw new Error(`The socket was refused with ${status}.`)
    socket.accept()
    socket.binaryType = 'arraybuffer'
    const messages: Uint8Array[] = []
    socket.addEventListener('message', ({ data }) => void messages.push(new Uint8Array(data as ArrayBuffer)))
    const next = async () => {
      await expect.poll(() => messages.length).toBeGreaterThan(0)
      return readFrame(messages.shift()!)
    }
    return { socket, next }
  }
  return { app, open }
}

it('a terminal on workerd carries bytes both ways, and ends with its key', async () => {
  const { app, open } = startWithObjects()
  const { tenant, agent, agentKey, id } = await newServingDeployment()
  const { body: key } = await tenant.post('/workspaces/current/api-keys', { description: 'of a terminal' })
  const ask = await app.fetch(
    new Request(`http://slipway.test/v2/deployments/${id}/terminals`, {
      method: 'POST',
      headers: { 'X-Api-Key': key.key, 'Content-Type': 'application/json' },
      body: '{"tty":false}',
    }),
  )
  const tunnel = (await ask.json()) as { id: string; url: string }
  const { pathname, search } = new URL(tunnel.url)
  const client = await open(pathname + search)
  await expect(open(pathname + search)).rejects.toThrow('401')
  const { tunnels } = await agent.poll({ wait: 5 })
  expect(tunnels).toMatchObject([{ id: tunnel.id }])
  const lease = new URLSearchParams({ agent_id: agent.agent_id, fence: String(agent.fence) })
  const end = await open(`/v1/sync/tunnels/${tunnel.id}?${lease}`, { 'X-Api-Key': agentKey })
  client.socket.send(encodeFrame(channels.data, Buffer.from('there')))
  expect(readText((await end.next()).payload)).toBe('there')
  end.socket.send(encodeFrame(channels.data, Buffer.from('back')))
  expect(readText((await client.next()).payload)).toBe('back')
  await tenant.delete(`/workspaces/current/api-keys/${key.id}`)
  expect(parseJson((await client.next()).payload)).toMatchObject({ code: 'key_revoked' })
})
