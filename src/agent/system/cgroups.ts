// Control groups (cgroup v2), which a process cannot leave by a new session, a double fork or a new environment.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { listFolder } from './files.ts'
import { sendSignal } from './processes.ts'

let parentSetting = ''

/** `setting`: the parent of new cgroups, `off` for none, or empty for the agent's own cgroup. */
export function chooseCgroup(setting = ''): void {
  parentSetting = setting
}

/** Undefined without cgroups. Creates nothing, so that the path can be written to disk first. */
export function newCgroupPath(): string | undefined {
  // Only what is killed from now on counts.
  watchSharedOomKills()
  const parent = parentSetting === 'off' ? undefined : parentSetting || ownCgroup()
  return parent && join(parent, `slipway-${randomBytes(8).toString('hex')}`)
}

function ownCgroup(): string | undefined {
  const own = /^0::(.*)$/m.exec(readOrEmpty('/proc/self/cgroup'))?.[1]
  const mount = readOrEmpty('/proc/self/mountinfo')
    .split('\n')
    .find(line => line.includes(' - cgroup2 '))
  const [, , , root = '', point] = mount?.split(' ') ?? []
  if (own === undefined || point === undefined || !own.startsWith(root === '/' ? '' : root)) return undefined
  return join(point, own.slice(root === '/' ? 0 : root.length))
}

/** Creates the cgroup and moves a process into it. False without the permission to do so. */
export function enterCgroup(path: string, pid: number): boolean {
  try {
    fs.mkdirSync(path)
    fs.writeFileSync(join(path, 'cgroup.procs'), String(pid))
    return true
  } catch {
    tryRemove(path)
    return false
  }
}

/** Best effort: the cgroup may be gone by now. */
export function moveIntoCgroup(path: string, pid: number): void {
  try {
    fs.writeFileSync(join(path, 'cgroup.procs'), String(pid))
  } catch {
    // The process is found by its environment then.
  }
}

export function pidsIn(cgroup: string): number[] {
  const own = readOrEmpty(join(cgroup, 'cgroup.procs')).split('\n').filter(Boolean).map(Number)
  return [...own, ...nestedCgroups(cgroup).flatMap(pidsIn)]
}

/** The CPU time of all processes that are or were in it. Undefined if it is gone. */
export function cpuMsIn(cgroup: string): number | undefined {
  const microseconds = /^usage_usec (\d+)$/m.exec(readOrEmpty(join(cgroup, 'cpu.stat')))?.[1]
  return microseconds === undefined ? undefined : Number(microseconds) / 1000
}

let sharedOomKills: number | undefined
/**
 * True if the kernel killed a process of this cgroup because memory ran out. With cgroup v1, applications share the
 * memory cgroup of the agent: then it is whether that count has grown since the last call.
 */
export function hasOomKill(cgroup: string | undefined): boolean {
  const own = cgroup === undefined ? undefined : readOomKills(join(cgroup, 'memory.events'))
  if (own !== undefined) return own > 0
  const before = sharedOomKills
  watchSharedOomKills()
  return before !== undefined && sharedOomKills !== undefined && sharedOomKills > before
}

function watchSharedOomKills(): void {
  const shared = ownMemoryCgroup()
  sharedOomKills = shared === undefined ? undefined : readOomKills(join(shared, 'memory.oom_control'))
}

const readOomKills = (file: string): number | undefined => {
  const count = /^oom_kill (\d+)$/m.exec(readOrEmpty(file))?.[1]
  return count === undefined ? undefined : Number(count)
}

/** In cgroup v1. */
function ownMemoryCgroup(): string | undefined {
  const lineOf = (file: string, has: (line: string) => boolean) => readOrEmpty(file).split('\n').find(has)
  const own = lineOf('/proc/self/cgroup', line => line.split(':')[1]?.split(',').includes('memory') === true)
  const mount = lineOf('/proc/self/mountinfo', line => {
    const [, type] = line.split(' - ')
    return type?.startsWith('cgroup ') === true && type.split(/[ ,]/).includes('memory')
  })
  const [, , , root = '', point] = mount?.split(' ') ?? []
  const path = own?.split(':').slice(2).join(':')
  if (path === undefined || point === undefined) return undefined
  const below = root === '/' || !path.startsWith(root) ? path : path.slice(root.length)
  // A container's mount has its own cgroup as the root, not the path that the host shows.
  return [join(point, below), point].find(folder => fs.existsSync(join(folder, 'memory.oom_control')))
}

/** Kills all processes at once, so that none can fork in between. */
export function killCgroup(cgroup: string): void {
  try {
    fs.writeFileSync(join(cgroup, 'cgroup.kill'), '1')
  } catch {
    // Linux before 5.14 has no cgroup.kill. A frozen process cannot fork, and SIGKILL still ends it.
    freeze(cgroup)
    for (const pid of pidsIn(cgroup)) sendSignal(pid, 'SIGKILL')
  }
}

export async function removeCgroup(cgroup: string): Promise<void> {
  for (let pause = 1; fs.existsSync(cgroup); pause = Math.min(pause * 2, 100)) {
    killCgroup(cgroup)
    if (pidsIn(cgroup).length === 0 && tryRemove(cgroup)) return
    await delay(pause)
  }
}

function tryRemove(cgroup: string): boolean {
  try {
    for (const nested of nestedCgroups(cgroup)) tryRemove(nested)
    fs.rmdirSync(cgroup)
    return true
  } catch {
    return false
  }
}

function freeze(cgroup: string): void {
  try {
    fs.writeFileSync(join(cgroup, 'cgroup.freeze'), '1')
  } catch {
    // The cgroup is gone or has no freezer: removeCgroup() kills until no process is left.
  }
}

const nestedCgroups = (cgroup: string) =>
  listFolder(cgroup)
    .map(name => join(cgroup, name))
    .filter(path => fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory())

function readOrEmpty(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
