// Moves traces to the tier of long-lived ones.
import { type SQL, sql } from 'drizzle-orm'
import { run, uuidArray } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { lockWholeTraces } from './locks.ts'

/**
 * The tier of the trace `g` in the project `d`. `tier_at()` costs as much as the rest of the row, and few projects have
 * changed their tier.
 */
export const TIER = sql`case
          when u.trace_id is not null then 'longlived'
          when d.earlier_tiers = '[]' then d.trace_tier
          else tier_at(d.trace_tier, d.earlier_tiers, g.trace_time)
        end`

export async function upgrade(ctx: Ctx, traceIds: string[]): Promise<void> {
  await run(ctx, moveTraces(traceIds), [lockWholeTraces(traceIds), recordUpgrades(traceIds)])
}

/** Writes that come later follow. */
export const recordUpgrades = (traceIds: string[]): SQL => sql`
  insert into upgraded_traces (organization_id, tenant_id, trace_id, trace_time)
  select current_organization(), current_tenant(), trace_id, clock()
  from unnest(${uuidArray(traceIds)}) trace_id
  order by trace_id
  on conflict do nothing`

export const moveTraces = (traceIds: string[]): SQL => sql`
  with moved as (
    update runs
    set trace_tier = 'longlived'
    where tenant_id = current_tenant() and trace_id = any(${uuidArray(traceIds)}) and trace_tier = 'shortlived'
    returning id, trace_id, trace_time
  )
  update trace_objects o
  set expires_at = m.trace_time + kept_for('longlived')
  from moved m
  where o.tenant_id = current_tenant()
    and o.trace_id = m.trace_id
    and o.run_id = m.id
    and o.expires_at = m.trace_time + kept_for('shortlived')`
