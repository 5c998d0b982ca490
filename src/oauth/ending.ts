// Deleting a provider: gone here first, so that nobody is handed a token any more; then at its server, as well as it goes.
import { and, getTableColumns, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, unmoved } from '../kernel/db.ts'
import { outside } from '../kernel/guarded-fetch.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { oauthProviders, type oauthTokens } from '../tables.ts'
import { unregister } from './clients.ts'
import { revokeAtServer } from './connections.ts'
import { lockProviderToChange, opened, theProvider } from './rows.ts'
import type * as schema from './schema.ts'

/** What is left beyond these runs out by itself. */
const MOST_TOKENS = 100
const AT_ONCE = 5
const PATIENCE_MS = 15_000

type Gone = typeof oauthProviders.$inferSelect & { tokens: (typeof oauthTokens.$inferSelect)[] }

export const deleteProvider = verb(
  'deployments:delete',
  async (ctx, { provider_id }: z.output<typeof schema.ProviderRef>) => {
    const granted = sql`granted as (
      select coalesce(json_agg(t), '[]') as tokens from tokens_of_provider(${provider_id}, ${MOST_TOKENS}) t)`
    const change = db
      .delete(oauthProviders)
      .where(and(theProvider(provider_id), unmoved(ctx, oauthProviders)))
      .returning({
        ...getTableColumns(oauthProviders),
        tokens: sql<Gone['tokens']>`(select tokens from granted)`.as('tokens'),
      })
    const rows = await commit<Gone>(
      ctx,
      'oauth_provider.deleted',
      change,
      { provider_id },
      {
        first: [granted],
        // Whoever is connecting just now is waited for, so that what they were granted is found.
        lock: lockProviderToChange(provider_id),
      },
    )
    await end(ctx, found(rows, 'provider_not_found'))
  },
)

/** Tokens first: a server that knows its client no longer would not take them back. */
async function end(ctx: Ctx, { tokens, ...provider }: Gone): Promise<void> {
  const until = Date.now() + PATIENCE_MS
  const rest = provider.revocation_url === null ? [] : [...tokens]
  const revoke = async () => {
    for (let token = rest.pop(); token && Date.now() < until; token = rest.pop())
      await revokeAtServer(ctx, provider, token).catch(() => {})
  }
  await Promise.all(Array.from({ length: AT_ONCE }, revoke))
  const secrets = await opened(ctx.sealer, provider).catch(() => null)
  if (secrets) await unregister(outside(ctx.config, ctx.origin), secrets).catch(() => {})
}
