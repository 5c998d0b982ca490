// Backs up the databases of deployments: a base backup a day, the WAL as it is written, snapshots, and restores.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { PermanentError, type RestorePoint, SnapshotUnsupported } from '../engine.ts'
import { freeBytesOf, readJson, removeRecursively, writeJson } from '../system/files.ts'
import type { BaseBackup, DatabaseHistory } from './history.ts'

/** `wal`: a folder of WAL files to read up to `at`. Without it, the base backup is restored as it is. */
export type RestoreSource = { base: string; history?: { wal: string; at: Date } }

/** The databases of an engine. */
export interface DatabaseHost {
  /** Names the data folder. Undefined: there is no database that can be backed up. */
  generationOf(deployment_id: string): string | undefined
  /** The major version of Postgres that it runs. */
  majorVersion(deployment_id: string): Promise<number>
  /** The first row, as texts. */
  query(deployment_id: string, sql: string): Promise<string[]>
  /** Ends the sessions of applications, and lets no other in until the database is opened again. */
  closeToApplications(deployment_id: string): Promise<void>
  /** A tar of the data folder, with the WAL that makes it consistent. */
  openBackup(deployment_id: string): Promise<Readable>
  /** WAL files that Postgres has archived and that were not removed yet. */
  listWal(deployment_id: string): Promise<string[]>
  openWal(deployment_id: string, name: string): Promise<Readable>
  removeWal(deployment_id: string, name: string): Promise<void>
  /** Rejects if Postgres cannot archive. False: it could not for long, and goes on without until `resumeArchiving`. */
  isArchiving(deployment_id: string): Promise<boolean>
  resumeArchiving(deployment_id: string): Promise<void>
  /**
   * Makes a new data folder of a backup, and puts it into the place of the present one as the last step. `beforeSwitch`
   * is called with the name of the old one.
   */
  restore(
    deployment_id: string,
    source: RestoreSource,
    beforeSwitch: (generation: string | undefined) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>
}

/** Beside the tar of a snapshot. */
type SnapshotFacts = { engine: string; major: number }
type Options = {
  host: DatabaseHost
  history: DatabaseHistory
  engine: string
  /** For files on their way. */
  work: string
  /** The WAL files that wait for the store. More are given up, so that they do not fill the disk. */
  max_waiting: number
  /** The most that the history of a database takes. One base backup and the WAL since are kept in any case. */
  max_bytes: (deployment_id: string) => number
  /** A sentence for the log of the deployment. */
  report: (deployment_id: string, message: string, isProblem: boolean) => void
}

const BASE_FILE = 'base.tar.gz'
const FACTS_FILE = 'database.json'
const DAY_MS = 24 * 3600_000
const ARCHIVED_MS = 60_000
/** Another database gets its turn then. The work goes on. */
const PATIENCE_MS = 30_000
/** A backup begins with a checkpoint. */
const STALL_MS = 300_000
const WAL_FILE_MS = 60_000
/** Databases of earlier releases have files of 16 MiB, and those of this one of 4. */
const MAX_WAL_BYTES = 16 * 1024 * 1024
/** In a container the application can put anything into the folder: it is a superuser of its database. */
const WAL_FILE = /^(?:[0-9A-F]{24}(?:\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/
const MIN_FREE_BYTES = 512 * 1024 * 1024
const LOOK_BYTES = 16 * 1024 * 1024
/** A database that has written less since its last backup needs no other. */
const QUIET_BYTES = 16 * 1024 * 1024

const START = 'select pg_walfile_name(pg_current_wal_lsn()), now()::text'
const END = 'select pg_current_wal_lsn()::text, clock_timestamp()::text, pg_walfile_name(pg_current_wal_lsn())'
/** A transaction, after which each time until now has one. Then the segment that has it is closed. */
const CLOSE_SEGMENT = `with mark as materialized (select pg_logical_emit_message(true, 'slipway', '') as at)
  select pg_walfile_name(at) from mark`

/**
 * Asks about a segment that is closed. The last file may be one that describes a backup, with the name of a segment
 * before.
 */
const isArchivedSql = (segment: string) =>
  `select (
      substr(left(coalesce(last_archived_wal, ''), 24), 9) >= '${segment.slice(8)}'
      and not exists (select from pg_ls_archive_statusdir() where name = '${segment}.ready')
    )::text
  from pg_stat_archiver`

export class DatabaseBackups {
  readonly #options: Options
  /** Deployments whose backup failed, with the message that was reported. */
  readonly #failing = new Map<string, string>()
  /** The newest base backup of each, and the WAL that was stored since this agent knows it. */
  readonly #newest = new Map<string, { base: BaseBackup; wal_bytes: number }>()
  readonly #shipping = new Map<string, Promise<unknown>>()
  /** Counts the removals of the history of each: a database may be made anew. */
  readonly #removals = new Map<string, number>()
  readonly #maintaining = new Set<string>()
  #sweeping = false
  #lastBase: Promise<unknown> = Promise.resolve()

  constructor(options: Options) {
    this.#options = options
    fs.rmSync(options.work, { recursive: true, force: true })
  }

  get failing(): number {
    return this.#failing.size
  }

  /** Stores new WAL of these deployments, and takes the base backups that are due. Call it often. */
  async sweep(deployment_ids: string[], now = Date.now()): Promise<void> {
    if (this.#sweeping) return
    this.#sweeping = true
    for (const id of deployment_ids) {
      if (this.#maintaining.has(id)) continue
      const waiting = new AbortController()
      const work = this.#maintainOnce(id, now).finally(() => waiting.abort())
      await Promise.race([work, delay(PATIENCE_MS, undefined, { signal: waiting.signal }).catch(() => {})])
    }
    this.#sweeping = false
  }

  async #maintainOnce(id: string, now: number): Promise<void> {
    this.#maintaining.add(id)
    const failure = await this.#maintain(id, now).then(
      () => undefined,
      (error: Error) => error.message,
    )
    this.#maintaining.delete(id)
    this.#noteFailure(id, failure)
  }

  async #maintain(id: string, now: number): Promise<void> {
    const { host, history } = this.#options
    const generation = host.generationOf(id)
    if (!generation) return
    await this.#ship(id)
    const hasGap = !(await host.isArchiving(id))
    if (hasGap) await host.resumeArchiving(id)
    if (!hasGap && !(await this.#isDue(id, generation, now))) return
    await this.#backUpInTurn(id)
    await history.sweep(id, generation, this.#options.max_bytes(id), now)
  }

  async #isDue(id: string, generation: string, now: number): Promise<boolean> {
    const { host, history, max_bytes } = this.#options
    let newest = this.#newest.get(id)
    if (newest?.base.generation !== generation) {
      // The agent before may have been killed in a restore that had not replaced it yet.
      await history.resumeGeneration(id, generation)
      const base = (await history.listBackups(id)).findLast(base => base.generation === generation)
      if (!base) return true
      newest = { base, wal_bytes: 0 }
      this.#newest.set(id, newest)
    }
    // Lets older backups go sooner.
    if (newest.wal_bytes > max_bytes(id) / 4) return true
    if (now - Date.parse(newest.base.ended_at) < DAY_MS) return false
    const sql = `select (pg_current_wal_lsn() - '${newest.base.lsn}' > ${QUIET_BYTES})::text`
    return (await host.query(id, sql))[0] === 'true'
  }

  /** A failure is logged once, and its end too. */
  #noteFailure(id: string, failure: string | undefined): void {
    if (this.#failing.get(id) === failure) return
    const { report } = this.#options
    if (failure === undefined) {
      this.#failing.delete(id)
      report(id, 'The backup of the database works again.', false)
    } else {
      this.#failing.set(id, failure)
      report(id, `The backup of the database fails: ${failure.replace(/\.$/, '')}. It is tried again.`, true)
    }
  }

  /** One at a time, because each reads all data. */
  #backUpInTurn(id: string): Promise<void> {
    const next = this.#lastBase.then(() => this.#unlessRemoved(id, () => this.#backUp(id)))
    this.#lastBase = next.catch(() => {})
    return next
  }

  async #backUp(id: string): Promise<void> {
    const { host, history } = this.#options
    const generation = host.generationOf(id)!
    const folder = this.#makeWorkFolder()
    try {
      const [first_wal = '', began_at] = await host.query(id, START)
      const file = join(folder, BASE_FILE)
      await writeCompressed(await host.openBackup(id), file)
      const [lsn = '', ended_at, last_wal = ''] = await host.query(id, END)
      const name = new Date(ended_at!).toISOString().replaceAll(':', '')
      const times = { began_at: new Date(began_at!).toISOString(), ended_at: new Date(ended_at!).toISOString() }
      const size_bytes = fs.statSync(file).size
      const major = await host.majorVersion(id)
      const base = { generation, name, ...times, first_wal, last_wal, lsn, major, size_bytes }
      if (host.generationOf(id) !== generation) throw new Error('The database was restored meanwhile.')
      await history.addBackup(id, base, file)
      this.#newest.set(id, { base, wal_bytes: 0 })
    } finally {
      await removeRecursively(folder)
    }
  }

  /** Removes the history once more if it was removed while something of it was on its way to the store. */
  async #unlessRemoved(id: string, work: () => Promise<void>): Promise<void> {
    const before = this.#removals.get(id)
    try {
      await work()
    } finally {
      if (this.#removals.get(id) !== before) await this.#options.history.remove(id)
    }
  }

  /** Stores what Postgres has archived. Two at the same time would store a file twice. */
  async #ship(id: string): Promise<void> {
    const running =
      this.#shipping.get(id) ??
      this.#unlessRemoved(id, () => this.#shipAll(id)).finally(() => this.#shipping.delete(id))
    this.#shipping.set(id, running)
    await running
  }

  async #shipAll(id: string): Promise<void> {
    const { host, history } = this.#options
    const generation = host.generationOf(id)!
    const names = (await host.listWal(id)).filter(name => WAL_FILE.test(name)).sort()
    if (names.length === 0) return
    const folder = this.#makeWorkFolder()
    try {
      for (const name of names) {
        const file = join(folder, name)
        await writeCompressed(await host.openWal(id, name), file, AbortSignal.timeout(WAL_FILE_MS), MAX_WAL_BYTES)
        if (host.generationOf(id) !== generation) return
        const newest = this.#newest.get(id)
        if (newest) newest.wal_bytes += fs.statSync(file).size
        await history.addWal(id, generation, name, file)
        await host.removeWal(id, name)
      }
    } catch (error) {
      await this.#giveUpOldest(id)
      throw error
    } finally {
      await removeRecursively(folder)
    }
  }

  /** The store does not take them. A base backup follows once it does. */
  async #giveUpOldest(id: string): Promise<void> {
    const { host, max_waiting } = this.#options
    const waiting = (await host.listWal(id)).sort()
    for (const name of waiting.slice(0, Math.max(0, waiting.length - max_waiting))) await host.removeWal(id, name)
  }

  /** Writes the database as it is now into a folder. */
  async takeSnapshot(id: string, folder: string, signal: AbortSignal): Promise<void> {
    const { host, engine } = this.#options
    if (!host.generationOf(id)) throw noBackups()
    const major = await host.majorVersion(id)
    await writeCompressed(await host.openBackup(id), join(folder, BASE_FILE), signal)
    writeJson(join(folder, FACTS_FILE), { engine, major } satisfies SnapshotFacts)
  }

  /** From a folder that `takeSnapshot` wrote, or from the history of a deployment. The present data are replaced. */
  async restore(id: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    const { host, history } = this.#options
    if (!host.generationOf(id)) throw noBackups()
    const major = await host.majorVersion(id)
    const folder = this.#makeWorkFolder()
    try {
      const source = 'folder' in from ? this.#readSnapshot(from.folder, major) : undefined
      await host.restore(
        id,
        source ?? (await this.#readHistory(from as HistoryPoint, folder, major, signal)),
        async old => {
          if (old) await this.#endGeneration(id, old)
        },
        signal,
      )
    } finally {
      await removeRecursively(folder)
      const generation = host.generationOf(id)
      if (generation) await history.resumeGeneration(id, generation).catch(() => {})
    }
  }

  #readSnapshot(folder: string, major: number): RestoreSource {
    const facts = readJson<SnapshotFacts>(join(folder, FACTS_FILE))
    const base = join(folder, BASE_FILE)
    if (!facts || !fs.existsSync(base)) throw new PermanentError('This snapshot is not one of a database.')
    if (facts.engine !== this.#options.engine)
      throw new PermanentError(
        `This snapshot was taken by the ${facts.engine} engine. Restore it there, and bring the data with ` +
          '`slipway db dump`.',
      )
    refuseOtherMajor(facts.major, major)
    return { base }
  }

  async #readHistory(
    { deployment_id, at }: HistoryPoint,
    folder: string,
    major: number,
    signal: AbortSignal,
  ): Promise<RestoreSource> {
    const { history, host } = this.#options
    if (at.getTime() > Date.now()) throw new PermanentError('The time is in the future.')
    // Without a server that runs, what was archived before has to be enough.
    if (host.generationOf(deployment_id)) await this.#archiveAll(deployment_id).catch(() => {})
    const base = await history.findBackup(deployment_id, at)
    refuseOtherMajor(base.major, major)
    const file = join(folder, BASE_FILE)
    await history.fetchBackup(deployment_id, base, file)
    const wal = join(folder, 'wal')
    fs.mkdirSync(wal)
    await history.fetchWal(deployment_id, base, at, wal, signal)
    for (const name of fs.readdirSync(wal)) {
      const compressed = join(wal, name)
      const plain = compressed.replace(/\.gz$/, '')
      await pipeline(fs.createReadStream(compressed), createGunzip(), fs.createWriteStream(plain), { signal })
      fs.rmSync(compressed)
    }
    return { base: file, history: { wal, at } }
  }

  /** Everything that was committed until now is stored when it returns. */
  async #archiveAll(id: string): Promise<void> {
    const { host } = this.#options
    const [segment] = await host.query(id, CLOSE_SEGMENT)
    await host.query(id, 'select pg_switch_wal()::text')
    for (const end = Date.now() + ARCHIVED_MS; Date.now() < end; await delay(50)) {
      const [isArchived] = await host.query(id, isArchivedSql(segment!))
      await this.#ship(id)
      // The run that has just ended may have begun before the file was there.
      if (isArchived === 'true' && !(await host.listWal(id)).includes(segment!)) return
    }
    throw new Error('Postgres does not archive its WAL.')
  }

  /** The history has all that was committed then. Data that no server can read end with what was archived. */
  async #endGeneration(id: string, generation: string): Promise<void> {
    const { history, host } = this.#options
    await host.closeToApplications(id).catch(() => {})
    const [, at] = await host.query(id, END).catch((): string[] => [])
    await this.#archiveAll(id).catch(() => {})
    await history.endGeneration(id, generation, new Date(at ?? Date.now()).toISOString())
  }

  async remove(id: string): Promise<void> {
    this.#removals.set(id, (this.#removals.get(id) ?? 0) + 1)
    this.#failing.delete(id)
    this.#newest.delete(id)
    await this.#options.history.remove(id)
  }

  #makeWorkFolder(): string {
    const { work } = this.#options
    fs.mkdirSync(work, { recursive: true, mode: 0o700 })
    return fs.mkdtempSync(join(work, 'w-'))
  }
}

type HistoryPoint = Extract<RestorePoint, { at: Date }>

function refuseOtherMajor(major: number, present: number): void {
  if (major !== present)
    throw new PermanentError(`This backup is one of Postgres ${major}, and the database runs ${present}.`)
}

const noBackups = () =>
  new SnapshotUnsupported(
    'This database has no backups: it is on a server that several deployments share. Bring its data into a new ' +
      'deployment with `slipway db dump` and `slipway db restore`.',
  )

/** The stream may be endless or silent, by a fault or on purpose. */
async function writeCompressed(
  from: Readable,
  file: string,
  signal?: AbortSignal,
  max_bytes = Number.POSITIVE_INFINITY,
): Promise<void> {
  const stalled = new AbortController()
  const timer = setTimeout(() => stalled.abort(), STALL_MS)
  let bytes = 0
  let looked = 0
  const watch = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      timer.refresh()
      bytes += chunk.length
      if (bytes > max_bytes) throw new Error(`A file of its WAL has more than ${max_bytes} bytes.`)
      if (bytes - looked > LOOK_BYTES) {
        looked = bytes
        requireSpace(file)
      }
      yield chunk
    }
  }
  const signals = [stalled.signal, ...(signal ? [signal] : [])]
  const to = fs.createWriteStream(file, { mode: 0o600, flush: true })
  try {
    await pipeline(from, watch, createGzip({ level: 1 }), to, { signal: AbortSignal.any(signals) })
  } catch (error) {
    const isOver = stalled.signal.aborted || (signal?.reason as Error | undefined)?.name === 'TimeoutError'
    throw isOver ? new Error('The database did not send it in time.') : error
  } finally {
    clearTimeout(timer)
  }
}

function requireSpace(file: string): void {
  if (freeBytesOf(dirname(file)) < MIN_FREE_BYTES)
    throw new PermanentError('The machine of the agent has less than 512 MiB left.')
}
