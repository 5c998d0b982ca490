// Lists previews, approves the commit of a fork, and removes previews.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { type HostName, pagesOf } from '../../protocol/host-kinds.ts'
import type { Page } from '../../protocol/wire.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { lockDeployment } from '../deployments/service.ts'
import { previews } from '../pushes/tables.ts'
import { shownUrl } from './preview-address.ts'
import type { PreviewRow } from './preview-deployment.ts'
import { commitEnd, deletePreviewDeployment, PREVIEW_RECORD, reconcilePreview } from './preview-lifecycle.ts'
import type { Approval, PreviewRef, PullPreview, PullRef, WorkspacePreviewQuery } from './previews.schema.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

/** The members of a preview that other tables have. */
type About = {
  parent_name: string
  /** The name of its deployment. */
  name: string | null
  label: string | null
  /** The label of its newest commit. */
  commit_label: string | null
  /** The address of its deployment, as its listener reported it. */
  reported_url: string | null
  revision_status: string | null
  last_request_at: string | null
  repo_url: string | null
  /** The kind of git host; null if the integration is gone. */
  host: HostName | null
}
export type ShownPreview = PreviewRow & { about: About }

/** `About` a preview `v`. */
export const ABOUT = sql`(
      select json_build_object(
        'parent_name', d.name,
        'name', c.name,
        'label', (select h.label from host_labels h where h.deployment_id = c.id and h.kind = 'deployment'),
        'commit_label', (
          select h.label
          from host_labels h
          where h.deployment_id = c.id and h.kind = 'commit' and h.revision_id = c.latest_revision_id),
        'reported_url', c.url,
        'revision_status', r.status,
        'last_request_at', c.last_request_at,
        'repo_url', d.source_config ->> 'repo_url',
        'host', i.host)
      from deployments d
      left join deployments c on c.id = v.deployment_id and c.tenant_id = current_tenant()
      left join revisions r on r.id = c.latest_revision_id and r.tenant_id = current_tenant()
      left join integrations i
        on i.id = (d.source_config ->> 'integration_id')::uuid and i.tenant_id = current_tenant()
      where d.id = v.parent_id and d.tenant_id = current_tenant())`

function previewUrl({ config }: Ctx, { about, ...row }: ShownPreview): string | null {
  if (row.state === 'ended' || !row.deployment_id || about.name === null) return null
  return shownUrl(config.appsDomain, about.name, about.reported_url)
}

/** Null where the agent makes addresses of its own. */
function newestCommitUrl({ state, about: { label, commit_label, reported_url } }: ShownPreview): string | null {
  const url = reported_url === null ? null : URL.parse(reported_url)
  if (state === 'ended' || url === null || commit_label === null || !url.hostname.startsWith(`${label}.`)) return null
  return `${url.protocol}//${commit_label}${url.host.slice(label!.length)}`
}

/** Pages of the repository that the pull request is for: it has the commits of forks, too. */
function hostPages({ about: { host, repo_url }, number, head_sha }: ShownPreview) {
  const pages = host && pagesOf(host)
  if (pages === null || repo_url === null) return { commit_url: null, pull_request_url: null }
  const repository = repo_url.replace(/\.git$/, '')
  return {
    commit_url: head_sha === null ? null : `${repository}/${pages.commit}/${head_sha}`,
    pull_request_url: number === null ? null : `${repository}/${pages.pull}/${number}`,
  }
}

export const toWire =
  (ctx: Ctx) =>
  (row: ShownPreview): PullPreview => ({
    id: row.id,
    parent_deployment_id: row.parent_id,
    parent_name: row.about.parent_name,
    kind: row.kind,
    number: row.number,
    state: row.state,
    problem: row.problem,
    deployment_id: row.deployment_id,
    url: previewUrl(ctx, row),
    newest_commit_url: newestCommitUrl(row),
    branch: row.branch,
    head_sha: row.head_sha,
    commit: commitOf(row),
    ...hostPages(row),
    fork: row.fork,
    approved_sha: row.approved_sha,
    revision_status: (row.state === 'ended' ? null : row.about.revision_status) as PullPreview['revision_status'],
    last_request_at: toIsoTime(row.about.last_request_at),
    expires_at: toIsoTime(row.expires_at),
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
  })

function commitOf({ commit, head_sha }: PreviewRow): PullPreview['commit'] {
  if (head_sha === null) return null
  return commit?.sha === head_sha ? commit : { sha: head_sha, message: null, author: null }
}

const isAfter = ({ cursor }: Page): SQL =>
  cursor ? sql`(v.created_at, v.id) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)` : sql`true`

/** Selects a page as one JSON array. Its times are texts of Postgres, for the cursor of the next page. */
function selectPage(page: Page, condition: SQL): SQL {
  const { limit, offset } = pageBounds(page)
  return sql`(
    select coalesce(
      json_agg(
        to_jsonb(v) || jsonb_build_object('created_at', v.created_at::text, 'about', ${ABOUT})
        order by v.created_at desc, v.id desc),
      '[]')::text
    from (
      select *
      from previews v
      where v.tenant_id = current_tenant() and ${condition} and ${isAfter(page)}
      order by v.created_at desc, v.id desc
      limit ${limit}
      offset ${offset}) v)`
}

const toPage = (ctx: Ctx, page: Page, [json]: Row) =>
  toListPage(JSON.parse(json as string) as ShownPreview[], page, toWire(ctx))

/** Selects from the deployment, so that one trip tells an empty list from a missing deployment. */
export const listPreviews = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...page }: z.output<typeof DeploymentRef> & Page) => {
    const query = sql<Row>`
      select ${selectPage(page, sql`v.parent_id = d.id`)}
      from deployments d
      where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant()`
    return toPage(ctx, page, requireRow(await run(ctx, query), 'deployment_not_found'))
  },
)

export const listWorkspacePreviews = verb(
  'deployments:read',
  async (ctx, { state, branch_contains, ...page }: WorkspacePreviewQuery) => {
    const conditions = [
      state && sql`v.state = any(${textArray(state)})`,
      branch_contains && sql`strpos(lower(v.branch), lower(${branch_contains})) > 0`,
    ].filter(condition => condition instanceof Object)
    const condition = conditions.length > 0 ? sql.join(conditions, sql` and `) : sql`true`
    const rows = await run(ctx, sql<Row>`select ${selectPage(page, condition)}`)
    return toPage(ctx, page, rows[0]!)
  },
  { byPolicy: true },
)

type PreviewParams = z.output<typeof PreviewRef>
const isPreview = ({ deployment_id, number: one }: PreviewParams): SQL => sql`
  v.parent_id = ${deployment_id}::uuid
    and v.tenant_id = current_tenant()
    and ${'id' in one ? sql`v.id = ${one.id}::uuid` : sql`v.number = ${one.number}`}`

export const readPreview = verb('deployments:read', async (ctx, ref: PreviewParams) => {
  const query = sql<Row>`
    select (to_jsonb(v) || jsonb_build_object('about', ${ABOUT}))::text
    from previews v
    where ${isPreview(ref)}`
  const [json] = requireRow(await run(ctx, query), 'preview_not_found')
  return toWire(ctx)(JSON.parse(json as string) as ShownPreview)
})

type ApprovalInput = z.output<typeof PullRef> & z.output<typeof Approval>

export const approvePreview = verb(
  'deployments:update',
  async (ctx, { deployment_id, number, head_sha }: ApprovalInput) => {
    const canApprove = sql`
      v.fork and v.head_sha = ${head_sha} and v.state in ('awaiting_approval', 'live', 'full')`
    const change = sql<ShownPreview>`
      update previews v
      set approved_sha = ${head_sha}, approved_by = current_actor(), updated_at = clock()
      where v.parent_id = ${deployment_id}::uuid
        and v.number = ${number}
        and v.tenant_id = current_tenant()
        and ${refuseUnless('preview_moved', canApprove)}
      returning v.*, ${ABOUT} as about`
    const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(previews, PREVIEW_RECORD) }
    const rows = await commit(ctx, 'preview.approved', change, { number }, parts)
    const row = requireRow(rows, 'preview_not_found')
    if (!ctx.requestInfo.replayed) ctx.waitUntil?.(reconcileAndNotify(ctx, deployment_id, row.id))
    return toWire(ctx)(row)
  },
)

/** Ends the preview of a pull request that stays open. A later push creates it again. */
export const removePreview = verb('deployments:delete', async (ctx, { deployment_id, number: one }: PreviewParams) => {
  const key = { parent_id: deployment_id, ...one }
  const row = requireRow(await commitEnd(ctx, key, 'removed'), 'preview_not_found')
  if (!ctx.requestInfo.replayed) ctx.waitUntil?.(concludeEnd(ctx, row))
})

/** If one of these fails, the sweep does the rest. */
async function concludeEnd(ctx: Ctx, { parent_id, deployment_id }: PreviewRow): Promise<void> {
  await logFailure(ctx, async () => {
    if (deployment_id) await deletePreviewDeployment(ctx, deployment_id)
    await notifyPullRequests(ctx, { within: [parent_id] })
  })
}

export const reconcileAndNotify = (ctx: Ctx, parent_id: string, id: string): Promise<void> =>
  logFailure(ctx, async () => {
    await reconcilePreview(ctx, { parent_id, id })
    await notifyPullRequests(ctx, { within: [parent_id] })
  })

async function logFailure(ctx: Ctx, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    ctx.platform.log({ level: 'warn', request_id: ctx.requestId, error: String(error) })
  }
}
