// Has a model write a config, from people's questions and from examples of traces.
import type { Ctx } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { fillPayloads } from '../runs/object-links.ts'
import { type Answered, callModel } from './call-model.ts'
import { askForConfig, type GeneratedConfig } from './config-question.ts'
import { boundaryOf } from './question.ts'
import { cutMiddle } from './summary-template.ts'

const EXAMPLES = 8
const MAX_EXAMPLE = 1500
const PAYLOAD_BYTES = 4 * 1024 * 1024
const CALL_MS = 60_000

export type ConfigRequest = {
  session_id: string
  user_context: Record<string, string> | null | undefined
  configuration_id: string
}

/** The caller waits for it. An answer that does not fit is asked for once more. */
export async function generateConfig(ctx: Ctx, request: ConfigRequest): Promise<GeneratedConfig> {
  const { session_id, user_context, configuration_id } = request
  const id = crypto.randomUUID()
  const boundary = boundaryOf(id, 'config')
  const question = askForConfig(user_context, await readExamples(ctx, session_id), boundary)
  const signal = AbortSignal.timeout(CALL_MS)
  const ask = (repairs?: { answer: string; fault: string }): Promise<Answered> =>
    callModel(ctx, {
      configuration_id,
      actor: id,
      about: session_id,
      question,
      repairs,
      signal,
      idempotency_key: crypto.randomUUID(),
      run_id: crypto.randomUUID(),
      metadata: { session_id },
    })
  const first = await ask()
  const last = 'fault' in first ? await ask(first) : first
  if ('fault' in last) throw fail('model_answer_invalid', { about: last.fault })
  return last.value as GeneratedConfig
}

async function readExamples(ctx: Ctx, session_id: string): Promise<{ inputs: string; outputs: string }[]> {
  const { runs } = await ctx.traces.query(ctx, {
    projects: [session_id],
    is_root: true,
    order: 'desc',
    limit: EXAMPLES,
    columns: ['inputs', 'outputs', 'objects'],
  })
  await fillPayloads(ctx, runs, PAYLOAD_BYTES)
  const show = (json: string | null | undefined) => cutMiddle(json ?? '', MAX_EXAMPLE)
  return runs.map(({ inputs, outputs }) => ({ inputs: show(inputs), outputs: show(outputs) }))
}
