// Runs one command of a build in its own process group: streams its lines, and ends it when it is interrupted, takes
// too long or writes too much.
import * as fs from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { type BuildTask, PermanentError } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { cutLine } from '../redaction/redact-paths.ts'
import { measureMegabytes } from '../system/files.ts'
import { appendLastLines } from '../system/last-lines.ts'
import { LineSplitter, MAX_LINE_LENGTH } from '../system/lines.ts'
import { endRevisionProcesses, spawnTracked, type TrackedProcess } from '../system/tracked-process.ts'
import type { User } from '../system/users.ts'

const DEFAULT_TIMEOUT_MS = 15 * 60_000
const GRACE_MS = 5_000
const MEASURE_INTERVAL_MS = 2_000
/** Descendants are recorded this often, so that they are still known after they have detached. */
const WATCH_INTERVAL_MS = 1_000
const MAX_LINES = 20_000
const MAX_LAST_LINES = 40

type Options = {
  cwd: string
  env: Record<string, string>
  revision: string
  task: Pick<BuildTask, 'log' | 'signal' | 'runningFolder'>
  /** The subject of the sentence that describes a failure. */
  label: string
  /** The user that it runs as. Undefined: the agent's own. */
  user?: User | undefined
  disk_mb?: number
  time_ms?: number
  /** Receives the lines of stdout instead of the log. */
  output?: (line: string) => void
  redactLine?: (line: string) => string
}

export async function runCommand(command: string[], options: Options): Promise<void> {
  const { cwd, task, label, user, output, redactLine = line => line } = options
  task.signal.throwIfAborted()
  fs.rmSync(task.runningFolder, { recursive: true, force: true })
  const env = { ...options.env, SLIPWAY_REVISION_ID: options.revision }
  const tracked = spawnTracked(task.runningFolder, command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] }, user)
  const { child } = tracked
  const log = createLineLog(task, redactLine)
  const closed = new Promise(resolve => child.once('close', resolve))
  readLines(child.stdout!, output ? line => output(redactLine(line)) : log.add)
  readLines(child.stderr!, log.add)

  const watch = enforceLimits(tracked, options)
  try {
    const [code, signal] = await new Promise<[number | null, string | null]>(resolve => {
      child.once('exit', (code, signal) => resolve([code, signal]))
      child.once('error', error => {
        log.add(describeError(error))
        resolve([127, null])
      })
    })
    // Background processes of the command end with it, and do not keep its output open.
    await tracked.end(0)
    await endRevisionProcesses(options.revision)
    await Promise.race([closed, delay(GRACE_MS, undefined, { ref: false })])
    for (const stream of [child.stdout!, child.stderr!]) stream.destroy()
    task.signal.throwIfAborted()
    const fault = watch.violation() ?? (await findDiskViolation(options)) ?? describeExit(code, signal)
    if (fault) throw new PermanentError(appendLastLines(`${label} ${fault}.`, log.lastLines))
  } finally {
    watch.stop()
    fs.rmSync(task.runningFolder, { recursive: true, force: true })
  }
}

function createLineLog({ log }: Pick<BuildTask, 'log'>, redactLine: (line: string) => string) {
  const lastLines: string[] = []
  let count = 0
  const add = (line: string) => {
    const text = cutLine(redactLine(line), MAX_LINE_LENGTH)
    lastLines.push(text)
    lastLines.splice(0, Math.max(0, lastLines.length - MAX_LAST_LINES))
    if (++count < MAX_LINES) log(text)
    else if (count === MAX_LINES) log(`… further lines of this command are left out.`, 'WARNING')
  }
  return { add, lastLines }
}

/** Ends the command when it is interrupted, takes too long or writes too much. */
function enforceLimits(tracked: TrackedProcess, options: Options) {
  const { task, time_ms = DEFAULT_TIMEOUT_MS } = options
  let violation: string | undefined
  const end = (reason: string) => {
    violation ??= reason
    void tracked.end(GRACE_MS)
  }
  const interrupt = () => end('was interrupted')
  task.signal.addEventListener('abort', interrupt)
  const timeout = setTimeout(() => end(`did not end within ${formatDuration(time_ms)}, and was stopped`), time_ms)
  let isMeasuring = false
  const measuring = setInterval(async () => {
    if (isMeasuring) return
    isMeasuring = true
    const diskViolation = await findDiskViolation(options)
    isMeasuring = false
    if (diskViolation) end(diskViolation)
  }, MEASURE_INTERVAL_MS)
  const watching = setInterval(() => tracked.pids(), WATCH_INTERVAL_MS)
  return {
    violation: () => violation,
    stop() {
      clearTimeout(timeout)
      clearInterval(measuring)
      clearInterval(watching)
      task.signal.removeEventListener('abort', interrupt)
    },
  }
}

async function findDiskViolation({ cwd, disk_mb }: Options): Promise<string | undefined> {
  if (!disk_mb || (await measureMegabytes(cwd, disk_mb)) <= disk_mb) return undefined
  return `wrote more than the ${disk_mb} MB that a build may write`
}

function describeExit(code: number | null, signal: string | null): string | undefined {
  if (signal) return `was killed by ${signal}`
  if (code === 0) return undefined
  return `ended with code ${code}${code === 127 ? ', which means that a program was not found' : ''}`
}

const formatDuration = (ms: number) =>
  ms < 60_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} minutes`

/** A line that never ends is cut, so it takes a bounded amount of memory. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  const lines = new LineSplitter(2 * MAX_LINE_LENGTH, { blank: true })
  stream.on('data', chunk => lines.push(chunk).forEach(onLine))
  stream.once('end', () => lines.end().forEach(onLine))
}
