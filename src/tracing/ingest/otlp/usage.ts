// Tokens and costs of a model call, by the names that instrumentations use, old and new.
import { type AttributeReader, isObject, parseIfJson } from './attribute-reader.ts'
import type { Value } from './spans.ts'

const INPUT_TOKENS = [
  'gen_ai.usage.input_tokens',
  'gen_ai.usage.prompt_tokens',
  'llm.token_count.prompt',
  'llm.usage.prompt_tokens',
  'ai.usage.inputTokens',
  'ai.usage.promptTokens',
  'ai.usage.tokens',
]
const OUTPUT_TOKENS = [
  'gen_ai.usage.output_tokens',
  'gen_ai.usage.completion_tokens',
  'llm.token_count.completion',
  'llm.usage.completion_tokens',
  'ai.usage.outputTokens',
  'ai.usage.completionTokens',
]
const TOTAL_TOKENS = [
  'gen_ai.usage.total_tokens',
  'llm.token_count.total',
  'llm.usage.total_tokens',
  'ai.usage.totalTokens',
]
const INPUT_DETAILS = {
  cache_read: [
    'gen_ai.usage.cache_read.input_tokens',
    'gen_ai.usage.cache_read_input_tokens',
    'gen_ai.usage.details.cache_read_tokens',
    'gen_ai.usage.details.cached_tokens',
    'llm.token_count.prompt_details.cache_read',
    'ai.usage.cachedInputTokens',
  ],
  cache_creation: [
    'gen_ai.usage.cache_creation.input_tokens',
    'gen_ai.usage.cache_creation_input_tokens',
    'gen_ai.usage.details.cache_write_tokens',
    'llm.token_count.prompt_details.cache_write',
  ],
  audio: ['gen_ai.usage.details.input_audio_tokens', 'llm.token_count.prompt_details.audio'],
}
const OUTPUT_DETAILS = {
  reasoning: [
    'gen_ai.usage.reasoning.output_tokens',
    'gen_ai.usage.reasoning_tokens',
    'gen_ai.usage.details.reasoning_tokens',
    'llm.token_count.completion_details.reasoning',
    'ai.usage.reasoningTokens',
  ],
  audio: ['gen_ai.usage.details.output_audio_tokens', 'llm.token_count.completion_details.audio'],
}
const COSTS = {
  input_cost: ['gen_ai.usage.input_cost', 'llm.cost.prompt'],
  output_cost: ['gen_ai.usage.output_cost', 'llm.cost.completion'],
  total_cost: ['gen_ai.usage.cost', 'gen_ai.usage.total_cost', 'llm.cost.total'],
}

type Names = Record<string, string[]>

function readNumbers(attributes: AttributeReader, names: Names): Record<string, number> {
  const numbers = Object.entries(names).map(([member, alternatives]) => [member, attributes.number(...alternatives)])
  return Object.fromEntries(numbers.filter(([, number]) => number !== undefined))
}

const isEmpty = (object: object): boolean => Object.keys(object).length === 0

/** Returns the `usage_metadata` of the run. Undefined if the span has no tokens or costs. */
export function readUsage(attributes: AttributeReader): Value | undefined {
  const input_details = readNumbers(attributes, INPUT_DETAILS)
  const output_details = readNumbers(attributes, OUTPUT_DETAILS)
  const usage = {
    ...readNumbers(attributes, {
      input_tokens: INPUT_TOKENS,
      output_tokens: OUTPUT_TOKENS,
      total_tokens: TOTAL_TOKENS,
    }),
    ...readNumbers(attributes, COSTS),
    ...(!isEmpty(input_details) && { input_token_details: input_details }),
    ...(!isEmpty(output_details) && { output_token_details: output_details }),
  }
  const given = parseIfJson(attributes.value('langsmith.usage_metadata') ?? null)
  if (isObject(given)) return given
  if (isEmpty(usage)) return undefined
  const { input_tokens, output_tokens } = usage as Record<string, number | undefined>
  const hasTokens = input_tokens !== undefined || output_tokens !== undefined
  return { ...(hasTokens && { total_tokens: (input_tokens ?? 0) + (output_tokens ?? 0) }), ...usage }
}
