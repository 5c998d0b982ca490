// Statistics of projects that counts by the minute do not have: facets, and those of roots that a filter finds.
import type { Ctx } from '../../kernel/http/context.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { showFacets } from '../runs/run-stats.ts'
import type { RunTotals, Statistic, StatsQuery } from '../store/queries.ts'
import type { ProjectStats } from './project-stats.ts'
import * as schema from './projects.schema.ts'

type StatsRequest = Pick<
  schema.ProjectQuery,
  'stats_filter' | 'stats_select' | 'stats_start_time' | 'facets' | 'include_stats'
>
export type RunStatsRequest = Omit<StatsQuery, 'sessions' | 'group_by'>

const isOfRuns = (name: (typeof schema.STATISTICS)[number]): name is Exclude<typeof name, 'session_feedback_stats'> =>
  name !== 'session_feedback_stats'

/** Undefined if the counts by the minute suffice. */
export function readRunStatsRequest(query: StatsRequest): RunStatsRequest | undefined {
  const { stats_filter, facets, include_stats, stats_select, stats_start_time: start_time } = query
  const { filter } = readFilters({ filter: stats_filter }, RUN_FIELDS, 'query')
  const selected = schema.STATISTICS.filter(name => stats_select === undefined || stats_select.includes(name))
  const statistics: Statistic[] = [
    ...(filter && include_stats ? selected.filter(isOfRuns) : []),
    ...(facets ? ['run_facets' as const] : []),
  ]
  return statistics.length > 0 ? { statistics, is_root: true, filter, start_time } : undefined
}

/** Returns statistics by project. */
export async function addUpRuns(
  ctx: Ctx,
  projects: string[],
  request: RunStatsRequest,
): Promise<Map<string, ProjectStats>> {
  if (projects.length === 0) return new Map()
  const group_by = { attribute: 'project', max_groups: projects.length } as const
  const { groups } = await ctx.traces.stats(ctx, { ...request, projects, group_by })
  const totals = new Map(groups.map(one => [one.group, one.totals]))
  return new Map(projects.map(id => [id, toStats(request.statistics, totals.get(id) ?? {})]))
}

const isSum = (name: string): boolean => /^(run_count|(total|prompt|completion)_(tokens|cost))$/.test(name)

const toStats = (statistics: readonly Statistic[], totals: RunTotals): ProjectStats =>
  Object.fromEntries(
    statistics.map(name => [
      name,
      name === 'run_facets' ? showFacets(totals.run_facets ?? []) : (totals[name] ?? (isSum(name) ? 0 : null)),
    ]),
  )
