// CTEs that add runs to the annotation queue of a rule, in the statement that applies it.
import { sql } from 'drizzle-orm'
import { insertItems, roomOf } from '../queues/new-items.ts'

/** A row for each run that is given to the queue of the rule. A full queue takes no further ones. */
export const QUEUE_OUTCOMES = sql`
  queue as (
    select q.id, ${roomOf(sql`q.id`)} as room
    from rule r
    join annotation_queues q on q.id = r.add_to_annotation_queue_id and q.tenant_id = r.tenant_id
  ),
  queue_outcomes as (
    select g.run_id, case
      when i.id is not null
        then jsonb_build_object('outcome', 'skipped', 'payload', jsonb_build_object('queue_id', q.id))
      when row_number() over (partition by i.id is null order by g.run_id) <= q.room
        then jsonb_build_object('outcome', 'success', 'payload', json_build_object('queue_id', q.id))
      else jsonb_build_object('outcome', 'error', 'payload', json_build_object('error', 'queue_full'))
    end as outcome
    from given g
    cross join queue q
    left join annotation_queue_items i
      on i.queue_id = q.id and i.run_id = g.run_id and i.tenant_id = current_tenant()
  )`
export const OUTCOMES_WITH_QUEUE = sql`(g.outcomes::jsonb || coalesce((
        select jsonb_build_object('add_to_annotation_queue', o.outcome)
        from queue_outcomes o
        where o.run_id = g.run_id
      ), '{}'))::json`
/** CTEs that add the runs to the queue, each once: where the rule was applied before, `applied` does not have them. */
export const ADD_TO_QUEUE = sql`
  found as (
    select row_number() over (order by g.start_time, g.run_id) as place, g.run_id, null::text as thread_id,
      g.run_session_id as session_id, g.trace_id, g.start_time, null::uuid as source_proposed_example_id
    from applied a
    join given g on g.run_id = a.run_id
    join queue_outcomes o on o.run_id = a.run_id and o.outcome ->> 'outcome' <> 'error'
  ),
  ${sql.join(insertItems(sql`queue`, true), sql`, `)}`
