// The columns of an answer, from the rows `r` of a page and from related rows.
import { type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../../kernel/db/db.ts'
import { type DetailColumn, PLACE_COLUMNS, type StoredRun, TOTALS } from '../queries.ts'
import { toIso } from './iso-time.ts'
import { RELATED_COLUMNS } from './related-columns.ts'
import { inTraceOf } from './run-fields.ts'

type Join = { columns: readonly DetailColumn[]; alias: SQL; join: SQL }

const list = (parts: SQL[]): SQL => sql.join(parts, sql`, `)
const named = (alias: SQL, name: string): SQL => sql`${alias}.${sql.identifier(name)}`
const ofTrace = inTraceOf(sql`t`, sql`r`)

/** Joined only where one of their columns is read. */
const JOINS: Join[] = [
  {
    columns: TOTALS,
    alias: sql`totals`,
    // The condition on the root is within, so that the trace is read for its root only.
    join: sql`
      cross join lateral (
        select ${list(TOTALS.map(name => sql`sum(${named(sql`t`, name)}) as ${sql.identifier(name)}`))}
        from runs t
        where r.id = r.trace_id and ${ofTrace}
      ) totals`,
  },
  {
    columns: ['child_run_ids', 'direct_child_run_ids'],
    alias: sql`children`,
    join: sql`
      cross join lateral (
        select
          coalesce(json_agg(t.id order by t.dotted_order), '[]') as child_run_ids,
          coalesce(json_agg(t.id order by t.dotted_order) filter (where t.parent_run_id = r.id), '[]')
            as direct_child_run_ids
        from runs t
        where ${ofTrace} and starts_with(t.dotted_order, r.dotted_order || '.')
      ) children`,
  },
  {
    columns: ['trace_min_start_time', 'trace_max_start_time'],
    alias: sql`span`,
    join: sql`
      cross join lateral (
        select min(t.start_time) as trace_min_start_time, max(t.start_time) as trace_max_start_time
        from runs t
        where ${ofTrace}
      ) span`,
  },
  {
    columns: ['reference_dataset_id', 'longlived_ttl_days'],
    alias: sql`project`,
    join: sql`
      left join projects project on project.tenant_id = current_tenant() and project.id = r.session_id`,
  },
]

const isTime = (name: string): boolean => name.endsWith('_time') || name === 'received_at'

const COMPUTED: { [Name in DetailColumn]?: SQL } = {
  tags: sql`to_json(r.tags)`,
  ...Object.fromEntries(
    TOTALS.map(name => [
      name,
      sql`case when r.id = r.trace_id then ${named(sql`totals`, name)} else ${named(sql`r`, name)} end`,
    ]),
  ),
  ...RELATED_COLUMNS,
}

function columnSql(name: DetailColumn | (typeof PLACE_COLUMNS)[number]): SQL {
  const computed = COMPUTED[name as DetailColumn]
  if (computed) return computed
  const join = JOINS.find(({ columns }) => columns.includes(name as DetailColumn))
  const column = named(join?.alias ?? sql`r`, name)
  return isTime(name) ? toIso(column) : column
}

/** The columns and joins of a select, for the rows `r` of a page. */
export function runColumns(details: readonly DetailColumn[]): { columns: SQL; joins: SQL } {
  const joins = JOINS.filter(({ columns }) => columns.some(name => details.includes(name)))
  return {
    columns: list([...PLACE_COLUMNS, ...details].map(columnSql)),
    joins: sql.join(joins.map(({ join }) => join)),
  }
}

export function toStoredRun(row: Row, details: readonly DetailColumn[]): StoredRun {
  return Object.fromEntries([...PLACE_COLUMNS, ...details].map((name, i) => [name, row[i]])) as StoredRun
}
