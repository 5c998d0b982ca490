// How a provider's servers are: found out by asking them again, registering nothing and showing them no secret.
import { Failure } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import type { oauthProviders } from '../tables/oauth.ts'
import { isSameOrigin, isSecretFor } from './authorization.ts'
import { type DiscoveredServer, type DiscoveryOptions, discoverServer, type Warning } from './mcp-discovery.ts'
import type { OAuthProviderDetails } from './schema.ts'

export type Health = OAuthProviderDetails['health']
export type HealthFinding = {
  health: Health
  health_detail: string | null
  warnings: Warning[]
  /** What the servers say, where they are still those that the client belongs to. */
  discovered: DiscoveredServer | null
}
type CheckedProvider = Pick<
  typeof oauthProviders.$inferSelect,
  | 'mcp_server_url'
  | 'auth_url'
  | 'token_url'
  | 'revocation_url'
  | 'resource'
  | 'client_secret'
  | 'client_secret_urls'
  | 'issuer'
  | 'registration'
  | 'token_endpoint_auth_method'
  | 'client_secret_expires_at'
>

export async function checkHealth(
  way: GuardedClient,
  row: CheckedProvider,
  options: DiscoveryOptions,
  now: number,
): Promise<HealthFinding> {
  try {
    if (row.mcp_server_url === null) {
      await checkEndpoints(way, row)
      return { ...clientHealth(row, now), warnings: [], discovered: null }
    }
    return compareServer(row, await discoverServer(way, new URL(row.mcp_server_url), options), now)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const { code, extra } = error
    const health = code === 'upstream_error' || code === 'upstream_timeout' ? 'unreachable' : 'degraded'
    return { health, health_detail: [code, extra.about].filter(Boolean).join(': '), warnings: [], discovered: null }
  }
}

/** Of a provider by hand no more is known than its endpoints: whether someone answers there. */
async function checkEndpoints(way: GuardedClient, { auth_url, token_url }: CheckedProvider): Promise<void> {
  way.stage('authorization endpoint')
  await requireAnswer(way, auth_url)
  way.stage('token endpoint')
  await requireAnswer(way, token_url)
}

/** Not being made for HEAD is an answer too. */
async function requireAnswer(way: GuardedClient, url: string): Promise<void> {
  const response = await way.fetch(url, { method: 'HEAD' })
  await response.body?.cancel()
  const { status } = response
  if (status >= 500 && status !== 501)
    throw new Failure('upstream_error', { about: `${new URL(url).host}: it answered ${status}` })
}

function compareServer(row: CheckedProvider, discovered: DiscoveredServer, now: number): HealthFinding {
  const { warnings, issuer } = discovered
  if (issuer === row.issuer) {
    const ill = findMismatch(row, discovered)
    const found = ill ? { health: 'degraded' as const, health_detail: ill } : clientHealth(row, now)
    const health_detail = [explainMove(row, discovered), found.health_detail].filter(Boolean).join(' ')
    return { ...found, health_detail: health_detail || null, warnings, discovered }
  }
  // Another server that is listed stood in for one that may come back.
  const skipped = warnings.find(({ code }) => code === 'server_skipped')
  return {
    health: skipped ? 'degraded' : 'as_changed',
    health_detail:
      skipped?.detail ?? `The authorization server is ${issuer ?? 'without a name'} now; make the provider anew.`,
    warnings,
    discovered: null,
  }
}

type Endpoints = Pick<DiscoveredServer, 'auth_url' | 'token_url' | 'revocation_url' | 'resource'>

/** Whether what was granted may follow the endpoints: each stays at its origin, for the same resource. */
export function keepsOrigins(row: Endpoints, { auth_url, token_url, revocation_url, resource }: Endpoints): boolean {
  const revokedAt = row.revocation_url ?? row.token_url
  return (
    resource === row.resource &&
    isSameOrigin(auth_url, row.auth_url) &&
    isSameOrigin(token_url, row.token_url) &&
    (revocation_url === null || isSameOrigin(revocation_url, revokedAt))
  )
}

export const explainMove = (row: Endpoints, discovered: DiscoveredServer): string | null =>
  keepsOrigins(row, discovered)
    ? null
    : 'The authorization server moved its endpoints to another origin or resource. People need to connect again.'

/** Whether the client can prove itself there: it has no secret, or one that was given for that origin. */
export const isClientUsable = (
  row: Pick<CheckedProvider, 'client_secret' | 'client_secret_urls'>,
  { token_url }: DiscoveredServer,
): boolean => row.client_secret === null || isSecretFor(row, token_url)

function findMismatch(row: CheckedProvider, discovered: DiscoveredServer): string | null {
  const { registration, token_endpoint_auth_method: method } = row
  const { auth_methods, supports_metadata_document } = discovered
  if (!isClientUsable(row, discovered))
    return registration === 'dynamic'
      ? 'The client’s secret is not sent to the new endpoints. The scheduled check registers another client.'
      : 'The client’s secret is not sent to the new endpoints. Send `client_secret` again.'
  if (registration === 'metadata_document' && !supports_metadata_document)
    return 'The authorization server takes client-ID metadata documents no longer.'
  // A client by document needs none, and what is not listed may still be right for one that was given.
  if (registration === 'dynamic' && auth_methods.length > 0 && !auth_methods.includes(method))
    return `The authorization server does not list ${method} any more, by which the client proves itself.`
  return null
}

function clientHealth(
  { client_secret_expires_at: until }: CheckedProvider,
  now: number,
): Pick<HealthFinding, 'health' | 'health_detail'> {
  return until !== null && Date.parse(until) <= now
    ? { health: 'client_expired', health_detail: `The client's secret ran out at ${new Date(until).toISOString()}.` }
    : { health: 'healthy', health_detail: null }
}
