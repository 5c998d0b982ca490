// Which members of a resource an event shows, with their value before and after the write.
import { type SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgTable } from 'drizzle-orm/pg-core'

/** A column of a row by its name, or an expression over the row. Never one that holds a secret, sealed or hashed. */
export type RecordedMembers = readonly string[] | Record<string, (row: SQL) => SQL>

const describeRow = (members: RecordedMembers, row: SQL): SQL => {
  const expressions = Array.isArray(members)
    ? members.map(name => [name, sql`${row}.${sql.identifier(name)}`] as const)
    : Object.entries(members as Record<string, (row: SQL) => SQL>).map(([name, of]) => [name, of(row)] as const)
  const pairs = expressions.map(([name, value]) => sql`${sql.raw(`'${name}'`)}, ${value}`)
  return sql`jsonb_build_object(${sql.join(pairs, sql`, `)})`
}

/**
 * For an update whose rows are `changed`. A statement sees a table as it was before it began, so the row that it reads
 * here is the old one. The write locks the row by a statement of its own: otherwise it could read an older one.
 */
export const changedMembers = (table: PgTable, members: RecordedMembers, changed = sql`changed`): SQL => {
  const before = sql`select ${describeRow(members, sql`b`)} from ${sql.identifier(getTableConfig(table).name)} b where b.id = ${changed}.id`
  return sql`changed_members((${before}), ${describeRow(members, changed)})`
}

export const createdMembers = (members: RecordedMembers, created = sql`changed`): SQL =>
  sql`changed_members(null, ${describeRow(members, created)})`

export const deletedMembers = (members: RecordedMembers, deleted = sql`changed`): SQL =>
  sql`changed_members(${describeRow(members, deleted)}, null)`
