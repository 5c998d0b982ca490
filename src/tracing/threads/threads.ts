// Reads threads: conversations whose traces share a `thread_id`.
import type * as z from 'zod'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { allOf } from '../runs/client-selection.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { type ResolvedFilter, readFilters } from '../runs/filter/resolve.ts'
import { ALL_STATISTICS, showTotals } from '../runs/run-stats.ts'
import type { RunSelection, StoredRun, StoredThread } from '../store/queries.ts'
import type * as schema from './threads.schema.ts'

const isInThread = (thread: string): string => `eq(thread_id, ${JSON.stringify(thread)})`

export const inThread = (thread: string): ResolvedFilter =>
  readFilters({ filter: isInThread(thread) }, RUN_FIELDS).filter!

const toSelection = ({ session_id, filter, start_time, end_time }: schema.ThreadGroupBody) => ({
  projects: [session_id] as [string],
  is_root: true,
  filter: readFilters({ filter }, RUN_FIELDS).filter,
  start_time: start_time ?? undefined,
  end_time: end_time ?? undefined,
})

export const groupRuns = verb(
  'runs:read',
  async (ctx, body: schema.ThreadGroupBody): Promise<schema.ThreadGroups> => {
    const { limit, offset } = body
    const page = await ctx.traces.listThreads(ctx, { ...toSelection(body), limit, offset })
    if (!page.hasAllProjects) throw fail('project_not_found')
    return { groups: page.threads.map(showThread), total: page.total }
  },
  { byPolicy: true },
)

const showThread = (thread: StoredThread): schema.ThreadGroups['groups'][number] => ({
  thread_id: thread.thread_id,
  group_key: thread.thread_id,
  filter: isInThread(thread.thread_id),
  count: thread.count,
  total_tokens: thread.total_tokens,
  total_cost: thread.total_cost,
  min_start_time: thread.min_start_time,
  max_start_time: thread.max_start_time,
  latency_p50: thread.latency_p50,
  latency_p99: thread.latency_p99,
  feedback_stats: thread.feedback_stats,
  first_inputs: thread.first_inputs,
  last_outputs: thread.last_outputs,
  last_error: thread.last_error,
})

/** Roots without a thread do not count. */
export const IN_SOME_THREAD = readFilters({ filter: 'neq(thread_id, null)' }, RUN_FIELDS).filter!

export const readGroupStats = verb(
  'runs:read',
  async (ctx, body: schema.ThreadGroupBody): Promise<schema.ThreadGroupStats> => {
    const selection: RunSelection = toSelection(body)
    const filter = allOf([IN_SOME_THREAD, selection.filter])
    const statistics = [...ALL_STATISTICS, 'thread_count' as const]
    const answer = await ctx.traces.stats(ctx, { ...selection, filter, statistics })
    if (!answer.hasAllProjects) throw fail('project_not_found')
    const { group_count = 0, ...totals } = showTotals(answer.groups[0]!.totals)
    return { ...totals, group_count }
  },
  { byPolicy: true },
)

const MAX_TRACES = 100

export const readThreadPreview = verb(
  'runs:read',
  async (
    ctx,
    input: z.output<typeof schema.ThreadRef> & z.output<typeof schema.ThreadPreviewQuery>,
  ): Promise<schema.ThreadPreview> => {
    const { thread_id, session_id, select } = input
    const page = await ctx.traces.query(ctx, {
      projects: [session_id],
      is_root: true,
      filter: inThread(thread_id),
      order: 'desc',
      limit: MAX_TRACES,
      columns: ['inputs_preview', 'outputs_preview'],
    })
    if (!page.hasAllProjects) throw fail('project_not_found')
    requireRow(page.runs, 'thread_not_found')
    const previews = previewsOf(page.runs.reverse())
    const wanted = select ?? (Object.keys(previews) as (keyof typeof previews)[])
    return { thread_id, previews: Object.fromEntries(wanted.map(format => [format, previews[format]])) }
  },
  { byPolicy: true },
)

function previewsOf(traces: StoredRun[]) {
  const turns = traces.map(({ inputs_preview, outputs_preview }) => ({
    human: inputs_preview ? `human: ${inputs_preview}` : '',
    ai: outputs_preview ? `ai: ${outputs_preview}` : '',
  }))
  const join = (texts: string[]) => texts.filter(Boolean).join('\n\n')
  return {
    all_messages: join(turns.flatMap(({ human, ai }) => [human, ai])),
    human_ai_pairs: join(turns.filter(({ human, ai }) => human && ai).flatMap(({ human, ai }) => [human, ai])),
    first_human_last_ai: join([turns[0]!.human, turns.at(-1)!.ai]),
  }
}
