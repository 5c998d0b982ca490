// Schemas of threads in the second version of the API of published clients.
import * as z from 'zod'
import { arrayOf, boundedText, CREDENTIAL, emptyAsAbsent, Uuid } from '../../protocol/wire.ts'
import { queryFilter, Time } from '../runs/list-parameters.schema.ts'
import { CursorText, filterText } from '../runs/runs.schema.ts'
import { aiMembers, pageOf, pageSizeQuery, timeMembers } from '../runs/runs-v2.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'

const PROJECT = '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'
const THREAD_CURSOR = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)~(.*)$/s
/** The latest start of a thread, and the thread. Opaque to clients. */
const ThreadCursor = boundedText(1000)
  .transform((text, check): { time: string; id: string } => {
    const [, time, id] = THREAD_CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? []
    if (TraceTime.safeParse(time).success && !id!.includes('\0') && id!.isWellFormed()) return { time: time!, id: id! }
    check.addIssue({ code: 'custom', message: 'is not a cursor of a previous answer' })
    return z.NEVER
  })
  .meta({ type: 'string' })
export const writeThreadCursor = (time: string, thread: string): string =>
  Buffer.from(`${time}~${thread}`).toString('base64url')

export const ThreadQueryV2 = z
  .object({
    ...timeMembers,
    ...aiMembers,
    project_id: Uuid,
    filter: filterText('the root of a trace'),
    trace_filter: filterText('the root of a trace, too'),
    tree_filter: filterText('any run of a trace'),
    cursor: ThreadCursor.nullish().meta({ description: '`next_cursor` of the previous answer.' }),
    page_size: z.int().min(1).max(100).default(20),
  })
  .meta({ id: 'ThreadQueryV2', example: { project_id: PROJECT } })
export type ThreadQueryV2 = z.output<typeof ThreadQueryV2>

const number = () => z.number().nullable()
const Details = z.record(z.string(), z.number())
const Stats = z.record(z.string(), z.looseObject({}))
const Thread = z.object({
  thread_id: z.string(),
  trace_id: Uuid.meta({ description: 'Its latest trace, like `last_trace_id`.' }),
  count: z.int(),
  num_errored_turns: z.int(),
  start_time: Time.meta({ description: 'Like `max_start_time`.' }),
  min_start_time: Time,
  max_start_time: Time,
  first_trace_id: Uuid,
  last_trace_id: Uuid,
  first_inputs: z.string().nullable(),
  last_outputs: z.string().nullable(),
  last_error: z.string().nullable(),
  latency_p50: number(),
  latency_p99: number(),
  total_tokens: z.int(),
  total_cost: number(),
  total_token_details: Details,
  total_cost_details: Details,
  feedback_stats: Stats.nullable(),
  query_metadata: z.null(),
})
export const ThreadPageV2 = pageOf(Thread).meta({ id: 'ThreadPageV2', description: 'Latest activity first.' })
export type ThreadPageV2 = z.output<typeof ThreadPageV2>

const THREAD_STATS = [
  'TURNS',
  'FIRST_START_TIME',
  'LAST_START_TIME',
  'LAST_END_TIME',
  'LATENCY_P50',
  'LATENCY_P99',
  'PROMPT_TOKENS',
  'PROMPT_COST',
  'COMPLETION_TOKENS',
  'COMPLETION_COST',
  'TOTAL_TOKENS',
  'TOTAL_COST',
  'PROMPT_TOKEN_DETAILS',
  'COMPLETION_TOKEN_DETAILS',
  'PROMPT_COST_DETAILS',
  'COMPLETION_COST_DETAILS',
  'FEEDBACK_STATS',
] as const
export const ThreadStatsQuery = z
  .object({ session_id: Uuid, selects: arrayOf(z.enum(THREAD_STATS), 100, 1) })
  .meta({ example: { session_id: PROJECT, selects: 'TURNS' } })
const MaybeRaw = z.object({ raw: Details }).nullable().optional()
export const ThreadStats = z
  .object({
    turns: z.int().optional(),
    ...Object.fromEntries(
      ['first_start_time', 'last_start_time', 'last_end_time'].map(name => [name, Time.nullable().optional()]),
    ),
    ...Object.fromEntries(
      [
        'latency_p50_seconds',
        'latency_p99_seconds',
        'prompt_tokens',
        'prompt_cost',
        'completion_tokens',
        'completion_cost',
        'total_tokens',
        'total_cost',
      ].map(name => [name, number().optional()]),
    ),
    prompt_token_details: MaybeRaw,
    completion_token_details: MaybeRaw,
    prompt_cost_details: MaybeRaw,
    completion_cost_details: MaybeRaw,
    feedback_stats: Stats.nullable().optional(),
  })
  .meta({ id: 'ThreadStats', description: 'The selected statistics of one thread.' })

const AGGREGATES = [
  'THREAD_COUNT',
  'TRACE_COUNT',
  'TOTAL_TOKENS',
  'TOTAL_COST',
  'ERROR_RATE',
  'STREAMING_RATE',
  'LATENCY_P50',
  'LATENCY_P99',
  'MEDIAN_TOKENS',
  'FIRST_TOKEN_P50',
  'FIRST_TOKEN_P99',
  'PROMPT_TOKENS',
  'COMPLETION_TOKENS',
  'PROMPT_COST',
  'COMPLETION_COST',
  'PROMPT_TOKEN_DETAILS',
  'COMPLETION_TOKEN_DETAILS',
  'PROMPT_COST_DETAILS',
  'COMPLETION_COST_DETAILS',
  'THREAD_FEEDBACK_STATS',
] as const
export const ThreadPlace = z.object({ project_id: Uuid }).meta({ example: { project_id: PROJECT } })
export const NewThreadShare = z
  .object({ project_id: Uuid })
  .meta({ id: 'NewThreadShare', example: { project_id: PROJECT } })
export const ThreadShare = z
  .object({ share_token: Uuid.optional().meta({ ...CREDENTIAL, description: 'Absent if the thread is not shared.' }) })
  .meta({ id: 'ThreadShare' })

export const ThreadAggregateBody = z
  .object({
    ...timeMembers,
    project_id: Uuid,
    select: arrayOf(z.enum(AGGREGATES), 100, 1),
    filter: filterText('the root of a trace'),
    trace_filter: filterText('the root of a trace, too'),
    tree_filter: filterText('any run of a trace'),
    thread_filter: z.null().optional().meta({ description: 'A filter about whole threads. This is not supported.' }),
  })
  .meta({ id: 'ThreadAggregateQuery', example: { project_id: PROJECT, select: ['THREAD_COUNT', 'TRACE_COUNT'] } })
export type ThreadAggregateBody = z.output<typeof ThreadAggregateBody>
export const ThreadAggregates = z
  .object({
    ...Object.fromEntries(
      [
        'thread_count',
        'trace_count',
        'error_rate',
        'streaming_rate',
        'latency_p50_seconds',
        'median_tokens',
        'latency_p99_seconds',
        'first_token_p50_seconds',
        'first_token_p99_seconds',
        'total_tokens',
        'prompt_tokens',
        'completion_tokens',
        'total_cost',
        'prompt_cost',
        'completion_cost',
      ].map(name => [name, number().optional()]),
    ),
    ...Object.fromEntries(
      ['prompt_token_details', 'completion_token_details', 'prompt_cost_details', 'completion_cost_details'].map(
        name => [name, Details.nullable().optional()],
      ),
    ),
    thread_feedback_stats: Stats.nullable().optional(),
  })
  .meta({ id: 'ThreadAggregates', description: 'The selected statistics over the threads of a project.' })

export const THREAD_TRACE_SELECT = [
  'THREAD_ID',
  'TRACE_ID',
  'OP',
  'PROMPT_TOKENS',
  'COMPLETION_TOKENS',
  'TOTAL_TOKENS',
  'START_TIME',
  'END_TIME',
  'LATENCY',
  'FIRST_TOKEN_TIME',
  'INPUTS_PREVIEW',
  'OUTPUTS_PREVIEW',
  'INPUTS',
  'OUTPUTS',
  'ERROR',
  'PROMPT_COST',
  'COMPLETION_COST',
  'TOTAL_COST',
  'PROMPT_TOKEN_DETAILS',
  'COMPLETION_TOKEN_DETAILS',
  'PROMPT_COST_DETAILS',
  'COMPLETION_COST_DETAILS',
  'NAME',
  'ERROR_PREVIEW',
  'TURN_NUMBER',
] as const
export const ThreadTraceQuery = z
  .object({
    project_id: Uuid,
    cursor: z.preprocess(emptyAsAbsent, CursorText.optional()),
    page_size: pageSizeQuery(20),
    filter: queryFilter(),
    trace_filter: queryFilter(),
    tree_filter: queryFilter(),
    selects: z.preprocess(emptyAsAbsent, arrayOf(z.enum(THREAD_TRACE_SELECT), 100).optional()),
  })
  .meta({ example: { project_id: PROJECT } })
const ThreadTrace = z.looseObject({ trace_id: Uuid }).meta({
  id: 'ThreadTrace',
  description: 'The selected members of a trace, in lower case, and always its `trace_id`.',
})
export const ThreadTracePage = pageOf(ThreadTrace).meta({ id: 'ThreadTracePage', description: 'The oldest first.' })
