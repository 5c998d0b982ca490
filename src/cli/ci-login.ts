// A key for the token of a CI job: reads the token, exchanges it, and renews the key before it expires.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ApiError, ConnectionError } from '../client/errors.ts'
import { backoffDelay, DEFAULT_RETRY, pause } from '../client/retry.ts'
import { exchangeToken } from '../client/token-exchange.ts'
import { CommandFailure, EXIT, usageError } from './failure.ts'
import type { Output } from './output.ts'
import { type CiKey, type Login, readStoredLogin, type StoredLogin, storeLogin } from './settings.ts'
import { USER_AGENT } from './version.ts'

const { env } = process
const ATTEMPTS = 4
const TIMEOUT_MS = 30_000
const RENEWED_BEFORE_MS = 5 * 60_000
/** A stream is cut before its key ends, and goes on with the next one. */
const CUT_BEFORE_MS = 30_000
const RETRIED_AFTER_MS = 30_000

/** Each call of GitHub gives another token. Those of others are the same for a while. */
async function readToken(audience: string, signal: AbortSignal): Promise<string> {
  const { ACTIONS_ID_TOKEN_REQUEST_URL: url, ACTIONS_ID_TOKEN_REQUEST_TOKEN: secret } = env
  if (url && secret) return askGitHub(url, secret, audience, signal)
  if (env.SLIPWAY_OIDC_TOKEN) return env.SLIPWAY_OIDC_TOKEN.trim()
  if (env.SLIPWAY_OIDC_TOKEN_FILE) return readFileSync(env.SLIPWAY_OIDC_TOKEN_FILE, 'utf8').trim()
  throw usageError(
    'There is no token of a CI. In GitHub Actions, give the job the permission `id-token: write`. Elsewhere set ' +
      'SLIPWAY_OIDC_TOKEN or SLIPWAY_OIDC_TOKEN_FILE.',
  )
}

async function askGitHub(text: string, secret: string, audience: string, signal: AbortSignal): Promise<string> {
  const url = new URL(text)
  url.searchParams.set('audience', audience)
  const failure = (what: string) =>
    new ConnectionError(
      `GitHub issued no token for this job: ${what}. Give the job the permission \`id-token: write\`.`,
    )
  const response = await fetch(url, {
    headers: { Authorization: `Bearer ${secret}`, Accept: 'application/json', 'User-Agent': USER_AGENT },
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  }).catch(cause => {
    signal.throwIfAborted()
    throw failure((cause as Error).name === 'TimeoutError' ? 'no answer in time' : 'no connection')
  })
  const body = (await response.json().catch(() => null)) as { value?: unknown } | null
  if (response.ok && typeof body?.value === 'string') return body.value
  throw failure(`it answered ${response.status}`)
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex')

/** The claims that the workspace compares. Nothing in them is secret. */
function describeToken(token: string): string {
  try {
    const { iss, aud, sub } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    return `The token has the issuer ${iss}, the audience ${aud} and the subject ${sub}.`
  } catch {
    return 'The token is not a JSON Web Token.'
  }
}

type Exchange = { url: string; workspace: string; audience: string }

/** Each attempt reads another token if there is one, because a lost answer has used its token. */
export async function exchangeCiToken(
  { url, workspace, audience }: Exchange,
  signal: AbortSignal,
): Promise<StoredLogin & { ci: CiKey }> {
  for (let attempt = 1; ; attempt++) {
    let token = ''
    try {
      token = await readToken(audience, signal)
      const key = await exchangeToken({ url, headers: { 'User-Agent': USER_AGENT }, signal }, token, workspace)
      const ends_at = new Date(Date.now() + key.expires_in * 1000).toISOString()
      const ci = { audience, ends_at, token_sha256: hashOf(token) }
      return { url, key: key.access_token, workspace: key.workspace_id, is_own: true, ci }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ApiError && error.status === 400)
        throw new CommandFailure(EXIT.notSignedIn, 'token_refused', `${error.message} ${describeToken(token)}`)
      const isTemporary =
        error instanceof ConnectionError || (error instanceof ApiError && [429, 502, 503, 504].includes(error.status))
      if (!isTemporary || attempt === ATTEMPTS) throw error
      const wanted = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
      if (wanted > DEFAULT_RETRY.maxDelayMs) throw error
      await pause(Math.max(wanted, backoffDelay(attempt, { ...DEFAULT_RETRY, firstDelayMs: 1000 })), signal)
    }
  }
}

/** A `fetch` with the key of the login, which is renewed before it expires. */
export function createRenewingFetch(login: Login & { ci: CiKey }, out: Output, signal: AbortSignal): typeof fetch {
  let current: { key: string; ci: CiKey } = login
  let renewal: Promise<void> | undefined
  let nextTry = 0

  async function renew({ audience, token_sha256 }: CiKey): Promise<void> {
    const { url, workspace } = login
    // The token of GitLab is the same for the whole job, and was used.
    const isFixed = !env.ACTIONS_ID_TOKEN_REQUEST_URL && hashOf(await readToken(audience, signal)) === token_sha256
    if (isFixed) return
    const renewed = await exchangeCiToken({ url, workspace: workspace!, audience }, signal)
    if (readStoredLogin()?.key === current.key) storeLogin(renewed)
    current = renewed
  }

  async function currentKey(): Promise<string> {
    const isEnding = Date.parse(current.ci.ends_at) - Date.now() < RENEWED_BEFORE_MS
    if (!isEnding || Date.now() < nextTry) return current.key
    renewal ??= renew(current.ci)
      .catch(error => {
        signal.throwIfAborted()
        out.note(`The key of this job expires at ${current.ci.ends_at} and was not renewed: ${error.message}`)
      })
      .finally(() => {
        nextTry = Date.now() + RETRIED_AFTER_MS
        renewal = undefined
      })
    await renewal
    return current.key
  }

  const cutBeforeEnd = (given: AbortSignal | null | undefined): AbortSignal | undefined => {
    const ms = Date.parse(current.ci.ends_at) - Date.now() - CUT_BEFORE_MS
    // A cut so close to the end of the key would find no other key.
    if (ms <= CUT_BEFORE_MS) return given ?? undefined
    return AbortSignal.any([AbortSignal.timeout(ms), ...(given ? [given] : [])])
  }

  return async (input, init) => {
    const headers = new Headers(init?.headers)
    // The link of an upload has no key.
    if (!headers.has('X-Api-Key')) return fetch(input, init)
    headers.set('X-Api-Key', await currentKey())
    const isStream = headers.get('Accept') === 'text/event-stream'
    const cut = isStream ? cutBeforeEnd(init?.signal) : undefined
    return fetch(input, { ...init, headers, ...(cut && { signal: cut }) })
  }
}
