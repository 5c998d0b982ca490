// Filters as their documentation explains them, over runs in memory: what the store finds is compared with it.
import type { Condition, Filter, Literal } from '../../src/tracing/runs/filter/grammar.ts'

export type NaiveRun = {
  id: string
  trace_id: string
  parent_run_id?: string | undefined
  name: string
  run_type: string
  start_time: string
  end_time?: string | undefined
  error?: string | undefined
  tags: string[]
  metadata: Record<string, unknown>
  inputs: unknown
  outputs: unknown
  total_tokens: number
  feedback: { key: string; score?: number | undefined; value?: unknown; comment?: string; source: string }[]
}
/** The columns of a pair: those of a member are key and value. */
type Pair = { key: string; [column: string]: unknown }

/** Members of objects, by their names joined by dots. Arrays are passed through. */
function pairsOf(value: unknown, path?: string): Pair[] {
  const own = path === undefined ? [] : [{ key: path, value }]
  if (Array.isArray(value)) return [...own, ...value.flatMap(item => pairsOf(item, path))]
  if (typeof value !== 'object' || value === null) return own
  return [...own, ...Object.entries(value).flatMap(([name, one]) => pairsOf(one, path ? `${path}.${name}` : name))]
}

const textOf = (value: unknown): string | null =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value)

const order = <T>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)
const DECIDES: Record<string, (sign: number) => boolean> = {
  gt: sign => sign > 0,
  gte: sign => sign >= 0,
  lt: sign => sign < 0,
  lte: sign => sign <= 0,
}

const isLike = (text: string, pattern: string): boolean => {
  const source = pattern
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('%', '[^]*')
    .replaceAll('_', '[^]')
  return new RegExp(`^${source}$`, 'u').test(text)
}
/** JSON has quotes and backslashes escaped. */
const hasWords = (text: string | null, words: string, isJson = false): boolean =>
  text !== null &&
  words.split(/\s+/).every(word => {
    const spellings = isJson ? [word, JSON.stringify(word).slice(1, -1)] : [word]
    return spellings.some(one => text.toLowerCase().includes(one.toLowerCase()))
  })

/** Compares a text, a number or a boolean. Null equals no value. */
function holds(operator: string, actual: string | number | boolean | null, values: Literal[]): boolean {
  const [value] = values as [Literal]
  if (operator === 'in') return actual !== null && values.includes(actual)
  if (operator === 'eq') return actual === value
  if (operator === 'neq') return actual !== value
  if (operator === 'like') return actual !== null && isLike(String(actual), String(value))
  if (operator === 'search') return hasWords(textOf(actual), String(value))
  return actual !== null && value !== null && DECIDES[operator]!(order(actual, value))
}

/** A number equals a number, or a text that spells it. Other values are compared as texts. */
function memberHolds(operator: string, actual: unknown, values: Literal[]): boolean {
  const [value] = values as [Literal]
  const equals = (one: Literal) => textOf(actual) === textOf(one) || (typeof actual === 'number' && actual === one)
  if (operator === 'in') return values.some(equals)
  if (operator === 'eq') return equals(value)
  if (operator === 'neq') return !equals(value)
  if (typeof value === 'number') return typeof actual === 'number' && DECIDES[operator]!(order(actual, value))
  return holds(operator, textOf(actual), [textOf(value)])
}

const FAMILIES = {
  metadata: (run: NaiveRun): Pair[] => pairsOf(run.metadata),
  input: (run: NaiveRun): Pair[] => pairsOf(run.inputs),
  output: (run: NaiveRun): Pair[] => pairsOf(run.outputs),
  feedback: (run: NaiveRun): Pair[] => run.feedback,
}
type Family = keyof typeof FAMILIES
const familyOf = ({ field }: Condition) => /^(metadata|input|output|feedback)_(\w+)$/.exec(field ?? '')

function pairHolds(condition: Condition, pair: Pair): boolean {
  const column = familyOf(condition)![2]!
  const actual = pair[column]
  const { operator, values } = condition
  return column === 'value'
    ? memberHolds(operator, actual, values)
    : holds(operator, (actual as string | number | undefined) ?? null, values)
}

const somePair = (run: NaiveRun, family: Family, conditions: Condition[]): boolean =>
  FAMILIES[family](run).some(pair => conditions.every(condition => pairHolds(condition, pair)))

const alone = (run: NaiveRun, family: Family, condition: Condition): boolean =>
  condition.operator === 'neq'
    ? !somePair(run, family, [{ ...condition, operator: 'eq' }])
    : somePair(run, family, [condition])

function conjunction(run: NaiveRun, parts: Filter[], trace: NaiveRun[]): boolean {
  const ofFamily = (family: Family): Condition[] =>
    parts.filter((part): part is Condition => !('parts' in part) && familyOf(part)?.[1] === family)
  const isPair = (part: Filter) => !('parts' in part) && familyOf(part)
  if (!parts.filter(part => !isPair(part)).every(part => matches(run, part, trace))) return false
  return (Object.keys(FAMILIES) as Family[]).every(family => {
    const isWantedKey = ({ field, operator }: Condition) => field!.endsWith('_key') && operator !== 'neq'
    const conditions = ofFamily(family)
    const first = conditions.findIndex(isWantedKey)
    if (first === -1) return conditions.every(condition => alone(run, family, condition))
    const groups: Condition[][] = []
    const before: Condition[] = []
    for (const condition of conditions) {
      if (isWantedKey(condition)) groups.push([condition])
      else if (condition.field!.endsWith('_key')) {
        if (!alone(run, family, condition)) return false
      } else (groups.at(-1) ?? before).push(condition)
    }
    groups[0]!.push(...before)
    return groups.every(group => somePair(run, family, group))
  })
}

const seconds = (from: string, to: string | undefined): number | null =>
  to === undefined ? null : (Date.parse(to) - Date.parse(from)) / 1000

function readField(run: NaiveRun, field: string, trace: NaiveRun[]): string | number | boolean | null {
  const isRoot = run.id === run.trace_id
  switch (field) {
    case 'is_root':
      return isRoot
    case 'latency':
      return seconds(run.start_time, run.end_time)
    case 'status':
      return run.error === undefined ? (run.end_time === undefined ? 'pending' : 'success') : 'error'
    case 'total_tokens':
      return isRoot ? trace.reduce((sum, one) => sum + one.total_tokens, 0) : run.total_tokens
    case 'thread_id':
      return textOf(run.metadata.thread_id)
    default:
      return ((run as Record<string, unknown>)[field] as string | undefined) ?? null
  }
}

const contains = (value: unknown, part: unknown): boolean => {
  if (Array.isArray(part)) return Array.isArray(value) && part.every(one => value.some(item => contains(item, one)))
  if (typeof part !== 'object' || part === null) return value === part
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.entries(part).every(([name, one]) => name in value && contains(value[name as never], one))
}

/** `trace` has all runs of the run's trace. */
export function matches(run: NaiveRun, filter: Filter, trace: NaiveRun[]): boolean {
  if ('parts' in filter) {
    if (filter.operator === 'and') return conjunction(run, filter.parts, trace)
    if (filter.operator === 'or') return filter.parts.some(part => matches(run, part, trace))
    return !matches(run, filter.parts[0]!, trace)
  }
  const { operator, field, values } = filter
  const family = familyOf(filter)
  if (family) return alone(run, family[1] as Family, filter)
  if (field === null) {
    const texts = [run.name, run.error, ...run.tags, run.metadata, run.inputs, run.outputs].map(textOf)
    return hasWords(texts.filter(text => text !== null).join('\n'), String(values[0]), true)
  }
  if (field === 'tags') return run.tags.includes(values[0] as string)
  if (field === 'metadata')
    return operator === 'has'
      ? contains(run.metadata, JSON.parse(values[0] as string))
      : (values[0] as string) in run.metadata
  if (field === 'inputs' || field === 'outputs') return hasWords(textOf(run[field]), String(values[0]), true)
  const actual = readField(run, field, trace)
  if (field === 'start_time')
    return holds(
      operator,
      Date.parse(actual as string),
      values.map(value => Date.parse(value as string)),
    )
  return holds(operator, actual, values)
}
