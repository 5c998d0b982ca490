// The scheduled work: deletions that partitions do not do by themselves, late patches, upgrades that ran concurrently
// with a write, and the sweep of Postgres.
import { sql as pg } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { sql, time, uuid, uuids } from '../../../kernel/clickhouse/sql.ts'
import { type Row, runAsSystem, uuidArray } from '../../../kernel/db/db.ts'
import { setClock } from '../../../kernel/db/journal.ts'
import { type Ctx, createKeylessCaller } from '../../../kernel/http/context.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import type { Services } from '../../../kernel/http/routes.ts'
import type { Permission } from '../../../kernel/permissions.ts'
import { BUDGET_MS, deleteOldRows, removeObjects } from '../postgres/sweep.ts'
import { findPlaces } from './find-runs.ts'
import { isAt } from './run-columns.ts'
import { copyTraces } from './tiers.ts'
import { mergeWaitingPatches } from './waiting-patches.ts'

const DELETION_SECONDS = 60
const MAX_PROJECTS = 100

export async function expire(clickHouse: ClickHouse, services: Services): Promise<void> {
  const end = Date.now() + BUDGET_MS
  await repeatUpgrades(clickHouse, services)
  await deleteProjects(clickHouse, services)
  await deleteFromShortProjects(clickHouse, services)
  await deleteOldRows(services)
  await runAsSystem(services.database, setClock(services.platform), CLOSE_OLD_RUNS)
  await mergeLatePatches(clickHouse, services)
  while ((await removeObjects(services)) && Date.now() < end);
}

/** A run that goes on for longer is looked up in ClickHouse. */
const CLOSE_OLD_RUNS = pg`delete from open_runs where created_at < clock() - interval '1 day'`

const select = async ({ platform, database }: Services, query: ReturnType<typeof pg<Row>>): Promise<string[][]> =>
  (await runAsSystem(database, setClock(platform), query))[1] as string[][]

/** A write that ran when its trace was upgraded may have come to the other tier. */
async function repeatUpgrades(clickHouse: ClickHouse, services: Services): Promise<void> {
  const traces = await select(
    services,
    pg<Row>`
      select tenant_id, array_to_string(array_agg(trace_id), ',')
      from (
        select tenant_id, trace_id
        from upgraded_traces
        where upgraded_at > clock() - interval '1 hour'
        order by upgraded_at
        limit 10000
      ) u
      group by tenant_id`,
  )
  for (const [tenant, ids] of traces) {
    const all = ids!.split(',')
    for (let at = 0; at < all.length; at += 200) {
      const some = uuids(all.slice(at, at + 200))
      await copyTraces(clickHouse, tenant!, sql`w.trace_id in ${some} and ${isAt(tenant!, some)}`)
    }
  }
}

/** A write that ran when its project was deleted may come later, so this is repeated for an hour. */
async function deleteProjects(clickHouse: ClickHouse, services: Services): Promise<void> {
  const deleted = await select(
    services,
    pg<Row>`select tenant_id, id from deleted_projects where not is_swept order by deleted_at limit ${MAX_PROJECTS}`,
  )
  if (deleted.length === 0) return
  const tenants = uuids([...new Set(deleted.map(([tenant]) => tenant!))])
  const projects = deleted.map(([, id]) => id!)
  const isDeleted = sql`tenant_id in ${tenants} and session_id in ${uuids(projects)}`
  const [found] = await clickHouse.query<[string]>(sql`select count() from runs where ${isDeleted}`)
  if (found![0] !== '0') await clickHouse.execute(sql`delete from runs where ${isDeleted}`, DELETION_SECONDS)
  await runAsSystem(
    services.database,
    setClock(services.platform),
    pg`
      update trace_objects
      set expires_at = clock()
      where session_id = any(${uuidArray(projects)}) and expires_at > clock()`,
  )
}

/** Deletes from projects that keep long-lived runs for less. Each project has its turn once an hour. */
async function deleteFromShortProjects(clickHouse: ClickHouse, services: Services): Promise<void> {
  const projects = await select(
    services,
    pg<Row>`
      select p.tenant_id, p.id, p.days
      from (
        select p.id, p.tenant_id, coalesce(p.longlived_ttl_days, t.longlived_ttl_days) as days
        from projects p
        left join ttl_settings t on t.tenant_id = p.tenant_id
      ) p
      where p.days < 400 and abs(hashtext(p.id::text) % 60) = extract(minute from clock())
      limit ${MAX_PROJECTS}`,
  )
  const now = services.platform.clock.now()
  for (const [tenant, id, days] of projects) {
    const until = new Date(now - Number(days) * 86_400_000).toISOString()
    const isOld = sql`tenant_id = ${uuid(tenant!)}
      and session_id = ${uuid(id!)}
      and tier = 'longlived'
      and order_time < ${time(until)}`
    const [found] = await clickHouse.query<[string]>(sql`select count() from runs where ${isOld}`)
    if (found![0] !== '0') await clickHouse.execute(sql`delete from runs where ${isOld}`, DELETION_SECONDS)
  }
}

function actFor(services: Services, organization: string, tenant: string, permission: Permission): Ctx {
  const actor = { kind: 'cron', id: null, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, `sweep-${crypto.randomUUID()}`, configuredOrigin(services.config))
  return { ...caller, permission }
}

/** Patches that a request left waiting, because its process ended before it merged them. */
async function mergeLatePatches(clickHouse: ClickHouse, services: Services): Promise<void> {
  const late = await select(
    services,
    pg<Row>`
      select organization_id, tenant_id, array_to_string(array_agg(distinct run_id), ',')
      from waiting_patches
      where created_at between clock() - interval '1 hour' and clock() - interval '1 minute'
      group by organization_id, tenant_id
      limit 100`,
  )
  for (const [organization, tenant, ids] of late)
    await mergeWaitingPatches(clickHouse, actFor(services, organization!, tenant!, 'runs:create'), ids!.split(','))
}

export async function attachFeedback(clickHouse: ClickHouse, services: Services): Promise<void> {
  const waiting = await select(
    services,
    pg<Row>`
      select organization_id, tenant_id, array_to_string(array_agg(distinct run_id), ',')
      from feedbacks
      where not is_attached and run_id is not null and received_at between clock() - interval '1 hour' and clock()
      group by organization_id, tenant_id
      limit 100`,
  )
  for (const [organization, tenant, ids] of waiting) {
    const ctx = actFor(services, organization!, tenant!, 'feedback:create')
    const found = JSON.stringify(await findPlaces(clickHouse, ctx, ids!.split(',')))
    const attach = pg`
      update feedbacks f
      set trace_id = r.trace_id, session_id = r.session_id, start_time = r.start_time, is_attached = true
      from json_to_recordset(${found}::json) as r(id uuid, trace_id uuid, session_id uuid, start_time timestamptz)
      where f.tenant_id = ${tenant}::uuid and f.run_id = r.id and not f.is_attached`
    await runAsSystem(services.database, setClock(services.platform), attach)
  }
}
