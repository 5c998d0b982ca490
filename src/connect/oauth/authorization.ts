// Requests to an authorization server: the authorization URL, token requests and revocation.
import { type SQL, sql } from 'drizzle-orm'
import * as oauth from 'oauth4webapi'
import * as z from 'zod'
import { Failure, fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { boundedText } from '../../protocol/wire.ts'
import type { oauthProviders } from './tables.ts'

const PROVIDER_COLUMNS = [
  'id',
  'provider_id',
  'name',
  'provider_type',
  'client_id',
  'client_secret',
  'token_endpoint_auth_method',
  'registration_access_token',
  'auth_url',
  'token_url',
  'revocation_url',
  'redirect_uri',
  'issuer',
  'issuer_in_answers',
  'resource',
  'uses_pkce',
  'client_secret_urls',
] as const
export type Provider = Pick<typeof oauthProviders.$inferSelect, (typeof PROVIDER_COLUMNS)[number]>

/** The same columns as JSON, with sealed secrets, for statements that join a provider. */
export const providerJson = (alias: string): SQL =>
  sql.raw(`json_build_object(${PROVIDER_COLUMNS.map(member => `'${member}', ${alias}.${member}`).join(', ')})`)

// ---- authorization URL

export const createFlowSecrets = () => ({
  state: oauth.generateRandomState(),
  verifier: oauth.generateRandomCodeVerifier(),
})
export type FlowSecrets = ReturnType<typeof createFlowSecrets>

/** Keeps the query parameters of the provider's own `auth_url`. */
export async function authorizationUrl(provider: Provider, secrets: FlowSecrets, scopes: string[]): Promise<string> {
  const url = new URL(provider.auth_url)
  const isSlack = provider.provider_type === 'slack'
  const scope = scopes.join(isSlack ? ',' : ' ')
  // Servers issue a refresh token after explicit consent. Microsoft does so anyway, and would prompt every time.
  const needsConsent = scopes.includes('offline_access') && provider.provider_type !== 'microsoft'
  const parameters = {
    response_type: 'code',
    client_id: provider.client_id,
    redirect_uri: provider.redirect_uri,
    state: secrets.state,
    // Slack's `scope` is for its bot; `user_scope` is for the person.
    ...(scope && { [isSlack ? 'user_scope' : 'scope']: scope }),
    ...(provider.uses_pkce && {
      code_challenge: await oauth.calculatePKCECodeChallenge(secrets.verifier),
      code_challenge_method: 'S256',
    }),
    ...(provider.resource !== null && { resource: provider.resource }),
    ...(needsConsent && { prompt: 'consent' }),
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  return url.href
}

// ---- tokens

export type Tokens = {
  access_token: string
  refresh_token: string | null
  /** Seconds; null if the token does not expire. */
  expires_in: number | null
  /** Null if the server names none, which means the requested ones (RFC 6749). */
  scopes: string[] | null
}

export const exchangeCode = (
  http: GuardedClient,
  provider: Provider,
  code: string,
  verifier: string,
): Promise<Tokens> =>
  requestTokens(http, provider, 'authorization_code', {
    code,
    redirect_uri: provider.redirect_uri,
    ...(provider.uses_pkce && { code_verifier: verifier }),
  })

export const requestRefresh = (http: GuardedClient, provider: Provider, refresh_token: string): Promise<Tokens> =>
  requestTokens(http, provider, 'refresh_token', { refresh_token })

async function requestTokens(
  http: GuardedClient,
  provider: Provider,
  grantType: string,
  parameters: Record<string, string>,
): Promise<Tokens> {
  const resource: Record<string, string> = provider.resource === null ? {} : { resource: provider.resource }
  const all = { ...parameters, ...resource }
  http.stage('token')
  const { server, client, authentication, options } = prepareOAuthRequest(http, provider, provider.token_url)
  const response = await oauth.genericTokenEndpointRequest(server, client, authentication, grantType, all, options)
  return readTokens(response, provider.token_url)
}

/** Best effort (RFC 7009): a server without a revocation endpoint keeps its tokens until they expire. */
export async function revokeTokens(
  http: GuardedClient,
  provider: Provider,
  token: { access_token: string; refresh_token: string | null },
): Promise<'revoked' | 'unsupported' | 'failed'> {
  if (provider.revocation_url === null) return 'unsupported'
  http.stage('revocation')
  // The refresh token first: most servers revoke the access token with it.
  const tokens = Object.entries({ refresh_token: token.refresh_token, access_token: token.access_token })
  try {
    const { server, client, authentication, options } = prepareOAuthRequest(http, provider, provider.revocation_url)
    for (const [token_type_hint, value] of tokens) {
      if (value === null) continue
      const hinted = { ...options, additionalParameters: { token_type_hint } }
      const response = await oauth.revocationRequest(server, client, authentication, value, hinted)
      await response.body?.cancel()
      if (!response.ok) return 'failed'
    }
    return 'revoked'
  } catch (error) {
    if (error instanceof Failure) return 'failed'
    throw error
  }
}

function prepareOAuthRequest(http: GuardedClient, provider: Provider, endpoint: string) {
  const server = {
    // The library requires an issuer, but does not use it here. A provider made by hand has none.
    issuer: provider.issuer ?? provider.token_url,
    token_endpoint: provider.token_url,
    ...(provider.revocation_url !== null && { revocation_endpoint: provider.revocation_url }),
  }
  // The guarded client decides which URLs are allowed.
  const options = { [oauth.customFetch]: http.fetch, [oauth.allowInsecureRequests]: true }
  const authentication = chooseClientAuth(provider, endpoint)
  return { server, client: { client_id: provider.client_id }, authentication, options }
}

function chooseClientAuth(provider: Provider, endpoint: string): oauth.ClientAuth {
  const { token_endpoint_auth_method: method, client_secret: secret } = provider
  if (secret === null || method === 'none') return oauth.None()
  if (!isSecretFor(provider, endpoint))
    throw fail('secret_required', { about: `client_secret for ${new URL(endpoint).host}` })
  return method === 'client_secret_basic' ? basicAuth(secret) : oauth.ClientSecretPost(secret)
}

/** The library also encodes `-`, `_` and `.`, which servers that do not decode the client id then refuse. */
const basicAuth =
  (secret: string): oauth.ClientAuth =>
  (_server, client, _body, headers) => {
    const credentials = [client.client_id, secret].map(encodeURIComponent).join(':')
    headers.set('Authorization', `Basic ${btoa(credentials)}`)
  }

/** A client secret is sent only to the origins it was given for, even after the endpoints of the provider changed. */
export const isSecretFor = ({ client_secret_urls }: Pick<Provider, 'client_secret_urls'>, endpoint: string) =>
  client_secret_urls.some(url => isSameOrigin(url, endpoint))

export const isSameOrigin = (a: string, b: string): boolean => new URL(a).origin === new URL(b).origin

// ---- token response

const TokenText = boundedText(32 * 1024).regex(/^[\x21-\x7e]+$/)
const GrantedTokens = z.looseObject({
  access_token: TokenText,
  refresh_token: TokenText.nullish(),
  scope: z.string().nullish(),
})
const TokenResponse = GrantedTokens.extend({ token_type: z.string().nullish(), expires_in: z.unknown().optional() })
/** Slack nests the token of the person; a token at the top level is the bot's. */
const SlackTokenResponse = z.looseObject({ authed_user: TokenResponse }).transform(({ authed_user }) => authed_user)

/** The standard code, and the codes of servers that use their own. */
const INVALID_GRANT_ERRORS = new Set([
  'invalid_grant',
  'invalid_code',
  'bad_verification_code',
  'invalid_refresh_token',
  'bad_refresh_token',
  'expired',
  'expired_token',
  'token_expired',
  'revoked',
  'revoked_token',
  'token_revoked',
])
/** Only standard codes are quoted in error details: any other text of a server is untrusted. */
const STANDARD_ERRORS =
  /^(invalid_(client|request|scope|target)|(unauthorized|unsupported)_(client|grant_type)|access_denied|server_error)$/
const TOKEN_TYPES = /^(bearer|bot|user)$/i
const [HOUR_S, TEN_YEARS_S] = [3600, 315_360_000]
const SCOPE_PATTERN = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/

async function readTokens(response: Response, token_url: string): Promise<Tokens> {
  const { host } = new URL(token_url)
  const body = await readJsonOrNull(response)
  const error = z.looseObject({ error: boundedText(1000) }).safeParse(body).data?.error
  if (error !== undefined && INVALID_GRANT_ERRORS.has(error) && response.status < 500) throw fail('grant_refused')
  const about = `${host} answered the token request with ${response.status}`
  if (response.status === 429 || response.status >= 500 || (response.status >= 300 && response.status < 400)) {
    throw fail('upstream_error', { about })
  }
  if (!response.ok || error !== undefined) {
    throw fail('client_refused', { about: error && STANDARD_ERRORS.test(error) ? `${about} ${error}` : about })
  }
  const parsed = SlackTokenResponse.or(TokenResponse).safeParse(body)
  if (!parsed.success || !TOKEN_TYPES.test(parsed.data.token_type ?? 'bearer')) {
    throw fail('token_answer_invalid', { about: `the response of ${host} to the token request` })
  }
  const { access_token, refresh_token = null, scope, expires_in } = parsed.data
  const seconds = Math.min(Math.floor(Number.parseFloat(String(expires_in))), TEN_YEARS_S)
  // A token that can be refreshed and has no expiry is refreshed after an hour.
  const fallback = refresh_token === null ? null : HOUR_S
  const scopes = scope
    ?.split(/[\s,]+/)
    .filter(name => SCOPE_PATTERN.test(name))
    .slice(0, 100)
  return { access_token, refresh_token, expires_in: seconds > 0 ? seconds : fallback, scopes: scopes ?? null }
}

/** Null if the body is not JSON. A refusal by the guarded client while reading is thrown. */
const readJsonOrNull = (response: Response): Promise<unknown> =>
  response.json().catch((error: unknown) => {
    if (error instanceof Failure) throw error
    return null
  })
