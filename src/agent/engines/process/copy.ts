// One running copy of an application: launched, found again by the next agent, its log followed.
import type { SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { list, readJson, writeJson } from '../../files.ts'
import { findMarked, type Marked, spawnMarked } from '../../marked.ts'
import { cutLine } from '../../places.ts'
import { listenersOn } from '../../ports.ts'
import { type Identity, isAlive, type Process } from '../../processes.ts'
import type { User } from '../../users.ts'
import { Lines, LONGEST_LINE } from '../container/frames.ts'
import { probe } from '../local/health.ts'
import type { Copy, Health } from '../local/pool.ts'
import { forShell } from '../local/shell.ts'

const MIB = 1024 * 1024
const LOG_BYTES = 8 * MIB
/** At once. More would not be kept on their way either, and telling them takes its time. */
const MOST_LINES = 20_000
const LAST_LINES = 40
const NEWLINE = 10
/** Up to where its log was told; `inside`: within a line, of which nothing more is to be told. */
type Position = { read: number; inside?: boolean }

type Launch = { command: string; cwd: string; env: Record<string, string>; port: number; user?: User | undefined }
type Kept = { port: number; uid?: number | undefined }
type Exit = { code: number | null; signal: string | null }

export class ProcessCopy implements Copy {
  readonly folder: string
  readonly port: number
  readonly last: string[] = []
  readonly #marked: Marked | undefined
  /** As whom it runs, where that is not the agent's own user. */
  readonly #uid: number | undefined
  exit: Exit | undefined
  blamed = false
  onExit = () => {}
  #ending = false
  /** What it left behind, when it has ended. */
  #clearing: Promise<void> | undefined
  /** It is our child: its end is told, and how it ended; whoever looks may see that it ended before. */
  #tells = false
  #read: number
  /** Where the line begins that has no end yet. */
  #begun: number
  /** The beginning of that line is not in the log any more. */
  #torn: boolean
  #unfinished: Lines

  private constructor(
    folder: string,
    { port, uid }: Kept,
    marked: Marked | undefined,
    { read, inside = false }: Position,
  ) {
    this.folder = folder
    this.port = port
    this.#uid = uid
    this.#marked = marked
    this.#read = read
    this.#begun = read
    this.#torn = inside
    this.#unfinished = unfinished(inside)
  }

  static launch(copies: string, { command, cwd, env, port, user }: Launch): ProcessCopy {
    const folder = join(copies, randomBytes(6).toString('hex'))
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const kept: Kept = { port, uid: user?.uid }
    writeJson(join(folder, 'copy.json'), kept)
    const log = fs.openSync(join(folder, 'log'), 'a', 0o600)
    const how: SpawnOptions = { cwd, env, stdio: ['ignore', log, log] }
    // It may open its output again by its name in /dev.
    if (user) fs.fchownSync(log, user.uid, user.gid)
    const marked = spawnMarked(folder, forShell(command), how, user)
    const { child } = marked
    fs.closeSync(log)
    child.unref()
    const copy = new ProcessCopy(folder, kept, marked, { read: 0 })
    const ended = (exit: Exit) => {
      if (copy.exit) return
      copy.exit = exit
      // What it started and left behind goes with it.
      if (!copy.#ending) void copy.#clear()
      copy.onExit()
    }
    copy.#tells = true
    child.once('exit', (code, signal) => ended({ code, signal }))
    child.once('error', () => ended({ code: 127, signal: null }))
    return copy
  }

  /** The copies that an earlier agent left; what is left of those that have ended is ended, told and forgotten. */
  static async adopt(copies: string, grace: number, tell: (line: string) => void): Promise<ProcessCopy[]> {
    const adopted: ProcessCopy[] = []
    for (const name of list(copies)) {
      const folder = join(copies, name)
      const kept = readJson<Kept>(join(folder, 'copy.json'))
      const position = readJson<Position>(join(folder, 'read.json')) ?? { read: 0 }
      const marked = await findMarked(folder, grace, left => {
        for (const line of new ProcessCopy(left, { port: 0 }, undefined, position).lines(true)) tell(line)
      })
      if (marked && kept) adopted.push(new ProcessCopy(folder, kept, marked, position))
    }
    return adopted
  }

  get identity(): Identity | undefined {
    return this.#marked?.identity
  }

  pids(all: Process[]): number[] {
    return this.#marked?.pids(all) ?? []
  }

  /** An adopted one does not tell. */
  get ending(): string | undefined {
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
    if (health.ok && this.#uid !== undefined && listenersOn(this.port).some(uid => uid !== this.#uid))
      return {
        ok: false,
        reason: `a process of another user listens on port ${this.port}, which the variable PORT names`,
      }
    return health
  }

  /** One that was launched tells of its end; an adopted one has to be looked at. */
  look(): void {
    if (this.#tells || this.exit || !this.identity || isAlive(this.identity)) return
    this.exit = { code: null, signal: null }
    void this.#clear().then(() => this.onExit())
  }

  kill(): void {
    if (!this.exit) this.#marked?.kill()
  }

  async end(grace: number): Promise<void> {
    this.onExit = () => {}
    // A shell in between ends first; the application may take its time.
    this.#ending = true
    if (!this.exit) await this.#marked?.end(grace)
    await this.#clearing
  }

  async #clear(): Promise<void> {
    this.#marked?.kill()
    this.#clearing = this.#marked?.end(0)
    await this.#clearing
  }

  forget(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  release(): void {}

  /** At the end all that is left. Of too much at once the last, and that something is left out. */
  lines(final = false): string[] {
    let lines: string[] = []
    try {
      lines = this.#readLines(final)
    } catch {
      // Its folder is gone.
    }
    if (final) lines.push(...this.#unfinished.end())
    const cut = lines.map(line => cutLine(line, LONGEST_LINE))
    this.last.push(...cut.slice(-LAST_LINES))
    this.last.splice(0, Math.max(0, this.last.length - LAST_LINES))
    return cut
  }

  #readLines(final: boolean): string[] {
    const file = join(this.folder, 'log')
    const { size } = fs.statSync(file)
    if (size < this.#read) this.#skipTo(0)
    if (size === this.#read) return []
    const skipped = final ? Math.max(0, size - this.#read - LOG_BYTES) : 0
    if (skipped) this.#skipTo(this.#read + skipped)
    const chunk = Buffer.alloc(Math.min(size - this.#read, final ? LOG_BYTES : MIB))
    const handle = fs.openSync(file, 'r')
    const count = fs.readSync(handle, chunk, 0, chunk.length, this.#read)
    fs.closeSync(handle)
    const lines = this.#unfinished.push(chunk.subarray(0, count))
    const end = chunk.subarray(0, count).lastIndexOf(NEWLINE)
    if (end >= 0) [this.#begun, this.#torn] = [this.#read + end + 1, false]
    this.#read += count
    if (this.#read > LOG_BYTES && this.#read >= fs.statSync(file).size) {
      fs.truncateSync(file)
      this.#torn ||= this.#begun < this.#read
      this.#read = 0
      this.#begun = 0
    }
    this.#keepPosition()
    return skipped || lines.length > MOST_LINES
      ? ['Lines are left out here: it wrote too many at once.', ...lines.slice(-MOST_LINES)]
      : lines
  }

  /** What is there may begin within a line, and half a line is not told: a secret would not be known by its half. */
  #skipTo(position: number): void {
    this.#read = position
    this.#begun = position
    this.#torn = true
    this.#unfinished = unfinished(true)
  }

  /** The next agent tells a line whole that this one has not told. */
  #keepPosition(): void {
    const inside = this.#torn || this.#unfinished.skips
    const position: Position = { read: inside ? this.#read : this.#begun, inside }
    fs.writeFileSync(join(this.folder, 'read.json'), JSON.stringify(position))
  }
}

/** A line that never ends costs no more than what is told of it. */
const unfinished = (inside: boolean) => new Lines(2 * LONGEST_LINE, { blank: true, inside })
