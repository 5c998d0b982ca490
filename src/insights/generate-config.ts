// Has a model write a config that answers what a person wants to know about their application.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, createKeylessCaller, verb, withoutRateLimit } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { requireRow } from '../kernel/rows.ts'
import type { SessionRef } from '../traces/sessions.schema.ts'
import { MODEL_CALL_MS } from './claimed-job.ts'
import type { GeneratedConfig } from './config-question.ts'
import type * as schema from './configs.schema.ts'
import { findModel, isProject, MAY_START } from './job-insert.ts'
import { boundaryOf } from './question.ts'

const EXAMPLES = 12

type Input = z.output<typeof SessionRef> & schema.ConfigQuestion

export const generateConfig = verb('rules:create', async (ctx, input: Input) => {
  const { session_id, user_context } = input
  const { askForConfig } = await import('./config-question.ts')
  const { callModel } = await import('./call-model.ts')
  const configuration_id = await findConfiguration(ctx, input)
  const { runs } = await ctx.traces.query(withoutRateLimit(ctx), {
    sessions: [session_id],
    is_root: true,
    order: 'desc',
    limit: EXAMPLES,
    columns: ['inputs_preview', 'outputs_preview'],
  })
  const examples = runs.map(({ inputs_preview, outputs_preview }) => ({
    inputs: inputs_preview ?? '',
    outputs: outputs_preview ?? '',
  }))
  const request = crypto.randomUUID()
  const question = askForConfig(user_context, examples, boundaryOf(request, 'config'))
  const call = {
    configuration_id,
    actor: session_id,
    question,
    run_id: () => crypto.randomUUID(),
    metadata: { session_id },
    signal: AbortSignal.timeout(MODEL_CALL_MS),
  }
  const actor = actAsInsights(ctx, session_id)
  const first = await callModel(actor, { ...call, idempotency_key: request })
  if ('value' in first) return toWire(first.value)
  const second = await callModel(actor, { ...call, repairs: first, idempotency_key: crypto.randomUUID() })
  if ('value' in second) return toWire(second.value)
  throw fail('model_answer_invalid', { about: second.fault })
})

const toWire = (value: unknown) => value as GeneratedConfig

/** What the caller may do is checked here, in the first trip. */
async function findConfiguration(ctx: Ctx, { session_id, model, cluster_model }: Input): Promise<string> {
  const wanted = cluster_model ?? model ?? 'openai'
  const query = sql<Row>`
    select ${findModel(sql`${wanted}::text`)}
    from projects p
    cross join (select false as is_lexical) m
    where ${isProject(session_id)} and ${MAY_START}`
  const [id] = requireRow(await run(ctx, query), 'project_not_found')
  if (!id) throw fail('model_required', { about: wanted })
  return id as string
}

/** The calls are those of insights, and their runs belong to a project of their own. */
function actAsInsights(ctx: Ctx, session_id: string): Ctx {
  const { organization, tenant } = ctx.requestInfo
  const actor = { kind: 'cron' as const, id: session_id, organization: organization!, tenant: tenant! }
  return { ...createKeylessCaller(ctx, actor, ctx.requestId, ctx.origin), permission: null }
}
