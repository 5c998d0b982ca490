// The processes of this machine: their identity and memory, and how to signal and end them.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** A pid is reused over time; together with the start time it identifies one process, also across reboots. */
export type ProcessIdentity = { pid: number; started: string }
export type Process = ProcessIdentity & { parent: number; group: number; session: number }

const LINUX = process.platform === 'linux'
const bootId = LINUX ? fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''

export function listProcesses(): Process[] {
  if (!LINUX) return listWithPs()
  return fs.readdirSync('/proc').flatMap(name => (/^\d/.test(name) ? (readStat(Number(name)) ?? []) : []))
}

function readStat(pid: number): Process | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The process name comes first, in parentheses, and may contain anything.
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
  const match = LINUX ? readStat(pid) : listWithPs().find(candidate => candidate.pid === pid)
  return match && { pid, started: match.started }
}

export const isAlive = ({ pid, started }: ProcessIdentity) => identityOf(pid)?.started === started

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

export const isGroupAlive = (group: number) => listProcesses().some(candidate => candidate.group === group)

export async function endGroup(group: number, graceMs: number): Promise<void> {
  signalGroup(group, 'SIGTERM')
  const deadline = Date.now() + graceMs
  for (let pause = 5; isGroupAlive(group); pause = Math.min(pause * 2, 100)) {
    if (Date.now() > deadline) signalGroup(group, 'SIGKILL')
    await delay(pause)
  }
}

/** Whether the group and session are those that this process led: their number is not reused while they exist. */
export function isGroupLeader({ pid, started }: ProcessIdentity): boolean {
  const now = identityOf(pid)?.started
  return now === undefined ? !LINUX || started.startsWith(bootId) : now === started
}
