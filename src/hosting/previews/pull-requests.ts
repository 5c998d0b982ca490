// Handles pull requests: creates, updates or ends the previews of every deployment whose policy covers the branch.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { type Caller, createKeylessCaller } from '../../kernel/http/context.ts'
import { pullRefOf } from '../../protocol/host-kinds.ts'
import { lockDeployment } from '../deployments/service.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import { matchesBranch } from '../pushes/branch-globs.ts'
import { type DeliveryContext, UnsettledRefError, usesRepository } from '../pushes/find-integration.ts'
import { previews } from '../pushes/tables.ts'
import { type Commit, isSkipped, type PullRequest } from '../pushes/webhook-payloads.ts'
import { endBranchPreview, followBranch, isOnlyPreview } from './branch-previews.ts'
import type { PreviewRow } from './preview-deployment.ts'
import { endPreview, PREVIEW_RECORD, reconcilePreview } from './preview-lifecycle.ts'
import type { PolicyRow } from './preview-policy.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

/** `preview_sha`: the head of the pull request's preview, where it has one. */
type PreviewParent = { id: string; repo_url: string; policy: PolicyRow; preview_sha: string | null }

/** After this many attempts, the host's answer is accepted even if it looks older than the delivery. */
const MAX_UNSETTLED_ATTEMPTS = 3

/** `only`: the deployments that have missed the event. By default all that it concerns. */
export async function handlePullRequest(
  context: DeliveryContext,
  integration: Integration,
  event: PullRequest,
  only?: string[],
): Promise<void> {
  const { services, requestId, origin, request } = context
  const parents = (await findParents(context, integration, event)).filter(
    ({ id, policy, preview_sha }) =>
      (preview_sha !== null ||
        (policy.kinds.includes('pull_requests') && matchesBranch(policy.branches, event.branch))) &&
      (only?.includes(id) ?? true),
  )
  if (parents.length === 0) return
  const { organization_id: organization, tenant_id: tenant } = integration
  const actor = { kind: 'push', id: null, name: event.sender, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, requestId, origin, request)
  const head = event.action === 'closed' ? null : await fetchHead(context, integration, event, parents)
  if (isSkipped(head?.message ?? null)) return
  for (const { id: parent_id, policy } of parents) {
    const current = { ...event, head_sha: head?.sha ?? event.head_sha }
    const row = await upsertPreview(caller, parent_id, policy, current, head)
    if (!row) continue
    const key = { parent_id, id: row.id }
    if (event.action === 'closed') await endPreview(caller, key, 'closed')
    else {
      // A branch has one preview, and the pull request's takes its place.
      if (isOnlyPreview(row)) await endBranchPreview(caller, parent_id, row.branch)
      await reconcilePreview(caller, key, head ?? undefined)
    }
    if (event.action === 'closed' && !row.fork) await followBranch(context, integration, caller, parent_id, row.branch)
  }
  await notifyPullRequests(services, { within: parents.map(({ id }) => id) })
}

/** The pull request's head as the host has it now, or the delivery's where the host has no such ref. */
async function fetchHead(
  context: DeliveryContext,
  integration: Integration,
  { number, head_sha }: PullRequest,
  parents: PreviewParent[],
): Promise<Commit> {
  const repo_url = parents[0]!.repo_url
  const head = await withHost(context, integration, host => host.commit(repo_url, pullRefOf(integration.host, number)))
  const isHostBehind =
    head !== null && head.sha !== head_sha && parents.some(({ preview_sha }) => preview_sha === head.sha)
  if (isHostBehind && context.attempts < MAX_UNSETTLED_ATTEMPTS) throw new UnsettledRefError()
  return head ?? { sha: head_sha, message: null, author: null }
}

async function findParents(
  { services }: DeliveryContext,
  integration: Integration,
  { repo_urls, number }: PullRequest,
) {
  const query = sql<Row>`
    select json_build_object(
      'id', d.id,
      'repo_url', d.source_config ->> 'repo_url',
      'policy', to_json(p),
      'preview_sha', v.head_sha)::text
    from deployments d
    join preview_policies p on p.id = d.id
    left join previews v on v.parent_id = d.id and v.number = ${number}
    where ${usesRepository(integration, repo_urls)}
    order by d.id`
  const [rows] = (await runAsSystem(services.database, query)) as [Row[]]
  return rows.map(([text]) => JSON.parse(text as string) as PreviewParent)
}

function initialState({ action, fork }: PullRequest, policy: PolicyRow): PreviewRow['state'] {
  if (action === 'closed') return 'ended'
  if (!fork) return 'pending'
  return policy.forks === 'approve' ? 'awaiting_approval' : 'denied'
}

function nextState({ action, fork }: PullRequest) {
  if (action === 'closed') return sql`v.state`
  if (!fork) return sql`case when v.state in ('ended', 'failed') then excluded.state else v.state end`
  return sql`
    case
      when excluded.state = 'awaiting_approval' and v.approved_sha = excluded.head_sha and v.state <> 'ended'
        then v.state
      else excluded.state
    end`
}

/**
 * Stores the pull request before anything is created for it. Undefined where the delivery is older than the last one
 * that was applied. Hosts give times in seconds: within the same second, an ended preview stays ended unless reopened.
 */
async function upsertPreview(
  caller: Caller,
  parent_id: string,
  policy: PolicyRow,
  event: PullRequest,
  head: Commit | null,
): Promise<PreviewRow | undefined> {
  const { action, number, branch, head_sha, fork, at } = event
  const isClosed = action === 'closed'
  const change = sql<PreviewRow>`
    insert into previews as v
      (organization_id, tenant_id, parent_id, number, state, end_reason, branch, head_sha, commit, fork, changed_at,
        expires_at)
    select current_organization(), current_tenant(), d.id, ${number}, ${initialState(event, policy)},
      ${isClosed ? 'closed' : null}, ${branch},
      ${head_sha}, ${head && JSON.stringify(head)}::json, ${fork}, ${at}::timestamptz,
      clock() + ${policy.ttl_seconds} * interval '1 second'
    from deployments d
    where d.id = ${parent_id}::uuid and d.tenant_id = current_tenant() and d.deleting_at is null
    on conflict (parent_id, number) do update
      set state = ${nextState(event)},
        end_reason = ${isClosed ? sql`case when v.state = 'ended' then 'closed' else v.end_reason end` : sql`null`},
        branch = ${isClosed || branch.startsWith('refs/') ? sql`v.branch` : sql`excluded.branch`},
        head_sha = ${isClosed ? sql`v.head_sha` : sql`excluded.head_sha`},
        commit = ${isClosed ? sql`v.commit` : sql`excluded.commit`},
        fork = v.fork or excluded.fork,
        problem = ${isClosed ? sql`v.problem` : sql`null`},
        deployment_id = case when v.state = 'ended' and not ${isClosed} then null else v.deployment_id end,
        expires_at = case
          when v.state = 'ended' or v.head_sha <> excluded.head_sha then excluded.expires_at
          else v.expires_at
        end,
        changed_at = excluded.changed_at,
        updated_at = clock()
      where v.changed_at < excluded.changed_at
        or v.changed_at = excluded.changed_at and (v.state <> 'ended' or ${isClosed || action === 'reopened'})
    returning v.*`
  const ctx = { ...caller, permission: 'deployments:update' as const }
  const parts = { lock: lockDeployment(parent_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  const rows = await commit(ctx, `preview.${action}`, change, { number }, parts)
  return rows[0]
}
