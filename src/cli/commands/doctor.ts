// `slipway doctor`: checks this machine, the connection, the key and the agents, and says what to do.
import { lookup } from 'node:dns/promises'
import { existsSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { mayHoldSecrets } from '../../client/archive-rules.ts'
import { createClient } from '../../client/client.ts'
import { ApiError, ConnectionError } from '../../client/errors.ts'
import { judgeSkew } from '../../protocol/versions.ts'
import { CREATE_CHANNEL, isAnybodyTold, SENT_TO_NOBODY } from '../alerts.ts'
import { packFolder } from '../archive.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { readListeners } from '../listeners.ts'
import { age, formatBytes } from '../output.ts'
import type { Session } from '../session.ts'
import { configFile, type Login, readLink } from '../settings.ts'
import { oneLine } from '../terminal-text.ts'
import { VERSION } from '../version.ts'

export const declaration: Declaration = {
  arguments: '[folder]',
  summary: 'check this machine, the connection and the key',
}

type Check = { check: string; status: 'ok' | 'warning' | 'failed'; message: string; next?: string | undefined }

const ok = (check: string, message: string): Check => ({ check, status: 'ok', message })
const warning = (check: string, message: string, next?: string): Check => ({ check, status: 'warning', message, next })
const failed = (check: string, message: string, next?: string): Check => ({ check, status: 'failed', message, next })

const MARKS = { ok: ['green', '✓'], warning: ['yellow', '!'], failed: ['red', '✗'] } as const

export async function run(session: Session, _: object, [folder]: [string?]): Promise<void> {
  const { out } = session
  const counts = { ok: 0, warning: 0, failed: 0 }
  for await (const one of runChecks(session, folder)) {
    counts[one.status]++
    out.emit({ type: 'check', ...one }, () => {
      const [color, mark] = MARKS[one.status]
      const line = `${out.paint(color, mark)} ${one.check.padEnd(10)} ${oneLine(one.message)}`
      return one.next === undefined ? line : `${line}\n  ${''.padEnd(10)} ${out.paint('dim', `Next: ${one.next}`)}`
    })
  }
  const outcome = counts.failed > 0 ? 'broken' : 'healthy'
  out.emit({ type: 'result', outcome, ...counts })
  if (counts.failed === 0) return
  const message = `${counts.failed} of ${counts.ok + counts.warning + counts.failed} checks failed.`
  throw new CommandFailure(EXIT.failed, 'broken', message, 'Do what the lines above say, and run it again.')
}

async function* runChecks(session: Session, folder: string | undefined): AsyncGenerator<Check> {
  yield checkNode()
  yield* checkConfig()
  yield* checkProxies()
  const login = readLoginOf(session)
  if ('status' in login) yield login
  else {
    yield ok('login', `${login.url}, from ${login.from}`)
    yield* checkInstallation(session, login)
  }
  yield* await checkFolder(folder)
}

// ---- this machine

/** The same version is in `engines` of scripts/cli-package.ts. */
const MIN_NODE = [20, 12] as const

function checkNode(): Check {
  const { node } = process.versions
  const [major = 0, minor = 0] = node.split('.').map(Number)
  const isEnough = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1])
  if (isEnough) return ok('node', `Node ${node}, slipway ${VERSION}`)
  return failed('node', `Node ${node} is too old.`, `Install Node ${MIN_NODE.join('.')} or newer.`)
}

function* checkConfig(): Generator<Check> {
  const file = configFile()
  if (!existsSync(file)) return
  const mode = statSync(file).mode & 0o777
  if (process.platform === 'win32' || (mode & 0o077) === 0) yield ok('config', file)
  else yield warning('config', `${file} is readable by others (mode ${mode.toString(8)}).`, `chmod 600 ${file}`)
}

const PROXY_VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY']

/** Shows names only, because the values may hold passwords. */
function* checkProxies(): Generator<Check> {
  const { env } = process
  const set = PROXY_VARIABLES.flatMap(name => [name, name.toLowerCase()]).filter(name => env[name])
  if (set.length === 0) return
  if (env.NODE_USE_ENV_PROXY === '1') yield ok('proxy', `Requests go through the proxy in ${set.join(' and ')}.`)
  else
    yield warning(
      'proxy',
      `${set.join(' and ')} is set, but Node ignores it.`,
      'If requests must go through the proxy, set NODE_USE_ENV_PROXY=1 (Node 24 or newer).',
    )
}

function readLoginOf(session: Session): Login | Check {
  try {
    return session.login
  } catch (error) {
    if (error instanceof CommandFailure) return failed('login', error.message, error.next)
    throw error
  }
}

// ---- the installation

const TIMEOUT_MS = 10_000
const MAX_SKEW_S = 60

async function* checkInstallation(session: Session, { url }: Login): AsyncGenerator<Check> {
  const dns = await checkName(url)
  if (dns) yield dns
  if (dns?.status === 'failed') return
  const client = createClient({ url, timeoutMs: TIMEOUT_MS, retry: { attempts: 1 } })
  const started = Date.now()
  const request = { method: 'GET', path: '/healthz', signal: session.signal }
  const health = await client.send(request).catch(toFailedConnection(url))
  if ('check' in health) return yield health
  const ms = Date.now() - started
  yield checkEncryption(url, ms)
  const { version } = (health.reply as { version?: string } | undefined) ?? {}
  yield checkVersion(version)
  yield checkClock(health.headers.get('Date'), started + ms / 2)
  const key = await checkKey(session)
  yield* key
  if (key.some(({ status }) => status === 'failed')) return
  yield* await checkListeners(session, version)
  if (!(await isAnybodyTold(session))) yield warning('alerts', SENT_TO_NOBODY, CREATE_CHANNEL)
}

async function checkName(url: string): Promise<Check | undefined> {
  const { hostname } = new URL(url)
  if (/^\[|^[\d.]+$/.test(hostname)) return undefined
  const started = Date.now()
  try {
    const { address } = await lookup(hostname)
    return ok('dns', `${hostname} is ${address}, found in ${Date.now() - started} ms`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return failed('dns', `${hostname} has no address (${code}).`, `Check the address ${url}, and the network.`)
  }
}

const CONNECTION_ADVICE: [RegExp, string][] = [
  [/ECONNREFUSED/, 'Nothing listens there. Check the port, and that the installation runs.'],
  [/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/, 'Set NODE_EXTRA_CA_CERTS to the file of your certificate authority.'],
  [/timed out|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH/, 'Check firewalls, and whether a proxy is needed.'],
]

const toFailedConnection = (url: string) => (error: unknown) => {
  if (!(error instanceof ConnectionError || error instanceof ApiError)) throw error
  const advice = CONNECTION_ADVICE.find(([pattern]) => pattern.test(error.message))?.[1]
  return failed('connection', error.message, advice ?? `Check that ${url} is an installation of Slipway.`)
}

function checkEncryption(url: string, ms: number): Check {
  const { protocol, hostname } = new URL(url)
  const took = `${url} answers in ${ms} ms`
  if (protocol === 'https:') return ok('connection', `${took}, with TLS`)
  if (/^(localhost|.+\.localhost|127\..*|\[::1\])$/.test(hostname)) return ok('connection', took)
  return warning('connection', `${took}, without TLS: others on the way can read the key.`, 'Use its https address.')
}

function checkVersion(version: string | undefined): Check {
  const skew = judgeSkew(VERSION, version)
  const message = `The installation has version ${version ?? 'unknown'}, and this command line has ${VERSION}.`
  if (skew === 'same') return ok('version', `The installation has version ${version} too.`)
  if (skew === 'older') return ok('version', `${message} They work together.`)
  return warning('version', message, 'Install the one of the installation, as docs/start/cli.md says.')
}

/** The advice for an agent with an unsupported version. */
function adviseOnAgent(agent: string | null, installation: string | undefined): string | undefined {
  switch (judgeSkew(agent, installation)) {
    case 'too_old':
      return `Replace the agent by version ${installation}: only the minor release before is supported.`
    case 'newer':
      return `Upgrade the installation from ${installation}, as docs/operate/upgrade.md says: no agent may be newer.`
    case 'unknown':
      return 'Replace the agent by the one of the installation.'
    default:
      return undefined
  }
}

/** Signatures of webhooks and expiry times depend on the clock. */
function checkClock(date: string | null, localMs: number): Check {
  const offset = date === null ? 0 : (localMs - Date.parse(date)) / 1000
  // The header has whole seconds.
  const skew = Math.round(Math.max(0, Math.abs(offset) - 1))
  if (skew <= MAX_SKEW_S) return ok('clock', 'The clock agrees with that of the installation.')
  const where = offset < 0 ? 'behind' : 'ahead of'
  return warning(
    'clock',
    `The clock is ${skew} s ${where} that of the installation.`,
    'Synchronize it, such as by NTP.',
  )
}

// ---- the key

const USED_PERMISSIONS = ['deployments:read', 'deployments:create', 'deployments:update', 'events:read']
const SOON_MS = 7 * 86_400_000

async function checkKey({ client, login, signal }: Session): Promise<Check[]> {
  const me = await client.call('GET /v2/me', { signal }).catch((error: unknown) => {
    if (error instanceof ApiError || error instanceof ConnectionError) return error
    throw error
  })
  if (me instanceof Error) return [failed('key', me.message, 'slipway login')]
  const { api_key, organization } = me
  const name = api_key ? `${api_key.hint} (${api_key.description})` : 'The session'
  return [checkExpiry(name, organization.display_name, api_key?.expires_at ?? null), checkWorkspace()]

  function checkWorkspace(): Check {
    const wanted = api_key?.tenant_id ?? login.workspace
    const workspace = me && 'workspaces' in me ? me.workspaces.find(({ id }) => id === wanted) : undefined
    if (!workspace)
      return wanted
        ? failed('workspace', `The key cannot use the workspace ${wanted}.`, 'slipway api GET /workspaces')
        : warning('workspace', 'The key of the organization has no workspace.', 'Set SLIPWAY_WORKSPACE to an id.')
    const missing = USED_PERMISSIONS.filter(permission => !workspace.permissions.includes(permission))
    if (missing.length === 0)
      return ok('workspace', `${workspace.display_name}, with ${workspace.permissions.length} permissions`)
    const message = `${workspace.display_name}: the key does not have ${missing.join(', ')}.`
    return warning('workspace', message, 'Some commands are refused. Use a key with more permissions for them.')
  }
}

function checkExpiry(name: string, organization: string, expires_at: string | null): Check {
  const message = `${name} of ${organization}`
  if (expires_at === null) return ok('key', `${message} does not expire.`)
  const day = expires_at.slice(0, 10)
  if (Date.parse(expires_at) - Date.now() > SOON_MS) return ok('key', `${message} expires on ${day}.`)
  return warning('key', `${message} expires soon, on ${day}.`, 'slipway keys create NAME')
}

/** An agent polls about every ten seconds. */
const SILENT_MS = 120_000

async function checkListeners(session: Session, installation: string | undefined): Promise<Check[]> {
  const checks: Check[] = []
  try {
    for await (const { compute_id, last_seen_at, version } of readListeners(session)) {
      const isHeard = last_seen_at !== null && Date.now() - Date.parse(last_seen_at) < SILENT_MS
      const since = last_seen_at ? `was last heard ${age(last_seen_at)}` : 'was never heard'
      const next = adviseOnAgent(version, installation)
      const message = `${compute_id} ${since}, version ${version ?? 'unknown'}`
      if (isHeard) checks.push(next ? warning('listener', message, next) : ok('listener', message))
      else
        checks.push(
          warning('listener', `${compute_id} ${since}.`, 'Start its agent, as docs/operate/self-host.md says.'),
        )
    }
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error
    return [warning('listener', 'The key may not read listeners.')]
  }
  return checks.length > 0 ? checks : [ok('listener', 'None of its own: deployments run on those of the platform.')]
}

// ---- the folder

const APPLICATION_FILES = ['package.json', 'slipway.json', 'Dockerfile', '.slipway/link.json']

/** Without a name, only a folder that looks like an application is packed: it could be a home folder. */
async function checkFolder(given: string | undefined): Promise<Check[]> {
  const folder = resolve(given ?? '.')
  if (given === undefined && !APPLICATION_FILES.some(name => existsSync(join(folder, name))))
    return [ok('folder', 'No application here. Name a folder to check that it can be packed.')]
  try {
    const { files, unpackedBytes } = await packFolder(folder)
    const link = readLink(folder)
    const linked = link ? `, linked to ${link.name}` : ''
    const packed = ok('folder', `${folder}: ${files.length} files, ${formatBytes(unpackedBytes)}${linked}`)
    const secrets = files.filter(mayHoldSecrets)
    if (secrets.length === 0) return [packed]
    const message = `${secrets.join(', ')} would be packed, and may hold secrets.`
    return [packed, warning('ignore', message, `List it in ${join(folder, '.gitignore')} or .slipwayignore.`)]
  } catch (error) {
    return [failed('folder', (error as Error).message)]
  }
}
