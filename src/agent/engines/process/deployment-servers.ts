// A Postgres server of its own for each deployment, so that its backups, its memory and its load are its own. A pointer
// names the data folder in use: a restore makes another one beside it, and changes the pointer as its last step.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createGunzip } from 'node:zlib'
import { unpackTar } from 'modern-tar/fs'
import pg from 'pg'
import * as postgres from '../../../postgres/data-folder.ts'
import { findFreePort } from '../../../postgres/free-port.ts'
import { archiveCommand, RECOVERY_SETTINGS, recoveryError, recoverySettings } from '../../databases/archive-command.ts'
import { streamBaseBackup } from '../../databases/base-backup.ts'
import type { DatabaseHost, RestoreSource } from '../../databases/database-host.ts'
import { PermanentError } from '../../engine.ts'
import { listFolder, readJson, removeRecursively, writeJson } from '../../system/files.ts'
import { chownRecursively, makePassable } from '../../system/users.ts'
import { giveOwnPassword, hasOwnPassword } from './own-password.ts'
import {
  EmbeddedServer,
  endServer,
  findServerPrograms,
  removeUnfinished,
  type ServerSettings,
  startServer,
} from './postgres-server.ts'

export type ServerLimits = { connections: number; memory_mb: number }
type Pointer = { generation: string }

/** For the agent itself. */
const RESERVED_CONNECTIONS = 10
const MAX_CONNECTIONS = 1_000
/** Files of 4 MiB instead of 16: an application that writes once a minute fills one each minute. */
const INITDB_OPTIONS = ['--wal-segsize=4']
/** Postgres archives a file within seconds. */
const ARCHIVE_MS = 120_000
const RECOVERY_PAUSE_MS = 50
/** A release that takes longer ends with the process. */
const RELEASE_TIMEOUT_MS = 3_000
/** Otherwise Postgres syncs a thousand files one by one, which takes seconds, and much longer on a busy disk. */
const RECOVERY_SYNC = process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}

/** A server without work runs six processes, which share about 10 MB and use no processor time. */
function settingsOf({ connections, memory_mb }: ServerLimits): ServerSettings {
  const megabytes = (share: number, least: number, most: number) =>
    `${Math.round(Math.min(most, Math.max(least, memory_mb * share)))}MB`
  return {
    max_connections: Math.min(connections, MAX_CONNECTIONS) + RESERVED_CONNECTIONS,
    shared_buffers: megabytes(1 / 8, 16, 16_384),
    effective_cache_size: megabytes(1 / 2, 64, 65_536),
    maintenance_work_mem: megabytes(1 / 16, 16, 1_024),
    wal_level: 'replica',
    max_wal_senders: 3,
    archive_mode: 'on',
    archive_command: archiveCommand('../wal', '../archive-paused'),
    archive_timeout: '60s',
    min_wal_size: '32MB',
    max_wal_size: '256MB',
    checkpoint_timeout: '15min',
    autovacuum_naptime: '5min',
    io_method: 'sync',
    max_logical_replication_workers: 0,
  }
}

export class DeploymentServers implements DatabaseHost {
  readonly #home: string
  readonly #servers = new Map<string, { server: EmbeddedServer; generation: string; limits: ServerLimits }>()
  /** Changes of the data folder or the server of a deployment run one after the other. */
  readonly #locks = new Map<string, Promise<unknown>>()
  /** Folders that a restore is filling. */
  readonly #restoring = new Set<string>()
  #template: Promise<void> | undefined
  readonly #maxWaiting: number
  #stopped = false

  constructor(home: string, maxWaiting: number) {
    this.#home = join(home, 'databases')
    this.#maxWaiting = maxWaiting
  }

  generationOf(id: string): string | undefined {
    return readJson<Pointer>(this.#pointerFile(id))?.generation
  }

  isUp(id: string): boolean {
    const generation = this.generationOf(id)
    return generation !== undefined && postgres.findServer(this.#dataFolder(id, generation)) !== undefined
  }

  /** Before the data: there is nothing yet that could be lost. The server makes them when it is opened. */
  create(id: string): void {
    if (this.generationOf(id)) return
    const generation = newGeneration()
    for (const folder of [this.#home, this.#folder(id), join(this.#folder(id), generation)]) makePassable(folder)
    writeJson(this.#pointerFile(id), { generation } satisfies Pointer)
  }

  /** Starts the server if needed, and again after a change of its limits. The URL of its superuser. */
  open(id: string, limits: ServerLimits): Promise<string> {
    return this.#exclusively(id, async () => {
      await this.#removeOldFolders(id)
      return this.#open(id, limits)
    })
  }

  async #open(id: string, limits: ServerLimits): Promise<string> {
    if (this.#stopped) throw new Error('The agent is shutting down.')
    const generation = this.generationOf(id)
    if (!generation) throw new Error('The database was removed.')
    const data = this.#dataFolder(id, generation)
    postgres.movePasswordOut(data)
    const known = this.#servers.get(id)
    const isKnown = known?.generation === generation && JSON.stringify(known.limits) === JSON.stringify(limits)
    const server = isKnown ? known.server : this.#makeServer(id, data, limits)
    this.#servers.set(id, { server, generation, limits })
    if (server.isUp() && !(server.isCurrent && hasOwnPassword(data))) await endServer(data)
    return server.open()
  }

  #makeServer(id: string, folder: string, limits: ServerLimits): EmbeddedServer {
    return new EmbeddedServer({
      folder,
      record: join(this.#folder(id), 'server.json'),
      log: join(this.#folder(id), 'server.log'),
      settings: settingsOf(limits),
      create: (binaries, identity) => this.#copyTemplate(folder, binaries, identity),
      prepare: (binaries, identity) => giveOwnPassword(folder, binaries, identity, settingsOf(limits)),
    })
  }

  /** In a tenth of the time that initdb takes. */
  async #copyTemplate(folder: string, binaries: postgres.Binaries, identity: postgres.ServerIdentity): Promise<void> {
    const template = join(this.#home, 'template')
    // Several databases may be the first.
    this.#template ??= makeTemplate(template, binaries, identity).finally(() => {
      this.#template = undefined
    })
    await this.#template
    const work = fs.mkdtempSync(`${folder}.new-`)
    try {
      await promisify(execFile)('cp', ['-pR', template, join(work, 'data')])
      makeFolderFor(join(dirname(folder), 'wal'), identity)
      postgres.movePasswordOut(join(work, 'data'), folder)
      fs.renameSync(join(work, 'data'), folder)
    } finally {
      await removeRecursively(work)
    }
  }

  /** Starts and changes nothing any more. The servers run on, for the next agent. */
  async release(): Promise<void> {
    this.#stopped = true
    await Promise.race([Promise.allSettled(this.#locks.values()), delay(RELEASE_TIMEOUT_MS)])
  }

  /** Ends them. Their data stay. */
  async stop(): Promise<void> {
    await this.release()
    const ids = listFolder(this.#home).filter(id => fs.existsSync(this.#pointerFile(id)))
    await Promise.all(ids.map(id => this.#endServers(id)))
  }

  async remove(id: string): Promise<void> {
    if (!fs.existsSync(this.#folder(id))) return
    await this.#exclusively(id, async () => {
      fs.rmSync(this.#pointerFile(id), { force: true })
      this.#servers.delete(id)
      await this.#endServers(id)
      await removeRecursively(this.#folder(id))
    })
    this.#locks.delete(id)
  }

  async #endServers(id: string): Promise<void> {
    await Promise.all(listFolder(this.#folder(id)).map(name => endServer(this.#dataFolder(id, name))))
  }

  /** Left by a restore that was interrupted, or replaced by one that was not. */
  async #removeOldFolders(id: string): Promise<void> {
    const present = this.generationOf(id)
    for (const name of listFolder(this.#folder(id))) {
      const folder = join(this.#folder(id), name)
      if (name === present || this.#restoring.has(folder) || !fs.statSync(folder).isDirectory()) continue
      await endServer(join(folder, 'data'))
      await removeRecursively(folder)
    }
  }

  async majorVersion(id: string): Promise<number> {
    const data = this.#dataFolder(id, this.generationOf(id) ?? '')
    return Number.parseInt(await fs.promises.readFile(join(data, 'PG_VERSION'), 'utf8'), 10)
  }

  async query(id: string, sql: string): Promise<string[]> {
    const client = new pg.Client({
      connectionString: await this.#url(id),
      connectionTimeoutMillis: 5_000,
      query_timeout: 60_000,
    })
    client.on('error', () => {})
    await client.connect()
    try {
      const { rows } = await client.query<string[]>({ text: sql, rowMode: 'array' })
      return (rows[0] ?? []).map(String)
    } finally {
      await client.end().catch(() => {})
    }
  }

  /** Until its role is set up again. */
  async closeToApplications(id: string): Promise<void> {
    await this.query(id, 'alter role app nologin')
    await this.query(id, `select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'app'`)
  }

  async openBackup(id: string): Promise<Readable> {
    return streamBaseBackup(await this.#url(id))
  }

  async listWal(id: string): Promise<string[]> {
    return listFolder(this.#walFolder(id)).filter(name => !name.endsWith('.part'))
  }

  async openWal(id: string, name: string): Promise<Readable> {
    return fs.createReadStream(join(this.#walFolder(id), name))
  }

  async removeWal(id: string, name: string): Promise<void> {
    fs.rmSync(join(this.#walFolder(id), name), { force: true })
  }

  /** Pauses it if Postgres keeps more WAL for the archive than the disk should have to hold. */
  async isArchiving(id: string): Promise<boolean> {
    if (fs.existsSync(this.#pauseFile(id))) return false
    const status = join(this.#dataFolder(id, this.generationOf(id) ?? ''), 'pg_wal', 'archive_status')
    const waiting = listFolder(status).filter(name => name.endsWith('.ready'))
    if (waiting.length > this.#maxWaiting) {
      await this.pauseArchiving(id)
      return false
    }
    const oldest = Math.min(
      ...waiting.map(name => fs.statSync(join(status, name), { throwIfNoEntry: false })?.mtimeMs ?? Infinity),
    )
    if (Date.now() - oldest > ARCHIVE_MS) throw new Error('Postgres cannot archive its WAL.')
    return true
  }

  async pauseArchiving(id: string): Promise<void> {
    fs.writeFileSync(this.#pauseFile(id), '')
  }

  /** Rejects while its folder cannot be written. */
  async resumeArchiving(id: string): Promise<void> {
    const probe = join(this.#walFolder(id), 'probe.part')
    fs.writeFileSync(probe, '')
    fs.rmSync(probe)
    fs.rmSync(this.#pauseFile(id), { force: true })
  }

  async restore(
    id: string,
    source: RestoreSource,
    beforeSwitch: (generation: string | undefined) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const generation = newGeneration()
    const folder = join(this.#folder(id), generation)
    this.#restoring.add(folder)
    try {
      makePassable(folder)
      await this.#recover(folder, source, signal)
      const old = this.generationOf(id)
      await beforeSwitch(old)
      await this.#exclusively(id, async () => {
        signal.throwIfAborted()
        const limits = this.#servers.get(id)?.limits
        if (!old || this.generationOf(id) !== old || !limits)
          throw new PermanentError('The database was removed or replaced meanwhile.')
        await endServer(this.#dataFolder(id, old))
        writeJson(this.#pointerFile(id), { generation } satisfies Pointer)
        await this.#open(id, limits)
      })
    } finally {
      this.#restoring.delete(folder)
    }
    await this.#exclusively(id, () => this.#removeOldFolders(id))
  }

  /** Fills the folder, and lets a server of its own read the WAL. */
  async #recover(folder: string, { base, history }: RestoreSource, signal: AbortSignal): Promise<void> {
    const data = join(folder, 'data')
    fs.mkdirSync(data, { mode: 0o700 })
    const [binaries, identity] = await findServerPrograms(data)
    makeFolderFor(join(folder, 'wal'), identity)
    await pipeline(fs.createReadStream(base), createGunzip(), unpackTar(data), { signal })
    const settings: ServerSettings = {
      ...settingsOf({ connections: 10, memory_mb: 512 }),
      ...RECOVERY_SETTINGS,
      ...RECOVERY_SYNC,
    }
    if (history) {
      await fs.promises.cp(history.wal, join(folder, 'recovery'), { recursive: true })
      fs.writeFileSync(join(data, 'recovery.signal'), '')
      Object.assign(settings, recoverySettings('../recovery', history.at))
    }
    const user = identity.uid && identity.gid ? { uid: identity.uid, gid: identity.gid } : undefined
    if (user) await chownRecursively(folder, user)
    const log = join(folder, 'log')
    const port = await findFreePort()
    try {
      await startServer({ folder: data, log, postgres: binaries.postgres, identity, settings: { ...settings, port } })
      while (!postgres.isServerReady(data)) {
        if (!postgres.findServer(data)) throw recoveryError(postgres.readLastLines(log))
        await delay(RECOVERY_PAUSE_MS, undefined, { signal })
      }
    } finally {
      await endServer(data)
    }
    await removeRecursively(join(folder, 'recovery'))
  }

  #exclusively<T>(id: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#locks.get(id) ?? Promise.resolve()).then(work)
    this.#locks.set(
      id,
      mine.catch(() => {}),
    )
    return mine
  }

  /** Starts the server if it has ended. */
  async #url(id: string): Promise<string> {
    const limits = this.#servers.get(id)?.limits
    if (limits && !this.isUp(id)) return this.open(id, limits)
    const data = this.#dataFolder(id, this.generationOf(id) ?? '')
    const port = postgres.findServer(data)?.port
    if (!port) throw new Error('The Postgres server of the deployment does not run.')
    return postgres.connectionUrl(data, port)
  }

  #folder = (id: string) => join(this.#home, id)
  #pointerFile = (id: string) => join(this.#home, id, 'current.json')
  #dataFolder = (id: string, generation: string) => join(this.#home, id, generation, 'data')
  #walFolder = (id: string) => join(this.#home, id, this.generationOf(id) ?? '', 'wal')
  #pauseFile = (id: string) => join(this.#home, id, this.generationOf(id) ?? '', 'archive-paused')
}

const newGeneration = () =>
  `${new Date().toISOString().slice(0, 19).replaceAll(':', '')}-${randomBytes(3).toString('hex')}`

export async function makeTemplate(
  folder: string,
  binaries: postgres.Binaries,
  identity: postgres.ServerIdentity,
): Promise<void> {
  if (postgres.isInitialized(folder)) return
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  await removeUnfinished(folder)
  await postgres.initialize(binaries, identity, folder, INITDB_OPTIONS)
}

/** The server may run as another user. */
function makeFolderFor(folder: string, { uid, gid }: postgres.ServerIdentity): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (uid && gid) fs.chownSync(folder, uid, gid)
}
