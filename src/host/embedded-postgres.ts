// Runs the embedded Postgres, for `npm run dev` and tests. The binaries come from the npm registry.
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
  initialize,
  isInitialized,
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
/** With setpriv, the kernel stops the server when its parent dies, even by SIGKILL. */
const DIE_WITH_PARENT = ['setpriv', '--pdeathsig', 'INT']

export async function startPostgres({ dataDir, port, durable = true }: PostgresOptions): Promise<Postgres> {
  const folder = resolve(dataDir)
  fs.mkdirSync(folder, { recursive: true })
  const binaries = await findBinaries(OWN_DATABASE_HINT)
  const identity = await findServerIdentity(binaries, folder, {
    wrappers: [DIE_WITH_PARENT, []],
    hint: OWN_DATABASE_HINT,
  })
  if (!isInitialized(folder)) await initialize(binaries, identity, folder)
  const running = findServer(folder)
  if (running)
    throw new Error(`Process ${running.pid} already serves ${folder}. Stop that process, or use another folder.`)
  replaceStalePid(folder)
  for (let attempt = 1; ; attempt++) {
    try {
      return await runServer(binaries, identity, folder, port ?? (await findFreePort()), durable)
    } catch (error) {
      // Another process took the port, or processes of a killed server are still exiting.
      const temporary = port ? /pre-existing shared memory/ : /Address already in use|pre-existing shared memory/
      if (attempt === 5 || !temporary.test(String(error))) throw error
      await delay(100 * attempt)
    }
  }
}

async function runServer(
  { postgres }: Binaries,
  identity: ServerIdentity,
  folder: string,
  port: number,
  durable: boolean,
) {
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port, timezone: 'UTC' }
  // The gateway returns statement errors to its callers. The log is for problems of the server.
  const quiet = { log_min_messages: 'log', log_min_error_statement: 'panic' }
  const fast = durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  const flags = Object.entries({ ...settings, ...quiet, ...fast }).map(([name, value]) => `--${name}=${value}`)

  const logFile = `${folder}.log`
  const log = fs.openSync(logFile, 'a', 0o600)
  const [command = postgres, ...args] = [...identity.prefix, postgres, '-D', folder, ...flags]
  // A process group of its own: Ctrl-C would otherwise stop the server before its clients.
  const child = spawn(command, args, { ...spawnOptions(identity), stdio: ['ignore', log, log], detached: true })
  fs.closeSync(log)
  const stopWithUs = () => child.kill('SIGINT')
  process.once('exit', stopWithUs)
  child.unref()
  let hasExited = false
  const exited = once(child, 'exit')
    .catch(() => {})
    .then(() => {
      hasExited = true
      process.off('exit', stopWithUs)
    })

  const stop = async () => {
    child.ref()
    child.kill('SIGINT')
    const quitTimer = setTimeout(() => child.kill('SIGQUIT'), 10_000)
    await exited
    clearTimeout(quitTimer)
  }

  const url = connectionUrl(folder, port)
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (!(await Promise.race([canConnect(url), exited]))) {
    if (!hasExited && Date.now() < deadline) {
      await delay(20)
      continue
    }
    await stop()
    throw new Error(`Postgres did not start. Its log ${logFile} ends with:\n${readLastLines(logFile)}`)
  }
  return { url, port, pid: child.pid ?? 0, exited, stop }
}
