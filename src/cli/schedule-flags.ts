// The options of a schedule, and the members of the API that they set.
import type { Command } from 'commander'
import { usageError } from './failure.ts'
import { parseCount } from './times.ts'

export type ScheduleFlags = {
  timeZone?: string
  overlap?: string
  timeout?: string
  deadline?: string
  jitter?: string
  retries?: string
  process?: string
}

const OVERLAPS = ['skip', 'replace', 'allow'] as const

export const addScheduleOptions = (command: Command): Command =>
  command
    .option('--time-zone <name>', 'of the times, such as Europe/Berlin. Default: UTC')
    .option('--overlap <how>', 'if the run before has not ended: skip, replace or allow. Default: skip')
    .option('--timeout <seconds>', 'after which a run is ended. Default: 3600')
    .option('--deadline <seconds>', 'how late a run may start. Default: 3600')
    .option('--jitter <seconds>', 'start at random within this time. Default: 0')
    .option('--retries <number>', 'how often a failed run is repeated. Default: 0')
    .option('--process <name>', 'with the environment and resources of this process, such as worker')

export function readScheduleFlags({ timeZone, overlap, timeout, deadline, jitter, ...flags }: ScheduleFlags) {
  const { retries, process } = flags
  const kind = OVERLAPS.find(one => one === overlap)
  if (overlap !== undefined && !kind) throw usageError(`--overlap ${overlap} is not one of ${OVERLAPS.join(', ')}.`)
  return {
    ...(timeZone !== undefined && { time_zone: timeZone }),
    ...(kind && { overlap: kind }),
    ...(timeout !== undefined && { timeout_seconds: parseCount(timeout, '--timeout', 604_800) }),
    ...(deadline !== undefined && { deadline_seconds: parseCount(deadline, '--deadline', 86_400) }),
    ...(jitter !== undefined && { jitter_seconds: parseCount(jitter, '--jitter', 3600, 0) }),
    ...(process !== undefined && { process }),
    ...(retries !== undefined && { retries: parseCount(retries, '--retries', 10, 0) }),
  }
}
