// The relations of this store that statements of other slices join, and the rows of `runs` that reads show.
import { type SQL, sql } from 'drizzle-orm'

export const RUNS = sql`runs`
export const SESSION_MINUTES = sql`session_minutes`

/**
 * A run without a name or a type has only been patched so far. Expired runs are not shown, though they are deleted only
 * later. Runs are kept at least as long as a short-lived trace, so the project is looked up for old runs only.
 */
export function isShown(table: string): SQL {
  const run = sql.identifier(table)
  return sql`${run}.name is not null
      and ${run}.run_type is not null
      and ${run}.order_time > clock() - kept_for('longlived')
      and case
        when ${run}.trace_time > clock() - kept_for('shortlived') then true
        when ${run}.trace_tier = 'shortlived' then false
        else ${run}.trace_time > clock() - make_interval(
          days => longlived_days((select p.longlived_ttl_days from projects p where p.id = ${run}.session_id))
        )
      end`
}

export const hasThread = (project: string, thread: string): SQL => sql`exists (
    select from runs r
    where r.tenant_id = current_tenant()
      and r.session_id = ${project}::uuid
      and r.thread_id = ${thread}
      and r.id = r.trace_id
      and ${isShown('r')}
  )`
