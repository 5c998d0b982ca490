// Moves traces to the tier of long-lived ones.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { run, uuidArray } from '../../kernel/db.ts'
import { lockMovedTraces } from './locks.ts'

/**
 * Of the trace `g` in the project `d`. `tier_at()` costs as much as the rest of the row, and few projects have changed
 * their tier.
 */
export const TIER = sql`case
          when u.trace_id is not null then 'longlived'
          when d.earlier_tiers = '[]' then d.trace_tier
          else tier_at(d.trace_tier, d.earlier_tiers, g.trace_time)
        end`

export async function upgrade(ctx: Ctx, traceIds: string[]): Promise<void> {
  const ids = uuidArray(traceIds)
  // Only where the rows of the trace are, so that the partitions of the other tier are not searched.
  const move = sql`
    update runs
    set trace_tier = 'longlived'
    where tenant_id = current_tenant() and trace_id = any(${ids}) and trace_tier = 'shortlived'`
  const record = sql`
    insert into upgraded_traces (organization_id, tenant_id, trace_id, trace_time)
    select current_organization(), current_tenant(), trace_id, clock()
    from unnest(${ids}) trace_id
    order by trace_id
    on conflict do nothing`
  await run(ctx, move, [lockMovedTraces(traceIds), record])
}
