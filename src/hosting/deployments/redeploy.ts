// Creates revisions of the current configuration or of an older revision (redeploy, rollback), and interrupts them.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run, textArray } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement, type Row } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { listenerPolicy } from './listener-facts.ts'
import { KEPT_MEMBERS, planRestoreChanges, type Wanted } from './plan.ts'
import { makePlanDigest, readPlannedVersion } from './plan-digest.ts'
import { describeDormantParts, describeIgnoredMembers, describeReplacement } from './plan-warnings.ts'
import type { Rollback } from './revisions.schema.ts'
import { type DeploymentRow, deploymentToWire, type RevisionRow, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { isDeployment } from './service.ts'
import { deployments, revisions } from './tables.ts'
import { describeFirstShare } from './traffic-shares.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type RevisionParams = z.output<typeof schema.RevisionRef>
type RestoreMode = { reason: 'redeployed' | 'rolled_back'; until: 'released' | 'newer_commit' | null }

const policy = listenerPolicy(deployments.listener_id)

const parseConfig = (text: string) => JSON.parse(text) as Record<string, unknown>

// ---- redeploys of the current configuration

const plannedRevision = ({ deployment_id }: DeploymentParams) => ({ reason: 'requested', deployment_id })

const currentStatement = prepareStatement(({ deployment_id }: Placeholders<DeploymentParams>) => {
  const next = sql`unpinned_config(${deployments})`.mapWith(parseConfig)
  return db.select({ deployments, next, policy }).from(deployments).where(isDeployment(deployment_id))
})

/** Its commit is known only when the ref is resolved again. */
export const planRevision = verb('deployments:update', async (ctx, ref: DeploymentParams): Promise<schema.Plan> => {
  const { deployment_id } = ref
  const row = requireRow(await run(ctx, currentStatement({ deployment_id })), 'deployment_not_found')
  const wanted = row.deployments as Wanted
  const plan = planRestoreChanges(wanted, { ...wanted, source_revision_config: row.next }, 'requested')
  plan.warnings.push(
    ...describeIgnoredMembers(wanted.source_config, row.policy),
    ...describeDormantParts(wanted.dormant_parts, wanted.dormant_parts, row.policy),
    ...describeReplacement(wanted.source_config, row.policy),
    ...describeFirstShare(row.deployments, false),
    ...ctx.warnings,
  )
  return { ...plan, plan_digest: await makePlanDigest(ctx, wanted.version, plannedRevision(ref)) }
})

export const createRevision = verb('deployments:update', async (ctx, ref: DeploymentParams) => {
  const request = describeWrite(ctx, await readPlannedVersion(ctx, plannedRevision(ref)))
  const statement = sql<Row>`
    select answer, has_webhooks
    from repeat_revision(${ref.deployment_id}::uuid, ${crypto.randomUUID()}::uuid, ${request}::jsonb)`
  return revisionToWire(requireRow(await runWrite<RevisionRow>(ctx, statement), 'deployment_not_found'))
})

// ---- redeploys of an older revision

const redeployMode: RestoreMode = { reason: 'redeployed', until: null }
const rollbackMode = ({ release_on_newer_commit }: Rollback): RestoreMode => ({
  reason: 'rolled_back',
  until: release_on_newer_commit ? 'newer_commit' : 'released',
})

const plannedRestore = ({ deployment_id, revision_id }: RevisionParams, { reason, until }: RestoreMode) => ({
  reason,
  until,
  deployment_id,
  revision_id,
})

/** An unknown revision passes here, so that the answer is `revision_not_found`. */
const canRestoreCommands = sql`case when ${revisions.id} is null then true
  else require_allowed_commands(${deployments.source_config}::jsonb, ${revisions.source_config}::jsonb) end`

const restoreStatement = prepareStatement(({ deployment_id, revision_id }: Placeholders<RevisionParams>) => {
  const target = and(eq(revisions.id, revision_id), eq(revisions.deployment_id, deployments.id), inTenant(revisions))
  const next = sql`restored_config(
    ${deployments.source_config}::jsonb,
    ${revisions.source_config}::jsonb,
    ${textArray(KEPT_MEMBERS)}
  )`.mapWith(parseConfig)
  return db
    .select({ deployments, revisions, next, policy })
    .from(deployments)
    .leftJoin(revisions, target)
    .where(and(isDeployment(deployment_id), canRestoreCommands))
})

async function planRestore(ctx: Ctx, ref: RevisionParams, mode: RestoreMode): Promise<schema.Plan> {
  const { deployment_id, revision_id } = ref
  const row = requireRow(await run(ctx, restoreStatement({ deployment_id, revision_id })), 'deployment_not_found')
  const to = requireRow(row.revisions ? [row.revisions] : [], 'revision_not_found')
  const restored = { ...(to as typeof to & Omit<Wanted, 'version'>), source_config: row.next }
  const plan = planRestoreChanges(row.deployments as Wanted, restored, mode.reason)
  if (/_FAILED$/.test(to.status)) plan.warnings.push(`Revision ${to.number} failed before, so it may fail again.`)
  plan.warnings.push(
    ...describeIgnoredMembers(restored.source_config, row.policy),
    ...describeDormantParts(row.deployments.dormant_parts, row.deployments.dormant_parts, row.policy),
    ...describeReplacement(restored.source_config, row.policy),
    ...(mode.until ? [] : describeFirstShare(row.deployments, false)),
  )
  if (mode.until) plan.warnings.push('The rollback holds automatic deploys until the hold is released.')
  plan.warnings.push(...ctx.warnings)
  return { ...plan, plan_digest: await makePlanDigest(ctx, row.deployments.version, plannedRestore(ref, mode)) }
}

async function restoreRevision(ctx: Ctx, ref: RevisionParams, mode: RestoreMode) {
  const request = describeWrite(ctx, await readPlannedVersion(ctx, plannedRestore(ref, mode)))
  const statement = sql<Row>`
    select answer, has_webhooks
    from restore_revision(
      ${ref.deployment_id}::uuid,
      ${ref.revision_id}::uuid,
      ${crypto.randomUUID()}::uuid,
      ${mode.reason},
      ${mode.until},
      ${textArray(KEPT_MEMBERS)},
      ${request}::jsonb
    )`
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
}

export const planRedeploy = verb('deployments:update', (ctx, ref: RevisionParams) =>
  planRestore(ctx, ref, redeployMode),
)
export const redeployRevision = verb('deployments:update', (ctx, ref: RevisionParams) =>
  restoreRevision(ctx, ref, redeployMode),
)

type RollbackInput = DeploymentParams & Rollback
export const planRollback = verb('deployments:update', (ctx, input: RollbackInput) =>
  planRestore(ctx, input, rollbackMode(input)),
)
export const rollBackDeployment = verb('deployments:update', (ctx, input: RollbackInput) =>
  restoreRevision(ctx, input, rollbackMode(input)),
)

export const releaseHold = verb('deployments:update', async (ctx, { deployment_id }: DeploymentParams) => {
  const statement = sql<Row>`
    select answer, has_webhooks
    from release_hold(${deployment_id}::uuid, ${describeWrite(ctx)}::jsonb)`
  requireRow(await runWrite(ctx, statement), 'deployment_not_found')
})

// ---- interruption

export const interruptRevision = verb(
  'deployments:update',
  async (ctx, { deployment_id, revision_id }: RevisionParams): Promise<void> => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from interrupt_revision(
        ${deployment_id}::uuid,
        ${revision_id}::uuid,
        'Interrupted on request.',
        ${describeWrite(ctx)}::jsonb
      )`
    requireRow(await runWrite(ctx, statement), 'revision_not_found')
  },
)
