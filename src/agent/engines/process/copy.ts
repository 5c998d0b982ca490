// One running copy of an application: launched, found again by the next agent, its log followed.
import type { SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { list, readJson, writeJson } from '../../files.ts'
import { findMarked, spawnMarked } from '../../marked.ts'
import { cutLine, tellable } from '../../places.ts'
import { endGroup, endLeftOf, type Identity, isAlive, signalGroup } from '../../processes.ts'
import { probe } from '../local/health.ts'
import type { Copy, Health } from '../local/pool.ts'
import { forShell } from '../local/shell.ts'

const MIB = 1024 * 1024
const LOG_BYTES = 8 * MIB
/** At once. More would not be kept on their way either, and telling them takes its time. */
const MOST_LINES = 20_000
const LONGEST_LINE = 16 * 1024
const LAST_LINES = 40

type Launch = { command: string; cwd: string; env: Record<string, string>; port: number }
type Kept = { port: number }
type Exit = { code: number | null; signal: string | null }

export class ProcessCopy implements Copy {
  readonly folder: string
  readonly port: number
  readonly last: string[] = []
  identity: Identity | undefined
  exit: Exit | undefined
  blamed = false
  onExit = () => {}
  #ending = false
  /** What it left behind, when it has ended. */
  #clearing: Promise<void> | undefined
  /** It is our child: its end is told, and how it ended; whoever looks may see that it ended before. */
  #tells = false
  #read: number
  #rest = ''
  // A character may be cut in two.
  readonly #decoder = new StringDecoder('utf8')

  private constructor(folder: string, port: number, identity: Identity | undefined, read: number) {
    this.folder = folder
    this.port = port
    this.identity = identity
    this.#read = read
  }

  static launch(copies: string, { command, cwd, env, port }: Launch): ProcessCopy {
    const folder = join(copies, randomBytes(6).toString('hex'))
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeJson(join(folder, 'copy.json'), { port } satisfies Kept)
    const log = fs.openSync(join(folder, 'log'), 'a', 0o600)
    const how: SpawnOptions = { cwd, env, stdio: ['ignore', log, log] }
    const { child, identity } = spawnMarked(folder, forShell(command), how)
    fs.closeSync(log)
    child.unref()
    const copy = new ProcessCopy(folder, port, identity, 0)
    const ended = (exit: Exit) => {
      if (copy.exit) return
      copy.exit = exit
      // What it started and left behind goes with it.
      if (child.pid && !copy.#ending) signalGroup(child.pid, 'SIGKILL')
      copy.onExit()
    }
    copy.#tells = true
    child.once('exit', (code, signal) => ended({ code, signal }))
    child.once('error', () => ended({ code: 127, signal: null }))
    return copy
  }

  /** The copies that an earlier agent left; what is left of those that have ended is ended, told and forgotten. */
  static async adopt(
    copies: string,
    revision: string,
    grace: number,
    tell: (line: string) => void,
  ): Promise<ProcessCopy[]> {
    const adopted: ProcessCopy[] = []
    for (const name of list(copies)) {
      const folder = join(copies, name)
      const kept = readJson<Kept>(join(folder, 'copy.json'))
      const { read = 0 } = readJson<{ read: number }>(join(folder, 'read.json')) ?? {}
      const identity = await findMarked(folder, revision, grace, left => {
        for (const line of new ProcessCopy(left, 0, undefined, read).lines(true)) tell(line)
      })
      if (identity && kept) adopted.push(new ProcessCopy(folder, kept.port, identity, read))
    }
    return adopted
  }

  get group(): number | undefined {
    return this.identity?.pid
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

  probe(path: string | null, timeout: number): Promise<Health> {
    return probe(this.port, path, timeout)
  }

  /** One that was launched tells of its end; an adopted one has to be looked at. */
  look(): void {
    if (this.#tells || this.exit || !this.identity || isAlive(this.identity)) return
    this.exit = { code: null, signal: null }
    this.#clearing = endLeftOf(this.identity, 0)
    void this.#clearing.then(() => this.onExit())
  }

  kill(): void {
    if (this.group && !this.exit) signalGroup(this.group, 'SIGKILL')
  }

  async end(grace: number): Promise<void> {
    this.onExit = () => {}
    // A shell in between ends first; the application may take its time.
    this.#ending = true
    if (this.group && !this.exit) await endGroup(this.group, grace)
    await this.#clearing
  }

  forget(): void {
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  release(): void {}

  /** At the end all that is left. Of too much at once the last, and that something is left out. */
  lines(final = false): string[] {
    const file = join(this.folder, 'log')
    let lines: string[] = []
    try {
      const { size } = fs.statSync(file)
      if (size < this.#read) this.#read = 0
      if (size > this.#read) {
        const skipped = final ? Math.max(0, size - this.#read - LOG_BYTES) : 0
        this.#read += skipped
        const chunk = Buffer.alloc(Math.min(size - this.#read, final ? LOG_BYTES : MIB))
        const handle = fs.openSync(file, 'r')
        const count = fs.readSync(handle, chunk, 0, chunk.length, this.#read)
        fs.closeSync(handle)
        this.#read += count
        lines = (this.#rest + this.#decoder.write(chunk.subarray(0, count))).split(/\r?\n/)
        // What is skipped ends in the middle of a line.
        if (skipped) lines.shift()
        this.#rest = lines.pop() ?? ''
        if (skipped || lines.length > MOST_LINES)
          lines = ['Lines are left out here: it wrote too many at once.', ...lines.slice(-MOST_LINES)]
        if (this.#read > LOG_BYTES && this.#read >= fs.statSync(file).size) {
          fs.truncateSync(file)
          this.#read = 0
        }
        fs.writeFileSync(join(this.folder, 'read.json'), JSON.stringify({ read: this.#read }))
      }
    } catch {
      // Its folder is gone.
    }
    if ((final && this.#rest) || this.#rest.length > LONGEST_LINE) {
      const told = final ? this.#rest.length : tellable(this.#rest)
      lines.push(this.#rest.slice(0, told))
      this.#rest = this.#rest.slice(told)
    }
    const cut = lines.map(line => cutLine(line, LONGEST_LINE))
    this.last.push(...cut.slice(-LAST_LINES))
    this.last.splice(0, Math.max(0, this.last.length - LAST_LINES))
    return cut
  }
}
