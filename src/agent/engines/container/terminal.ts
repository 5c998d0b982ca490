// A command in the container of a copy, with a terminal or with pipes, by the exec of the engine's API.
import { Duplex, PassThrough, type Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Exit } from '../../../protocol/tunnel-frames.ts'
import type { NewTerminal, Size } from '../../../protocol/tunnels.schema.ts'
import { PermanentError, type Terminal } from '../../engine.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { markOf, signalCommand } from '../marked-processes.ts'
import { DEFAULT_SHELL, SIGNALS, TERMINAL_NAME } from '../process/terminal.ts'

const HEADER_BYTES = 8
const STDERR_STREAM = 2
const GRACE_MS = 2000
const POLL_MS = 50
const MAX_POLLS = 100

export async function startContainerTerminal(
  api: DockerApi,
  container: string,
  id: string,
  { command, tty, columns, rows }: NewTerminal,
): Promise<Terminal> {
  const env = [markOf(id), ...(tty ? [`TERM=${TERMINAL_NAME}`] : [])]
  const request = { Cmd: command ?? DEFAULT_SHELL, Tty: tty, Env: env }
  const { id: exec, socket } = await api.attachExec(container, request).catch(error => {
    if (error instanceof DockerApiError && error.status > 0) throw new PermanentError(error.message)
    throw error
  })
  let wanted: Size
  /** Engines refuse it until the command has started. A later size replaces an earlier one. */
  async function resize(size: Size): Promise<void> {
    wanted = size
    for (let i = 0; i < MAX_POLLS && wanted === size && !socket.destroyed; i++) {
      const request = api.post(`/exec/${exec}/resize`, undefined, { h: size.rows, w: size.columns })
      if (await request.then(() => true).catch(() => false)) return
      await delay(POLL_MS)
    }
  }
  if (tty) void resize({ columns, rows })
  const send = (name: string) => api.exec(container, signalCommand(name, id)).catch(() => -1)
  socket.on('error', () => {})
  const { output, errors, ended } = tty ? { output: socket, errors: null, ended: endOf(socket) } : splitFrames(socket)
  const exit = ended.then(() => readExit(api, exec))
  return {
    input: new Writable({
      write: (chunk, _, done) => void socket.write(chunk, () => done()),
      final: done => {
        if (tty) socket.write(Buffer.from([4]), () => done())
        else socket.end(done)
      },
    }),
    output,
    errors,
    resize: size => void resize(size),
    signal: name => void (SIGNALS.test(name) && send(name)),
    exit,
    async close() {
      await send('SIGHUP')
      await Promise.race([exit, delay(GRACE_MS, undefined, { ref: false })])
      await send('SIGKILL')
      socket.destroy()
    },
  }
}

const endOf = (stream: Readable): Promise<void> =>
  new Promise(resolve => {
    stream.once('end', resolve)
    stream.once('close', resolve)
  })

/** Without a terminal, the engine sends both outputs in frames: a byte for the stream, and four for the length. */
function splitFrames(socket: Readable) {
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
async function readExit(api: DockerApi, exec: string): Promise<Exit> {
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

/** Carries a connection from inside a container, whose address cannot be reached from every machine. */
const CARRY_SCRIPT = `if command -v bash >/dev/null; then
  exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0 || exit; cat <&3 & cat <&0 >&3 & wait -n; sleep 1; kill %1 %2' "$0"
fi
exec nc 127.0.0.1 "$0"`

/** A connection to a port that a program in the container listens on. */
export async function connectInContainer(api: DockerApi, container: string, port: number): Promise<Duplex> {
  const request = { Cmd: ['sh', '-c', CARRY_SCRIPT, String(port)], Tty: false, Env: [] }
  const { socket } = await api.attachExec(container, request)
  socket.on('error', () => {})
  const { output, errors } = splitFrames(socket)
  errors.resume()
  const writable = new Writable({
    write: (chunk, _, done) => void socket.write(chunk, () => done()),
    final: done => void socket.end(done),
  })
  const connection = Duplex.from({ readable: output, writable })
  connection.once('end', () => connection.destroy())
  connection.once('close', () => socket.destroy())
  return connection
}
