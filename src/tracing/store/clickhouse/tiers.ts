// Moves traces to the tier of long-lived ones: copies of their writes, which the partitions of that tier keep.
import { sql as pg } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { type Sql, sql, uuid, uuids } from '../../../kernel/clickhouse/sql.ts'
import { type Row, run, uuidArray } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { lockWholeTraces } from '../postgres/locks.ts'
import { isAt } from './run-columns.ts'
import { enterWorkspace } from './workspace.ts'

/** The limit of one statement, whose ids are in its address. */
export const MAX_TRACES = 200

/** Objects of short-lived traces expire within this time. Those of deleted ones have expired. */
const recordUpgrades = (traceIds: string[]) => pg<Row>`
  with recorded as (
    insert into upgraded_traces (organization_id, tenant_id, trace_id, trace_time)
    select current_organization(), current_tenant(), trace_id, clock()
    from unnest(${uuidArray(traceIds)}) trace_id
    order by trace_id
    on conflict do nothing
    returning trace_id
  )
  update trace_objects o
  set expires_at = o.expires_at - kept_for('shortlived') + kept_for('longlived')
  from recorded r
  where o.tenant_id = current_tenant()
    and o.trace_id = r.trace_id
    and o.expires_at between clock() and clock() + kept_for('shortlived') + interval '1 day'`

export async function upgrade(clickHouse: ClickHouse, ctx: Ctx, traceIds: string[]): Promise<void> {
  await run(ctx, recordUpgrades(traceIds), [lockWholeTraces(traceIds)])
  const tenant = await enterWorkspace(ctx)
  for (let at = 0; at < traceIds.length; at += MAX_TRACES)
    await moveTraces(clickHouse, tenant, traceIds.slice(at, at + MAX_TRACES))
}

/** The table `upgraded` is written first: it decides for a run that is written concurrently. */
export async function moveTraces(clickHouse: ClickHouse, tenant: string, traceIds: string[]): Promise<void> {
  const upgraded_at = Math.floor(Date.now() / 1000)
  await clickHouse.insert(
    'upgraded',
    traceIds.map(trace_id => ({ tenant_id: tenant, trace_id, upgraded_at })),
  )
  await copyTraces(clickHouse, tenant, sql`w.trace_id in ${uuids(traceIds)} and ${isAt(tenant, uuids(traceIds))}`)
}

/** Leaves out traces that have been copied before. */
export const copyTraces = (clickHouse: ClickHouse, tenant: string, condition: Sql): Promise<void> =>
  clickHouse.execute(sql`
    insert into runs
    select * replace('longlived' as tier)
    from runs_of(tenant = ${uuid(tenant)}) w
    where w.tier = 'shortlived'
      and ${condition}
      and (w.id, w.digest) not in (
        select id, digest
        from runs_of(tenant = ${uuid(tenant)}) w
        where w.tier = 'longlived' and ${condition}
      )`)
