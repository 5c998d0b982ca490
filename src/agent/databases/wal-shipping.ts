// Stores the WAL that Postgres has archived, as it is written.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { countedBytes } from '../archive/archive-store.ts'
import { removeRecursively } from '../system/files.ts'
import type { DatabaseHost } from './database-host.ts'
import { type DatabaseHistory, SEGMENT } from './history.ts'
import { writeCompressed } from './write-compressed.ts'

type Options = {
  host: DatabaseHost
  history: DatabaseHistory
  max_waiting: number
  max_bytes: (deployment_id: string) => number
  makeWorkFolder: () => string
}
/** `newest`: the last segment, without its timeline. */
type Stored = { generation: string; bytes: number; newest: string; since_backup: number }

const ARCHIVED_MS = 60_000
const WAL_FILE_MS = 60_000
/** At most in one look, so that a database with countless files does not hold up the others. */
const MAX_FILES = 1_000
/** Databases of earlier releases have files of 16 MiB, and those of this one of 4. */
const MAX_WAL_BYTES = 16 * 1024 * 1024
/** In a container the application can put anything into the folder: it is a superuser of its database. */
const WAL_FILE = /^(?:[0-9A-F]{24}(?:\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/

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

export class WalShipping {
  readonly #options: Options
  readonly #running = new Map<string, Promise<unknown>>()
  /** The WAL of the present data folder in the store. */
  readonly #stored = new Map<string, Stored>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Stores what Postgres has archived. Two at the same time would store a file twice. */
  async ship(id: string): Promise<void> {
    const running = this.#running.get(id) ?? this.#shipAll(id).finally(() => this.#running.delete(id))
    this.#running.set(id, running)
    await running
  }

  async #shipAll(id: string): Promise<void> {
    const { host, history, makeWorkFolder, max_bytes } = this.#options
    const generation = host.generationOf(id)!
    const names = (await host.listWal(id)).filter(name => WAL_FILE.test(name)).sort()
    if (names.length === 0) return
    const folder = makeWorkFolder()
    try {
      const stored = await this.storedOf(id, generation)
      for (const name of names.slice(0, MAX_FILES)) {
        if (stored.bytes > max_bytes(id)) return await this.#giveUp(id, names)
        const file = join(folder, name)
        await writeCompressed(await host.openWal(id, name), file, AbortSignal.timeout(WAL_FILE_MS), MAX_WAL_BYTES)
        if (host.generationOf(id) !== generation) return
        const bytes = countedBytes(fs.statSync(file).size)
        await history.addWal(id, generation, name, file)
        await host.removeWal(id, name)
        stored.bytes += bytes
        stored.since_backup += bytes
        if (SEGMENT.test(name) && name.slice(8) > stored.newest) stored.newest = name.slice(8)
      }
    } catch (error) {
      // Files that wait must not fill the disk.
      if (names.length > this.#options.max_waiting) await this.#giveUp(id, names)
      throw error
    } finally {
      await removeRecursively(folder)
    }
  }

  /** Later times cannot be restored until the next base backup. */
  async #giveUp(id: string, names: string[]): Promise<void> {
    const { host } = this.#options
    await host.pauseArchiving(id)
    for (const name of names) await host.removeWal(id, name)
  }

  async storedOf(id: string, generation: string): Promise<Stored> {
    const known = this.#stored.get(id)
    if (known?.generation === generation) return known
    const stored = { generation, since_backup: 0, ...(await this.#options.history.walOf(id, generation)) }
    this.#stored.set(id, stored)
    return stored
  }

  /** After a base backup, and what was removed with it. */
  forget(id: string): void {
    this.#stored.delete(id)
  }

  /** Everything that was committed until now is stored when it returns. */
  async archiveAll(id: string): Promise<void> {
    const { host } = this.#options
    const [segment = ''] = await host.query(id, CLOSE_SEGMENT)
    if (!SEGMENT.test(segment)) throw new Error('The database names no WAL file.')
    await host.query(id, 'select pg_switch_wal()::text')
    for (const end = Date.now() + ARCHIVED_MS; Date.now() < end; await delay(50)) {
      const [isArchived] = await host.query(id, isArchivedSql(segment))
      await this.ship(id)
      // The run that has just ended may have begun before the file was there.
      if (isArchived === 'true' && !(await host.listWal(id)).includes(segment)) return
    }
    throw new Error('Postgres does not archive its WAL.')
  }
}
