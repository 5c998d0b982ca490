// Revisions made on request: of what is wanted now, or of what an older revision was made from (redeploy, rollback).
import { and, eq, isNotNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, mine, run, textArray, touched, unless, unmoved } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { deployments, revisions } from '../tables.ts'
import { advance } from './advance.ts'
import { commandsStay } from './commands.ts'
import { freshPlan, pushOfTag } from './guards.ts'
import { planReturn, STAYING, type Wanted } from './plan.ts'
import { created, decided, entered, held, made, ofCurrent, skipped, wantedFrom } from './queue.ts'
import type { Rollback } from './revisions.schema.ts'
import { deploymentToWire, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { theOne } from './service.ts'

type OfDeployment = z.output<typeof schema.DeploymentRef>
type Ref = z.output<typeof schema.RevisionRef>
type Way = { reason: 'redeployed' | 'rolled_back'; event: string; until: 'released' | 'newer_commit' | null }

// ---- of what is wanted now

export const createRevision = verb('deployments:update', async (ctx, { deployment_id }: OfDeployment) => {
  const id = crypto.randomUUID()
  const first = [
    sql`planned as (select c.*, array['requested'] as reasons, false as placed, c.source_config::jsonb as next_config,
      ${LOOKED_UP} as next_made_from, c.secrets::jsonb as next_secrets, c.secret_references::jsonb as next_references,
      c.hold as next_hold, c.source as made_source, null::json as made_commit, null::uuid as from_revision
      from deployments c where ${ofCurrent(deployment_id)} and ${alive})`,
    decided,
    sql`queued as (${wantedFrom(id)})`,
  ]
  const options = { lock: held(deployment_id), first, also: [skipped('queued')], others: entered('queued') }
  const rows = await commit(ctx, 'revision.created', made(id, 'queued'), created, options)
  return revisionToWire(found(rows, 'deployment_not_found'))
})

/** A branch is looked up anew, but a rollback's commit stays while it holds, and so does a preview's, which may be of a fork. */
const LOOKED_UP = sql`case when c.hold is null and c.preview is null then c.source_revision_config::jsonb - 'repo_commit_sha' else c.source_revision_config::jsonb end`

const alive = unless('deployment_deleting', sql`c.deleting_at is null`)

// ---- of an older one

const redeploy: Way = { reason: 'redeployed', event: 'deployment.redeployed', until: null }
const rollback = ({ release_on_newer_commit }: Rollback): Way => ({
  reason: 'rolled_back',
  event: 'deployment.rolled_back',
  until: release_on_newer_commit ? 'newer_commit' : 'released',
})

const digestOf = ({ deployment_id, revision_id }: Ref, { reason, until }: Way) =>
  sha256Hex([reason, until, deployment_id, revision_id].join(' ')).slice(0, 32)

/** Without such a revision, that is what is told. */
const commandsReturn = sql`case when ${revisions.id} is null then true
  else ${commandsStay(sql`${deployments.source_config}`, sql`${revisions.source_config}`)} end`

async function planned(ctx: Ctx, ref: Ref, way: Way): Promise<schema.Plan> {
  const target = and(eq(revisions.id, ref.revision_id), eq(revisions.deployment_id, deployments.id), mine(revisions))
  const rows = await run(
    ctx,
    db
      .select()
      .from(deployments)
      .leftJoin(revisions, target)
      .where(and(theOne(ref.deployment_id), commandsReturn)),
  )
  const row = found(rows, 'deployment_not_found')
  const to = found(row.revisions ? [row.revisions] : [], 'revision_not_found')
  const plan = planReturn(row.deployments as Wanted, to as Omit<Wanted, 'version'>, way.reason)
  const warnings = way.until ? ['Automatic deploys are held from then on.'] : []
  return { ...plan, warnings, plan_digest: `${row.deployments.version}.${digestOf(ref, way)}` }
}

async function returnTo(ctx: Ctx, ref: Ref, way: Way) {
  const { deployment_id, revision_id } = ref
  const id = crypto.randomUUID()
  const guards = [
    alive,
    unless('revision_not_found', sql`r.id is not null`),
    unmoved(ctx, { version: sql`c.version` }) ?? sql`true`,
    freshPlan(ctx, digestOf(ref, way)),
    pushOfTag(sql`c.source_config::jsonb`, sql`r.source_revision_config::jsonb`),
    commandsStay(sql`c.source_config`, sql`r.source_config`),
  ]
  const first = [
    sql`planned as (select c.*, ${textArray([way.reason])} as reasons, false as placed, ${nextConfig} as next_config,
      r.source_revision_config::jsonb as next_made_from, r.secrets::jsonb as next_secrets, r.secret_references::jsonb as next_references,
      ${nextHold(id, way)} as next_hold, r.source as made_source, r."commit" as made_commit, r.id as from_revision
      from deployments c
      left join revisions r on r.id = ${revision_id}::uuid and r.deployment_id = c.id and r.tenant_id = current_tenant()
      left join revisions l on l.id = c.latest_revision_id
      where ${ofCurrent(deployment_id)} and ${sql.join(guards, sql` and `)})`,
    decided,
  ]
  const also = [skipped('changed'), sql`revision as (${made(id, 'changed')})`]
  const options = { lock: held(deployment_id), first, also, others: entered('changed') }
  const rows = await commit(ctx, way.event, wantedFrom(id), { revision_id }, options)
  return deploymentToWire(found(rows, 'deployment_not_found'))
}

/** What no revision is made of stays as it is now. */
const nextConfig: SQL = sql`(r.source_config::jsonb - ${textArray(STAYING)}) || coalesce(
  (select jsonb_object_agg(key, value) from jsonb_each(c.source_config::jsonb) where key = any(${textArray(STAYING)})), '{}')`

const nextHold = (id: string, { until }: Way): SQL =>
  until === null
    ? sql`c.hold`
    : sql`json_build_object('since', clock(), 'revision_id', ${id}::text, 'until', ${until}::text,
        'from_commit', coalesce(l."commit" ->> 'sha', l.source_revision_config ->> 'repo_commit_sha'))`

export const planRedeploy = verb('deployments:update', (ctx, ref: Ref) => planned(ctx, ref, redeploy))
export const redeployRevision = verb('deployments:update', (ctx, ref: Ref) => returnTo(ctx, ref, redeploy))

type Back = OfDeployment & Rollback
export const planRollback = verb('deployments:update', (ctx, input: Back) => planned(ctx, input, rollback(input)))
export const rollBack = verb('deployments:update', (ctx, input: Back) => returnTo(ctx, input, rollback(input)))

export const releaseHold = verb('deployments:update', async (ctx, { deployment_id }: OfDeployment) => {
  const change = db
    .update(deployments)
    .set({ hold: null, ...touched(deployments) })
    .where(
      and(
        theOne(deployment_id),
        unless('hold_not_found', sql`${isNotNull(deployments.hold)}`),
        unmoved(ctx, deployments),
      ),
    )
    .returning()
  found(await commit(ctx, 'deployment.hold_released', change), 'deployment_not_found')
})

// ---- no more of it

export const interruptRevision = verb('deployments:update', async (ctx, ref: Ref) => {
  await advance(ctx, { ...ref, to: 'INTERRUPTED', message: 'Interrupted on request.' }, 'revision_not_interruptible')
})
