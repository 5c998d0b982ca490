// Creates, updates and ends previews: only of a commit that is allowed to run, and within the policy's limits.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { commit, describeWrite, runWrite, type WriteParts } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import type { Caller, Ctx } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { type HostName, pullRefOf } from '../../protocol/host-kinds.ts'
import { ResourceSpec } from '../../protocol/resources.schema.ts'
import { describeNewDeployment, validateNewDeployment } from '../deployments/create.ts'
import { deployPush } from '../deployments/deploy-push.ts'
import type { DeploymentRow } from '../deployments/rows.ts'
import type { NewDeployment } from '../deployments/schema.ts'
import { sealSecrets } from '../deployments/secret-versions.ts'
import { deleteDeployment, lockDeployment } from '../deployments/service.ts'
import type { Preview } from '../deployments/tables.ts'
import { previews } from '../pushes/tables.ts'
import type { Commit } from '../pushes/webhook-payloads.ts'
import { deploymentUrl, previewName } from './preview-address.ts'
import { insertEndHooks } from './preview-hooks.ts'
import { overlaySealContext, type PolicyRow } from './preview-policy.ts'

export type PreviewRow = typeof previews.$inferSelect
export const PREVIEW_RECORD = recordColumns(previews, [
  'number',
  'state',
  'deployment_id',
  'branch',
  'head_sha',
  'fork',
  'approved_sha',
  'expires_at',
])
/** Identifies a preview by its parent deployment and the number of the pull request. */
export type PreviewKey = { parent_id: string; number: number }
type SealedSecret = { name: string; sealed: string }
type PreviewFacts = {
  now: string
  parent: DeploymentRow
  policy: PolicyRow
  /** The kind of git host. Null where the integration was deleted. */
  host: HostName | null
  preview: PreviewRow
  /** The parent's. */
  secrets: SealedSecret[]
  /** The preview's deployment, unless it is being deleted. */
  child_id: string | null
  /** Its listener can put it to sleep. */
  can_sleep: boolean
}

/** Drops the request's idempotency key: one request or delivery can change several previews. */
const previewCtx = (caller: Caller): Ctx => ({
  ...caller,
  permission: 'deployments:update',
  idempotency: null,
  ifMatch: null,
  withoutIfMatch: false,
})
const pullRef = ({ host, preview }: PreviewFacts): string => pullRefOf(host ?? 'github', preview.number)

const selectPreviewFacts = ({ parent_id, number }: PreviewKey) => sql<Row>`
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
    'policy', to_json(p),
    'preview', to_json(v),
    'secrets', (select coalesce(json_agg(parent_secrets), '[]') from parent_secrets),
    'child_id', (select c.id from deployments c where c.id = v.deployment_id and c.deleting_at is null),
    'can_sleep', coalesce((l.policy -> 'features')::jsonb ? 'sleep', false))::text
  from previews v
  join deployments d on d.id = v.parent_id
  left join listeners l on l.id = d.listener_id
  join preview_policies p on p.id = d.id
  where v.parent_id = ${parent_id}::uuid and v.number = ${number} and d.deleting_at is null`

export async function reconcilePreview(caller: Caller, key: PreviewKey, head?: Commit): Promise<void> {
  const [[row]] = (await runAsSystem(caller.database, selectPreviewFacts(key))) as [Row[]]
  if (!row) return
  const facts = JSON.parse(row[0] as string) as PreviewFacts
  const { preview, policy, child_id } = facts
  const isApproved = policy.forks === 'approve' && preview.approved_sha === preview.head_sha
  if (preview.state === 'ended' || preview.state === 'denied' || (preview.fork && !isApproved)) return
  const stored = head ?? preview.commit
  const commit = stored?.sha === preview.head_sha ? stored : { sha: preview.head_sha, message: null, author: null }
  if (child_id) await updatePreview(caller, facts, child_id, commit)
  else await createPreview(caller, facts, commit)
}

const expiryOf = ({ now, policy }: PreviewFacts): string =>
  new Date(Date.parse(now) + policy.ttl_seconds * 1000).toISOString()
const previewColumn = (facts: PreviewFacts): Preview => {
  const { number, branch, head_sha } = facts.preview
  return { number, branch, head_sha, expires_at: expiryOf(facts) }
}

// ---- created

async function createPreview(caller: Caller, facts: PreviewFacts, commit: Commit): Promise<void> {
  const { policy, preview } = facts
  const ctx = previewCtx(caller)
  const url = deploymentUrl(caller.config.appsDomain, previewName(facts.parent.name, preview.number))
  const [id, revision] = [crypto.randomUUID(), crypto.randomUUID()]
  const deployment = await previewDeployment(caller, facts, url)
  validateNewDeployment(ctx, deployment)
  const statement = sql<Row>`
    select answer, has_webhooks
    from create_preview(
      ${id}::uuid,
      ${revision}::uuid,
      ${describeNewDeployment(deployment, await sealSecrets(ctx, id, deployment.secrets))}::json,
      jsonb_populate_record(null::previews, ${JSON.stringify(preview)}::jsonb),
      ${policy.max},
      ${JSON.stringify(previewColumn(facts))}::json,
      ${JSON.stringify(commit)}::json,
      ${url},
      ${describeWrite(ctx)}::jsonb
    )`
  try {
    await runWrite(ctx, statement)
  } catch (error) {
    const code = error instanceof Failure ? error.code : null
    // A newer delivery moved the preview to another commit, and creates it. Or another sweep has created it.
    if (code === 'preview_moved') return
    if (code !== 'previews_full') throw error
    await markFull(ctx, preview)
  }
}

/** Existing previews keep their place. The sweep creates this one when another one ends. */
async function markFull(ctx: Ctx, { id, parent_id, number }: PreviewRow): Promise<void> {
  const change = sql<PreviewRow>`
    update previews v
    set state = 'full', updated_at = clock()
    where v.id = ${id}::uuid and v.tenant_id = current_tenant() and v.state not in ('full', 'ended')
    returning v.*`
  const parts = { lock: lockDeployment(parent_id), changes: changedMembers(previews, PREVIEW_RECORD) }
  await commit(ctx, 'preview.refused', change, { number, reason: 'previews_full' }, parts)
}

async function previewDeployment(caller: Caller, facts: PreviewFacts, url: string | null): Promise<NewDeployment> {
  const { parent, policy, preview, can_sleep } = facts
  const { platform_config_path } = parent.source_revision_config as { platform_config_path: string }
  // One deployment serves a URL: the parent keeps its own.
  const { custom_url: _, ...config } = parent.source_config as NewDeployment['source_config']
  return {
    name: previewName(parent.name, preview.number),
    source: 'githost',
    source_config: { ...config, build_on_push: false, ...mergeResources(config, policy, can_sleep) },
    source_revision_config: {
      repo_ref: pullRef(facts),
      platform_config_path,
      ...({ repo_commit_sha: preview.head_sha } as object),
    },
    secrets: await previewSecrets(caller, facts, url),
    protection: policy.protection,
  }
}

/** A preview that nobody asks for a quarter of an hour sleeps, unless the policy says another `min_scale`. */
const SLEEPING: ResourceSpec = { min_scale: 0, idle_seconds: 900 }

/** The policy's members override the parent's. Where the combination is invalid, the policy's alone apply. */
function mergeResources(config: NewDeployment['source_config'], { resource_spec }: PolicyRow, canSleep: boolean) {
  const own: ResourceSpec = canSleep ? { ...SLEEPING, ...resource_spec } : (resource_spec ?? {})
  if (Object.keys(own).length === 0) return {}
  const merged = ResourceSpec.safeParse({ ...config.resource_spec, ...own })
  return { resource_spec: merged.success ? merged.data : (resource_spec as ResourceSpec) }
}

/** A preview of a fork runs code of strangers, so it gets none of the parent's secrets. */
async function previewSecrets(
  { sealer }: Caller,
  { parent, policy, preview, secrets }: PreviewFacts,
  url: string | null,
) {
  const openSecrets = (sealedSecrets: SealedSecret[], sealContext: (name: string) => string) =>
    Promise.all(
      sealedSecrets.map(
        async ({ name, sealed }) => [name, await sealer.open(sealed, parent.id, sealContext(name))] as const,
      ),
    )
  const inherited = preview.fork ? [] : await openSecrets(secrets, name => name)
  const overlay = await openSecrets(policy.secrets, overlaySealContext)
  const variables: [string, string][] = [
    ['PREVIEW_ID', String(preview.number)],
    ['PREVIEW_BRANCH', preview.branch],
    ...(url ? [['PREVIEW_URL', url] as [string, string]] : []),
  ]
  const values = new Map([...inherited, ...overlay, ...variables])
  return [...values].map(([name, value]) => ({ name, value }))
}

// ---- updated

async function updatePreview(caller: Caller, facts: PreviewFacts, child_id: string, commitInfo: Commit): Promise<void> {
  const { preview, now } = facts
  const { number, head_sha } = preview
  const ref = pullRef(facts)
  const ctx = previewCtx(caller)
  const statement = sql<Row>`
    select answer, has_webhooks
    from move_preview(
      ${child_id}::uuid,
      ${preview.id}::uuid,
      ${JSON.stringify(previewColumn(facts))}::json,
      ${describeWrite(ctx)}::jsonb
    )`
  await runWrite(ctx, statement)
  await deployPush(ctx, {
    deployment_id: child_id,
    refs: [ref],
    queried_at: now,
    ignoresBuildOnPush: true,
    journalData: { ref, after: head_sha, preview: number },
    commit: commitInfo,
  })
}

// ---- ended

/**
 * `closed`: its pull request was, in pull-requests.ts. `removed`: by a request, in previews.ts. sweep.ts finds the
 * others; `deleted`: its own deployment was. Removing a policy ends its previews without one, in preview-policy.ts.
 */
export type EndReason = 'closed' | 'expired' | 'parent_deleted' | 'deleted' | 'removed'

/** Ends the preview and queues its hook, then deletes its deployment. The sweep deletes what a crash leaves behind. */
export async function endPreview(caller: Caller, key: PreviewKey, reason: EndReason): Promise<void> {
  const [row] = await commitEnd(previewCtx(caller), key, reason)
  if (row?.deployment_id) await deletePreviewDeployment(caller, row.deployment_id)
}

export function commitEnd(ctx: Ctx, { parent_id, number }: PreviewKey, reason: EndReason): Promise<PreviewRow[]> {
  const change = sql<PreviewRow>`
    update previews v
    set state = 'ended', end_reason = ${reason}, updated_at = clock()
    where v.parent_id = ${parent_id}::uuid
      and v.number = ${number}
      and v.tenant_id = current_tenant()
      and v.state <> 'ended'
    returning v.*`
  const parts: WriteParts = {
    ctesAfter: [insertEndHooks('changed', ctx.config.appsDomain)],
    lock: lockDeployment(parent_id),
    changes: changedMembers(previews, PREVIEW_RECORD),
  }
  return commit(ctx, 'preview.ended', change, { number, reason }, parts)
}

export async function deletePreviewDeployment(caller: Caller, deployment_id: string): Promise<void> {
  await deleteDeployment(
    { ...caller, idempotency: null, ifMatch: null },
    { deployment_id, delete_tracing_project: true },
  ).catch((error: unknown) => {
    if (!(error instanceof Failure && error.code === 'deployment_not_found')) throw error
  })
}
