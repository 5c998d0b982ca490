// Calls of models by the platform itself, for insights and evaluators: the way of the proxy, from a prompt to an
// answer.
import type { Ctx } from '../kernel/context.ts'

export type CompletionRequest = {
  /** Of the workspace of the context. */
  configuration_id: string
  actor: { type: 'evaluator' | 'insights' | 'user'; id: string }
  system?: string
  messages: { role: 'user' | 'assistant'; content: string }[]
  /** The answer fits the schema, and is parsed. */
  schema?: { name: string; schema: object }
  max_tokens?: number
  signal?: AbortSignal
  /** Sent on, so that a provider answers a repeat without another charge. */
  idempotency_key?: string
  trace?: { project: string; name: string; run_id?: string; metadata?: Record<string, string> }
}

export type Completion = {
  text: string
  /** The parsed answer of a request with a schema. */
  json?: unknown
  model: string
  usage: { input_tokens: number; output_tokens: number; cost: number | null; estimated: boolean }
  run_id: string | null
}

/** Throws failures with a code. What the upstream said is part of them as a short excerpt only. */
export async function complete(_ctx: Ctx, _request: CompletionRequest): Promise<Completion> {
  throw new Error('not connected to the proxy yet')
}
