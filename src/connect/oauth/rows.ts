// Rows of providers: to the wire, their locks, and their sealed secrets.
import { getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { Sealer } from '../../kernel/crypto/crypto.ts'
import { inOrganization, textArray } from '../../kernel/db/db.ts'
import { recordColumns } from '../../kernel/db/recorded-changes.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import type { FetchRecord } from '../../kernel/http/guarded-fetch.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { OAuthFetch } from '../../protocol/wire.ts'
import type { Client } from './oauth-client.ts'
import type { OAuthProvider, OAuthProviderDetails } from './schema.ts'
import { oauthProviders } from './tables.ts'

const {
  client_secret: _1,
  registration_access_token: _2,
  client_secret_urls: _3,
  ...unsealedColumns
} = getTableColumns(oauthProviders)
type StoredProvider = typeof oauthProviders.$inferSelect
export type ProviderRow = Omit<StoredProvider, 'client_secret' | 'registration_access_token' | 'client_secret_urls'> & {
  client_secret_fingerprint: string | null
}

export const PROVIDER_RECORD = recordColumns(oauthProviders, [
  'provider_id',
  'name',
  'client_id',
  'client_secret_expires_at',
  'auth_url',
  'token_url',
  'revocation_url',
  'uses_pkce',
  'provider_type',
  'mcp_server_url',
  'token_endpoint_auth_method',
  'registration',
  'redirect_uri',
  'issuer',
  'resource',
  'scopes',
  'health',
  'health_detail',
  'owner',
])

/** Null for callers that may not change providers. */
const forAdministrators = (column: typeof oauthProviders.warnings | typeof oauthProviders.trace): SQL =>
  sql`case when 'deployments:update' = any(actor_permissions()) then ${column} end`.mapWith(column)

/** Computes `sealedFingerprint()` in SQL: no query for a reply reads a sealed secret. */
const CLIENT_SECRET_FINGERPRINT = sql<string | null>`
  coalesce(
    nullif(split_part(${oauthProviders.client_secret}, '.', 4), ''),
    left(encode(sha256(convert_to(${oauthProviders.client_secret}, 'UTF8')), 'hex'), 16)
  )`

export const wireColumns = {
  ...unsealedColumns,
  client_secret_fingerprint: CLIENT_SECRET_FINGERPRINT.as('client_secret_fingerprint'),
  warnings: forAdministrators(oauthProviders.warnings).as('warnings'),
  trace: forAdministrators(oauthProviders.trace).as('trace'),
}

export const isProvider = (provider_id: string | Placeholder): SQL =>
  sql`${oauthProviders.provider_id} = ${provider_id} and ${inOrganization(oauthProviders)}`

/**
 * Taken before a flow or token is written. Deleting a provider locks the provider before its flows and tokens, so the
 * reverse order would deadlock. A shared lock: writers do not wait for each other.
 */
export const lockProvider = (condition: SQL): SQL => sql`
  select p.id
  from oauth_providers p
  where ${condition}
  for key share`

/**
 * Locks for a change or a deletion, and refuses a caller without the permission: all workspaces of the organization
 * send codes, tokens and secrets to the endpoints of a provider.
 */
export const lockProviderToChange = (provider_id: string): SQL => sql`select lock_provider_to_change(${provider_id})`

/**
 * The event data for a change of a provider. Evaluating it ends the connections and flows with another binding, in
 * every workspace; those with `keptBinding` get the current binding instead.
 */
export const withEndedConnections = (data: Record<string, unknown>, keptBinding: string | null = null): SQL => sql`(
  ${JSON.stringify(data)}::jsonb
  || jsonb_build_object('connections_ended', revoke_outdated_grants(changed.id, ${keptBinding}))
)::json`

export const toWire = (row: ProviderRow): OAuthProvider => ({
  id: row.id,
  organization_id: row.organization_id,
  provider_id: row.provider_id,
  name: row.name,
  client_id: row.client_id,
  auth_url: row.auth_url,
  token_url: row.token_url,
  uses_pkce: row.uses_pkce,
  code_challenge_method: row.code_challenge_method as OAuthProvider['code_challenge_method'],
  provider_type: row.provider_type as OAuthProvider['provider_type'],
  mcp_server_url: row.mcp_server_url,
  token_endpoint_auth_method: row.token_endpoint_auth_method,
  is_dynamic_client: row.registration === 'dynamic',
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
})

export const toDetails = (row: ProviderRow): OAuthProviderDetails & { [etagVersion]: number } => ({
  ...toWire(row),
  scopes: row.scopes,
  redirect_uri: row.redirect_uri,
  registration: row.registration,
  revocation_url: row.revocation_url,
  issuer: row.issuer,
  client_secret_fingerprint: row.client_secret_fingerprint,
  client_secret_expires_at: toIsoTime(row.client_secret_expires_at),
  health: row.health as OAuthProviderDetails['health'],
  health_detail: row.health_detail,
  checked_at: toIsoTime(row.checked_at),
  owner: row.owner,
  made_by_workspace: row.made_by_workspace,
  warnings: row.warnings as OAuthProviderDetails['warnings'],
  trace: (row.trace as FetchRecord[] | null)?.map(fetchToWire) ?? null,
  [etagVersion]: row.version,
})

export const fetchToWire = (hop: FetchRecord): OAuthFetch => ({
  ...hop,
  status: hop.status ?? null,
  outcome: hop.outcome ?? null,
})

/** Drizzle would spread a plain array over several parameters. */
export const scopesArray = (scopes: string[]): SQL => textArray(scopes)

// ---- sealed members

export type SealedMember = 'client_secret' | 'registration_access_token'
export const sealContext = (member: SealedMember) => `oauth_providers.${member}`

/** Bound to `provider_id`, which never changes: a patch does not know the id of the row before its one round trip. */
export const sealMember = async (
  sealer: Sealer,
  provider_id: string,
  member: SealedMember,
  plain: string | null | undefined,
) => (plain == null ? null : sealer.seal(plain, provider_id, sealContext(member)))

export const clientColumns = async (sealer: Sealer, provider_id: string, client: Client) => ({
  registration: client.registration,
  client_id: client.client_id,
  client_secret: await sealMember(sealer, provider_id, 'client_secret', client.client_secret),
  client_secret_expires_at: client.client_secret_expires_at,
  token_endpoint_auth_method: client.token_endpoint_auth_method,
  registration_client_uri: client.registration_client_uri,
  registration_access_token: await sealMember(
    sealer,
    provider_id,
    'registration_access_token',
    client.registration_access_token,
  ),
})

export async function openProviderSecrets<Row extends Pick<StoredProvider, 'provider_id' | SealedMember>>(
  sealer: Sealer,
  row: Row,
): Promise<Row> {
  const open = async (member: SealedMember) =>
    row[member] === null ? null : sealer.open(row[member], row.provider_id, sealContext(member))
  return {
    ...row,
    client_secret: await open('client_secret'),
    registration_access_token: await open('registration_access_token'),
  }
}
