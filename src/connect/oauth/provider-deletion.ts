// Deletes a provider here, then revokes its tokens and unregisters its client at the server, as a best effort.
import { and, getTableColumns, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { unregisterClient } from './client-registration.ts'
import { revokeAtServer } from './connections.ts'
import { isProvider, lockProviderToChange, openProviderSecrets, PROVIDER_RECORD } from './rows.ts'
import type * as schema from './schema.ts'
import { oauthProviders, type oauthTokens } from './tables.ts'

/** More tokens are not revoked: they expire. */
const MAX_TOKENS = 100
const MAX_CONCURRENT = 5
const MAX_CLEANUP_MS = 15_000

type DeletedProvider = typeof oauthProviders.$inferSelect & { tokens: (typeof oauthTokens.$inferSelect)[] }

export const deleteProvider = verb(
  'deployments:delete',
  async (ctx, { provider_id }: z.output<typeof schema.ProviderRef>) => {
    const issuedTokens = sql`issued_tokens as (
      select coalesce(json_agg(t), '[]') as tokens
      from tokens_of_provider(${provider_id}, ${MAX_TOKENS}) t)`
    const change = db
      .delete(oauthProviders)
      .where(and(isProvider(provider_id), versionMatches(ctx, oauthProviders)))
      .returning({
        ...getTableColumns(oauthProviders),
        tokens: sql<DeletedProvider['tokens']>`(select tokens from issued_tokens)`.as('tokens'),
      })
    const rows = await commit<DeletedProvider>(
      ctx,
      'oauth_provider.deleted',
      change,
      {},
      {
        changes: deletedMembers(PROVIDER_RECORD),
        ctesBefore: [issuedTokens],
        // Waits for callbacks in progress, so that their tokens are revoked too.
        lock: lockProviderToChange(provider_id),
      },
    )
    await revokeAndUnregister(ctx, requireRow(rows, 'provider_not_found'))
  },
)

/** Tokens first: revoking a token needs the client. */
async function revokeAndUnregister(ctx: Ctx, { tokens, ...provider }: DeletedProvider): Promise<void> {
  const deadline = Date.now() + MAX_CLEANUP_MS
  const queue = provider.revocation_url === null ? [] : [...tokens]
  const revoke = async () => {
    for (let token = queue.pop(); token && Date.now() < deadline; token = queue.pop())
      await revokeAtServer(ctx, provider, token).catch(() => {})
  }
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, revoke))
  const secrets = await openProviderSecrets(ctx.sealer, provider).catch(() => null)
  if (secrets) await unregisterClient(createGuardedClient(ctx, ctx.origin), secrets).catch(() => {})
}
