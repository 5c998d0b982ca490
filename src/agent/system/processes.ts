// The processes of this machine: their identity and memory, and how to signal and end them.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

// Files below /proc are read as UTF-8, which costs half as much as latin1: Node reads those without a buffer.

/** A pid is reused over time; together with the start time it identifies one process, also across reboots. */
export type ProcessIdentity = { pid: number; started: string }
export type Process = ProcessIdentity & { parent: number; group: number; session: number }

const LINUX = process.platform === 'linux'
const bootId = LINUX ? fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''

export function listProcesses(): Process[] {
  return LINUX ? listPids().flatMap(pid => readStat(pid) ?? []) : listWithPs()
}

/** Works on Linux only. Includes zombies. */
export const listPids = () =>
  fs
    .readdirSync('/proc')
    .filter(name => /^\d/.test(name))
    .map(Number)

function readStat(pid: number): Process | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The process name comes first, in parentheses, and may contain anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    // Its other threads may still be ending, with its files and ports.
    const isOver = fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1)
    if (isOver) return undefined
    const [parent = 0, group = 0, session = 0] = fields.slice(1, 4).map(Number)
    return { pid, parent, group, session, started: `${bootId} ${fields[19]}` }
  } catch {
    return undefined
  }
}

function listWithPs(): Process[] {
  const lines = execFileSync('ps', ['-axo', 'pid=,ppid=,pgid=,stat=,lstart='], { encoding: 'utf8' }).trim().split('\n')
  return lines.flatMap(line => {
    const [pid, parent, group, stat = '', ...started] = line.trim().split(/\s+/)
    const numbers = { pid: Number(pid), parent: Number(parent), group: Number(group), session: Number(group) }
    return stat.startsWith('Z') ? [] : { ...numbers, started: started.join(' ') }
  })
}

export function identityOf(pid: number): ProcessIdentity | undefined {
  const match = LINUX ? readStat(pid) : listWithPs().find(candidate => candidate.pid === pid)
  return match && { pid, started: match.started }
}

export const isAlive = ({ pid, started }: ProcessIdentity) => identityOf(pid)?.started === started

export const sumResidentMegabytes = (pids: number[]) => pids.reduce((sum, pid) => sum + residentMegabytes(pid), 0)

function residentMegabytes(pid: number): number {
  try {
    const kilobytes = LINUX
      ? /^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
    return Number(kilobytes ?? 0) / 1024
  } catch {
    return 0
  }
}

/** Linux reports times to programs in hundredths of a second. */
const TICK_MS = 10

/** The CPU time of the processes, and of their children that have ended. Undefined where it cannot be read. */
export function sumCpuMs(pids: number[]): number | undefined {
  return LINUX ? pids.reduce((sum, pid) => sum + cpuMs(pid), 0) : undefined
}

function cpuMs(pid: number): number {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS
  } catch {
    return 0
  }
}

export function sendSignal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
export const signalGroup = (group: number, name: NodeJS.Signals | 0) => sendSignal(-group, name)

/** The signal 0 also reaches zombies, but answers without a look at every process that a group is empty. */
export const isGroupAlive = (group: number) =>
  hasProcesses(group) && listProcesses().some(candidate => candidate.group === group)

function hasProcesses(group: number): boolean {
  try {
    return process.kill(-group, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

export async function endGroup(group: number, graceMs: number): Promise<void> {
  signalGroup(group, 'SIGTERM')
  const deadline = Date.now() + graceMs
  for (let pause = 5; isGroupAlive(group); pause = Math.min(pause * 2, 100)) {
    if (Date.now() > deadline) signalGroup(group, 'SIGKILL')
    await delay(pause)
  }
}

/** True if this process leads the group and session. Their number is not reused while they exist. */
export function isGroupLeader({ pid, started }: ProcessIdentity): boolean {
  const now = identityOf(pid)?.started
  return now === undefined ? !LINUX || started.startsWith(bootId) : now === started
}
