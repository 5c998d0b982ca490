// Commands that run once as processes. A folder for each has its log, its exit code and its start, for the next agent.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type OneOffRun, type RunEnd, TransientError, type WriteLog } from '../../engine.ts'
import { readJson, removeRecursively, writeJson } from '../../system/files.ts'
import { RUN_VARIABLE } from '../../system/tracked-process.ts'
import type { Health, OutputLine } from '../local/replica.ts'
import { ProcessReplica } from './replica.ts'

export type ProcessRun = {
  replica: ProcessReplica
  memory_mb: number
  end: Promise<RunEnd>
  /** Ends it for a reason, a verb phrase. */
  stop(reason: string): void
  /** Leaves it to the next agent. */
  release(): void
}
type Options = {
  folder: string
  run: OneOffRun
  memory_mb: number
  stop_ms: number
  launch(): ProcessReplica
  log: WriteLog
}
/** `started_at`: the time of the start, in milliseconds. `stopped`: why the agent ended it. */
type SavedRun = { started_at: number; stopped?: string }

const TICK_MS = 100
/** A look at a process of an earlier agent reads /proc. */
const CHECK_MS = 500

export function startRun({ folder, run, memory_mb, stop_ms, launch, log }: Options): ProcessRun {
  const file = join(folder, 'run.json')
  // Without a process on record, the command was not started: its shell waits for the record.
  const found = ProcessReplica.findRun(folder)
  if (!found) writeJson(file, { started_at: Date.now() } satisfies SavedRun)
  const replica = found ?? launch()
  const saved = readJson<SavedRun>(file) ?? { started_at: Date.now() }
  const deadline = saved.started_at + run.timeout_seconds * 1000
  let checkedAt = 0
  const stop = (reason: string) => {
    if (replica.exit || saved.stopped) return
    saved.stopped = reason
    void replica.end(stop_ms)
    try {
      if (fs.existsSync(folder)) writeJson(file, saved)
    } catch {
      // The disk may be full, perhaps because of this command.
    }
  }
  const closing = new AbortController()
  const follow = async (): Promise<RunEnd> => {
    for (; ; await delay(TICK_MS)) {
      closing.signal.throwIfAborted()
      for (const line of replica.readLines()) writeLine(log, line)
      const now = Date.now()
      if (now - checkedAt >= CHECK_MS) replica.checkExit()
      if (now - checkedAt >= CHECK_MS) checkedAt = now
      if (replica.exit) break
      if (now > deadline) stop(`did not end within ${run.timeout_seconds} s and was ended`)
    }
    await replica.end(0)
    for (const line of replica.readLines(true)) writeLine(log, line)
    return describeEnd(replica, saved)
  }
  const release = () => closing.abort(new TransientError('The agent is shutting down.'))
  return { replica, memory_mb, end: follow(), stop, release }
}

const writeLine = (log: WriteLog, { text, level }: OutputLine) => log(text, level)

export async function forgetRun(folder: string, run: ProcessRun | undefined): Promise<void> {
  run?.stop('was ended')
  await (run ? run.end : ProcessReplica.findRun(folder)?.end(0))
  await removeRecursively(folder)
}

function describeEnd({ exit }: ProcessReplica, { stopped }: SavedRun): RunEnd {
  const { code, signal } = exit!
  if (stopped) return { exit_code: null, reason: stopped }
  if (signal) return { exit_code: null, reason: `was killed by ${signal}` }
  if (code === null)
    return { exit_code: null, reason: 'was killed, perhaps with its machine: nothing tells how far it came' }
  const notFound = code === 127 ? ', which means that its program was not found' : ''
  return { exit_code: code, reason: code === 0 ? null : `ended with code ${code}${notFound}` }
}

/** Healthy if the command ends with 0 in time. */
export async function checkByCommand(
  folder: string,
  run: Parameters<typeof ProcessReplica.launchRun>[1],
  timeoutMs: number,
): Promise<Health> {
  const own = join(folder, randomBytes(6).toString('hex'))
  fs.mkdirSync(own, { recursive: true, mode: 0o700 })
  const id = { [RUN_VARIABLE]: own }
  const { exit } = await runAside(ProcessReplica.launchRun(own, { ...run, env: { ...run.env, ...id } }), timeoutMs)
  await removeRecursively(own)
  if (exit?.code === 0) return { ok: true, target: null }
  const how = exit ? `ended with code ${exit.code}` : `did not end within ${timeoutMs / 1000} s`
  return { ok: false, reason: `its health command \`${run.command}\` ${how}` }
}

async function runAside(replica: ProcessReplica, timeoutMs: number) {
  const until = Date.now() + timeoutMs
  while (!replica.exit && Date.now() < until) await delay(20)
  const { exit } = replica
  await replica.end(0)
  return { exit }
}
