// What runs on this machine: who a process is, how much memory it uses, and how a group is ended.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** A pid may be another process's tomorrow; with the moment that it started it is one process, across restarts of the machine too. */
export type ProcessIdentity = { pid: number; started: string }
export type Process = ProcessIdentity & { parent: number; group: number; session: number }

const LINUX = process.platform === 'linux'
const bootId = LINUX ? fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''

/** Those that still run; one that has ended and that nobody has collected yet does not. */
export function listProcesses(): Process[] {
  if (!LINUX) return listWithPs()
  return fs.readdirSync('/proc').flatMap(name => (/^\d/.test(name) ? (readStat(Number(name)) ?? []) : []))
}

function readStat(pid: number): Process | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name before it may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
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
  const found = LINUX ? readStat(pid) : listWithPs().find(one => one.pid === pid)
  return found && { pid, started: found.started }
}

export const isAlive = ({ pid, started }: ProcessIdentity) => identityOf(pid)?.started === started

/** Megabytes that these have in memory. */
export const sumResidentMegabytes = (pids: number[]) => pids.reduce((sum, pid) => sum + residentMegabytes(pid), 0)

function residentMegabytes(pid: number): number {
  try {
    const kilobytes = LINUX
      ? /^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
    return Number(kilobytes ?? 0) / 1024
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

export const isGroupAlive = (group: number) => listProcesses().some(one => one.group === group)

/** Asks the whole group to end, and makes it when it has not after a while. */
export async function endGroup(group: number, grace: number): Promise<void> {
  signalGroup(group, 'SIGTERM')
  const deadline = Date.now() + grace
  for (let pause = 5; isGroupAlive(group); pause = Math.min(pause * 2, 100)) {
    if (Date.now() > deadline) signalGroup(group, 'SIGKILL')
    await delay(pause)
  }
}

/**
 * Whether the group and the session of that number are still those that this process led. The kernel gives a number to
 * no other process for as long as a group or a session has it.
 */
export function isGroupLeader({ pid, started }: ProcessIdentity): boolean {
  const now = identityOf(pid)?.started
  return now === undefined ? !LINUX || started.startsWith(bootId) : now === started
}
