// Ends a process without failing a request: it stops being ready, serves on, then takes no new connection.
import type { Server } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { type Connections, watchConnections } from './connections.ts'

export const SIGNALS = ['SIGINT', 'SIGTERM'] as const
/** One Ctrl-C arrives twice: from the terminal and from npm. */
export const DUPLICATE_SIGNAL_MS = 500

/** A request may still arrive so long after the server stopped listening. */
const HEAD_MS = 1000

type ShutdownLimits = {
  /** Between the failing readiness check and the end of the listening, for load balancers to see it. */
  delayMs: number
  /** After that, for what is in progress. */
  timeoutMs: number
}

export type Shutdown = {
  /** /readyz answers 503 from now on. */
  draining: AbortSignal
  /** Streams and long polls end with where to resume, and background work claims nothing more. */
  stopping: AbortSignal
  /** Ends the process on the first signal as described, and on a second one at once, unless it is the same Ctrl-C. */
  onSignal(server: Server, limits: ShutdownLimits, finish: () => Promise<void>): void
}

export function createShutdown(): Shutdown {
  const draining = new AbortController()
  const stopping = new AbortController()

  async function shutDown(
    server: Server,
    { delayMs, timeoutMs }: ShutdownLimits,
    finish: () => Promise<void>,
    connections: Connections,
  ) {
    draining.abort()
    // A proxy that keeps connections must not send a request on one that is about to close.
    server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'))
    if (delayMs > 0) await delay(delayMs)
    stopping.abort()
    let isCut = false
    const hardEnd = setTimeout(() => {
      isCut = true
      console.error(`Requests or work did not end within ${timeoutMs / 1000} seconds, and were cut off.`)
      server.closeAllConnections()
      setTimeout(() => process.exit(1), 1000).unref()
    }, timeoutMs)
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    // Idle connections close at once, and busy ones after their response.
    server.keepAliveTimeout = 1
    setTimeout(() => {
      for (const [socket, { requests }] of connections) if (requests === 0) socket.destroy()
    }, HEAD_MS).unref()
    await closed
    await finish()
    clearTimeout(hardEnd)
    process.exit(isCut ? 1 : 0)
  }

  return {
    draining: draining.signal,
    stopping: stopping.signal,
    onSignal(server, limits, finish) {
      const connections = watchConnections(server)
      let first: { signal: NodeJS.Signals; at: number } | undefined
      const stop = (signal: NodeJS.Signals) => {
        const at = performance.now()
        if (first?.signal === signal && at - first.at < DUPLICATE_SIGNAL_MS) return
        if (first) process.exit(signal === 'SIGINT' ? 130 : 143)
        first = { signal, at }
        void shutDown(server, limits, finish, connections)
      }
      for (const name of SIGNALS) process.on(name, stop)
    },
  }
}
