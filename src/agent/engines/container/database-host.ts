// Backups of databases in containers. Each is reached by commands in its container, because no port leads to it.
import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'
import { packTar } from 'modern-tar/fs'
import pg from 'pg'
import { RECOVERY_SETTINGS, recoveryError, recoverySettings } from '../../databases/archive-command.ts'
import { streamBaseBackup } from '../../databases/base-backup.ts'
import type { DatabaseHost, RestoreSource } from '../../databases/database-host.ts'
import { PermanentError } from '../../engine.ts'
import type { DockerApi } from '../../images/docker-api.ts'
import { openProxy, readLast, runCommand, startCommand } from './exec.ts'
import { readDatabase, readUnusedFolder, type StoreContainers, saveDataFolders } from './store-containers.ts'
import { DATA_FOLDER, DATABASE_USER, PAUSE_FILE, walFolderOf } from './store-specs.ts'

type Options = {
  api: DockerApi
  stores: StoreContainers
  folderOf: (deployment_id: string) => string
  max_waiting: number
}

const PORT = 5432
const RECOVERY_PORT = 5433
const QUERY_TIMEOUT_MS = 60_000
/** Rows are read into memory. The application can replace the functions that are asked. */
const MAX_ANSWER_BYTES = 1024 * 1024
const RECOVERY_PAUSE_MS = 200
/** The application can have it answer anything. */
const MAX_BYTES = 2 ** 50
const MAX_COUNT = 1_000_000
const USE_QUERY = `select pg_catalog.pg_database_size(pg_catalog.current_database()),
  (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend')`
const PAUSE = `/data/${PAUSE_FILE}`

/** In the folder of the archive's state: how many files wait, and whether one does for minutes. */
const STATE_SCRIPT = `test -e ${PAUSE} && echo paused && exit
cd "$0/pg_wal/archive_status" 2>/dev/null || { echo 0; exit; }
ls | grep -c '\\.ready$'
find . -name '*.ready' -mmin +2 | head -n 1`
/** Nothing may connect to the server for the recovery, whose passwords may be those of another deployment. */
const PREPARE_SCRIPT = `echo 'local all all reject' >"$0/recovery.hba"
chmod 700 "$0" && chown -R "$(stat -c %u:%g "$1")" "$0" && stat -c %u:%g "$1"`
const STATUS_SCRIPT = 'sed -n 8p "$0/postmaster.pid" 2>/dev/null || true'
/** Without a server. An error of the statement does not end it with a code. */
const PASSWORD_SCRIPT = `echo "alter role ${DATABASE_USER} password '$1'" |
postgres --single -D "$0" -c archive_mode=off ${DATABASE_USER}`
const FINISH_SCRIPT = 'rm -rf "$0/recovery" "$0/recovery.hba"'
const END_SCRIPT = 'kill -INT "$(head -n 1 "$0/postmaster.pid")"'
/** A file in place of the first folder, so that an agent that has lost its home makes no empty database there. */
const REMOVE_SCRIPT = `kill -QUIT "$(head -n 1 "$0/postmaster.pid" 2>/dev/null)" 2>/dev/null; rm -rf "$0" "$1"
test "$0" != /data/${DATA_FOLDER} || echo 'A restore has replaced this folder.' >"$0"`

export class ContainerDatabases implements DatabaseHost {
  readonly #options: Options
  readonly #restoring = new Set<string>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The first data folder has the same name in each volume, so the password of the volume tells them apart. */
  generationOf(id: string): string | undefined {
    const { data, password } = readDatabase(this.#options.folderOf(id)) ?? {}
    return data === DATA_FOLDER ? `${data}-${hash(password!)}` : data
  }

  #dataOf(id: string): string | undefined {
    return readDatabase(this.#options.folderOf(id))?.data
  }

  async majorVersion(id: string): Promise<number> {
    return Number.parseInt(await this.#run(id, ['cat', `${this.#dataFolder(id)}/PG_VERSION`]), 10)
  }

  async query(id: string, sql: string): Promise<string[]> {
    const { port, close } = await openProxy(this.#options.api, await this.#container(id), PORT, MAX_ANSWER_BYTES)
    try {
      return await queryOnce(this.#url(id, port), sql)
    } finally {
      close()
    }
  }

  async measure(id: string): Promise<{ bytes: number; connections: number }> {
    const [bytes, connections] = (await this.query(id, USE_QUERY)).map(Number)
    if (!(bytes! >= 0 && bytes! < MAX_BYTES && connections! >= 0 && connections! < MAX_COUNT))
      throw new Error('The database does not tell what it uses.')
    return { bytes: Math.round(bytes!), connections: Math.round(connections!) }
  }

  /** The application is a superuser there, and may come back until its database ends. */
  async closeToApplications(id: string): Promise<void> {
    const others = `pid <> pg_backend_pid() and backend_type = 'client backend'`
    await this.query(id, `select count(pg_terminate_backend(pid)) from pg_stat_activity where ${others}`)
  }

  async openBackup(id: string): Promise<Readable> {
    const { port, close } = await openProxy(this.#options.api, await this.#container(id), PORT)
    const tar = await streamBaseBackup(this.#url(id, port)).catch(error => {
      close()
      throw error
    })
    return tar.once('close', close)
  }

  async listWal(id: string): Promise<string[]> {
    const listed = await this.#run(id, ['sh', '-c', 'ls "$0" 2>/dev/null || true', this.#walFolder(id)])
    return listed.split('\n').filter(name => name !== '' && !name.endsWith('.part'))
  }

  async openWal(id: string, name: string): Promise<Readable> {
    const { output, errors } = await startCommand(this.#options.api, await this.#container(id), [
      'cat',
      `${this.#walFolder(id)}/${name}`,
    ])
    errors.resume()
    return output
  }

  async removeWal(id: string, name: string): Promise<void> {
    await this.#run(id, ['rm', '-f', `${this.#walFolder(id)}/${name}`])
  }

  async isArchiving(id: string): Promise<boolean> {
    const state = await this.#run(id, ['sh', '-c', STATE_SCRIPT, this.#dataFolder(id)])
    if (state.trim() === 'paused') return false
    const [waiting, late] = state.split('\n')
    if (Number(waiting) > this.#options.max_waiting) {
      await this.pauseArchiving(id)
      return false
    }
    if (late) throw new Error('Postgres cannot archive its WAL.')
    return true
  }

  async pauseArchiving(id: string): Promise<void> {
    await this.#run(id, ['touch', PAUSE])
  }

  async resumeArchiving(id: string): Promise<void> {
    const script = 'touch "$0/probe.part" && rm "$0/probe.part" && rm -f "$1"'
    await this.#run(id, ['sh', '-c', script, this.#walFolder(id), PAUSE])
  }

  /** The engine starts the container with the new folder next. */
  async restore(
    id: string,
    source: RestoreSource,
    beforeSwitch: (generation: string | undefined) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const folder = this.#options.folderOf(id)
    const old = this.#dataOf(id)
    const generation = `pg-${randomBytes(6).toString('hex')}`
    this.#restoring.add(generation)
    try {
      await this.removeUnused(id)
      saveDataFolders(folder, { unused: generation })
      await this.#recover(id, generation, source, signal)
      await beforeSwitch(this.generationOf(id))
      signal.throwIfAborted()
      if (!old || this.#dataOf(id) !== old) throw new PermanentError('The database was removed or replaced meanwhile.')
      saveDataFolders(folder, { data: generation, unused: old })
    } finally {
      this.#restoring.delete(generation)
    }
  }

  async #recover(id: string, generation: string, { base, history }: RestoreSource, signal: AbortSignal): Promise<void> {
    const { api } = this.#options
    const container = await this.#container(id)
    const data = `/data/${generation}`
    await this.#run(id, ['mkdir', data])
    await api.writeFiles(container, data, fs.createReadStream(base).pipe(createGunzip()), signal)
    const settings: Record<string, string | number> = {
      ...RECOVERY_SETTINGS,
      port: RECOVERY_PORT,
      hba_file: `${data}/recovery.hba`,
      listen_addresses: '',
      unix_socket_directories: data,
      shared_buffers: '16MB',
    }
    if (history) {
      await this.#run(id, ['mkdir', `${data}/recovery`])
      await api.writeFiles(container, `${data}/recovery`, packTar(history.wal), signal)
      await this.#run(id, ['touch', `${data}/recovery.signal`])
      Object.assign(settings, recoverySettings('recovery', history.at))
    }
    const owner = await this.#run(id, ['sh', '-c', PREPARE_SCRIPT, data, this.#dataFolder(id)])
    const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
    const server = await startCommand(api, container, ['postgres', '-D', data, ...flags], owner.trim())
    server.output.resume()
    let isOver = false
    const log = readLast(server.errors)
    const ended = server.exit.then(() => {
      isOver = true
    })
    while ((await this.#run(id, ['sh', '-c', STATUS_SCRIPT, data])).trim() !== 'ready') {
      if (isOver) throw recoveryError((await log).trim().split('\n').slice(-6).join('\n'))
      await delay(RECOVERY_PAUSE_MS, undefined, { signal })
    }
    await this.#run(id, ['sh', '-c', END_SCRIPT, data])
    await ended
    const { password } = readDatabase(this.#options.folderOf(id))!
    const change = await startCommand(api, container, ['sh', '-c', PASSWORD_SCRIPT, data, password], owner.trim())
    change.output.resume()
    const problems = await readLast(change.errors)
    const { code } = await change.exit
    if (code !== 0 || problems.includes('ERROR:'))
      throw new PermanentError('The backup cannot be restored: it has no role of the name that applications use.')
    await this.#run(id, ['sh', '-c', FINISH_SCRIPT, data])
  }

  /** Left by a restore that was interrupted, or replaced by one that was not. Call it while the database runs. */
  async removeUnused(id: string): Promise<void> {
    const folder = this.#options.folderOf(id)
    const unused = readUnusedFolder(folder)
    if (unused === undefined || this.#restoring.has(unused) || unused === this.#dataOf(id)) return
    await this.#run(id, ['sh', '-c', REMOVE_SCRIPT, `/data/${unused}`, `/data/${walFolderOf(unused)}`])
    saveDataFolders(folder, { unused: undefined })
  }

  async #container(id: string): Promise<string> {
    const found = await this.#options.stores.findRunning(id, 'database')
    if (found) return found
    throw new Error('The container of the database does not run.')
  }

  async #run(id: string, command: string[]): Promise<string> {
    return runCommand(this.#options.api, await this.#container(id), command)
  }

  #dataFolder = (id: string) => `/data/${this.#dataOf(id)}`
  #walFolder = (id: string) => `/data/${walFolderOf(this.#dataOf(id) ?? '')}`
  #url(id: string, port: number): string {
    const { password } = readDatabase(this.#options.folderOf(id))!
    return `postgresql://${DATABASE_USER}:${password}@127.0.0.1:${port}/${DATABASE_USER}`
  }
}

async function queryOnce(connectionString: string, sql: string): Promise<string[]> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000, query_timeout: QUERY_TIMEOUT_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<string[]>({ text: sql, rowMode: 'array' })
    return (rows[0] ?? []).map(String)
  } finally {
    await client.end().catch(() => {})
  }
}

const hash = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 12)
