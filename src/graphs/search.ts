// Searches and counts over a table: the conditions of what a caller gives, and a page.
import { type Query, type Row, withinAnswer } from './database.ts'
import { type JsonObject, toJsonb } from './values.ts'

export type Page = { limit: number; offset: number; sort_by: string; sort_order: 'asc' | 'desc' }
export type Searchable = {
  table: string
  columns: string
  /** Puts rows in one order that are equal otherwise. */
  key: string
  /** A condition of its own. */
  always?: string
  /** For each member of a filter, a condition in which `?` is its value. */
  conditions: Record<string, string>
}
type Filter = Record<string, unknown>

/** Only what is given is in the text, so that Postgres can plan by the indexes of that. */
function where({ always, conditions }: Searchable, filter: Filter, admitted: JsonObject | null) {
  const values: unknown[] = []
  const parts = always ? [always] : []
  for (const [name, condition] of Object.entries(conditions)) {
    const value = filter[name]
    if (value === undefined || value === null) continue
    values.push(typeof value === 'object' && !Array.isArray(value) ? toJsonb(value) : value)
    parts.push(condition.replaceAll('?', `$${values.length}`))
  }
  if (admitted) {
    values.push(toJsonb(exactMembers(admitted)), toJsonb(admitted))
    parts.push(`metadata @> $${values.length - 1}::jsonb`, `graphs.admits(metadata, $${values.length}::jsonb)`)
  }
  return { text: parts.length > 0 ? `where ${parts.join(' and ')}` : '', values }
}

/** `admitted`: filters of the application, by which the caller sees no other rows. */
export function search(
  query: Query,
  from: Searchable,
  filter: Filter,
  page: Page,
  admitted: JsonObject | null = null,
): Promise<Row[]> {
  const { text, values } = where(from, filter, admitted)
  const [limit, offset] = [values.length + 1, values.length + 2]
  return query(
    // `sort_by` and `sort_order` are words of an enumeration of the schema.
    withinAnswer(`select ${from.columns}
    from ${from.table}
    ${text}
    order by ${page.sort_by} ${page.sort_order}, ${from.key}
    limit $${limit} offset $${offset}`),
    [...values, page.limit, page.offset],
  )
}

export async function count(
  query: Query,
  from: Searchable,
  filter: Filter,
  admitted: JsonObject | null = null,
): Promise<number> {
  const { text, values } = where(from, filter, admitted)
  const [row] = await query(`select count(*)::int as count from ${from.table} ${text}`, values)
  return row!.count
}

/** The members of filters that name a value: rows have them exactly, which an index finds. */
export function exactMembers(filters: JsonObject): JsonObject {
  const entries = Object.entries(filters).flatMap(([name, wanted]) => {
    const isOperator = typeof wanted === 'object' && wanted !== null
    const value = isOperator ? (wanted as JsonObject).$eq : wanted
    return value === undefined ? [] : [[name, value]]
  })
  return Object.fromEntries(entries)
}
