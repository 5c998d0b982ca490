// Schemas of threads: conversations whose traces share a `thread_id`.
import * as z from 'zod'
import { boundedText, commaSeparated, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { Time } from '../runs/list-parameters.schema.ts'
import { RunStats } from '../runs/run-stats.schema.ts'
import { filterText } from '../runs/runs.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'

export const ThreadGroupBody = z
  .object({
    session_id: Uuid,
    group_by: z.literal('conversation'),
    filter: filterText('the root of a trace'),
    start_time: TraceTime.nullish().meta({ description: 'Traces that began at this time or later.' }),
    end_time: TraceTime.nullish().meta({ description: 'Traces that began at this time or before.' }),
    offset: z.int().min(0).max(1_000_000).default(0),
    limit: z.int().min(1).max(100).default(10),
  })
  .meta({
    id: 'ThreadGroupQuery',
    example: { session_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10', group_by: 'conversation' },
  })
export type ThreadGroupBody = z.output<typeof ThreadGroupBody>

const number = () => z.number().nullable()
const preview = (of: string) =>
  z
    .string()
    .nullable()
    .meta({ description: `A preview of the ${of}.` })
const Thread = z.object({
  thread_id: z.string(),
  group_key: z.string().meta({ description: 'The `thread_id`.' }),
  filter: z.string().meta({ description: 'The filter that finds its traces.' }),
  count: z.int().meta({ description: 'How many traces it has, of those that the filter and the times find.' }),
  total_tokens: z.int(),
  total_cost: number(),
  min_start_time: Time,
  max_start_time: Time,
  latency_p50: number().meta({ description: 'Of its traces, in seconds.' }),
  latency_p99: number(),
  feedback_stats: z.record(z.string(), z.looseObject({})).nullable(),
  first_inputs: preview('inputs of its first trace'),
  last_outputs: preview('outputs of its latest trace'),
  last_error: preview('error of the latest trace that failed'),
})
export const ThreadGroups = z
  .object({ groups: z.array(Thread), total: z.int().meta({ description: 'How many threads there are.' }) })
  .meta({ id: 'ThreadGroups', description: 'Those with the latest start first.' })
export type ThreadGroups = z.output<typeof ThreadGroups>

export const ThreadGroupStats = z
  .object({ ...RunStats.shape, group_count: z.int().meta({ description: 'How many threads there are.' }) })
  .meta({ id: 'ThreadGroupStats' })
export type ThreadGroupStats = z.output<typeof ThreadGroupStats>

export const ThreadRef = z.object({ thread_id: boundedText(255) })
const FORMATS = ['all_messages', 'human_ai_pairs', 'first_human_last_ai'] as const
export const ThreadPreviewQuery = z
  .object({
    session_id: Uuid,
    select: optionalFilter(commaSeparated(z.enum(FORMATS), FORMATS.length)).meta({ description: 'By default all.' }),
    variables: optionalFilter(boundedText(1024)).meta({ description: 'Has no effect.' }),
  })
  .meta({ example: { session_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10' } })
export const ThreadPreview = z
  .object({ thread_id: z.string(), previews: z.partialRecord(z.enum(FORMATS), z.string()) })
  .meta({ id: 'ThreadPreview', description: 'What was said in the latest 100 traces of the thread, from previews.' })
export type ThreadPreview = z.output<typeof ThreadPreview>
