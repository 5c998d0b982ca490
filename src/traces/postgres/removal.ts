// Deletes traces at once, with their feedback. The sweep removes their objects.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { uuidArray } from '../../kernel/db.ts'
import { commit } from '../../kernel/journal.ts'
import { lockWholeTraces } from './locks.ts'

export async function remove(ctx: Ctx, traceIds: string[], session?: string): Promise<string[]> {
  const ids = uuidArray(traceIds)
  const deleted = sql`deleted as (
      delete from runs
      where tenant_id = current_tenant()
        and trace_id = any(${ids})
        and session_id = coalesce(${session ?? null}::uuid, session_id)
      returning trace_id, session_id, id
    )`
  const forgotten = sql`forgotten as (
      delete from upgraded_traces
      where tenant_id = current_tenant() and trace_id in (select trace_id from deleted)
    )`
  const expired = sql`expired as (
      update trace_objects
      set expires_at = clock()
      where tenant_id = current_tenant() and trace_id in (select trace_id from deleted)
    )`
  const unsaid = sql`unsaid as (
      delete from feedbacks
      where tenant_id = current_tenant() and run_id in (select id from deleted)
    )`
  const unqueued = sql`unqueued as (
      delete from annotation_queue_items
      where tenant_id = current_tenant() and run_id in (select id from deleted)
    )`
  const unshared = sql`unshared as (
      delete from run_shares
      where tenant_id = current_tenant() and run_id in (select id from deleted)
    )`
  const change = sql<{ trace_ids: string[] }>`
      select session_id as id, array_agg(distinct trace_id) as trace_ids
      from deleted
      where (select require_admitted_projects(array(select distinct session_id from deleted), '{}'))
      group by session_id`
  const data = sql`json_build_object('trace_ids', changed.trace_ids)`
  const rows = await commit(ctx, 'project.traces_deleted', change, data, {
    ctesBefore: [deleted, forgotten, expired, unsaid, unqueued, unshared],
    lock: lockWholeTraces(traceIds),
  })
  return rows.flatMap(({ trace_ids }) => trace_ids)
}
