// The installation and key to use, and which deployment a folder belongs to.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { CommandFailure, EXIT, usageError } from './failure.ts'

export type Login = { url: string; key: string; workspace?: string | undefined; from: string }
/** `is_own`: the key was made for this machine, so a logout revokes it. */
export type StoredLogin = { url: string; key: string; workspace?: string; is_own?: boolean }
export type Link = { url: string; deployment_id: string; name: string; archive_sha256?: string | undefined }

const { env } = process
/** `npm run dev` knows this folder too: `configFolder()` in src/host/dev-pointer.ts. */
export const configFile = (name = 'login.json') => {
  const folder =
    env.SLIPWAY_CONFIG_HOME ?? join(env.XDG_CONFIG_HOME ?? (env.APPDATA || join(homedir(), '.config')), 'slipway')
  return join(folder, name)
}

function readJson<T>(file: string): T | undefined {
  if (!existsSync(file)) return undefined
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    throw usageError(`${file} is not JSON. Correct or delete it.`)
  }
}

/**
 * A running `npm run dev`: the one that the folder is linked to, or else that of the checkout that the folder is in, or
 * else the one that was started last. Only on the loopback.
 */
function readDevLogin(from: string, wanted = readLink(from)?.url): Login | undefined {
  const logins: (Login | undefined)[] = []
  for (let folder = resolve(from); folder !== dirname(folder); folder = dirname(folder))
    logins.push(readDevState(join(folder, '.slipway', 'dev.json')))
  const running = [...logins, ...listPointers().map(readDevState)].filter(login => login !== undefined)
  return running.find(({ url }) => url === wanted) ?? running[0]
}

/** The newest first. */
function listPointers(): string[] {
  const folder = configFile('dev')
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter(name => name.endsWith('.json'))
    .map(name => ({ file: join(folder, name), time: statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs }))
    .sort((a, b) => (b.time ?? 0) - (a.time ?? 0))
    .map(({ file }) => file)
}

function readDevState(file: string): Login | undefined {
  const { url = '', api_key, pid } = readJson<{ url?: string; api_key?: string; pid?: number }>(file) ?? {}
  const isRunning = pid !== undefined && isAlive(pid)
  return api_key && isRunning && /^http:\/\/127\.0\.0\.1:\d+$/.test(url) ? { url, key: api_key, from: file } : undefined
}

/** False for a process of another user, which got the number after the one that wrote the file. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

export function readLogin(folder: string): Login {
  const { SLIPWAY_URL: url, SLIPWAY_API_KEY: key, SLIPWAY_WORKSPACE: workspace } = env
  if (url && !URL.canParse(url)) throw usageError(`SLIPWAY_URL is not a URL: ${url}`)
  if (url && key) return { url, key, workspace, from: 'SLIPWAY_URL and SLIPWAY_API_KEY' }
  const stored = readStoredLogin()
  if (stored && (!url || url === stored.url)) return { workspace, ...stored, ...(key && { key }), from: configFile() }
  const dev = readDevLogin(folder, url || undefined)
  if (dev && (!url || url === dev.url)) return { ...dev, ...(key && { key }) }
  throw new CommandFailure(
    EXIT.notSignedIn,
    'not_signed_in',
    url
      ? `There is no key for ${url}. Set SLIPWAY_API_KEY, or sign in.`
      : 'There is no installation to talk to. Sign in.',
    url ? 'slipway login' : 'slipway login --url URL',
  )
}

export const readStoredLogin = (): StoredLogin | undefined => readJson<StoredLogin>(configFile())

/** The installation to sign in at, unless the command names one. */
export const findUrl = (): string | undefined =>
  env.SLIPWAY_URL || readStoredLogin()?.url || readDevLogin(process.cwd())?.url

/** Written under another name first, so that the key is never readable by others. */
export function storeLogin(login: StoredLogin): string {
  const file = configFile()
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}`
  writeFileSync(temporary, `${JSON.stringify(login, null, 2)}\n`, { mode: 0o600 })
  chmodSync(temporary, 0o600)
  renameSync(temporary, file)
  return file
}

export function removeLogin(): boolean {
  const isStored = existsSync(configFile())
  rmSync(configFile(), { force: true })
  return isStored
}

const linkFile = (folder: string) => join(folder, '.slipway', 'link.json')
export const readLink = (folder: string): Link | undefined => readJson<Link>(linkFile(folder))

export function writeLink(folder: string, link: Link): void {
  mkdirSync(join(folder, '.slipway'), { recursive: true })
  const ignored = join(folder, '.slipway', '.gitignore')
  if (!existsSync(ignored)) writeFileSync(ignored, '*\n')
  writeFileSync(linkFile(folder), `${JSON.stringify(link, null, 2)}\n`)
}

export const removeLink = (folder: string): void => rmSync(linkFile(folder), { force: true })
