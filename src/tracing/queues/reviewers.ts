// Assigns people to review the items of an annotation queue.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../../kernel/http/context.ts'
import { updateQueue } from './queues.ts'
import * as schema from './schema.ts'

/** A member of the workspace, or a key that reaches it. */
const isIdentity = (id: string): SQL => sql`(
  exists (
    select from workspace_members w where w.member_id = ${id}::uuid and w.tenant_id = current_tenant()
  )
  or exists (
    select from api_keys k
    where k.id = ${id}::uuid
      and k.organization_id = current_organization()
      and coalesce(k.tenant_id, current_tenant()) = current_tenant()
  )
)`

export const addReviewer = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, identity_id }: z.output<typeof schema.QueueRef> & z.output<typeof schema.NewReviewer>) => {
    const reviewer_ids = sql`case
      when not ${isIdentity(identity_id)} then refuse('identity_not_found')::text::uuid[]
      when cardinality(annotation_queues.reviewer_ids) >= ${schema.MAX_REVIEWERS}
        then refuse('reviewers_full')::text::uuid[]
      else array_append(array_remove(annotation_queues.reviewer_ids, ${identity_id}::uuid), ${identity_id}::uuid)
    end`
    await updateQueue(ctx, queue_id, { reviewer_ids }, ['reviewer_ids'])
    return { identity_id }
  },
)

export const removeReviewer = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, identity_id }: z.output<typeof schema.ReviewerRef>): Promise<void> => {
    const reviewer_ids = sql`array_remove(annotation_queues.reviewer_ids, ${identity_id}::uuid)`
    await updateQueue(ctx, queue_id, { reviewer_ids }, ['reviewer_ids'])
  },
)
