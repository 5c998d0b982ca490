// Filters as conditions of ClickHouse. All values are bound. A condition is true or false, never null.

import {
  all,
  bind,
  join,
  name,
  number,
  type Sql,
  sql,
  text,
  texts,
  time,
  uuid,
  uuids,
} from '../../../kernel/clickhouse/sql.ts'
import { COMPARED_CHARACTERS, PARSED_BYTES } from '../../runs/filter/bounds.ts'
import { type FieldType, splitWords } from '../../runs/filter/fields.ts'
import type { Comparison, Literal } from '../../runs/filter/grammar.ts'
import type { ResolvedCondition, ResolvedFilter } from '../../runs/filter/resolve.ts'

export type FilterSource = {
  /** The value of a field of the row. */
  column(field: string): Sql
  /** An array of pairs of a name and a JSON text: the members of an object. */
  pairs(family: string, keys: string[] | undefined): Sql
  /** True of rows with feedback that meets the conditions. */
  hasFeedback(filter: ResolvedFilter): Sql
  /** All texts of the row, for a search without a field. */
  texts: Sql[]
}

export function filterCondition(filter: ResolvedFilter, source: FilterSource): Sql {
  if ('parts' in filter) {
    const parts = filter.parts.map(part => filterCondition(part, source))
    if (filter.operator === 'not') return sql`not ${parts[0]!}`
    return sql`(${join(parts, filter.operator === 'and' ? ' and ' : ' or ')})`
  }
  if (!('conditions' in filter)) {
    const isAbout = filter.field === null ? search(source.texts, filter.values) : undefined
    return known(isAbout ?? compare(filter, source.column(filter.field!)))
  }
  const { family, conditions, operator } = filter
  if (family === 'feedback')
    return operator === 'some' ? source.hasFeedback(filter) : sql`not ${source.hasFeedback(filter)}`
  const onPair = conditions.map(condition =>
    known(compare(condition, condition.field!.endsWith('_key') ? sql`p.1` : sql`p.2`)),
  )
  const found = sql`arrayExists(p -> ${all(onPair)}, ${source.pairs(family, wantedKeys(conditions))})`
  return operator === 'some' ? found : sql`not ${found}`
}

/** A text that may be long, as far as it is compared. */
export const beginningOf = (value: Sql): Sql => sql`substringUTF8(${value}, 1, ${name(String(COMPARED_CHARACTERS))})`
/** JSON whose members are compared. Longer JSON has none. */
export const parsedJson = (json: Sql): Sql => sql`if(length(${json}) <= ${name(String(PARSED_BYTES))}, ${json}, '')`

const known = (condition: Sql): Sql => sql`ifNull(${condition}, false)`

const SIGNS: Partial<Record<Comparison, Sql>> = {
  eq: sql`=`,
  neq: sql`!=`,
  gt: sql`>`,
  gte: sql`>=`,
  lt: sql`<`,
  lte: sql`<=`,
}

function compare({ operator, type, values }: ResolvedCondition, column: Sql): Sql {
  const shown = type === 'member' ? textOf(column) : column
  if (operator === 'search') return search([shown], values, type === 'document')
  const [value] = values as [Literal]
  if (operator === 'like') return sql`${shown} like ${text(String(value))}`
  if (operator === 'exists') return sql`JSONHas(${column}, ${text(String(value))})`
  if (operator === 'has')
    return type === 'tags' ? sql`has(${column}, ${text(String(value))})` : contains(column, JSON.parse(String(value)))
  if (operator === 'in') return isIn(column, shown, type, values)
  if (value === null) return operator === 'eq' ? sql`${shown} is null` : sql`${shown} is not null`
  if (type === 'member') return compareMember(operator, column, shown, value)
  const compared = sql`${shown} ${SIGNS[operator]!} ${cast(value, type)}`
  return operator === 'neq' ? sql`ifNull(${compared}, true)` : compared
}

function cast(value: Literal, type: FieldType): Sql {
  if (type === 'uuid') return uuid(String(value))
  if (type === 'time') return time(String(value))
  if (type === 'boolean') return bind('Bool', value)
  return type === 'number' || type === 'duration' ? number(Number(value)) : text(String(value))
}

function isIn(column: Sql, shown: Sql, type: FieldType, values: Literal[]): Sql {
  if (type === 'uuid') return sql`${shown} in ${uuids(values.map(String))}`
  if (type === 'time' || type === 'boolean')
    return sql`(${join([sql`false`, ...values.map(value => sql`${shown} = ${cast(value, type)}`)], ' or ')})`
  const numbers = sql`in ${bind(
    'Array(Float64)',
    values.filter(value => typeof value === 'number'),
  )}`
  if (type === 'number' || type === 'duration') return sql`${shown} ${numbers}`
  const isText = sql`${shown} in ${texts(values.map(String))}`
  return type === 'member' ? sql`(ifNull(${isText}, false) or ifNull(${numberOf(column)} ${numbers}, false))` : isText
}

// ---- JSON

/** The text of a JSON value: that of a string without its quotes. */
const textOf = (json: Sql): Sql =>
  sql`multiIf(startsWith(${json}, '"'), JSONExtractString(${json}), ${json} = 'null', null, ${json})`
const numberOf = (json: Sql): Sql => sql`if(match(${json}, '^-?[0-9]'), toFloat64OrNull(${json}), null)`

/** A number equals a JSON number of the same value, and a text of the same digits. */
function compareMember(operator: Comparison, column: Sql, shown: Sql, value: Literal): Sql {
  const sign = SIGNS[operator]!
  if (typeof value !== 'number') {
    const compared = sql`${shown} ${sign} ${text(String(value))}`
    return operator === 'neq' ? sql`ifNull(${compared}, true)` : compared
  }
  const isNumber = sql`ifNull(${numberOf(column)} ${sign} ${number(value)}, false)`
  const isText = sql`ifNull(${shown} ${sign} ${text(String(value))}, ${name(String(operator === 'neq'))})`
  if (operator === 'eq') return sql`(${isNumber} or ${isText})`
  return operator === 'neq' ? sql`(${isNumber} and ${isText})` : isNumber
}

/** Mirrors `@>` of Postgres: the JSON has all of the value. */
function contains(json: Sql, value: unknown): Sql {
  if (Array.isArray(value)) {
    const elements = sql`JSONExtractArrayRaw(ifNull(${json}, ''))`
    return all([
      sql`startsWith(ifNull(${json}, ''), '[')`,
      ...value.map(one => sql`arrayExists(e -> ${contains(sql`e`, one)}, ${elements})`),
    ])
  }
  if (typeof value === 'object' && value !== null)
    return all([
      sql`startsWith(ifNull(${json}, ''), '{')`,
      ...Object.entries(value).map(([key, one]) =>
        all([
          sql`JSONHas(ifNull(${json}, ''), ${text(key)})`,
          contains(sql`JSONExtractRaw(ifNull(${json}, ''), ${text(key)})`, one),
        ]),
      ),
    ])
  if (typeof value === 'number') return known(sql`${numberOf(json)} = ${number(value)}`)
  if (typeof value === 'string')
    return known(sql`startsWith(${json}, '"') and JSONExtractString(${json}) = ${text(value)}`)
  return known(sql`${json} = ${text(String(value))}`)
}

/** The names of the members, where the conditions say them. */
function wantedKeys(conditions: ResolvedCondition[]): string[] | undefined {
  const isNamed = ({ field, operator }: ResolvedCondition) => field?.endsWith('_key') && /^(eq|in)$/.test(operator)
  return conditions.find(isNamed)?.values.map(String)
}

/** The values with arrays replaced by their elements. */
const spread = (values: Sql): Sql => sql`arrayFlatten(arrayMap(
  one -> if(startsWith(one, '['), arrayFlatten(arrayMap(
    inner -> if(startsWith(inner, '['), JSONExtractArrayRaw(inner), [inner]),
    JSONExtractArrayRaw(one)
  )), [one]),
  ${values}
))`
const step = (values: Sql, key: string): Sql =>
  sql`arrayFilter(one -> one != '', arrayMap(one -> JSONExtractRaw(one, ${text(key)}), ${spread(values)}))`
const pairsOf = (values: Sql, prefix?: Sql): Sql => sql`arrayFlatten(arrayMap(
  one -> arrayMap(
    m -> (${prefix ? sql`concat(${prefix}, '.', m.1)` : sql`m.1`}, m.2),
    JSONExtractKeysAndValuesRaw(one)
  ),
  ${values}
))`

const NO_PAIRS = sql`arrayFilter(p -> false, [('', '')])`

/** Finds names at any depth: dots are between the names of members within others, or in a name. Else two levels. */
export function jsonPairs(json: Sql, keys: string[] | undefined): Sql {
  const root = sql`[ifNull(${json}, '')]`
  if (keys) {
    const named = keys.map(key => {
      const paths = key.includes('.') ? [key.split('.'), [key]] : [[key]]
      const values = paths.map(path => path.reduce(step, root))
      return sql`arrayMap(one -> (${text(key)}, one), arrayConcat(${join(
        values.flatMap(found => [found, spread(found)]),
        ', ',
      )}))`
    })
    return sql`arrayConcat(${join([NO_PAIRS, ...named], ', ')})`
  }
  const first = pairsOf(root)
  const inner = sql`arrayFlatten(arrayMap(o -> ${pairsOf(spread(sql`[o.2]`), sql`o.1`)}, ${first}))`
  const elements = sql`arrayFlatten(arrayMap(o -> arrayMap(e -> (o.1, e), ${spread(sql`[o.2]`)}), ${first}))`
  return sql`arrayConcat(${first}, ${inner}, ${elements})`
}

/** True if the texts contain every word. Case is ignored. In JSON, quotes and backslashes are escaped. */
function search(searched: Sql[], [words]: Literal[], isJson = true): Sql {
  return all(
    splitWords(String(words)).map(word => {
      const spellings = [...new Set([word, ...(isJson ? [JSON.stringify(word).slice(1, -1)] : [])])]
      return sql`(${join(
        searched.flatMap(shown =>
          spellings.map(spelling => sql`ifNull(positionCaseInsensitiveUTF8(${shown}, ${text(spelling)}) > 0, false)`),
        ),
        ' or ',
      )})`
    }),
  )
}
