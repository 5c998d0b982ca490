// Share links and bypass tokens: made, listed and revoked. drizzle/functions/protection.sql writes them.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { newBypassToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { db, inTenant, type Row, run } from '../../kernel/db/db.ts'
import { describeWrite, openOwnAnswer, ownerOfAnswer, runWrite } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { ACCESS_PATH } from '../../protocol/access-rules.ts'
import type { Page } from '../../protocol/wire.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { type Bypass, type CreatedBypass, isValidEnd, type NewBypass, type BypassRef as Ref } from './schema.ts'
import { protectionBypasses } from './tables.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type BypassRow = Omit<typeof protectionBypasses.$inferSelect, 'token_hash'>

const toWire = ({ id, deployment_id, kind, description, expires_at, created_at }: BypassRow): Bypass => ({
  id,
  deployment_id,
  kind,
  description,
  expires_at: expires_at === null ? null : toIsoTime(expires_at),
  created_at: toIsoTime(created_at),
})

/** The router's page at an address of a deployment, which may have a path. */
export const accessPage = (url: string): string => `${url.replace(/\/$/, '')}${ACCESS_PATH}`

export const createBypass = verb(
  'deployments:update',
  async (
    ctx,
    { deployment_id, kind, description, expires_at }: DeploymentParams & NewBypass,
  ): Promise<CreatedBypass> => {
    if (expires_at != null && !isValidEnd(expires_at, ctx.platform.clock.now()))
      throw fail('invalid_request', {
        errors: [{ type: 'custom', loc: ['body', 'expires_at'], msg: 'must be in the future, within 365 days' }],
      })
    const secret = newBypassToken()
    // Sealed for the caller, it is stored with the answer: a repeat under the idempotency key returns it again.
    const sealed = await ctx.sealer.seal(secret, ownerOfAnswer(ctx), 'bypass')
    const described = JSON.stringify({ kind, description, expires_at, token_hash: sha256Hex(secret) })
    const statement = sql<Row>`
      select answer, has_webhooks
      from create_bypass(
        ${deployment_id}::uuid, ${described}::json, ${sealed}, ${describeWrite(ctx)}::jsonb)`
    const rows = await runWrite<BypassRow & { url: string | null; sealed: string }>(ctx, statement)
    const row = requireRow(rows, 'deployment_not_found')
    const opened = await openOwnAnswer(ctx, row.sealed, 'bypass')
    const url = row.kind === 'link' && row.url !== null ? `${accessPage(row.url)}#token=${opened}` : null
    return { ...toWire(row), secret: opened, url }
  },
)

type ListInput = DeploymentParams & Page

/** Selects from the deployment, to tell an unknown deployment from one without bypasses. */
const pageStatement = prepareStatement(({ deployment_id, ...page }: Placeholders<ListInput>) => {
  const bypass = db
    .select()
    .from(protectionBypasses)
    .where(
      and(
        eq(protectionBypasses.deployment_id, deployment_id),
        inTenant(protectionBypasses),
        afterCursor(protectionBypasses, page),
      ),
    )
    .orderBy(...newestFirst(protectionBypasses))
    .limit(page.limit)
    .offset(page.offset)
    .as('bypass')
  return db.select().from(deployments).leftJoinLateral(bypass, sql`true`).where(isDeployment(deployment_id))
})

export const listBypasses = verb('deployments:read', async (ctx, input: ListInput) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'deployment_not_found')
  return toListPage(
    rows.flatMap(({ bypass }) => (bypass ? [bypass as BypassRow] : [])),
    input,
    toWire,
  )
})

export const revokeBypass = verb(
  'deployments:update',
  async (ctx: Ctx, { deployment_id, bypass_id }: z.output<typeof Ref>): Promise<void> => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from revoke_bypass(${deployment_id}::uuid, ${bypass_id}::uuid, ${describeWrite(ctx)}::jsonb)`
    requireRow(await runWrite(ctx, statement), 'bypass_not_found')
  },
)
