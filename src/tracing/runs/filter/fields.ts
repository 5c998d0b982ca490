// The fields that filters compare (pure): their types, the operators of each type, and how values are read.
import { readTraceTime } from '../time.schema.ts'
import { type Comparison, type Condition, FilterFault, type Literal } from './grammar.ts'

export type FieldType =
  | 'text'
  | 'uuid'
  | 'number'
  | 'time'
  /** Seconds. */
  | 'duration'
  | 'boolean'
  | 'tags'
  | 'json'
  /** JSON that is searched as a text. */
  | 'document'
  /** The value of a JSON member: any literal. */
  | 'member'

/** The fields of a family are columns of its pairs, of which a run has several: `metadata_key`, `metadata_value`. */
export type Field = { type: FieldType; family?: string; isKey?: boolean }
export type Fields = Record<string, Field>

export const memberPairs = (family: string): Fields => ({
  [`${family}_key`]: { type: 'text', family, isKey: true },
  [`${family}_value`]: { type: 'member', family },
})

export const RUN_FIELDS: Fields = {
  id: { type: 'uuid' },
  name: { type: 'text' },
  run_type: { type: 'text' },
  status: { type: 'text' },
  error: { type: 'text' },
  start_time: { type: 'time' },
  end_time: { type: 'time' },
  first_token_time: { type: 'time' },
  latency: { type: 'duration' },
  first_token_latency: { type: 'duration' },
  total_tokens: { type: 'number' },
  prompt_tokens: { type: 'number' },
  completion_tokens: { type: 'number' },
  total_cost: { type: 'number' },
  prompt_cost: { type: 'number' },
  completion_cost: { type: 'number' },
  execution_order: { type: 'number' },
  is_root: { type: 'boolean' },
  trace_id: { type: 'uuid' },
  parent_run_id: { type: 'uuid' },
  session_id: { type: 'uuid' },
  thread_id: { type: 'text' },
  reference_example_id: { type: 'uuid' },
  trace_tier: { type: 'text' },
  tags: { type: 'tags' },
  metadata: { type: 'json' },
  inputs: { type: 'document' },
  outputs: { type: 'document' },
  feedback_key: { type: 'text', family: 'feedback', isKey: true },
  feedback_score: { type: 'number', family: 'feedback' },
  feedback_value: { type: 'member', family: 'feedback' },
  feedback_comment: { type: 'text', family: 'feedback' },
  feedback_source: { type: 'text', family: 'feedback' },
  ...memberPairs('metadata'),
  ...memberPairs('input'),
  ...memberPairs('output'),
}

const EQUALITY: Comparison[] = ['eq', 'neq', 'in']
const ORDER: Comparison[] = [...EQUALITY, 'gt', 'gte', 'lt', 'lte']
const OPERATORS_OF: Record<FieldType, Comparison[]> = {
  text: [...ORDER, 'like', 'search'],
  uuid: EQUALITY,
  number: ORDER,
  time: ORDER,
  duration: ORDER,
  boolean: ['eq', 'neq'],
  tags: ['has'],
  json: ['has', 'exists'],
  document: ['search', 'like'],
  member: [...ORDER, 'like', 'search'],
}

/** The values as the type of the field has them: a time as ISO 8601, a duration in seconds, JSON normalized. */
export function readValues(condition: Condition, name: string, { type }: Field): Literal[] {
  const { operator, values, position } = condition
  if (!OPERATORS_OF[type].includes(operator)) {
    const allowed = OPERATORS_OF[type].map(one => `\`${one}\``).join(', ')
    throw new FilterFault(position, `\`${name}\` cannot be compared by \`${operator}\`, but by ${allowed}`)
  }
  const { read, description } = readerOf(operator, type)
  return values.map(value => {
    if (value === null && (operator === 'eq' || operator === 'neq')) return null
    const found = read(value)
    if (found !== undefined) return found
    throw new FilterFault(position, `the value for \`${name}\` must be ${description}`)
  })
}

export const readSearch = ({ values, position }: Condition): Literal[] =>
  values.map(value => {
    if (readWords(value) !== undefined) return value
    throw new FilterFault(position, `\`search\` takes ${WORDS}`)
  })

function readerOf(operator: Comparison, type: FieldType): { read: Read; description: string } {
  if (operator === 'search') return { read: readWords, description: WORDS }
  if (operator === 'like') return { read: readPattern, description: PATTERN }
  if (operator === 'has' && type === 'json')
    return { read: readJson, description: 'a JSON object in quotes, such as \'{"key": "value"}\'' }
  return { read: READ[type], description: DESCRIBED[type] }
}

/** Characters of a pattern of `like`, and of a word of `search`. A longer one is no pattern, but a text to compare. */
const MAX_PATTERN = 255
/** Names have underscores, which are wildcards unless they are escaped. Each costs time at each character. */
const MAX_WILDCARDS = 16
const PATTERN =
  `a text of at most ${MAX_PATTERN} characters, with at most ${MAX_WILDCARDS} \`%\` and \`_\` that have no backslash ` +
  'before them, and without a lone backslash at its end'
const MAX_WORDS = 20
const WORDS = `one to ${MAX_WORDS} words in quotes, each of at most ${MAX_PATTERN} characters`

export const splitWords = (text: string): string[] => text.split(/\s+/).filter(word => word !== '')

const DESCRIBED: Record<FieldType, string> = {
  text: 'a text',
  uuid: 'a UUID',
  number: 'a number',
  time: 'a time such as "2026-11-22T12:00:00Z"',
  duration: 'a number of seconds, or a duration such as "5s" or "500ms"',
  boolean: 'true or false',
  tags: 'a text',
  json: 'a text',
  document: 'a text',
  member: 'a text, a number, true or false',
}

type Read = (value: Literal) => Literal | undefined

const readText: Read = value => (typeof value === 'string' ? value : undefined)
function readPattern(value: Literal): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_PATTERN) return undefined
  const parts = splitPattern(value)
  const isWhole = parts.at(-1) !== '\\'
  return isWhole && parts.filter(part => part === '%' || part === '_').length <= MAX_WILDCARDS ? value : undefined
}
/** Splits into single characters. An escaped one has its backslash. */
export const splitPattern = (pattern: string): string[] => pattern.match(/\\?./gsu) ?? []
const readScalarText: Read = value => (value === null ? undefined : String(value))

const READ: Record<FieldType, Read> = {
  text: readScalarText,
  uuid: value => (typeof value === 'string' && UUID.test(value) ? value.toLowerCase() : undefined),
  number: readNumber,
  time: value => (typeof value === 'string' ? readTraceTime(value) : undefined),
  duration: readDuration,
  boolean: readBoolean,
  tags: readText,
  json: readText,
  document: readText,
  member: value => value ?? undefined,
}

function readWords(value: Literal): string | undefined {
  if (typeof value !== 'string') return undefined
  const words = splitWords(value)
  const isShort = words.length <= MAX_WORDS && words.every(({ length }) => length <= MAX_PATTERN)
  return words.length > 0 && isShort ? value : undefined
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const NUMBER = /^-?\d{1,15}(?:\.\d{1,15})?$/

function readNumber(value: Literal): number | undefined {
  if (typeof value === 'string') return NUMBER.test(value) ? Number(value) : undefined
  return typeof value === 'number' ? value : undefined
}

function readBoolean(value: Literal): boolean | undefined {
  if (value === true || value === 1 || value === 'true') return true
  return value === false || value === 0 || value === 'false' ? false : undefined
}

const DURATION = /^(\d{1,15}(?:\.\d{1,15})?) ?(us|ms|s|m|h|d)$/
const SECONDS: Record<string, number> = { us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400 }

function readDuration(value: Literal): number | undefined {
  const [, count, unit] = (typeof value === 'string' && DURATION.exec(value)) || []
  return unit ? Number(count) * SECONDS[unit]! : readNumber(value)
}

const MAX_BRACKETS = 200

function readJson(value: Literal): string | undefined {
  if (typeof value !== 'string') return undefined
  try {
    const json: unknown = JSON.parse(value)
    const text = JSON.stringify(json)
    // Postgres refuses NUL characters and halves of surrogate pairs, and too many levels.
    const isStorable = !/\\u(?:0000|d[89a-f])/i.test(text) && text.split(/[{[]/).length <= MAX_BRACKETS
    return text.startsWith('{') && isStorable ? text : undefined
  } catch {
    return undefined
  }
}
