// Checks providers, and renews clients before their secrets expire.
import { eq, getTableColumns, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inOrganization } from '../../kernel/db/db.ts'
import { commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { obtainClient, renewClient, unregisterClient } from './client-registration.ts'
import type { DiscoveredServer } from './mcp-discovery.ts'
import type { Client, ClientRequest } from './oauth-client.ts'
import { ASSUMED_S256_HOSTS, discoveryOptionsFor, serverColumns } from './provider-discovery.ts'
import { checkHealth, explainMove, type HealthFinding, isClientUsable, keepsOrigins } from './provider-health.ts'
import {
  clientColumns,
  isProvider,
  openProviderSecrets,
  PROVIDER_RECORD,
  type ProviderRow,
  toDetails,
  wireColumns,
  withEndedConnections,
} from './rows.ts'
import type * as schema from './schema.ts'
import { oauthProviders } from './tables.ts'

type Ref = z.output<typeof schema.ProviderRef>
type StoredProvider = typeof oauthProviders.$inferSelect
type ProviderLookup = StoredProvider & { s256_hosts: string; binding: string }

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** A renewed client keeps people connected. A replaced client does not, so it is the last resort. */
export const RENEW_AHEAD_MS = 7 * DAY
const REPLACE_AHEAD_MS = DAY

export const recheckProvider = verb('deployments:update', (ctx, ref: Ref) => checkProvider(ctx, ref))

export const maintainProvider = verb('deployments:update', (ctx, ref: Ref) =>
  checkProvider(ctx, ref, renewExpiringClient),
)

type RenewClient = (ctx: Ctx, row: StoredProvider, discovered: DiscoveredServer) => Promise<Client | null>

const lookupStatement = prepareStatement(({ provider_id }: Placeholders<Ref>) =>
  db
    .select({
      ...getTableColumns(oauthProviders),
      s256_hosts: sql<string>`${ASSUMED_S256_HOSTS}`.as('s256_hosts'),
      binding: sql<string>`oauth_binding(oauth_providers)`.as('binding'),
    })
    .from(oauthProviders)
    .where(isProvider(provider_id)),
)

async function checkProvider(ctx: Ctx, { provider_id }: Ref, renew?: RenewClient) {
  const { current, replayed } = await prepareWrite<ProviderLookup, ProviderRow>(ctx, lookupStatement({ provider_id }))
  if (replayed) return toDetails(requireRow(replayed, 'provider_not_found'))
  const { s256_hosts, binding, ...row } = requireRow(current, 'provider_not_found')

  const http = createGuardedClient(ctx, ctx.origin)
  const finding = await checkHealth(http, row, discoveryOptionsFor(ctx, JSON.parse(s256_hosts)), nowOf(ctx))
  const client = (finding.discovered && (await renew?.(ctx, row, finding.discovered))) ?? null
  try {
    const rows = await concludeWrite(() => updateCheckedProvider(ctx, { ...row, binding }, finding, http.trace, client))
    return toDetails(requireRow(rows, 'provider_not_found'))
  } catch (error) {
    // The replacement was not stored, so nothing uses it.
    if (client && client.client_id !== row.client_id)
      await unregisterClient(createGuardedClient(ctx, ctx.origin), client).catch(() => {})
    throw error
  }
}

const nowOf = ({ platform }: Ctx): number => platform.clock.now()

type BoundProvider = StoredProvider & { binding: string }

/** Takes over new endpoints of the same issuer only. Connections survive if the endpoints keep their origins. */
async function updateCheckedProvider(
  ctx: Ctx,
  row: BoundProvider,
  finding: HealthFinding,
  trace: unknown[],
  client: Client | null,
) {
  const { health, health_detail, warnings, discovered } = finding
  const keepsConnections =
    discovered && keepsOrigins(row, discovered) && (client === null || client.client_id === row.client_id)
  const changed = discovered ? SERVER_MEMBERS.filter(member => discovered[member] !== row[member]) : []
  const change = db
    .update(oauthProviders)
    .set({
      ...(discovered && serverColumns(discovered)),
      ...(client && (await clientColumns(ctx.sealer, row.provider_id, client))),
      ...(client
        ? { health: 'healthy', health_detail: discovered && explainMove(row, discovered) }
        : { health, health_detail }),
      warnings,
      trace,
      checked_at: sql`clock()`,
      version: sql`${oauthProviders.version} + 1`,
      // A check that finds no difference is not an update.
      ...((changed.length > 0 || client) && { updated_at: sql`clock()` }),
    })
    .where(
      sql`${eq(oauthProviders.id, row.id)}
        and ${inOrganization(oauthProviders)}
        and ${oauthProviders.client_id} = ${row.client_id}`,
    )
    .returning(wireColumns)
  const data = {
    health,
    ...(client && { client: client.client_id === row.client_id ? 'renewed' : 'replaced' }),
  }
  // Waits for writes of flows and tokens, as every change of a provider does.
  const lock = sql`select from oauth_providers where ${isProvider(row.provider_id)} for update`
  const event = withEndedConnections(data, keepsConnections ? row.binding : null)
  const parts = { lock, changes: changedMembers(oauthProviders, PROVIDER_RECORD) }
  return (await commit(ctx, 'oauth_provider.checked', change, event, parts)) as ProviderRow[]
}

const SERVER_MEMBERS = ['auth_url', 'token_url', 'revocation_url', 'resource', 'issuer_in_answers'] as const

/** Renews the secret of a dynamic client before it expires; registers another client if that fails. */
async function renewExpiringClient(
  ctx: Ctx,
  row: StoredProvider,
  discovered: DiscoveredServer,
): Promise<Client | null> {
  if (row.registration !== 'dynamic') return null
  // A renewed client may keep its secret, which must not reach another origin: a move needs another client.
  const isRenewable = isClientUsable(row, discovered) && keepsOrigins(row, discovered)
  const remainingMs =
    row.client_secret_expires_at === null ? Infinity : Date.parse(row.client_secret_expires_at) - nowOf(ctx)
  if (isRenewable && remainingMs > RENEW_AHEAD_MS) return null
  const http = createGuardedClient(ctx, ctx.origin)
  const { name, redirect_uri } = row
  const clientRequest: ClientRequest = { registration: 'dynamic', name, redirect_uri, document_url: null }
  if (isRenewable) {
    const client = (await openProviderSecrets(ctx.sealer, row)) as unknown as Client
    try {
      return await renewClient(http, discovered, client, clientRequest)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      if (remainingMs > REPLACE_AHEAD_MS) return null
    }
  }
  return obtainClient(http, discovered, clientRequest).catch((error: unknown) => {
    if (error instanceof Failure) return null
    throw error
  })
}
