// The scheduled work of annotation queues: it extends the retention of added runs, and deletes expired items.
import { sql } from 'drizzle-orm'
import { runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { upgradeWaitingTraces } from '../retention/waiting-upgrades.ts'

const MAX_CHECKED = 500

const WAITING = {
  table: sql`annotation_queue_items`,
  isWaiting: sql`extends_retention and not is_upgraded`,
  oldestFirst: sql`created_at`,
  permission: 'annotation-queues:update' as const,
}

export async function sweepQueues(services: Services): Promise<void> {
  await upgradeWaitingTraces(services, WAITING)
  await deleteExpiredItems(services)
}

/** Runs expire without a trace here, so items are checked once a day from the first day on which that can happen. */
async function deleteExpiredItems(services: Services): Promise<void> {
  const { config, platform, database, traces } = services
  const due = sql`
    select organization_id, tenant_id, array_to_string(array_agg(coalesce(run_id, id)), ',')
    from (
      select *
      from annotation_queue_items
      where check_at < clock()
      order by check_at
      limit ${MAX_CHECKED}
    ) i
    group by organization_id, tenant_id`
  const [, rows] = (await runAsSystem(database, setClock(platform), due)) as [unknown, string[][]]
  for (const [organization, tenant, ids] of rows) {
    const actor = { kind: 'cron', id: null, organization: organization!, tenant: tenant! } as const
    const caller = createKeylessCaller(services, actor, `queues-${crypto.randomUUID()}`, configuredOrigin(config))
    const given = uuidArray(ids!.split(','))
    const runs = await traces.findRuns({ ...caller, permission: 'annotation-queues:update' }, ids!.split(','))
    const isChecked = sql`i.tenant_id = ${tenant}::uuid and coalesce(i.run_id, i.id) = any(${given})`
    const isThere = sql`exists (select from ${runs} r where r.tenant_id = i.tenant_id and r.id = i.run_id)`
    await runAsSystem(
      database,
      setClock(platform),
      sql`delete from annotation_queue_items i where ${isChecked} and i.check_at < clock() and not ${isThere}`,
      sql`
        update annotation_queue_items i
        set check_at = clock() + interval '1 day'
        where ${isChecked} and i.check_at < clock()`,
    )
  }
}
