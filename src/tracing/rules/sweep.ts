// Evaluates the rules that are due, and deletes finished runs and old applications.
import { sql } from 'drizzle-orm'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { evaluateAndSend } from './evaluate.ts'

export async function sweepRules(services: Services): Promise<void> {
  await evaluateAndSend(services, sql`true`)
  await deleteSeenRuns(services)
}

/** A day longer than `readFinishedRuns()` looks back, so that no run is a candidate whose application is gone. */
const RETENTION = sql`interval '31 days'`
/** A rule that cannot be evaluated for so long has lost its place. */
const MAX_WAIT = sql`interval '7 days'`

/** Deletes the runs that every rule and every drain of traces has seen, and applications after a month. */
export async function deleteSeenRuns(services: Services): Promise<void> {
  const isSeen = sql`(
      finished_runs.created_at < clock() - ${MAX_WAIT}
      or not exists (
        select from run_rules r
        where r.tenant_id = finished_runs.tenant_id
          and r.is_enabled
          and r.position < finished_runs.id
          and (r.session_id = finished_runs.session_id or r.dataset_id is not null)
      ) and not exists (
        select from drains d
        where d.tenant_id = finished_runs.tenant_id
          and d.enabled
          and 'traces' = any(d.signals)
          and d.trace_position < finished_runs.id
      ))`
  const isOld = sql`created_at < clock() - ${RETENTION}`
  await deleteExpired(services, 'rules', [
    { table: 'finished_runs', where: isSeen },
    { table: 'rule_applications', where: isOld },
    { table: 'rule_deliveries', where: isOld },
    { table: 'rule_evaluations', where: isOld },
  ])
}
