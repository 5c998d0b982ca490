// A pull request: for every deployment of its repository whose policy means it, a preview comes, follows or goes.
import { sql } from 'drizzle-orm'
import type { Integration } from '../integrations/githost.ts'
import { withHost } from '../integrations/with-host.ts'
import { type Caller, createKeylessCaller } from '../kernel/context.ts'
import { type Row, runAsSystem, textArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { matchesBranch } from './branch-globs.ts'
import { type DeliveryContext, UnsettledRefError } from './find-integration.ts'
import { endPreview, type PreviewRow, pullRef, reconcilePreview } from './preview-lifecycle.ts'
import type { PolicyRow } from './preview-policy.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'
import { type Commit, type PullRequest, repoKey } from './webhook-payloads.ts'

type PreviewParent = { id: string; repo_url: string; policy: PolicyRow; head_sha: string | null }
/** How often a host that has not heard yet of what it delivers is asked again. */
const MAX_UNSETTLED_ATTEMPTS = 3

export async function handlePullRequest(
  work: DeliveryContext,
  integration: Integration,
  event: PullRequest,
): Promise<void> {
  const { services, requestId, origin } = work
  const all = await findParents(work, integration, event)
  const parents = all.filter(
    ({ policy, head_sha }) => head_sha !== null || matchesBranch(policy.branches, event.branch),
  )
  if (parents.length === 0) return
  const { organization_id: organization, tenant_id: tenant } = integration
  const actor = { kind: 'push', id: null, name: event.sender, organization, tenant } as const
  const head = event.action === 'closed' ? null : await fetchHead(work, integration, event, parents)
  for (const { id: parent_id, policy } of parents) {
    const caller = createKeylessCaller(services, actor, requestId, origin)
    const which = { parent_id, number: event.number }
    if (!(await upsertPreview(caller, parent_id, policy, { ...event, head_sha: head?.sha ?? event.head_sha }))) continue
    if (event.action === 'closed') await endPreview(caller, which, 'closed')
    else await reconcilePreview(caller, which, head ?? undefined)
  }
  await notifyPullRequests(services, { within: parents.map(({ id }) => id) })
}

/** Where it is now, whichever of its deliveries this is; the delivery's word where the host shows no such ref. */
async function fetchHead(
  work: DeliveryContext,
  row: Integration,
  { number, head_sha }: PullRequest,
  parents: PreviewParent[],
): Promise<Commit> {
  const repo_url = parents[0]!.repo_url
  const head = await withHost(work, row, host => host.commit(repo_url, pullRef(number)))
  const lags = head !== null && head.sha !== head_sha && parents.some(parent => parent.head_sha === head.sha)
  if (lags && work.attempts < MAX_UNSETTLED_ATTEMPTS) throw new UnsettledRefError()
  return head ?? { sha: head_sha, message: null, author: null }
}

async function findParents(
  { services }: DeliveryContext,
  { id, tenant_id }: Integration,
  { repo_urls, number }: PullRequest,
) {
  const query = sql<Row>`
    select json_build_object('id', d.id, 'repo_url', d.source_config ->> 'repo_url', 'policy', to_json(p), 'head_sha', v.head_sha)::text
    from deployments d join preview_policies p on p.id = d.id left join previews v on v.parent_id = d.id and v.number = ${number}
    where d.repo_key is not null and d.repo_key = any(${textArray(repo_urls.map(repoKey))}) and d.tenant_id = ${tenant_id}::uuid
      and d.source_config ->> 'integration_id' = ${id} and d.deleting_at is null and d.parent_deployment_id is null
    order by d.id`
  const [rows] = (await runAsSystem(services.database, query)) as [Row[]]
  return rows.map(([text]) => JSON.parse(text as string) as PreviewParent)
}

/**
 * Written down before anything is made of it; a delivery that is older than the last that counted is none. Of those of one second an end
 * stays an end, unless the pull request was opened again.
 */
async function upsertPreview(
  caller: Caller,
  parent_id: string,
  policy: PolicyRow,
  event: PullRequest,
): Promise<boolean> {
  const { number, action, branch, head_sha, fork, at } = event
  const closed = action === 'closed'
  const first = closed ? 'ended' : !fork ? 'pending' : policy.forks === 'approve' ? 'awaiting_approval' : 'denied'
  const next = closed
    ? sql`v.state`
    : fork
      ? sql`case when excluded.state = 'awaiting_approval' and v.approved_sha = excluded.head_sha and v.state <> 'ended' then v.state else excluded.state end`
      : sql`case when v.state = 'ended' then excluded.state else v.state end`
  const change = sql<PreviewRow>`
    insert into previews as v (organization_id, tenant_id, parent_id, number, state, branch, head_sha, fork, changed_at, expires_at)
    select current_organization(), current_tenant(), d.id, ${number}, ${first}, ${branch}, ${head_sha}, ${fork}, ${at}::timestamptz,
      clock() + ${policy.ttl_seconds} * interval '1 second'
    from deployments d where d.id = ${parent_id}::uuid and d.tenant_id = current_tenant() and d.deleting_at is null
    on conflict (parent_id, number) do update set
      state = ${next}, branch = excluded.branch, head_sha = ${closed ? sql`v.head_sha` : sql`excluded.head_sha`}, fork = v.fork or excluded.fork,
      deployment_id = case when v.state = 'ended' and not ${closed} then null else v.deployment_id end,
      expires_at = case when v.state = 'ended' or v.head_sha <> excluded.head_sha then excluded.expires_at else v.expires_at end,
      changed_at = excluded.changed_at, updated_at = clock()
    where v.changed_at < excluded.changed_at or v.changed_at = excluded.changed_at and (v.state <> 'ended' or ${closed || action === 'reopened'})
    returning v.*`
  const lock = sql`select from deployments d where d.id = ${parent_id}::uuid and d.tenant_id = current_tenant() for update`
  const ctx = { ...caller, permission: 'deployments:update' as const }
  const rows = await commit(ctx, `preview.${action}`, change, { number, branch, head_sha, fork }, { lock })
  return rows.length > 0
}
