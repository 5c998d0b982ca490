// Adds up the runs and the feedback of a project, from counts by the minute, which outlive the runs.
import { type SQL, sql } from 'drizzle-orm'
import { toIsoTime } from '../../kernel/db/rows.ts'
import { summarizeFeedback } from '../feedback/feedback-summary.ts'
import * as schema from './projects.schema.ts'

type Statistic = (typeof schema.STATISTICS)[number]
type StatsQuery = {
  include_stats: boolean
  stats_select?: Statistic[] | undefined
}

// ---- SQL. `p` is a row of `projects`, and `since` null for all that there ever was.

/** `minutes` come from `TraceStore.countRuns()`. */
export type Counts = { minutes: SQL; since?: string | undefined }

/** The minutes of a project. Those that are long ago were added up to longer times, and count from their beginning. */
const ofProject = (p: SQL, { since }: Counts): SQL => sql`m.tenant_id = ${p}.tenant_id and m.session_id = ${p}.id
      ${since ? sql`and m.minute >= date_bin('1 minute', ${since}::timestamptz, 'epoch')` : sql``}`

/** Sums over the minutes `m`. All but tokens and costs are those of traces. */
const SUMS = {
  run_count: sql`coalesce(sum(m.roots), 0)`,
  error_rate: sql`sum(m.errors)::float8 / nullif(sum(m.roots), 0)`,
  streaming_rate: sql`sum(m.streamed)::float8 / nullif(sum(m.roots), 0)`,
  prompt_tokens: sql`coalesce(sum(m.prompt_tokens), 0)`,
  completion_tokens: sql`coalesce(sum(m.completion_tokens), 0)`,
  total_tokens: sql`coalesce(sum(m.total_tokens), 0)`,
  // Texts keep all their digits in JSON.
  prompt_cost: sql`trim_scale(coalesce(sum(m.prompt_cost), 0))::text`,
  completion_cost: sql`trim_scale(coalesce(sum(m.completion_cost), 0))::text`,
  total_cost: sql`trim_scale(coalesce(sum(m.total_cost), 0))::text`,
  last_run_start_time: sql`max(m.last_start_time)`,
} satisfies Partial<Record<Statistic, SQL>>

const PERCENTILES = {
  latency_p50: ['latencies', 0.5],
  latency_p99: ['latencies', 0.99],
  first_token_p50: ['first_token_latencies', 0.5],
  first_token_p99: ['first_token_latencies', 0.99],
} satisfies Partial<Record<Statistic, [string, number]>>

const buckets = (column: string, p: SQL, counts: Counts): SQL => sql`(
      select array_agg(b.n order by b.place)
      from (
        select u.place, sum(u.n)::bigint as n
        from ${counts.minutes} m
        cross join unnest(m.${sql.identifier(column)}) with ordinality u(n, place)
        where ${ofProject(p, counts)}
        group by u.place
      ) b
    )`

const isSum = (name: string): name is keyof typeof SUMS => Object.hasOwn(SUMS, name)
const isPercentile = (name: string): name is keyof typeof PERCENTILES => Object.hasOwn(PERCENTILES, name)
const isOfRuns = sql`f.run_id is not null`
const isOfProject = sql`f.run_id is null`
const feedbackOf = (
  p: SQL,
  isOfLevel: SQL,
  since: string | undefined,
): SQL => sql`f.session_id = ${p}.id and ${isOfLevel}
      ${since ? sql`and f.created_at >= ${since}::timestamptz` : sql``}`

/** The value of one statistic, to sort or to filter by. */
export function selectStatistic(name: keyof typeof SUMS | keyof typeof PERCENTILES, p: SQL, counts: Counts): SQL {
  if (isSum(name)) return sql`(select ${SUMS[name]} from ${counts.minutes} m where ${ofProject(p, counts)})`
  const [column, part] = PERCENTILES[name]
  return sql`percentile_of(${buckets(column, p, counts)}, ${part})`
}

export const selectFeedbackScore = (
  p: SQL,
  { key, source, since }: { key: string; source: 'run' | 'session'; since: string | undefined },
): SQL => sql`(
      select avg(f.score)
      from feedbacks f
      where f.tenant_id = ${p}.tenant_id
        and f.key = ${key}
        and ${feedbackOf(p, source === 'run' ? isOfRuns : isOfProject, since)}
    )`

/** A query of one JSON object, or of null. */
export function selectStats(p: SQL, { include_stats, stats_select }: StatsQuery, counts: Counts): SQL {
  const { since } = counts
  if (!include_stats) return sql`select null`
  const names = schema.STATISTICS.filter(name => stats_select === undefined || stats_select.includes(name))
  const columns = new Set(names.filter(isPercentile).map(name => PERCENTILES[name][0]))
  const expressions: Record<Statistic, () => SQL> = {
    ...mapValues(SUMS, sum => () => sum),
    ...mapValues(
      PERCENTILES,
      ([column, part]) =>
        () =>
          sql`percentile_of((table ${sql.identifier(column)}), ${part})`,
    ),
    feedback_stats: () => summarizeFeedback(feedbackOf(p, isOfRuns, since)),
    session_feedback_stats: () => summarizeFeedback(feedbackOf(p, isOfProject, since)),
  }
  const members = names.map(name => sql`${sql.raw(`'${name}'`)}, ${expressions[name]()}`)
  const histograms = [...columns].map(
    column => sql`${sql.identifier(column)} as (select ${buckets(column, p, counts)})`,
  )
  return sql`
      ${histograms.length > 0 ? sql`with ${sql.join(histograms, sql`, `)}` : sql``}
      select json_build_object(${sql.join([...members, sql`'test_run_number', ${selectRunNumber(p)}`], sql`, `)})
      from ${counts.minutes} m
      where ${ofProject(p, counts)}
      -- One row, also where no member adds up the minutes.
      having true`
}

const mapValues = <Name extends string, From, To>(record: Record<Name, From>, map: (value: From) => To) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value as From)])) as Record<Name, To>

const selectRunNumber = (p: SQL): SQL => sql`case when ${p}.reference_dataset_id is not null then (
        select count(*)
        from projects e
        where e.tenant_id = ${p}.tenant_id
          and e.reference_dataset_id = ${p}.reference_dataset_id
          and (e.start_time, e.id) <= (${p}.start_time, ${p}.id)
      ) end`

// ---- on the wire

/** Members that a query leaves out are null or absent. */
export type ProjectStats =
  | {
      [Name in Statistic | 'test_run_number' | 'run_facets']?: unknown
    }
  | null
export const NO_STATS: ProjectStats = null

export function statsToWire(stats: ProjectStats) {
  const read = <T>(name: keyof NonNullable<ProjectStats>): T | null => (stats?.[name] ?? null) as T | null
  const cost = (name: Statistic) => {
    const value = read<number | string>(name)
    return value === null ? null : String(value)
  }
  const last = toIsoTime(read<string>('last_run_start_time'))
  return {
    run_count: read<number>('run_count'),
    latency_p50: read<number>('latency_p50'),
    latency_p99: read<number>('latency_p99'),
    first_token_p50: read<number>('first_token_p50'),
    first_token_p99: read<number>('first_token_p99'),
    prompt_tokens: read<number>('prompt_tokens'),
    completion_tokens: read<number>('completion_tokens'),
    total_tokens: read<number>('total_tokens'),
    prompt_cost: cost('prompt_cost'),
    completion_cost: cost('completion_cost'),
    total_cost: cost('total_cost'),
    last_run_start_time: last,
    last_run_start_time_live: last,
    error_rate: read<number>('error_rate'),
    streaming_rate: read<number>('streaming_rate'),
    feedback_stats: read<schema.Project['feedback_stats']>('feedback_stats'),
    session_feedback_stats: read<schema.Project['feedback_stats']>('session_feedback_stats'),
    run_facets: read<NonNullable<schema.Project['run_facets']>>('run_facets'),
    test_run_number: read<number>('test_run_number'),
  }
}
