// Deletes traces at once, with their feedback. The sweep removes their objects.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { type Row, run, uuidArray } from '../../kernel/db.ts'
import { lockWholeTraces } from './locks.ts'

export async function remove(ctx: Ctx, traceIds: string[]): Promise<string[]> {
  const ids = uuidArray(traceIds)
  const removed = sql<Row>`
    with forgotten as (
      delete from upgraded_traces
      where tenant_id = current_tenant() and trace_id = any(${ids})
    ),
    expired as (
      update trace_objects
      set expires_at = clock()
      where tenant_id = current_tenant() and trace_id = any(${ids})
    ),
    deleted as (
      delete from runs
      where tenant_id = current_tenant() and trace_id = any(${ids})
      returning trace_id, session_id, id
    ),
    unsaid as (
      delete from feedbacks
      where tenant_id = current_tenant() and run_id in (select id from deleted)
    )
    select distinct trace_id
    from deleted
    where (select require_admitted_projects(array(select distinct session_id from deleted), '{}'))`
  return (await run(ctx, removed, lockWholeTraces(traceIds))).map(([id]) => id as string)
}
