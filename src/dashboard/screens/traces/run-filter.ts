// Parses the filter of runs: words are searched for, `tag:beta` is a condition. Both become a filter of the API's
// filter language (pure).
import { RUN_TYPES } from './run-state.ts'

/** The forms of the conditions. */
export const CONDITIONS = {
  name: 'name:answer',
  type: 'type:llm',
  tag: 'tag:beta',
  meta: 'meta:user=ada',
  latency: 'latency:>2s',
  tokens: 'tokens:>1000',
  cost: 'cost:>0.01',
  thread: 'thread:t-42',
  score: 'score:helpful>0.5',
  error: 'error:timeout',
} as const
type Name = keyof typeof CONDITIONS

export type ParsedFilter = {
  filter: string | undefined
  /** A condition whose value cannot be read. */
  unknown: string | undefined
}

const quote = (text: string) => JSON.stringify(text)
/** `%` and `_` stand for others in a pattern. */
const contains = (text: string) => quote(`%${text.replace(/[\\%_]/g, '\\$&')}%`)

const OPERATORS: Record<string, string> = { '>': 'gt', '>=': 'gte', '<': 'lt', '<=': 'lte', '=': 'eq', '': 'eq' }
const COMPARED = /^(>=|<=|>|<|=|)(\d+(?:\.\d+)?)(us|ms|s|m|h|d)?$/

function compare(field: string, text: string, hasUnit: boolean): string | undefined {
  const [, operator = '', number, unit = ''] = COMPARED.exec(text) ?? []
  if (number === undefined || (unit && !hasUnit)) return undefined
  const value = hasUnit ? quote(number + (unit || 's')) : number
  return `${OPERATORS[operator]}(${field}, ${value})`
}

function pair(family: string, text: string): string | undefined {
  const [, key = '', value = ''] = /^([^=]+)(?:=(.*))?$/s.exec(text) ?? []
  if (!key) return undefined
  const isKey = `eq(${family}_key, ${quote(key)})`
  return value ? `and(${isKey}, eq(${family}_value, ${quote(value)}))` : isKey
}

function score(text: string): string | undefined {
  const [, key, operator, number] = /^([^<>=]+)(?:(>=|<=|>|<|=)(-?\d+(?:\.\d+)?))?$/.exec(text) ?? []
  if (!key) return undefined
  const isKey = `eq(feedback_key, ${quote(key)})`
  return operator ? `and(${isKey}, ${OPERATORS[operator]}(feedback_score, ${number}))` : isKey
}

const READERS: Record<Name, (value: string) => string | undefined> = {
  name: value => `like(name, ${contains(value)})`,
  type: value => (RUN_TYPES.some(type => type === value) ? `eq(run_type, ${quote(value)})` : undefined),
  tag: value => `has(tags, ${quote(value)})`,
  meta: value => pair('metadata', value),
  latency: value => compare('latency', value, true),
  tokens: value => compare('total_tokens', value, false),
  cost: value => compare('total_cost', value, false),
  thread: value => `eq(thread_id, ${quote(value)})`,
  score,
  error: value => `like(error, ${contains(value)})`,
}

/** A value with spaces is in quotes: `tag:"in review"`. */
const WORD = /(?:[^\s"]|"[^"]*"?)+/g
const isCondition = (name: string): name is Name => Object.hasOwn(CONDITIONS, name)

export function parseRunFilter(text: string): ParsedFilter {
  const words: string[] = []
  const filters: string[] = []
  let unknown: string | undefined
  for (const [part] of text.matchAll(WORD)) {
    const at = part.indexOf(':')
    const name = part.slice(0, Math.max(0, at))
    const value = part.slice(at + 1).replaceAll('"', '')
    if (!isCondition(name)) words.push(part.replaceAll('"', ''))
    // Without a value, it is being typed.
    else if (value) {
      const filter = READERS[name](value)
      if (filter) filters.push(filter)
      else unknown = part
    }
  }
  const searched = words.filter(Boolean).join(' ')
  return { filter: allOf([...(searched ? [`search(${quote(searched)})`] : []), ...filters]), unknown }
}

export const allOf = (filters: string[]): string | undefined =>
  filters.length > 1 ? `and(${filters.join(', ')})` : filters[0]
