// A whole installation with an agent, on workerd as `npm run dev` starts it, and on Node as `npm start` does.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import type { DevState } from '../../../src/host/home-folder.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { runForOutput, startProcess } from './processes.ts'

const PROJECT = join(import.meta.dirname, '../../..')
const START_TIMEOUT_MS = 300_000

export type Settings = Record<string, string>
type Cleanup = { defer(end: () => unknown): void }
export type Installation = {
  host: 'workerd' | 'Node'
  url: string
  key: string
  workspace: string
  folder: string
  /** The address of a link that signs Ada in once, as an Admin. */
  signInToken: () => Promise<string>
}

export type StartInstallation = (cleanup: AsyncDisposableStack, settings?: Settings) => Promise<Installation>

export const HOSTS: Record<Installation['host'], StartInstallation> = { workerd: startOnWorkerd, Node: startOnNode }

async function makeFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-two-hosts-'))
  // With root, applications run as other users, who have to reach their folders below it.
  await chmod(folder, 0o755)
  cleanup.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 9 }))
  return folder
}

const adapt = (cleanup: AsyncDisposableStack): Cleanup => ({
  defer: end => cleanup.defer(async () => void (await end())),
})

export async function until<T>(
  what: string,
  look: () => Promise<T> | T,
  ms = START_TIMEOUT_MS,
): Promise<NonNullable<T>> {
  for (const end = Date.now() + ms; Date.now() < end; await delay(100)) {
    const result = await Promise.resolve(look()).catch(() => undefined)
    if (result) return result as NonNullable<T>
  }
  throw new Error(`It did not come to this: ${what}`)
}

/** For services that other programs on this machine provide, and without rate limits. */
const COMMON = { ALLOW_LOOPBACK: 'true', RATE_LIMIT_PER_MINUTE: '0' }

const runProgram = (args: string[], env: Settings) =>
  runForOutput({ defer: () => {} }, process.execPath, ['src/host/main.ts', ...args], { cwd: PROJECT, env })

/** Adds Ada, and prints a link for her and keys. */
const bootstrap = (organization: string, env: Settings, ...more: string[]) =>
  runProgram(['bootstrap', '--organization', organization, '--email', 'ada@example.com', ...more], env)

async function readSignInToken(organization: string, env: Settings): Promise<string> {
  const [, token] = /^Sign-in link +\S+#(\S+)/m.exec(await bootstrap(organization, env)) ?? []
  if (!token) throw new Error('bootstrap printed no sign-in link')
  return token
}

async function startOnWorkerd(cleanup: AsyncDisposableStack, settings: Settings = {}): Promise<Installation> {
  const folder = await makeFolder(cleanup)
  const home = join(folder, 'home')
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const base = { PATH: process.env.PATH!, SLIPWAY_HOME: home, SLIPWAY_CONFIG_HOME: folder }
  const env = { ...process.env, ...base, ...COMMON, PUBLIC_URL: url, ...settings }
  const args = ['-r', './src/host/require-node.cjs', 'src/host/dev.ts', '--port', String(port)]
  const { broken } = startProcess(adapt(cleanup), process.execPath, args, { cwd: PROJECT, env })
  const ready = until('npm run dev is ready', async () => {
    const { default: state } = await import(join(home, 'dev.json'), { with: { type: 'json' } })
    return state as DevState
  })
  const { api_key: key, tenant_id: workspace } = await Promise.race([ready, broken])
  const signInToken = () => readSignInToken('Local', base)
  return { host: 'workerd', url, key, workspace, folder, signInToken }
}

async function startOnNode(cleanup: AsyncDisposableStack, settings: Settings = {}): Promise<Installation> {
  const folder = await makeFolder(cleanup)
  const postgres = await startPostgres({ dataDir: join(folder, 'postgres') })
  cleanup.defer(() => postgres.stop())
  const [port, appsPort] = [await findFreePort(), await findFreePort()]
  const url = `http://127.0.0.1:${port}`
  const base = { PATH: process.env.PATH!, HOME: folder, SLIPWAY_HOME: join(folder, 'home') }
  await runProgram(['migrate'], { ...base, DATABASE_OWNER_URL: postgres.url })
  const env = {
    ...base,
    ...COMMON,
    PUBLIC_URL: url,
    PORT: String(port),
    HOST: '127.0.0.1',
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`,
    UPLOADS_DIR: join(folder, 'uploads'),
    ...settings,
  }
  const start = (args: string[], own: Settings) =>
    startProcess(adapt(cleanup), process.execPath, ['src/host/main.ts', ...args], { cwd: PROJECT, env: own })
  const plane = start(['start'], env)
  await Promise.race([until('npm start is ready', async () => (await fetch(`${url}/readyz`)).ok), plane.broken])
  const printed = await bootstrap('Acme', env, '--platform-listener', 'machine')
  const [key, agentKey] = printed.match(/slw_\w+/g) as [string, string]
  const [, workspace] = /^Workspace +(\S+)/m.exec(printed) as unknown as [string, string]
  start(['agent', '--home', join(folder, 'agent'), '--port', String(appsPort), '--stop'], {
    ...base,
    SLIPWAY_URL: url,
    SLIPWAY_LISTENER_KEY: agentKey,
    AGENT_RUN_AS: 'root',
    AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
  })
  return { host: 'Node', url, key, workspace, folder, signInToken: () => readSignInToken('Acme', env) }
}
