// The runs of a workspace as a row of Postgres shows them in JSON, from the store under test.
import { type SQL, sql } from 'drizzle-orm'
import { inject } from 'vitest'
import { connectClickHouse } from '../../src/kernel/clickhouse/client.ts'
import { sql as ch, join, name } from '../../src/kernel/clickhouse/sql.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { MERGED_MEMBERS } from '../../src/tracing/ingest/merged-operations.ts'
import { selectRuns } from '../../src/tracing/store/clickhouse/run-columns.ts'
import { joinObjects } from '../../src/tracing/store/clickhouse/run-details.ts'
import { getApp } from './app.ts'

/** Runs are stored in ClickHouse. */
export const onClickHouse = inject('clickHouse') !== undefined

type StoredRow = Record<string, unknown>

/** Stands for the table `runs` in a statement of Postgres. */
export const storedRuns = async ({ tenant_id }: { tenant_id: string }): Promise<SQL> =>
  onClickHouse
    ? sql`json_populate_recordset(null::runs, ${JSON.stringify(await readFromClickHouse(tenant_id))}::json)`
    : sql`runs`

export const readStoredRuns = async (tenant_id: string): Promise<StoredRow[]> =>
  onClickHouse ? readFromClickHouse(tenant_id) : readFromPostgres(tenant_id)

async function readFromPostgres(tenant_id: string): Promise<StoredRow[]> {
  const query = sql`
    select to_json(r)
    from (
      select r.*, p.name as project
      from runs r
      left join projects p on p.id = r.session_id
      where r.tenant_id = ${tenant_id}
      order by r.order_time, r.id
    ) r`
  const [rows] = await runAsSystem(getApp().database, query)
  return (rows as [string][]).map(([row]) => JSON.parse(row))
}

const COLUMNS = [
  'id',
  'session_id',
  'order_time',
  'trace_id',
  'trace_time',
  'trace_tier',
  'dotted_order',
  'parent_run_id',
  'status',
  'objects',
  ...MERGED_MEMBERS.flat(),
]

async function readFromClickHouse(tenant_id: string): Promise<StoredRow[]> {
  const columns = join(
    COLUMNS.map(column => ch`toString(r.${name(column)})`),
    ', ',
  )
  const rows = await connectClickHouse(inject('clickHouse')!).query(ch`
    select ${columns}
    from (${selectRuns(tenant_id, COLUMNS, ch`true`)}
    ) r
    order by r.order_time, r.id`)
  const projects = sql`select id, name from projects where tenant_id = ${tenant_id}`
  const [names] = await runAsSystem(getApp().database, projects)
  const nameOf = new Map(names as [string, string][])
  return rows.map(values => {
    const row = Object.fromEntries(COLUMNS.map((column, i) => [column, toValue(column, values[i]!)]))
    return { ...row, tenant_id, project: nameOf.get(row.session_id as string) ?? null }
  })
}

function toValue(column: string, value: string | null): unknown {
  if (value === null) return null
  if (column === 'objects') return JSON.parse(joinObjects(value) ?? 'null')
  if (/_time$/.test(column)) return `${value.replace(' ', 'T').replace(/\.?0+$/, '')}+00:00`
  if (/^(tags|metadata|usage_details)$/.test(column)) return JSON.parse(value)
  return /_(tokens|cost)$/.test(column) ? Number(value) : value
}
