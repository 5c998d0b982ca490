// The evaluator of a rule as a form has it: a model, what it is asked, and what it scores (pure).
import type { NewRule, Rule } from './actions.ts'

export const KINDS = [
  { value: 'boolean', label: 'Yes or no' },
  { value: 'number', label: 'Number' },
  { value: 'string', label: 'Text' },
] as const
type Kind = (typeof KINDS)[number]['value']
export type ScoreDraft = { key: string; kind: Kind; description: string }
export type EvaluatorDraft = {
  /** Empty: the rule has no evaluator. */
  model: string
  system: string
  prompt: string
  scores: ScoreDraft[]
  limit: string
  /** Members that the form does not show. */
  format: 'mustache' | 'f-string'
  mapping: Record<string, string>
}
type Structured = Rule['evaluators'][0]['structured']
type Property = { type?: unknown; description?: unknown }

export const NEW_SCORE: ScoreDraft = { key: '', kind: 'boolean', description: '' }
export const EMPTY_EVALUATOR: EvaluatorDraft = {
  model: '',
  system: 'You judge the answers of an assistant.',
  prompt: 'What was asked: {{input}}\n\nWhat was answered: {{output}}',
  scores: [{ key: 'helpful', kind: 'boolean', description: 'The answer helps the person who asked.' }],
  limit: '',
  format: 'mustache',
  mapping: {},
}
const COMMENT = 'comment'

const propertiesOf = ({ schema }: Structured) => (schema.properties ?? {}) as Record<string, Property>

/** True if the form shows the whole rule. Other settings can be changed with the API only. */
export function isShown({ evaluators, evaluator_id }: Rule): boolean {
  if (evaluator_id !== null || evaluators.length > 1) return false
  return evaluators.every(({ structured }) => {
    const roles = structured.prompt.map(([role]) => role).join()
    const types = Object.values(propertiesOf(structured))
    const isPlain = types.every(one => KINDS.some(({ value }) => value === one.type) && !('enum' in one))
    return isPlain && (roles === 'user' || roles === 'system,user')
  })
}

export function toEvaluatorDraft(rule: Rule): EvaluatorDraft {
  const limit = rule.spend_limit?.limit_usd ?? ''
  const [first] = rule.evaluators
  if (!first || !isShown(rule)) return { ...EMPTY_EVALUATOR, limit }
  const { structured } = first
  const textOf = (wanted: string) => structured.prompt.find(([role]) => role === wanted)?.[1] ?? ''
  return {
    model: structured.playground_settings_id,
    system: textOf('system'),
    prompt: textOf('user'),
    scores: Object.entries(propertiesOf(structured))
      .filter(([key]) => key !== COMMENT)
      .map(([key, { type, description }]) => ({
        key,
        kind: type as Kind,
        description: typeof description === 'string' ? description : '',
      })),
    limit,
    format: structured.template_format,
    mapping: structured.variable_mapping,
  }
}

export function toEvaluators(draft: EvaluatorDraft): NonNullable<NewRule['evaluators']> {
  if (!draft.model) return []
  const scores = draft.scores.map(({ key, kind, description }) => [
    key.trim(),
    { type: kind, ...(description.trim() && { description: description.trim() }) },
  ])
  const properties = Object.fromEntries([...scores, [COMMENT, { type: 'string', description: 'Why, in a sentence.' }]])
  return [
    {
      structured: {
        playground_settings_id: draft.model,
        prompt: [
          ...(draft.system.trim() ? [['system', draft.system] as ['system', string]] : []),
          ['user', draft.prompt],
        ],
        schema: {
          title: 'verdict',
          type: 'object',
          properties,
          required: Object.keys(properties),
          additionalProperties: false,
        },
        template_format: draft.format,
        variable_mapping: draft.mapping,
      },
    },
  ]
}

export const toSpendLimit = ({ model, limit }: EvaluatorDraft): NewRule['spend_limit'] =>
  model && limit.trim() ? { limit_usd: Number(limit.replace(',', '.')), window: 'weekly' } : null
