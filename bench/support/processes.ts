// Owns the processes that benches start: each in a group of its own, ended as a whole with the bench, and by our exit at the latest.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'

export type Cleanup = { defer(end: () => unknown): void }
type StartedProcess = {
  child: ChildProcess
  /** Settles with the reason when it ends before it is ended. */
  broken: Promise<never>
  end(): Promise<void>
}

const STOP_TIMEOUT_MS = 15_000

export function startProcess(
  ending: Cleanup,
  command: string,
  args: string[],
  options: SpawnOptions = {},
): StartedProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options, detached: true })
  let living = true
  const signal = (name: NodeJS.Signals) => {
    try {
      // Once it has gone, its id may be another's.
      if (living && child.pid) process.kill(-child.pid, name)
    } catch {
      // It is about to go.
    }
  }
  const killWithUs = () => signal('SIGKILL')
  process.once('exit', killWithUs)

  let said = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    said = (said + text).slice(-2000)
  })
  const gone = once(child, 'close').catch(error => [error.message])
  gone.then(() => {
    living = false
    process.off('exit', killWithUs)
  })
  const broken = gone.then(([code]): never => {
    throw new Error(`${command.split('/').at(-1)} ended (${code}): ${said.trim()}`)
  })
  broken.catch(() => {})

  const end = async () => {
    signal('SIGTERM')
    await Promise.race([gone, delay(STOP_TIMEOUT_MS, undefined, { ref: false }).then(killWithUs)])
    await gone
  }
  ending.defer(end)
  return { child, broken, end }
}

/** Runs a command to its end and returns what it says. */
export async function runForOutput(ending: Cleanup, command: string, args: string[], options: SpawnOptions = {}) {
  const { child, broken } = startProcess(ending, command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  child.stdout!.setEncoding('utf8').on('data', part => {
    text += part
  })
  const [code] = await once(child, 'close')
  return code === 0 ? text : broken
}
