// Makes traces long-lived that rows of another table ask for: those with `trace_id`, `extends_retention` and
// `is_upgraded`.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Permission } from '../../kernel/permissions.ts'

const MAX_TRACES = 1000

/** `isWaiting` is about rows of the table, and has an index in the order `oldestFirst`. */
type Waiting = { table: SQL; isWaiting: SQL; oldestFirst: SQL; permission: Permission }

export async function upgradeWaitingTraces(services: Services, waiting: Waiting): Promise<void> {
  const { table, isWaiting, oldestFirst, permission } = waiting
  const { config, platform, database, traces } = services
  const found = sql`
    select organization_id, tenant_id, array_to_string(array_agg(distinct trace_id), ',')
    from (
      select *
      from ${table}
      where ${isWaiting}
      order by ${oldestFirst}
      limit ${MAX_TRACES}
    ) w
    group by organization_id, tenant_id`
  const [, rows] = (await runAsSystem(database, setClock(platform), found)) as [unknown, string[][]]
  for (const [organization, tenant, ids] of rows) {
    const traceIds = ids!.split(',')
    const actor = { kind: 'cron', id: null, organization: organization!, tenant: tenant! } as const
    const caller = createKeylessCaller(services, actor, `upgrade-${crypto.randomUUID()}`, configuredOrigin(config))
    await traces.upgrade({ ...caller, permission }, traceIds)
    const upgraded = sql`
      update ${table}
      set is_upgraded = true
      where tenant_id = ${tenant}::uuid and trace_id = any(${uuidArray(traceIds)}) and ${isWaiting}`
    await runAsSystem(database, upgraded)
  }
}
