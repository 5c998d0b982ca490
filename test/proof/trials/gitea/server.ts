// A real Gitea or Forgejo for trials: installed into a folder, started, stopped and started again.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { note, skipped } from '../../support/trial.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers of two APIs, of which the trial reads a few members
export type Answer = any
export const PERSON = 'ada:hush-hush-1'
export const SCOPES = ['read:user', 'write:repository', 'write:issue']
const run = promisify(execFile)

/** Null, and a reason, where GITEA_BIN names no program. */
export function findGitea(): string | null {
  const program = process.env.GITEA_BIN
  if (program && existsSync(program)) return program
  skipped('GITEA_BIN names no program of Gitea or Forgejo')
  return null
}

export async function waitFor(isTrue: () => Promise<boolean>, seconds = 60): Promise<boolean> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(200)) {
    if (await isTrue().catch(() => false)) return true
  }
  return false
}

export async function startGitea(program: string, work: string) {
  const port = await findFreePort()
  const origin = `http://127.0.0.1:${port}`
  const home = join(work, 'gitea')
  mkdirSync(home, { recursive: true })
  const config = join(home, 'app.ini')
  const root = process.env.GITEA_STATIC ? `STATIC_ROOT_PATH = ${process.env.GITEA_STATIC}\n` : ''
  writeFileSync(
    config,
    `WORK_PATH = ${home}
[security]
INSTALL_LOCK = true
[database]
DB_TYPE = sqlite3
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ${port}
ROOT_URL = ${origin}/
DISABLE_SSH = true
${root}[webhook]
ALLOWED_HOST_LIST = loopback
[log]
LEVEL = Warn
`,
  )
  const env = { ...process.env, HOME: home, USER: 'git', GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT: 'true' }
  const gitea = (...args: string[]) => run(program, ['--config', config, ...args], { env })
  await gitea('migrate')
  const [username = '', password = ''] = PERSON.split(':')
  const user = ['--username', username, '--password', password, '--email', 'ada@example.com']
  await gitea('admin', 'user', 'create', '--admin', '--must-change-password=false', ...user)
  let child: ChildProcess
  async function start(): Promise<void> {
    child = spawn(program, ['--config', config, 'web'], { env, stdio: 'ignore' })
    const isUp = await waitFor(async () => (await fetch(`${origin}/api/v1/version`)).ok || child.exitCode !== null)
    // Another server may answer in place of one that has ended.
    if (!isUp || child.exitCode !== null) throw new Error(`Gitea does not answer. Exit status: ${child.exitCode}.`)
  }
  await start()
  const authorization = `Basic ${Buffer.from(PERSON).toString('base64')}`
  /** `as`: the name and password of another person. */
  async function api(method: string, path: string, body?: object, as?: string): Promise<Answer> {
    const login = as === undefined ? authorization : `Basic ${Buffer.from(as).toString('base64')}`
    const headers = { Authorization: login, 'Content-Type': 'application/json' }
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const response = await fetch(`${origin}/api/v1${path}`, init)
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.status === 204 ? null : JSON.parse((await response.text()) || 'null')
  }
  const createToken = async (name: string, scopes: string[]): Promise<string> =>
    (await api('POST', `/users/${username}/tokens`, { name, scopes })).sha1
  const { version } = await api('GET', '/version')
  note(`Gitea ${version}`)
  const stop = async () => {
    child.kill()
    if (child.exitCode === null) await once(child, 'exit')
  }
  return { origin, api, createToken, start, stop }
}
