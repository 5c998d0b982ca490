// The queries of a trace store, and its answers: runs, statistics of runs, threads.
import type { FeedbackSummary } from '../feedback/feedback-summary.ts'
import type { ResolvedFilter } from '../runs/filter/resolve.ts'
import type { DETAILS, NUMBERS, TIMES } from '../runs/run-stats.schema.ts'

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

/** Selects runs. One of the first five members is needed; the others narrow the selection. */
export type RunSelection = {
  projects?: string[] | undefined
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
  /** A filter on the root of the run's trace. */
  trace_filter?: ResolvedFilter | undefined
  /** A filter on any run of the run's trace. */
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
  /** True if the caller may read all the projects of the query. */
  hasAllProjects: boolean
}

// ---- statistics

export type Statistic =
  | (typeof NUMBERS)[number]
  | (typeof TIMES)[number]
  | (typeof DETAILS)[number]
  | 'feedback_stats'
  | 'run_facets'

/** A run that has several values, such as tags, counts for each. A run without a value is in no group. */
export type Grouping = {
  attribute: 'name' | 'run_type' | 'tag' | 'metadata' | 'project'
  /** The key in the metadata. */
  path?: string | undefined
  /** Limits the answer to these groups. */
  groups?: string[] | undefined
  /** The largest ones. */
  max_groups: number
}

/**
 * With `is_root`, tokens and costs are those of the traces, as every root shows them. Otherwise each run counts with
 * its own, so that no token counts twice.
 */
export type StatsQuery = RunSelection & { statistics: readonly Statistic[]; group_by?: Grouping | undefined }

/** A value that some runs have. `member` is the key in the metadata. */
export type Facet = {
  field: 'name' | 'run_type' | 'status' | 'tag' | 'metadata'
  member?: string
  value: string
  n: number
}

/** Null where nothing is known. Statistics that were not asked for are absent. */
export type RunTotals = { [Name in (typeof NUMBERS)[number]]?: number | null } & {
  [Name in (typeof TIMES)[number]]?: string | null
} & { [Name in (typeof DETAILS)[number]]?: Record<string, number> | null } & {
  feedback_stats?: FeedbackSummary | null
  run_facets?: Facet[]
}

export type StatsAnswer = {
  /** One without a name, or the groups, the largest first. */
  groups: { group: string | null; totals: RunTotals }[]
  hasAllProjects: boolean
}

// ---- threads

/** Threads of one project, by the roots that the selection finds: those with the latest start first. */
export type ThreadQuery = RunSelection & {
  projects: [string]
  limit: number
  offset?: number | undefined
  /** The last thread of the previous page: `time` is its latest start, `id` the thread. */
  after?: RunCursor | undefined
}

/** Texts are previews. Tokens, costs and feedback are those of all runs of its traces. */
export type StoredThread = {
  thread_id: string
  count: number
  error_count: number
  first_trace_id: string
  last_trace_id: string
  min_start_time: string
  max_start_time: string
  latency_p50: number | null
  latency_p99: number | null
  first_inputs: string | null
  last_outputs: string | null
  last_error: string | null
  total_tokens: number
  prompt_tokens: number
  completion_tokens: number
  total_cost: number | null
  prompt_cost: number | null
  completion_cost: number | null
  token_details: Record<string, number>
  cost_details: Record<string, number>
  feedback_stats: FeedbackSummary | null
}
export type ThreadPage = { threads: StoredThread[]; total: number; hasAllProjects: boolean }
