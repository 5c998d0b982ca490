// Columns that one CTE hands to the next, as TypeScript records: a missing or misspelt column is a type error.
import { type SQL, sql } from 'drizzle-orm'

const lines = (parts: SQL[]): SQL => sql.join(parts, sql`,\n    `)

/** A select list: one `value as name` per line. */
export const selectColumns = <Columns extends Record<string, SQL>>(columns: Columns): SQL =>
  lines(Object.entries(columns).map(([name, value]) => sql`${value} as ${sql.identifier(name)}`))

/** Refers to a column of the CTE that has this alias. */
export const columnOf =
  <Columns>(alias: string) =>
  (name: keyof Columns & string): SQL =>
    sql`${sql.identifier(alias)}.${sql.identifier(name)}`

export type EventRows = {
  type: SQL
  subject: SQL
  /** A JSON object; empty when absent. */
  data?: SQL
  /** See `kernel/recorded-changes.ts`. */
  changes?: SQL
  /** What follows `from`. */
  from: SQL
}

const eventColumns = ({ type, subject, data = sql`'{}'`, changes = sql`null` }: EventRows) => ({
  type: sql`(${type})::text`,
  subject_id: subject,
  data: sql`(${data})::json`,
  changes: sql`(${changes})::json`,
})
const unionAll = (selects: SQL[]): SQL => sql.join(selects, sql`\n  union all\n  `)

/** Events of one workspace, for the journal that `commit` writes. */
export const selectEvents = (...events: EventRows[]): SQL =>
  unionAll(
    events.map(
      rows => sql`select
    ${selectColumns(eventColumns(rows))}
  from ${rows.from}`,
    ),
  )

/** Events of several workspaces, for `journalSystemEvents`: rows of `from` have a tenant_id and an organization_id. */
export const selectTenantEvents = (...events: (EventRows & { place?: SQL })[]): SQL =>
  unionAll(
    events.map(
      ({ place, ...rows }) => sql`select tenant_id, organization_id,
    ${selectColumns({ ...eventColumns(rows), ...(place && { place }) })}
  from ${rows.from}`,
    ),
  )
