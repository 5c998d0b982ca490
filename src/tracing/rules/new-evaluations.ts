// The evaluations that follow when a rule is applied to runs, stored in the statement that applies it.
import { type SQL, sql } from 'drizzle-orm'
import type { StoredRun } from '../store/queries.ts'
import type { ClaimedRule } from './claimed-rule.ts'
import { evaluationIdOf, newEvaluationId } from './evaluation-ids.ts'

/** `source_id` is that of the evaluation whose call the run is, if it is one. */
export type PlannedEvaluation = { id: string; run_id: string; evaluator_id: string; source_id: string }

export function planEvaluations({ evaluators, evaluator_id }: ClaimedRule, runs: StoredRun[]): PlannedEvaluation[] {
  const ids = [...new Set([...evaluators.map(({ id }) => id), ...(evaluator_id === null ? [] : [evaluator_id])])]
  return runs.flatMap(({ id: run_id }) =>
    ids.map(evaluator => ({
      id: newEvaluationId(),
      run_id,
      evaluator_id: evaluator,
      source_id: evaluationIdOf(run_id),
    })),
  )
}

/**
 * Calls of evaluators are runs, which rules may judge too. So that this ends, no rule judges the calls of its own
 * evaluators, and none judges a call that judged such a call.
 */
export const queueEvaluations = (planned: PlannedEvaluation[]): SQL => sql`
  planned_evaluations as (
    select *
    from json_to_recordset(${JSON.stringify(planned)}::json)
      as p(id uuid, run_id uuid, evaluator_id uuid, source_id uuid)
  ),
  queued_evaluations as (
    insert into rule_evaluations (
      id, organization_id, tenant_id, rule_id, run_id, evaluator_id, is_of_evaluator, state, next_attempt_at, error
    )
    select
      p.id, r.organization_id, r.tenant_id, r.id, p.run_id, p.evaluator_id, s.id is not null,
      case when s.is_closed then 'skipped' else 'waiting' end,
      case when s.is_closed then null else clock() end,
      case when s.is_closed then 'is_evaluation' end
    from planned_evaluations p
    join applied a on a.run_id = p.run_id
    cross join rule r
    left join lateral (
      select e.id, e.rule_id = r.id or e.is_of_evaluator as is_closed
      from rule_evaluations e
      where e.id = p.source_id and e.tenant_id = r.tenant_id
    ) s on true
    order by p.run_id, p.evaluator_id
    on conflict do nothing
  )`
