// A prompt as a request of OpenAI or Anthropic, and the text of their answers (pure).
import type { CalledConfiguration } from './open-call.ts'

export type Prompt = {
  system?: string
  messages: { role: 'user' | 'assistant'; content: string }[]
  schema?: { name: string; schema: object }
  max_tokens?: number
}
type Json = ReturnType<typeof JSON.parse>
type ChatProtocol = {
  /** Below the base URL. */
  path: (baseUrl: string) => string
  headers: Record<string, string>
  toBody: (configuration: CalledConfiguration, prompt: Prompt) => object
  /** Undefined: it is no answer of a model. */
  readText: (answer: Json) => string | undefined
}

/** Anthropic has no default. */
const ANTHROPIC_MAX_TOKENS = 4096

const openai: ChatProtocol = {
  path: () => '/chat/completions',
  headers: {},
  toBody: ({ model, provider }, { system, messages, schema, max_tokens }) => ({
    model,
    messages: [...(system === undefined ? [] : [{ role: 'system', content: system }]), ...messages],
    // Newer models of OpenAI refuse the older name, and other servers do not know the newer one.
    ...(max_tokens !== undefined && {
      [provider === 'openai' ? 'max_completion_tokens' : 'max_tokens']: max_tokens,
    }),
    ...(schema && { response_format: { type: 'json_schema', json_schema: schema } }),
  }),
  readText: answer => {
    const message = answer?.choices?.[0]?.message
    return textOf(message?.content) ?? textOf(message?.refusal)
  },
}

const anthropic: ChatProtocol = {
  path: baseUrl => (baseUrl.endsWith('/v1') ? '/messages' : '/v1/messages'),
  headers: { 'anthropic-version': '2023-06-01' },
  toBody: ({ model }, { system, messages, schema, max_tokens = ANTHROPIC_MAX_TOKENS }) => ({
    model,
    messages,
    max_tokens,
    ...(system !== undefined && { system }),
    ...(schema && {
      tools: [{ name: schema.name, description: 'The answer.', input_schema: schema.schema }],
      tool_choice: { type: 'tool', name: schema.name },
    }),
  }),
  readText: answer => {
    if (!Array.isArray(answer?.content)) return undefined
    const parts = answer.content as Json[]
    const tool = parts.find(part => part?.type === 'tool_use')
    if (tool) return JSON.stringify(tool.input)
    return parts.map(part => textOf(part?.text) ?? '').join('')
  },
}

const textOf = (value: Json): string | undefined => (typeof value === 'string' ? value : undefined)

export const protocolOf = ({ provider }: Pick<CalledConfiguration, 'provider'>): ChatProtocol =>
  provider === 'anthropic' ? anthropic : openai

/** Models without structured answers put JSON between other words. */
export function parseStructured(text: string): unknown {
  const [start, end] = [text.search(/[{[]/), Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))]
  for (const candidate of [text, start < 0 ? '' : text.slice(start, end + 1)]) {
    try {
      return JSON.parse(candidate)
    } catch {}
  }
  return undefined
}
