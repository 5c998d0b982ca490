// Owns the embedded Postgres: a real server from the registry's binaries, for hosts and tests without a database of their own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Binaries,
  canConnect,
  connectionUrl,
  findBinaries,
  findServer,
  findServerIdentity,
  initialise,
  isInitialised,
  readLastLines,
  replaceStalePid,
  type ServerIdentity,
  spawnOptions,
} from '../postgres/data-folder.ts'
import { findFreePort } from '../postgres/free-port.ts'

export type PostgresOptions = { dataDir: string; port?: number; durable?: boolean }
export type Postgres = { url: string; port: number; pid: number; exited: Promise<void>; stop(): Promise<void> }

const OWN_DATABASE_HINT = 'set DATABASE_URL to a Postgres of your own'
const READY_TIMEOUT_MS = 60_000
/** Where setpriv exists, the kernel stops the server when its parent dies, even by SIGKILL. */
const DIE_WITH_PARENT = ['setpriv', '--pdeathsig', 'INT']

export async function startPostgres({ dataDir, port, durable = true }: PostgresOptions): Promise<Postgres> {
  const folder = resolve(dataDir)
  fs.mkdirSync(folder, { recursive: true })
  const binaries = await findBinaries(OWN_DATABASE_HINT)
  const way = await findServerIdentity(binaries, folder, {
    guards: [DIE_WITH_PARENT, []],
    elsewhere: OWN_DATABASE_HINT,
  })
  if (!isInitialised(folder)) await initialise(binaries, way, folder)
  const other = findServer(folder)
  if (other)
    throw new Error(`${folder} is already served by process ${other.pid}: stop that process, or use another folder`)
  replaceStalePid(folder)
  for (let attempt = 1; ; attempt++) {
    try {
      return await runServer(binaries, way, folder, port ?? (await findFreePort()), durable)
    } catch (error) {
      // Another process took the port meanwhile, or orphans of a killed server are still leaving.
      const passing = port ? /pre-existing shared memory/ : /Address already in use|pre-existing shared memory/
      if (attempt === 5 || !passing.test(String(error))) throw error
      await delay(100 * attempt)
    }
  }
}

async function runServer({ postgres }: Binaries, way: ServerIdentity, folder: string, port: number, durable: boolean) {
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port, timezone: 'UTC' }
  // The gateway's callers are told of their failed statements; the log is for the server's own troubles.
  const quiet = { log_min_messages: 'log', log_min_error_statement: 'panic' }
  const fast = durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  const flags = Object.entries({ ...settings, ...quiet, ...fast }).map(([name, value]) => `--${name}=${value}`)

  const logFile = `${folder}.log`
  const log = fs.openSync(logFile, 'a', 0o600)
  const [command = postgres, ...args] = [...way.prefix, postgres, '-D', folder, ...flags]
  // Not of the terminal's group: Ctrl-C would end it before those who use it.
  const child = spawn(command, args, { ...spawnOptions(way), stdio: ['ignore', log, log], detached: true })
  fs.closeSync(log)
  const stopWithUs = () => child.kill('SIGINT')
  process.once('exit', stopWithUs)
  child.unref()
  let gone = false
  const exited = once(child, 'exit')
    .catch(() => {})
    .then(() => {
      gone = true
      process.off('exit', stopWithUs)
    })

  const stop = async () => {
    child.ref()
    child.kill('SIGINT')
    const impatient = setTimeout(() => child.kill('SIGQUIT'), 10_000)
    await exited
    clearTimeout(impatient)
  }

  const url = connectionUrl(folder, port)
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (!(await Promise.race([canConnect(url), exited]))) {
    if (!gone && Date.now() < deadline) {
      await delay(20)
      continue
    }
    await stop()
    throw new Error(`Postgres did not start, its log ${logFile} ends with:\n${readLastLines(logFile)}`)
  }
  return { url, port, pid: child.pid ?? 0, exited, stop }
}
