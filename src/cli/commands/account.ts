// `login`, `logout`, `whoami`: the key that is kept on this machine.
import { hostname } from 'node:os'
import type { Reply } from '../../client/client.ts'
import { type DeviceCode, requestDeviceCode, waitForDeviceToken } from '../../client/device-grant.ts'
import { ApiError } from '../../client/errors.ts'
import { openInBrowser } from '../browser.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { createOutput, type Output } from '../output.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import { type GlobalOptions, openSession, type Session } from '../session.ts'
import { findUrl, readStoredLogin, removeLogin, requireUrl, type StoredLogin, storeLogin, UUID } from '../settings.ts'
import { USER_AGENT } from '../version.ts'

type LoginOptions = GlobalOptions & {
  url?: string
  workspace?: string
  withKey?: boolean
  keyStdin?: boolean
  oidc?: boolean
  audience?: string
  browser?: boolean
}
type Me = Reply<'GET /v2/me'>
type Place = { url: string; workspace?: string | undefined }

/** Stores a key only after the installation has accepted it. */
export async function logIn(options: LoginOptions, signal: AbortSignal): Promise<void> {
  const url = (options.url ?? findUrl())?.replace(/\/$/, '')
  if (!url) throw usageError('Give the address of the installation.', 'slipway login --url URL')
  requireUrl(url, 'The address')
  const out = createOutput({ json: options.json === true })
  const isGiven = options.withKey || options.keyStdin
  const login = options.oidc
    ? await logInJob(url, options, signal)
    : isGiven
      ? await readKey(url, options)
      : await askPerson(url, options, out, signal)
  const session = openSession(options, signal, { ...login, from: 'login' })
  const me = await session.client.call('GET /v2/me', { signal })
  const earlier = readStoredLogin()
  const file = storeLogin(login)
  if (earlier?.is_own) await revoke(earlier, options, signal)
  out.emit({ type: 'result', outcome: 'signed_in', url, file, ...describe(me, login) }, () =>
    ['Signed in.', ...summarize(me, login)].join('\n'),
  )
}

async function logInJob(url: string, options: LoginOptions, signal: AbortSignal): Promise<StoredLogin> {
  if (options.withKey || options.keyStdin)
    throw usageError('--oidc takes no key. Leave --with-key and --key-stdin out.')
  const workspace = options.workspace ?? process.env.SLIPWAY_WORKSPACE
  if (!workspace || !UUID.test(workspace))
    throw usageError('Give the id of the workspace that trusts this CI.', 'slipway login --oidc --workspace ID')
  const { exchangeCiToken } = await import('../ci-login.ts')
  return exchangeCiToken({ url, workspace, audience: options.audience ?? new URL(url).origin }, signal)
}

async function readKey(url: string, options: LoginOptions): Promise<StoredLogin> {
  const isHidden = !options.keyStdin && process.stdin.isTTY === true
  if (!isHidden && !options.keyStdin) throw usageError('Without a terminal, send the key to --key-stdin.')
  const key = (isHidden ? await readHidden('API key: ') : await readStdin()).trim()
  return { url, key, ...(options.workspace && { workspace: options.workspace }) }
}

/** A name that the installation accepts. */
const deviceName = (): string =>
  hostname()
    .replace(/[^\p{L}\p{N}\p{P}\p{S}\p{M} ]/gu, '')
    .replace(/\p{DI}/gu, '')
    .slice(0, 64)

const canOpenBrowser = ({ env, platform }: NodeJS.Process): boolean =>
  !env.SSH_CONNECTION && (platform === 'darwin' || platform === 'win32' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY))

const ENDED = ['access_denied', 'expired_token', 'invalid_grant']

async function askPerson(
  url: string,
  { browser }: LoginOptions,
  out: Output,
  signal: AbortSignal,
): Promise<StoredLogin> {
  const headers = { 'User-Agent': USER_AGENT }
  const code = await requestDeviceCode({ url, headers, signal }, deviceName())
  const { verification_uri, verification_uri_complete, user_code, expires_in } = code
  out.emit({ type: 'device_code', verification_uri, verification_uri_complete, user_code, expires_in }, () =>
    [`Open    ${verification_uri_complete}`, `Compare ${out.paint('bold', user_code)}, and approve it there.`].join(
      '\n',
    ),
  )
  if (browser !== false && out.isInteractive && canOpenBrowser(process)) openInBrowser(verification_uri_complete)
  const stopProgress = showProgress(code, out)
  try {
    const token = await waitForDeviceToken({ url, headers, signal }, code)
    return { url, key: token.access_token, workspace: token.workspace_id, is_own: true }
  } catch (error) {
    if (!(error instanceof ApiError) || !ENDED.includes(error.code)) throw error
    throw new CommandFailure(EXIT.notSignedIn, error.code, error.message, 'slipway login')
  } finally {
    stopProgress()
  }
}

function showProgress({ expires_in }: DeviceCode, out: Output): () => void {
  const end = Date.now() + expires_in * 1000
  const show = () => {
    const seconds = Math.max(0, Math.round((end - Date.now()) / 1000))
    out.progress(`Waiting for you, ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`)
  }
  show()
  const timer = setInterval(show, 1000)
  return () => {
    clearInterval(timer)
    out.progress('')
  }
}

/** True if the key is no longer valid. */
async function revoke(stored: StoredLogin, options: GlobalOptions, signal: AbortSignal): Promise<boolean> {
  try {
    const { client } = openSession(options, signal, { ...stored, from: 'login' })
    await client.call('DELETE /v2/me/api-key', { signal })
    return true
  } catch (error) {
    return error instanceof ApiError && error.status === 401
  }
}

export async function logOut(options: GlobalOptions, signal: AbortSignal): Promise<void> {
  const stored = readStoredLogin()
  const revoked = stored?.is_own ? await revoke(stored, options, signal) : false
  removeLogin()
  const text = revoked
    ? 'Removed the key from this machine, and revoked it.'
    : stored?.is_own
      ? `Removed the key from this machine. ${stored.url} did not revoke it, so it stays valid until it expires.`
      : 'Removed the key from this machine. It stays valid until it is revoked.'
  createOutput({ json: options.json === true }).emit(
    { type: 'result', outcome: 'signed_out', was_stored: stored !== undefined, revoked },
    () => (stored ? text : 'No key was stored.'),
  )
}

const workspaceOf = (me: Me, named: string | undefined) =>
  me.workspaces.find(({ id }) => id === (named ?? me.api_key?.tenant_id))

function describe(me: Me, { workspace: named }: Place) {
  const workspace = workspaceOf(me, named)
  return {
    organization: me.organization,
    member: me.api_key?.member ?? null,
    api_key: me.api_key && { id: me.api_key.id, description: me.api_key.description, hint: me.api_key.hint },
    workspace: workspace ? { id: workspace.id, display_name: workspace.display_name } : null,
    permissions: workspace?.permissions ?? me.permissions,
    expires_at: me.api_key?.expires_at ?? null,
  }
}

function summarize(me: Me, login: Place): string[] {
  const { organization, member, api_key, workspace, permissions, expires_at } = describe(me, login)
  const rows: [string, string | undefined][] = [
    ['Installation', login.url],
    ['Organization', organization.display_name],
    ['Workspace', workspace?.display_name],
    ['Workspaces', workspace ? undefined : me.workspaces.map(one => `${one.display_name} (${one.id})`).join(', ')],
    ['As', member?.email ?? `the API key “${api_key?.description}” (${api_key?.hint})`],
    ['Until', expires_at?.slice(0, 10)],
    ['Permissions', permissions.join(', ')],
  ]
  return rows.filter(([, value]) => value).map(([name, value]) => `${name.padEnd(13)}${value}`)
}

export async function showWhoami({ client, out, login, signal }: Session): Promise<void> {
  const me = await client.call('GET /v2/me', { signal })
  out.emit({ url: login.url, from: login.from, ...describe(me, login) }, () =>
    [...summarize(me, login), out.paint('dim', `${'From'.padEnd(13)}${login.from}`)].join('\n'),
  )
}
