// The exec and portforward subresources of pods over WebSockets: each message is a channel in one byte, and bytes.
import { Duplex, PassThrough, type Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import type { KubeConfig } from '@kubernetes/client-node'
import { WebSocket } from 'ws'
import type { Exit } from '../../../protocol/tunnel-frames.ts'
import type { NewTerminal } from '../../../protocol/tunnels.schema.ts'
import { PermanentError, type Terminal } from '../../engine.ts'
import { markOf, signalCommand } from '../marked-processes.ts'
import { DEFAULT_SHELL, SIGNALS, TERMINAL_NAME } from '../process/terminal.ts'

export type PodRef = { namespace: string; pod: string; container: string }

/** Servers before 1.30 have the second one alone, in which a client cannot end the input. */
const [WITH_CLOSE, WITHOUT_CLOSE] = ['v5.channel.k8s.io', 'v4.channel.k8s.io'] as const
const [INPUT, OUTPUT, ERRORS, STATUS, RESIZE, CLOSE] = [0, 1, 2, 3, 4, 255] as const
/** Channels of a forwarded port: its bytes, and what went wrong. The first message of each has the port. */
const [DATA, FAULT] = [0, 1] as const
const PORT_BYTES = 2
const CONNECT_MS = 15_000
const GRACE_MS = 2000
const SIGNAL_MS = 5000
const END_OF_INPUT = Buffer.from([4])
/** Sets what the API cannot set. */
const ENTER = 'export "$1"; [ -z "$2" ] || export TERM="$2"; shift 2; exec "$@"'

/** It is paused, until its reader listens. */
async function openSocket(config: KubeConfig, path: string, query: URLSearchParams, protocols: string[]) {
  const options = { handshakeTimeout: CONNECT_MS, perMessageDeflate: false }
  await config.applyToHTTPSOptions(options)
  const url = `${config.getCurrentCluster()!.server.replace(/^http/, 'ws')}${path}?${query}`
  const socket = new WebSocket(url, protocols, options)
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => {
      socket.pause()
      resolve()
    })
    socket.once('error', error => reject(new PermanentError(`The cluster cannot be reached: ${error.message}.`)))
    socket.once('unexpected-response', (_, answer) => {
      void text(answer)
        .catch(() => '')
        .then(body => reject(new PermanentError(describeRefusal(answer.statusCode!, body))))
    })
  }).catch(error => {
    socket.on('error', () => {})
    socket.terminate()
    throw error
  })
  socket.on('error', () => {})
  return socket
}

function describeRefusal(status: number, body: string): string {
  const message = messageOf(body)
  const remedy = 'Ask its operator to grant `create` and `get` of pods/exec and pods/portforward to the agent.'
  if (status === 401 || status === 403) return `The cluster refuses it: ${message}. ${remedy}`
  return `The cluster answered ${status}: ${message}.`
}

function messageOf(body: string): string {
  try {
    return String(JSON.parse(body).message)
  } catch {
    return body.slice(0, 200) || 'no reason is known'
  }
}

const send = (socket: WebSocket, channel: number, bytes: Uint8Array, done: (error?: Error | null) => void = () => {}) =>
  socket.send(Buffer.concat([Buffer.of(channel), bytes]), done)

/** The socket is not read while the stream is full. */
function writeSlowly(socket: WebSocket, stream: Writable, bytes: Buffer): void {
  if (stream.writableEnded || stream.destroyed || stream.write(bytes)) return
  socket.pause()
  stream.once('drain', () => socket.resume())
}

function openExec(config: KubeConfig, { namespace, pod, container }: PodRef, command: string[], tty: boolean) {
  const query = new URLSearchParams({ container, stdin: 'true', stdout: 'true', tty: String(tty) })
  if (!tty) query.set('stderr', 'true')
  for (const word of command) query.append('command', word)
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/exec`
  return openSocket(config, path, query, [WITH_CLOSE, WITHOUT_CLOSE])
}

export async function startPodTerminal(
  config: KubeConfig,
  ref: PodRef,
  id: string,
  { command, tty, columns, rows }: NewTerminal,
): Promise<Terminal> {
  const entered = ['/bin/sh', '-c', ENTER, 'sh', markOf(id), tty ? TERMINAL_NAME : '', ...(command ?? DEFAULT_SHELL)]
  const socket = await openExec(config, ref, entered, tty)
  const resize = (size: { columns: number; rows: number }) =>
    send(socket, RESIZE, Buffer.from(JSON.stringify({ Width: size.columns, Height: size.rows })))
  if (tty) resize({ columns, rows })
  const { output, errors, exit } = readExec(socket, tty)
  const signal = async (name: string) => {
    const sent = await openExec(config, ref, signalCommand(name, id), false).catch(() => undefined)
    if (!sent) return
    const ended = new Promise(resolve => sent.once('close', resolve))
    readExec(sent, false).output.resume()
    await Promise.race([ended, delay(SIGNAL_MS, undefined, { ref: false })])
    sent.terminate()
  }
  return {
    input: new Writable({
      write: (chunk, _, done) => send(socket, INPUT, chunk, done),
      final: done => {
        if (tty) send(socket, INPUT, END_OF_INPUT, done)
        else if (socket.protocol === WITH_CLOSE) send(socket, CLOSE, Buffer.of(INPUT), done)
        else done(new Error('This cluster cannot end the input of a command.'))
      },
    }),
    output,
    errors,
    resize,
    signal: name => void (SIGNALS.test(name) && signal(name)),
    exit,
    async close() {
      if (socket.readyState === WebSocket.OPEN) {
        await signal('SIGHUP')
        await Promise.race([exit, delay(GRACE_MS, undefined, { ref: false })])
        await signal('SIGKILL')
      }
      socket.terminate()
    },
  }
}

function readExec(socket: WebSocket, tty: boolean): { output: Readable; errors: Readable | null; exit: Promise<Exit> } {
  const output = new PassThrough()
  const errors = tty ? null : new PassThrough()
  const { promise: exit, resolve } = Promise.withResolvers<Exit>()
  socket.on('message', (message: Buffer) => {
    const bytes = message.subarray(1)
    if (message[0] === OUTPUT) writeSlowly(socket, output, bytes)
    else if (message[0] === ERRORS && errors) writeSlowly(socket, errors, bytes)
    else if (message[0] === STATUS) {
      resolve(readStatus(bytes.toString()))
      socket.close()
    }
  })
  socket.once('close', () => {
    output.end()
    errors?.end()
    // It went with its pod.
    resolve({ code: null, signal: 'SIGKILL' })
  })
  socket.resume()
  return { output, errors, exit }
}

type Status = { status?: string; details?: { causes?: { reason?: string; message?: string }[] } }
function readStatus(json: string): Exit {
  try {
    const { status, details } = JSON.parse(json) as Status
    if (status === 'Success') return { code: 0, signal: null }
    const code = Number(details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message)
    return { code: Number.isInteger(code) ? code : 126, signal: null }
  } catch {
    return { code: 126, signal: null }
  }
}

/** A connection to a port of a pod. The server ends it: this protocol has no half-closed ones. */
export async function connectToPod(
  config: KubeConfig,
  { namespace, pod }: Omit<PodRef, 'container'>,
  port: number,
): Promise<Duplex> {
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/portforward`
  const socket = await openSocket(config, path, new URLSearchParams({ ports: String(port) }), [WITHOUT_CLOSE])
  const begun = new Set<number>()
  const duplex = new Duplex({
    allowHalfOpen: false,
    read: () => socket.resume(),
    write: (chunk, _, done) => send(socket, DATA, chunk, done),
    final: done => done(),
    destroy(error, done) {
      socket.terminate()
      done(error)
    },
  })
  socket.on('message', (message: Buffer) => {
    const channel = message[0]!
    const bytes = message.subarray(begun.has(channel) ? 1 : 1 + PORT_BYTES)
    begun.add(channel)
    if (bytes.length === 0) return
    if (channel === FAULT) duplex.destroy(new Error(`Nothing listens there: ${bytes.toString().slice(0, 200)}`))
    else if (channel === DATA && !duplex.push(bytes)) socket.pause()
  })
  socket.once('close', () => duplex.push(null))
  socket.resume()
  return duplex
}
