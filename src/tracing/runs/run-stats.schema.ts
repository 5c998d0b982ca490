// Schemas of statistics of runs.
import * as z from 'zod'
import { hasAnyOf } from '../../protocol/conditions.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { PLACES, RunSelectionBody } from './runs.schema.ts'

/** Latencies are in seconds. */
export const NUMBERS = [
  'run_count',
  'thread_count',
  'latency_avg',
  'latency_p50',
  'latency_p99',
  'first_token_p50',
  'first_token_p99',
  'error_rate',
  'streaming_rate',
  'total_tokens',
  'prompt_tokens',
  'completion_tokens',
  'median_tokens',
  'tokens_p99',
  'prompt_tokens_p50',
  'prompt_tokens_p99',
  'completion_tokens_p50',
  'completion_tokens_p99',
  'total_cost',
  'prompt_cost',
  'completion_cost',
  'cost_p50',
  'cost_p99',
] as const
export const TIMES = ['first_run_start_time', 'last_run_start_time', 'last_run_end_time'] as const
/** Sums by category. */
export const DETAILS = [
  'prompt_token_details',
  'completion_token_details',
  'prompt_cost_details',
  'completion_cost_details',
] as const

const UNKNOWN = ['session_feedback_stats', 'thread_feedback_stats'] as const
const SHOWN_NUMBERS = NUMBERS.filter(name => name !== 'thread_count')
const SHOWN = [...SHOWN_NUMBERS, 'last_run_start_time', ...DETAILS, 'feedback_stats', 'run_facets', ...UNKNOWN] as const
const SELECT = [...SHOWN, 'all_run_stats', 'all_token_stats', 'group_count'] as const
export type SelectedStatistic = (typeof SELECT)[number]

const MAX_GROUPS = 100
export const GroupBy = z.object({
  attribute: z.enum(['name', 'run_type', 'tag', 'metadata']),
  path: boundedText(256).nullish().meta({ description: 'The key, of `metadata`.' }),
  max_groups: z.int().min(1).max(MAX_GROUPS).default(5).meta({ description: 'The largest groups.' }),
})
const isComplete = ({ attribute, path }: z.output<typeof GroupBy>) => attribute !== 'metadata' || Boolean(path)

export const RunStatsBody = z
  .object({
    ...RunSelectionBody.shape,
    select: arrayOf(z.enum(SELECT), 100).nullish().meta({ description: 'By default all.' }),
    group_by: GroupBy.refine(isComplete, { path: ['path'], error: 'is required for `metadata`' }).nullish(),
    groups: arrayOf(boundedText(1024).nullable(), MAX_GROUPS).nullish().meta({ description: 'Only these groups.' }),
    include_details: z.boolean().nullish().meta({ description: 'Has no effect: `select` names details.' }),
  })
  .meta({
    id: 'RunStatsQuery',
    description: 'At least one of `id`, `session`, `trace`, `parent_run` and `reference_example`.',
    ...hasAnyOf(...PLACES),
    example: {
      id: ['0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'],
      select: ['run_count', 'latency_p50', 'error_rate'],
      group_by: { attribute: 'run_type' },
    },
  })
export type RunStatsBody = z.output<typeof RunStatsBody>

const each = <Name extends string, Value extends z.ZodType>(names: readonly Name[], value: Value) =>
  Object.fromEntries(names.map(name => [name, value])) as Record<Name, Value>
const Summary = z.record(z.string(), z.looseObject({})).nullable().optional()
const Facets = z
  .array(z.object({ key: z.string(), value: z.string(), query: z.string(), n: z.int() }))
  .meta({ description: 'Values that the latest 10,000 of these runs have most often, each with its filter.' })

export const RunStats = z
  .strictObject({
    ...each(SHOWN_NUMBERS, z.number().nullable().optional()),
    last_run_start_time: z.string().nullable().optional().meta({ format: 'date-time' }),
    ...each(DETAILS, z.record(z.string(), z.number()).nullable().optional()),
    feedback_stats: Summary,
    session_feedback_stats: z.null().optional(),
    thread_feedback_stats: z.null().optional(),
    run_facets: Facets.optional(),
    group_count: z.int().optional().meta({ description: 'How many threads there are.' }),
  })
  .meta({
    id: 'RunStats',
    description:
      'Latencies are in seconds. With `is_root`, tokens and costs are those of the traces; otherwise each run counts ' +
      'with its own.',
  })
export type RunStats = z.output<typeof RunStats>
export const RunStatsReply = z
  .union([RunStats, z.record(z.string(), RunStats)])
  .meta({ id: 'RunStatsReply', description: 'With `group_by`: by group, the largest first.' })
export type RunStatsReply = z.output<typeof RunStatsReply>
