// Backs up the databases of deployments: a base backup a day, the WAL as it is written, snapshots, and restores.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PermanentError, type RestorePoint, SnapshotUnsupported } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { listFolder, removeRecursively, writeJson } from '../system/files.ts'
import { RecoveryEnded } from './archive-command.ts'
import { BackupTurns } from './backup-turns.ts'
import type { DatabaseHost, RestoreSource } from './database-host.ts'
import { type BaseBackup, type DatabaseHistory, SEGMENT } from './history.ts'
import { BASE_FILE, fetchHistory, type HistoryPoint, readSnapshot, writeSnapshot } from './restore-source.ts'
import { WalShipping } from './wal-shipping.ts'
import { writeCompressed } from './write-compressed.ts'

type Options = {
  host: DatabaseHost
  history: DatabaseHistory
  engine: string
  /** For files on their way. */
  work: string
  /** The deployments whose history has to be removed, a file for each. */
  removals: string
  /** The WAL files that wait for the store. More are given up, so that they do not fill the disk. */
  max_waiting: number
  /** The most that the history of a database takes. One base backup and the WAL since are kept in any case. */
  max_bytes: (deployment_id: string) => number
  /** After this time a failure is part of the health of the deployment. */
  patience_ms: number
  /** A sentence for the log of the deployment. */
  report: (deployment_id: string, message: string, isProblem: boolean) => void
  /** Its health has changed. */
  changed: (deployment_id: string) => void
}
type Failure = { message: string; since: number; reportedAt: number; isPartOfHealth: boolean }

const DAY_MS = 24 * 3600_000
/** Another database gets its turn then. The work goes on. */
const PATIENCE_MS = 30_000
/** A cause that changes is logged at most so often. */
const REPORT_MS = 600_000
/** An archive that breaks again and again asks for no more base backups than this. */
const GAP_PAUSE_MS = 600_000
/** A time is given in milliseconds, and those of transactions are finer. */
const GAP_TOLERANCE_MS = 1_000
/** The clock of a database, which the application can change in a container, is that of this machine. */
const MAX_DEVIATION_MS = 3600_000
/** A database that has written less since its last backup needs no other. */
const QUIET_BYTES = 16 * 1024 * 1024

const START = 'select pg_walfile_name(pg_current_wal_lsn()), now()::text'
const END = 'select pg_current_wal_lsn()::text, clock_timestamp()::text, pg_walfile_name(pg_current_wal_lsn())'

export class DatabaseBackups {
  readonly #options: Options
  readonly #failing = new Map<string, Failure>()
  /** The newest base backup of each. */
  readonly #newest = new Map<string, BaseBackup>()
  readonly #wal: WalShipping
  readonly #turns = new BackupTurns()
  /** When each got a base backup because its WAL had a gap. */
  readonly #gaps = new Map<string, number>()
  /** Counts the removals of the history of each: a database may be made anew. */
  readonly #removals = new Map<string, number>()
  readonly #maintaining = new Set<string>()
  #sweeping = false
  #finishing: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
    this.#wal = new WalShipping({ ...options, makeWorkFolder: () => this.#makeWorkFolder() })
    fs.rmSync(options.work, { recursive: true, force: true })
  }

  get failing(): number {
    return this.#failing.size
  }

  /** For the health of the deployment. Null: its backups work, or have failed for a moment only. */
  problemOf(id: string): string | null {
    const failure = this.#failing.get(id)
    if (!failure?.isPartOfHealth) return null
    return `The backup of its database fails since ${new Date(failure.since).toISOString()}: ${failure.message}.`
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
    this.#finishing ??= this.#finishRemovals().finally(() => {
      this.#finishing = undefined
    })
  }

  /** Backs up a database that has just got its data: it has no other backup. */
  async sweepOne(id: string): Promise<void> {
    if (!this.#maintaining.has(id)) await this.#maintainOnce(id, Date.now())
  }

  async #maintainOnce(id: string, now: number): Promise<void> {
    this.#maintaining.add(id)
    const failure = await this.#unlessRemoved(id, () => this.#maintain(id, now)).then(
      () => undefined,
      (error: Error) => describeError(error).replace(/\.$/, ''),
    )
    this.#maintaining.delete(id)
    this.#noteFailure(id, failure, now)
  }

  async #maintain(id: string, now: number): Promise<void> {
    const { host, history } = this.#options
    const generation = host.generationOf(id)
    if (!generation) return
    await this.#finishRemoval(id)
    await this.#wal.ship(id)
    const hasGap = !(await host.isArchiving(id))
    const newest = await this.#newestOf(id, generation)
    if (hasGap && now - (this.#gaps.get(id) ?? 0) < GAP_PAUSE_MS)
      throw new Error('Its WAL has a gap again. The next base backup follows within ten minutes')
    // It may not work yet.
    if (hasGap) await host.resumeArchiving(id)
    if (hasGap || !newest || (await this.#isDue(id, newest, now))) await this.#backUpInTurn(id, now, hasGap)
    await history.settle(id)
  }

  async #newestOf(id: string, generation: string): Promise<BaseBackup | undefined> {
    const known = this.#newest.get(id)
    if (known?.generation === generation) return known
    const { history } = this.#options
    // The agent before may have been killed in a restore that had not replaced it yet.
    await history.resumeGeneration(id, generation)
    const found = (await history.listBackups(id)).findLast(base => base.generation === generation)
    if (found) this.#newest.set(id, found)
    return found
  }

  async #isDue(id: string, newest: BaseBackup, now: number): Promise<boolean> {
    const { host, max_bytes } = this.#options
    // Lets older backups go sooner.
    if ((await this.#wal.storedOf(id, newest.generation)).since_backup > max_bytes(id) / 4) return true
    if (now - Date.parse(newest.ended_at) < DAY_MS) return false
    const sql = `select (pg_current_wal_lsn() - '${newest.lsn}' > ${QUIET_BYTES})::text`
    return (await host.query(id, sql))[0] === 'true'
  }

  /** Its beginning and its end are logged, and are part of the health if it lasts. */
  #noteFailure(id: string, message: string | undefined, now: number): void {
    const { report, changed, patience_ms } = this.#options
    const known = this.#failing.get(id)
    if (message === undefined) {
      if (!known) return
      this.#failing.delete(id)
      report(id, 'The backup of the database works again.', false)
      if (known.isPartOfHealth) changed(id)
      return
    }
    const since = known?.since ?? now
    const isReported = known !== undefined && (known.message === message || now - known.reportedAt < REPORT_MS)
    if (!isReported) report(id, `The backup of the database fails: ${message}. It is tried again.`, true)
    const isPartOfHealth = now - since >= patience_ms
    this.#failing.set(id, { message, since, isPartOfHealth, reportedAt: isReported ? known.reportedAt : now })
    if (isPartOfHealth && !known?.isPartOfHealth) changed(id)
  }

  #backUpInTurn(id: string, now: number, hasGap = false): Promise<void> {
    const { host, history, max_bytes } = this.#options
    const done = this.#turns.run(id, now, async () => {
      await this.#backUp(id)
      if (hasGap) this.#gaps.set(id, now)
      await history.sweep(id, host.generationOf(id) ?? '', max_bytes(id), now)
      this.#wal.forget(id)
    })
    if (!hasGap) return done
    return done.catch(async error => {
      // The next one must not be taken for one without a gap.
      await host.pauseArchiving(id).catch(() => {})
      throw error
    })
  }

  async #backUp(id: string): Promise<void> {
    const { host, history } = this.#options
    const generation = host.generationOf(id)!
    const folder = this.#makeWorkFolder()
    try {
      const [first = '', began_at = ''] = await host.query(id, START)
      const { newest } = await this.#wal.storedOf(id, generation)
      const file = join(folder, BASE_FILE)
      await writeCompressed(await host.openBackup(id), file)
      const [lsn = '', ended_at = '', last_wal = ''] = await host.query(id, END)
      const times = { began_at: toTime(began_at), ended_at: toTime(ended_at) }
      const major = await host.majorVersion(id)
      // WAL that is stored already was complete before.
      const first_wal = first.slice(8) < newest ? first.slice(0, 8) + newest : first
      if (![first_wal, last_wal].every(name => SEGMENT.test(name)) || !/^[0-9A-F]+\/[0-9A-F]+$/.test(lsn) || !major)
        throw new Error('The database gives answers that Postgres does not give.')
      const name = times.ended_at.replaceAll(':', '')
      const base = { generation, name, ...times, first_wal, last_wal, lsn, major, size_bytes: fs.statSync(file).size }
      if (host.generationOf(id) !== generation) throw new Error('The database was restored meanwhile.')
      await history.addBackup(id, base, file)
      this.#newest.set(id, base)
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

  /** Rejects if there are backups of a database whose data are gone: an empty one would look like a loss. */
  async refuseEmpty(id: string): Promise<void> {
    await this.#finishRemoval(id)
    const last = (await this.#options.history.listBackups(id)).at(-1)
    if (!last) return
    throw new Error(
      `The data of its database are not on this machine, but there are backups, the last one of ${last.ended_at} ` +
        'with what was written later. Restore it with `slipway snapshots restore NAME --at 1s`. For an empty one, ' +
        'clear its `db_*` members, which deletes the backups, and set them again.',
    )
  }

  /** Writes the database as it is now into a folder. */
  async takeSnapshot(id: string, folder: string, signal: AbortSignal): Promise<void> {
    const { host, engine } = this.#options
    if (!host.generationOf(id)) throw noBackups()
    await writeSnapshot(host, engine, id, folder, signal)
  }

  /**
   * From a folder that `takeSnapshot` wrote, or from the history of a deployment. The present data are replaced.
   * `isEmpty`: they were made for this, in place of those that were lost.
   */
  async restore(id: string, from: RestorePoint, signal: AbortSignal, isEmpty = false): Promise<void> {
    const { host, history, engine } = this.#options
    const generation = host.generationOf(id)
    if (!generation) throw noBackups()
    const major = await host.majorVersion(id)
    const folder = this.#makeWorkFolder()
    const isOfLost = 'at' in from && (isEmpty ? from.deployment_id === id : !host.generationOf(from.deployment_id))
    try {
      const source =
        'folder' in from
          ? readSnapshot(from.folder, engine, major)
          : await this.#fetchHistory(from, isOfLost, folder, major, signal)
      // Times from here on can be restored later.
      if (!isEmpty && !(await this.#newestOf(id, generation))) await this.#backUpInTurn(id, Date.now()).catch(() => {})
      const endOld = async (old: string | undefined) => void (old && !isEmpty && (await this.#endGeneration(id, old)))
      const replace = (by: RestoreSource) => host.restore(id, by, endOld, signal)
      await replace(source).catch(error => {
        // Nothing follows the end of a history whose data are gone.
        if (!(error instanceof RecoveryEnded) || !source.history || !isOfLost) throw error
        refuseGap(error, source.history)
        return replace({ ...source, history: { ...source.history, at: null } })
      })
    } finally {
      await removeRecursively(folder)
      this.#turns.forget(id)
      const present = host.generationOf(id)
      if (present) await history.resumeGeneration(id, present).catch(() => {})
    }
  }

  async #fetchHistory(from: HistoryPoint, isOfLost: boolean, folder: string, major: number, signal: AbortSignal) {
    if (from.at.getTime() > Date.now()) throw new PermanentError('The time is in the future.')
    // Without a server that runs, what was archived before has to be enough.
    if (!isOfLost) await this.#wal.archiveAll(from.deployment_id).catch(() => {})
    return fetchHistory(this.#options.history, from, folder, major, signal)
  }

  /** The history has all that was committed then. Data that no server can read end with what was archived. */
  async #endGeneration(id: string, generation: string): Promise<void> {
    const { history, host } = this.#options
    await host.closeToApplications(id).catch(() => {})
    const [, at] = await host.query(id, END).catch((): string[] => [])
    await this.#wal.archiveAll(id).catch(() => {})
    await history.endGeneration(id, generation, at === undefined ? new Date().toISOString() : toTime(at))
  }

  /** A store that fails does not hold up the removal of a deployment: it is repeated. */
  async remove(id: string): Promise<void> {
    this.#removals.set(id, (this.#removals.get(id) ?? 0) + 1)
    this.#failing.delete(id)
    this.#newest.delete(id)
    this.#wal.forget(id)
    this.#turns.forget(id)
    this.#gaps.delete(id)
    writeJson(join(this.#options.removals, id), {})
    await this.#finishRemoval(id).catch(() => {})
  }

  async #finishRemovals(): Promise<void> {
    for (const id of listFolder(this.#options.removals)) await this.#finishRemoval(id).catch(() => {})
  }

  async #finishRemoval(id: string): Promise<void> {
    const mark = join(this.#options.removals, id)
    if (!fs.existsSync(mark)) return
    await this.#options.history.remove(id)
    fs.rmSync(mark)
  }

  #makeWorkFolder(): string {
    const { work } = this.#options
    fs.mkdirSync(work, { recursive: true, mode: 0o700 })
    return fs.mkdtempSync(join(work, 'w-'))
  }
}

/** The last transaction before a gap is restored only if that time was asked for. */
function refuseGap(ended: RecoveryEnded, { gap, at }: NonNullable<RestoreSource['history']>): void {
  if (!gap || !at) return
  const end = ended.at ?? gap.after
  if (at.getTime() - end.getTime() < GAP_TOLERANCE_MS) return
  throw new PermanentError(
    `The WAL file ${gap.missing} of this database is missing in its backups, so what was written after ` +
      `${end.toISOString()} cannot be restored. Restore up to there with \`--at ${end.toISOString()}\`.`,
  )
}

/** From a text of Postgres. */
function toTime(text: string): string {
  const time = new Date(text)
  if (!(Math.abs(time.getTime() - Date.now()) < MAX_DEVIATION_MS))
    throw new Error('The clock of the database is not that of this machine.')
  return time.toISOString()
}

const noBackups = () =>
  new SnapshotUnsupported(
    'This database has no backups: it is on a server that several deployments share. Bring its data into a new ' +
      'deployment with `slipway db dump` and `slipway db restore`.',
  )
