// A command in the container of a copy, with a terminal or with pipes, by the exec of the engine's API.
import { type Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { NewTerminal, Size } from '../../../protocol/tunnels.schema.ts'
import { PermanentError, type Terminal } from '../../engine.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { markOf, signalCommand } from '../marked-processes.ts'
import { DEFAULT_SHELL, SIGNALS, TERMINAL_NAME } from '../process/terminal.ts'
import { MAX_POLLS, POLL_MS, readExit, splitFrames } from './exec.ts'

const GRACE_MS = 2000

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
