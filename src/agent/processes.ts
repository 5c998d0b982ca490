// What runs on this machine: who a process is, how much memory its group uses, and how a group is ended.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** A pid may be another process's tomorrow; with the moment that it started it is one process, across restarts of the machine too. */
export type Identity = { pid: number; started: string }
type Process = Identity & { group: number }

const LINUX = process.platform === 'linux'
const boot = LINUX ? fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''

/** Those that still run; one that has ended and that nobody has collected yet does not. */
export function processes(): Process[] {
  if (!LINUX) return listed()
  return fs.readdirSync('/proc').flatMap(name => (/^\d/.test(name) ? (statOf(Number(name)) ?? []) : []))
}

function statOf(pid: number): Process | undefined {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name before it may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
    return { pid, group: Number(fields[2]), started: `${boot} ${fields[19]}` }
  } catch {
    return undefined
  }
}

function listed(): Process[] {
  const lines = execFileSync('ps', ['-axo', 'pid=,pgid=,stat=,lstart='], { encoding: 'utf8' }).trim().split('\n')
  return lines.flatMap(line => {
    const [pid, group, stat = '', ...started] = line.trim().split(/\s+/)
    return stat.startsWith('Z') ? [] : { pid: Number(pid), group: Number(group), started: started.join(' ') }
  })
}

export function identityOf(pid: number): Identity | undefined {
  const found = LINUX ? statOf(pid) : listed().find(one => one.pid === pid)
  return found && { pid, started: found.started }
}

export const isAlive = ({ pid, started }: Identity) => identityOf(pid)?.started === started

/** Megabytes that each of these groups has in memory. */
export function memoryOf(groups: Set<number>): Map<number, number> {
  const used = new Map<number, number>()
  for (const { pid, group } of processes()) {
    if (groups.has(group)) used.set(group, (used.get(group) ?? 0) + residentOf(pid))
  }
  return used
}

function residentOf(pid: number): number {
  try {
    const kilobytes = LINUX
      ? /^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
    return Number(kilobytes ?? 0) / 1024
  } catch {
    return 0
  }
}

export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}
export const signalGroup = (group: number, name: NodeJS.Signals | 0) => signal(-group, name)

const groupAlive = (group: number) => processes().some(one => one.group === group)

/** Asks the whole group to end, and makes it when it has not after a while. */
export async function endGroup(group: number, grace: number): Promise<void> {
  signalGroup(group, 'SIGTERM')
  const deadline = Date.now() + grace
  for (let pause = 5; groupAlive(group); pause = Math.min(pause * 2, 100)) {
    if (Date.now() > deadline) signalGroup(group, 'SIGKILL')
    await delay(pause)
  }
}

/** Ends what a process started and left behind. Its number is nobody else's for as long as its group is there. */
export async function endLeftOf({ pid, started }: Identity, grace: number): Promise<void> {
  const rebooted = LINUX && !started.startsWith(boot)
  if (!rebooted && groupAlive(pid) && !identityOf(pid)) await endGroup(pid, grace)
}
