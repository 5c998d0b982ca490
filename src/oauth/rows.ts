// From a provider's row to the wire, and its sealed members: nothing of them is told, and only here are they opened.
import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { Sealer } from '../kernel/crypto.ts'
import { inOrganization, textArray } from '../kernel/db.ts'
import type { FetchRecord } from '../kernel/guarded-fetch.ts'
import { etagVersion } from '../kernel/routes.ts'
import { toIsoTime } from '../kernel/rows.ts'
import type { OAuthFetch } from '../protocol/wire.ts'
import { oauthProviders } from '../tables/oauth.ts'
import type { Client } from './client-registration.ts'
import type { OAuthProvider, OAuthProviderDetails } from './schema.ts'

const {
  client_secret: _1,
  registration_access_token: _2,
  client_secret_urls: _3,
  ...unsealedColumns
} = getTableColumns(oauthProviders)
type StoredProvider = typeof oauthProviders.$inferSelect
export type ProviderRow = Omit<StoredProvider, 'client_secret' | 'registration_access_token' | 'client_secret_urls'>

/** What servers did is for those who may do something about it. */
const forAdministrators = (column: typeof oauthProviders.warnings | typeof oauthProviders.trace): SQL =>
  sql`case when 'deployments:update' = any(actor_permissions()) then ${column} end`.mapWith(column)

export const wireColumns = {
  ...unsealedColumns,
  warnings: forAdministrators(oauthProviders.warnings).as('warnings'),
  trace: forAdministrators(oauthProviders.trace).as('trace'),
}

/** One provider of this organisation, by its name in addresses. */
export const isProvider = (provider_id: string): SQL =>
  sql`${oauthProviders.provider_id} = ${provider_id} and ${inOrganization(oauthProviders)}`

/**
 * Held before anything that belongs to a provider is written: deleting a provider takes the provider first and then all of that, and
 * whoever took them the other way round would wait for it while it waits for them. Those who hold it so do not keep each other waiting.
 */
export const lockProvider = (which: SQL): SQL => sql`select p.id from oauth_providers p where ${which} for key share`

/**
 * The lock of a change or a deletion. It refuses a caller that may not: a provider belongs to the organization, and
 * whoever changes its endpoints receives what every workspace sends there.
 */
export const lockProviderToChange = (provider_id: string): SQL => sql`select lock_provider_to_change(${provider_id})`

/**
 * An event's data for a change of a provider. Building it ends what was granted under another binding, in every
 * workspace; what was granted under the binding `follows` is bound to the present one instead.
 */
export const settleGrants = (data: Record<string, unknown>, follows: string | null = null): SQL =>
  sql`(${JSON.stringify(data)}::jsonb || jsonb_build_object('connections_ended', settle_grants(changed.id, ${follows})))::json`

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
  client_secret_expires_at: toIsoTime(row.client_secret_expires_at),
  health: row.health as OAuthProviderDetails['health'],
  health_detail: row.health_detail,
  checked_at: toIsoTime(row.checked_at),
  made_by_workspace: row.made_by_workspace,
  warnings: row.warnings as OAuthProviderDetails['warnings'],
  trace: (row.trace as FetchRecord[] | null)?.map(hopToWire) ?? null,
  [etagVersion]: row.version,
})

export const hopToWire = (hop: FetchRecord): OAuthFetch => ({
  ...hop,
  status: hop.status ?? null,
  outcome: hop.outcome ?? null,
})

/** Drizzle would spread them. */
export const scopesArray = (scopes: string[]): SQL => textArray(scopes)

// ---- sealed members

type SealedMember = 'client_secret' | 'registration_access_token'
const sealContext = (member: SealedMember) => `oauth_providers.${member}`

/**
 * Bound to the provider's name and the member. The name and not the row's id: a patch knows the name before its one trip, and a name is
 * never changed.
 */
export const sealMember = async (
  sealer: Sealer,
  provider_id: string,
  member: SealedMember,
  plain: string | null | undefined,
) => (plain == null ? null : sealer.seal(plain, provider_id, sealContext(member)))

/** What is kept of a client. */
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

/** The secrets of a row, for whoever speaks to its server. */
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
