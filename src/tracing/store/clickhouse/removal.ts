// Deletes traces at once, with their feedback. Postgres journals it first: the client repeats a deletion that fails
// then.
import { sql as pg } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { all, type Sql, sql, uuid, uuids } from '../../../kernel/clickhouse/sql.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { commitRemoval } from '../postgres/removal.ts'
import { isAt, selectRuns } from './run-columns.ts'
import { MAX_TRACES } from './tiers.ts'
import { enterWorkspace } from './workspace.ts'

export async function remove(
  clickHouse: ClickHouse,
  ctx: Ctx,
  traceIds: string[],
  project?: string,
): Promise<string[]> {
  const tenant = await enterWorkspace(ctx)
  const ofTraces = (ids: string[]): Sql =>
    all([isAt(tenant, uuids(ids)), ...(project ? [sql`w.session_id = ${uuid(project)}`] : [])])
  const rows = await clickHouse.query<[string, string, string]>(sql`
    select toString(r.trace_id), toString(r.session_id), toString(r.id)
    from (${selectRuns(tenant, [], ofTraces(traceIds))}
    ) r
    where r.trace_id in ${uuids(traceIds)}`)
  const removed = await journalRemoval(ctx, rows, traceIds)
  for (let at = 0; at < removed.length; at += MAX_TRACES) {
    const ids = removed.slice(at, at + MAX_TRACES)
    await clickHouse.execute(deleteTraces(tenant, ids, project))
  }
  return removed
}

/** Deletes by the places of the traces, so that few parts are touched. */
const deleteTraces = (tenant: string, ids: string[], project: string | undefined): Sql => sql`
    delete from runs
    where tenant_id = ${uuid(tenant)}
      and trace_id in ${uuids(ids)}
      ${project ? sql`and session_id = ${uuid(project)}` : sql``}
      and (session_id, order_time) in (
        select session_id, order_time
        from places
        where tenant_id = ${uuid(tenant)} and key in ${uuids(ids)}
      )`

async function journalRemoval(ctx: Ctx, rows: [string, string, string][], traceIds: string[]): Promise<string[]> {
  const given = JSON.stringify(rows.map(([trace_id, session_id, id]) => ({ trace_id, session_id, id })))
  const removed = pg`removed as (
      select g.trace_id, g.session_id, g.id
      from json_to_recordset(${given}::json) as g(trace_id uuid, session_id uuid, id uuid)
      join projects p on p.tenant_id = current_tenant() and p.id = g.session_id
    )`
  const closed = pg`closed as (
      delete from open_runs
      where tenant_id = current_tenant() and id in (select id from removed)
    )`
  return commitRemoval(ctx, traceIds, removed, [closed])
}
