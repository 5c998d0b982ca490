// Commands in a container by the exec of the engine's API: their output, and connections to a port inside.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { addAbortSignal, Duplex, PassThrough, type Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Exit } from '../../../protocol/tunnel-frames.ts'
import type { DockerApi } from '../../images/docker-api.ts'

const HEADER_BYTES = 8
const STDERR_STREAM = 2
export const POLL_MS = 50
export const MAX_POLLS = 100
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024
const COMMAND_MS = 600_000
const LAST_CHARACTERS = 16 * 1024

/**
 * Most images have one of both. An image without either gets no connections. It waits for the one that it kills: an
 * orphan would be a child of Postgres, which is the first process there and takes its end for a crash of a server.
 */
const RELAY = `command -v nc >/dev/null && exec nc 127.0.0.1 "$0"
exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0 && { cat <&3 & cat >&3; kill $! 2>/dev/null; wait; }' "$0"`

export type RunningCommand = { output: Readable; errors: Readable; exit: Promise<Exit> }

/** `user`: by default that of the image. */
export async function startCommand(
  api: DockerApi,
  container: string,
  Cmd: string[],
  user?: string,
): Promise<RunningCommand> {
  const request = { Cmd, Tty: false, Env: [], ...(user && { User: user }) }
  const { id, socket } = await api.attachExec(container, request)
  socket.on('error', () => {})
  const { output, errors, ended } = splitFrames(socket)
  // A reader that stops ends the connection. The command may run on.
  output.once('close', () => socket.destroy())
  return { output, errors, exit: ended.then(() => readExit(api, id)) }
}

/**
 * Its output, which a program of the container can make endless. Rejects with the last of its messages if its code is
 * not 0.
 */
export async function runCommand(api: DockerApi, container: string, Cmd: string[]): Promise<string> {
  const { output, errors, exit } = await startCommand(api, container, Cmd)
  const signal = AbortSignal.timeout(COMMAND_MS)
  const [printed, problems] = await Promise.all([readBounded(output, signal), readBounded(errors, signal)])
  const { code } = await exit
  if (code === 0) return printed
  throw new Error(`${Cmd.slice(0, 3).join(' ')} ended with ${code}: ${problems.trim().slice(-500)}`)
}

async function readBounded(from: Readable, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of addAbortSignal(signal, from) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_OUTPUT_BYTES) throw new Error(`A command printed more than ${MAX_OUTPUT_BYTES} bytes.`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The end of what it sends until it ends. */
export async function readLast(from: Readable): Promise<string> {
  let last = ''
  for await (const chunk of from) last = (last + chunk).slice(-LAST_CHARACTERS)
  return last
}

/** A connection to a port that listens inside of a container, which no port of the machine leads to. */
export async function connectInside(api: DockerApi, container: string, port: number): Promise<Duplex> {
  const request = { Cmd: ['sh', '-c', RELAY, String(port)], Tty: false, Env: [] }
  const { socket } = await api.attachExec(container, request)
  const { output, errors } = splitFrames(socket)
  errors.resume()
  return Duplex.from({ writable: socket, readable: output })
}

/** A port of the loopback address that leads into the container until `close`. It cuts off what sends more. */
export async function openProxy(
  api: DockerApi,
  container: string,
  port: number,
  max_bytes = Number.POSITIVE_INFINITY,
): Promise<{ port: number; close: () => void }> {
  const server = createServer({ allowHalfOpen: true }, async socket => {
    socket.on('error', () => {})
    try {
      const inside = await connectInside(api, container, port)
      inside.on('error', () => socket.destroy())
      socket.on('close', () => inside.destroy())
      let bytes = 0
      inside.on('data', chunk => {
        bytes += chunk.length
        if (bytes > max_bytes) socket.destroy()
      })
      socket.pipe(inside).pipe(socket)
    } catch {
      socket.destroy()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}

/** Without a terminal, the engine sends both outputs in frames: a byte for the stream, and four for the length. */
export function splitFrames(socket: Readable) {
  const output = new PassThrough()
  const errors = new PassThrough()
  const split = async () => {
    let left = 0
    let target = output
    let buffered: Buffer = Buffer.alloc(0)
    for await (const chunk of socket) {
      buffered = buffered.length > 0 ? Buffer.concat([buffered, chunk]) : chunk
      while (buffered.length > 0) {
        if (left === 0) {
          if (buffered.length < HEADER_BYTES) break
          target = buffered[0] === STDERR_STREAM ? errors : output
          left = buffered.readUInt32BE(4)
          buffered = buffered.subarray(HEADER_BYTES)
          continue
        }
        const part = buffered.subarray(0, left)
        buffered = buffered.subarray(part.length)
        left -= part.length
        if (!target.write(part)) await new Promise(resolve => target.once('drain', resolve))
      }
    }
  }
  const ended = split()
    .catch(() => {})
    .then(() => {
      output.end()
      errors.end()
    })
  return { output, errors, ended }
}

/** The output may end a moment before the engine knows the code. */
export async function readExit(api: DockerApi, exec: string): Promise<Exit> {
  for (let i = 0; i < MAX_POLLS; i++) {
    const state = await api
      .get<{ Running: boolean; ExitCode: number | null }>(`/exec/${exec}/json`)
      .catch(() => undefined)
    // It is gone with its container.
    if (!state) return { code: null, signal: 'SIGKILL' }
    if (!state.Running) return { code: state.ExitCode, signal: null }
    await delay(POLL_MS)
  }
  return { code: null, signal: 'SIGKILL' }
}
