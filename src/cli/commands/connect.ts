// `slipway connect`: a local port that leads to one of a copy, or to the database or cache of a deployment.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { constants } from 'node:os'
import { channels, encodeFrame, MAX_STREAMS, type Ready } from '../../protocol/tunnel-frames.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { findDeployment, type Session } from '../session.ts'
import { type OpenTunnel, openTunnel, splitProgram } from '../tunnel.ts'
import { parseCopy } from './exec.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <target>',
  summary: 'connect to a port, the database or the cache of a deployment',
  description:
    'Listens on a local port and connects to a port of a copy (`8000`, or `web` for its own), `postgres` or `redis`. ' +
    'With a program after `--`, runs it with the variables of the store, such as `connect shop postgres -- psql`.',
  options: command =>
    command
      .argument('[program...]')
      .option('--port <port>', 'the local port. Default: a free one')
      .option('--copy <number>', 'the copy, from 1. Default: the first that runs'),
}

type Flags = { port?: string; copy?: string }
type Target = { port?: number; store?: 'postgres' | 'redis' }
const HOST = '127.0.0.1'

export async function run(session: Session, flags: Flags, args: (string | undefined)[]): Promise<void> {
  const [own, program] = splitProgram(args)
  const [name, wanted] = own.length === 1 ? [undefined, own[0]] : own
  const target = parseTarget(wanted!)
  const { client, signal, out } = session
  const deployment = await findDeployment(session, name)
  const { url } = await client.call('POST /v2/deployments/{deployment_id}/forwards', {
    params: { deployment_id: deployment.id },
    body: { ...target, ...(flags.copy !== undefined && { copy: parseCopy(flags.copy) }) },
    signal,
  })
  const connections = new Map<number, Socket>()
  const onReset = (stream: number, reason: string) => {
    if (reason) out.note(reason)
    connections.get(stream)?.destroySoon()
    connections.delete(stream)
  }
  const tunnel = await openTunnel(url, { onReset })
  const server = createServer({ allowHalfOpen: true }, socket => carry(socket, tunnel, connections))
  const failed = once(server, 'error').then(([error]) => Promise.reject(portFailure(error, flags.port)))
  failed.catch(() => {})
  server.listen(parsePort(flags.port), HOST)
  try {
    await Promise.race([once(server, 'listening'), failed])
    const { port } = server.address() as AddressInfo
    const variables = variablesOf(target, tunnel.ready, port)
    if (program.length === 0) {
      const address = variables.DATABASE_URL ?? variables.REDIS_URL ?? `${HOST}:${port}`
      out.emit({ type: 'listening', host: HOST, port, url: address }, () => address)
      out.note('Until Ctrl-C.')
      await Promise.race([tunnel.ended, interrupted(signal)])
    } else process.exitCode = await Promise.race([runProgram(program, variables), tunnel.ended.then(() => EXIT.failed)])
  } finally {
    server.close()
    for (const socket of connections.values()) socket.destroy()
    tunnel.link.close()
  }
}

/** Numbers of closed connections are used again, the oldest first. */
function carry(socket: Socket, { link }: OpenTunnel, connections: Map<number, Socket>): void {
  socket.on('error', () => {})
  const stream = nextStream(connections)
  if (stream === undefined) return void socket.destroy()
  connections.set(stream, socket)
  link.send(encodeFrame(channels.open, undefined, stream))
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

async function runProgram([program, ...args]: string[], variables: Record<string, string>): Promise<number> {
  const child = spawn(program!, args, { stdio: 'inherit', env: { ...process.env, ...variables } })
  // It gets the Ctrl-C of the terminal, too.
  const [code, signal] = await once(child, 'exit').catch(error => {
    throw new CommandFailure(EXIT.failed, 'program_not_started', `${program} cannot be started: ${error.message}.`)
  })
  return signal ? 128 + constants.signals[signal as NodeJS.Signals] : (code as number)
}

function parseTarget(text: string): Target {
  if (text === 'web') return {}
  if (text === 'postgres' || text === 'redis') return { store: text }
  if (/^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) <= 65_535) return { port: Number(text) }
  throw usageError(`${text} is none of web, postgres, redis and a port.`)
}

function parsePort(text = '0'): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw usageError(`--port ${text} is not a port.`)
}

const portFailure = ({ message }: Error, port = '') =>
  new CommandFailure(EXIT.failed, 'port_taken', `Cannot listen on port ${port}: ${message}.`)

const interrupted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => signal.addEventListener('abort', () => resolve()))
