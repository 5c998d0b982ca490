// The filter of projects: the filter language over their members and statistics, as SQL.
import { type SQL, sql } from 'drizzle-orm'
import type { Fields } from '../runs/filter/fields.ts'
import { type ResolvedCondition, type ResolvedFilter, readFilters } from '../runs/filter/resolve.ts'
import { containsAny, matchesPattern } from '../store/postgres/text-matches.ts'
import { type Counts, selectStatistic } from './project-stats.ts'

const STATISTICS = [
  'run_count',
  'error_rate',
  'streaming_rate',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'prompt_cost',
  'completion_cost',
  'total_cost',
] as const
const LATENCIES = ['latency_p50', 'latency_p99', 'first_token_p50', 'first_token_p99'] as const

const FIELDS: Fields = {
  id: { type: 'uuid' },
  name: { type: 'text' },
  description: { type: 'text' },
  start_time: { type: 'time' },
  end_time: { type: 'time' },
  last_run_start_time: { type: 'time' },
  reference_dataset_id: { type: 'uuid' },
  deployment_id: { type: 'uuid' },
  trace_tier: { type: 'text' },
  metadata: { type: 'json' },
  ...Object.fromEntries(STATISTICS.map(name => [name, { type: 'number' as const }])),
  ...Object.fromEntries(LATENCIES.map(name => [name, { type: 'duration' as const }])),
}
const CASTS: Record<string, SQL> = {
  uuid: sql`::uuid`,
  number: sql`::numeric`,
  duration: sql`::float8`,
  time: sql`::timestamptz`,
  text: sql`::text`,
}
const COMPARISONS: Record<string, SQL> = {
  eq: sql`=`,
  neq: sql`is distinct from`,
  gt: sql`>`,
  gte: sql`>=`,
  lt: sql`<`,
  lte: sql`<=`,
}

const METADATA = sql`(p.extra -> 'metadata')::jsonb`

/** A condition on the row `p` of `projects`. */
export function sessionFilter(filter: string | undefined, counts: Counts): SQL | undefined {
  const resolved = readFilters({ filter }, FIELDS, 'query').filter
  return resolved && toSql(resolved, counts)
}

function toSql(filter: ResolvedFilter, counts: Counts): SQL {
  // No field of a project is one of several pairs.
  if ('family' in filter) return sql`false`
  if (!('parts' in filter)) return compare(filter, counts)
  const parts = filter.parts.map(part => toSql(part, counts))
  if (filter.operator === 'not') return sql`not coalesce(${parts[0]}, false)`
  return sql`(${sql.join(parts, filter.operator === 'and' ? sql` and ` : sql` or `)})`
}

function compare({ operator, field, type, values }: ResolvedCondition, counts: Counts): SQL {
  const [value] = values
  if (field === null) return containsAny(sql`concat_ws(' ', p.name, p.description)`, [String(value)])
  if (field === 'metadata')
    return operator === 'has' ? sql`${METADATA} @> ${value}::jsonb` : sql`jsonb_exists(${METADATA}, ${value})`
  const column = columnOf(field, counts)
  if (operator === 'search') return containsAny(column, [String(value)])
  if (operator === 'like') return matchesPattern(column, String(value))
  const cast = CASTS[type]!
  if (value === null) return operator === 'eq' ? sql`${column} is null` : sql`${column} is not null`
  if (operator === 'in')
    return sql`${column} in (${sql.join(
      values.map(one => sql`${one}${cast}`),
      sql`, `,
    )})`
  return sql`${column} ${COMPARISONS[operator]} ${value}${cast}`
}

function columnOf(field: string, counts: Counts): SQL {
  const isStatistic = [...STATISTICS, ...LATENCIES, 'last_run_start_time'].includes(field)
  if (!isStatistic) return sql`p.${sql.identifier(field)}`
  const value = selectStatistic(field as Parameters<typeof selectStatistic>[0], sql`p`, counts)
  return field.endsWith('_cost') ? sql`${value}::numeric` : value
}
