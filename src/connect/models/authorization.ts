// Authorizes calls of models: by the provider's key, by a token that we sign, or by one that we fetch.
import * as oauth from 'oauth4webapi'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import type { AskedCall } from './asked-call.ts'
import { MODEL_SECRET_PLACE } from './configurations.ts'
import { signModelCall } from './model-jwt.ts'
import type { CalledConfiguration, OpenedCall } from './open-call.ts'
import { createTokenClient } from './upstream.ts'

/** `secrets` must not appear in anything that we show or store. */
export type Authorization = { headers: Record<string, string>; secrets: string[] }

/** Only a token of ours describes the request, so `readAsked` is not called for the others. */
export async function authorizeCall(
  ctx: Ctx,
  call: OpenedCall,
  readAsked: () => Promise<AskedCall>,
): Promise<Authorization> {
  const { configuration } = call
  switch (configuration.auth_type) {
    case 'none':
      return { headers: {}, secrets: [] }
    case 'secret': {
      const secret = await openSecret(ctx, configuration)
      const isAnthropic = configuration.provider === 'anthropic'
      return {
        headers: isAnthropic ? { 'x-api-key': secret } : { Authorization: `Bearer ${secret}` },
        secrets: [secret],
      }
    }
    case 'jwt': {
      const token = await signToken(ctx, call, await readAsked())
      return { headers: { [ctx.config.modelProxyHeader]: token }, secrets: [token] }
    }
    case 'oauth_client_credentials': {
      const secret = await openSecret(ctx, configuration)
      const token = await getAccessToken(ctx, call, secret)
      return { headers: { Authorization: `Bearer ${token}` }, secrets: [token, secret] }
    }
  }
}

const openSecret = ({ sealer }: Ctx, { id, secret }: CalledConfiguration): Promise<string> =>
  sealer.open(secret!, id, MODEL_SECRET_PLACE)

const signToken = (ctx: Ctx, call: OpenedCall, { model, streaming, digest }: AskedCall): Promise<string> =>
  signModelCall(ctx, {
    issuer: ctx.config.modelProxyIssuer ?? ctx.origin,
    audience: call.audience ?? new URL(call.configuration.base_url).origin,
    actor: call.actor,
    organization: call.organization,
    workspace: call.workspace,
    request_id: ctx.requestId,
    provider: call.configuration.provider,
    model,
    streaming,
    body_sha256: digest,
  })

// ---- client credentials (RFC 6749, section 4.4)

const MAX_TOKENS = 1000
/** A token is not used in its last minute. One whose life the server does not say is used for five. */
const [MARGIN_S, DEFAULT_LIFE_S, MAX_LIFE_S] = [60, 300, 24 * 3600]
/** Anything else fails as a header, with an error that repeats it. */
const ACCESS_TOKEN = /^[!-~]{1,8192}$/
const accessTokens = createExpiringMap<string>(MAX_TOKENS, Date.now)

/** A change of the configuration changes the key, and so does another workspace. */
const tokenKey = ({ id, token_url, client_id, scope, audience, secret }: CalledConfiguration): string =>
  sha256Hex(JSON.stringify([id, token_url, client_id, scope, audience, secret]))

/** Called after an answer of 401, so that the next call fetches another one. */
export function forgetAccessToken(configuration: CalledConfiguration): void {
  if (configuration.auth_type === 'oauth_client_credentials') accessTokens.delete(tokenKey(configuration))
}

async function getAccessToken(ctx: Ctx, { configuration, organization }: OpenedCall, secret: string): Promise<string> {
  const key = tokenKey(configuration)
  const known = accessTokens.get(key)
  if (known !== undefined) return known
  const { access_token, expires_in = DEFAULT_LIFE_S } = await fetchAccessToken(ctx, configuration, secret)
  if (!ACCESS_TOKEN.test(access_token))
    throw fail('upstream_error', { about: `token: ${new URL(configuration.token_url!).host}: its token is no token` })
  const seconds = Math.min(expires_in, MAX_LIFE_S) - MARGIN_S
  return seconds > 0 ? accessTokens.set(key, access_token, seconds * 1000, organization.id) : access_token
}

async function fetchAccessToken(
  ctx: Ctx,
  { token_url, client_id, scope, audience }: CalledConfiguration,
  secret: string,
): Promise<oauth.TokenEndpointResponse> {
  const http = createTokenClient(ctx)
  http.stage('token')
  const server = { issuer: new URL(token_url!).origin, token_endpoint: token_url! }
  const client = { client_id: client_id! }
  const parameters = { ...(scope && { scope }), ...(audience && { audience }) }
  // The guard has judged the address, and plain http with it.
  const options = { [oauth.customFetch]: http.fetch as never, [oauth.allowInsecureRequests]: true }
  const request = async (authentication: oauth.ClientAuth) =>
    oauth.processClientCredentialsResponse(
      server,
      client,
      await oauth.clientCredentialsGrantRequest(server, client, authentication, parameters, options),
    )
  try {
    // Every server has to support Basic for clients with a password, but some take the one way of a client alone.
    return await request(oauth.ClientSecretBasic(secret)).catch(error => {
      if (refusalOf(error) !== 'invalid_client') throw error
      return request(oauth.ClientSecretPost(secret))
    })
  } catch (error) {
    if (error instanceof Failure) throw error
    const refusal = refusalOf(error)
    const reason = refusal === undefined ? 'its answer has no token' : `it answered \`${refusal}\``
    throw fail('upstream_error', { about: `token: ${new URL(token_url!).host}: ${reason}`, cause: error })
  }
}

/** The error of the server, which names no secret. */
function refusalOf(error: unknown): string | undefined {
  if (error instanceof oauth.WWWAuthenticateChallengeError) return 'invalid_client'
  if (!(error instanceof oauth.ResponseBodyError)) return undefined
  return /^[a-z_]{1,50}$/.test(error.error) ? error.error : 'an unknown error'
}
