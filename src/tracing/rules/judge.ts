// One question to a model about one run.
import { sql } from 'drizzle-orm'
import type { Completion } from '../../connect/models/complete.ts'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fillPayloads } from '../runs/object-links.ts'
import { listVariables, parseTemplate } from '../runs/prompt-template.ts'
import { createReader, type JudgedRun, listMissing, renderForRun } from './run-variables.ts'
import type { JudgePrompt } from './tables.ts'
import { toVerdicts, type Verdict } from './verdicts.ts'

/** The project of the calls. */
const PROJECT = 'evaluators'
/** Many runs are judged at once, and a model does not read more. */
const MAX_PAYLOAD_BYTES = 2 * 1024 * 1024
/** Shorter than the lease of an evaluation. */
const TIMEOUT_MS = 60_000
const COLUMNS = ['inputs', 'outputs', 'objects', 'error', 'metadata', 'reference_example_id'] as const

/** Null if there is no such run any more. */
export async function readJudgedRun(ctx: Ctx, id: string): Promise<JudgedRun | 'too_long' | null> {
  const { runs } = await ctx.traces.query(ctx, { ids: [id], order: 'asc', limit: 1, columns: COLUMNS })
  const [found] = runs
  if (!found) return null
  await fillPayloads(ctx, runs, MAX_PAYLOAD_BYTES)
  const { name, run_type, session_id, error = null, inputs, outputs, metadata = null } = found
  // A text that is stored apart and was not read is empty.
  if (inputs === '' || outputs === '') return 'too_long'
  const members = { inputs: inputs ?? null, outputs: outputs ?? null, metadata }
  const example = found.reference_example_id
  return {
    name,
    run_type,
    session_id,
    error,
    ...members,
    reference: example ? await readReference(ctx, example) : null,
  }
}

async function readReference(ctx: Ctx, example: string): Promise<string | null> {
  const current = sql<Row>`
    select c.outputs
    from examples e
    join example_contents c on c.id = e.contents_id
    where e.tenant_id = current_tenant() and e.id = ${example}::uuid and e.until is null`
  return ((await run(ctx, current))[0]?.[0] as string | null | undefined) ?? null
}

type Question = { actor: string; idempotency_key?: string; run_id: string; metadata: Record<string, string> }
/** `verdicts` is null if the answer does not fit the schema. */
type Asked = { missing: string[] } | { verdicts: Verdict[] | null; completion: Completion }

export async function askModel(ctx: Ctx, judge: JudgePrompt, judged: JudgedRun, question: Question): Promise<Asked> {
  const { schema, template_format, variable_mapping } = judge
  const read = createReader(judged, variable_mapping)
  const templates = judge.prompt.map(([role, text]) => ({ role, parts: parseTemplate(text, template_format) }))
  const variables = templates.flatMap(({ parts }) => listVariables(parts).required)
  const missing = listMissing([...new Set(variables)], variable_mapping, read)
  if (missing.length > 0) return { missing }
  const said = templates.map(({ role, parts }) => ({ role, content: renderForRun(parts, read) }))
  const name = nameOf(schema)
  const { complete } = await import('../../connect/models/complete.ts')
  const completion = await complete(ctx, {
    configuration_id: judge.playground_settings_id,
    actor: { type: 'evaluator', id: question.actor },
    about: judged.session_id,
    ...toConversation(said),
    schema: { name, schema },
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(question.idempotency_key && { idempotency_key: question.idempotency_key }),
    trace: { project: PROJECT, name, run_id: question.run_id, metadata: question.metadata },
  })
  return { verdicts: toVerdicts(schema, completion.json), completion }
}

type Said = { role: 'system' | 'user' | 'assistant'; content: string }

/** A model needs a message to answer, so a prompt of the system alone becomes the message of the user. */
function toConversation(said: Said[]) {
  const system = said.filter(({ role }) => role === 'system').map(({ content }) => content)
  const messages = said.flatMap(({ role, content }) => (role === 'system' ? [] : [{ role, content }]))
  if (messages.length === 0) return { messages: [{ role: 'user' as const, content: system.join('\n\n') }] }
  return { messages, ...(system.length > 0 && { system: system.join('\n\n') }) }
}

/** Providers admit these characters in names. */
const nameOf = ({ title }: { title?: unknown }): string =>
  (typeof title === 'string' ? title : '').replace(/[^\w-]+/g, '_').slice(0, 64) || 'evaluator'
