// Previews: listed, and a fork's commit approved.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import type { DeploymentRef } from '../deployments/schema.ts'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, inTenant, refuseUnless, run } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../kernel/paging.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import type { Page } from '../protocol/wire.ts'
import { deployments } from '../tables/deployments.ts'
import { previews } from '../tables/pushes.ts'
import { deploymentUrl, previewName } from './preview-address.ts'
import { type PreviewRow, reconcilePreview } from './preview-lifecycle.ts'
import type { Approval, PreviewRef, PullPreview } from './previews.schema.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

/** `reportedUrl`: where its deployment answers, as its listener says. */
type NamedPreview = PreviewRow & { parent_name: string; served: string | null }
const reportedUrl = (of: SQL | AnyPgColumn): SQL =>
  sql`(select c.url from deployments c where c.id = ${of} and c.tenant_id = current_tenant())`

const toWire =
  (ctx: Ctx) =>
  (row: NamedPreview): PullPreview => ({
    id: row.id,
    number: row.number,
    state: row.state,
    deployment_id: row.deployment_id,
    url:
      row.state === 'ended' || !row.deployment_id
        ? null
        : (deploymentUrl(ctx.config.appsDomain, previewName(row.parent_name, row.number)) ?? row.served),
    branch: row.branch,
    head_sha: row.head_sha,
    fork: row.fork,
    approved_sha: row.approved_sha,
    expires_at: toIsoTime(row.expires_at),
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
  })

export const listPreviews = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...query }: z.output<typeof DeploymentRef> & Page) => {
    const { limit, offset } = pageBounds(query)
    const page = db
      .select({ ...getTableColumns(previews), served: reportedUrl(previews.deployment_id).as('served') })
      .from(previews)
      .where(and(eq(previews.parent_id, deployments.id), inTenant(previews), afterCursor(previews, query)))
      .orderBy(...newestFirst(previews))
      .limit(limit)
      .offset(offset)
      .as('preview')
    const one = and(eq(deployments.id, deployment_id), inTenant(deployments))
    const rows = await run(ctx, db.select().from(deployments).leftJoinLateral(page, sql`true`).where(one))
    const { name: parent_name } = requireRow(rows, 'deployment_not_found').deployments
    const all = rows.flatMap(({ preview }) =>
      preview ? [{ ...(preview as Omit<NamedPreview, 'parent_name'>), parent_name }] : [],
    )
    return toListPage(all, query, toWire(ctx))
  },
)

type ApprovalInput = z.output<typeof PreviewRef> & z.output<typeof Approval>

/** That commit and no other: whoever pushes again after that waits again. The preview itself is made after the answer. */
export const approvePreview = verb(
  'deployments:update',
  async (ctx, { deployment_id, number, head_sha }: ApprovalInput) => {
    const change = sql<NamedPreview>`
    update previews v set approved_sha = ${head_sha}, approved_by = current_actor(), updated_at = clock()
    from deployments d
    where v.parent_id = ${deployment_id}::uuid and v.number = ${number} and v.tenant_id = current_tenant() and d.id = v.parent_id
      and d.tenant_id = current_tenant()
      and ${refuseUnless('preview_moved', sql`v.fork and v.head_sha = ${head_sha} and v.state in ('awaiting_approval', 'live', 'full')`)}
    returning v.*, d.name as parent_name, ${reportedUrl(sql`v.deployment_id`)} as served`
    const lock = sql`select from deployments d where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant() for update`
    const row = requireRow(
      await commit(ctx, 'preview.approved', change, { number, head_sha }, { lock }),
      'preview_not_found',
    )
    if (!ctx.requestInfo.replayed) ctx.waitUntil?.(reconcileApprovedPreview(ctx, deployment_id, number))
    return toWire(ctx)(row)
  },
)

/** Where it fails, the sweep does it. */
async function reconcileApprovedPreview(ctx: Ctx, parent_id: string, number: number): Promise<void> {
  try {
    await reconcilePreview(ctx, { parent_id, number })
    await notifyPullRequests(ctx, { within: [parent_id] })
  } catch (error) {
    ctx.config.log({ level: 'warn', request_id: ctx.requestId, error: String(error) })
  }
}
