// Creates, reads and deletes deployments. patch.ts changes them.
import { and, eq, inArray, isNull, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, refuseUnless, run, uuidArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, markedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { prepareStatement } from '../../kernel/db/statement.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, verb, withoutRateLimit } from '../../kernel/http/context.ts'
import { Failure, type Fault, fail } from '../../kernel/http/errors.ts'
import { hostOf } from '../../protocol/custom-url.schema.ts'
import { listPolicyNeeds } from '../../protocol/listener-policy.ts'
import { hasDatabase } from '../../protocol/resources.schema.ts'
import { projects } from '../../tracing/store/tables.ts'
import {
  awaitsHostVerification,
  describeHostVerification,
  refuseReservedUrl,
  requireFreeCustomUrl,
} from '../custom-hosts/custom-hosts.ts'
import { canAddCommands } from './command-permission.ts'
import { type EventRows, selectEvents } from './event-rows.ts'
import { startState } from './lifecycle.ts'
import { planCreation } from './plan.ts'
import { makePlanDigest, readPlannedVersion } from './plan-digest.ts'
import { lockDeployment } from './revision-queue.ts'
import { DEPLOYMENT_RECORD, type DeploymentRow, deploymentToWire, REVISION_RECORD, wireColumns } from './rows.ts'
import type * as schema from './schema.ts'
import { insertSecrets } from './secret-versions.ts'
import { findSourceFaults } from './source-rules.ts'
import { SUMMARY_COLUMN } from './summary.ts'
import { deployments, type Preview, type SecretVersion } from './tables.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type NewDeployment = schema.NewDeployment

/** Refuses an archive that was not uploaded in this workspace. Locks its row, so that the sweep does not remove it. */
const requireStoredArchive = (config: { source_tarball_path?: string | null | undefined } | null | undefined): SQL =>
  config?.source_tarball_path != null ? sql`require_stored_archive(${config.source_tarball_path})` : sql`true`

/** Refuses an integration of another workspace, and one that is suspended or revoked. */
const requireActiveIntegration = (config: { integration_id?: string | null | undefined } | null | undefined): SQL =>
  config?.integration_id != null ? sql`require_active_integration(${config.integration_id}::uuid)` : sql`true`

export const isDeployment = (id: string | Placeholder): SQL => and(eq(deployments.id, id), inTenant(deployments))!

export const sourceRuleError = (faults: Fault[]) =>
  fail('source_rule', {
    about: faults.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; '),
    errors: faults,
  })

type ReadInput = DeploymentParams & Pick<z.output<typeof schema.RevealQuery>, 'include'>
const deploymentStatement = prepareStatement<ReadInput, DeploymentRow>(({ deployment_id, include }) =>
  db
    .select(include ? { ...wireColumns, summary: SUMMARY_COLUMN } : wireColumns)
    .from(deployments)
    .where(isDeployment(deployment_id)),
)

export const readDeployment = verb('deployments:read', async (ctx, { deployment_id, include }: ReadInput) =>
  deploymentToWire(requireRow(await run(ctx, deploymentStatement({ deployment_id, include })), 'deployment_not_found')),
)

type CreateInput = NewDeployment & z.output<typeof schema.DryRun>
const plannedRequest = ({ dry_run: _, ...body }: CreateInput) => body

/** Refuses what creating it would refuse, except for the quota. */
export const planCreate = verb('deployments:create', async (ctx, input: CreateInput): Promise<schema.Plan> => {
  validateNewDeployment(ctx, input)
  const customUrl = input.source_config.custom_url
  const guards = [
    requireCreationAllowed(input),
    requireStoredArchive(input.source_revision_config),
    requireFreeName(deployments, 'deployment_name_taken', input.name),
    requireFreeName(projects, 'project_name_taken', input.name),
    customUrl != null && requireFreeCustomUrl(customUrl, sql`null`),
  ]
  const query = sql<[tenant: string, awaitsVerification: boolean]>`
    select
      c.tenant_id,
      ${customUrl != null ? awaitsHostVerification(customUrl) : sql`false`}
    from (select current_tenant() as tenant_id, ${assignListener(input)} as listener_id) c
    where ${and(...guards.filter(guard => guard instanceof Object))}`
  const [tenant, awaitsVerification] = requireRow(await run(ctx, query), 'workspace_not_found')
  const plan = planCreation(input)
  if (!hasArtifact(input)) plan.warnings.push('The first revision waits for a patch that brings its archive or image.')
  if (awaitsVerification) plan.warnings.push(await describeHostVerification(ctx, tenant, hostOf(customUrl!)!))
  plan.warnings.push(...ctx.warnings)
  return { ...plan, plan_digest: await makePlanDigest(ctx, 0, plannedRequest(input)) }
})

export const createDeployment = verb('deployments:create', async (ctx, input: CreateInput) => {
  const version = await readPlannedVersion(ctx, plannedRequest(input))
  if (version !== null && version !== 0) throw fail('plan_stale')
  return insertDeployment(ctx, input)
})

function validateNewDeployment(ctx: Ctx, input: NewDeployment): void {
  const faults = findSourceFaults(input, ctx.config)
  if (faults.length > 0) throw sourceRuleError(faults)
  refuseReservedUrl(ctx, input.source_config)
}

const requireCreationAllowed = (input: NewDeployment): SQL =>
  and(
    requireActiveIntegration(input.source_config),
    canAddCommands(input.source_config),
    requireOfferedTemplate(input),
    requireListenerAllows(input),
  )!

/** Takes the listener from `assignListener`, which refuses one of another workspace before its templates are named. */
const requireOfferedTemplate = (input: NewDeployment): SQL | undefined => {
  const { template_id } = input.source_config
  return template_id == null ? undefined : sql`require_offered_template(${template_id}, ${assignListener(input)})`
}

const requireListenerAllows = (input: NewDeployment): SQL | undefined => {
  const needs = listPolicyNeeds(input.source_config.resource_spec ?? {})
  return needs.length === 0
    ? undefined
    : sql`require_listener_allows(${assignListener(input)}, ${JSON.stringify(needs)}::jsonb)`
}

/** The unique index of the table refuses the same on the write. */
const requireFreeName = (table: typeof deployments | typeof projects, code: Code, name: string): SQL => {
  const isTaken = and(
    eq(table.name, name),
    inTenant(table),
    table === deployments ? isNull(deployments.deleting_at) : undefined,
  )
  return refuseUnless(code, sql`not exists (select from ${table} where ${isTaken})`)
}

/** What a preview needs besides: its parent, a guard, and the rows that are written with it. */
export type PreviewCreation = {
  parent_deployment_id: string
  preview: Preview
  commit: NonNullable<schema.Revision['commit']>
  lock: SQL
  guard: SQL
  ctesAfter: SQL[]
}

export async function insertDeployment(ctx: Ctx, input: NewDeployment, child?: PreviewCreation) {
  validateNewDeployment(ctx, input)
  const id = crypto.randomUUID()
  const revision = crypto.randomUUID()
  const ready = hasArtifact(input)
  // The commands of a preview are those of its parent and its policy, which were allowed when they were set.
  const isAllowed = child ? requireActiveIntegration(input.source_config) : requireCreationAllowed(input)
  const change = db
    .insert(deployments)
    .values({
      id,
      organization_id: sql`current_organization()`,
      tenant_id: sql`current_tenant()`,
      name: input.name,
      source: input.source,
      deployment_type: deploymentTypeOf(input),
      status: needsDatabase(input) ? 'AWAITING_DATABASE' : 'READY',
      source_config: jsonIf(isAllowed, { ...input.source_config, deployment_type: deploymentTypeOf(input) }),
      source_revision_config: jsonIf(requireStoredArchive(input.source_revision_config), input.source_revision_config),
      image_version: sql`image_version(${input.source_revision_config.image_uri ?? null})`,
      secrets: input.secrets.map(({ name }): SecretVersion => ({ name, version: 1 })),
      secret_references: input.secret_references ?? null,
      ...(child && { tag_value_ids: tagsOf(child.parent_deployment_id) }),
      parent_deployment_id: child ? sql`case when ${child.guard} then ${child.parent_deployment_id}::uuid end` : null,
      preview: child?.preview ?? null,
      owner: input.owner ?? null,
      listener_id: assignListener(input),
      latest_revision_id: revision,
      in_flight_revision_id: ready ? revision : null,
      waiting_revision_id: ready ? null : revision,
    })
    .returning()
  const ctesAfter = [
    sql`project as (insert into projects (organization_id, tenant_id, deployment_id, name)
      select organization_id, tenant_id, id, name from changed)`,
    insertFirstRevision(revision, ready ? startState(input.source) : 'CREATING', child?.commit ?? null),
    ...(child?.ctesAfter ?? []),
    await insertSecrets(ctx, id, input.secrets),
  ]
  const rows = await commit(
    ctx,
    'deployment.created',
    change,
    {},
    {
      ctesAfter,
      changes: createdMembers({ ...DEPLOYMENT_RECORD, ...OWNER_RECORD }),
      otherEvents: selectEvents(revisionCreated),
      lock: child?.lock ?? LOCK_WORKSPACE,
    },
  )
  return deploymentToWire(requireRow(rows, 'workspace_not_found'))
}

/** A preview has the tags that its parent has when it is created, so access policies treat both alike. */
const tagsOf = (parent: string): SQL<string[]> => sql`coalesce(
  (select p.tag_value_ids from deployments p where p.id = ${parent}::uuid and p.tenant_id = current_tenant()), '{}')`

const jsonIf = (condition: SQL, value: object): SQL =>
  sql`case when ${condition} then ${JSON.stringify(value)}::json end`

/** Without a listener_id, the deployment waits until a listener of the platform adopts it (`hosting/sync/poll.ts`). */
const assignListener = ({ source, source_config: { listener_id, listener_config } }: NewDeployment): SQL =>
  sql`require_listener(
    ${listener_id ?? null}::uuid,
    ${listener_config?.k8s_namespace ?? null},
    ${source === 'external_container'})`

/** The foreign key would lock this row only after the journal: deleting the workspace meanwhile could deadlock. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

/** Without its image or archive, the first revision waits (CREATING) for the patch that brings it. */
function hasArtifact({ source, source_revision_config: config }: NewDeployment): boolean {
  if (source === 'internal_container') return config.image_uri != null
  if (source === 'internal_source') return config.source_tarball_path != null
  return true
}

const deploymentTypeOf = ({ source, source_config }: NewDeployment) =>
  source === 'external_container' ? 'prod' : (source_config.deployment_type ?? 'dev')

const needsDatabase = ({ source_config }: NewDeployment): boolean => hasDatabase(source_config.resource_spec)

const insertFirstRevision = (id: string, status: string, commit: object | null): SQL => sql`revision as (
  insert into revisions (
    organization_id, tenant_id, deployment_id, id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, reasons, commit, actor_kind, actor_id, created_at, updated_at)
  select
    organization_id, tenant_id, id, ${id}::uuid, revisions, source, source_config, source_revision_config, secrets,
    secret_references, ${status}, '{created}', ${commit && JSON.stringify(commit)}::json, setting('actor_kind'),
    current_actor(), updated_at, updated_at
  from changed
  returning *)`

/** The first state of a revision comes with its creation; later states are events of their own. */
const revisionCreated: EventRows = {
  type: sql`'revision.created'`,
  subject: sql`id`,
  data: sql`json_build_object('deployment_id', deployment_id, 'status', status)`,
  changes: createdMembers(REVISION_RECORD, sql`revision`),
  from: sql`revision`,
}

const OWNER_RECORD = recordColumns(deployments, ['owner'])

/** Apart from PATCH, which plans revisions: an owner changes nothing that runs. */
export const setOwner = verb(
  'deployments:update',
  async (ctx, { deployment_id, owner }: DeploymentParams & z.output<typeof schema.DeploymentOwner>) => {
    const change = db
      .update(deployments)
      .set({ owner, ...bumpVersion(deployments) })
      .where(and(isDeployment(deployment_id), isNull(deployments.deleting_at), versionMatches(ctx, deployments)))
      .returning()
    const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(deployments, OWNER_RECORD) }
    const rows = await commit(ctx, 'deployment.owner_changed', change, {}, parts)
    return deploymentToWire(requireRow(rows, 'deployment_not_found'))
  },
)

type Deletion = z.output<typeof schema.DeletionQuery>

/** The data plane removes the deployment. Its name is free at once, unless its project stays. */
function markDeleting(ctx: Ctx, condition: SQL, lock: SQL, { delete_tracing_project }: Deletion) {
  const change = db
    .update(deployments)
    .set({
      status: 'AWAITING_DELETE',
      deleting_at: sql`clock()`,
      generation: sql`${deployments.generation} + 1`,
      remote_reconciled: false,
      ...bumpVersion(deployments),
    })
    .where(and(condition, inTenant(deployments), isNull(deployments.deleting_at), versionMatches(ctx, deployments)))
    .returning()
  const ctesAfter = [
    delete_tracing_project
      ? sql`project as (
      delete from projects p
      using changed
      where p.deployment_id = changed.id and p.tenant_id = changed.tenant_id)`
      : sql`project as (
      update projects p
      set deployment_id = null
      from changed
      where p.deployment_id = changed.id and p.tenant_id = changed.tenant_id)`,
  ]
  const parts = { ctesAfter, lock, changes: markedMembers(deployments, DEPLOYMENT_RECORD) }
  return commit(ctx, 'deployment.deleted', change, {}, parts)
}

export const deleteDeployment = verb(
  'deployments:delete',
  async (ctx, { deployment_id, ...deletion }: DeploymentParams & Deletion) => {
    const rows = await markDeleting(ctx, eq(deployments.id, deployment_id), lockDeployment(deployment_id), deletion)
    requireRow(rows, 'deployment_not_found')
  },
)

export const deleteDeployments = verb(
  'deployments:delete',
  async (ctx, { deployment_ids, ...deletion }: z.output<typeof schema.DeploymentIds>) => {
    // In one order, so that two requests that delete the same deployments do not deadlock.
    const lock = sql`
      select from deployments
      where id = any(${uuidArray(deployment_ids)}) and tenant_id = current_tenant()
      order by id
      for update`
    const rows = await markDeleting(ctx, inArray(deployments.id, deployment_ids), lock, deletion)
    const removed = new Set(rows.map(row => row.id))
    const left = deployment_ids.filter(id => !removed.has(id))
    const denied = ctx.requestInfo.isLimited && left.length > 0 ? await findReadable(ctx, left) : new Set()
    const results = deployment_ids.map(id => {
      if (removed.has(id)) return { id, status: 204, code: null }
      if (denied.has(id)) return { id, status: 403, code: 'denied_by_policy' as const }
      return { id, status: 404, code: 'deployment_not_found' as const }
    })
    return { results }
  },
  { byPolicy: true },
)

/** Those that the caller can read. What it cannot read either is not found. */
async function findReadable(ctx: Ctx, ids: string[]): Promise<Set<string>> {
  const reading: Ctx = { ...withoutRateLimit(ctx), permission: 'deployments:read', byPolicy: true, idempotency: null }
  const query = db
    .select({ id: deployments.id })
    .from(deployments)
    .where(and(inArray(deployments.id, ids), inTenant(deployments), isNull(deployments.deleting_at)))
  const rows = await run(reading, query).catch((error: unknown) => {
    if (error instanceof Failure && error.code === 'permission_missing') return []
    throw error
  })
  return new Set(rows.map(({ id }) => id))
}
