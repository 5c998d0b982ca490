// A control plane that runs as a platform would run it.
import { type ChildProcess, spawn } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { Settings } from './self-host.ts'

export type Instance = {
  url: string
  signal(name: NodeJS.Signals): Promise<void> | void
  /** The status of its end. */
  ended: Promise<number | null>
  output(): string
}

export type Command = { command: string; args: string[]; cwd: string; env: Settings }

/** The process is killed with the cleanup, if it still runs. */
export function startInstance(
  cleanup: AsyncDisposableStack,
  url: string,
  { command, args, cwd, env }: Command,
  signal: (child: ChildProcess, name: NodeJS.Signals) => Promise<void> | void = (child, name) => void child.kill(name),
): Instance {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => {
      text = (text + part).slice(-5000)
    })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  ended.catch(() => {})
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    await ended.catch(() => {})
  })
  return { url, signal: name => signal(child, name), ended, output: () => text }
}

/** Returns after how many milliseconds the path answered 200. */
export async function waitUntilReady(instance: Instance, path: string, ms: number): Promise<number> {
  const startedAt = Date.now()
  const ended = instance.ended.then(() => true)
  while (Date.now() - startedAt < ms) {
    const answer = await fetch(instance.url + path).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer?.status === 200) return Date.now() - startedAt
    if (await Promise.race([ended, delay(50, false)])) break
  }
  throw new Error(`${path} did not answer 200 within ${ms / 1000} s: ${instance.output()}`)
}
