// CPU time, user and system, of running processes. The scheduler counts it in nanoseconds for each thread.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Measurement } from './bench-context.ts'
import { readProcesses } from './machine.ts'

/** The unit of the times in /proc/…/stat, on every Linux. */
const MS_PER_TICK = 10

export const hasCpuTimes = existsSync('/proc/self/task') && existsSync('/proc/self/schedstat')
export const CPU_TIMES_MISSING: Measurement = {
  measured: 'skipped',
  met: false,
  skipped: true,
  notes: ['it reads /proc/…/schedstat, which only Linux has'],
}

export function readCpuMs(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`)
    const nanoseconds = threads.map(id => readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0])
    return nanoseconds.reduce((sum, one) => sum + Number(one), 0) / 1e6
  } catch {
    // A thread has just ended.
    return existsSync(`/proc/${pid}`) ? readCpuMs(pid) : 0
  }
}

/** The connections of a Postgres server are processes, children of its first one. Those that have ended count, too. */
export const readChildCpuMs = (parent: number): number =>
  readProcesses().reduce((sum, one) => {
    if (one.pid === parent) return sum + one.ticksOfEnded * MS_PER_TICK
    return one.parent === parent ? sum + readCpuMs(one.pid) : sum
  }, 0)
