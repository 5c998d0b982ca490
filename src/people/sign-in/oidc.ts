// Signing in at the operator's identity provider: OpenID Connect, authorization code flow with PKCE, state and nonce.
import { sql } from 'drizzle-orm'
import * as oauth from 'oauth4webapi'
import * as z from 'zod'
import type { Config, OidcSettings } from '../../env.ts'
import { newSessionToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import type { HostServices } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { Email } from '../access/schema.ts'
import type { Visit } from './visit.ts'

/** The redirect URI that the operator registers is this path. */
export const CALLBACK_PATH = '/sign-in/oidc/callback'
export const FLOW_SECONDS = 600

const Flow = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  until: z.number(),
})
type Flow = z.output<typeof Flow>

const requireOidc = ({ oidc }: Config): OidcSettings => {
  if (!oidc) throw fail('route_not_found')
  return oidc
}

/** Discovery, tokens, keys and claims of one sign-in share the limits of one guarded client. */
async function openProvider(services: HostServices, origin: string) {
  const { issuer, clientId, clientSecret } = requireOidc(services.config)
  const http = createGuardedClient(services, origin)
  http.stage('OpenID Connect discovery')
  // The guarded client decides which URLs are allowed.
  const customFetch = (address: string, init: object) => http.fetch(address, init)
  const options = { [oauth.customFetch]: customFetch, [oauth.allowInsecureRequests]: true }
  const url = new URL(issuer)
  const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, options))
  const client: oauth.Client = { client_id: clientId }
  const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  const authentication = methods.includes('client_secret_basic')
    ? oauth.ClientSecretBasic(clientSecret)
    : oauth.ClientSecretPost(clientSecret)
  return { http, options, server, client, authentication, redirectUri: origin + CALLBACK_PATH }
}

/** Errors of the library quote the provider's answer, so they go to the log only. */
async function asFailure<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof Failure ? error : fail('sign_in_refused', { cause: error })
  }
}

/** The URL to send the browser to, and the sealed flow to keep in a cookie meanwhile. */
export async function beginSignIn({ config, platform, sealer }: Services, origin: string) {
  const { scopes } = requireOidc(config)
  const { server, client, redirectUri } = await asFailure(() => openProvider({ config, platform }, origin))
  if (!server.authorization_endpoint) throw fail('sign_in_refused', { cause: new Error('no authorization endpoint') })
  const flow: Flow = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    until: platform.clock.now() + FLOW_SECONDS * 1000,
  }
  const url = new URL(server.authorization_endpoint)
  const parameters = {
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: redirectUri,
    scope: scopes,
    state: flow.state,
    nonce: flow.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(flow.verifier),
    code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  return { url: url.href, sealed: await sealer.seal(JSON.stringify(flow), 'sign-in', 'oidc') }
}

async function openFlow({ platform, sealer }: Services, sealed: string | undefined): Promise<Flow> {
  if (!sealed) throw fail('sign_in_expired')
  const text = await sealer.open(sealed, 'sign-in', 'oidc').catch(() => {
    throw fail('sign_in_expired')
  })
  const flow = Flow.parse(JSON.parse(text))
  if (flow.until <= platform.clock.now()) throw fail('sign_in_expired')
  return flow
}

const Claims = z.looseObject({
  sub: z.string().min(1).max(255),
  email: z.unknown().optional(),
  email_verified: z.unknown().optional(),
  name: z.string().optional().catch(undefined),
})

async function readClaims(services: HostServices, origin: string, url: URL, flow: Flow) {
  const { http, options, server, client, authentication, redirectUri } = await openProvider(services, origin)
  http.stage('token')
  const parameters = oauth.validateAuthResponse(server, client, url, flow.state)
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    authentication,
    parameters,
    redirectUri,
    flow.verifier,
    options,
  )
  const checks = { expectedNonce: flow.nonce, requireIdToken: true }
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, checks)
  http.stage('keys')
  await oauth.validateApplicationLevelSignature(server, response, options)
  const claims = oauth.getValidatedIdTokenClaims(tokens)!
  if (claims.email !== undefined || !server.userinfo_endpoint) return Claims.parse(claims)
  // Many providers put the address only there.
  http.stage('user info')
  const answer = await oauth.userInfoRequest(server, client, tokens.access_token, options)
  const userInfo = await oauth.processUserInfoResponse(server, client, claims.sub, answer)
  return Claims.parse({ ...userInfo, ...claims })
}

/** Two phases: the provider vouches for the person, then one round trip binds the identity and opens the session. */
export async function completeSignIn(
  services: Services,
  { requestId, request }: Visit,
  origin: string,
  url: URL,
  sealed: string | undefined,
) {
  const { config, platform, database } = services
  const { issuer, domains, groupRoles, groupsClaim } = requireOidc(config)
  const flow = await openFlow(services, sealed)
  const claims = await asFailure(() => readClaims({ config, platform }, origin, url, flow))
  const email = Email.safeParse(claims.email).data ?? null
  const isVerified = claims.email_verified === true && email !== null
  const join = domains.find(([domain]) => email?.split('@')[1] === domain)?.[1] ?? null
  const groups = z.array(z.string()).safeParse(claims[groupsClaim]).data ?? []
  const roles = groupRoles.filter(([group]) => groups.includes(group)).map(([, role]) => role)
  const token = newSessionToken()
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      select sign_in_by_identity(
        ${issuer}, ${claims.sub}, ${email}, ${isVerified}, ${claims.name?.trim().slice(0, 128) || null},
        ${join}::uuid, ${uuidArray(roles)}, ${sha256Hex(token)}, ${config.eventsPerDay || null}::bigint
      )`,
  )) as [unknown, Row[]]
  const { refusal } = JSON.parse(row![0] as string) as { refusal?: 'identity_unknown' | 'email_unverified' }
  if (refusal) throw fail(refusal)
  return token
}
