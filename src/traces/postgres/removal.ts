// Deletes traces at once.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { type Row, run, uuidArray } from '../../kernel/db.ts'
import { lockMovedTraces } from './locks.ts'

export async function remove(ctx: Ctx, traceIds: string[]): Promise<string[]> {
  const ids = uuidArray(traceIds)
  const removed = sql<Row>`
    with forgotten as (
      delete from upgraded_traces
      where tenant_id = current_tenant() and trace_id = any(${ids})
    ),
    deleted as (
      delete from runs
      where tenant_id = current_tenant() and trace_id = any(${ids})
      returning trace_id
    )
    select distinct trace_id
    from deleted`
  return (await run(ctx, removed, lockMovedTraces(traceIds))).map(([id]) => id as string)
}
