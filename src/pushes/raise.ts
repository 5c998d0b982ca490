// A preview comes to be, follows its pull request, and goes: always of the commit that may run, within the policy's bounds.
import { sql } from 'drizzle-orm'
import { deployPushed } from '../deployments/pushed.ts'
import { held, ofCurrent } from '../deployments/queue.ts'
import { ResourceSpec } from '../deployments/resources.schema.ts'
import type { DeploymentRow } from '../deployments/rows.ts'
import type { NewDeployment } from '../deployments/schema.ts'
import { type Child, deleteDeployment, makeDeployment } from '../deployments/service.ts'
import type { Caller, Ctx } from '../kernel/context.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { Failure } from '../kernel/errors.ts'
import { commit } from '../kernel/journal.ts'
import type { Preview, previews } from '../tables.ts'
import { previewName, urlOf } from './address.ts'
import type { Commit } from './events.ts'
import { hooked } from './hooks.ts'
import { overlayPlace, type PolicyRow } from './policy.ts'

export type PreviewRow = typeof previews.$inferSelect
/** Which pull request of which deployment. */
export type Which = { parent_id: string; number: number }
type Sealed = { name: string; sealed: string }
type Facts = {
  now: string
  parent: DeploymentRow
  policy: PolicyRow
  preview: PreviewRow
  secrets: Sealed[]
  /** The preview's deployment, unless it is going or gone. */
  child: string | null
}

/** Whoever acts, for changes of previews; a caller's idempotency key is its request's own. */
const acting = (caller: Caller): Ctx => ({
  ...caller,
  ...{ permission: 'deployments:update', idempotency: null, ifMatch: null, withoutIfMatch: false },
  config: { ...caller.config, rateLimit: 0 },
})
export const pullRef = (number: number): string => `refs/pull/${number}/head`

const facts = ({ parent_id, number }: Which) => sql<Row>`
  select json_build_object('now', clock_timestamp(), 'parent', to_json(d), 'policy', to_json(p), 'preview', to_json(v),
    'secrets', coalesce((select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
      from json_to_recordset(d.secrets) w(name text, version integer)
      join deployment_secrets s on s.deployment_id = d.id and s.name = w.name and s.version = w.version), '[]'),
    'child', (select c.id from deployments c where c.id = v.deployment_id and c.deleting_at is null))::text
  from previews v join deployments d on d.id = v.parent_id join preview_policies p on p.id = d.id
  where v.parent_id = ${parent_id}::uuid and v.number = ${number} and d.deleting_at is null`

/** What waits for nothing more is made, or brought to where its pull request is. */
export async function raise(caller: Caller, which: Which, commit?: Commit): Promise<void> {
  const [[row]] = (await runAsSystem(caller.database, facts(which))) as [Row[]]
  if (!row) return
  const known = JSON.parse(row[0] as string) as Facts
  const { preview, policy, child } = known
  const approved = policy.forks === 'approve' && preview.approved_sha === preview.head_sha
  if (preview.state === 'ended' || preview.state === 'denied' || (preview.fork && !approved)) return
  const shown = commit?.sha === preview.head_sha ? commit : { sha: preview.head_sha, message: null, author: null }
  if (child) await follow(caller, known, child, shown)
  else await make(caller, known, shown)
}

/** From the last push on. */
const expiryOf = ({ now, policy }: Facts): string => new Date(Date.parse(now) + policy.ttl_seconds * 1000).toISOString()
const shownOf = (known: Facts): Preview => {
  const { number, branch, head_sha } = known.preview
  return { number, branch, head_sha, expires_at: expiryOf(known) }
}

// ---- made

async function make(caller: Caller, known: Facts, commit: Commit): Promise<void> {
  const { parent, policy, preview } = known
  const ctx = acting(caller)
  const mineOnly = sql`v.parent_id = ${parent.id}::uuid and v.tenant_id = current_tenant()`
  const others = sql`(select count(*) from previews v where ${mineOnly} and v.number <> ${preview.number}
    and v.state <> 'ended' and v.deployment_id is not null)`
  const still = sql`exists (select from previews v where ${mineOnly} and v.number = ${preview.number}
    and v.head_sha = ${preview.head_sha} and v.state <> 'ended' and v.approved_sha is not distinct from ${preview.approved_sha})`
  const raised = sql`raised as (
    update previews v set state = 'live', deployment_id = changed.id, expires_at = ${expiryOf(known)}::timestamptz, updated_at = clock()
    from changed where ${mineOnly} and v.number = ${preview.number} returning v.*, true as was)`
  const child: Child = {
    parent_deployment_id: parent.id,
    preview: shownOf(known),
    commit,
    lock: held(parent.id),
    may: sql`case when not ${still} then refuse('preview_moved') when ${others} >= ${policy.max} then refuse('previews_full') else true end`,
    also: [
      raised,
      hooked(
        'raised',
        sql`preview_policies`,
        'preview.created',
        caller.config.appsDomain,
        sql`(select name from changed)`,
      ),
    ],
  }
  try {
    await makeDeployment(ctx, await bodyOf(caller, known), child)
  } catch (error) {
    const code = error instanceof Failure ? error.code : null
    // Another commit is there by now: whoever brought it makes the preview of it.
    if (code === 'preview_moved') return
    if (code !== 'previews_full') throw error
    await refuse(ctx, preview)
  }
}

/** The newest gives way: those that are there stay, and it comes up when there is room. */
async function refuse(ctx: Ctx, { id, number }: PreviewRow): Promise<void> {
  const change = sql<PreviewRow>`update previews v set state = 'full', updated_at = clock()
    where v.id = ${id}::uuid and v.tenant_id = current_tenant() and v.state not in ('full', 'ended') returning v.*`
  await commit(ctx, 'preview.refused', change, { number, reason: 'previews_full' })
}

async function bodyOf(caller: Caller, known: Facts): Promise<NewDeployment> {
  const { parent, policy, preview } = known
  const name = previewName(parent.name, preview.number)
  const { platform_config_path } = parent.source_revision_config as { platform_config_path: string }
  const config = parent.source_config as NewDeployment['source_config']
  return {
    name,
    source: 'githost',
    source_config: { ...config, build_on_push: false, ...resourcesOf(config, policy) },
    source_revision_config: {
      ...{ repo_ref: pullRef(preview.number), platform_config_path },
      ...({ repo_commit_sha: preview.head_sha } as object),
    },
    secrets: await secretsOf(caller, known, urlOf(caller.config.appsDomain, name)),
  }
}

/** Member by member over the parent's; where the two do not go together, the policy's alone. */
function resourcesOf(config: NewDeployment['source_config'], { resource_spec }: PolicyRow) {
  if (!resource_spec) return {}
  const together = ResourceSpec.safeParse({ ...config.resource_spec, ...resource_spec })
  return { resource_spec: together.success ? together.data : (resource_spec as ResourceSpec) }
}

/** What a fork's people wrote never meets a secret of the parent's. */
async function secretsOf({ sealer }: Caller, { parent, policy, preview, secrets }: Facts, url: string | null) {
  const open = (items: Sealed[], placeOf: (name: string) => string) =>
    Promise.all(
      items.map(async ({ name, sealed }) => [name, await sealer.open(sealed, parent.id, placeOf(name))] as const),
    )
  const inherited = preview.fork ? [] : await open(secrets, name => name)
  const told = [
    ['PREVIEW_ID', String(preview.number)],
    ['PREVIEW_BRANCH', preview.branch],
    ...(url ? [['PREVIEW_URL', url]] : []),
  ] as [string, string][]
  const all = new Map([...inherited, ...(await open(policy.secrets, overlayPlace)), ...told])
  return [...all].map(([name, value]) => ({ name, value }))
}

// ---- followed

async function follow(caller: Caller, known: Facts, child: string, commitShown: Commit): Promise<void> {
  const { preview, now } = known
  const shown = shownOf(known)
  const { number, branch, head_sha } = preview
  const change = sql<DeploymentRow>`
    update deployments c set preview = ${JSON.stringify(shown)}::json, version = c.version + 1, updated_at = greatest(clock(), c.updated_at)
    where ${ofCurrent(child)} and c.deleting_at is null and (c.preview ->> 'head_sha' is distinct from ${head_sha})
    returning c.*`
  const touched = sql`touched as (update previews v set state = 'live', expires_at = ${shown.expires_at}::timestamptz, updated_at = clock()
    where v.id = ${preview.id}::uuid and v.tenant_id = current_tenant() and v.head_sha = ${head_sha} and v.state <> 'ended')`
  const options = { lock: held(child), also: [touched] }
  await commit(acting(caller), 'deployment.preview_moved', change, { number, branch, head_sha }, options)
  const told = { ref: pullRef(number), after: head_sha, preview: number }
  const push = { deployment_id: child, refs: [pullRef(number)], asked_at: now, always: true, told }
  await deployPushed(acting(caller), { ...push, commit: commitShown })
}

// ---- gone

export type Ending = 'closed' | 'expired' | 'parent_deleted' | 'deleted'

/** First the preview is over, with its hook; then its deployment goes. What dies in between the sweep ends. */
export async function end(caller: Caller, { parent_id, number }: Which, reason: Ending): Promise<void> {
  const change = sql<PreviewRow & { was: boolean }>`
    update previews v set state = 'ended', updated_at = clock()
    where v.parent_id = ${parent_id}::uuid and v.number = ${number} and v.tenant_id = current_tenant() and v.state <> 'ended'
    returning v.*, v.deployment_id is not null as was`
  const also = [hooked('changed', sql`preview_policies`, 'preview.deleted', caller.config.appsDomain)]
  const [row] = await commit(
    acting(caller),
    'preview.ended',
    change,
    { number, reason },
    { also, lock: held(parent_id) },
  )
  if (row?.deployment_id) await removeChild(caller, row.deployment_id)
}

export async function removeChild(caller: Caller, deployment_id: string): Promise<void> {
  await deleteDeployment({ ...caller, idempotency: null, ifMatch: null }, { deployment_id }).catch((error: unknown) => {
    if (!(error instanceof Failure && error.code === 'deployment_not_found')) throw error
  })
}
