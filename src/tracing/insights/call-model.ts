// Asks a model one question, and reads its answer.

import { type Completion, complete } from '../../connect/models/complete.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { cleanText } from '../ingest/run-contents.ts'
import { type Question, UnusableAnswer } from './question.ts'

/** The project of the runs that calls become. */
const PROJECT = 'insights'
/** The kept length of an answer that does not fit. */
const MAX_KEPT = 4000

export type ModelCall = {
  configuration_id: string
  /** The job, for the token that the upstream gets. */
  actor: string
  /** The project whose runs the question is about. */
  about: string
  question: Question<unknown>
  repairs?: { answer: string; fault: string } | undefined
  idempotency_key: string
  run_id: string
  metadata: Record<string, string>
  signal: AbortSignal
}
/** An answer that does not fit is kept with its fault. Without a completion, the model answered nothing readable. */
export type Answered = { completion: Completion | null } & ({ value: unknown } | { answer: string; fault: string })

export async function callModel(ctx: Ctx, call: ModelCall): Promise<Answered> {
  let completion: Completion | null = null
  try {
    completion = await ask(ctx, call)
    return { completion, value: call.question.read(completion.json ?? completion.text) }
  } catch (error) {
    const fault = faultOf(error)
    if (fault === null) throw error
    return { completion, answer: cut(completion?.text ?? ''), fault }
  }
}

const cut = (text: string): string => cleanText(text.slice(0, MAX_KEPT))

/** Null for failures that are not about the question. */
function faultOf(error: unknown): string | null {
  if (error instanceof UnusableAnswer) return error.message
  if (error instanceof Failure && error.code === 'model_answer_invalid') return 'There was no answer.'
  return null
}

const ask = (ctx: Ctx, { question, repairs, actor, run_id, metadata, ...call }: ModelCall): Promise<Completion> =>
  complete(ctx, {
    ...call,
    actor: { type: 'insights', id: actor },
    system: question.system,
    messages: [{ role: 'user', content: question.content }, ...(repairs ? askAgain(repairs) : [])],
    schema: { name: question.name, schema: question.schema },
    max_tokens: question.max_tokens,
    trace: { project: PROJECT, name: question.name, run_id, metadata },
  })

const askAgain = ({ answer, fault }: { answer: string; fault: string }) => [
  { role: 'assistant' as const, content: answer || '(nothing)' },
  { role: 'user' as const, content: `This answer does not fit. ${fault} Answer again, in full.` },
]
