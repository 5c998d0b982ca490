// The runs that wait for the rules of a workspace.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import type { ClaimedRule } from './claimed-rule.ts'

export type FinishedRun = { id: number; run_id: string; trace_id: string; is_applied: boolean }

/** The sweep keeps applications for a day longer. */
const MEMORY = sql`interval '30 days'`

/**
 * Waits for the transactions that have taken numbers, which take them under the same lock, shared. A row that becomes
 * visible after this has a higher number than all visible ones, so a rule that remembers the last number it saw misses
 * no run, however long its transaction took. A time of the row, with some seconds of distance, would miss the run of a
 * transaction that takes longer.
 */
export const lockFinishedRuns = (tenant: string): SQL[] => [
  sql`select set_config('lock_timeout', '2s', true)`,
  sql`select pg_advisory_xact_lock(hashtextextended('finished runs of ' || ${tenant}, 0))`,
]

/**
 * Marks runs that the rule has been applied to before, and those from before a month ago, because applications are not
 * remembered for longer.
 */
export async function readFinishedRuns(ctx: Ctx, rule: ClaimedRule, limit: number): Promise<FinishedRun[]> {
  const projects = rule.session_id
    ? sql`select ${rule.session_id}::uuid`
    : sql`
        select p.id
        from projects p
        where p.reference_dataset_id = ${rule.dataset_id}::uuid and p.tenant_id = current_tenant()`
  const page = sql<Row>`
    select f.id, f.run_id, f.trace_id,
      f.order_time < clock() - ${MEMORY} or exists (
        select from rule_applications a
        where a.rule_id = ${rule.id}::uuid and a.run_id = f.run_id and a.tenant_id = current_tenant()
      )
    from finished_runs f
    where f.tenant_id = current_tenant()
      and f.session_id in (${projects})
      and f.id > ${rule.position}::bigint
    order by f.id
    limit ${limit}`
  const rows = (await run(ctx, page, lockFinishedRuns(rule.tenant_id))) as [string, string, string, boolean][]
  return rows.map(([id, run_id, trace_id, is_applied]) => ({ id: Number(id), run_id, trace_id, is_applied }))
}
