// WebSockets on Workers: both ends of a tunnel go to the durable object with its id.
import { createPairs } from '../hosting/relay/pairs.ts'
import type { Services } from '../kernel/http/routes.ts'
import type { Execution, Socket, TunnelEnd } from '../platform.ts'

export type RelayBinding = {
  idFromName(name: string): unknown
  get(id: unknown): { fetch(request: Request): Promise<Response> }
}
type ServerSocket = WebSocket & { accept(): void }
declare const WebSocketPair: new () => [client: WebSocket, server: ServerSocket]

const END_HEADER = 'Slipway-Tunnel-End'

export function passToObject(binding: RelayBinding, request: Request, end: TunnelEnd): Promise<Response> {
  const headers = new Headers(request.headers)
  headers.set(END_HEADER, JSON.stringify(end))
  return binding.get(binding.idFromName(end.tunnel_id)).fetch(new Request(request.url, { headers }))
}

/** Answers the requests of one object. Only the binding reaches it, so their header is the Worker's. */
export function createTunnelObject(state: Execution, services: Services) {
  const platform = { ...services.platform, waitUntil: (work: Promise<unknown>) => state.waitUntil(work) }
  const pairs = createPairs({ ...services, platform })
  return async (request: Request): Promise<Response> => {
    const end = JSON.parse(request.headers.get(END_HEADER)!) as TunnelEnd
    const { 0: client, 1: server } = new WebSocketPair()
    server.accept()
    pairs.attach(end, toSocket(server))
    return new Response(null, { status: 101, webSocket: client } as ResponseInit)
  }
}

function toSocket(socket: ServerSocket): Socket {
  socket.binaryType = 'arraybuffer'
  return {
    // A socket that has closed meanwhile throws.
    send(message, sent) {
      ignoreClosed(() => socket.send(message))
      sent?.()
    },
    close: (code, reason) => ignoreClosed(() => socket.close(code, reason)),
    onMessage: receive =>
      socket.addEventListener('message', ({ data }) => {
        if (data instanceof ArrayBuffer) receive(new Uint8Array(data))
        else socket.close(1003, 'Send binary messages.')
      }),
    onClose(end) {
      socket.addEventListener('close', () => end())
      socket.addEventListener('error', () => end())
    },
  }
}

function ignoreClosed(act: () => void): void {
  try {
    act()
  } catch {
    // Its close event follows.
  }
}
