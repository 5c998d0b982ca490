// The installation and key to use, and which deployment a folder belongs to.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { CommandFailure, EXIT, usageError } from './failure.ts'

/** The facts about a key of a CI job that its renewal needs. */
export type CiKey = { audience: string; ends_at: string; token_sha256: string }
export type Login = { url: string; key: string; workspace?: string | undefined; from: string; ci?: CiKey }
/** `is_own`: the key was made for this machine, so a logout revokes it. */
export type StoredLogin = { url: string; key: string; workspace?: string; is_own?: boolean; ci?: CiKey }
export type Link = { url: string; deployment_id: string; name: string; archive_sha256?: string | undefined }

const { env } = process
/**
 * `npm run dev` knows this folder too: `configFolder()` in src/host/dev-pointer.ts. A relative path would put the key
 * into the folder of a project, and the XDG specification ignores one too.
 */
export const configFile = (name = 'login.json') => {
  const [own, base] = [env.SLIPWAY_CONFIG_HOME, env.XDG_CONFIG_HOME || env.APPDATA].map(path =>
    path && isAbsolute(path) ? path : undefined,
  )
  return join(own ?? join(base ?? join(homedir() || userInfo().homedir, '.config'), 'slipway'), name)
}

function readJson<T>(file: string): T | undefined {
  if (!existsSync(file)) return undefined
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    throw usageError(`${file} is not JSON. Correct or delete it.`)
  }
}

/** Several `npm run dev` run, and nothing says which one is meant. */
export class SeveralInstallations extends CommandFailure {
  /** The newest first. */
  readonly logins: Login[]
  constructor(logins: Login[]) {
    const urls = logins.map(({ url }) => url)
    super(
      EXIT.usage,
      'several_installations',
      `Several \`npm run dev\` are running: ${urls.join(', ')}. Choose one with SLIPWAY_URL, or use a linked folder.`,
      `SLIPWAY_URL=${urls[0]} slipway whoami`,
    )
    this.logins = logins
  }
}

/**
 * A running `npm run dev`: the one that the folder is linked to, or else that of the checkout that the folder is in, or
 * else the only one. Only on the loopback.
 */
function readDevLogin(from: string, wanted = readLink(from)?.url): Login | undefined {
  const logins: (Login | undefined)[] = []
  for (let folder = resolve(from); folder !== dirname(folder); folder = dirname(folder))
    logins.push(readDevState(join(folder, '.slipway', 'dev.json')))
  const own = logins.find(login => login !== undefined)
  const running = [own, ...listPointers().map(readDevState)].filter(login => login !== undefined)
  const chosen = running.find(({ url }) => url === wanted) ?? own
  if (chosen || running.length < 2) return chosen ?? running[0]
  throw new SeveralInstallations(running)
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
  // Another user could leave one in a folder above, such as /tmp, with the address of a server of their own.
  if (!existsSync(file) || (process.getuid && statSync(file).uid !== process.getuid())) return undefined
  const { url = '', api_key, pid } = readJson<{ url?: string; api_key?: string; pid?: number }>(file) ?? {}
  const isRunning = pid !== undefined && isAlive(pid)
  return api_key && isRunning && /^http:\/\/127\.0\.0\.1:\d+$/.test(url) ? { url, key: api_key, from: file } : undefined
}

/** False for a process of another user, which got the number after the one that wrote the file. */
function isAlive(pid: number): boolean {
  try {
    // 0 and negative numbers are groups of processes.
    return pid > 0 && process.kill(pid, 0)
  } catch {
    return false
  }
}

export function readLogin(folder = process.cwd()): Login {
  const { SLIPWAY_URL: url, SLIPWAY_API_KEY: key, SLIPWAY_WORKSPACE: workspace } = env
  if (url) requireUrl(url, 'SLIPWAY_URL')
  if (url && key) return { url, key, workspace, from: 'SLIPWAY_URL and SLIPWAY_API_KEY' }
  const stored = readStoredLogin()
  if (stored && (!url || url === stored.url)) {
    if (key) return { url: stored.url, key, workspace, from: `SLIPWAY_API_KEY, and the address of ${configFile()}` }
    return { ...stored, workspace: workspace || stored.workspace, from: configFile() }
  }
  // A key that is set goes only where the person says: a repository can hold a file like that of `npm run dev`.
  const dev = key ? undefined : readDevLogin(folder, url || undefined)
  if (dev && (!url || url === dev.url)) return dev
  throw new CommandFailure(
    EXIT.notSignedIn,
    'not_signed_in',
    url
      ? `There is no key for ${url}. Set SLIPWAY_API_KEY, or sign in.`
      : `There is no installation to talk to. ${key ? 'Set SLIPWAY_URL beside SLIPWAY_API_KEY, or sign' : 'Sign'} in.`,
    url ? 'slipway login' : 'slipway login --url URL',
  )
}

/** The message does not repeat one with a password. */
export function requireUrl(text: string, name: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.username || url?.password)
    throw usageError(`${name} has a user name or password in it. Slipway signs in with a key instead.`)
  if (!url || !/^https?:$/.test(url.protocol) || /[?#]/.test(text))
    throw usageError(`${name} is not the address of an installation, such as https://slipway.example.com: ${text}`)
}

export function readStoredLogin(): StoredLogin | undefined {
  const stored = readJson<StoredLogin>(configFile())
  if (stored === undefined || (typeof stored?.url === 'string' && typeof stored.key === 'string')) return stored
  throw usageError(`${configFile()} has no address and key. Delete it, and sign in again.`)
}

/** The installation to sign in at, unless the command names one. */
export const findUrl = (): string | undefined =>
  env.SLIPWAY_URL || readStoredLogin()?.url || readDevLogin(process.cwd())?.url

export function storeLogin(login: StoredLogin): string {
  const file = configFile()
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  replaceFile(file, login, 0o600)
  return file
}

/** Written under another name first: a key is never readable by others, and a link is replaced, not followed. */
function replaceFile(file: string, content: object, mode: number): void {
  const temporary = `${file}.${process.pid}`
  rmSync(temporary, { force: true })
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode, flag: 'wx' })
  renameSync(temporary, file)
}

export function removeLogin(): boolean {
  const isStored = existsSync(configFile())
  rmSync(configFile(), { force: true })
  return isStored
}

const linkFile = (folder: string) => join(folder, '.slipway', 'link.json')
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export function readLink(folder: string): Link | undefined {
  const link = readJson<Link>(linkFile(folder))
  if (link === undefined) return undefined
  const { url, deployment_id, name } = link ?? {}
  if (typeof url === 'string' && UUID.test(deployment_id) && typeof name === 'string') return link
  throw usageError(`${linkFile(folder)} does not name a deployment. Delete it, and link the folder again.`)
}

/** A cloned repository can hold `.slipway` or a file in it as a link to any file of the person. */
export function writeLink(folder: string, link: Link): void {
  const own = join(folder, '.slipway')
  if (lstatSync(own, { throwIfNoEntry: false })?.isSymbolicLink())
    throw usageError(`${own} is a link to another place. Remove it, and run the command again.`)
  mkdirSync(own, { recursive: true })
  const ignored = join(own, '.gitignore')
  if (!lstatSync(ignored, { throwIfNoEntry: false })) writeFileSync(ignored, '*\n', { flag: 'wx' })
  replaceFile(linkFile(folder), link, 0o644)
}

export const removeLink = (folder: string): void => rmSync(linkFile(folder), { force: true })
