// Connections of people to providers: listed without tokens, and deleted here and at the server.
import { and, eq, getTableColumns, or, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, type SealingServices, verb } from '../../kernel/http/context.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { afterCursor, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { type Provider, providerJson, revokeTokens } from './authorization.ts'
import type * as schema from './flow.schema.ts'
import { lockProvider, openProviderSecrets } from './rows.ts'
import { oauthProviders, oauthTokens } from './tables.ts'
import { openToken, TOKEN_RECORD } from './tokens.ts'

type TokenRow = typeof oauthTokens.$inferSelect

const { access_token: _1, refresh_token: _2, ...unsealedColumns } = getTableColumns(oauthTokens)
const connectionColumns = {
  ...unsealedColumns,
  provider: oauthProviders.provider_id,
  refreshable: sql<boolean>`${oauthTokens.refresh_token} is not null`.as('refreshable'),
  connected: sql<boolean>`${oauthTokens.revoked_at} is null
    and ${oauthTokens.bound_to} = oauth_binding(oauth_providers)
    and (${oauthTokens.refresh_token} is not null or coalesce(${oauthTokens.expires_at} > clock(), true))`.as(
    'connected',
  ),
}
type ConnectionRow = Omit<TokenRow, 'access_token' | 'refresh_token'> & {
  provider: string
  refreshable: boolean
  connected: boolean
}

const toWire = (row: ConnectionRow): z.output<typeof schema.Connection> => ({
  id: row.id,
  provider_id: row.provider,
  user_id: row.user_id,
  scopes: row.scopes,
  expires_at: toIsoTime(row.expires_at),
  refreshable: row.refreshable,
  connected: row.connected,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
})

const isProviderNamed = (provider: Placeholder): SQL =>
  or(eq(oauthProviders.provider_id, provider), sql`${oauthProviders.id}::text = ${provider}`)!

type ConnectionPage = z.output<typeof schema.ConnectionQuery>
const pageStatement = prepareStatement(({ provider, user_id, ...page }: Placeholders<ConnectionPage>) =>
  db
    .select(connectionColumns)
    .from(oauthTokens)
    .innerJoin(oauthProviders, eq(oauthProviders.id, oauthTokens.provider_id))
    .where(
      and(
        inTenant(oauthTokens),
        afterCursor(oauthTokens, page),
        provider && isProviderNamed(provider),
        user_id && eq(oauthTokens.user_id, user_id),
      ),
    )
    .orderBy(...newestFirst(oauthTokens))
    .limit(page.limit)
    .offset(page.offset),
)

export const listConnections = verb('tokens:use', (ctx, page: ConnectionPage) =>
  readPage(ctx, pageStatement, page, toWire),
)

/** Deleted here first, so that no request gets the token any more. Revocation at the server is best effort. */
export const disconnect = verb('tokens:use', async (ctx, ref: z.output<typeof schema.ConnectionRef>) => {
  const { token_id, provider, user_id } = ref
  const isSelected =
    token_id === undefined
      ? sql`(p.provider_id = ${provider} or p.id::text = ${provider})
          and t.user_id = coalesce(${user_id ?? null}, current_actor()::text)`
      : sql`t.id = ${token_id}::uuid`
  const change = sql<TokenRow & { provider: Provider; is_bound: boolean }>`
    delete from oauth_tokens t
    using oauth_providers p
    where p.id = t.provider_id and t.tenant_id = current_tenant() and ${isSelected}
    returning t.*, ${providerJson('p')} as provider, t.bound_to = oauth_binding(p) as is_bound`
  const lock = lockProvider(sql`exists (
    select from oauth_tokens t
    where p.id = t.provider_id and t.tenant_id = current_tenant() and ${isSelected})`)
  const parts = { lock, changes: deletedMembers(TOKEN_RECORD) }
  const row = requireRow(await commit(ctx, 'oauth_token.deleted', change, ref, parts), 'token_not_found')
  // The provider has moved to another server. Tokens are sent only to the server that issued them.
  if (!row.is_bound) return { id: row.id, revocation: 'unsupported' as const }
  return { id: row.id, revocation: await revokeAtServer(ctx, row.provider, row) }
})

export async function revokeAtServer(ctx: SealingServices & Pick<Ctx, 'origin'>, provider: Provider, row: TokenRow) {
  const http = createGuardedClient(ctx, ctx.origin)
  return revokeTokens(http, await openProviderSecrets(ctx.sealer, provider), await openToken(ctx.sealer, row))
}
