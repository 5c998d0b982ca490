// A command beside a copy that is a process: as its user, in its folder and cgroup, with a terminal or with pipes.
import { type ChildProcessByStdio, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { type Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Exit } from '../../../protocol/tunnel-frames.ts'
import type { NewTerminal } from '../../../protocol/tunnels.schema.ts'
import { PermanentError, type Terminal } from '../../engine.ts'
import { makeNestedCgroup, moveIntoCgroup, removeCgroup } from '../../system/cgroups.ts'
import { identityOf, sendSignal } from '../../system/processes.ts'
import { confine, TrackedProcess, WAIT_SCRIPT } from '../../system/tracked-process.ts'
import type { User } from '../../system/users.ts'
import type { FromPty, ToPty } from './pty-main.ts'

export const DEFAULT_SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash || exec sh']
const PTY_MAIN = fileURLToPath(new URL('./pty-main.ts', import.meta.url))
/** The descriptor of the bytes of a terminal, for `pty-main.ts`. */
const WIRE = 4
export const TERMINAL_NAME = 'xterm-256color'
/** Between the hang-up and the kill. */
const GRACE_MS = 2000
export const SIGNALS = /^SIG(HUP|INT|QUIT|TERM|KILL|USR1|USR2|TSTP|CONT|WINCH)$/

type Place = {
  id: string
  cwd: string
  env: Record<string, string>
  user: User | undefined
  /** The cgroup of the copy, so that its limits hold for the command, too. */
  cgroup: string | undefined
}

/** The module of terminals has a binary for each platform. Undefined where there is none. */
export const loadPty = () => import('@lydell/node-pty').catch(() => undefined)

export async function startTerminal(request: NewTerminal, copyPlace: Place): Promise<Terminal> {
  // Below that of the copy, its processes cannot leave it, and all end with it.
  const cgroup = copyPlace.cgroup && makeNestedCgroup(copyPlace.cgroup, `terminal-${copyPlace.id}`)
  const place = { ...copyPlace, cgroup }
  // All its processes have it, so that they are found.
  const mark = { SLIPWAY_TERMINAL_ID: place.id }
  const terminalName = request.tty ? { TERM: TERMINAL_NAME } : {}
  const { argv, env } = confine(
    request.command ?? DEFAULT_SHELL,
    { ...terminalName, ...place.env, ...mark },
    place.user,
    request.tty ? [] : [WAIT_SCRIPT],
  )
  const started = request.tty
    ? await startWithPty(argv, env as Record<string, string>, request, place)
    : startWithPipes(argv, env, place)
  const tracked = new TrackedProcess({ environment: [`SLIPWAY_TERMINAL_ID=${place.id}`] }, identityOf(started.pid))
  let isOver = false
  const end = () => {
    isOver = true
  }
  started.exit.then(end, end)
  // The tunnel may stay open for long after the end, when the group of that number is another one.
  const signal = (name: string) => {
    if (!isOver && SIGNALS.test(name)) sendSignal(-started.pid, name as NodeJS.Signals)
  }
  return {
    ...started,
    signal,
    async close() {
      signal('SIGHUP')
      await Promise.race([started.exit, delay(GRACE_MS, undefined, { ref: false })])
      await tracked.end(0)
      if (cgroup) await removeCgroup(cgroup)
      started.release?.()
    },
  }
}

type Started = Omit<Terminal, 'signal' | 'close'> & { pid: number; release?: () => void }

async function startWithPty(
  argv: string[],
  env: Record<string, string>,
  { columns, rows }: NewTerminal,
  { cwd, user, cgroup }: Place,
): Promise<Started> {
  if (!(await loadPty())) throw new PermanentError('The machine of the agent has no pseudo-terminals. Use `--no-tty`.')
  const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'ipc']
  stdio[WIRE] = 'pipe'
  // Nothing of the agent's own environment, which holds its key.
  const holder = spawn(process.execPath, [PTY_MAIN], { stdio, env: {} })
  const wire = holder.stdio[WIRE] as Socket
  wire.on('error', () => {})
  const started = Promise.withResolvers<number>()
  const exit = Promise.withResolvers<Exit>()
  holder.on('message', (message: FromPty) => {
    if ('pid' in message) return started.resolve(message.pid)
    const { exitCode, signal } = message
    exit.resolve(signal ? { code: null, signal: signalName(signal) } : { code: exitCode, signal: null })
  })
  const handleEnd = () => {
    started.reject(new PermanentError('The terminal could not be opened.'))
    exit.resolve({ code: null, signal: 'SIGHUP' })
  }
  holder.once('error', handleEnd)
  holder.once('exit', handleEnd)
  const options = { name: TERMINAL_NAME, cols: columns, rows, cwd, env }
  holder.send({ argv, options, user, cgroup } satisfies ToPty, () => {})
  return {
    pid: await started.promise,
    input: createInput(wire),
    output: wire,
    errors: null,
    resize: size => void (holder.connected && holder.send(size, () => {})),
    exit: exit.promise,
    // It waits for a reader of the last output.
    release: () => void holder.kill('SIGKILL'),
  }
}

/** Waits until the bytes are taken. */
const createInput = (wire: Socket): Writable =>
  new Writable({
    write: (chunk, _, done) => void wire.write(chunk, () => done()),
    final: done => void wire.end(() => done()),
  })

function startWithPipes(argv: string[], env: NodeJS.ProcessEnv, { cwd, user, cgroup }: Place): Started {
  const stdio: StdioOptions = ['pipe', 'pipe', 'pipe', 'pipe']
  const child = spawn(argv[0]!, argv.slice(1), { cwd, env, ...user, stdio, detached: true }) as ChildProcessByStdio<
    Writable,
    Readable,
    Readable
  >
  if (child.pid === undefined) throw new PermanentError('The command could not be started.')
  if (cgroup !== undefined) moveIntoCgroup(cgroup, child.pid)
  const go = (child.stdio as unknown as Writable[])[3]!
  // A program may end before it has read all.
  for (const input of [child.stdin, go]) input.on('error', () => {})
  go.end('go\n')
  const exit = once(child, 'exit').then(([code, signal]): Exit => ({ code, signal }))
  return {
    pid: child.pid,
    input: child.stdin,
    output: child.stdout,
    errors: child.stderr,
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
