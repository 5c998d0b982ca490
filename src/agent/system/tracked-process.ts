// Processes that the agent owns: recorded on disk before they run, so that the next agent finds them, and ended with
// all their descendants.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  cpuMsIn,
  enterCgroup,
  freezeCgroup,
  hasOomKill,
  killCgroup,
  limitCpu,
  newCgroupPath,
  pidsIn,
  removeCgroup,
} from './cgroups.ts'
import { readJson, writeJson } from './files.ts'
import {
  endGroup,
  identityOf,
  isAlive,
  isGroupAlive,
  isGroupLeader,
  listPids,
  listProcesses,
  type Process,
  type ProcessIdentity,
  sendSignal,
  sumCpuMs,
} from './processes.ts'
import { userNamespaceLauncher } from './user-namespaces.ts'
import type { User } from './users.ts'

/** In the environment of a command that runs once, which may outlive the replicas of its revision. */
export const RUN_VARIABLE = 'SLIPWAY_RUN_ID'
const GONE_SUFFIX = '.gone'
const MAX_PROCESSES = 4096
/**
 * Waits until the agent has moved the shell into its cgroup and recorded it on disk, and exits if the agent is killed
 * before that: no process runs that the next agent could not find.
 */
export const WAIT_SCRIPT = 'read -r go <&3 && exec 3<&- || exit 1'
const LIMIT_SCRIPT = `ulimit -u ${MAX_PROCESSES} 2>/dev/null || ulimit -p ${MAX_PROCESSES} 2>/dev/null`
/** The launcher takes the path of a program, and the shell finds the one of a name. */
function confineScript(): string {
  const launcher = userNamespaceLauncher()?.replaceAll("'", "'\\''")
  if (launcher) return `exec '${launcher}' /bin/sh -c 'exec "$@"' sh "$@"`
  return 'command -v setpriv >/dev/null && exec setpriv --no-new-privs -- "$@"'
}

/**
 * Variables with which an application makes a program loader or a shell run its code. The waiting shell must not see
 * them: it has no cgroup and no limits yet, and may still use setuid programs.
 */
const LOADER_VARIABLE = /^(LD_|DYLD_|BASH|GLIBC_|MALLOC_)|^(GCONV_PATH|LOCPATH|SHELLOPTS|PS4|ENV)$/
const RENAMED_PREFIX = 'SLIPWAY_HELD_'

/** `environment`: lines in the initial environment of its processes, which identify them if there is no cgroup. */
type ProcessMark = { environment: string[]; cgroup?: string | undefined }

/**
 * Spawns in a process group and, if possible, a cgroup of its own. `env` must contain `SLIPWAY_REVISION_ID`. `cpuLimit`
 * is in cores.
 */
export function spawnTracked(
  folder: string,
  command: string[],
  options: SpawnOptions,
  user?: User,
  cpuLimit?: number,
): TrackedProcess {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { env, argv } = confine(command, options.env ?? {}, user, [WAIT_SCRIPT])
  const environment = ['SLIPWAY_REVISION_ID', 'PORT', RUN_VARIABLE].flatMap(name =>
    env[name] ? `${name}=${env[name]}` : [],
  )
  const mark: ProcessMark = { environment, cgroup: newCgroupPath() }
  writeJson(join(folder, 'mark.json'), mark)
  const [input, output, errors, ...more] =
    typeof options.stdio === 'string' ? Array(3).fill(options.stdio) : (options.stdio ?? [])
  const child = spawn(argv[0]!, argv.slice(1), {
    ...options,
    ...user,
    env,
    stdio: [input, output, errors, 'pipe', ...more],
    detached: true,
  })
  const identity = child.pid ? identityOf(child.pid) : undefined
  if (mark.cgroup && !(child.pid && enterCgroup(mark.cgroup, child.pid))) {
    mark.cgroup = undefined
    writeJson(join(folder, 'mark.json'), mark)
  }
  if (mark.cgroup && cpuLimit !== undefined) limitCpu(mark.cgroup, child.pid!, cpuLimit)
  if (identity) writeJson(join(folder, 'identity.json'), identity)
  const go = child.stdio[3] as Socket | undefined
  // The shell may have ended already.
  go?.on('error', () => {})
  go?.end('go\n')
  go?.unref()
  return new TrackedProcess(mark, identity, child)
}

/** The command behind a shell that limits it, for a user of its own also its privileges. `first` runs before. */
export function confine(
  command: string[],
  environment: NodeJS.ProcessEnv,
  user: User | undefined,
  first: string[] = [],
): { argv: string[]; env: NodeJS.ProcessEnv } {
  const { env, restore } = renameLoaderVariables(environment)
  const wrapped = restore ? ['/bin/sh', '-c', `${restore}\nexec "$@"`, 'sh', ...command] : command
  const script = [...first, ...(user ? [LIMIT_SCRIPT, confineScript()] : []), 'exec "$@"'].join('\n')
  return { argv: ['/bin/sh', '-c', script, 'sh', ...wrapped], env }
}

function renameLoaderVariables(environment: NodeJS.ProcessEnv): { env: NodeJS.ProcessEnv; restore: string } {
  const loaderNames = Object.keys(environment).filter(name => LOADER_VARIABLE.test(name))
  const env = Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      loaderNames.includes(name) ? RENAMED_PREFIX + name : name,
      value,
    ]),
  )
  // Without `command`, a shell exits when a variable is read-only.
  const restore = loaderNames
    .map(name => `command export ${name}="$${RENAMED_PREFIX}${name}"; unset ${RENAMED_PREFIX}${name}`)
    .join('\n')
  return { env, restore }
}

export class TrackedProcess {
  readonly identity: ProcessIdentity | undefined
  readonly #child: ChildProcess | undefined
  readonly #mark: ProcessMark
  /** The descendants seen so far, if there is no cgroup. They stay known after their parents have ended. */
  readonly #seen = new Map<number, ProcessIdentity>()

  constructor(mark: ProcessMark, identity: ProcessIdentity | undefined, child?: ChildProcess) {
    this.#mark = mark
    this.identity = identity
    this.#child = child
  }

  get child(): ChildProcess {
    return this.#child!
  }

  /** Without a cgroup, call it often: it finds a process only while the parents of that process run. */
  pids(list: () => Process[] = listProcesses): number[] {
    return this.#mark.cgroup ? pidsIn(this.#mark.cgroup) : this.#findDescendants(list())
  }

  get cgroup(): string | undefined {
    return this.#mark.cgroup
  }

  /** The CPU time of all its processes. Without a cgroup, that of descendants that have ended is missing. */
  cpuMs(list?: () => Process[]): number | undefined {
    return (this.#mark.cgroup ? cpuMsIn(this.#mark.cgroup) : undefined) ?? sumCpuMs(this.pids(list))
  }

  /** Call it after its end and before `end`, once. */
  wasKilledForMemory(): boolean {
    return hasOomKill(this.#mark.cgroup)
  }

  #findDescendants(processes: Process[]): number[] {
    const { identity } = this
    const leader = identity && isGroupLeader(identity) ? identity.pid : undefined
    const known = new Set<number>(leader === undefined ? [] : [leader])
    const running = new Map(processes.map(candidate => [candidate.pid, candidate]))
    for (const { pid, started } of this.#seen.values()) if (running.get(pid)?.started === started) known.add(pid)
    for (let size = -1; size < known.size; ) {
      size = known.size
      for (const { pid, parent, group, session } of processes)
        if (known.has(parent) || known.has(group) || known.has(session)) known.add(pid)
    }
    known.delete(process.pid)
    const descendants = [...known].flatMap(pid => running.get(pid) ?? [])
    for (const descendant of descendants) this.#seen.set(descendant.pid, descendant)
    return descendants.map(({ pid }) => pid)
  }

  /** All its processes stand still: by its cgroup or, where that cannot, by a signal. */
  freeze(): void {
    if (this.#mark.cgroup && freezeCgroup(this.#mark.cgroup, true)) return
    // One may have started another before it was reached.
    for (let stopped = -1, all = 0; all > stopped; ) {
      stopped = all
      const pids = this.pids()
      for (const pid of pids) sendSignal(pid, 'SIGSTOP')
      all = pids.length
    }
  }

  thaw(): void {
    if (this.#mark.cgroup) freezeCgroup(this.#mark.cgroup, false)
    for (const pid of this.pids()) sendSignal(pid, 'SIGCONT')
  }

  kill(): void {
    if (this.#mark.cgroup) killCgroup(this.#mark.cgroup)
    else for (const pid of this.#findAll()) sendSignal(pid, 'SIGKILL')
  }

  /** Asks the group to end, kills the rest after the grace period, and returns when no process is left. */
  async end(graceMs: number): Promise<void> {
    const { identity } = this
    // Records detached descendants while their parents still run.
    this.pids()
    if (identity && isGroupLeader(identity) && isGroupAlive(identity.pid)) await endGroup(identity.pid, graceMs)
    if (this.#mark.cgroup) await removeCgroup(this.#mark.cgroup)
    else await killAll(() => this.#findAll())
  }

  #findAll(): number[] {
    const processes = listProcesses()
    const { environment } = this.#mark
    const marked = environment.length ? processes.filter(({ pid }) => hasEnvironment(pid, environment)) : []
    for (const match of marked) this.#seen.set(match.pid, match)
    return this.#findDescendants(processes)
  }
}

/** Repeats until no process is found, because a killed process may have forked before. */
async function killAll(find: () => number[]): Promise<void> {
  for (let pause = 1; ; pause = Math.min(pause * 2, 100)) {
    // A setuid program cannot be killed, and is not waited for.
    const killed = find().filter(pid => sendSignal(pid, 'SIGKILL'))
    if (killed.length === 0) return
    await delay(pause)
  }
}

type ReadFolder = (folder: string) => void

/** The process if it still runs. Otherwise ends its descendants, calls `read`, and removes the folder. */
export async function findTracked(
  folder: string,
  graceMs: number,
  read: ReadFolder,
): Promise<TrackedProcess | undefined> {
  const tracked = readTracked(folder)
  if (tracked.identity && isAlive(tracked.identity) && !folder.endsWith(GONE_SUFFIX)) return tracked
  await endTracked(folder, graceMs, read)
  return undefined
}

export async function endTracked(folder: string, graceMs: number, read?: ReadFolder): Promise<void> {
  if (!fs.existsSync(folder)) return
  const gone = folder.endsWith(GONE_SUFFIX) ? folder : folder + GONE_SUFFIX
  if (gone !== folder) fs.renameSync(folder, gone)
  await readTracked(gone).end(graceMs)
  read?.(gone)
  fs.rmSync(gone, { recursive: true, force: true })
}

export const readTracked = (folder: string) =>
  new TrackedProcess(
    readJson<ProcessMark>(join(folder, 'mark.json')) ?? { environment: [] },
    readJson<ProcessIdentity>(join(folder, 'identity.json')),
  )

/** Leaves commands that run once. */
export async function endRevisionProcesses(revision: string): Promise<void> {
  if (process.platform !== 'linux') return
  const line = `\0SLIPWAY_REVISION_ID=${revision}\0`
  const isOfRevision = (environment: string) =>
    environment.includes(line) && !environment.includes(`\0${RUN_VARIABLE}=`)
  await killAll(() => listPids().filter(pid => isOfRevision(environmentOf(pid))))
}

function hasEnvironment(pid: number, lines: string[]): boolean {
  const environment = environmentOf(pid)
  return lines.every(line => environment.includes(`\0${line}\0`))
}

/** Each variable between two zeros. Empty if the process is gone. */
function environmentOf(pid: number): string {
  try {
    return `\0${fs.readFileSync(`/proc/${pid}/environ`, 'utf8')}`
  } catch {
    return ''
  }
}
