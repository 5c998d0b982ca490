// What is asked of the runs in a store, and what it answers.
import type { ResolvedFilter } from '../runs/filter/resolve.ts'

/** Columns that every answer has. */
export const PLACE_COLUMNS = [
  'id',
  'trace_id',
  'parent_run_id',
  'session_id',
  'dotted_order',
  'order_time',
  'trace_time',
  'trace_tier',
  'name',
  'run_type',
  'status',
  'start_time',
] as const

export const TOTALS = [
  'total_tokens',
  'prompt_tokens',
  'completion_tokens',
  'total_cost',
  'prompt_cost',
  'completion_cost',
] as const

/** JSON: tags, metadata, payloads, objects, usage_details, feedback_stats and the ids of children. */
const DETAIL_COLUMNS = [
  ...TOTALS,
  'end_time',
  'first_token_time',
  'received_at',
  'error',
  'tags',
  'metadata',
  'thread_id',
  'reference_example_id',
  'reference_dataset_id',
  'extra',
  'serialized',
  'inputs',
  'outputs',
  'events',
  'inputs_preview',
  'outputs_preview',
  'objects',
  'usage_details',
  'feedback_stats',
  'child_run_ids',
  'direct_child_run_ids',
  'trace_min_start_time',
  'trace_max_start_time',
  'is_upgraded',
  'longlived_ttl_days',
  'share_token',
  'in_dataset',
  'last_queued_at',
] as const
export type DetailColumn = (typeof DETAIL_COLUMNS)[number]

type Texts<Name extends string> = { [N in Name]: string }
/** All columns as texts. Times are ISO 8601 in UTC with microseconds. */
export type StoredRun = Texts<Exclude<(typeof PLACE_COLUMNS)[number], 'parent_run_id' | 'start_time'>> & {
  parent_run_id: string | null
  start_time: string | null
} & { [N in DetailColumn]?: string | null }

/** A place in the order of runs. Backwards, the page ends before it. */
export type RunCursor = { time: string; id: string; backwards?: boolean }

/** Which runs. One of the first five is needed; the others narrow it. */
export type RunSelection = {
  sessions?: string[] | undefined
  ids?: string[] | undefined
  trace?: string | undefined
  parent_run?: string | undefined
  reference_examples?: string[] | undefined
  run_type?: string | undefined
  has_error?: boolean | undefined
  is_root?: boolean | undefined
  /** Bounds of the start, which are included. */
  start_time?: string | undefined
  end_time?: string | undefined
  filter?: ResolvedFilter | undefined
  /** About the root of the run's trace. */
  trace_filter?: ResolvedFilter | undefined
  /** About any run of the run's trace. */
  tree_filter?: ResolvedFilter | undefined
}

export type RunQuery = RunSelection & {
  order: 'asc' | 'desc'
  limit: number
  cursor?: RunCursor | undefined
  columns: readonly DetailColumn[]
}

/** A page may have fewer runs than the limit, or none, and yet a next page: it reads a bounded number of runs. */
export type RunPage = {
  runs: StoredRun[]
  next: RunCursor | null
  previous: RunCursor | null
  /** Whether the caller may read all the projects of the query. */
  hasAllSessions: boolean
}
