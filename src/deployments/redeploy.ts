// Creates revisions of the current configuration or of an older revision (redeploy, rollback), and interrupts them.
import { and, eq, isNotNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { bumpVersion, db, inTenant, refuseUnless, run, textArray, versionMatches } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { commit } from '../kernel/journal.ts'
import { changedMembers, createdMembers } from '../kernel/recorded-changes.ts'
import { requireRow } from '../kernel/rows.ts'
import { deployments, revisions } from '../tables/deployments.ts'
import { canChangeCommands } from './command-permission.ts'
import { isPlanFresh, refuseTagOnPush } from './guards.ts'
import { interrupt } from './interrupt.ts'
import { IN_PLACE_MEMBERS, planRestoreChanges, type Wanted } from './plan.ts'
import {
  decideChange,
  enqueueEvents,
  insertQueuedRevision,
  isDeploymentInTenant,
  lockDeployment,
  planChange,
  revisionCreatedData,
  supersedeOlder,
  unchangedColumns,
  updateWanted,
} from './revision-queue.ts'
import type { Rollback } from './revisions.schema.ts'
import { DEPLOYMENT_RECORD, deploymentToWire, REVISION_RECORD, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { isDeployment } from './service.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type RevisionParams = z.output<typeof schema.RevisionRef>
type RestoreMode = { reason: 'redeployed' | 'rolled_back'; event: string; until: 'released' | 'newer_commit' | null }

// ---- of the current configuration

const requestedDigest = ({ deployment_id }: DeploymentParams) =>
  sha256Hex(['requested', deployment_id].join(' ')).slice(0, 32)

/** Its commit is known only when the ref is resolved again. */
export const planRevision = verb('deployments:update', async (ctx, ref: DeploymentParams): Promise<schema.Plan> => {
  const { hold, preview, source_revision_config } = deployments
  const next = sql<
    Record<string, unknown>
  >`${unpinConfig(sql`${hold}`, sql`${preview}`, sql`${source_revision_config}`)}`
  const query = db.select({ deployments, next }).from(deployments).where(isDeployment(ref.deployment_id))
  const row = requireRow(await run(ctx, query), 'deployment_not_found')
  const wanted = row.deployments as Wanted
  const plan = planRestoreChanges(wanted, { ...wanted, source_revision_config: row.next }, 'requested')
  plan.warnings.push(...ctx.warnings)
  return { ...plan, plan_digest: `${wanted.version}.${requestedDigest(ref)}` }
})

export const createRevision = verb('deployments:update', async (ctx, { deployment_id }: DeploymentParams) => {
  const id = crypto.randomUUID()
  const planned = planChange({
    columns: {
      ...unchangedColumns,
      reasons: sql`array['requested']`,
      next_source_revision_config: unpinConfig(sql`c.hold`, sql`c.preview`, sql`c.source_revision_config`),
    },
    where: sql`${isDeploymentInTenant(deployment_id)}
    and ${notDeleting}
    and ${isPlanFresh(ctx, requestedDigest({ deployment_id }))}`,
  })
  const rows = await commit(ctx, 'revision.created', insertQueuedRevision(id, 'queued'), revisionCreatedData, {
    lock: lockDeployment(deployment_id),
    changes: createdMembers(REVISION_RECORD),
    ctesBefore: [planned, decideChange, sql`queued as (${updateWanted(id)})`],
    ctesAfter: [supersedeOlder('queued')],
    otherEvents: enqueueEvents('queued'),
  })
  return revisionToWire(requireRow(rows, 'deployment_not_found'))
})

/** The ref resolves again, except during the hold of a rollback and for a preview, whose commit may be in a fork. */
const unpinConfig = (hold: SQL, preview: SQL, config: SQL): SQL => sql`case
      when ${hold} is null and ${preview} is null then (${config})::jsonb - 'repo_commit_sha'
      else (${config})::jsonb
    end`

const notDeleting = refuseUnless('deployment_deleting', sql`c.deleting_at is null`)

// ---- of an older revision

const redeployMode: RestoreMode = { reason: 'redeployed', event: 'deployment.redeployed', until: null }
const rollbackMode = ({ release_on_newer_commit }: Rollback): RestoreMode => ({
  reason: 'rolled_back',
  event: 'deployment.rolled_back',
  until: release_on_newer_commit ? 'newer_commit' : 'released',
})

const requestDigest = ({ deployment_id, revision_id }: RevisionParams, { reason, until }: RestoreMode) =>
  sha256Hex([reason, until, deployment_id, revision_id].join(' ')).slice(0, 32)

/** An unknown revision passes here, so that the answer is `revision_not_found`. */
const canRestoreCommands = sql`case when ${revisions.id} is null then true
  else ${canChangeCommands(sql`${deployments.source_config}`, sql`${revisions.source_config}`)} end`

async function planRestore(ctx: Ctx, ref: RevisionParams, mode: RestoreMode): Promise<schema.Plan> {
  const target = and(
    eq(revisions.id, ref.revision_id),
    eq(revisions.deployment_id, deployments.id),
    inTenant(revisions),
  )
  const rows = await run(
    ctx,
    db
      .select()
      .from(deployments)
      .leftJoin(revisions, target)
      .where(and(isDeployment(ref.deployment_id), canRestoreCommands)),
  )
  const row = requireRow(rows, 'deployment_not_found')
  const to = requireRow(row.revisions ? [row.revisions] : [], 'revision_not_found')
  const plan = planRestoreChanges(row.deployments as Wanted, to as typeof to & Omit<Wanted, 'version'>, mode.reason)
  if (/_FAILED$/.test(to.status)) plan.warnings.push(`Revision ${to.number} failed before, so it may fail again.`)
  if (mode.until) plan.warnings.push('The rollback holds automatic deploys until the hold is released.')
  plan.warnings.push(...ctx.warnings)
  return { ...plan, plan_digest: `${row.deployments.version}.${requestDigest(ref, mode)}` }
}

async function restoreRevision(ctx: Ctx, ref: RevisionParams, mode: RestoreMode) {
  const { deployment_id, revision_id } = ref
  const id = crypto.randomUUID()
  const guards = [
    notDeleting,
    refuseUnless('revision_not_found', sql`r.id is not null`),
    versionMatches(ctx, { version: sql`c.version` }) ?? sql`true`,
    isPlanFresh(ctx, requestDigest(ref, mode)),
    refuseTagOnPush(sql`c.source_config::jsonb`, sql`r.source_revision_config::jsonb`),
    canChangeCommands(sql`c.source_config`, sql`r.source_config`),
  ]
  const planned = planChange({
    columns: {
      ...unchangedColumns,
      reasons: textArray([mode.reason]),
      next_source_config: RESTORED_CONFIG,
      next_source_revision_config: sql`r.source_revision_config::jsonb`,
      next_secrets: sql`r.secrets::jsonb`,
      next_secret_references: sql`r.secret_references::jsonb`,
      next_hold: restoredHold(id, mode),
      revision_source: sql`r.source`,
      revision_commit: sql`r."commit"`,
      from_revision_id: sql`r.id`,
    },
    from: sql`deployments c
  left join revisions r on r.id = ${revision_id}::uuid and r.deployment_id = c.id and r.tenant_id = current_tenant()
  left join revisions l on l.id = c.latest_revision_id`,
    where: sql`${isDeploymentInTenant(deployment_id)}
    and ${sql.join(guards, sql`\n    and `)}`,
  })
  const data = { revision_id }
  const rows = await commit(ctx, mode.event, updateWanted(id), data, {
    lock: lockDeployment(deployment_id),
    changes: changedMembers(sql`planned`, DEPLOYMENT_RECORD),
    ctesBefore: [planned, decideChange],
    ctesAfter: [supersedeOlder('changed'), sql`revision as (${insertQueuedRevision(id, 'changed')})`],
    otherEvents: enqueueEvents('changed'),
  })
  return deploymentToWire(requireRow(rows, 'deployment_not_found'))
}

/** The revision's configuration, with the in-place members of the deployment. */
const RESTORED_CONFIG: SQL = sql`(r.source_config::jsonb - ${textArray(IN_PLACE_MEMBERS)}) || coalesce(
      (
        select jsonb_object_agg(key, value)
        from jsonb_each(c.source_config::jsonb)
        where key = any(${textArray(IN_PLACE_MEMBERS)})),
      '{}')`

const restoredHold = (id: string, { until }: RestoreMode): SQL =>
  until === null
    ? sql`c.hold`
    : sql`json_build_object('since', clock(), 'revision_id', ${id}::text, 'until', ${until}::text,
        'from_commit', coalesce(l."commit" ->> 'sha', l.source_revision_config ->> 'repo_commit_sha'))`

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
  const change = db
    .update(deployments)
    .set({ hold: null, ...bumpVersion(deployments) })
    .where(
      and(
        isDeployment(deployment_id),
        refuseUnless('hold_not_found', sql`${isNotNull(deployments.hold)}`),
        versionMatches(ctx, deployments),
      ),
    )
    .returning()
  const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(deployments, DEPLOYMENT_RECORD) }
  requireRow(await commit(ctx, 'deployment.hold_released', change, {}, parts), 'deployment_not_found')
})

// ---- interruption

export const interruptRevision = verb('deployments:update', (ctx, ref: RevisionParams) => interrupt(ctx, ref))
