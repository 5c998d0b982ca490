// Control groups (cgroup v2, or `pids` of v1). A process leaves them neither by a new session or environment, nor by a
// double fork.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, join } from 'node:path'
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

/** The cgroup of this process: in cgroup v2, else that of `pids` in v1, which can refuse forks. */
export function ownCgroup(): string | undefined {
  const own = /^0::(.*)$/m.exec(readOrEmpty('/proc/self/cgroup'))?.[1]
  const mount = findMount(line => line.includes(' - cgroup2 '))
  if (own === undefined || !mount) return ownV1Cgroup('pids', 'cgroup.procs')
  const { root, point } = mount
  if (!own.startsWith(root === '/' ? '' : root)) return undefined
  return join(point, own.slice(root === '/' ? 0 : root.length))
}

function findMount(has: (line: string) => boolean): { root: string; point: string } | undefined {
  const line = readOrEmpty('/proc/self/mountinfo').split('\n').find(has)
  const [, , , root, point] = line?.split(' ') ?? []
  return root === undefined || point === undefined ? undefined : { root, point }
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

/** A cgroup for a part of the processes of another one, which counts them, too. Undefined if it cannot be made. */
export function makeNestedCgroup(parent: string, name: string): string | undefined {
  const path = join(parent, name)
  try {
    fs.mkdirSync(path)
    return path
  } catch {
    return undefined
  }
}

/** False if the cgroup is gone. */
export function moveIntoCgroup(path: string, pid: number): boolean {
  const cpu = cpuFolderOf(path)
  if (cpu?.isVersion1) tryWrite(join(cpu.folder, 'cgroup.procs'), String(pid))
  return tryWrite(join(path, 'cgroup.procs'), String(pid))
}

const PERIOD_US = 100_000
/** Kernels refuse less. */
const LEAST_QUOTA_US = 1_000

/** The folder that limits the CPU of a cgroup: itself; or, with cgroup v1, one of the same name in that hierarchy. */
function cpuFolderOf(cgroup: string): { folder: string; isVersion1: boolean } | undefined {
  if (fs.existsSync(join(cgroup, 'cpu.max'))) return { folder: cgroup, isVersion1: false }
  const parent = ownV1Cgroup('cpu', 'cgroup.procs')
  return parent === undefined ? undefined : { folder: join(parent, basename(cgroup)), isVersion1: true }
}

/** Limits the CPU time of a cgroup that has only this process. False if the machine cannot. */
export function limitCpu(cgroup: string, pid: number, cores: number): boolean {
  const cpu = cpuFolderOf(cgroup)
  const quota = Math.max(LEAST_QUOTA_US, Math.round(cores * PERIOD_US))
  const write = (file: string, value: string | number) => fs.writeFileSync(join(cpu!.folder, file), String(value))
  try {
    if (!cpu) return false
    if (!cpu.isVersion1) {
      write('cpu.max', `${quota} ${PERIOD_US}`)
      return true
    }
    fs.mkdirSync(cpu.folder, { recursive: true })
    write('cpu.cfs_period_us', PERIOD_US)
    write('cpu.cfs_quota_us', quota)
    write('cgroup.procs', pid)
    return true
  } catch {
    return false
  }
}

/** True if `limitCpu` works. In cgroup v2, it first hands the controller on to the children of the parent. */
export function canLimitCpu(): boolean {
  const cgroup = newCgroupPath()
  if (!cgroup) return false
  try {
    fs.mkdirSync(cgroup)
    if (!cpuFolderOf(cgroup)) fs.writeFileSync(join(cgroup, '..', 'cgroup.subtree_control'), '+cpu')
    const cpu = cpuFolderOf(cgroup)
    if (cpu?.isVersion1) fs.mkdirSync(cpu.folder)
    return cpu !== undefined && fs.existsSync(join(cpu.folder, cpu.isVersion1 ? 'cpu.cfs_quota_us' : 'cpu.max'))
  } catch {
    return false
  } finally {
    removeCpuFolder(cgroup)
    tryRemove(cgroup)
  }
}

function removeCpuFolder(cgroup: string): void {
  const cpu = cpuFolderOf(cgroup)
  if (cpu?.isVersion1 && fs.existsSync(cpu.folder)) tryRemove(cpu.folder)
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
  const shared = ownV1Cgroup('memory', 'memory.oom_control')
  sharedOomKills = shared === undefined ? undefined : readOomKills(join(shared, 'memory.oom_control'))
}

const readOomKills = (file: string): number | undefined => {
  const count = /^oom_kill (\d+)$/m.exec(readOrEmpty(file))?.[1]
  return count === undefined ? undefined : Number(count)
}

/** In cgroup v1: the folder of this process for a controller, which has this file. */
function ownV1Cgroup(controller: string, file: string): string | undefined {
  const own = readOrEmpty('/proc/self/cgroup')
    .split('\n')
    .find(line => line.split(':')[1]?.split(',').includes(controller))
  const mount = findMount(line => {
    const [, type] = line.split(' - ')
    return type?.startsWith('cgroup ') === true && type.split(/[ ,]/).includes(controller)
  })
  const path = own?.split(':').slice(2).join(':')
  if (path === undefined || !mount) return undefined
  const { root, point } = mount
  const below = root === '/' || !path.startsWith(root) ? path : path.slice(root.length)
  // A container's mount has its own cgroup as the root, not the path that the host shows.
  return [join(point, below), point].find(folder => fs.existsSync(join(folder, file)))
}

/** Kills all processes at once, so that none can fork in between. */
export function killCgroup(cgroup: string): void {
  if (tryWrite(join(cgroup, 'cgroup.kill'), '1')) return
  // Linux before 5.14 has no cgroup.kill. A frozen process cannot fork, and SIGKILL still ends it.
  preventForks(cgroup)
  for (const pid of pidsIn(cgroup)) sendSignal(pid, 'SIGKILL')
}

export async function removeCgroup(cgroup: string): Promise<void> {
  for (let pause = 1; fs.existsSync(cgroup); pause = Math.min(pause * 2, 100)) {
    killCgroup(cgroup)
    if (pidsIn(cgroup).length === 0 && tryRemove(cgroup)) break
    await delay(pause)
  }
  removeCpuFolder(cgroup)
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

/** False where it cannot, as in v1. */
export function freezeCgroup(cgroup: string, isFrozen: boolean): boolean {
  return tryWrite(join(cgroup, 'cgroup.freeze'), isFrozen ? '1' : '0')
}

/** Freezes, or in v1 limits `pids`. If neither can be done, removeCgroup() kills until no process is left. */
function preventForks(cgroup: string): void {
  if (!freezeCgroup(cgroup, true)) tryWrite(join(cgroup, 'pids.max'), '0')
}

/** False if the cgroup is gone, or has no such file. */
function tryWrite(file: string, value: string): boolean {
  try {
    fs.writeFileSync(file, value)
    return true
  } catch {
    return false
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
