// A preview comes to be, follows its pull request, and goes: always of the commit that may run, within the policy's bounds.
import { sql } from 'drizzle-orm'
import { deployPush } from '../deployments/deploy-push.ts'
import { isDeploymentInTenant, lockDeployment } from '../deployments/revision-queue.ts'
import type { DeploymentRow } from '../deployments/rows.ts'
import type { NewDeployment } from '../deployments/schema.ts'
import { deleteDeployment, insertDeployment, type PreviewCreation } from '../deployments/service.ts'
import type { Caller, Ctx } from '../kernel/context.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { Failure } from '../kernel/errors.ts'
import { commit } from '../kernel/journal.ts'
import { ResourceSpec } from '../protocol/resources.schema.ts'
import type { Preview } from '../tables/deployments.ts'
import type { previews } from '../tables/pushes.ts'
import { deploymentUrl, previewName } from './preview-address.ts'
import { insertHooks } from './preview-hooks.ts'
import { overlaySealContext, type PolicyRow } from './preview-policy.ts'
import type { Commit } from './webhook-payloads.ts'

export type PreviewRow = typeof previews.$inferSelect
/** Which pull request of which deployment. */
export type PreviewKey = { parent_id: string; number: number }
type SealedSecret = { name: string; sealed: string }
type PreviewFacts = {
  now: string
  parent: DeploymentRow
  policy: PolicyRow
  preview: PreviewRow
  secrets: SealedSecret[]
  /** The preview's deployment, unless it is going or gone. */
  child: string | null
}

/** Whoever acts, for changes of previews; a caller's idempotency key is its request's own. */
const previewCtx = (caller: Caller): Ctx => ({
  ...caller,
  ...{ permission: 'deployments:update', idempotency: null, ifMatch: null, withoutIfMatch: false },
  config: { ...caller.config, rateLimit: 0 },
})
export const pullRef = (number: number): string => `refs/pull/${number}/head`

const selectPreviewFacts = ({ parent_id, number }: PreviewKey) => sql<Row>`
  select json_build_object('now', clock_timestamp(), 'parent', to_json(d), 'policy', to_json(p), 'preview', to_json(v),
    'secrets', coalesce((select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
      from json_to_recordset(d.secrets) w(name text, version integer)
      join deployment_secrets s on s.deployment_id = d.id and s.name = w.name and s.version = w.version), '[]'),
    'child', (select c.id from deployments c where c.id = v.deployment_id and c.deleting_at is null))::text
  from previews v join deployments d on d.id = v.parent_id join preview_policies p on p.id = d.id
  where v.parent_id = ${parent_id}::uuid and v.number = ${number} and d.deleting_at is null`

/** What waits for nothing more is made, or brought to where its pull request is. */
export async function reconcilePreview(caller: Caller, which: PreviewKey, commit?: Commit): Promise<void> {
  const [[row]] = (await runAsSystem(caller.database, selectPreviewFacts(which))) as [Row[]]
  if (!row) return
  const known = JSON.parse(row[0] as string) as PreviewFacts
  const { preview, policy, child } = known
  const approved = policy.forks === 'approve' && preview.approved_sha === preview.head_sha
  if (preview.state === 'ended' || preview.state === 'denied' || (preview.fork && !approved)) return
  const shown = commit?.sha === preview.head_sha ? commit : { sha: preview.head_sha, message: null, author: null }
  if (child) await updatePreview(caller, known, child, shown)
  else await createPreview(caller, known, shown)
}

/** From the last push on. */
const expiryOf = ({ now, policy }: PreviewFacts): string =>
  new Date(Date.parse(now) + policy.ttl_seconds * 1000).toISOString()
const previewColumn = (known: PreviewFacts): Preview => {
  const { number, branch, head_sha } = known.preview
  return { number, branch, head_sha, expires_at: expiryOf(known) }
}

// ---- made

async function createPreview(caller: Caller, known: PreviewFacts, commit: Commit): Promise<void> {
  const { parent, policy, preview } = known
  const ctx = previewCtx(caller)
  const mineOnly = sql`v.parent_id = ${parent.id}::uuid and v.tenant_id = current_tenant()`
  const others = sql`(select count(*) from previews v where ${mineOnly} and v.number <> ${preview.number}
    and v.state <> 'ended' and v.deployment_id is not null)`
  const still = sql`exists (select from previews v where ${mineOnly} and v.number = ${preview.number}
    and v.head_sha = ${preview.head_sha} and v.state <> 'ended' and v.approved_sha is not distinct from ${preview.approved_sha})`
  const raised = sql`raised as (
    update previews v set state = 'live', deployment_id = changed.id, expires_at = ${expiryOf(known)}::timestamptz, updated_at = clock()
    from changed where ${mineOnly} and v.number = ${preview.number} returning v.*, true as had_deployment)`
  const child: PreviewCreation = {
    parent_deployment_id: parent.id,
    preview: previewColumn(known),
    commit,
    lock: lockDeployment(parent.id),
    guard: sql`case when not ${still} then refuse('preview_moved') when ${others} >= ${policy.max} then refuse('previews_full') else true end`,
    also: [
      raised,
      insertHooks(
        'raised',
        sql`preview_policies`,
        'preview.created',
        caller.config.appsDomain,
        sql`(select name from changed)`,
      ),
    ],
  }
  try {
    await insertDeployment(ctx, await newDeploymentOf(caller, known), child)
  } catch (error) {
    const code = error instanceof Failure ? error.code : null
    // Another commit is there by now: whoever brought it makes the preview of it.
    if (code === 'preview_moved') return
    if (code !== 'previews_full') throw error
    await refusePreview(ctx, preview)
  }
}

/** The newest gives way: those that are there stay, and it comes up when there is room. */
async function refusePreview(ctx: Ctx, { id, number }: PreviewRow): Promise<void> {
  const change = sql<PreviewRow>`update previews v set state = 'full', updated_at = clock()
    where v.id = ${id}::uuid and v.tenant_id = current_tenant() and v.state not in ('full', 'ended') returning v.*`
  await commit(ctx, 'preview.refused', change, { number, reason: 'previews_full' })
}

async function newDeploymentOf(caller: Caller, known: PreviewFacts): Promise<NewDeployment> {
  const { parent, policy, preview } = known
  const name = previewName(parent.name, preview.number)
  const { platform_config_path } = parent.source_revision_config as { platform_config_path: string }
  const config = parent.source_config as NewDeployment['source_config']
  return {
    name,
    source: 'githost',
    source_config: { ...config, build_on_push: false, ...mergeResources(config, policy) },
    source_revision_config: {
      ...{ repo_ref: pullRef(preview.number), platform_config_path },
      ...({ repo_commit_sha: preview.head_sha } as object),
    },
    secrets: await previewSecrets(caller, known, deploymentUrl(caller.config.appsDomain, name)),
  }
}

/** Member by member over the parent's; where the two do not go together, the policy's alone. */
function mergeResources(config: NewDeployment['source_config'], { resource_spec }: PolicyRow) {
  if (!resource_spec) return {}
  const together = ResourceSpec.safeParse({ ...config.resource_spec, ...resource_spec })
  return { resource_spec: together.success ? together.data : (resource_spec as ResourceSpec) }
}

/** What a fork's people wrote never meets a secret of the parent's. */
async function previewSecrets(
  { sealer }: Caller,
  { parent, policy, preview, secrets }: PreviewFacts,
  url: string | null,
) {
  const open = (items: SealedSecret[], placeOf: (name: string) => string) =>
    Promise.all(
      items.map(async ({ name, sealed }) => [name, await sealer.open(sealed, parent.id, placeOf(name))] as const),
    )
  const inherited = preview.fork ? [] : await open(secrets, name => name)
  const told = [
    ['PREVIEW_ID', String(preview.number)],
    ['PREVIEW_BRANCH', preview.branch],
    ...(url ? [['PREVIEW_URL', url]] : []),
  ] as [string, string][]
  const all = new Map([...inherited, ...(await open(policy.secrets, overlaySealContext)), ...told])
  return [...all].map(([name, value]) => ({ name, value }))
}

// ---- followed

async function updatePreview(caller: Caller, known: PreviewFacts, child: string, commitShown: Commit): Promise<void> {
  const { preview, now } = known
  const shown = previewColumn(known)
  const { number, branch, head_sha } = preview
  const change = sql<DeploymentRow>`
    update deployments c set preview = ${JSON.stringify(shown)}::json, version = c.version + 1, updated_at = greatest(clock(), c.updated_at)
    where ${isDeploymentInTenant(child)} and c.deleting_at is null and (c.preview ->> 'head_sha' is distinct from ${head_sha})
    returning c.*`
  const touched = sql`touched as (update previews v set state = 'live', expires_at = ${shown.expires_at}::timestamptz, updated_at = clock()
    where v.id = ${preview.id}::uuid and v.tenant_id = current_tenant() and v.head_sha = ${head_sha} and v.state <> 'ended')`
  const options = { lock: lockDeployment(child), also: [touched] }
  await commit(previewCtx(caller), 'deployment.preview_moved', change, { number, branch, head_sha }, options)
  const told = { ref: pullRef(number), after: head_sha, preview: number }
  const push = {
    deployment_id: child,
    refs: [pullRef(number)],
    asked_at: now,
    ignoresBuildOnPush: true,
    journalData: told,
  }
  await deployPush(previewCtx(caller), { ...push, commit: commitShown })
}

// ---- gone

export type EndReason = 'closed' | 'expired' | 'parent_deleted' | 'deleted'

/** First the preview is over, with its hook; then its deployment goes. What dies in between the sweep ends. */
export async function endPreview(caller: Caller, { parent_id, number }: PreviewKey, reason: EndReason): Promise<void> {
  const change = sql<PreviewRow & { had_deployment: boolean }>`
    update previews v set state = 'ended', updated_at = clock()
    where v.parent_id = ${parent_id}::uuid and v.number = ${number} and v.tenant_id = current_tenant() and v.state <> 'ended'
    returning v.*, v.deployment_id is not null as had_deployment`
  const also = [insertHooks('changed', sql`preview_policies`, 'preview.deleted', caller.config.appsDomain)]
  const [row] = await commit(
    previewCtx(caller),
    'preview.ended',
    change,
    { number, reason },
    { also, lock: lockDeployment(parent_id) },
  )
  if (row?.deployment_id) await deletePreviewDeployment(caller, row.deployment_id)
}

export async function deletePreviewDeployment(caller: Caller, deployment_id: string): Promise<void> {
  await deleteDeployment({ ...caller, idempotency: null, ifMatch: null }, { deployment_id }).catch((error: unknown) => {
    if (!(error instanceof Failure && error.code === 'deployment_not_found')) throw error
  })
}
