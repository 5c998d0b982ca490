// Filters as conditions of SQL. All values are parameters.
import { type SQL, sql } from 'drizzle-orm'
import { type FieldType, splitWords } from '../../runs/filter/fields.ts'
import type { Comparison, Literal } from '../../runs/filter/grammar.ts'
import type { ResolvedCondition, ResolvedFilter } from '../../runs/filter/resolve.ts'
import { containsAny, matchesPattern } from './text-matches.ts'

export type FilterSource = {
  /** The value of a field of the row, or of a pair `p`. */
  column(field: string): SQL
  /** The rows `p` of a family's pairs. */
  pairs(family: string, conditions: ResolvedCondition[]): SQL
  /** All texts of the row, for a search without a field. */
  texts: SQL[]
}

/** True, false or null, which counts as false. */
export function filterCondition(filter: ResolvedFilter, source: FilterSource): SQL {
  if ('parts' in filter) {
    const parts = filter.parts.map(part => filterCondition(part, source))
    return filter.operator === 'not' ? sql`(${parts[0]!}) is not true` : joinConditions(parts, filter.operator)
  }
  if ('conditions' in filter) {
    const conditions = filter.conditions.map(condition => compare(condition, source.column(condition.field!)))
    // A scalar subquery, which Postgres runs for each row. It would make a join of `exists` and read all pairs first.
    const found = sql`(
      select true
      from ${source.pairs(filter.family, filter.conditions)}
      where ${joinConditions(conditions, 'and')}
      limit 1
    )`
    return filter.operator === 'some' ? sql`${found} is true` : sql`${found} is null`
  }
  return filter.field === null ? search(source.texts, filter.values) : compare(filter, source.column(filter.field))
}

export const joinConditions = (conditions: SQL[], operator: 'and' | 'or'): SQL =>
  sql`(${sql.join(conditions, operator === 'and' ? sql` and ` : sql` or `)})`

const SIGNS: Partial<Record<Comparison, SQL>> = {
  eq: sql`=`,
  neq: sql`is distinct from`,
  gt: sql`>`,
  gte: sql`>=`,
  lt: sql`<`,
  lte: sql`<=`,
}

function compare({ operator, type, values }: ResolvedCondition, column: SQL): SQL {
  const text = type === 'member' ? sql`(${column} #>> '{}')` : column
  if (operator === 'search') return search([text], values, type === 'document')
  const [value] = values as [Literal]
  if (operator === 'like') return matchesPattern(text, String(value))
  if (operator === 'exists') return sql`jsonb_exists(${column}, ${value})`
  if (operator === 'has') return type === 'tags' ? sql`${column} @> array[${value}]::text[]` : contains(column, value)
  if (operator === 'in') return isIn(column, text, type, values)
  if (value === null) return operator === 'eq' ? sql`${text} is null` : sql`${text} is not null`
  if (type === 'member') return compareMember(operator, column, text, value)
  const isOrder = operator !== 'eq' && operator !== 'neq'
  return sql`${text}${isOrder && type === 'text' ? BY_CODE_POINT : sql``} ${SIGNS[operator]!} ${cast(value, type)}`
}

const contains = (column: SQL, value: Literal): SQL => sql`${column} @> ${value}::jsonb`
/** Orders texts like JavaScript and ClickHouse, with any collation of the database. */
const BY_CODE_POINT = sql` collate "C"`

const TYPES: Record<FieldType, SQL> = {
  text: sql`text`,
  uuid: sql`uuid`,
  number: sql`numeric`,
  time: sql`timestamptz`,
  duration: sql`numeric`,
  boolean: sql`boolean`,
  tags: sql`text`,
  json: sql`jsonb`,
  document: sql`text`,
  member: sql`text`,
}
const cast = (value: Literal, type: FieldType): SQL => sql`${String(value)}::${TYPES[type]}`

function isIn(column: SQL, text: SQL, type: FieldType, values: Literal[]): SQL {
  const texts = sql`${text} = any(${sql.param(values.map(String))}::${TYPES[type]}[])`
  const numbers = values.filter(value => typeof value === 'number').map(String)
  if (type !== 'member' || numbers.length === 0) return texts
  return sql`(${texts} or ${numberOf(column)} = any(${sql.param(numbers)}::numeric[]))`
}

/** The number of a JSON value. */
const numberOf = (column: SQL): SQL => sql`case when jsonb_typeof(${column}) = 'number' then (${column})::numeric end`

/** A number equals a JSON number of the same value, and a text of the same digits. */
function compareMember(operator: Comparison, column: SQL, text: SQL, value: Literal): SQL {
  const sign = SIGNS[operator]!
  if (typeof value !== 'number')
    return sql`${text}${operator === 'eq' || operator === 'neq' ? sql`` : BY_CODE_POINT} ${sign} ${String(value)}`
  const number = sql`${numberOf(column)} ${sign} ${String(value)}::numeric`
  if (operator === 'eq') return sql`(${number} or ${text} = ${String(value)})`
  return operator === 'neq' ? sql`(${number} and ${text} is distinct from ${String(value)})` : number
}

/** True if the texts contain every word. Case is ignored. In JSON, quotes and backslashes are escaped. */
function search(texts: SQL[], [words]: Literal[], isJson = true): SQL {
  const found = splitWords(String(words)).map(word => {
    const spellings = [...new Set([word, ...(isJson ? [JSON.stringify(word).slice(1, -1)] : [])])]
    return joinConditions(
      texts.map(text => containsAny(text, spellings)),
      'or',
    )
  })
  return joinConditions(found, 'and')
}
