// The policy by which a deployment gets previews: set, read and removed. Removing it ends its previews.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { sealedFingerprint } from '../../kernel/crypto/digest.ts'
import { db, inTenant, type Row, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit, type WriteParts } from '../../kernel/db/journal.ts'
import { changedMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { listCopyNeeds, listListenerNeeds, listProtectionNeeds } from '../../protocol/listener-policy.ts'
import { MASK } from '../../protocol/parts.schema.ts'
import { OPEN_TO_EVERYONE, type StoredProtection, toStored } from '../../protocol/protection.schema.ts'
import { isJsonEqual } from '../deployments/plan.ts'
import { makePlanDigest, readPlannedVersion } from '../deployments/plan-digest.ts'
import type { DeploymentRef, DryRun } from '../deployments/schema.ts'
import { isDeployment, lockDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { DEFAULT_PROTECTION, isPublic } from '../protection/default-protection.ts'
import { matchesBranch } from '../pushes/branch-globs.ts'
import { type ExistingBranches, previewPolicies, type previews } from '../pushes/tables.ts'
import { HOOK_SEAL_CONTEXT, insertEndHooks } from './preview-hooks.ts'
import type { NewPreviewPolicy, PreviewPolicy, PreviewPolicyPlan } from './previews.schema.ts'

export type PolicyRow = typeof previewPolicies.$inferSelect
type Ref = z.output<typeof DeploymentRef>

const POLICY_RECORD = {
  ...recordColumns(previewPolicies, [
    ...(['branches', 'kinds', 'max', 'forks', 'inherited_secrets', 'resource_spec', 'protection', 'database'] as const),
  ]),
  ttl: (row: SQL) => sql`${row}.ttl_seconds`,
  secrets: (row: SQL) => sql`(select jsonb_agg(s ->> 'name') from json_array_elements(${row}.secrets) s)`,
  hooks: (row: SQL) => sql`jsonb_build_object('on_create', ${row}.on_create, 'on_delete', ${row}.on_delete)`,
}

/** An overlay secret is sealed for the parent, in a context of its own name. */
export const overlaySealContext = (name: string): string => `preview ${name}`

const toWire = (row: PolicyRow): PreviewPolicy & { [etagVersion]: number } => ({
  deployment_id: row.id,
  branches: row.branches,
  kinds: row.kinds,
  ttl: row.ttl_seconds,
  max: row.max,
  forks: row.forks,
  secrets: row.secrets.map(({ name }) => ({ name, value: MASK })),
  inherited_secrets: row.inherited_secrets,
  resource_spec: row.resource_spec as PreviewPolicy['resource_spec'],
  protection: row.protection ?? OPEN_TO_EVERYONE,
  database: row.database as PreviewPolicy['database'],
  existing_branches: row.existing_branches && {
    compared_at: row.existing_branches.compared_at,
    previews: row.existing_branches.previews,
    left: row.existing_branches.left,
  },
  hooks: row.hook_secret === null ? null : { on_create: row.on_create, on_delete: row.on_delete, secret: MASK },
  secret_fingerprints: Object.fromEntries(row.secrets.map(({ name, sealed }) => [name, sealedFingerprint(sealed)])),
  hook_secret_fingerprint: row.hook_secret && sealedFingerprint(row.hook_secret),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

/** Joins from the deployment, so that one trip tells a missing policy from a missing deployment. */
const policyStatement = prepareStatement(({ deployment_id }: Placeholders<Ref>) =>
  db
    .select()
    .from(deployments)
    .leftJoin(previewPolicies, and(eq(previewPolicies.id, deployments.id), inTenant(previewPolicies)))
    .where(isDeployment(deployment_id)),
)

export const readPolicy = verb('deployments:read', async (ctx, { deployment_id }: Ref) => {
  const rows = await run(ctx, policyStatement({ deployment_id }))
  const { preview_policies: policy } = requireRow(rows, 'deployment_not_found')
  return toWire(requireRow(policy ? [policy] : [], 'preview_policy_not_found'))
})

// ---- planned, set

type PolicyInput = Ref & NewPreviewPolicy & z.output<typeof DryRun>
const plannedRequest = ({ dry_run: _, ...policy }: PolicyInput) => policy

const NO_PULL_REQUESTS = 'previews of pull requests need a git host that has them; `git` has none'
const HAS_PULL_REQUESTS = sql`not exists (
          select from integrations i
          where i.id::text = d.source_config ->> 'integration_id'
            and i.tenant_id = current_tenant()
            and i.host = 'git')`
const UNSUPPORTED_PARENT =
  'previews need a deployment that is not a preview itself, of source githost unless `kinds` is empty'
/** The parent `d` with its stored policy `o`, if it can have this one. */
const selectParent = ({ deployment_id, resource_spec, protection, kinds, database }: PolicyInput): SQL => {
  const needs = [...listListenerNeeds(resource_spec ?? {}), ...listProtectionNeeds('protection', protection)]
  return sql`deployments d
      left join preview_policies o on o.id = d.id and o.tenant_id = current_tenant()
      where d.id = ${deployment_id}::uuid
        and d.tenant_id = current_tenant()
        and ${refuseUnless('deployment_deleting', sql`d.deleting_at is null`)}
        and require_listener_allows(d.listener_id, ${JSON.stringify(needs)}::jsonb)
        and require_allowed_commands(
          jsonb_build_object('resource_spec', o.resource_spec),
          jsonb_build_object('resource_spec', ${jsonOrNull(resource_spec)}::jsonb))
        and case
          when ${!kinds.includes('pull_requests')} or ${HAS_PULL_REQUESTS} then true
          else refuse('source_rule', ${NO_PULL_REQUESTS})
        end
        and case
          when (d.source = 'githost' or ${kinds.length === 0}) and d.parent_deployment_id is null then true
          else refuse('source_rule', ${UNSUPPORTED_PARENT})
        end
        and ${requirePreviewDatabase(sql`${jsonOrNull(database)}::jsonb`)}`
}

/** Over the parent `d` and its stored policy `o`. A new policy whose request names none protects where it can. */
function protectionOf({ config }: Ctx, { protection }: NewPreviewPolicy): SQL<string | null> {
  if (protection) {
    const stored = toStored(protection)
    return sql`${stored && JSON.stringify(stored)}::json`
  }
  if (!isPublic(config)) return sql`o.protection`
  return sql`case
    when o.id is not null then o.protection
    when exists (
      select from listeners l where l.id = d.listener_id and l.policy::jsonb -> 'features' @> '"protection"'
    ) then ${JSON.stringify(DEFAULT_PROTECTION)}::json
  end`
}
const jsonOrNull = (value: object | null | undefined): string | null => (value ? JSON.stringify(value) : null)

/** For a where clause over the parent `d`. `database`: a jsonb, or null. */
export const requirePreviewDatabase = (database: SQL): SQL =>
  sql`require_preview_database(d, ${database}, ${JSON.stringify(listCopyNeeds('database.mode'))}::jsonb)`

/** Anyone can open pull requests of a public repository, and each open one has a preview. */
const MAX_PLANNED_PREVIEWS = 200

/** Refuses what setting it would refuse. */
export const planPolicy = verb('deployments:update', async (ctx, input: PolicyInput): Promise<PreviewPolicyPlan> => {
  // The sealed values are not used. Building them refuses a mask that keeps nothing.
  const secrets = await sealOverlays(ctx, input.deployment_id, input)
  const hookSecret = await sealHookSecret(ctx, input.deployment_id, input)
  const query = sql<Row>`
    select
      case when o.id is not null then to_json(o)::text end,
      (
        select coalesce(
          json_agg(
            json_build_object('kind', v.kind, 'number', v.number, 'branch', v.branch) order by v.number, v.branch),
          '[]')
        from (
          select *
          from previews p
          where p.parent_id = d.id and p.tenant_id = current_tenant() and p.state <> 'ended'
          order by p.created_at desc, p.id desc
          limit ${MAX_PLANNED_PREVIEWS}) v)::text,
      (${secrets})::text || coalesce(${hookSecret}, ''),
      (${protectionOf(ctx, input)})::text
    from ${selectParent(input)}`
  const [stored, found, , protection] = requireRow(await run(ctx, query), 'deployment_not_found')
  const row = stored === null ? null : (JSON.parse(stored as string) as PolicyRow)
  const previews = (JSON.parse(found as string) as FoundPreview[]).map(({ kind, number, branch }) => ({
    number,
    branch,
    matches: kind === 'request' || (input.kinds.includes(KIND_OF[kind]) && matchesBranch(input.branches, branch)),
  }))
  const left = previews.filter(({ matches }) => !matches).length
  return {
    changes: listPolicyChanges(row && toWire(row), {
      ...input,
      protection: (JSON.parse((protection as string | null) ?? 'null') as StoredProtection) ?? OPEN_TO_EVERYONE,
    }),
    new_values: listNewValues(input),
    previews,
    warnings: [
      ...(left > 0
        ? ['Previews that are no longer covered stay until they expire, or their pull request or branch ends.']
        : []),
      ...(input.kinds.includes('branches') && !followsSame(row, input) ? [describeExisting(input)] : []),
      ...ctx.warnings,
    ],
    plan_digest: await makePlanDigest(ctx, row?.version ?? 0, plannedRequest(input)),
  }
})

/** setPolicy() looks at the branches again where this is false. */
const followsSame = (row: PolicyRow | null, { branches, kinds, max }: PolicyInput): boolean =>
  row !== null && isJsonEqual([row.branches, row.kinds, row.max], [branches, kinds, max])
const describeExisting = ({ max }: PolicyInput) =>
  `Branches that match and exist get a preview at once, as long as there are fewer than ${max}. The others get one ` +
  'with their next push.'

type FoundPreview = Pick<typeof previews.$inferSelect, 'kind' | 'number' | 'branch'>
const KIND_OF = { pull_request: 'pull_requests', branch: 'branches' } as const

function listPolicyChanges(stored: PreviewPolicy | null, wanted: NewPreviewPolicy): PreviewPolicyPlan['changes'] {
  const describe = (policy: PreviewPolicy | NewPreviewPolicy) => ({
    branches: policy.branches,
    kinds: policy.kinds,
    ttl: policy.ttl,
    max: policy.max,
    forks: policy.forks,
    secrets: policy.secrets.length > 0 ? policy.secrets.map(({ name }) => name) : null,
    inherited_secrets: policy.inherited_secrets.length > 0 ? policy.inherited_secrets : null,
    resource_spec: policy.resource_spec ?? null,
    protection: policy.protection ?? null,
    database: policy.database?.mode ?? null,
    'database.from_deployment_id': (policy.database?.mode === 'copy' && policy.database.from_deployment_id) || null,
    'hooks.on_create': policy.hooks?.on_create ?? null,
    'hooks.on_delete': policy.hooks?.on_delete ?? null,
  })
  const before = stored && describe(stored)
  return Object.entries(describe(wanted)).flatMap(([path, after]) => {
    const previous = before?.[path as keyof typeof before] ?? null
    return isJsonEqual(previous, after) ? [] : [{ path, before: previous, after }]
  })
}

const NOT_COMPARED: ExistingBranches = { compared_at: null, previews: 0, left: 0, after: null }

/** Its branches and pull requests get their previews after the answer, and by the next comparison after a crash. */
export const setPolicy = verb('deployments:update', async (ctx, input: PolicyInput) => {
  const { deployment_id, branches, kinds, ttl, max, forks, inherited_secrets, database, hooks } = input
  const version = await readPlannedVersion(ctx, plannedRequest(input))
  const isFresh = version === null ? sql`true` : refuseUnless('plan_stale', sql`coalesce(o.version, 0) = ${version}`)
  const isVersion = versionMatches(ctx, { version: sql`coalesce(o.version, 0)` }) ?? sql`true`
  const secrets = await sealOverlays(ctx, deployment_id, input)
  const hookSecret = await sealHookSecret(ctx, deployment_id, input)
  const existing = kinds.includes('branches') ? JSON.stringify(NOT_COMPARED) : null
  const change = sql<PolicyRow>`
      insert into preview_policies as p
        (id, organization_id, tenant_id, branches, ttl_seconds, max, forks, secrets, resource_spec, protection,
          on_create, on_delete, hook_secret, kinds, inherited_secrets, database, existing_branches)
      select d.id, d.organization_id, d.tenant_id, ${sql.param(branches)}::text[], ${ttl}, ${max}, ${forks},
        ${secrets}, ${jsonOrNull(input.resource_spec)}::json, ${protectionOf(ctx, input)}, ${hooks?.on_create ?? null},
        ${hooks?.on_delete ?? null}, ${hookSecret}, ${sql.param(kinds)}::text[],
        ${sql.param(inherited_secrets)}::text[], ${jsonOrNull(database)}::json, ${existing}::json
      from ${selectParent(input)}
        and ${isFresh}
        and ${isVersion}
      on conflict (id) do update
        set branches = excluded.branches,
          ttl_seconds = excluded.ttl_seconds,
          max = excluded.max,
          forks = excluded.forks,
          secrets = excluded.secrets,
          resource_spec = excluded.resource_spec,
          protection = excluded.protection,
          on_create = excluded.on_create,
          on_delete = excluded.on_delete,
          hook_secret = excluded.hook_secret,
          kinds = excluded.kinds,
          inherited_secrets = excluded.inherited_secrets,
          database = excluded.database,
          existing_branches = case
            when (p.branches, p.kinds, p.max) is distinct from (excluded.branches, excluded.kinds, excluded.max)
              then excluded.existing_branches
            else p.existing_branches
          end,
          version = p.version + 1,
          updated_at = clock()
      returning p.*`
  const data = { new_values: listNewValues(input) }
  const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(previewPolicies, POLICY_RECORD) }
  const rows = await commit(ctx, 'preview_policy.set', change, data, parts)
  if (!ctx.requestInfo.replayed && kinds.length > 0 && ctx.compareRepository)
    ctx.waitUntil?.(ctx.compareRepository(deployment_id))
  return toWire(requireRow(rows, 'deployment_not_found'))
})

/** The secrets whose value was sent. Their names alone do not tell whether one changed. */
const listNewValues = ({ secrets, hooks }: NewPreviewPolicy): string[] =>
  [...secrets, ...(hooks ? [{ name: 'hooks.secret', value: hooks.secret }] : [])]
    .filter(({ value }) => value !== MASK)
    .map(({ name }) => name)

/** SQL over the stored policy `o`. A masked value keeps the stored secret of that name, which must exist. */
async function sealOverlays({ sealer }: Ctx, id: string, { secrets }: NewPreviewPolicy): Promise<SQL> {
  const sealedSecrets = secrets.map(async ({ name, value }) => ({
    name,
    sealed: value === MASK ? null : await sealer.seal(value, id, overlaySealContext(name)),
  }))
  const json = JSON.stringify(await Promise.all(sealedSecrets))
  return sql`(
    select coalesce(
      json_agg(
        json_build_object(
          'name', n.name,
          'sealed', coalesce(n.sealed, s.sealed, refuse('secret_unknown', n.name)::text))
        order by n.place),
      '[]')
    from rows from (json_to_recordset(${json}::json) as (name text, sealed text))
      with ordinality n(name, sealed, place)
    left join json_to_recordset(o.secrets) s(name text, sealed text) on s.name = n.name)`
}

/** A kept secret must not sign for a new address: its receiver could send hooks that the old receiver accepts. */
const hasNewAddress = ({ on_create, on_delete }: NonNullable<NewPreviewPolicy['hooks']>): SQL => sql`(
  o.hook_secret is not null
  and not array_remove(array[${on_create ?? null}, ${on_delete ?? null}]::text[], null)
    <@ array[o.on_create, o.on_delete])`

async function sealHookSecret({ sealer }: Ctx, id: string, { hooks }: NewPreviewPolicy): Promise<SQL> {
  if (!hooks) return sql`null`
  if (hooks.secret !== MASK) return sql`${await sealer.seal(hooks.secret, id, HOOK_SEAL_CONTEXT)}`
  return sql`
    case
      when ${hasNewAddress(hooks)} then refuse('secret_required', 'hooks.secret')::text
      else coalesce(o.hook_secret, refuse('secret_unknown', 'hooks.secret')::text)
    end`
}

/** Ends the previews too, but those of requests. The next sweep deletes their deployments. */
export const removePolicy = verb('deployments:update', async (ctx, { deployment_id }: Ref) => {
  const change = sql<PolicyRow>`
    delete from preview_policies p
    using deployments d
    where d.id = ${deployment_id}::uuid
      and d.tenant_id = current_tenant()
      and p.id = d.id
      and p.tenant_id = current_tenant()
      and ${versionMatches(ctx, { version: sql`p.version` }) ?? sql`true`}
    returning p.*`
  const ended = sql`ended as (
    update previews v
    set state = 'ended', updated_at = clock()
    from changed
    where v.parent_id = changed.id
      and v.tenant_id = current_tenant()
      and v.kind <> 'request'
      and v.state <> 'ended'
    returning v.id)`
  const ctesAfter = [ended, insertEndHooks('ended', ctx.config.appsDomain)]
  const parts: WriteParts = { ctesAfter, lock: lockDeployment(deployment_id), changes: deletedMembers(POLICY_RECORD) }
  requireRow(await commit(ctx, 'preview_policy.removed', change, {}, parts), 'preview_policy_not_found')
})
