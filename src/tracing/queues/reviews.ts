// The review of an item by one person, who viewed it, which reserves it, or completed it.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { sectionedItems } from './item-sections.ts'
import type * as schema from './items.schema.ts'

const lockItem = (id: string): SQL => sql`
  select from annotation_queue_items i
  where i.id = ${id}::uuid and i.tenant_id = current_tenant()
  for no key update`

/** A person who looks at a completed item again does not reopen it. */
const isSeenAgain = sql`w.status = 'completed' and excluded.status is not distinct from 'viewed'`

/** A reservation is refused if the item is taken. A person who has completed it keeps it, so no work is lost. */
async function storeReview(ctx: Ctx, item_id: string, { status = null, override_added_at }: schema.Review) {
  const ofItem = sql`q.id = (
        select i.queue_id
        from annotation_queue_items i
        where i.id = ${item_id}::uuid and i.tenant_id = current_tenant()
      )`
  const statement = sql<Row>`
    with ${sectionedItems(ofItem, sql`i.id = ${item_id}::uuid`)},
    reviewed as (
      insert into annotation_queue_reviews as w (organization_id, tenant_id, item_id, status, override_added_at)
      select i.organization_id, i.tenant_id, i.id, ${status}, ${override_added_at ?? null}::timestamptz
      from items i
      cross join queue q
      where case
          when q.reviewer_access_mode = 'assigned' and not current_actor() = any(q.reviewer_ids)
            then refuse('not_a_reviewer')
          when ${status} = 'viewed'
            and i.section <> 'needs_my_review'
            and not current_actor() = any(i.completed_by)
            then refuse('queue_item_taken')
          else true
        end
      on conflict (item_id, reviewer_id) do update set
        status = case when ${isSeenAgain} then w.status else excluded.status end,
        override_added_at = coalesce(excluded.override_added_at, w.override_added_at),
        updated_at = case when ${isSeenAgain} then w.updated_at else clock() end
      returning item_id, status, override_added_at
    ),
    noted as (
      update annotation_queue_items i
      set last_reviewed_time = clock()
      from reviewed w
      where w.status = 'completed' and i.id = w.item_id and i.tenant_id = current_tenant()
    )
    select w.status, w.override_added_at,
      cardinality(array_remove(i.completed_by, current_actor())) + (w.status is not distinct from 'completed')::integer
        >= q.needed
    from reviewed w
    join items i on i.id = w.item_id
    cross join queue q` as SQL<Row>
  const rows = await run(ctx, statement, lockItem(item_id))
  const [stored, override, isArchived] = requireRow(rows, 'queue_item_not_found')
  return {
    queue_item_id: item_id,
    status: stored as 'viewed' | 'completed' | null,
    override_added_at: toIsoTime(override as string | null),
    is_archived: isArchived === true,
  }
}

export const reviewQueueRun = verb(
  'annotation-queues:update',
  (ctx, { queue_run_id, ...review }: z.output<typeof schema.ReviewedRunRef> & schema.Review) =>
    storeReview(ctx, queue_run_id, review),
  { byPolicy: true },
)

export const reviewQueueItem = verb(
  'annotation-queues:update',
  (ctx, { item_id, ...review }: z.output<typeof schema.ReviewedItemRef> & schema.Review) =>
    storeReview(ctx, item_id, review),
  { byPolicy: true },
)
