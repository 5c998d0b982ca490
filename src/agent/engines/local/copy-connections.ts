// Connections of the router to copies, kept open between requests. Each carries one request at a time. Undici reads
// what has arrived on an idle connection before it sends the next request, so that one that was closed is not used.
import { createRequire } from 'node:module'
import { connect, type Socket } from 'node:net'
import type { Client as UndiciClient } from 'undici'

/** The whole of undici takes the router twice the time to load, and 15 MB more. */
const Client = createRequire(import.meta.url)('undici/lib/dispatcher/client.js') as typeof UndiciClient

export type CopyAddress = { host: string; port: number }

/** Shorter than the time after which any common server closes an idle connection, gunicorn's 2 s included. */
const IDLE_MS = 1_000
const MOST_IDLE = 64

export const originOf = ({ host, port }: CopyAddress) => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Undefined if nothing accepts. */
export function dial({ host, port }: CopyAddress): Promise<Socket | undefined> {
  return new Promise(resolve => {
    const socket = connect({ host, port, noDelay: true })
    socket.once('connect', () => {
      socket.off('error', failed)
      resolve(socket)
    })
    const failed = () => resolve(undefined)
    socket.once('error', failed)
  })
}

export class CopyConnection {
  readonly client: UndiciClient
  readonly origin: string
  /** It has carried a request before. */
  isReused = false
  isClosed = false
  /** Until it is used. */
  #first: Socket | undefined

  constructor(address: CopyAddress, socket: Socket, onClosed: (connection: CopyConnection) => void) {
    this.origin = originOf(address)
    this.#first = socket
    this.client = new Client(this.origin, {
      pipelining: 1,
      // The router has limits of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      keepAliveTimeoutThreshold: 500,
      connect: async (_, callback) => {
        // One that has closed before the request was sent is opened again.
        // Never at once: a client that is being resumed would not notice.
        const socket = await (this.#first ?? dial(address))
        this.#first = undefined
        if (socket) callback(null, socket)
        else callback(new Error('nothing accepts connections'), null)
      },
    })
    this.client.once('disconnect', () => {
      this.isClosed = true
      onClosed(this)
    })
  }

  close(): void {
    this.isClosed = true
    this.#first?.destroy()
    void this.client.destroy().catch(() => {})
  }
}

export class CopyConnections {
  readonly #idle = new Map<string, CopyConnection[]>()
  #origins = new Set<string>()

  /** An idle connection, for a request that may be sent again. */
  take(address: CopyAddress): CopyConnection | undefined {
    const connection = this.#idle.get(originOf(address))?.pop()
    if (connection) connection.isReused = true
    return connection
  }

  async open(address: CopyAddress): Promise<CopyConnection | undefined> {
    const socket = await dial(address)
    return socket && new CopyConnection(address, socket, closed => this.#forget(closed))
  }

  /** It has carried a request to its end. */
  giveBack(connection: CopyConnection): void {
    const { origin } = connection
    const idle = this.#idle.get(origin) ?? []
    // A copy that is to end must not wait for connections.
    if (!connection.isClosed && idle.length < MOST_IDLE && this.#origins.has(origin)) {
      idle.push(connection)
      this.#idle.set(origin, idle)
    } else connection.close()
  }

  keepOnly(addresses: CopyAddress[]): void {
    this.#origins = new Set(addresses.map(originOf))
    for (const [origin, idle] of this.#idle) {
      if (this.#origins.has(origin)) continue
      this.#idle.delete(origin)
      for (const connection of idle) connection.close()
    }
  }

  #forget(closed: CopyConnection): void {
    const idle = this.#idle.get(closed.origin)
    const left = idle?.filter(connection => connection !== closed) ?? []
    if (left.length > 0) this.#idle.set(closed.origin, left)
    else this.#idle.delete(closed.origin)
    closed.close()
  }
}
