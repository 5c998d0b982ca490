// A command beside a copy that is a process: as its user, in its folder and cgroup, with a terminal or with pipes.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import type { Socket } from 'node:net'
import { PassThrough, type Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Exit } from '../../../protocol/tunnel-frames.ts'
import type { NewTerminal } from '../../../protocol/tunnels.schema.ts'
import { PermanentError, type Terminal } from '../../engine.ts'
import { identityOf, sendSignal } from '../../system/processes.ts'
import { confine, TrackedProcess } from '../../system/tracked-process.ts'
import type { User } from '../../system/users.ts'

export const DEFAULT_SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash || exec sh']
export const TERMINAL_NAME = 'xterm-256color'
/** Between the hang-up and the kill. */
const GRACE_MS = 2000
/** A process in the background may keep the output open. */
const OUTPUT_MS = 1000
export const SIGNALS = /^SIG(HUP|INT|QUIT|TERM|KILL|USR1|USR2|TSTP|CONT|WINCH)$/

type Place = {
  id: string
  cwd: string
  env: Record<string, string>
  user: User | undefined
  /** Called with the first process. */
  adopt: (pid: number) => void
}

/** The module of terminals has a binary for each platform. Undefined where there is none. */
export const loadPty = () => import('@lydell/node-pty').catch(() => undefined)

export async function startTerminal(request: NewTerminal, place: Place): Promise<Terminal> {
  // All its processes have it, so that they are found.
  const mark = { SLIPWAY_TERMINAL_ID: place.id }
  const terminalName = request.tty ? { TERM: TERMINAL_NAME } : {}
  const { argv, env } = confine(
    request.command ?? DEFAULT_SHELL,
    { ...terminalName, ...place.env, ...mark },
    place.user,
  )
  const started = request.tty ? await startWithPty(argv, env, request, place) : startWithPipes(argv, env, place)
  place.adopt(started.pid)
  const tracked = new TrackedProcess({ environment: [`SLIPWAY_TERMINAL_ID=${place.id}`] }, identityOf(started.pid))
  const signal = (name: string) => {
    if (SIGNALS.test(name)) sendSignal(-started.pid, name as NodeJS.Signals)
  }
  return {
    ...started,
    signal,
    async close() {
      signal('SIGHUP')
      await Promise.race([started.exit, delay(GRACE_MS, undefined, { ref: false })])
      await tracked.end(0)
    },
  }
}

type Started = Omit<Terminal, 'signal' | 'close'> & { pid: number }

async function startWithPty(
  argv: string[],
  env: NodeJS.ProcessEnv,
  request: NewTerminal,
  place: Place,
): Promise<Started> {
  const module = await loadPty()
  if (!module) throw new PermanentError('The machine of the agent has no pseudo-terminals. Use `--no-tty`.')
  const { columns, rows } = request
  const pty = module.spawn(argv[0]!, argv.slice(1), {
    name: TERMINAL_NAME,
    cols: columns,
    rows,
    cwd: place.cwd,
    env: env as Record<string, string>,
    encoding: null,
    ...place.user,
  })
  giveTerminal(pty.pid, place.user)
  const output = new PassThrough()
  pty.onData(data => {
    if (!output.write(data as unknown as Buffer)) pty.pause()
  })
  output.on('drain', () => pty.resume())
  const exit = new Promise<Exit>(resolve => {
    pty.onExit(({ exitCode, signal }) => {
      output.end()
      resolve(signal ? { code: null, signal: signalName(signal) } : { code: exitCode, signal: null })
    })
  })
  return {
    pid: pty.pid,
    input: createInput((pty as unknown as { _socket: Socket })._socket),
    output,
    errors: null,
    resize: size => ignoreEnded(() => pty.resize(size.columns, size.rows)),
    exit,
  }
}

/** Programs open their terminal again by its name. */
function giveTerminal(pid: number, user: User | undefined): void {
  if (!user) return
  try {
    fs.chownSync(fs.readlinkSync(`/proc/${pid}/fd/0`), user.uid, user.gid)
  } catch {
    // It has ended, or there is no /proc.
  }
}

const END_OF_INPUT = Buffer.from([4])

/** Waits until the program reads, which `write()` of the module does not tell. */
function createInput(socket: Socket): Writable {
  return new Writable({
    write: (chunk, _, done) => void socket.write(chunk, () => done()),
    // A terminal has no other end.
    final: done => void socket.write(END_OF_INPUT, () => done()),
  })
}

function startWithPipes(argv: string[], env: NodeJS.ProcessEnv, { cwd, user }: Place): Started {
  const child = spawn(argv[0]!, argv.slice(1), { cwd, env, ...user, stdio: 'pipe', detached: true })
  if (child.pid === undefined) throw new PermanentError('The command could not be started.')
  // A program may end before it has read all.
  child.stdin.on('error', () => {})
  const exit = (async (): Promise<Exit> => {
    const closed = once(child, 'close')
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
    await Promise.race([closed, delay(OUTPUT_MS, undefined, { ref: false })])
    return { code, signal }
  })()
  return {
    pid: child.pid,
    input: child.stdin,
    output: child.stdout,
    errors: child.stderr as Readable,
    resize() {},
    exit,
  }
}

const NUMBERS: Record<number, string> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  6: 'SIGABRT',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  15: 'SIGTERM',
}
const signalName = (number: number): string => NUMBERS[number] ?? `signal ${number}`

function ignoreEnded(act: () => void): void {
  try {
    act()
  } catch {
    // The command has ended.
  }
}
