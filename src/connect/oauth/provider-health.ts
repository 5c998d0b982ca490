// The health of a provider: queries its servers again, without registering a client or sending a secret.
import { Failure } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { isSameOrigin, isSecretFor } from './authorization.ts'
import type { Warning } from './discovery-warning.ts'
import { type DiscoveredServer, type DiscoveryOptions, discoverServer } from './mcp-discovery.ts'
import type { OAuthProviderDetails } from './schema.ts'
import type { oauthProviders } from './tables.ts'

type Health = OAuthProviderDetails['health']
export type HealthFinding = {
  health: Health
  health_detail: string | null
  warnings: Warning[]
  /** Null if the authorization server is not the one that the client belongs to, or is unreachable. */
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
  http: GuardedClient,
  row: CheckedProvider,
  options: DiscoveryOptions,
  now: number,
): Promise<HealthFinding> {
  try {
    if (row.mcp_server_url === null) {
      await checkEndpoints(http, row)
      return { ...clientHealth(row, now), warnings: [], discovered: null }
    }
    return compareServer(row, await discoverServer(http, new URL(row.mcp_server_url), options), now)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const { code, extra } = error
    const health = code === 'upstream_error' || code === 'upstream_timeout' ? 'unreachable' : 'degraded'
    return { health, health_detail: [code, extra.about].filter(Boolean).join(': '), warnings: [], discovered: null }
  }
}

/** A provider made by hand has no metadata: only checks that its endpoints respond. */
async function checkEndpoints(http: GuardedClient, { auth_url, token_url }: CheckedProvider): Promise<void> {
  http.stage('authorization endpoint')
  await requireResponse(http, auth_url)
  http.stage('token endpoint')
  await requireResponse(http, token_url)
}

/** An endpoint that does not support HEAD is healthy. */
async function requireResponse(http: GuardedClient, url: string): Promise<void> {
  const response = await http.fetch(url, { method: 'HEAD' })
  await response.body?.cancel()
  const { status } = response
  if (status >= 500 && status !== 501)
    throw new Failure('upstream_error', { about: `${new URL(url).host}: it answered ${status}` })
}

function compareServer(row: CheckedProvider, discovered: DiscoveredServer, now: number): HealthFinding {
  const { warnings, issuer } = discovered
  if (issuer === row.issuer) {
    const mismatch = findMismatch(row, discovered)
    const state = mismatch ? { health: 'degraded' as const, health_detail: mismatch } : clientHealth(row, now)
    const health_detail = [explainMove(row, discovered), state.health_detail].filter(Boolean).join(' ')
    return { ...state, health_detail: health_detail || null, warnings, discovered }
  }
  // A failed server was skipped for the next in the list. It may recover, so this is not a change.
  const skipped = warnings.find(({ code }) => code === 'server_skipped')
  return {
    health: skipped ? 'degraded' : 'as_changed',
    health_detail:
      skipped?.detail ??
      `The MCP server has another authorization server now: ${issuer ?? 'without an issuer'}. Create a new provider.`,
    warnings,
    discovered: null,
  }
}

type Endpoints = Pick<DiscoveredServer, 'auth_url' | 'token_url' | 'revocation_url' | 'resource'>

/** Connections survive if each endpoint keeps its origin, for the same resource. */
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

/** A client can authenticate if it has no secret, or one for this origin. */
export const isClientUsable = (
  row: Pick<CheckedProvider, 'client_secret' | 'client_secret_urls'>,
  { token_url }: DiscoveredServer,
): boolean => row.client_secret === null || isSecretFor(row, token_url)

function findMismatch(row: CheckedProvider, discovered: DiscoveredServer): string | null {
  const { registration, token_endpoint_auth_method: method } = row
  const { auth_methods, supports_metadata_document } = discovered
  if (!isClientUsable(row, discovered))
    return registration === 'dynamic'
      ? 'The client secret is not sent to the new endpoints. The scheduled check registers another client.'
      : 'The client secret is not sent to the new endpoints. Send `client_secret` again.'
  if (registration === 'metadata_document' && !supports_metadata_document)
    return 'The authorization server no longer accepts client-ID metadata documents.'
  // A method may work for a given client without being listed. A metadata document client uses none.
  if (registration === 'dynamic' && auth_methods.length > 0 && !auth_methods.includes(method))
    return `The authorization server no longer lists ${method}, the authentication method of the client.`
  return null
}

function clientHealth(
  { client_secret_expires_at: expiresAt }: CheckedProvider,
  now: number,
): Pick<HealthFinding, 'health' | 'health_detail'> {
  return expiresAt !== null && Date.parse(expiresAt) <= now
    ? { health: 'client_expired', health_detail: `The client secret expired at ${new Date(expiresAt).toISOString()}.` }
    : { health: 'healthy', health_detail: null }
}
