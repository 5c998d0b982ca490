// Previews of branches: created, updated and ended with the branch, unless a pull request of it has one.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, refuseUnless, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { type Caller, createKeylessCaller } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { lockDeployment } from '../deployments/service.ts'
import type { Commit, Integration } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import { matchesBranch } from '../pushes/branch-globs.ts'
import { type DeliveryContext, UnsettledRefError, usesRepository } from '../pushes/find-integration.ts'
import { previews } from '../pushes/tables.ts'
import { isSkipped, type Push, refSpellings } from '../pushes/webhook-payloads.ts'
import { branchRef, type PreviewRow } from './preview-deployment.ts'
import { endPreview, PREVIEW_RECORD, previewCtx, reconcilePreview } from './preview-lifecycle.ts'
import type { PolicyRow } from './preview-policy.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

/** `preview`: that of the branch, of any state. */
type BranchParent = {
  id: string
  repo_url: string
  follows_branch: boolean
  has_pull_request: boolean
  policy: PolicyRow
  preview: PreviewRow | null
}
type Moved = Pick<Push, 'repo_urls' | 'ref' | 'before' | 'after' | 'created' | 'deleted' | 'sender' | 'commit'>

/** After this many attempts, the host's answer is accepted even if it looks older than the delivery. */
const MAX_UNSETTLED_ATTEMPTS = 3
/** The previews of a deployment, with those that wait for room. Nothing else bounds how many branches are pushed. */
const MAX_FOLLOWED = 200
const BRANCH_PREFIX = 'refs/heads/'

/**
 * Selects an open pull request `o` of the branch that counts: of this repository, also where its preview was removed.
 * A branch has one preview, and that is the pull request's.
 */
export const isOpenPull = (parent: SQL, branch: SQL): SQL => sql`
  o.parent_id = ${parent}
    and o.branch = ${branch}
    and o.kind = 'pull_request'
    and not o.fork
    and (o.state not in ('ended', 'denied') or o.end_reason in ('removed', 'expired', 'deleted'))`
/** The same of a row that a delivery has just stored. */
export const isOnlyPreview = ({ fork, state }: PreviewRow): boolean => !fork && state !== 'ended' && state !== 'denied'

/**
 * Brings the previews of the branch to its head, as the host has it now: late, early and repeated deliveries have the
 * same result. `only`: the deployments that have missed the event. By default all that it concerns.
 */
export async function handleBranch(
  context: DeliveryContext,
  integration: Integration,
  push: Moved,
  only?: string[],
): Promise<void> {
  if (!push.ref.startsWith(BRANCH_PREFIX)) return
  const branch = push.ref.slice(BRANCH_PREFIX.length)
  const { queried_at, parents: all } = await findParents(context, integration, push.repo_urls, branch)
  const parents = all.filter(parent => (only?.includes(parent.id) ?? true) && isFollowed(parent, branch))
  if (parents.length === 0) return
  const head = await withHost(context, integration, host => host.commit(parents[0]!.repo_url, push.ref))
  // The API of a host can lag behind its own deliveries.
  const isHostBehind = push.deleted
    ? head !== null && !push.created
    : head === null || (head.sha === push.before && push.after !== push.before)
  if (isHostBehind && context.attempts < MAX_UNSETTLED_ATTEMPTS) throw new UnsettledRefError()
  // An unreachable repository looks like a deleted branch. Only the delivery of a deletion proves that it is gone.
  if (head === null && !push.deleted) return
  const caller = pushCaller(context, integration, push.sender)
  const commitInfo = head && push.commit?.sha === head.sha ? push.commit : head
  for (const parent of parents) await moveBranch(caller, parent, branch, queried_at, commitInfo)
  await notifyPullRequests(context.services, { within: parents.map(({ id }) => id) })
}

/** A pull request of the branch was closed: the branch has a preview of its own again, if it is still there. */
export async function followBranch(
  context: DeliveryContext,
  integration: Integration,
  caller: Caller,
  parent_id: string,
  branch: string,
): Promise<void> {
  const { queried_at, parents } = await findParents(context, integration, null, branch, parent_id)
  const parent = parents.find(one => isFollowed(one, branch))
  if (!parent) return
  const head = await withHost(context, integration, host => host.commit(parent.repo_url, branchRef(branch)))
  if (head) await moveBranch(caller, parent, branch, queried_at, head)
}

const pushCaller = (
  { services, requestId, origin, request }: DeliveryContext,
  { organization_id: organization, tenant_id: tenant }: Integration,
  name: string | null,
): Caller =>
  createKeylessCaller(services, { kind: 'push', id: null, name, organization, tenant }, requestId, origin, request)

/** The parent deploys its own branch. A preview that exists follows its branch until it ends. */
const isFollowed = ({ policy, preview, follows_branch, has_pull_request }: BranchParent, branch: string): boolean =>
  (preview !== null && preview.kind === 'branch' && preview.state !== 'ended') ||
  (!has_pull_request && !follows_branch && policy.kinds.includes('branches') && matchesBranch(policy.branches, branch))

async function moveBranch(
  caller: Caller,
  { id: parent_id, policy, preview }: BranchParent,
  branch: string,
  queried_at: string,
  head: Commit | null,
): Promise<void> {
  if (head === null) {
    if (preview && preview.state !== 'ended' && isOlder(preview, queried_at))
      await endPreview(caller, { parent_id, id: preview.id }, 'branch_deleted')
    return
  }
  if (isSkipped(head.message)) return
  const row = await upsertBranch(caller, parent_id, policy, branch, queried_at, head)
  if (row) await reconcilePreview(caller, { parent_id, id: row.id }, head)
}

const isOlder = ({ changed_at }: PreviewRow, at: string): boolean => Date.parse(changed_at) < Date.parse(at)

/**
 * Stores the branch before anything is created for it. Undefined where a later answer of the host was applied, where a
 * pull request of the branch is open, where a request keeps the preview, or where nothing changed since it ended.
 */
async function upsertBranch(
  caller: Caller,
  parent_id: string,
  policy: PolicyRow,
  branch: string,
  queried_at: string,
  head: Commit,
): Promise<PreviewRow | undefined> {
  const hasRoom = sql`(
    select count(*)
    from (
      select
      from previews o
      where o.parent_id = d.id and o.kind = 'branch' and o.state <> 'ended' and o.branch <> ${branch}
      limit ${MAX_FOLLOWED}) others) < ${MAX_FOLLOWED}`
  const change = sql<PreviewRow>`
    insert into previews as v
      (organization_id, tenant_id, parent_id, kind, state, branch, head_sha, commit, fork, changed_at, expires_at)
    select current_organization(), current_tenant(), d.id, 'branch', 'pending', ${branch}, ${head.sha},
      ${JSON.stringify(head)}::json, false, ${queried_at}::timestamptz,
      clock() + ${policy.ttl_seconds} * interval '1 second'
    from deployments d
    where d.id = ${parent_id}::uuid and d.tenant_id = current_tenant() and d.deleting_at is null
      and not exists (select from previews o where ${isOpenPull(sql`d.id`, sql`${branch}::text`)})
      and ${refuseUnless('previews_full', hasRoom)}
    on conflict (parent_id, branch) where number is null do update
      set kind = 'branch',
        request = null,
        problem = null,
        state = case when v.state in ('ended', 'failed') then 'pending' else v.state end,
        end_reason = null,
        head_sha = excluded.head_sha,
        commit = excluded.commit,
        deployment_id = case when v.state = 'ended' then null else v.deployment_id end,
        expires_at = case
          when v.state = 'ended' or v.head_sha is distinct from excluded.head_sha then excluded.expires_at
          else v.expires_at
        end,
        changed_at = excluded.changed_at,
        updated_at = clock()
      where v.changed_at < excluded.changed_at
        and (v.kind = 'branch' or v.state = 'ended')
        and (v.state <> 'ended'
          or v.kind <> 'branch'
          or v.head_sha is distinct from excluded.head_sha
          or coalesce(v.end_reason, '') not in ('removed', 'expired', 'deleted'))
    returning v.*`
  const parts = { lock: lockDeployment(parent_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  try {
    const [row] = await commit(previewCtx(caller), 'preview.pushed', change, { branch, head_sha: head.sha }, parts)
    return row
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'previews_full') throw error
    await recordFull(caller, parent_id, branch)
    return undefined
  }
}

/** The branch has its preview with the next push that finds room. */
async function recordFull(caller: Caller, parent_id: string, branch: string): Promise<void> {
  const policy = sql<PolicyRow>`
    select p.* from preview_policies p where p.id = ${parent_id}::uuid and p.tenant_id = current_tenant()`
  await commit(previewCtx(caller), 'preview_policy.full', policy, { branch, max: MAX_FOLLOWED })
}

/** Ends the preview of a branch that a pull request has now. */
export async function endBranchPreview(caller: Caller, parent_id: string, branch: string): Promise<void> {
  const query = sql<Row>`
    select v.id
    from previews v
    where v.parent_id = ${parent_id}::uuid and v.branch = ${branch} and v.kind = 'branch' and v.state <> 'ended'`
  const [[row]] = (await runAsSystem(caller.database, query)) as [Row[]]
  if (row) await endPreview(caller, { parent_id, id: row[0] as string }, 'pull_request')
}

async function findParents(
  { services }: DeliveryContext,
  integration: Integration,
  repo_urls: string[] | null,
  branch: string,
  parent_id?: string,
): Promise<{ queried_at: string; parents: BranchParent[] }> {
  const isParent =
    parent_id === undefined ? usesRepository(integration, repo_urls ?? []) : sql`d.id = ${parent_id}::uuid`
  const query = sql<Row>`
    with parents as (
      select
        d.id,
        d.source_config ->> 'repo_url' as repo_url,
        d.source_revision_config ->> 'repo_ref' = any(${textArray(refSpellings(branchRef(branch)))}) as follows_branch,
        exists (select from previews o where ${isOpenPull(sql`d.id`, sql`${branch}::text`)}) as has_pull_request,
        to_json(p) as policy,
        case when v.id is not null then to_json(v) end as preview
      from deployments d
      join preview_policies p on p.id = d.id
      left join previews v on v.parent_id = d.id and v.branch = ${branch} and v.number is null
      where ${isParent} and d.deleting_at is null)
    select clock_timestamp()::text, coalesce(json_agg(to_json(parents) order by id), '[]')::text
    from parents`
  const [[row]] = (await runAsSystem(services.database, query)) as [Row[]]
  const [queried_at, parents] = row as [string, string]
  return { queried_at, parents: JSON.parse(parents) as BranchParent[] }
}
