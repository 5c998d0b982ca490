// Lists the members of a resource whose values before and after a write its event shows.
import { is, SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'

/** Members by their name on the wire, as SQL over a row. Never a value that is secret, sealed or hashed. */
export type RecordedMembers = Record<string, (row: SQL) => SQL>

/** Members whose name and value are those of a column. */
export const recordColumns = <Table extends PgTable>(
  table: Table,
  names: (keyof Table['_']['columns'] & string)[],
): RecordedMembers =>
  Object.fromEntries(
    names.map(name => {
      const column = (table as unknown as Record<string, PgColumn>)[name]!.name
      return [name, (row: SQL) => sql`${row}.${sql.identifier(column)}`]
    }),
  )

const buildObject = (values: Record<string, SQL>): SQL => {
  const pairs = Object.entries(values).map(([name, value]) => sql`${sql.raw(`'${name}'`)}, ${value}`)
  return sql`jsonb_build_object(${sql.join(pairs, sql`, `)})`
}
const describeRow = (members: RecordedMembers, row: SQL): SQL =>
  buildObject(Object.fromEntries(Object.entries(members).map(([name, of]) => [name, of(row)])))

/** For an event whose CTEs have both values. */
export const changesBetween = (before: Record<string, SQL>, after: Record<string, SQL>): SQL =>
  sql`changed_members(${buildObject(before)}, ${buildObject(after)})`

const storedRow = (stored: PgTable | SQL, members: RecordedMembers, changed: SQL): SQL => {
  const name = is(stored, SQL) ? stored : sql.identifier(getTableConfig(stored).name)
  return sql`(select ${describeRow(members, sql`b`)} from ${name} b where b.id = ${changed}.id)`
}

/**
 * For an update whose rows are `changed`. A statement sees a table as it was before it began, so the row that it reads
 * here is the old one. The write locks the row by a statement of its own: otherwise it could read an older one. A row
 * that the statement inserted has no old one, so all its members are new. `stored` may be a CTE with the old rows.
 */
export const changedMembers = (stored: PgTable | SQL, members: RecordedMembers, changed = sql`changed`): SQL =>
  sql`changed_members(${storedRow(stored, members, changed)}, ${describeRow(members, changed)})`

export const createdMembers = (members: RecordedMembers, created = sql`changed`): SQL =>
  sql`changed_members(null, ${describeRow(members, created)})`

export const deletedMembers = (members: RecordedMembers, deleted = sql`changed`): SQL =>
  sql`changed_members(${describeRow(members, deleted)}, null)`
