// Creates, updates and ends previews: only of a commit that is allowed to run, and within the policy's limits.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { commit, describeWrite, runWrite, type WriteParts } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import type { Caller, Ctx } from '../../kernel/http/context.ts'
import { Failure, problemBody } from '../../kernel/http/errors.ts'
import type { HostName } from '../../protocol/host-kinds.ts'
import { listCopyNeeds } from '../../protocol/listener-policy.ts'
import { describeNewDeployment, validateNewDeployment } from '../deployments/create.ts'
import { deployPush } from '../deployments/deploy-push.ts'
import type { DeploymentRow } from '../deployments/rows.ts'
import { sealSecrets } from '../deployments/secret-versions.ts'
import { deleteDeployment, lockDeployment, patchDeployment } from '../deployments/service.ts'
import type { Preview } from '../deployments/tables.ts'
import { previews } from '../pushes/tables.ts'
import type { Commit } from '../pushes/webhook-payloads.ts'
import { branchNames, deploymentUrl, pullNames } from './preview-address.ts'
import { type CopySource, databaseOf, describeCopy } from './preview-database.ts'
import {
  type PreviewRow,
  previewDeployment,
  previewRef,
  previewRevisionConfig,
  previewSource,
  type SealedSecret,
} from './preview-deployment.ts'
import { insertEndHooks } from './preview-hooks.ts'
import type { PolicyRow } from './preview-policy.ts'
import { findRequestedCommit, storeRequestedCommit } from './requested-commit.ts'

export const PREVIEW_RECORD = recordColumns(previews, [
  'kind',
  'number',
  'state',
  'deployment_id',
  'branch',
  'head_sha',
  'fork',
  'approved_sha',
  'expires_at',
])
export type PreviewKey = { parent_id: string; id: string }
type PreviewFacts = {
  now: string
  parent: DeploymentRow
  /** Null for a request to a deployment without one. */
  policy: PolicyRow | null
  /** The kind of git host. Null where the integration was deleted. */
  host: HostName | null
  preview: PreviewRow
  /** The parent's. */
  secrets: SealedSecret[]
  /** The preview's deployment, unless it is being deleted. */
  child_id: string | null
  /** Its listener can put it to sleep. */
  can_sleep: boolean
  /** The deployment whose database it gets a copy of, if it gets one. */
  copy_source: CopySource | null
}
/** For a deployment without a policy. */
export const DEFAULT_POLICY = { ttl_seconds: 7 * 86_400, max: 10 } as const

/** Drops the request's idempotency key: one request or delivery can change several previews. */
export const previewCtx = (caller: Caller): Ctx => ({
  ...caller,
  permission: 'deployments:update',
  idempotency: null,
  ifMatch: null,
  withoutIfMatch: false,
})
/** Identifies the preview in an event. */
const aboutPreview = ({ number, branch }: Pick<PreviewRow, 'number' | 'branch'>) =>
  number === null ? { branch } : { number }

const selectPreviewFacts = ({ parent_id, id }: PreviewKey) => sql<Row>`
  with parent_secrets as (
    select s.name, s.sealed
    from deployments d
    cross join json_to_recordset(d.secrets) w(name text, version integer)
    join deployment_secrets s on s.deployment_id = d.id and s.name = w.name and s.version = w.version
    where d.id = ${parent_id}::uuid)
  select json_build_object(
    'now', clock_timestamp(),
    'host', (select i.host from integrations i where i.id::text = d.source_config ->> 'integration_id'),
    'parent', to_json(d),
    'policy', case when p.id is not null then to_json(p) end,
    'preview', to_json(v),
    'secrets', (select coalesce(json_agg(parent_secrets), '[]') from parent_secrets),
    'child_id', (select c.id from deployments c where c.id = v.deployment_id and c.deleting_at is null),
    'can_sleep', coalesce((l.policy -> 'features')::jsonb ? 'sleep', false),
    'copy_source', (
      select json_build_object(
        'id', o.id, 'name', o.name, 'deployment_type', o.deployment_type,
        'resource_spec', o.source_config -> 'resource_spec')
      from deployments o
      where o.id = coalesce(
          (coalesce(v.request -> 'database', p.database) ->> 'from_deployment_id')::uuid, d.id)
        and o.tenant_id = d.tenant_id))::text
  from previews v
  join deployments d on d.id = v.parent_id
  left join listeners l on l.id = d.listener_id
  left join preview_policies p on p.id = d.id
  where v.id = ${id}::uuid and v.parent_id = ${parent_id}::uuid and d.deleting_at is null
    and (p.id is not null or v.kind = 'request')`

export async function reconcilePreview(caller: Caller, key: PreviewKey, head?: Commit): Promise<void> {
  const [[row]] = (await runAsSystem(caller.database, selectPreviewFacts(key))) as [Row[]]
  if (!row) return
  const facts = JSON.parse(row[0] as string) as PreviewFacts
  const { preview, policy, child_id } = facts
  const isApproved = policy?.forks === 'approve' && preview.approved_sha === preview.head_sha
  if (['ended', 'denied', 'failed'].includes(preview.state) || (preview.fork && !isApproved)) return
  if (preview.kind === 'request' && !(await resolveRequest(caller, preview))) return
  const stored = head ?? preview.commit
  const { head_sha } = preview
  const commit =
    head_sha === null ? null : stored?.sha === head_sha ? stored : { sha: head_sha, message: null, author: null }
  if (child_id) await updatePreview(caller, facts, child_id, commit)
  else await createPreview(caller, facts, commit)
}

/** False where the ref has no commit, or another request came since. */
async function resolveRequest(caller: Caller, preview: PreviewRow): Promise<boolean> {
  if (previewSource(preview) !== 'githost' || preview.head_sha !== null) return true
  const ctx = previewCtx(caller)
  try {
    const found = await findRequestedCommit(caller, preview)
    if (!found) {
      await failPreview(
        ctx,
        preview,
        `The repository has no ${preview.request?.repo_ref ?? preview.branch}, or its integration is gone.`,
      )
      return false
    }
    Object.assign(preview, { head_sha: found.sha, commit: found })
    return await storeRequestedCommit(caller, preview, found)
  } catch (error) {
    await failRequest(ctx, preview, error)
    return false
  }
}

const expiryOf = ({ now, policy, preview }: PreviewFacts): string => {
  const { ttl_seconds } = policy ?? DEFAULT_POLICY
  return new Date(Date.parse(now) + (preview.request?.ttl_seconds ?? ttl_seconds) * 1000).toISOString()
}
const previewColumn = (facts: PreviewFacts): Preview => {
  const { kind, number, branch, head_sha } = facts.preview
  return { kind, number, branch, head_sha, expires_at: expiryOf(facts) }
}

// ---- created

/** Refusals that only another commit, policy or agent can change. Others are tried again. */
const LASTING = ['not_allowed_by_listener', 'source_rule', 'database_not_copied']

async function createPreview(caller: Caller, facts: PreviewFacts, commit: Commit | null): Promise<void> {
  const { policy, preview, copy_source } = facts
  const ctx = previewCtx(caller)
  const database = databaseOf(preview, policy)
  const copy = { database, database_needs: listCopyNeeds('database.mode') }
  const name = await chooseName(caller, facts)
  const url = deploymentUrl(caller.config.appsDomain, name)
  const [id, revision] = [crypto.randomUUID(), crypto.randomUUID()]
  try {
    const deployment = await previewDeployment(caller, { ...facts, name, url })
    validateNewDeployment(ctx, deployment)
    const sealed = await sealSecrets(ctx, id, deployment.secrets)
    const described = describeNewDeployment(deployment, sealed, branchLabels(facts))
    const statement = sql<Row>`
      select answer, has_webhooks
      from create_preview(
        ${id}::uuid,
        ${revision}::uuid,
        (${described}::jsonb || ${JSON.stringify(copy)}::jsonb)::json,
        jsonb_populate_record(null::previews, ${JSON.stringify(preview)}::jsonb),
        ${(policy ?? DEFAULT_POLICY).max},
        ${JSON.stringify({ ...previewColumn(facts), ...describeCopy(database, copy_source) })}::json,
        ${commit && JSON.stringify(commit)}::json,
        ${url},
        ${describeWrite(ctx)}::jsonb
      )`
    await runWrite(ctx, statement)
  } catch (error) {
    const code = error instanceof Failure ? error.code : null
    // A newer delivery moved the preview to another commit, and creates it. Or another sweep has created it.
    if (code === 'preview_moved') return
    if (code === 'previews_full') await markFull(ctx, preview)
    else if (preview.kind === 'request' || LASTING.includes(code ?? '')) await failRequest(ctx, preview, error)
    else throw error
  }
}

/** The address of a branch stays the same while a pull request of it has the preview. */
function branchLabels({ parent, policy, preview }: PreviewFacts): string[] | undefined {
  const { kind, fork, branch } = preview
  if (kind !== 'pull_request' || fork || !policy?.kinds.includes('branches')) return undefined
  return branchNames(parent.name, branch)
}

/** A branch may read like another one, and anybody who may create deployments can give one this name. */
async function chooseName({ database }: Caller, { parent, preview }: PreviewFacts): Promise<string> {
  const { number, branch } = preview
  const names = number === null ? branchNames(parent.name, branch) : pullNames(parent.name, number)
  const query = sql<Row>`
    select n.name
    from unnest(${textArray(names)}) with ordinality n(name, place)
    where not exists (
        select from deployments d
        where d.tenant_id = ${parent.tenant_id}::uuid and d.name = n.name and d.deleting_at is null)
      and not exists (select from projects p where p.tenant_id = ${parent.tenant_id}::uuid and p.name = n.name)
    order by n.place
    limit 1`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  return (row?.[0] as string | undefined) ?? names.at(-1)!
}

/** Existing previews keep their place. The sweep creates this one when another one ends. */
async function markFull(ctx: Ctx, preview: PreviewRow): Promise<void> {
  const { id, parent_id } = preview
  const change = sql<PreviewRow>`
    update previews v
    set state = 'full', updated_at = clock()
    where v.id = ${id}::uuid and v.tenant_id = current_tenant() and v.state not in ('full', 'ended')
    returning v.*`
  const parts = { lock: lockDeployment(parent_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  await commit(ctx, 'preview.refused', change, { ...aboutPreview(preview), reason: 'previews_full' }, parts)
}

/** The preview has the answer, because nobody waits for what a request started. */
async function failRequest(ctx: Ctx, preview: PreviewRow, error: unknown): Promise<void> {
  if (!(error instanceof Failure)) throw error
  const { status, detail } = await problemBody(error, ctx.requestId, '')
  if (status >= 500 || status === 429) throw error
  await failPreview(ctx, preview, detail)
}

async function failPreview(ctx: Ctx, preview: PreviewRow, problem: string): Promise<void> {
  const { id, parent_id, changed_at } = preview
  const change = sql<PreviewRow>`
    update previews v
    set state = 'failed', problem = ${problem.slice(0, 2000)}, updated_at = clock()
    where v.id = ${id}::uuid
      and v.tenant_id = current_tenant()
      and v.changed_at = ${changed_at}::timestamptz
      and v.state in ('pending', 'full', 'live')
    returning v.*`
  const parts = { lock: lockDeployment(parent_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  await commit(ctx, 'preview.refused', change, { ...aboutPreview(preview), reason: 'failed' }, parts)
}

// ---- updated

async function updatePreview(
  caller: Caller,
  facts: PreviewFacts,
  child_id: string,
  commitInfo: Commit | null,
): Promise<void> {
  const { preview } = facts
  const ctx = previewCtx(caller)
  // A requested one is `live` once its revision is made.
  if (preview.kind === 'request' && !(await deployUpdate(ctx, facts, child_id, commitInfo))) return
  const statement = sql<Row>`
    select answer, has_webhooks
    from move_preview(
      ${child_id}::uuid,
      ${preview.id}::uuid,
      ${JSON.stringify(previewColumn(facts))}::json,
      ${describeWrite(ctx)}::jsonb
    )`
  await runWrite(ctx, statement)
  if (preview.kind !== 'request') await deployUpdate(ctx, facts, child_id, commitInfo)
}

/** False where a request is refused. */
async function deployUpdate(
  ctx: Ctx,
  { preview, host, now }: PreviewFacts,
  deployment_id: string,
  commitInfo: Commit | null,
): Promise<boolean> {
  if (commitInfo === null) return deployArtifact(ctx, preview, deployment_id)
  const ref = previewRef(preview, host)
  await deployPush(ctx, {
    deployment_id,
    refs: [ref],
    queried_at: now,
    ignoresBuildOnPush: true,
    journalData: { ref, after: preview.head_sha, ...(preview.number !== null && { preview: preview.number }) },
    commit: commitInfo,
  })
  return true
}

async function deployArtifact(ctx: Ctx, preview: PreviewRow, deployment_id: string): Promise<boolean> {
  try {
    await patchDeployment(ctx, {
      deployment_id,
      source_revision_config: previewRevisionConfig(preview, null),
      dry_run: false,
      clear: [],
    })
    return true
  } catch (error) {
    await failRequest(ctx, preview, error)
    return false
  }
}

// ---- ended

/**
 * `closed`: its pull request was, in pull-requests.ts. `branch_deleted`, `pull_request` (its branch has one now): in
 * branch-previews.ts. `removed`: by a request, in previews.ts. sweep.ts finds the others; `deleted`: its own deployment
 * was. Removing a policy ends its previews without one, in preview-policy.ts.
 */
export type EndReason =
  | 'closed'
  | 'branch_deleted'
  | 'pull_request'
  | 'expired'
  | 'parent_deleted'
  | 'deleted'
  | 'removed'

/** Ends the preview and queues its hook, then deletes its deployment. The sweep deletes what a crash leaves behind. */
export async function endPreview(caller: Caller, key: PreviewKey, reason: EndReason): Promise<void> {
  const [row] = await commitEnd(previewCtx(caller), key, reason)
  if (row?.deployment_id) await deletePreviewDeployment(caller, row.deployment_id)
}

/** A pull request's preview may be named by its number. */
export type EndedPreview = { parent_id: string } & ({ id: string } | { number: number })
export function commitEnd(ctx: Ctx, { parent_id, ...one }: EndedPreview, reason: EndReason): Promise<PreviewRow[]> {
  const change = sql<PreviewRow>`
    update previews v
    set state = 'ended', end_reason = ${reason}, updated_at = clock()
    where v.parent_id = ${parent_id}::uuid
      and ${'id' in one ? sql`v.id = ${one.id}::uuid` : sql`v.number = ${one.number}`}
      and v.tenant_id = current_tenant()
      and v.state <> 'ended'
    returning v.*`
  const parts: WriteParts = {
    ctesAfter: [insertEndHooks('changed', ctx.config.appsDomain)],
    lock: lockDeployment(parent_id),
    changes: changedMembers(previews, PREVIEW_RECORD),
  }
  const data = sql`case
    when number is null then json_build_object('branch', branch, 'reason', ${reason}::text)
    else json_build_object('number', number, 'reason', ${reason}::text)
  end`
  return commit(ctx, 'preview.ended', change, data, parts)
}

export async function deletePreviewDeployment(caller: Caller, deployment_id: string): Promise<void> {
  await deleteDeployment(
    { ...caller, idempotency: null, ifMatch: null },
    { deployment_id, delete_tracing_project: true },
  ).catch((error: unknown) => {
    if (!(error instanceof Failure && error.code === 'deployment_not_found')) throw error
  })
}
