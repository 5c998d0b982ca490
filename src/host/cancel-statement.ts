// Asks Postgres to cancel what a connection runs, over a connection of its own, as the protocol wants it.
import pg from 'pg'

/** The members of node-postgres' client that its types leave out. */
type Session = {
  processID: number
  secretKey: number
  host: string
  port: number
  connection: pg.Connection & {
    stream: { destroy(): void }
    connect(port: number | string, host?: string): void
    cancel(processID: number, secretKey: number): void
  }
}

/**
 * Most statements end by themselves within this time, and keep their connection: under load, to open others would cost
 * more than it saves. Repeated, because Postgres ignores a request that arrives between two statements.
 */
const CANCEL_EVERY_MS = 500

/** `stop` says whether Postgres was asked. A request may then be on its way still, so the connection must be closed. */
export type Cancellation = { stop(): boolean }

export function cancelSoon(client: pg.ClientBase, connectionString: string): Cancellation {
  const { processID, secretKey } = client as unknown as Session
  let closeLast: (() => void) | undefined
  const timer = setInterval(() => {
    closeLast?.()
    closeLast = sendCancel(connectionString, processID, secretKey)
  }, CANCEL_EVERY_MS)
  return {
    stop() {
      clearInterval(timer)
      closeLast?.()
      return closeLast !== undefined
    },
  }
}

function sendCancel(connectionString: string, processID: number, secretKey: number): () => void {
  const { connection, host, port } = new pg.Client({ connectionString }) as unknown as Session
  const send = () => connection.cancel(processID, secretKey)
  connection.on('error', () => {})
  // With TLS, only the second event comes.
  connection.once('connect', send)
  connection.once('sslconnect', send)
  if (host.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`)
  else connection.connect(port, host)
  return () => connection.stream.destroy()
}
