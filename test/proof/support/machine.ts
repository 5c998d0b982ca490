// The machine that a figure is from, and how much of it others used meanwhile. Only Linux says the latter.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { PROJECT_ROOT } from './workerd.ts'

export const MACHINE = `${cpus().length} × ${cpus()[0]?.model.trim()}`
export const isLinux = process.platform === 'linux'

export const readLoad = (): number => Math.round(loadavg()[0]! * 100) / 100

/** With a plus if files differ from it. */
export function readCommit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: PROJECT_ROOT, encoding: 'utf8' }).trim()
  try {
    const isChanged = git('status', '--porcelain', '--untracked-files=no') !== ''
    return git('rev-parse', '--short', 'HEAD') + (isChanged ? '+' : '')
  } catch {
    return 'unknown'
  }
}

/** The share of the machine's CPU time, from now on, that went to other programs and to other virtual machines. */
export function watchOthers(): () => number {
  if (!isLinux) return () => 0
  const before = { machine: readMachineTicks(), own: readOwnTicks() }
  return () => {
    const machine = readMachineTicks()
    const own = readOwnTicks() - before.own
    const others = machine.used - before.machine.used - own
    return Math.max(0, others) / Math.max(1, machine.all - before.machine.all)
  }
}

function readMachineTicks(): { all: number; used: number } {
  const [, ...fields] = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!.split(/ +/).map(Number)
  const [user, nice, system, idle, waiting, interrupts, softInterrupts, stolen] = fields as number[]
  const used = user! + nice! + system! + interrupts! + softInterrupts! + stolen!
  return { all: used + idle! + waiting!, used }
}

/** The CPU time of this process and all that it started, also of those that have ended. */
function readOwnTicks(): number {
  const children = new Map<number, ProcessTimes[]>()
  const all = readProcesses()
  for (const one of all) children.set(one.parent, [...(children.get(one.parent) ?? []), one])
  const total = (one: ProcessTimes): number =>
    (children.get(one.pid) ?? []).reduce((sum, child) => sum + total(child), one.ticks + one.ticksOfEnded)
  const self = all.find(({ pid }) => pid === process.pid)
  return self ? total(self) : 0
}

export type ProcessTimes = {
  pid: number
  parent: number
  group: number
  /** User and system time of all threads. */
  ticks: number
  /** The same of its children that have ended. */
  ticksOfEnded: number
}

export function readProcesses(): ProcessTimes[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(name => {
      try {
        // The second field is the program's name in parentheses, which may contain spaces.
        const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)!.split(' ').map(Number)
        const [parent, group, user, system, userOfEnded, systemOfEnded] = [1, 2, 11, 12, 13, 14].map(i => fields[i]!)
        const [ticks, ticksOfEnded] = [user! + system!, userOfEnded! + systemOfEnded!]
        return [{ pid: Number(name), parent: parent!, group: group!, ticks, ticksOfEnded }]
      } catch {
        // It has just ended.
        return []
      }
    })
}
