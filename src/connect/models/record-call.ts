// Records a call of a model: its tokens and costs in usage and budgets, and a run where calls are traced.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { placeRoot } from '../../tracing/ingest/dotted-order.ts'
import type { RunOperation } from '../../tracing/store/store.ts'
import type { ReadAnswer, Tokens } from './answer-reader.ts'
import { maskSecrets } from './masked-answers.ts'
import type { OpenedCall } from './open-call.ts'

export type EndedCall = {
  /** Milliseconds, as `Date.now()` returns them. */
  started: number
  /** The path below the base URL. */
  operation: string
  /** The answer's, or null if there was none. */
  status: number | null
  /** Null: it succeeded. */
  error: string | null
  /** It did not come to its end. */
  isCut: boolean
  asked: { model: string; inputs: unknown; bytes: number }
  answer: ReadAnswer | null
  /** Must not be stored. */
  secrets: string[]
  trace?: { project: string; name: string; run_id?: string; metadata?: Record<string, string> } | undefined
}

export type CallUsage = { input_tokens: number; output_tokens: number; cost: number | null; estimated: boolean }

const BYTES_PER_TOKEN = 4
const estimateTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Tokens are estimated if the server sends no figures, or figures of a part of the answer only. */
function measureUsage({ configuration }: OpenedCall, ended: EndedCall): CallUsage & { tokens: Tokens } {
  const { answer, asked, isCut } = ended
  const said = answer?.tokens ?? null
  // A call that was cut before its answer began is at work, or was.
  const isRefused = ended.status === null ? !isCut : ended.status >= 400
  const estimated = !isRefused && (said === null || isCut) && asked.bytes > 0
  const tokens: Tokens = { input_tokens: 0, output_tokens: 0, ...said }
  if (estimated) {
    tokens.input_tokens ||= estimateTokens(asked.bytes)
    tokens.output_tokens = Math.max(tokens.output_tokens, estimateTokens(answer?.length ?? 0))
  }
  const { input_price, output_price } = configuration
  const cost =
    input_price === null && output_price === null
      ? null
      : (tokens.input_tokens * (input_price ?? 0) + tokens.output_tokens * (output_price ?? 0)) / 1_000_000
  return { tokens, input_tokens: tokens.input_tokens, output_tokens: tokens.output_tokens, cost, estimated }
}

/** Returns the id of the run, if there is one. Failures are logged: the caller has its answer. */
export async function recordCall(
  ctx: Ctx,
  call: OpenedCall,
  ended: EndedCall,
): Promise<CallUsage & { run_id: string | null }> {
  const { tokens, ...usage } = measureUsage(call, ended)
  const [, run_id] = await Promise.all([
    countUsage(ctx, call, ended, usage).catch(error => logFailure(ctx, 'a call of a model was not counted', error)),
    traceCall(ctx, call, ended, usage, tokens).catch(error =>
      logFailure(ctx, 'a call of a model was not traced', error),
    ),
  ])
  return { ...usage, run_id: run_id ?? null }
}

function logFailure({ platform, requestId }: Ctx, error: string, cause: unknown): undefined {
  const { message } = ((cause as Error).cause ?? cause) as Error
  platform.log({ level: 'error', request_id: requestId, error, message })
  return undefined
}

const countUsage = (
  { platform, database }: Ctx,
  { configuration, workspace, deployment, actor }: OpenedCall,
  { error }: EndedCall,
  { input_tokens, output_tokens, cost }: CallUsage,
) =>
  runAsSystem(
    database,
    setClock(platform),
    sql`
      select record_model_call(
        ${workspace.id}::uuid,
        ${configuration.id}::uuid,
        ${deployment?.id ?? null}::uuid,
        ${actor.type},
        ${error !== null},
        ${input_tokens},
        ${output_tokens},
        ${cost}::double precision
      )`,
  )

// ---- the run

async function traceCall(
  ctx: Ctx,
  call: OpenedCall,
  ended: EndedCall,
  usage: CallUsage,
  tokens: Tokens,
): Promise<string | null> {
  const { configuration, organization, workspace, deployment } = call
  const project = ended.trace?.project ?? configuration.trace_project
  if (project === null) return null
  // The credential of the call may have expired, and need not be one that sends runs.
  const actor = { kind: 'cron' as const, id: null, organization: organization.id, tenant: workspace.id }
  const tracing: Ctx = { ...createKeylessCaller(ctx, actor, ctx.requestId, ctx.origin), permission: null }
  const operation = buildRun(ctx, call, ended, usage, tokens)
  const place = deployment ? { session_id: deployment.project_id } : { session_name: project }
  await ctx.traces.append(tracing, [{ ...operation, ...place }])
  return operation.id
}

/** A run in a project of its own would show them to callers from whom the access policies hide them. */
const OMITTED = { omitted: 'It is about runs of a project with tags.' }

function buildRun(
  { requestId, platform }: Ctx,
  { configuration, actor, deployment, hides_contents }: OpenedCall,
  { started, operation, status, error, asked, answer, secrets, trace }: EndedCall,
  { cost, estimated }: CallUsage,
  tokens: Tokens,
): RunOperation {
  const toTime = (ms: number) => new Date(ms + platform.clock.ahead()).toISOString()
  const id = trace?.run_id ?? crypto.randomUUID()
  const { trace_id, dotted_order } = placeRoot(id, toTime(started))
  const costs = cost === null ? {} : costsOf(configuration, tokens, cost)
  const total_tokens = tokens.input_tokens + tokens.output_tokens
  const metadata = {
    ...trace?.metadata,
    ls_provider: configuration.provider,
    ls_model_name: answer?.model ?? asked.model,
    model_configuration_id: configuration.id,
    model_configuration: configuration.name,
    operation,
    status,
    actor_type: actor.type,
    request_id: requestId,
    ...(deployment && { deployment_id: deployment.id }),
    ...(estimated && { usage_estimated: true }),
  }
  const toText = (value: unknown) => maskSecrets(writeJson(value), secrets)
  const [inputs, outputs] = hides_contents ? [OMITTED, OMITTED] : [asked.inputs, answer?.outputs]
  return {
    kind: 'post',
    id,
    trace_id,
    dotted_order,
    loc: ['body'],
    name: trace?.name ?? configuration.name,
    run_type: 'llm',
    start_time: toTime(started),
    end_time: toTime(Date.now()),
    error: error === null ? undefined : hides_contents ? OMITTED.omitted : maskSecrets(error, secrets),
    extra: toText({ metadata }),
    inputs: toText(inputs ?? {}),
    outputs: toText({ ...outputs, usage_metadata: { ...tokens, total_tokens, ...costs } }),
  }
}

/** JSON that is nested too deeply to be written again must not hide the call. */
function writeJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return JSON.stringify({ omitted: 'It is nested too deeply.' })
  }
}

const costsOf = ({ input_price, output_price }: OpenedCall['configuration'], tokens: Tokens, total_cost: number) => ({
  input_cost: (tokens.input_tokens * (input_price ?? 0)) / 1_000_000,
  output_cost: (tokens.output_tokens * (output_price ?? 0)) / 1_000_000,
  total_cost,
})
