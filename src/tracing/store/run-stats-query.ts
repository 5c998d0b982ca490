// What is asked of a store that adds up runs, and what it answers.
import type { FeedbackSummary } from '../feedback/feedback-summary.ts'
import type { DETAILS, NUMBERS, TIMES } from '../runs/run-stats.schema.ts'
import type { RunCursor, RunSelection } from './run-query.ts'

export type Statistic =
  | (typeof NUMBERS)[number]
  | (typeof TIMES)[number]
  | (typeof DETAILS)[number]
  | 'feedback_stats'
  | 'run_facets'

/** Of runs that have several values, such as tags, each counts. A run without a value is in no group. */
export type Grouping = {
  attribute: 'name' | 'run_type' | 'tag' | 'metadata' | 'session'
  /** The key in the metadata. */
  path?: string | undefined
  /** Only these groups. */
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
  hasAllSessions: boolean
}

// ---- threads

/** Threads of one project, by the roots that the selection finds: those with the latest start first. */
export type ThreadQuery = RunSelection & {
  sessions: [string]
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
export type ThreadPage = { threads: StoredThread[]; total: number; hasAllSessions: boolean }
