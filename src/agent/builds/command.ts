// Runs one command of a build in a process group of its own: its lines told as they come, ended by interruption, time or size.
import * as fs from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { type BuildTask, PermanentError } from '../engines/engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { appendLastLines } from '../redaction/last-lines.ts'
import { cutLine } from '../redaction/redact-paths.ts'
import { measureMegabytes } from '../system/files.ts'
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'
import { endRevisionProcesses, spawnTracked } from '../system/tracked-process.ts'
import type { User } from '../system/users.ts'

const DEFAULT_TIMEOUT_MS = 15 * 60_000
const GRACE_MS = 5_000
const MEASURE_INTERVAL_MS = 2_000
/** How often what it started is looked at, to know it when it has detached. */
const WATCH_INTERVAL_MS = 1_000
const MAX_LINES = 20_000
/** Kept for the sentence of a failure, which leaves some of them out. */
const MAX_LAST_LINES = 40

type Options = {
  cwd: string
  env: Record<string, string>
  revision: string
  task: Pick<BuildTask, 'log' | 'signal' | 'runningFolder'>
  /** How a failure is told of. */
  label: string
  /** As whom it runs, where that is not the agent's own user. */
  user?: User | undefined
  disk_mb?: number
  time_ms?: number
  /** Takes what it writes to its standard output, instead of the log. */
  output?: (line: string) => void
  /** What a line reads like for everybody else. */
  redactLine?: (line: string) => string
}

export async function runCommand(command: string[], options: Options): Promise<void> {
  const {
    cwd,
    task,
    label: what,
    user,
    disk_mb,
    time_ms = DEFAULT_TIMEOUT_MS,
    output,
    redactLine: hide = line => line,
  } = options
  task.signal.throwIfAborted()
  fs.rmSync(task.runningFolder, { recursive: true, force: true })
  const env = { ...options.env, SLIPWAY_REVISION_ID: options.revision }
  const marked = spawnTracked(task.runningFolder, command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] }, user)
  const { child } = marked
  const last: string[] = []
  let count = 0
  const say = (line: string) => {
    const cut = cutLine(hide(line), MAX_LINE_LENGTH)
    last.push(cut)
    last.splice(0, Math.max(0, last.length - MAX_LAST_LINES))
    if (++count < MAX_LINES) task.log(cut)
    else if (count === MAX_LINES) task.log(`… its further lines are left out.`, 'WARNING')
  }
  const closed = new Promise(resolve => child.once('close', resolve))
  readLines(child.stdout!, output ? line => output(hide(line)) : say)
  readLines(child.stderr!, say)

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
        const size = await measureMegabytes(cwd, disk_mb)
        isMeasuring = false
        if (size > disk_mb) end(`wrote more than the ${disk_mb} MB that a build may`)
      }, MEASURE_INTERVAL_MS)
    : undefined
  const watching = setInterval(() => marked.pids(), WATCH_INTERVAL_MS)
  try {
    const [code, signal] = await new Promise<[number | null, string | null]>(resolve => {
      child.once('exit', (code, signal) => resolve([code, signal]))
      child.once('error', error => {
        say(describeError(error))
        resolve([127, null])
      })
    })
    // What it left running in the background does not outlive it, nor is anybody waited for who could still write.
    await marked.end(0)
    await endRevisionProcesses(options.revision)
    await Promise.race([closed, delay(GRACE_MS, undefined, { ref: false })])
    for (const stream of [child.stdout!, child.stderr!]) stream.destroy()
    task.signal.throwIfAborted()
    if (disk_mb && !ended && (await measureMegabytes(cwd, disk_mb)) > disk_mb)
      ended = `wrote more than the ${disk_mb} MB that a build may`
    if (ended || code !== 0) {
      const why =
        ended ??
        (signal
          ? `was killed by ${signal}`
          : `ended with code ${code}${code === 127 ? ', which means that a program was not found' : ''}`)
      throw new PermanentError(appendLastLines(`${what} ${why}.`, last))
    }
  } finally {
    fs.rmSync(task.runningFolder, { recursive: true, force: true })
    clearTimeout(late)
    clearInterval(measuring)
    clearInterval(watching)
    task.signal.removeEventListener('abort', interrupted)
  }
}

/** A line that never ends costs no more than what is told of it. */
function readLines(stream: Readable, told: (line: string) => void): void {
  const lines = new LineSplitter(2 * MAX_LINE_LENGTH, { blank: true })
  stream.on('data', chunk => lines.push(chunk).forEach(told))
  stream.once('end', () => lines.end().forEach(told))
}
