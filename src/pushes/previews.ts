// Lists previews, and approves the commit of a fork.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { lockDeployment } from '../deployments/revision-queue.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, inTenant, refuseUnless, run } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../kernel/paging.ts'
import { changedMembers } from '../kernel/recorded-changes.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import type { Page } from '../protocol/wire.ts'
import { deployments } from '../tables/deployments.ts'
import { previews } from '../tables/pushes.ts'
import { previewName, shownUrl } from './preview-address.ts'
import { PREVIEW_RECORD, type PreviewRow, reconcilePreview } from './preview-lifecycle.ts'
import type { Approval, PreviewRef, PullPreview } from './previews.schema.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

/** `reported_url`: the address of its deployment, as its listener reported it. */
type NamedPreview = PreviewRow & { parent_name: string; reported_url: string | null }
const reportedUrl = (deployment_id: SQL | AnyPgColumn): SQL => sql`(
  select c.url from deployments c where c.id = ${deployment_id} and c.tenant_id = current_tenant())`

function previewUrl({ config }: Ctx, row: NamedPreview): string | null {
  if (row.state === 'ended' || !row.deployment_id) return null
  return shownUrl(config.appsDomain, previewName(row.parent_name, row.number), row.reported_url)
}

const toWire =
  (ctx: Ctx) =>
  (row: NamedPreview): PullPreview => ({
    id: row.id,
    number: row.number,
    state: row.state,
    deployment_id: row.deployment_id,
    url: previewUrl(ctx, row),
    branch: row.branch,
    head_sha: row.head_sha,
    fork: row.fork,
    approved_sha: row.approved_sha,
    expires_at: toIsoTime(row.expires_at),
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
  })

/** Joins from the deployment, so that one trip tells an empty list from a missing deployment. */
export const listPreviews = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...query }: z.output<typeof DeploymentRef> & Page) => {
    const { limit, offset } = pageBounds(query)
    const page = db
      .select({ ...getTableColumns(previews), reported_url: reportedUrl(previews.deployment_id).as('reported_url') })
      .from(previews)
      .where(and(eq(previews.parent_id, deployments.id), inTenant(previews), afterCursor(previews, query)))
      .orderBy(...newestFirst(previews))
      .limit(limit)
      .offset(offset)
      .as('preview')
    const isDeployment = and(eq(deployments.id, deployment_id), inTenant(deployments))
    const rows = await run(ctx, db.select().from(deployments).leftJoinLateral(page, sql`true`).where(isDeployment))
    const { name: parent_name } = requireRow(rows, 'deployment_not_found').deployments
    const named = rows.flatMap(({ preview }) =>
      preview ? [{ ...(preview as Omit<NamedPreview, 'parent_name'>), parent_name }] : [],
    )
    return toListPage(named, query, toWire(ctx))
  },
)

type ApprovalInput = z.output<typeof PreviewRef> & z.output<typeof Approval>

export const approvePreview = verb(
  'deployments:update',
  async (ctx, { deployment_id, number, head_sha }: ApprovalInput) => {
    const canApprove = sql`
      v.fork and v.head_sha = ${head_sha} and v.state in ('awaiting_approval', 'live', 'full')`
    const change = sql<NamedPreview>`
      update previews v
      set approved_sha = ${head_sha}, approved_by = current_actor(), updated_at = clock()
      from deployments d
      where v.parent_id = ${deployment_id}::uuid
        and v.number = ${number}
        and v.tenant_id = current_tenant()
        and d.id = v.parent_id
        and d.tenant_id = current_tenant()
        and ${refuseUnless('preview_moved', canApprove)}
      returning v.*, d.name as parent_name, ${reportedUrl(sql`v.deployment_id`)} as reported_url`
    const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(previews, PREVIEW_RECORD) }
    const rows = await commit(ctx, 'preview.approved', change, { number }, parts)
    const row = requireRow(rows, 'preview_not_found')
    if (!ctx.requestInfo.replayed) ctx.waitUntil?.(reconcileApprovedPreview(ctx, deployment_id, number))
    return toWire(ctx)(row)
  },
)

/** If this fails, the sweep retries it. */
async function reconcileApprovedPreview(ctx: Ctx, parent_id: string, number: number): Promise<void> {
  try {
    await reconcilePreview(ctx, { parent_id, number })
    await notifyPullRequests(ctx, { within: [parent_id] })
  } catch (error) {
    ctx.config.log({ level: 'warn', request_id: ctx.requestId, error: String(error) })
  }
}
