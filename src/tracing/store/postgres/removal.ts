// Deletes traces at once, with their feedback. The sweep removes their objects.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../../kernel/db/db.ts'
import { commit } from '../../../kernel/db/journal.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { lockWholeTraces } from './locks.ts'

export async function remove(ctx: Ctx, traceIds: string[], project?: string): Promise<string[]> {
  const ids = uuidArray(traceIds)
  const removed = sql`removed as (
      delete from runs
      where tenant_id = current_tenant()
        and trace_id = any(${ids})
        and session_id = coalesce(${project ?? null}::uuid, session_id)
      returning trace_id, session_id, id
    )`
  return commitRemoval(ctx, traceIds, removed)
}

/**
 * Journals the removal of the runs in `removed`, and deletes their related rows. Returns the traces that were found.
 */
export async function commitRemoval(ctx: Ctx, traceIds: string[], removed: SQL, more: SQL[] = []): Promise<string[]> {
  const forgotten = sql`forgotten as (
      delete from upgraded_traces
      where tenant_id = current_tenant() and trace_id in (select trace_id from removed)
    )`
  const expired = sql`expired as (
      update trace_objects
      set expires_at = clock()
      where tenant_id = current_tenant() and trace_id in (select trace_id from removed)
    )`
  const unsaid = sql`unsaid as (
      delete from feedbacks
      where tenant_id = current_tenant() and run_id in (select id from removed)
    )`
  const unqueued = sql`unqueued as (
      delete from annotation_queue_items
      where tenant_id = current_tenant() and run_id in (select id from removed)
    )`
  const unsorted = sql`unsorted as (
      delete from insight_runs
      where tenant_id = current_tenant() and run_id in (select id from removed)
      returning job_id, run_id
    )`
  const unsummarized = sql`unsummarized as (
      delete from insight_steps s
      using unsorted u
      where s.tenant_id = current_tenant()
        and s.job_id = u.job_id
        and s.key in ('summary/' || u.run_id, 'summary/' || u.run_id || '/repair')
    )`
  const unshared = sql`unshared as (
      delete from run_shares
      where tenant_id = current_tenant() and run_id in (select id from removed)
    )`
  const change = sql<{ trace_ids: string[] }>`
      select session_id as id, array_agg(distinct trace_id) as trace_ids
      from removed
      where (select require_admitted_projects(array(select distinct session_id from removed), '{}'))
      group by session_id`
  const data = sql`json_build_object('trace_ids', changed.trace_ids)`
  const rows = await commit(ctx, 'project.traces_deleted', change, data, {
    ctesBefore: [removed, ...more, forgotten, expired, unsaid, unqueued, unsorted, unsummarized, unshared],
    lock: lockWholeTraces(traceIds),
  })
  return rows.flatMap(({ trace_ids }) => trace_ids)
}
