// A filter with the types of its fields, and with the conditions on one pair together (pure).
import { type Failure, type Fault, fail } from '../../../kernel/http/errors.ts'
import { type Field, type Fields, type FieldType, readSearch, readValues, splitWords } from './fields.ts'
import { type Comparison, type Condition, type Filter, FilterFault, type Literal, parseFilter } from './grammar.ts'

export type ResolvedCondition = {
  operator: Comparison
  /** Null for a search in all texts. */
  field: string | null
  type: FieldType
  values: Literal[]
}
export type ResolvedFilter =
  /** `not` has one part. */
  | { operator: 'and' | 'or' | 'not'; parts: ResolvedFilter[] }
  /** Some pair, or no pair, meets all conditions. */
  | { operator: 'some' | 'none'; family: string; conditions: ResolvedCondition[] }
  | ResolvedCondition

/** Throws all faults of the filters together. Filters that are null or empty filter nothing. */
export function readFilters<Name extends string>(
  texts: FilterTexts<Name>,
  fields: Fields,
  place: 'body' | 'query' = 'body',
): { [N in Name]?: ResolvedFilter } {
  const { filters, faults } = resolveFilters(texts, fields)
  if (faults.length > 0) throw filterInvalid(faults.map(fault => toFault(fault, place)))
  return filters
}

type FilterTexts<Name extends string> = { [N in Name]?: string | null | undefined }
type FoundFault<Name extends string> = { name: Name; fault: FilterFault }

export function resolveFilters<Name extends string>(texts: FilterTexts<Name>, fields: Fields) {
  const filters: { [N in Name]?: ResolvedFilter } = {}
  const faults: FoundFault<Name>[] = []
  for (const name of Object.keys(texts) as Name[]) {
    const text = texts[name]
    if (!text?.trim()) continue
    try {
      filters[name] = resolveFilter(limitPatterns(parseFilter(text)), fields)
    } catch (error) {
      if (!(error instanceof FilterFault)) throw error
      faults.push({ name, fault: error })
    }
  }
  return { filters, faults }
}

/** Postgres keeps 32 compiled patterns for each connection, and would compile more of them again for each row. */
const MAX_PATTERNS = 30

function limitPatterns(filter: Filter): Filter {
  let count = 0
  const visit = (part: Filter): void => {
    if ('parts' in part) {
      for (const one of part.parts) visit(one)
      return
    }
    if (part.operator === 'like') count += 1
    if (part.operator === 'search') count += splitWords(String(part.values[0])).length
    if (count > MAX_PATTERNS)
      throw new FilterFault(
        part.position,
        `a filter has at most ${MAX_PATTERNS} patterns of \`like\` and words of \`search\` together`,
      )
  }
  visit(filter)
  return filter
}

const toFault = ({ name, fault }: FoundFault<string>, place: string): Fault => ({
  type: 'filter_invalid',
  loc: [place, name],
  msg: fault.message,
})

const filterInvalid = (errors: Fault[]): Failure =>
  fail('filter_invalid', { about: errors.map(({ loc, msg }) => `\`${loc[1]}\`, ${msg}`).join('; '), errors })

export function resolveFilter(filter: Filter, fields: Fields): ResolvedFilter {
  if ('parts' in filter) {
    const { operator, parts } = filter
    if (operator === 'and') return resolveConjunction(parts, fields)
    return { operator, parts: parts.map(part => resolveFilter(part, fields)) }
  }
  const field = fieldOf(filter, fields)
  const condition = resolveCondition(filter, field)
  return field?.family ? pairFilter(field.family, condition) : condition
}

function fieldOf({ field, position }: Condition, fields: Fields): Field | undefined {
  if (field === null || Object.hasOwn(fields, field)) return field === null ? undefined : fields[field]
  throw new FilterFault(
    position,
    `there is no field \`${field.slice(0, 40)}\`; the fields are ${Object.keys(fields).join(', ')}`,
  )
}

const resolveCondition = (condition: Condition, field: Field | undefined): ResolvedCondition => ({
  operator: condition.operator,
  field: condition.field,
  type: field?.type ?? 'text',
  values: field ? readValues(condition, condition.field!, field) : readSearch(condition),
})

/** `neq` of a pair on its own means that no pair is equal. */
const pairFilter = (family: string, condition: ResolvedCondition): ResolvedFilter =>
  condition.operator === 'neq'
    ? { operator: 'none', family, conditions: [{ ...condition, operator: 'eq' }] }
    : { operator: 'some', family, conditions: [condition] }

/**
 * Binds, in one `and`, a key and the values that follow it, or come before the first key, to one pair. A key that must
 * not occur binds nothing.
 */
function resolveConjunction(filters: Filter[], fields: Fields): ResolvedFilter {
  const parts: ResolvedFilter[] = []
  const bound = new Map<string, { keys: ResolvedCondition[][]; before: ResolvedCondition[] }>()
  for (const filter of filters) {
    const field = 'parts' in filter ? undefined : fieldOf(filter, fields)
    if ('parts' in filter || !field?.family) {
      parts.push(resolveFilter(filter, fields))
      continue
    }
    const condition = resolveCondition(filter, field)
    const pairs = bound.get(field.family) ?? { keys: [], before: [] }
    bound.set(field.family, pairs)
    if (field.isKey && condition.operator === 'neq') parts.push(pairFilter(field.family, condition))
    else if (field.isKey) pairs.keys.push([condition])
    else (pairs.keys.at(-1) ?? pairs.before).push(condition)
  }
  for (const [family, { keys, before }] of bound) {
    if (keys.length === 0) parts.push(...before.map(condition => pairFilter(family, condition)))
    else keys[0]!.push(...before)
    parts.push(...keys.map((conditions): ResolvedFilter => ({ operator: 'some', family, conditions })))
  }
  return parts.length === 1 ? parts[0]! : { operator: 'and', parts }
}
