// Both ends of terminals and forwarded ports, as a client and an agent of a test hold them.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect } from 'vitest'
import { createHttpServer } from '../../src/host/http-server.ts'
import { takeSockets } from '../../src/host/sockets.ts'
import { TUNNEL_LIMITS, type TunnelLimits } from '../../src/platform.ts'
import {
  type Channel,
  channels,
  encodeFrame,
  type Frame,
  parseJson,
  readFrame,
  readText,
} from '../../src/protocol/tunnel-frames.ts'
import { type App, startApp, type Tenant } from './app.ts'
import { onFileEnd } from './file-state.ts'
import type { ServingDeployment } from './serving-deployment.ts'
import type { SyncAgent } from './sync-agent.ts'

const closers: (() => void)[] = []
onFileEnd(() => {
  for (const close of closers.splice(0)) close()
})

/** Serves an app of its own, as `npm start` does. Returns the address of its sockets. */
export async function serveTunnels(limits: Partial<TunnelLimits> = {}, app?: App) {
  const served = app ?? startApp({ overrides: { tunnelLimits: { ...TUNNEL_LIMITS, checkMs: 20, ...limits } } })
  const server = createHttpServer(served.fetch)
  takeSockets(server, served, async () => {})
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { address: `ws://127.0.0.1:${port}`, app: served }
}

/** Keeps all that arrives. `next` waits for the next frame of a channel. */
export function openSocket(url: string, headers: Record<string, string> = {}) {
  const socket = new WebSocket(url, { headers } as never)
  socket.binaryType = 'arraybuffer'
  const frames: Frame[] = []
  const waiting: (() => void)[] = []
  let ended: { code: number; reason: string } | undefined
  const wake = () => {
    for (const resolve of waiting.splice(0)) resolve()
  }
  socket.onmessage = ({ data }) => {
    const frame = readFrame(new Uint8Array(data))
    if (frame.channel !== channels.ping) frames.push(frame)
    wake()
  }
  const closed = new Promise<{ code: number; reason: string }>(resolve => {
    socket.onclose = ({ code, reason }) => {
      ended = { code, reason }
      wake()
      resolve(ended)
    }
  })
  const opened = new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve()
    socket.onerror = () => reject(new Error('The socket was refused.'))
  })
  opened.catch(() => {})
  return {
    socket,
    opened,
    closed,
    frames,
    send: (channel: Channel, payload: Uint8Array | string = '', stream = 0) =>
      socket.send(encodeFrame(channel, typeof payload === 'string' ? Buffer.from(payload) : payload, stream)),
    async next(channel: Channel): Promise<Frame> {
      for (;;) {
        const at = frames.findIndex(frame => frame.channel === channel)
        if (at >= 0) return frames.splice(at, 1)[0]!
        if (ended) throw new Error(`The socket has closed: ${ended.code} ${ended.reason}`)
        await new Promise<void>(resolve => waiting.push(resolve))
      }
    },
    async nextText(channel: Channel): Promise<string> {
      return readText((await this.next(channel)).payload)
    },
    async nextJson(channel: Channel) {
      return parseJson<Record<string, unknown>>((await this.next(channel)).payload)
    },
  }
}

/** The URL of a new terminal on the server of `address`. */
export async function newTerminalUrl(tenant: Tenant, id: string, address: string, body: object = { command: ['sh'] }) {
  const { status, body: tunnel } = await tenant.post(`/v2/deployments/${id}/terminals`, body)
  expect(status, JSON.stringify(tunnel)).toBe(201)
  return { id: tunnel.id as string, url: tunnel.url.replace('ws://slipway.test', address) as string }
}

export const agentUrl = (address: string, tunnel_id: string, { agent_id, fence }: SyncAgent) =>
  `${address}/v1/sync/tunnels/${tunnel_id}?${new URLSearchParams({ agent_id, fence: String(fence) })}`

/** Opens a terminal from end to end. */
export async function openTerminal(
  { tenant, agent, agentKey, id }: ServingDeployment,
  address: string,
  agentAddress = address,
) {
  const { id: tunnel_id, url } = await newTerminalUrl(tenant, id, address)
  const client = openSocket(url)
  await client.opened
  const end = openSocket(agentUrl(agentAddress, tunnel_id, agent), { 'X-Api-Key': agentKey })
  await end.opened
  return { tunnel_id, client, end }
}
