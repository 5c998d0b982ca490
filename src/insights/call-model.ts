// Asks a model one question, and once more soon where the model was busy.
import type { Ctx } from '../kernel/context.ts'
import { pauseUntilAborted } from '../kernel/context.ts'
import { Failure } from '../kernel/errors.ts'
import { type Completion, complete } from '../models/complete.ts'
import type { Question } from './question.ts'
import { UnusableAnswer } from './question.ts'

/** The project of the runs that calls become. */
const PROJECT = 'insights'
const MAX_TRIES = 3
const FIRST_WAIT_MS = 500
/** A longer wait is for the next worker. */
const MAX_WAIT_MS = 10_000
const PASSING_CODES = ['upstream_error']
const MAX_KEPT = 4000

export type ModelCall = {
  configuration_id: string
  /** Of the job, for the token that the upstream gets. */
  actor: string
  question: Question<unknown>
  repairs?: { answer: string; fault: string } | undefined
  idempotency_key: string
  run_id: (attempt: number) => string
  metadata: Record<string, string>
  signal: AbortSignal
}
export type Answered =
  | { completion: Completion; value: unknown }
  | { completion: Completion; answer: string; fault: string }

/** An answer that does not fit is no failure: it is returned with what is wrong with it. */
export async function callModel(ctx: Ctx, call: ModelCall): Promise<Answered> {
  const completion = await completeSoon(ctx, call)
  const answer = completion.json ?? completion.text
  try {
    return { completion, value: call.question.read(answer) }
  } catch (error) {
    if (!(error instanceof UnusableAnswer)) throw error
    const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
    return { completion, answer: text.slice(0, MAX_KEPT).toWellFormed().replaceAll('\0', ''), fault: error.message }
  }
}

async function completeSoon(ctx: Ctx, call: ModelCall): Promise<Completion> {
  const { configuration_id, question, idempotency_key, metadata, signal } = call
  for (let attempt = 1; ; attempt++) {
    try {
      return await complete(ctx, {
        configuration_id,
        actor: { type: 'insights', id: call.actor },
        system: question.system,
        messages: messagesOf(call),
        schema: { name: question.name, schema: question.schema },
        max_tokens: question.max_tokens,
        signal,
        idempotency_key,
        trace: { project: PROJECT, name: question.name, run_id: call.run_id(attempt), metadata },
      })
    } catch (error) {
      const wait = waitAfter(error, attempt)
      if (wait === null || !(await pauseUntilAborted(wait, signal))) throw error
    }
  }
}

const messagesOf = ({ question, repairs }: ModelCall) => [
  { role: 'user' as const, content: question.content },
  ...(repairs
    ? [
        { role: 'assistant' as const, content: repairs.answer || '(nothing)' },
        { role: 'user' as const, content: `This answer does not fit. ${repairs.fault} Answer again, in full.` },
      ]
    : []),
]

/** Null if it is not tried again soon. */
function waitAfter(error: unknown, attempt: number): number | null {
  if (!(error instanceof Failure) || !PASSING_CODES.includes(error.code) || attempt === MAX_TRIES) return null
  const retryAfter = error.extra.headers?.['Retry-After']
  const wait = retryAfter === undefined ? FIRST_WAIT_MS * 2 ** (attempt - 1) : Number(retryAfter) * 1000
  return wait <= MAX_WAIT_MS ? wait : null
}
