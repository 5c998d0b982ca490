// Applies a rule to runs that match: it acts on each of them once, whenever a worker dies.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { lockQueue } from '../queues/new-items.ts'
import type { StoredRun } from '../store/queries.ts'
import { addToDataset } from './add-to-dataset.ts'
import { ADD_TO_QUEUE, OUTCOMES_WITH_QUEUE, QUEUE_OUTCOMES } from './add-to-queue.ts'
import { OUTCOME_OF_ALERT, planAlert, raiseIncident } from './alerts.ts'
import type { ClaimedRule } from './claimed-rule.ts'
import { type PlannedEvaluation, planEvaluations, queueEvaluations } from './new-evaluations.ts'
import type { RuleOutcome, RuleOutcomes } from './tables.ts'

/** The limit of one message, so that it stays small. */
const RUNS_PER_DELIVERY = 20

/**
 * `progress` sets the progress of the rule. The last statement stores it together with the actions, once for each run:
 * of two workers at the same run, the second finds its row and does nothing. Statements before it find their own effect
 * when they are repeated. Returns false if the rule is gone or off.
 */
export async function applyRule(
  ctx: Ctx,
  rule: ClaimedRule,
  runs: StoredRun[],
  progress: SQL,
  isBackfill: boolean,
): Promise<boolean> {
  if (rule.extend_only) await upgradeTraces(ctx, runs)
  const added = rule.add_to_dataset_id ? await addToDataset(ctx, rule, rule.add_to_dataset_id, runs) : undefined
  const outcomesOf = ({ id, trace_tier }: StoredRun): RuleOutcomes => ({
    ...(added && { add_to_dataset: added.get(id)! }),
    ...(rule.extend_only && { extend_only: extensionOf(trace_tier) }),
  })
  const deliveries = planDeliveries(rule, runs)
  const alert = await planAlert(ctx, rule, runs)
  const applications = runs.map(one => ({
    run_id: one.id,
    trace_id: one.trace_id,
    run_session_id: one.session_id,
    run_name: one.name,
    run_type: one.run_type,
    start_time: one.start_time,
    end_time: one.end_time,
    thread_id: one.thread_id,
    outcomes: outcomesOf(one),
    delivery_ids: deliveries.filter(({ run_ids }) => run_ids.includes(one.id)).map(({ id }) => id),
  }))
  const evaluations = planEvaluations(rule, runs)
  const before = [
    ...(alert ? [alert.addChannels] : []),
    ...(rule.add_to_annotation_queue_id ? [lockQueue(rule.add_to_annotation_queue_id)] : []),
  ]
  const plan = { applications, deliveries, evaluations, alert }
  const rows = await run(ctx, recordStatement(rule, plan, progress, isBackfill), before)
  if (alert) rule.hasRaised = true
  return rows.length > 0
}

const extensionOf = (tier: string): RuleOutcome => ({ outcome: tier === 'longlived' ? 'skipped' : 'success' })

async function upgradeTraces(ctx: Ctx, runs: StoredRun[]): Promise<void> {
  const ids = new Set(runs.filter(({ trace_tier }) => trace_tier !== 'longlived').map(({ trace_id }) => trace_id))
  if (ids.size > 0) await ctx.traces.upgrade(ctx, [...ids])
}

type PlannedDelivery = { id: string; target_id: string; run_ids: string[] }

function planDeliveries({ webhooks }: ClaimedRule, runs: StoredRun[]): PlannedDelivery[] {
  if (runs.length === 0) return []
  const ids = runs.map(({ id }) => id)
  const parts = Array.from({ length: Math.ceil(ids.length / RUNS_PER_DELIVERY) }, (_, i) =>
    ids.slice(i * RUNS_PER_DELIVERY, (i + 1) * RUNS_PER_DELIVERY),
  )
  return webhooks.flatMap(({ id: target_id }) =>
    parts.map(run_ids => ({ id: crypto.randomUUID(), target_id, run_ids })),
  )
}

type Plan = {
  applications: object[]
  deliveries: PlannedDelivery[]
  evaluations: PlannedEvaluation[]
  alert: Awaited<ReturnType<typeof planAlert>>
}

const recordStatement = (
  { id, add_to_annotation_queue_id: queue }: ClaimedRule,
  { applications, deliveries, evaluations, alert }: Plan,
  progress: SQL,
  isBackfill: boolean,
): SQL<Row> => sql<Row>`
  with rule as (
    update run_rules
    set ${progress}
    where id = ${id}::uuid and tenant_id = current_tenant() and is_enabled
    returning id, organization_id, tenant_id, add_to_annotation_queue_id
  ),
  given as (
    select *
    from json_to_recordset(${JSON.stringify(applications)}::json) as g(
      run_id uuid, trace_id uuid, run_session_id uuid, run_name text, run_type text, start_time timestamptz,
      end_time timestamptz, thread_id text, outcomes json, delivery_ids uuid[]
    )
  ),
  ${queue ? sql`${QUEUE_OUTCOMES},` : sql``}
  ${alert ? sql`${raiseIncident(alert)},` : sql``}
  applied as (
    insert into rule_applications (
      organization_id, tenant_id, rule_id, run_id, run_session_id, run_name, run_type, start_time, end_time, thread_id,
      is_backfill, outcomes, delivery_ids
    )
    select
      r.organization_id, r.tenant_id, r.id, g.run_id, g.run_session_id, g.run_name, g.run_type, g.start_time,
      g.end_time, g.thread_id, ${isBackfill}, (
        (${queue ? OUTCOMES_WITH_QUEUE : sql`g.outcomes`})::jsonb || ${alert ? OUTCOME_OF_ALERT : sql`'{}'`}
      )::json,
      g.delivery_ids
    from given g
    cross join rule r
    order by g.run_id
    on conflict do nothing
    returning run_id, start_time, end_time, delivery_ids
  ),
  planned as (
    select *
    from json_to_recordset(${JSON.stringify(deliveries)}::json) as d(id uuid, target_id uuid)
  ),
  sent as (
    insert into rule_deliveries (
      id, organization_id, tenant_id, rule_id, target_id, run_ids, start_time, end_time
    )
    select
      d.id, r.organization_id, r.tenant_id, r.id, d.target_id, array_agg(a.run_id), min(a.start_time),
      max(coalesce(a.end_time, a.start_time))
    from planned d
    join applied a on d.id = any(a.delivery_ids)
    cross join rule r
    group by d.id, r.organization_id, r.tenant_id, r.id, d.target_id
  )${evaluations.length > 0 ? sql`, ${queueEvaluations(evaluations)}` : sql``}${queue ? sql`, ${ADD_TO_QUEUE}` : sql``}
  select id
  from rule`
