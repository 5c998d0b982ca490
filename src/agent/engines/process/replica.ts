// A replica that is a process: launches it, finds it again after a restart of the agent, and follows its log.
import type { SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { cutLine } from '../../redaction/redact-paths.ts'
import { listFolder, readJson, readText, writeJson } from '../../system/files.ts'
import { levelOf } from '../../system/line-level.ts'
import { MAX_LINE_LENGTH } from '../../system/lines.ts'
import { LogFile } from '../../system/log-file.ts'
import { isPortOfOther, listListeningPorts } from '../../system/ports.ts'
import { isAlive, type Process, type ProcessIdentity } from '../../system/processes.ts'
import { shellCommand } from '../../system/shell-command.ts'
import { findTracked, readTracked, spawnTracked, type TrackedProcess } from '../../system/tracked-process.ts'
import type { User } from '../../system/users.ts'
import { describeListening, findAnnouncedPort, probe } from '../local/health.ts'
import type { Health, OutputLine, Replica, ReplicaUsage, Unhealthy } from '../local/replica.ts'

const LAST_LINES = 40
/** The file with its standard error. Copies that an earlier agent started have none. */
const ERRORS = 'errors'
/** A look at the ports of a replica reads much of /proc. */
const LOOK_MS = 1_000
/** Writes the exit code of a command, which the next agent would not see, to a file that the command cannot reach. */
const RECORD_EXIT_CODE = '"$@" 4>&-; code=$?; echo $code >&4; exit $code'

type LaunchOptions = {
  command: string
  cwd: string
  env: Record<string, string>
  port: number
  user?: User | undefined
  /** In cores. Absent: no limit. */
  cpuLimit?: number | undefined
}
type SavedReplica = { port: number; uid?: number | undefined }
type Exit = { code: number | null; signal: string | null }
/** A shell in between exits with 137. */
const isKilled = ({ code, signal }: Exit) => signal === 'SIGKILL' || code === 137

export class ProcessReplica implements Replica {
  readonly folder: string
  readonly port: number
  readonly lastLines: string[] = []
  readonly #tracked: TrackedProcess | undefined
  readonly #uid: number | undefined
  exit: Exit | undefined
  isOutOfMemory = false
  hasKillReason = false
  onExit = () => {}
  #ending = false
  /** Ends the processes that it left behind. */
  #cleanup: Promise<void> | undefined
  /** A child reports its exit by an event; an adopted process has to be checked. */
  #isChild = false
  /** The last look at its ports since nothing listens on the one in PORT. */
  #silence: { lookedAt: number; finding: Unhealthy | undefined } | undefined
  /** The CPU time so far. */
  #cpuMs: number | null = null
  readonly #output: LogFile
  readonly #errors: LogFile

  private constructor(folder: string, { port, uid }: SavedReplica, tracked: TrackedProcess | undefined) {
    this.folder = folder
    this.port = port
    this.#uid = uid
    this.#tracked = tracked
    this.#output = new LogFile(folder, 'log', 'read.json')
    this.#errors = new LogFile(folder, ERRORS, 'errors-read.json')
  }

  static launch(replicasFolder: string, { command, port, user, ...place }: LaunchOptions): ProcessReplica {
    const folder = join(replicasFolder, randomBytes(6).toString('hex'))
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const saved: SavedReplica = { port, uid: user?.uid }
    writeJson(join(folder, 'copy.json'), saved)
    return ProcessReplica.#spawn(folder, saved, shellCommand(command), { ...place, user })
  }

  /** Runs a command that ends, in a folder of its own that keeps its exit code. */
  static launchRun(folder: string, { command, user, ...place }: Omit<LaunchOptions, 'port'>): ProcessReplica {
    const recorded = ['/bin/sh', '-c', RECORD_EXIT_CODE, 'sh', ...shellCommand(command)]
    const status = fs.openSync(join(folder, 'status'), 'w', 0o600)
    try {
      return ProcessReplica.#spawn(folder, { port: 0, uid: user?.uid }, recorded, { ...place, user }, status)
    } finally {
      fs.closeSync(status)
    }
  }

  /** A run of an earlier agent, also one that has ended. Undefined if its command was not started. */
  static findRun(folder: string): ProcessReplica | undefined {
    const tracked = readTracked(folder)
    if (!tracked.identity) return undefined
    return new ProcessReplica(folder, { port: 0 }, tracked)
  }

  static #spawn(
    folder: string,
    saved: SavedReplica,
    command: string[],
    { cwd, env, user, cpuLimit }: Omit<LaunchOptions, 'command' | 'port'>,
    status?: number,
  ): ProcessReplica {
    const [output, errors] = ['log', ERRORS].map(name => fs.openSync(join(folder, name), 'a', 0o600)) as [
      number,
      number,
    ]
    const options: SpawnOptions = {
      cwd,
      env,
      stdio: ['ignore', output, errors, ...(status === undefined ? [] : [status])],
    }
    // The application may reopen its output as /dev/stdout.
    if (user) for (const log of [output, errors]) fs.fchownSync(log, user.uid, user.gid)
    const tracked = spawnTracked(folder, command, options, user, cpuLimit)
    const { child } = tracked
    for (const log of [output, errors]) fs.closeSync(log)
    child.unref()
    const replica = new ProcessReplica(folder, saved, tracked)
    const handleExit = (exit: Exit) => {
      if (replica.exit) return
      replica.exit = exit
      replica.isOutOfMemory = isKilled(exit) && tracked.wasKilledForMemory()
      if (!replica.#ending) void replica.#endRemaining()
      replica.onExit()
    }
    replica.#isChild = true
    child.once('exit', (code, signal) => handleExit({ code, signal }))
    child.once('error', () => handleExit({ code: 127, signal: null }))
    return replica
  }

  /** Adopts the running replicas of an earlier agent. Of ended ones, it ends left-over processes and logs the rest. */
  static async adopt(
    replicasFolder: string,
    grace: number,
    logLine: (line: OutputLine) => void,
  ): Promise<ProcessReplica[]> {
    const adopted: ProcessReplica[] = []
    for (const name of listFolder(replicasFolder)) {
      const folder = join(replicasFolder, name)
      const saved = readJson<SavedReplica>(join(folder, 'copy.json'))
      const tracked = await findTracked(folder, grace, ended => {
        for (const line of new ProcessReplica(ended, { port: 0 }, undefined).readLines(true)) logLine(line)
      })
      if (tracked && saved) adopted.push(new ProcessReplica(folder, saved, tracked))
    }
    return adopted
  }

  get identity(): ProcessIdentity | undefined {
    return this.#tracked?.identity
  }

  pids(list: () => Process[]): number[] {
    return this.#tracked?.pids(list) ?? []
  }

  /** A process beside it counts towards its limits, and ends with it. */
  get cgroup(): string | undefined {
    return this.#tracked?.cgroup
  }

  listensOn(port: number): boolean {
    const pids = this.#tracked?.pids() ?? []
    const ports = listListeningPorts(pids)
    if (ports) return ports.includes(port)
    // Without /proc only its own port is known to be its own.
    return port === this.port && (this.#uid === undefined || !isPortOfOther(port, this.#uid))
  }

  async usage(list: () => Process[]): Promise<ReplicaUsage> {
    if (!this.exit) this.#measureCpu(list)
    return { cpu_ms: this.#cpuMs, memory_bytes: null }
  }

  /** Never goes back when a process ends. */
  #measureCpu(list?: () => Process[]): void {
    const cpuMs = this.#tracked?.cpuMs(list)
    if (cpuMs !== undefined) this.#cpuMs = Math.max(this.#cpuMs ?? 0, cpuMs)
  }

  /** An adopted process has no exit code. */
  get endReason(): string | undefined {
    if (!this.exit) return undefined
    const { code, signal } = this.exit
    if (this.isOutOfMemory) return 'was killed, because memory ran out: raise memory_limit_mb, or use less'
    if (signal) return `was killed by ${signal}`
    if (code === 127) return 'ended with code 127, which means that its program was not found'
    if (code === 0) return 'ended with code 0, but an application must keep running'
    return code === null ? 'ended' : `ended with code ${code}`
  }

  async probe(path: string | null, timeout: number): Promise<Health> {
    const health = await probe(this.port, path, timeout)
    if (!health.ok && health.about === 'no_listener') return this.#findListening() ?? health
    this.#silence = undefined
    // Another application may have taken the port first, and would receive the requests.
    if (health.ok && this.#uid !== undefined && isPortOfOther(this.port, this.#uid))
      return {
        ok: false,
        reason: `a process of another user listens on port ${this.port}, the value of PORT`,
      }
    return health
  }

  /** Undefined at first: a program needs time to listen. */
  #findListening(): Unhealthy | undefined {
    const now = Date.now()
    this.#silence ??= { lookedAt: now, finding: undefined }
    if (now - this.#silence.lookedAt < LOOK_MS) return this.#silence.finding
    const announced = findAnnouncedPort(this.lastLines)
    const ports = listListeningPorts(this.#tracked?.pids() ?? []) ?? (announced === undefined ? undefined : [announced])
    const finding = ports && describeListening(ports, this.port)
    this.#silence = { lookedAt: now, finding }
    return finding
  }

  checkExit(): void {
    if (this.#isChild || this.exit || !this.identity || isAlive(this.identity)) return
    this.exit = { code: readExitCode(this.folder), signal: null }
    void this.#endRemaining().then(() => this.onExit())
  }

  kill(): void {
    if (!this.exit) this.#tracked?.kill()
  }

  async end(grace: number): Promise<void> {
    this.onExit = () => {}
    // A shell in between may exit before the application: `#ending` keeps the grace period.
    this.#ending = true
    if (!this.exit) await this.#tracked?.end(grace)
    await this.#cleanup
  }

  async freeze(): Promise<void> {
    this.#tracked?.freeze()
  }

  async thaw(): Promise<void> {
    if (!this.exit) this.#tracked?.thaw()
  }

  async #endRemaining(): Promise<void> {
    // Measures before the cgroup is removed.
    this.#measureCpu()
    this.#tracked?.kill()
    this.#cleanup = this.#tracked?.end(0)
    await this.#cleanup
  }

  forget(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  release(): void {}

  /** Lines of standard error come last: nothing tells the order of lines of two files. */
  readLines(final = false): OutputLine[] {
    const cut = (log: LogFile, isError: boolean) =>
      log.read(final).map(line => {
        const text = cutLine(line, MAX_LINE_LENGTH)
        return { text, level: levelOf(text, isError), isError }
      })
    const lines = [...cut(this.#output, false), ...cut(this.#errors, true)]
    this.lastLines.push(...lines.slice(-LAST_LINES).map(({ text }) => text))
    this.lastLines.splice(0, Math.max(0, this.lastLines.length - LAST_LINES))
    return lines
  }

  unfinishedLine(isError: boolean): string {
    return (isError ? this.#errors : this.#output).unfinishedLine
  }
}

/** Null if the agent does not record it, or the process was killed. */
function readExitCode(folder: string): number | null {
  const text = readText(folder, 'status')?.trim()
  return text ? Number(text) : null
}
