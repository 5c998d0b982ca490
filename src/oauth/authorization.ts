// What is said to an authorization server: where a person is sent, and how codes and refresh tokens become tokens, and end.
import { type SQL, sql } from 'drizzle-orm'
import * as oauth from 'oauth4webapi'
import * as z from 'zod'
import { Failure, fail } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { boundedText } from '../protocol/wire.ts'
import type { oauthProviders } from '../tables/oauth.ts'

const PROVIDER_COLUMNS = [
  ...(['id', 'provider_id', 'name', 'provider_type', 'client_id', 'client_secret'] as const),
  ...(['token_endpoint_auth_method', 'registration_access_token', 'auth_url', 'token_url', 'revocation_url'] as const),
  ...(['redirect_uri', 'issuer', 'issuer_in_answers', 'resource', 'uses_pkce', 'client_secret_urls'] as const),
]
/** What of a provider's row is needed, its secrets opened. */
export type Provider = Pick<typeof oauthProviders.$inferSelect, (typeof PROVIDER_COLUMNS)[number]>

/** The same as JSON, their secrets sealed, for statements that read a provider along with something else. */
export const providerJson = (alias: string): SQL =>
  sql.raw(`json_build_object(${PROVIDER_COLUMNS.map(member => `'${member}', ${alias}.${member}`).join(', ')})`)

// ---- the person's way

export const createFlowSecrets = () => ({
  state: oauth.generateRandomState(),
  verifier: oauth.generateRandomCodeVerifier(),
})
export type FlowSecrets = ReturnType<typeof createFlowSecrets>

/** Where the person is sent. Whatever the provider's own address asks for stays. */
export async function authorizationUrl(provider: Provider, secrets: FlowSecrets, scopes: string[]): Promise<string> {
  const url = new URL(provider.auth_url)
  const slack = provider.provider_type === 'slack'
  const scope = scopes.join(slack ? ',' : ' ')
  // Everywhere but at Microsoft, where it is asked again and again, consent is what earns a refresh token.
  const consent = scopes.includes('offline_access') && provider.provider_type !== 'microsoft'
  const parameters = {
    response_type: 'code',
    client_id: provider.client_id,
    redirect_uri: provider.redirect_uri,
    state: secrets.state,
    // At Slack `scope` is what its bot may do; a connection is a person's.
    ...(scope && { [slack ? 'user_scope' : 'scope']: scope }),
    ...(provider.uses_pkce && {
      code_challenge: await oauth.calculatePKCECodeChallenge(secrets.verifier),
      code_challenge_method: 'S256',
    }),
    ...(provider.resource !== null && { resource: provider.resource }),
    ...(consent && { prompt: 'consent' }),
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  return url.href
}

// ---- tokens

export type Tokens = {
  access_token: string
  refresh_token: string | null
  /** Seconds from now; null where it does not end by itself. */
  expires_in: number | null
  /** Null where the server does not say, which means: those that were asked for. */
  scopes: string[] | null
}

export const exchangeCode = (
  outside: GuardedClient,
  provider: Provider,
  code: string,
  verifier: string,
): Promise<Tokens> =>
  requestTokens(outside, provider, 'authorization_code', {
    code,
    redirect_uri: provider.redirect_uri,
    ...(provider.uses_pkce && { code_verifier: verifier }),
  })

export const requestRefresh = (outside: GuardedClient, provider: Provider, refresh_token: string): Promise<Tokens> =>
  requestTokens(outside, provider, 'refresh_token', { refresh_token })

async function requestTokens(
  outside: GuardedClient,
  provider: Provider,
  kind: string,
  parameters: Record<string, string>,
): Promise<Tokens> {
  const resource: Record<string, string> = provider.resource === null ? {} : { resource: provider.resource }
  const all = { ...parameters, ...resource }
  outside.stage('token')
  const { server, client, authentication, options } = prepareOAuthRequest(outside, provider, provider.token_url)
  const response = await oauth.genericTokenEndpointRequest(server, client, authentication, kind, all, options)
  return readTokens(response, provider.token_url)
}

/** RFC 7009, as well as it goes. A server that has no way to revoke keeps its tokens until they end. */
export async function revokeTokens(
  outside: GuardedClient,
  provider: Provider,
  token: { access_token: string; refresh_token: string | null },
): Promise<'revoked' | 'unsupported' | 'failed'> {
  if (provider.revocation_url === null) return 'unsupported'
  outside.stage('revocation')
  // The refresh token first: most servers end the other one with it.
  const both = Object.entries({ refresh_token: token.refresh_token, access_token: token.access_token })
  try {
    const { server, client, authentication, options } = prepareOAuthRequest(outside, provider, provider.revocation_url)
    for (const [token_type_hint, value] of both) {
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

function prepareOAuthRequest(outside: GuardedClient, provider: Provider, endpoint: string) {
  const server = {
    // Whoever was made by hand has none, and nothing here looks at it.
    issuer: provider.issuer ?? provider.token_url,
    token_endpoint: provider.token_url,
    ...(provider.revocation_url !== null && { revocation_endpoint: provider.revocation_url }),
  }
  // Which addresses may be asked is the guard's to say.
  const options = { [oauth.customFetch]: outside.fetch, [oauth.allowInsecureRequests]: true }
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

/** The library's own encodes `-`, `_` and `.` too, which is allowed; servers that forget to decode then know nobody of that name. */
const basicAuth =
  (secret: string): oauth.ClientAuth =>
  (_server, client, _body, headers) => {
    const credentials = [client.client_id, secret].map(encodeURIComponent).join(':')
    headers.set('Authorization', `Basic ${btoa(credentials)}`)
  }

/**
 * A client's secret goes to the origins it was given for and to no other, whichever endpoints the provider has by
 * now.
 */
export const isSecretFor = ({ client_secret_urls: given }: Pick<Provider, 'client_secret_urls'>, endpoint: string) =>
  given.some(url => isSameOrigin(url, endpoint))

export const isSameOrigin = (one: string, other: string): boolean => new URL(one).origin === new URL(other).origin

// ---- what comes back

/** What may stand in a header, so that whoever is handed it can send it. */
const TokenText = boundedText(32 * 1024).regex(/^[\x21-\x7e]+$/)
const GrantedTokens = z.looseObject({
  access_token: TokenText,
  refresh_token: TokenText.nullish(),
  scope: z.string().nullish(),
})
const TokenResponse = GrantedTokens.extend({ token_type: z.string().nullish(), expires_in: z.unknown().optional() })
/** Slack hands a person's token inside, and beside it the bot's, if there is one. */
const SlackTokenResponse = z.looseObject({ authed_user: TokenResponse }).transform(({ authed_user }) => authed_user)

/** By the specification, and by those who have words of their own. */
const INVALID_GRANT_ERRORS =
  /^(invalid_grant|bad_(refresh_token|verification_code)|invalid_(refresh_token|code)|(token_)?(expired|revoked)(_token)?)$/
/** Words of the specification may be repeated; whatever else a server says may be anything. */
const STANDARD_ERRORS =
  /^(invalid_(client|request|scope|target)|(unauthorized|unsupported)_(client|grant_type)|access_denied|server_error)$/
const TOKEN_TYPES = /^(bearer|bot|user)$/i
const [HOUR_S, TEN_YEARS_S] = [3600, 315_360_000]
const SCOPE_PATTERN = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/

async function readTokens(response: Response, token_url: string): Promise<Tokens> {
  const { host } = new URL(token_url)
  const body = await readJsonOrNull(response)
  const error = z.looseObject({ error: boundedText(1000) }).safeParse(body).data?.error
  if (error !== undefined && INVALID_GRANT_ERRORS.test(error) && response.status < 500) throw fail('grant_refused')
  const about = `the token request to ${host} was answered ${response.status}`
  if (response.status === 429 || response.status >= 500 || (response.status >= 300 && response.status < 400)) {
    throw fail('upstream_error', { about })
  }
  if (!response.ok || error !== undefined) {
    throw fail('client_refused', { about: error && STANDARD_ERRORS.test(error) ? `${about} ${error}` : about })
  }
  const answer = SlackTokenResponse.or(TokenResponse).safeParse(body)
  if (!answer.success || !TOKEN_TYPES.test(answer.data.token_type ?? 'bearer')) {
    throw fail('token_answer_invalid', { about: `the token request to ${host}` })
  }
  const { access_token, refresh_token = null, scope, expires_in } = answer.data
  const seconds = Math.min(Math.floor(Number.parseFloat(String(expires_in))), TEN_YEARS_S)
  // A server that does not say when, but can refresh, is asked again after an hour.
  const unsaid = refresh_token === null ? null : HOUR_S
  const scopes = scope
    ?.split(/[\s,]+/)
    .filter(one => SCOPE_PATTERN.test(one))
    .slice(0, 100)
  return { access_token, refresh_token, expires_in: seconds > 0 ? seconds : unsaid, scopes: scopes ?? null }
}

/** What is no JSON is nothing; what the guard refuses while it is read is refused. */
const readJsonOrNull = (response: Response): Promise<unknown> =>
  response.json().catch((error: unknown) => {
    if (error instanceof Failure) throw error
    return null
  })
