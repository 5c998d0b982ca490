// The spending of evaluators in seven days, by day, and in the seven days before.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import type * as schema from './online-evaluators.schema.ts'

const GROUPS = {
  evaluator: { evaluator_id: sql`e.evaluator_id`, evaluator_name: sql`v.name` },
  resource: {
    session_id: sql`r.session_id`,
    session_name: sql`p.name`,
    dataset_id: sql`r.dataset_id`,
    dataset_name: sql`d.name`,
  },
  run_rule: { run_rule_id: sql`r.id`, run_rule_name: sql`r.display_name` },
} satisfies Record<string, Record<string, SQL>>
const MEMBERS = [...Object.keys(GROUPS.evaluator), ...Object.keys(GROUPS.resource), ...Object.keys(GROUPS.run_rule)]

export const readEvaluatorSpending = verb('rules:read', async (ctx, query: schema.SpendQuery) => {
  const { period_start, group_by, evaluator_id, session_id, dataset_id } = query
  const group: Record<string, SQL> = GROUPS[group_by ?? (evaluator_id ? 'evaluator' : 'resource')]
  const columns = sql.join(
    MEMBERS.map(name => sql`${group[name] ?? sql`null`} as ${sql.identifier(name)}`),
    sql`, `,
  )
  const names = sql.join(
    MEMBERS.map(name => sql.identifier(name)),
    sql`, `,
  )
  const statement = sql<Row>`
    with evaluations as (
      select ${columns}, (e.created_at at time zone 'UTC')::date as day, coalesce(e.cost_usd, 0) as cost
      from run_rules r
      join rule_evaluations e on e.rule_id = r.id and e.tenant_id = r.tenant_id
      left join evaluators v on v.id = e.evaluator_id and v.tenant_id = r.tenant_id
      left join projects p on p.id = r.session_id and p.tenant_id = r.tenant_id
      left join datasets d on d.id = r.dataset_id and d.tenant_id = r.tenant_id
      where r.tenant_id = current_tenant()
        and e.state = 'done'
        and e.created_at >= (${period_start}::date - 7)::timestamp at time zone 'UTC'
        and e.created_at < (${period_start}::date + 7)::timestamp at time zone 'UTC'
        and (${evaluator_id ?? null}::uuid is null or e.evaluator_id = ${evaluator_id ?? null}::uuid)
        and (${session_id ?? null}::uuid is null or r.session_id = ${session_id ?? null}::uuid)
        and (${dataset_id ?? null}::uuid is null or r.dataset_id = ${dataset_id ?? null}::uuid)
    ),
    days as (
      select ${names}, day, sum(cost) as spend, count(*) as traces, day >= ${period_start}::date as is_now
      from evaluations
      group by ${names}, day
    ),
    groups as (
      select ${names},
        coalesce(
          json_agg(json_build_object('date', day, 'spend_usd', spend, 'trace_count', traces) order by day)
            filter (where is_now),
          '[]'
        ) as days,
        coalesce(sum(spend) filter (where is_now), 0) as total_spend_usd,
        coalesce(sum(traces) filter (where is_now), 0) as total_trace_count,
        coalesce(sum(spend) filter (where not is_now), 0) as prev_total_spend_usd,
        coalesce(sum(traces) filter (where not is_now), 0) as prev_total_trace_count
      from days
      group by ${names}
    )
    select json_build_object(
        'period_start', ${period_start}::date,
        'period_end', ${period_start}::date + 7,
        'groups', coalesce((select json_agg(g order by g.total_spend_usd desc) from groups g), '[]')
      )::text`
  const [[text]] = (await run(ctx, statement)) as [[string]]
  return JSON.parse(text) as schema.Spending
})
