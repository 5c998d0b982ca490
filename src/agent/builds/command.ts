// Runs one command of a build in a process group of its own: its lines told as they come, ended by interruption, time or size.
import * as fs from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { Lines } from '../engines/container/frames.ts'
import { type Task, Unworkable } from '../engines/engine.ts'
import { faultOf } from '../faults.ts'
import { sizeOf } from '../files.ts'
import { withLast } from '../last-lines.ts'
import { endRevision, spawnMarked } from '../marked.ts'
import { cutLine } from '../places.ts'
import type { User } from '../users.ts'

const BUILD_MS = 15 * 60_000
const GRACE_MS = 5_000
const MEASURE_MS = 2_000
/** How often what it started is looked at, to know it when it has detached. */
const WATCH_MS = 1_000
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
  /** As whom it runs, where that is not the agent's own user. */
  user?: User | undefined
  disk_mb?: number
  time_ms?: number
  /** Takes what it writes to its standard output, instead of the log. */
  output?: (line: string) => void
  /** What a line reads like for everybody else. */
  hide?: (line: string) => string
}

export async function runCommand(command: string[], options: Options): Promise<void> {
  const { cwd, task, what, user, disk_mb, time_ms = BUILD_MS, output, hide = line => line } = options
  task.signal.throwIfAborted()
  fs.rmSync(task.running, { recursive: true, force: true })
  const env = { ...options.env, SLIPWAY_REVISION_ID: options.revision }
  const marked = spawnMarked(task.running, command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] }, user)
  const { child } = marked
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
    void marked.end(GRACE_MS)
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
  let isMeasuring = false
  const measuring = disk_mb
    ? setInterval(async () => {
        if (isMeasuring) return
        isMeasuring = true
        const size = await sizeOf(cwd, disk_mb)
        isMeasuring = false
        if (size > disk_mb) end(`wrote more than the ${disk_mb} MB that a build may`)
      }, MEASURE_MS)
    : undefined
  const watching = setInterval(() => marked.pids(), WATCH_MS)
  try {
    const [code, signal] = await new Promise<[number | null, string | null]>(resolve => {
      child.once('exit', (code, signal) => resolve([code, signal]))
      child.once('error', error => {
        say(faultOf(error))
        resolve([127, null])
      })
    })
    // What it left running in the background does not outlive it, nor is anybody waited for who could still write.
    await marked.end(0)
    await endRevision(options.revision)
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
    clearInterval(watching)
    task.signal.removeEventListener('abort', interrupted)
  }
}

/** A line that never ends costs no more than what is told of it. */
function follow(stream: Readable, told: (line: string) => void): void {
  const lines = new Lines(2 * LONGEST, { blank: true })
  stream.on('data', chunk => lines.push(chunk).forEach(told))
  stream.once('end', () => lines.end().forEach(told))
}
