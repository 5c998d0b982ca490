// The progress of the review of each item, as the caller sees it.
import { type SQL, sql } from 'drizzle-orm'
import type { ItemCursor, Section } from './items.schema.ts'

/**
 * CTEs `queue` and `items`, for a condition on the queue `q` and another on its items `i`. An item that is reserved by
 * another person counts as completed by them, until the reservation ends.
 */
export const sectionedItems = (isQueue: SQL, isItem: SQL = sql`true`): SQL => sql`
    queue as (
      select q.*, coalesce(q.num_reviewers_per_item, greatest(cardinality(q.reviewer_ids), 1)) as needed
      from annotation_queues q
      where q.tenant_id = current_tenant() and ${isQueue}
    ),
    items as (
      select
        i.*,
        coalesce(r.override_added_at, i.added_at) as effective_added_at,
        r.completed_by,
        r.reserved_by,
        r.completed_at,
        case
          when cardinality(r.completed_by) >= q.needed then 'archived'
          when current_actor() = any(r.completed_by)
            or cardinality(r.completed_by) + cardinality(array_remove(r.reserved_by, current_actor())) >= q.needed
            or q.reviewer_access_mode = 'assigned' and not current_actor() = any(q.reviewer_ids)
            then 'needs_others_review'
          else 'needs_my_review'
        end as section
      from queue q
      join annotation_queue_items i on i.queue_id = q.id and i.tenant_id = q.tenant_id
      cross join lateral (
        select
          coalesce(array_agg(w.reviewer_id order by w.updated_at) filter (where w.status = 'completed'), '{}')
            as completed_by,
          coalesce(array_agg(w.reviewer_id order by w.updated_at) filter (
            where w.status = 'viewed'
              and q.enable_reservations
              and w.updated_at > clock() - make_interval(mins => q.reservation_minutes)
          ), '{}') as reserved_by,
          max(w.updated_at) filter (where w.status = 'completed') as completed_at,
          max(w.override_added_at) filter (where w.reviewer_id = current_actor()) as override_added_at
        from annotation_queue_reviews w
        where w.item_id = i.id and w.tenant_id = i.tenant_id
      ) r
      where ${isItem}
    )`

export const isInSection = (section: Section): SQL => sql`i.section = ${section}`

export const isFromCursor = ({ time, place }: ItemCursor): SQL =>
  sql`(i.effective_added_at, i.place) >= (${time}::timestamptz, ${place}::bigint)`
export const isBeforeCursor = ({ time, place }: ItemCursor): SQL =>
  sql`(i.effective_added_at, i.place) < (${time}::timestamptz, ${place}::bigint)`
