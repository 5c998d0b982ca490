// The keys that an evaluator's schema asks for, and the feedback that its answer becomes (pure).
import { cleanText } from '../ingest/run-contents.ts'

export type Verdict = { key: string; score?: number | boolean; value?: string; comment?: string }

/** These members are the comment of the others. */
const COMMENTS = ['comment', 'reasoning', 'explanation']
const KINDS = { boolean: 'score', number: 'score', integer: 'score', string: 'text' } as const
const MAX_SCORE = 999_999_999
const MAX_TEXT_LENGTH = 20_000

/** Undefined if a property is neither a boolean, a number nor a text. */
export function kindOf(property: unknown): 'score' | 'text' | undefined {
  if (typeof property !== 'object' || property === null) return undefined
  const { type, enum: values } = property as { type?: unknown; enum?: unknown }
  const given = type === undefined && Array.isArray(values) ? values.map(value => typeof value) : [type].flat()
  const kinds = new Set(given.filter(one => one !== 'null').map(one => KINDS[one as keyof typeof KINDS]))
  return kinds.size === 1 ? [...kinds][0] : undefined
}

/** Lists the keys of its feedback. */
export const listKeys = (schema: Record<string, unknown>): string[] =>
  Object.entries(propertiesOf(schema))
    .filter(([name, property]) => !COMMENTS.includes(name) || kindOf(property) === 'score')
    .map(([name]) => name)

const propertiesOf = ({ properties }: Record<string, unknown>) => (properties ?? {}) as Record<string, unknown>

/** Null if the answer does not fit the schema. */
export function toVerdicts(schema: Record<string, unknown>, answer: unknown): Verdict[] | null {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return null
  const given = answer as Record<string, unknown>
  const required = Array.isArray(schema.required) ? schema.required : []
  const keys = listKeys(schema)
  const comment = COMMENTS.filter(name => !keys.includes(name) && typeof given[name] === 'string')
    .map(name => shorten(given[name] as string))
    .filter(Boolean)
    .join('\n')
  const verdicts: Verdict[] = []
  for (const key of keys) {
    const value = Object.hasOwn(given, key) ? given[key] : undefined
    if (value == null) {
      if (required.includes(key)) return null
      continue
    }
    const said = toVerdict(propertiesOf(schema)[key], value)
    if (!said) return null
    verdicts.push({ key, ...said, ...(comment && { comment }) })
  }
  return verdicts.length > 0 ? verdicts : null
}

function toVerdict(property: unknown, value: unknown): Omit<Verdict, 'key'> | null {
  const { enum: allowed } = property as { enum?: unknown }
  if (Array.isArray(allowed) && !allowed.includes(value)) return null
  if (kindOf(property) === 'text') return typeof value === 'string' ? { value: shorten(value) } : null
  if (typeof value === 'boolean') return { score: value }
  return typeof value === 'number' && Math.abs(value) <= MAX_SCORE ? { score: value } : null
}

/** Postgres stores neither a NUL character nor half of a surrogate pair. */
const shorten = (text: string): string => cleanText(text.slice(0, MAX_TEXT_LENGTH))
