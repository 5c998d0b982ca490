// Processes that the agent started and owns: marked on disk before they run, found by the next agent, ended with all
// that they started.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { enterCgroup, killCgroup, newCgroupPath, pidsIn, removeCgroup } from './cgroups.ts'
import { readJson, writeJson } from './files.ts'
import {
  endGroup,
  identityOf,
  isAlive,
  isGroupAlive,
  isGroupLeader,
  listProcesses,
  type Process,
  type ProcessIdentity,
  sendSignal,
} from './processes.ts'
import type { User } from './users.ts'

const GONE_SUFFIX = '.gone'
/** Of one user. Threads count too, and Node has about a dozen. */
const MAX_PROCESSES = 4096
/**
 * The shell waits for the agent to put it into its cgroup and to write down who it is, and leaves if the agent is
 * killed before that: so no process ever runs that the next agent could not find.
 */
const WAIT_SCRIPT = 'read -r go <&3 && exec 3<&- || exit 1'
/** `-u` is the limit in most shells, `-p` in dash. */
const LIMIT_SCRIPT = `ulimit -u ${MAX_PROCESSES} 2>/dev/null || ulimit -p ${MAX_PROCESSES} 2>/dev/null`
/** No program may gain rights by its setuid bit. */
const CONFINE_SCRIPT = 'command -v setpriv >/dev/null && exec setpriv --no-new-privs -- "$@"'

/**
 * Variables by which a program loader or a shell runs code of the application's choice. The shell that waits and
 * gives up rights must not see them: at that time it is in no cgroup, has no limits and may still use setuid
 * programs.
 */
const LOADER_VARIABLE = /^(LD_|DYLD_|BASH|GLIBC_|MALLOC_)|^(GCONV_PATH|LOCPATH|SHELLOPTS|PS4|ENV)$/
const RENAMED_PREFIX = 'SLIPWAY_HELD_'

/** What identifies the processes of one launch where there is no cgroup: lines that their environment has at first. */
type ProcessMark = { environment: string[]; cgroup?: string | undefined }

/**
 * In a process group and, where possible, in a cgroup of its own. Its environment has to hold `SLIPWAY_REVISION_ID`.
 */
export function spawnTracked(folder: string, command: string[], options: SpawnOptions, user?: User): TrackedProcess {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { env, restore } = renameLoaderVariables(options.env ?? {})
  const wrapped = restore ? ['/bin/sh', '-c', `${restore}\nexec "$@"`, 'sh', ...command] : command
  // A replica has a port of its own, which tells it from the others of its revision.
  const environment = ['SLIPWAY_REVISION_ID', 'PORT'].flatMap(name => (env[name] ? `${name}=${env[name]}` : []))
  const mark: ProcessMark = { environment, cgroup: newCgroupPath() }
  writeJson(join(folder, 'mark.json'), mark)
  const script = [WAIT_SCRIPT, ...(user ? [LIMIT_SCRIPT, CONFINE_SCRIPT] : []), 'exec "$@"'].join('\n')
  const [input, output, errors] =
    typeof options.stdio === 'string' ? Array(3).fill(options.stdio) : (options.stdio ?? [])
  const child = spawn('/bin/sh', ['-c', script, 'sh', ...wrapped], {
    ...options,
    ...user,
    env,
    stdio: [input, output, errors, 'pipe'],
    detached: true,
  })
  const identity = child.pid ? identityOf(child.pid) : undefined
  if (mark.cgroup && !(child.pid && enterCgroup(mark.cgroup, child.pid))) {
    mark.cgroup = undefined
    writeJson(join(folder, 'mark.json'), mark)
  }
  if (identity) writeJson(join(folder, 'identity.json'), identity)
  const go = child.stdio[3] as Socket | undefined
  // The shell may have ended already.
  go?.on('error', () => {})
  go?.end('go\n')
  go?.unref()
  return new TrackedProcess(mark, identity, child)
}

/** Loader variables under other names, and the shell commands that give them their own names back. */
function renameLoaderVariables(given: NodeJS.ProcessEnv): { env: NodeJS.ProcessEnv; restore: string } {
  const held = Object.keys(given).filter(name => LOADER_VARIABLE.test(name))
  const env = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [held.includes(name) ? RENAMED_PREFIX + name : name, value]),
  )
  // Without `command`, a shell ends at a variable that it does not let anybody set.
  const restore = held
    .map(name => `command export ${name}="$${RENAMED_PREFIX}${name}"; unset ${RENAMED_PREFIX}${name}`)
    .join('\n')
  return { env, restore }
}

/** A process and everything that it started. */
export class TrackedProcess {
  readonly identity: ProcessIdentity | undefined
  readonly #child: ChildProcess | undefined
  readonly #mark: ProcessMark
  /** Without a cgroup: what was seen below it, which stays known after its parents have ended. */
  readonly #seen = new Map<number, ProcessIdentity>()

  constructor(mark: ProcessMark, identity: ProcessIdentity | undefined, child?: ChildProcess) {
    this.#mark = mark
    this.identity = identity
    this.#child = child
  }

  get child(): ChildProcess {
    return this.#child!
  }

  /** The pids of all that runs of it. Without a cgroup, call it often: it remembers what it has seen. */
  pids(all: Process[] = listProcesses()): number[] {
    if (this.#mark.cgroup) return pidsIn(this.#mark.cgroup)
    const { identity } = this
    const leader = identity && isGroupLeader(identity) ? identity.pid : undefined
    const known = new Set<number>(leader === undefined ? [] : [leader])
    const running = new Map(all.map(one => [one.pid, one]))
    for (const { pid, started } of this.#seen.values()) if (running.get(pid)?.started === started) known.add(pid)
    for (let size = -1; size < known.size; ) {
      size = known.size
      for (const { pid, parent, group, session } of all)
        if (known.has(parent) || known.has(group) || known.has(session)) known.add(pid)
    }
    const found = [...known].flatMap(pid => running.get(pid) ?? []).filter(one => one.pid !== process.pid)
    for (const one of found) this.#seen.set(one.pid, one)
    return found.map(one => one.pid)
  }

  /** Kills all of it now; what it forks meanwhile is killed by `end`. */
  kill(): void {
    if (this.#mark.cgroup) killCgroup(this.#mark.cgroup)
    else for (const pid of this.#findAll()) sendSignal(pid, 'SIGKILL')
  }

  /** Asks its group to end, kills what is left after a while, and returns when nothing of it runs. */
  async end(grace: number): Promise<void> {
    const { identity } = this
    // What has detached is known by its parents only as long as they run.
    this.pids()
    if (identity && isGroupLeader(identity) && isGroupAlive(identity.pid)) await endGroup(identity.pid, grace)
    if (this.#mark.cgroup) await removeCgroup(this.#mark.cgroup)
    else await killAll(() => this.#findAll())
  }

  #findAll(): number[] {
    const all = listProcesses()
    const { environment } = this.#mark
    const marked = environment.length ? all.filter(({ pid }) => hasEnvironment(pid, environment)) : []
    for (const one of marked) this.#seen.set(one.pid, one)
    return this.pids(all)
  }
}

/** Repeated until nothing is found: a process that is just forking is found with its child. */
async function killAll(find: () => number[]): Promise<void> {
  for (let pause = 1; ; pause = Math.min(pause * 2, 100)) {
    // What runs as another user, as a setuid program does, cannot be killed and is not waited for.
    const killed = find().filter(pid => sendSignal(pid, 'SIGKILL'))
    if (killed.length === 0) return
    await delay(pause)
  }
}

type ReadFolder = (folder: string) => void

/** The one that still runs; otherwise nothing of it does when this returns, and the folder was read and is gone. */
export async function findTracked(
  folder: string,
  grace: number,
  read: ReadFolder,
): Promise<TrackedProcess | undefined> {
  const found = readTracked(folder)
  if (found.identity && isAlive(found.identity) && !folder.endsWith(GONE_SUFFIX)) return found
  await endTracked(folder, grace, read)
  return undefined
}

export async function endTracked(folder: string, grace: number, read?: ReadFolder): Promise<void> {
  if (!fs.existsSync(folder)) return
  const gone = folder.endsWith(GONE_SUFFIX) ? folder : folder + GONE_SUFFIX
  if (gone !== folder) fs.renameSync(folder, gone)
  await readTracked(gone).end(grace)
  read?.(gone)
  fs.rmSync(gone, { recursive: true, force: true })
}

/** One that an earlier version of the agent started has no mark, only an identity. */
const readTracked = (folder: string) =>
  new TrackedProcess(
    readJson<ProcessMark>(join(folder, 'mark.json')) ?? { environment: [] },
    readJson<ProcessIdentity>(join(folder, 'identity.json')),
  )

/** Ends what was started for a revision in whatever way, where its environment still says so. */
export async function endRevisionProcesses(revision: string): Promise<void> {
  if (process.platform !== 'linux') return
  const environment = [`SLIPWAY_REVISION_ID=${revision}`]
  await killAll(() => listProcesses().flatMap(({ pid }) => (hasEnvironment(pid, environment) ? pid : [])))
}

function hasEnvironment(pid: number, lines: string[]): boolean {
  try {
    const text = `\0${fs.readFileSync(`/proc/${pid}/environ`, 'latin1')}`
    return lines.every(line => text.includes(`\0${line}\0`))
  } catch {
    return false
  }
}
