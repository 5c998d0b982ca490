// Rows of events in the SQL of a write, one select for each kind.
import { type SQL, sql } from 'drizzle-orm'

/** A select list: one `value as name` per line. */
const selectColumns = (columns: Record<string, SQL>): SQL =>
  sql.join(
    Object.entries(columns).map(([name, value]) => sql`${value} as ${sql.identifier(name)}`),
    sql`,\n    `,
  )

export type EventRows = {
  type: SQL
  subject: SQL
  /** A JSON object; empty when absent. */
  data?: SQL
  /** See `kernel/db/recorded-changes.ts`. */
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
export const selectTenantEvents = (...events: EventRows[]): SQL =>
  unionAll(
    events.map(
      rows => sql`select tenant_id, organization_id,
    ${selectColumns(eventColumns(rows))}
  from ${rows.from}`,
    ),
  )
