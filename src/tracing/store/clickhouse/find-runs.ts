// Finds runs, as a relation for statements of Postgres.
import { sql as pg, type SQL } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { join, name, sql, uuids } from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime } from '../../../kernel/clickhouse/times.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { readPlaces } from './place-statement.ts'
import { isAt, selectRuns } from './run-columns.ts'
import { enterWorkspace } from './workspace.ts'

const COLUMNS = [
  'id',
  'session_id',
  'trace_tier',
  'trace_id',
  'trace_time',
  'order_time',
  'dotted_order',
  'parent_run_id',
  'start_time',
  'name',
]

export async function findPlaces(
  clickHouse: ClickHouse,
  ctx: Ctx,
  ids: string[],
): Promise<Record<string, string | null>[]> {
  const tenant = await enterWorkspace(ctx)
  const rows = await clickHouse.query(sql`
    select ${join(
      COLUMNS.map(column => sql`toString(r.${name(column)})`),
      ', ',
    )}
    from (${selectRuns(tenant, COLUMNS, sql`${isAt(tenant, uuids(ids))} and w.id in ${uuids(ids)}`)}
    ) r`)
  const toValue = (column: string, value: string | null) =>
    column.endsWith('_time') ? fromClickHouseTime(value) : value
  return rows.map(row => Object.fromEntries(COLUMNS.map((column, i) => [column, toValue(column, row[i]!)])))
}

export async function findRuns(clickHouse: ClickHouse, ctx: Ctx, ids: string[]): Promise<SQL> {
  return pg`${readPlaces(JSON.stringify(ids.length > 0 ? await findPlaces(clickHouse, ctx, ids) : []))}`
}
