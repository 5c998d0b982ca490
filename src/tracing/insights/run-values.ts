// Values of runs for prompts and statistics: those of a template's variables, and facts that are counted.
import type { Ctx } from '../../kernel/http/context.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { fillPayloads } from '../runs/object-links.ts'
import type { StoredRun } from '../store/queries.ts'
import type { ClaimedJob } from './claimed-job.ts'
import type { RunFacts } from './cluster-stats.ts'
import { type TemplateValues, usesThread } from './summary-template.ts'

const PAYLOAD_BYTES = 16 * 1024 * 1024
const MAX_THREAD_RUNS = 500

type Message = Record<string, unknown>
export type RunValues = { values: TemplateValues; facts: RunFacts }

const COLUMNS = [
  'inputs',
  'outputs',
  'objects',
  'error',
  'end_time',
  'thread_id',
  'feedback_stats',
  'total_tokens',
  'total_cost',
] as const

/** Returns values by the ids of the runs. Runs that were deleted meanwhile are missing. */
export async function readRunValues(
  ctx: Ctx,
  { session_id }: Pick<ClaimedJob, 'session_id'>,
  ids: string[],
  template: string,
): Promise<Map<string, RunValues>> {
  const { runs } = await ctx.traces.query(ctx, { ids, order: 'desc', limit: ids.length, columns: COLUMNS })
  await fillPayloads(ctx, runs, PAYLOAD_BYTES)
  const threads = usesThread(template) ? await readThreads(ctx, session_id, runs) : new Map<string, Message[]>()
  return new Map(runs.map(run => [run.id, { values: readValues(run, threads), facts: readFacts(run) }]))
}

const readValues = (run: StoredRun, threads: Map<string, Message[]>): TemplateValues => ({
  run: {
    inputs: parse(run.inputs),
    outputs: parse(run.outputs),
    error: run.error ?? null,
    feedback: showFeedback(run),
  },
  all_thread_messages: threads.get(run.thread_id ?? '') ?? messagesOf(run),
})

type FeedbackStats = Record<string, { n: number; avg: number | null; values?: unknown }>
const readFeedback = ({ feedback_stats }: StoredRun): [string, FeedbackStats[string]][] =>
  Object.entries((parse(feedback_stats) as FeedbackStats | undefined) ?? {})

/** Shows the average score of each key, or else its values. */
const showFeedback = (run: StoredRun): Record<string, unknown> =>
  Object.fromEntries(readFeedback(run).map(([key, { avg, values }]) => [key, avg ?? values ?? null]))

/** Seconds. The clocks of two machines may say that a run ended before it began. */
const latencyOf = ({ start_time, end_time }: StoredRun): number | null =>
  start_time && end_time ? Math.max(0, (Date.parse(end_time) - Date.parse(start_time)) / 1000) : null

const readFacts = (run: StoredRun): RunFacts => ({
  latency: latencyOf(run),
  has_error: run.status === 'error',
  tokens: Number(run.total_tokens ?? 0),
  cost: Number(run.total_cost ?? 0),
  feedback: Object.fromEntries(readFeedback(run).map(([key, { n, avg }]) => [key, { n, avg }])),
})

/** The messages of whole conversations by their threads. */
async function readThreads(ctx: Ctx, session_id: string, runs: StoredRun[]): Promise<Map<string, Message[]>> {
  const threads = [...new Set(runs.flatMap(({ thread_id }) => thread_id ?? []))]
  if (threads.length === 0) return new Map()
  const isOneOf = threads.map(thread => `eq(thread_id, ${JSON.stringify(thread)})`)
  const filter = isOneOf.length === 1 ? isOneOf[0] : `or(${isOneOf.join(', ')})`
  const page = await ctx.traces.query(ctx, {
    projects: [session_id],
    is_root: true,
    filter: readFilters({ filter }, RUN_FIELDS).filter,
    order: 'asc',
    limit: MAX_THREAD_RUNS,
    columns: ['inputs', 'outputs', 'objects', 'thread_id'],
  })
  await fillPayloads(ctx, page.runs, PAYLOAD_BYTES)
  const messages = new Map<string, Message[]>()
  for (const run of page.runs) {
    const thread = run.thread_id!
    messages.set(thread, joinMessages(messages.get(thread) ?? [], messagesOf(run)))
  }
  return messages
}

/** Applications often send the conversation so far with each message. */
function joinMessages(earlier: Message[], later: Message[]): Message[] {
  const repeats = earlier.every((message, i) => JSON.stringify(message) === JSON.stringify(later[i]))
  return repeats ? later : [...earlier, ...later]
}

function messagesOf({ inputs, outputs }: StoredRun): Message[] {
  const read = (json: string | null | undefined, role: string): Message[] => {
    const value = parse(json)
    const messages = isObject(value) && Array.isArray(value.messages) ? value.messages.flat() : undefined
    return messages ?? (value === undefined ? [] : [{ role, content: value }])
  }
  return joinMessages(read(inputs, 'user'), read(outputs, 'assistant'))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined for an absent text, and for one that is stored apart and could not be read. */
const parse = (json: string | null | undefined): unknown => (json ? JSON.parse(json) : undefined)
