// Reads threads for the second version of the API.
import type * as z from 'zod'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { allOf } from '../runs/client-selection.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { columnsOfV2, latencyOf } from '../runs/run-wire-v2.ts'
import type { RunV2, SelectV2 } from '../runs/runs-v2.schema.ts'
import { dayAgo, readPage, showRunsV2, toPage } from '../runs/runs-v2.ts'
import type { RunSelection, RunTotals, Statistic, StoredRun, StoredThread } from '../store/queries.ts'
import { IN_SOME_THREAD, inThread } from './threads.ts'
import type * as schema from './threads-v2.schema.ts'
import { writeThreadCursor } from './threads-v2.schema.ts'

type Filters = Pick<schema.ThreadQueryV2, 'filter' | 'trace_filter' | 'tree_filter'>

function readSelection(ctx: Ctx, body: (Filters & schema.ThreadAggregateBody) | schema.ThreadQueryV2) {
  const texts = { filter: body.filter, trace_filter: body.trace_filter, tree_filter: body.tree_filter }
  const { filter, trace_filter, tree_filter } = readFilters(texts, RUN_FIELDS)
  return {
    projects: [body.project_id] as [string],
    is_root: true,
    filter: allOf([filter, trace_filter]),
    tree_filter,
    start_time: body.min_start_time ?? dayAgo(ctx),
    end_time: body.max_start_time ?? undefined,
  }
}

export const queryThreads = verb(
  'runs:read',
  async (ctx, body: schema.ThreadQueryV2): Promise<schema.ThreadPageV2> => {
    const { page_size, cursor } = body
    const request = { ...readSelection(ctx, body), limit: page_size + 1, after: cursor ?? undefined }
    const page = await ctx.traces.listThreads(ctx, request)
    if (!page.hasAllProjects) throw fail('project_not_found')
    const threads = page.threads.slice(0, page_size)
    const last = page.threads.length > page_size ? threads.at(-1)! : null
    return {
      items: threads.map(showThread),
      next_cursor: last && writeThreadCursor(last.max_start_time, last.thread_id),
      has_more: last !== null,
    }
  },
  { byPolicy: true },
)

const showThread = (thread: StoredThread): schema.ThreadPageV2['items'][number] => ({
  thread_id: thread.thread_id,
  trace_id: thread.last_trace_id,
  count: thread.count,
  num_errored_turns: thread.error_count,
  start_time: thread.max_start_time,
  min_start_time: thread.min_start_time,
  max_start_time: thread.max_start_time,
  first_trace_id: thread.first_trace_id,
  last_trace_id: thread.last_trace_id,
  first_inputs: thread.first_inputs,
  last_outputs: thread.last_outputs,
  last_error: thread.last_error,
  latency_p50: thread.latency_p50,
  latency_p99: thread.latency_p99,
  total_tokens: thread.total_tokens,
  total_cost: thread.total_cost,
  total_token_details: thread.token_details,
  total_cost_details: thread.cost_details,
  feedback_stats: thread.feedback_stats,
  query_metadata: null,
})

// ---- statistics

/** The statistic behind a name on the wire, and the member that shows it, where it is not the name in lower case. */
const STATISTICS: Record<string, [Statistic, string?]> = {
  TURNS: ['run_count', 'turns'],
  TRACE_COUNT: ['run_count', 'trace_count'],
  THREAD_COUNT: ['thread_count'],
  FIRST_START_TIME: ['first_run_start_time', 'first_start_time'],
  LAST_START_TIME: ['last_run_start_time', 'last_start_time'],
  LAST_END_TIME: ['last_run_end_time', 'last_end_time'],
  LATENCY_P50: ['latency_p50', 'latency_p50_seconds'],
  LATENCY_P99: ['latency_p99', 'latency_p99_seconds'],
  FIRST_TOKEN_P50: ['first_token_p50', 'first_token_p50_seconds'],
  FIRST_TOKEN_P99: ['first_token_p99', 'first_token_p99_seconds'],
  THREAD_FEEDBACK_STATS: ['feedback_stats', 'thread_feedback_stats'],
}
const statisticOf = (name: string): Statistic => STATISTICS[name]?.[0] ?? (name.toLowerCase() as Statistic)
const showTotals = (totals: RunTotals, select: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(
    select.map(name => [STATISTICS[name]?.[1] ?? name.toLowerCase(), totals[statisticOf(name)] ?? null]),
  )

async function readTotals(ctx: Ctx, selection: RunSelection, select: readonly string[]): Promise<RunTotals> {
  const statistics = [...new Set<Statistic>(['run_count', ...select.map(statisticOf)])]
  const answer = await ctx.traces.stats(ctx, { ...selection, statistics })
  if (!answer.hasAllProjects) throw fail('project_not_found')
  return answer.groups[0]!.totals
}

export const readThreadStats = verb(
  'runs:read',
  async (ctx, input: ThreadParams & z.output<typeof schema.ThreadStatsQuery>) => {
    const { thread_id, session_id, selects } = input
    const selection = { projects: [session_id], is_root: true, filter: inThread(thread_id) }
    const totals = await readTotals(ctx, selection, selects)
    if (totals.run_count === 0) throw fail('thread_not_found')
    const shown = Object.entries(showTotals(totals, selects))
    return Object.fromEntries(
      shown.map(([name, value]) => [name, name.endsWith('_details') && value ? { raw: value } : value]),
    )
  },
  { byPolicy: true },
)

export const readThreadAggregates = verb(
  'runs:read',
  async (ctx, body: schema.ThreadAggregateBody) => {
    const selection = readSelection(ctx, body)
    const filter = allOf([IN_SOME_THREAD, selection.filter])
    return showTotals(await readTotals(ctx, { ...selection, filter }, body.select), body.select)
  },
  { byPolicy: true },
)

// ---- traces

type ThreadParams = { thread_id: string }
type TraceSelect = (typeof schema.THREAD_TRACE_SELECT)[number]
const OWN: TraceSelect[] = ['OP', 'LATENCY', 'TURN_NUMBER', 'TRACE_ID']
const isOfRuns = (name: TraceSelect): name is Exclude<TraceSelect, 'OP' | 'LATENCY' | 'TURN_NUMBER'> =>
  !OWN.includes(name)
const MAX_TURNS = 1000

export const listThreadTraces = verb(
  'runs:read',
  async (ctx, input: ThreadParams & z.output<typeof schema.ThreadTraceQuery>) => {
    const { thread_id, project_id, cursor, page_size, selects = [] } = input
    const texts = { filter: input.filter, trace_filter: input.trace_filter, tree_filter: input.tree_filter }
    const { filter, trace_filter, tree_filter } = readFilters(texts, RUN_FIELDS, 'query')
    const wanted: SelectV2[] = selects.filter(isOfRuns)
    const page = await readPage(ctx, {
      projects: [project_id],
      is_root: true,
      order: 'asc',
      filter: allOf([inThread(thread_id), filter, trace_filter]),
      tree_filter,
      limit: page_size,
      cursor,
      columns: [...new Set([...columnsOfV2(wanted), 'end_time' as const])],
    })
    const turns = selects.includes('TURN_NUMBER') ? await listTurns(ctx, project_id, thread_id) : []
    const shown = await showRunsV2(ctx, page.runs, wanted)
    return toPage(
      shown.map((run, i) => showTrace(run, page.runs[i]!, selects, turns)),
      page,
    )
  },
  { byPolicy: true },
)

async function listTurns(ctx: Ctx, project: string, thread: string): Promise<string[]> {
  const selection = { projects: [project], is_root: true, filter: inThread(thread) }
  const { runs } = await readPage(ctx, { ...selection, order: 'asc', limit: MAX_TURNS, columns: [] })
  return runs.map(({ id }) => id)
}

const showTrace = (run: RunV2, stored: StoredRun, selects: readonly TraceSelect[], turns: string[]) => ({
  ...run,
  trace_id: stored.id,
  ...(selects.includes('OP') && { op: null }),
  ...(selects.includes('LATENCY') && { latency: latencyOf(stored.start_time, stored.end_time) }),
  ...(selects.includes('TURN_NUMBER') && { turn_number: turns.indexOf(stored.id) + 1 || null }),
})
