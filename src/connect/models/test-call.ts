// Tests a model configuration by one small call. Its outcome is kept until the next test.

import { db, run } from '../../kernel/db/db.ts'
import { detailOf } from '../../kernel/http/codes.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { complete } from './complete.ts'
import { type ConfigurationParams, isConfiguration } from './configurations.ts'
import type { TestOutcome } from './schema.ts'
import { modelConfigurations } from './tables.ts'

const PROMPT = 'Answer with the word OK.'
const MAX_TOKENS = 64
const MAX_ANSWER = 200
const TIMEOUT_MS = 60_000

const NO_ANSWER = { answer: null, model: null, input_tokens: null, output_tokens: null }

/** Failures of the model or on the way to it. Other failures are those of the request itself. */
const OUTCOMES = /^(model_(?!not_found)|upstream_|blocked_url$|client_refused$|grant_refused$|token_answer_invalid$)/

export const testConfiguration = verb('models:invoke', async (ctx, ref: ConfigurationParams): Promise<TestOutcome> => {
  const started = Date.now()
  const outcome = await callOnce(ctx, ref.configuration_id)
  const tested = {
    ...outcome,
    latency_ms: Date.now() - started,
    tested_at: new Date(started + ctx.platform.clock.ahead()).toISOString(),
  }
  const stored = db.update(modelConfigurations).set({ last_test: tested }).where(isConfiguration(ref))
  await run(ctx, stored.returning({ id: modelConfigurations.id }))
  return tested
})

async function callOnce(ctx: Ctx, configuration_id: string): Promise<Omit<TestOutcome, 'latency_ms' | 'tested_at'>> {
  try {
    const { text, model, usage } = await complete(ctx, {
      configuration_id,
      messages: [{ role: 'user', content: PROMPT }],
      max_tokens: MAX_TOKENS,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const { input_tokens, output_tokens } = usage
    return { ok: true, code: null, detail: null, answer: text.slice(0, MAX_ANSWER), model, input_tokens, output_tokens }
  } catch (error) {
    if (!(error instanceof Failure) || !OUTCOMES.test(error.code)) throw error
    const detail = detailOf(error.code, error.extra.about)
    return { ok: false, code: error.code, detail, ...NO_ANSWER }
  }
}
