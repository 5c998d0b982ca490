// Issues the tokens by which the applications of a listener call models, all of them in few requests.
import { sql } from 'drizzle-orm'
import { createModelToken, MODEL_TOKEN_SECONDS } from '../../kernel/crypto/model-tokens.ts'
import { run, uuidArray } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import {
  type GivenModelTokens,
  MODEL_TOKENS_PAGE_SIZE,
  type ModelTokenWish,
} from '../../protocol/model-tokens.schema.ts'
import { listeners } from '../listeners/tables.ts'
import { createSeal } from './envelope.ts'
import { hasLease } from './lease.ts'

type TokenRow = [listener_id: string, deployment_id: string | null, trace_key_version: string | null]

export const issueModelTokens = verb('listeners:sync', async (ctx, wish: ModelTokenWish): Promise<GivenModelTokens> => {
  const seal = await createSeal(wish.public_key)
  const rows = await run(ctx, selectOwners(wish))
  const [listener_id] = requireRow(rows, 'listener_not_found')
  const page = rows.slice(0, MODEL_TOKENS_PAGE_SIZE)
  const now = ctx.platform.clock.now()
  return {
    tokens: ctx.config.deploymentModels ? await seal(await createTokens(ctx, page), `${listener_id}/models`) : null,
    expires_at: new Date(now + MODEL_TOKEN_SECONDS * 1000).toISOString(),
    next: rows.length > MODEL_TOKENS_PAGE_SIZE ? page.at(-1)![1] : null,
  }
})

/** One row more than a page. Without deployments, one row of the listener alone. */
const selectOwners = ({ deployment_ids, after = null, ...lease }: ModelTokenWish) => sql<TokenRow>`
  select ${listeners.id}, d.id, d.trace_key_version
  from ${listeners}
  left join lateral (
    select d.id, d.trace_key_version
    from deployments d
    where d.listener_id = ${listeners.id}
      and d.deleting_at is null
      and (${after}::uuid is null or d.id > ${after}::uuid)
      and ${deployment_ids ? sql`d.id = any(${uuidArray(deployment_ids)})` : sql`true`}
    order by d.id
    limit ${MODEL_TOKENS_PAGE_SIZE + 1}
  ) d on true
  where ${hasLease(lease)}
  order by d.id`

async function createTokens(ctx: Ctx, rows: TokenRow[]): Promise<Record<string, string>> {
  const tokens: Record<string, string> = {}
  for (const [, deployment_id, version] of rows)
    if (deployment_id) tokens[deployment_id] = await createModelToken(ctx, { deployment_id, version: Number(version) })
  return tokens
}
