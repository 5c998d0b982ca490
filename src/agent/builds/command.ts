// Runs one command of a build in a process group of its own: its lines told as they come, ended by interruption, time or size.
import * as fs from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { Lines } from '../engines/container/frames.ts'
import { type Task, Unworkable } from '../engines/engine.ts'
import { sizeOf } from '../files.ts'
import { withLast } from '../last-lines.ts'
import { endEscaped, spawnMarked } from '../marked.ts'
import { cutLine } from '../places.ts'
import { endGroup } from '../processes.ts'

const BUILD_MS = 15 * 60_000
const GRACE_MS = 5_000
const MEASURE_MS = 2_000
const LINES = 20_000
const LONGEST = 16 * 1024
/** Kept for the sentence of a failure, which leaves some of them out. */
const LAST_LINES = 40

type Options = {
  cwd: string
  env: Record<string, string>
  revision: string
  task: Pick<Task, 'log' | 'signal' | 'running'>
  /** How a failure is told of. */
  what: string
  disk_mb?: number
  time_ms?: number
  /** Takes what it writes to its standard output, instead of the log. */
  output?: (line: string) => void
  /** What a line reads like for everybody else. */
  hide?: (line: string) => string
}

export async function runCommand(command: string[], options: Options): Promise<void> {
  const { cwd, task, what, disk_mb, time_ms = BUILD_MS, output, hide = line => line } = options
  task.signal.throwIfAborted()
  fs.rmSync(task.running, { recursive: true, force: true })
  const env = { ...options.env, SLIPWAY_REVISION_ID: options.revision }
  const { child } = spawnMarked(task.running, command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const last: string[] = []
  let count = 0
  const say = (line: string) => {
    const cut = cutLine(hide(line), LONGEST)
    last.push(cut)
    last.splice(0, Math.max(0, last.length - LAST_LINES))
    if (++count < LINES) task.log(cut)
    else if (count === LINES) task.log(`… its further lines are left out.`, 'WARNING')
  }
  const closed = new Promise(resolve => child.once('close', resolve))
  follow(child.stdout!, output ? line => output(hide(line)) : say)
  follow(child.stderr!, say)

  let ended: string | undefined
  const end = (reason: string) => {
    ended ??= reason
    if (child.pid) void endGroup(child.pid, GRACE_MS)
  }
  const interrupted = () => end('was interrupted')
  task.signal.addEventListener('abort', interrupted)
  const late = setTimeout(
    () =>
      end(
        `did not end within ${time_ms < 60_000 ? `${Math.round(time_ms / 1000)} s` : `${Math.round(time_ms / 60_000)} minutes`}, and was stopped`,
      ),
    time_ms,
  )
  const measuring = disk_mb
    ? setInterval(async () => {
        if ((await sizeOf(cwd, disk_mb)) > disk_mb) end(`wrote more than the ${disk_mb} MB that a build may`)
      }, MEASURE_MS)
    : undefined
  try {
    const [code, signal] = await new Promise<[number | null, string | null]>(resolve => {
      child.once('exit', (code, signal) => resolve([code, signal]))
      child.once('error', error => {
        say(error.message)
        resolve([127, null])
      })
    })
    // What it left running in the background does not outlive it, nor is anybody waited for who could still write.
    if (child.pid) await endGroup(child.pid, 0)
    endEscaped(options.revision)
    await Promise.race([closed, delay(GRACE_MS, undefined, { ref: false })])
    for (const stream of [child.stdout!, child.stderr!]) stream.destroy()
    task.signal.throwIfAborted()
    if (disk_mb && !ended && (await sizeOf(cwd, disk_mb)) > disk_mb)
      ended = `wrote more than the ${disk_mb} MB that a build may`
    if (ended || code !== 0) {
      const why =
        ended ??
        (signal
          ? `was killed by ${signal}`
          : `ended with code ${code}${code === 127 ? ', which means that a program was not found' : ''}`)
      throw new Unworkable(withLast(`${what} ${why}.`, last))
    }
  } finally {
    fs.rmSync(task.running, { recursive: true, force: true })
    clearTimeout(late)
    clearInterval(measuring)
    task.signal.removeEventListener('abort', interrupted)
  }
}

/** A line that never ends costs no more than what is told of it. */
function follow(stream: Readable, told: (line: string) => void): void {
  const lines = new Lines(2 * LONGEST, { blank: true })
  stream.on('data', chunk => lines.push(chunk).forEach(told))
  stream.once('end', () => lines.end().forEach(told))
}
