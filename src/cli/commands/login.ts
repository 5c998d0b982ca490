// `slipway login`: gets a key for this machine, and stores it.
import { hostname } from 'node:os'
import { type DeviceCode, requestDeviceCode, waitForDeviceToken } from '../../client/device-grant.ts'
import { ApiError } from '../../client/errors.ts'
import { describeKey, revokeStored, summarizeKey } from '../account.ts'
import { openInBrowser } from '../browser.ts'
import { exchangeCiToken } from '../ci-login.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import type { Output } from '../output.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import { openSession, type Session } from '../session.ts'
import { findUrl, readStoredLogin, requireUrl, type StoredLogin, storeLogin, UUID } from '../settings.ts'
import { USER_AGENT } from '../version.ts'

export const declaration: Declaration = {
  summary: 'get a key for this machine, which you approve in a browser',
  namesInstallation: true,
  options: command =>
    command
      .option('--url <url>', 'the address of the installation')
      .option('--with-key', 'store an API key that you type instead')
      .option('--key-stdin', 'store an API key from standard input instead')
      .option('--oidc', 'get a key for the token of this CI job instead, for 15 minutes and renewed')
      .option('--audience <audience>', 'the audience of that token; the address of the installation by default')
      .option('--workspace <id>', 'the workspace to act in, for a key of the organization or of a CI job')
      .option('--no-browser', 'print the address only'),
}

type Flags = {
  url?: string
  workspace?: string
  withKey?: boolean
  keyStdin?: boolean
  oidc?: boolean
  audience?: string
  browser?: boolean
}

/** Stores a key only after the installation has accepted it. */
export async function run({ out, options, signal }: Session, flags: Flags): Promise<void> {
  const url = (flags.url ?? findUrl())?.replace(/\/$/, '')
  if (!url) throw usageError('Give the address of the installation.', 'slipway login --url URL')
  requireUrl(url, 'The address')
  const login = await makeLogin(url, flags, out, signal)
  const session = openSession(options, signal, { ...login, from: 'login' })
  const me = await session.client.call('GET /v2/me', { signal })
  const earlier = readStoredLogin()
  const file = storeLogin(login)
  if (earlier?.is_own) await revokeStored(earlier, options, signal)
  out.emit({ type: 'result', outcome: 'signed_in', url, file, ...describeKey(me, login) }, () =>
    ['Signed in.', ...summarizeKey(me, login)].join('\n'),
  )
}

function makeLogin(url: string, flags: Flags, out: Output, signal: AbortSignal): Promise<StoredLogin> {
  if (flags.oidc) return logInJob(url, flags, signal)
  return flags.withKey || flags.keyStdin ? readKey(url, flags) : askPerson(url, flags, out, signal)
}

async function logInJob(url: string, options: Flags, signal: AbortSignal): Promise<StoredLogin> {
  if (options.withKey || options.keyStdin)
    throw usageError('--oidc takes no key. Leave --with-key and --key-stdin out.')
  const workspace = options.workspace ?? process.env.SLIPWAY_WORKSPACE
  if (!workspace || !UUID.test(workspace))
    throw usageError('Give the id of the workspace that trusts this CI.', 'slipway login --oidc --workspace ID')
  return exchangeCiToken({ url, workspace, audience: options.audience ?? new URL(url).origin }, signal)
}

async function readKey(url: string, options: Flags): Promise<StoredLogin> {
  const isHidden = !options.keyStdin && process.stdin.isTTY === true
  if (!isHidden && !options.keyStdin) throw usageError('Without a terminal, send the key to --key-stdin.')
  const key = (isHidden ? await readHidden('API key: ') : await readStdin()).trim()
  return { url, key, ...(options.workspace && { workspace: options.workspace }) }
}

/** The name of this machine without the characters that the installation refuses. */
const deviceName = (): string =>
  hostname()
    .replace(/[^\p{L}\p{N}\p{P}\p{S}\p{M} ]/gu, '')
    .replace(/\p{DI}/gu, '')
    .slice(0, 64)

const canOpenBrowser = ({ env, platform }: NodeJS.Process): boolean =>
  !env.SSH_CONNECTION && (platform === 'darwin' || platform === 'win32' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY))

const ENDED = ['access_denied', 'expired_token', 'invalid_grant']

async function askPerson(url: string, { browser }: Flags, out: Output, signal: AbortSignal): Promise<StoredLogin> {
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
