// Runs a part of the proof as a process group, with a limit on its time.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { type Part, ROOT } from '../parts.ts'
import { type Counts, readCounts, readReasons } from './counts.ts'

const GRACE_MS = 10_000

export type PartResult = Counts & {
  name: string
  /** Set if it has failed. */
  error?: string
  /** The reasons for what was skipped. */
  reasons: string[]
  seconds: number
}
type Options = { isInstalling: boolean; minutes: number; logFile: string; isShown: boolean }

let running: ChildProcess | undefined

/** A part leads a process group, so what it started ends with it. */
function signal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, name)
  } catch {
    // The group has ended.
  }
}
export const stopRunningPart = (): void => {
  if (running) signal(running, 'SIGTERM')
}

export async function runPart(part: Part, { isInstalling, minutes, logFile, isShown }: Options): Promise<PartResult> {
  const start = performance.now()
  const end = (counts: Partial<Counts>, more: { reasons?: string[]; error?: string } = {}): PartResult => ({
    ...{ name: part.name, passed: 0, failed: 0, skipped: 0, reasons: [], ...counts, ...more },
    seconds: Math.round((performance.now() - start) / 1000),
  })
  const obstacle = part.findObstacle?.()
  if (obstacle && !isInstalling) return end({ skipped: 1 }, { reasons: [`${obstacle}: --install`] })
  if (obstacle) {
    try {
      const [program, ...args] = part.install!
      execFileSync(program!, args, { cwd: ROOT, stdio: isShown ? 'inherit' : 'ignore' })
    } catch (error) {
      return end({ skipped: 1 }, { reasons: [`${obstacle}, and cannot be installed: ${(error as Error).message}`] })
    }
  }

  const [program, ...args] = [...part.command, ...(part.takesInstall && isInstalling ? ['--install'] : [])]
  const env = { ...process.env, ...part.env }
  const child = spawn(program!, args, { cwd: ROOT, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  running = child
  const log = createWriteStream(logFile)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      log.write(text)
      if (isShown) process.stdout.write(text)
    })
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    signal(child, 'SIGTERM')
    setTimeout(() => signal(child, 'SIGKILL'), GRACE_MS).unref()
  }, minutes * 60_000)
  // The pipes close when the last process of the group has ended.
  const [status] = await once(child, 'close').catch((error: Error) => [error.message])
  clearTimeout(limit)
  running = undefined
  log.end()
  await finished(log)

  const counts = readCounts(output)
  const reasons = readReasons(output)
  if (isLate) return end({ ...counts }, { reasons, error: `it was stopped after ${minutes} minutes` })
  if (!counts) return end({}, { reasons, error: `it printed no count, and ended with ${status}` })
  if (counts.failed > 0) return end(counts, { reasons, error: `${counts.failed} failed` })
  return end(counts, { reasons, ...(status !== 0 && { error: `it ended with ${status}` }) })
}
