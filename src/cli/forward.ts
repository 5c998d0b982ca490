// A local port that leads to one of a copy, or to the database or cache of a deployment.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { constants } from 'node:os'
import { channels, encodeFrame, MAX_STREAMS, type Ready } from '../protocol/tunnel-frames.ts'
import { CommandFailure, EXIT } from './failure.ts'
import type { Session } from './session.ts'
import { type OpenTunnel, openTunnel } from './tunnel.ts'

export type Target = { port?: number; store?: 'postgres' | 'redis'; copy?: number }
/** `variables`: what a program needs to connect. */
export type Forward = { port: number; variables: Record<string, string>; ended: Promise<unknown> }

export const HOST = '127.0.0.1'

/** The port is open while `work` runs. */
export async function withForward<Result>(
  { client, signal, out }: Session,
  deployment_id: string,
  target: Target,
  port: number,
  work: (forward: Forward) => Promise<Result>,
): Promise<Result> {
  const connections = new Map<number, Socket>()
  const onReset = (stream: number, reason: string) => {
    if (reason) out.note(reason)
    connections.get(stream)?.destroySoon()
    connections.delete(stream)
  }
  const tunnel = await openForward({ client, signal }, deployment_id, target, { onReset })
  const server = createServer({ allowHalfOpen: true }, socket => carry(socket, tunnel, connections))
  const failed = once(server, 'error').then(([error]) => Promise.reject(portFailure(error, port)))
  failed.catch(() => {})
  server.listen(port, HOST)
  try {
    await Promise.race([once(server, 'listening'), failed])
    const { port } = server.address() as AddressInfo
    return await work({ port, variables: variablesOf(target, tunnel.ready, port), ended: tunnel.ended })
  } finally {
    server.close()
    for (const socket of connections.values()) socket.destroy()
    tunnel.link.close()
  }
}

/** `onReset` hears of each connection that ends. */
export const openForward = (
  { client, signal }: Pick<Session, 'client' | 'signal'>,
  deployment_id: string,
  body: Target | { snapshot_id: string },
  { onReset }: { onReset: (stream: number, reason: string) => void },
): Promise<OpenTunnel> => {
  const route = 'POST /v2/deployments/{deployment_id}/forwards'
  const ask = async () => (await client.call(route, { params: { deployment_id }, body, signal })).url
  return openTunnel(ask, { signal, isRepeatable: true, onReset })
}

/** Numbers of closed connections are used again, the oldest first. */
function carry(socket: Socket, { link }: OpenTunnel, connections: Map<number, Socket>): void {
  socket.on('error', () => {})
  const stream = nextStream(connections)
  if (stream === undefined) return void socket.destroy()
  connections.set(stream, socket)
  link.open(stream)
  link.readFrom(socket, stream)
  link.writeTo(socket, stream)
  socket.once('end', () => link.end(stream))
  socket.once('close', () => {
    if (connections.get(stream) === socket) {
      connections.delete(stream)
      link.send(encodeFrame(channels.reset, undefined, stream))
    }
    link.forget(stream)
  })
}

let lastStream = 0
function nextStream(taken: Map<number, unknown>): number | undefined {
  for (let i = 0; i < MAX_STREAMS; i++) {
    lastStream = (lastStream % MAX_STREAMS) + 1
    if (!taken.has(lastStream)) return lastStream
  }
  return undefined
}

function variablesOf({ store }: Target, { store: login }: Ready, port: number): Record<string, string> {
  const user = login?.user ?? ''
  const password = login?.password ?? ''
  const database = login?.database ?? ''
  const account = user || password ? `${encodeURIComponent(user)}:${encodeURIComponent(password)}@` : ''
  if (store === 'redis') return { REDIS_URL: `redis://${account}${HOST}:${port}/${database}` }
  if (store !== 'postgres') return { HOST, PORT: String(port) }
  const url = `postgres://${account}${HOST}:${port}/${encodeURIComponent(database)}`
  return {
    DATABASE_URL: url,
    DATABASE_URI: url,
    PGHOST: HOST,
    PGPORT: String(port),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
  }
}

/** Ends with its exit code, or with a failure if the connection ends first. */
export async function runProgram([program, ...args]: string[], { variables, ended }: Forward): Promise<number> {
  return Promise.race([runWith(program!, args, variables), ended.then(() => EXIT.failed)])
}

async function runWith(program: string, args: string[], variables: Record<string, string>): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...variables } })
  // It gets the Ctrl-C of the terminal, too.
  const [code, signal] = await once(child, 'exit').catch(error => {
    throw new CommandFailure(EXIT.failed, 'program_not_started', `${program} cannot be started: ${error.message}.`)
  })
  return signal ? 128 + constants.signals[signal as NodeJS.Signals] : (code as number)
}

const portFailure = ({ message }: Error, port: number) =>
  new CommandFailure(EXIT.failed, 'port_taken', `Cannot listen on port ${port}: ${message}.`)
