// Statistics of runs, as published clients read them.
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Facet, RunTotals, Statistic, StatsQuery } from '../store/queries.ts'
import { toSelection } from './client-selection.ts'
import type * as schema from './run-stats.schema.ts'
import { DETAILS, NUMBERS } from './run-stats.schema.ts'

const isOfTokens = (name: Statistic): boolean => /token|cost/.test(name) && !name.startsWith('first_token')
export const ALL_STATISTICS: Statistic[] = [
  ...NUMBERS.filter(name => name !== 'thread_count'),
  'last_run_start_time',
  ...DETAILS,
  'feedback_stats',
  'run_facets',
]

function readSelect(select: readonly schema.SelectedStatistic[]): Statistic[] {
  const names = select.flatMap((name): Statistic[] => {
    if (name === 'all_run_stats') return ALL_STATISTICS.filter(one => !isOfTokens(one))
    if (name === 'all_token_stats') return ALL_STATISTICS.filter(isOfTokens)
    if (name === 'group_count') return ['thread_count']
    return name === 'session_feedback_stats' || name === 'thread_feedback_stats' ? [] : [name]
  })
  return [...new Set(names)]
}

const text = JSON.stringify
/** The filter that finds the runs with the value. */
function toQuery({ field, member, value }: Facet): string {
  if (field === 'tag') return `has(tags, ${text(value)})`
  if (field !== 'metadata') return `eq(${field}, ${text(value)})`
  return `and(eq(metadata_key, ${text(member)}), eq(metadata_value, ${text(value)}))`
}

export const showFacets = (facets: Facet[]): NonNullable<schema.RunStats['run_facets']> =>
  facets.map(facet => ({
    key: facet.member === undefined ? facet.field : `${facet.field}.${facet.member}`,
    value: facet.value,
    query: toQuery(facet),
    n: facet.n,
  }))

export function showTotals({ run_facets, thread_count, ...totals }: RunTotals): schema.RunStats {
  return {
    ...totals,
    ...(run_facets && { run_facets: showFacets(run_facets) }),
    ...(thread_count != null && { group_count: thread_count }),
  }
}

export const readRunStats = verb(
  'runs:read',
  async (ctx, body: schema.RunStatsBody): Promise<schema.RunStatsReply> => {
    const { group_by, groups, select } = body
    const answer = await ctx.traces.stats(ctx, {
      ...toSelection(body),
      statistics: select ? readSelect(select) : ALL_STATISTICS,
      ...(group_by && { group_by: toGrouping(group_by, groups) }),
    })
    if (!answer.hasAllProjects) throw fail('project_not_found')
    if (!group_by) return showTotals(answer.groups[0]!.totals)
    return Object.fromEntries(answer.groups.map(({ group, totals }) => [group!, showTotals(totals)]))
  },
  { byPolicy: true },
)

const toGrouping = (
  { path, ...group }: NonNullable<schema.RunStatsBody['group_by']>,
  groups: schema.RunStatsBody['groups'],
): NonNullable<StatsQuery['group_by']> => ({
  ...group,
  ...(path && { path }),
  ...(groups && { groups: groups.filter(name => name !== null) }),
})
