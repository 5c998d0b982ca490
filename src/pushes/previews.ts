// Previews: listed, and a fork's commit approved.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import type { DeploymentRef } from '../deployments/schema.ts'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, mine, run, unless } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found, iso } from '../kernel/rows.ts'
import type { Page } from '../kernel/wire.ts'
import { deployments, previews } from '../tables.ts'
import { previewName, urlOf } from './address.ts'
import type { Approval, PreviewRef, PullPreview } from './previews.schema.ts'
import { type PreviewRow, raise } from './raise.ts'
import { tellOf } from './telling.ts'

/** `served`: where its deployment answers, as its listener says. */
type Named = PreviewRow & { parent_name: string; served: string | null }
const served = (of: SQL | AnyPgColumn): SQL =>
  sql`(select c.url from deployments c where c.id = ${of} and c.tenant_id = current_tenant())`

const toWire =
  (ctx: Ctx) =>
  (row: Named): PullPreview => ({
    id: row.id,
    number: row.number,
    state: row.state,
    deployment_id: row.deployment_id,
    url:
      row.state === 'ended' || !row.deployment_id
        ? null
        : (urlOf(ctx.config.appsDomain, previewName(row.parent_name, row.number)) ?? row.served),
    branch: row.branch,
    head_sha: row.head_sha,
    fork: row.fork,
    approved_sha: row.approved_sha,
    expires_at: iso(row.expires_at),
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  })

export const listPreviews = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...query }: z.output<typeof DeploymentRef> & Page) => {
    const { limit, offset } = bounds(query)
    const page = db
      .select({ ...getTableColumns(previews), served: served(previews.deployment_id).as('served') })
      .from(previews)
      .where(and(eq(previews.parent_id, deployments.id), mine(previews), beyond(previews, query)))
      .orderBy(...newestFirst(previews))
      .limit(limit)
      .offset(offset)
      .as('preview')
    const one = and(eq(deployments.id, deployment_id), mine(deployments))
    const rows = await run(ctx, db.select().from(deployments).leftJoinLateral(page, sql`true`).where(one))
    const { name: parent_name } = found(rows, 'deployment_not_found').deployments
    const all = rows.flatMap(({ preview }) =>
      preview ? [{ ...(preview as Omit<Named, 'parent_name'>), parent_name }] : [],
    )
    return listed(all, query, toWire(ctx))
  },
)

type Approved = z.output<typeof PreviewRef> & z.output<typeof Approval>

/** That commit and no other: whoever pushes again after that waits again. The preview itself is made after the answer. */
export const approvePreview = verb('deployments:update', async (ctx, { deployment_id, number, head_sha }: Approved) => {
  const change = sql<Named>`
    update previews v set approved_sha = ${head_sha}, approved_by = current_actor(), updated_at = clock()
    from deployments d
    where v.parent_id = ${deployment_id}::uuid and v.number = ${number} and v.tenant_id = current_tenant() and d.id = v.parent_id
      and d.tenant_id = current_tenant()
      and ${unless('preview_moved', sql`v.fork and v.head_sha = ${head_sha} and v.state in ('awaiting_approval', 'live', 'full')`)}
    returning v.*, d.name as parent_name, ${served(sql`v.deployment_id`)} as served`
  const lock = sql`select from deployments d where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant() for update`
  const row = found(await commit(ctx, 'preview.approved', change, { number, head_sha }, { lock }), 'preview_not_found')
  if (!ctx.seen.replayed) ctx.after?.(brought(ctx, deployment_id, number))
  return toWire(ctx)(row)
})

/** Where it fails, the sweep does it. */
async function brought(ctx: Ctx, parent_id: string, number: number): Promise<void> {
  try {
    await raise(ctx, { parent_id, number })
    await tellOf(ctx, { within: [parent_id] })
  } catch (error) {
    ctx.config.log({ level: 'warn', request_id: ctx.requestId, error: String(error) })
  }
}
