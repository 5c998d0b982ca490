// One running copy of an application: launched, found again by the next agent, its log followed.
import type { SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { cutLine } from '../../redaction/redact-paths.ts'
import { listFolder, readJson, writeJson } from '../../system/files.ts'
import { LineSplitter, MAX_LINE_LENGTH } from '../../system/lines.ts'
import { findPortUsers } from '../../system/ports.ts'
import { isAlive, type Process, type ProcessIdentity } from '../../system/processes.ts'
import { findTracked, spawnTracked, type TrackedProcess } from '../../system/tracked-process.ts'
import type { User } from '../../system/users.ts'
import { probe } from '../local/health.ts'
import type { Health, Replica } from '../local/replica-pool.ts'
import { shellCommand } from '../local/shell-command.ts'

const MIB = 1024 * 1024
const MAX_LOG_BYTES = 8 * MIB
/** At once. More would not be kept on their way either, and telling them takes its time. */
const MAX_LINES = 20_000
const LAST_LINES = 40
const NEWLINE = 10
/** Up to where its log was told; `inside`: within a line, of which nothing more is to be told. */
type LogPosition = { read: number; inside?: boolean }

type LaunchOptions = {
  command: string
  cwd: string
  env: Record<string, string>
  port: number
  user?: User | undefined
}
type SavedReplica = { port: number; uid?: number | undefined }
type Exit = { code: number | null; signal: string | null }

export class ProcessReplica implements Replica {
  readonly folder: string
  readonly port: number
  readonly lastLines: string[] = []
  readonly #tracked: TrackedProcess | undefined
  /** As whom it runs, where that is not the agent's own user. */
  readonly #uid: number | undefined
  exit: Exit | undefined
  hasKillReason = false
  onExit = () => {}
  #ending = false
  /** What it left behind, when it has ended. */
  #cleanup: Promise<void> | undefined
  /** It is our child: its end is told, and how it ended; whoever looks may see that it ended before. */
  #isChild = false
  #readOffset: number
  /** Where the line begins that has no end yet. */
  #lineStart: number
  /** The beginning of that line is not in the log any more. */
  #isLineCut: boolean
  #splitter: LineSplitter

  private constructor(
    folder: string,
    { port, uid }: SavedReplica,
    marked: TrackedProcess | undefined,
    { read, inside = false }: LogPosition,
  ) {
    this.folder = folder
    this.port = port
    this.#uid = uid
    this.#tracked = marked
    this.#readOffset = read
    this.#lineStart = read
    this.#isLineCut = inside
    this.#splitter = createSplitter(inside)
  }

  static launch(copies: string, { command, cwd, env, port, user }: LaunchOptions): ProcessReplica {
    const folder = join(copies, randomBytes(6).toString('hex'))
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const kept: SavedReplica = { port, uid: user?.uid }
    writeJson(join(folder, 'copy.json'), kept)
    const log = fs.openSync(join(folder, 'log'), 'a', 0o600)
    const how: SpawnOptions = { cwd, env, stdio: ['ignore', log, log] }
    // It may open its output again by its name in /dev.
    if (user) fs.fchownSync(log, user.uid, user.gid)
    const marked = spawnTracked(folder, shellCommand(command), how, user)
    const { child } = marked
    fs.closeSync(log)
    child.unref()
    const copy = new ProcessReplica(folder, kept, marked, { read: 0 })
    const ended = (exit: Exit) => {
      if (copy.exit) return
      copy.exit = exit
      // What it started and left behind goes with it.
      if (!copy.#ending) void copy.#endRemaining()
      copy.onExit()
    }
    copy.#isChild = true
    child.once('exit', (code, signal) => ended({ code, signal }))
    child.once('error', () => ended({ code: 127, signal: null }))
    return copy
  }

  /** The copies that an earlier agent left; what is left of those that have ended is ended, told and forgotten. */
  static async adopt(copies: string, grace: number, tell: (line: string) => void): Promise<ProcessReplica[]> {
    const adopted: ProcessReplica[] = []
    for (const name of listFolder(copies)) {
      const folder = join(copies, name)
      const kept = readJson<SavedReplica>(join(folder, 'copy.json'))
      const position = readJson<LogPosition>(join(folder, 'read.json')) ?? { read: 0 }
      const marked = await findTracked(folder, grace, left => {
        for (const line of new ProcessReplica(left, { port: 0 }, undefined, position).readLines(true)) tell(line)
      })
      if (marked && kept) adopted.push(new ProcessReplica(folder, kept, marked, position))
    }
    return adopted
  }

  get identity(): ProcessIdentity | undefined {
    return this.#tracked?.identity
  }

  pids(all: Process[]): number[] {
    return this.#tracked?.pids(all) ?? []
  }

  /** An adopted one does not tell. */
  get endReason(): string | undefined {
    if (!this.exit) return undefined
    const { code, signal } = this.exit
    if (signal) return `was killed by ${signal}`
    if (code === 127) return 'ended with code 127, which means that its program was not found'
    if (code === 0) return 'ended with code 0, as if it were done: an application has to go on running'
    return code === null ? 'ended' : `ended with code ${code}`
  }

  async probe(path: string | null, timeout: number): Promise<Health> {
    const health = await probe(this.port, path, timeout)
    // Another application may have taken the port before it did, and would get its requests.
    if (health.ok && this.#uid !== undefined && findPortUsers(this.port).some(uid => uid !== this.#uid))
      return {
        ok: false,
        reason: `a process of another user listens on port ${this.port}, which the variable PORT names`,
      }
    return health
  }

  /** One that was launched tells of its end; an adopted one has to be looked at. */
  checkExit(): void {
    if (this.#isChild || this.exit || !this.identity || isAlive(this.identity)) return
    this.exit = { code: null, signal: null }
    void this.#endRemaining().then(() => this.onExit())
  }

  kill(): void {
    if (!this.exit) this.#tracked?.kill()
  }

  async end(grace: number): Promise<void> {
    this.onExit = () => {}
    // A shell in between ends first; the application may take its time.
    this.#ending = true
    if (!this.exit) await this.#tracked?.end(grace)
    await this.#cleanup
  }

  async #endRemaining(): Promise<void> {
    this.#tracked?.kill()
    this.#cleanup = this.#tracked?.end(0)
    await this.#cleanup
  }

  forget(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  release(): void {}

  /** At the end all that is left. Of too much at once the last, and that something is left out. */
  readLines(final = false): string[] {
    let lines: string[] = []
    try {
      lines = this.#readLog(final)
    } catch {
      // Its folder is gone.
    }
    if (final) lines.push(...this.#splitter.end())
    const cut = lines.map(line => cutLine(line, MAX_LINE_LENGTH))
    this.lastLines.push(...cut.slice(-LAST_LINES))
    this.lastLines.splice(0, Math.max(0, this.lastLines.length - LAST_LINES))
    return cut
  }

  #readLog(final: boolean): string[] {
    const file = join(this.folder, 'log')
    const { size } = fs.statSync(file)
    if (size < this.#readOffset) this.#skipTo(0)
    if (size === this.#readOffset) return []
    const skipped = final ? Math.max(0, size - this.#readOffset - MAX_LOG_BYTES) : 0
    if (skipped) this.#skipTo(this.#readOffset + skipped)
    const chunk = Buffer.alloc(Math.min(size - this.#readOffset, final ? MAX_LOG_BYTES : MIB))
    const handle = fs.openSync(file, 'r')
    const count = fs.readSync(handle, chunk, 0, chunk.length, this.#readOffset)
    fs.closeSync(handle)
    const lines = this.#splitter.push(chunk.subarray(0, count))
    const end = chunk.subarray(0, count).lastIndexOf(NEWLINE)
    if (end >= 0) [this.#lineStart, this.#isLineCut] = [this.#readOffset + end + 1, false]
    this.#readOffset += count
    if (this.#readOffset > MAX_LOG_BYTES && this.#readOffset >= fs.statSync(file).size) {
      fs.truncateSync(file)
      this.#isLineCut ||= this.#lineStart < this.#readOffset
      this.#readOffset = 0
      this.#lineStart = 0
    }
    this.#savePosition()
    return skipped || lines.length > MAX_LINES
      ? ['Lines are left out here: it wrote too many at once.', ...lines.slice(-MAX_LINES)]
      : lines
  }

  /** What is there may begin within a line, and half a line is not told: a secret would not be known by its half. */
  #skipTo(position: number): void {
    this.#readOffset = position
    this.#lineStart = position
    this.#isLineCut = true
    this.#splitter = createSplitter(true)
  }

  /** The next agent tells a line whole that this one has not told. */
  #savePosition(): void {
    const inside = this.#isLineCut || this.#splitter.isSkipping
    const position: LogPosition = { read: inside ? this.#readOffset : this.#lineStart, inside }
    fs.writeFileSync(join(this.folder, 'read.json'), JSON.stringify(position))
  }
}

/** A line that never ends costs no more than what is told of it. */
const createSplitter = (inside: boolean) => new LineSplitter(2 * MAX_LINE_LENGTH, { blank: true, inside })
