// Tells of budgets that are nearly or wholly spent, and deletes the usage of models after as long as events are kept.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { deleteExpired, HAS_SWEEP_LEASE, type SweepServices, takeSweepLease } from '../../kernel/db/sweep.ts'

const MAX_BUDGETS = 500

/** Each limit counts by itself: the one of which most is spent decides. */
const SPENT_SHARE = sql`case
        when b.period_start < model_period(b.period) then 0
        else greatest(
          b.spent_calls::double precision / nullif(b.limit_calls, 0),
          b.spent_tokens::double precision / nullif(b.limit_tokens, 0),
          b.spent_usd / nullif(b.limit_usd, 0),
          0
        )
      end`
const REACHED_PERCENT = sql`case when s.share >= 1 then 100 when s.share >= 0.8 then 80 else 0 end`

/** One event for each share in a period, and one once nothing is short any more. */
export async function tellBudgets({ database, platform }: SweepServices): Promise<void> {
  const events = sql`
    select
      tenant_id,
      organization_id,
      case told_percent
        when 100 then 'model_budget.spent'
        when 80 then 'model_budget.near_limit'
        else 'model_budget.renewed'
      end as type,
      id as subject_id,
      json_strip_nulls(json_build_object(
        'deployment_id', deployment_id, 'period', period, 'percent', floor(least(share, 100) * 100)
      )) as data,
      null::json as changes
    from changed
    where told_percent <> 80 or before < 80`
  await runAsSystem(
    database,
    setSystemSettings(platform, 'model-budgets'),
    takeSweepLease('model budgets'),
    sql`
      with due as materialized (
        select b.id, b.told_percent as before, s.share, ${REACHED_PERCENT} as reached
        from model_budgets b
        cross join lateral (select ${SPENT_SHARE} as share) s
        where ${HAS_SWEEP_LEASE} and b.told_percent <> ${REACHED_PERCENT}
        order by b.id
        limit ${MAX_BUDGETS}
        for update of b skip locked
      ),
      changed as (
        update model_budgets b
        set told_percent = due.reached
        from due
        where b.id = due.id
        returning b.*, due.before, due.share
      )
      select ${journalTenantEvents(events)}
      from (select count(*) from changed) counted
      where counted.count > 0`,
  )
}

export async function sweepModelUsage(services: SweepServices): Promise<void> {
  await tellBudgets(services)
  await deleteExpired(services, 'model usage', [
    { table: 'model_usage', where: sql`day < (clock() - interval '400 days')::date` },
  ])
}
