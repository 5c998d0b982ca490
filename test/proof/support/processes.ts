// Starts processes, each in a group of its own. A group ends as a whole with its bench, and with this process at the
// latest.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'

export type Cleanup = { defer(end: () => unknown): void }
export type StartedProcess = {
  child: ChildProcess
  /** Rejects when the process ends by itself. */
  broken: Promise<never>
  end(): Promise<void>
}

const STOP_TIMEOUT_MS = 15_000

/** Functions that each kill a process that runs. */
const kills = new Set<() => void>()
process.once('exit', () => {
  for (const kill of kills) kill()
})

export function startProcess(
  cleanup: Cleanup,
  command: string,
  args: string[],
  options: SpawnOptions = {},
): StartedProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options, detached: true })
  let isRunning = true
  const signal = (name: NodeJS.Signals) => {
    try {
      // The id of a process that has ended may belong to another one.
      if (isRunning && child.pid) process.kill(-child.pid, name)
    } catch {
      // It has just ended.
    }
  }
  const kill = () => signal('SIGKILL')
  kills.add(kill)

  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    stderr = (stderr + text).slice(-2000)
  })
  const ended = once(child, 'close').catch(error => [error.message])
  ended.then(() => {
    isRunning = false
    kills.delete(kill)
  })
  const broken = ended.then(([code]): never => {
    throw new Error(`${command.split('/').at(-1)} ended (${code}): ${stderr.trim()}`)
  })
  broken.catch(() => {})

  const end = async () => {
    signal('SIGTERM')
    await Promise.race([ended, delay(STOP_TIMEOUT_MS, undefined, { ref: false }).then(kill)])
    await ended
  }
  cleanup.defer(end)
  return { child, broken, end }
}

/** Runs a command to its end and returns its standard output. */
export async function runForOutput(cleanup: Cleanup, command: string, args: string[], options: SpawnOptions = {}) {
  const { child, broken } = startProcess(cleanup, command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  child.stdout!.setEncoding('utf8').on('data', part => {
    text += part
  })
  const [code] = await once(child, 'close')
  return code === 0 ? text : broken
}
