// Adds up all runs of a selection, as one or by groups.
import { type SQL, sql } from 'drizzle-orm'
import { runWithinTime } from '../../../kernel/db/bounded-time.ts'
import { type Row, textArray } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { summarizeFeedback } from '../../feedback/feedback-summary.ts'
import { type Grouping, type Statistic, type StatsAnswer, type StatsQuery, TOTALS } from '../queries.ts'
import { toIso } from './iso-time.ts'
import { inTraceOf } from './run-fields.ts'
import { hasAllProjects, selectAll } from './run-source.ts'

export async function stats(ctx: Ctx, query: StatsQuery): Promise<StatsAnswer> {
  const rows = await runWithinTime(ctx, statsStatement(query))
  const groups = rows.filter(([, , totals]) => totals !== null)
  return {
    groups: groups.map(([, group, totals]) => ({
      group: group as string | null,
      totals: JSON.parse(totals as string),
    })),
    hasAllProjects: rows[0]![0] === true,
  }
}

/** Exported for the tests of query plans. */
export function statsStatement(query: StatsQuery): SQL<Row> {
  const { statistics, group_by } = query
  const { source, condition, isOfRoots } = selectAll(query)
  const needsTotals = statistics.some(name => /^(?!first).*(token|cost)/.test(name)) && isOfRoots
  const isInGroup = group_by ? sql`p.group_name = g.group_name` : sql`true`
  const members = statistics.map(name => sql`${sql.raw(`'${name}'`)}, ${expressionOf(name, isInGroup, isOfRoots)}`)
  const isWanted = group_by?.groups
    ? sql`g.group_name = any(${textArray(group_by.groups)})`
    : sql`g.group_name is not null`
  const groups = sql`
      select ${group_by ? sql`g.group_name` : sql`null as group_name`}, count(*) as size,
        json_build_object(${sql.join(members, sql`, `)}) as totals
      from picked g
      ${needsTotals ? OF_TRACES : OF_RUNS}
      ${group_by ? sql`where ${isWanted} group by g.group_name` : sql`group by ()`}
      order by size desc, group_name
      limit ${group_by?.max_groups ?? 1}`
  return sql`
    with picked as materialized (
      select
        r.id, r.trace_id, r.trace_time, r.thread_id, r.name, r.run_type, r.status, r.tags, r.metadata, r.order_time,
        r.start_time, r.end_time, r.first_token_time, r.usage_details,
        extract(epoch from r.end_time - r.start_time)::float8 as latency,
        extract(epoch from r.first_token_time - r.start_time)::float8 as first_token,
        ${totalsOf(sql`r`)}, ${groupName(group_by)} as group_name
      from ${source} r
      ${group_by?.attribute === 'tag' ? EACH_TAG : sql``}
      where ${condition}
    )
    ${needsTotals ? MEMBERS : sql``}
    select ${hasAllProjects(query.projects)}, groups.group_name, groups.totals
    from (select) one
    left join (${groups}) groups on true` as SQL<Row>
}

const EACH_TAG = sql`cross join lateral (select distinct t.tag from unnest(r.tags) t(tag)) tags`
const totalsOf = (row: SQL): SQL =>
  sql.join(
    TOTALS.map(name => sql`${row}.${sql.identifier(name)}`),
    sql`, `,
  )

/** The tokens and costs `n` of a row. */
const OF_RUNS = sql`cross join lateral (select ${totalsOf(sql`g`)}) n`
const OF_TRACES = sql`join totals n on n.root_id = g.id`
/** All runs of each trace, looked up once. */
const MEMBERS = sql`,
    members as materialized (
      select p.id as root_id, t.usage_details, ${totalsOf(sql`t`)}
      from (select distinct id, trace_id, trace_time from picked) p
      join runs t on ${inTraceOf(sql`t`, sql`p`)}
    ),
    totals as materialized (
      select t.root_id, ${sql.join(
        TOTALS.map(name => sql`sum(t.${sql.identifier(name)}) as ${sql.identifier(name)}`),
        sql`, `,
      )}
      from members t
      group by t.root_id
    )`

function groupName(group: Grouping | undefined): SQL {
  if (!group) return sql`null::text`
  if (group.attribute === 'tag') return sql`tags.tag`
  if (group.attribute === 'metadata') return sql`r.metadata ->> ${group.path ?? ''}`
  return group.attribute === 'project' ? sql`r.session_id::text` : sql`r.${sql.identifier(group.attribute)}`
}

// ---- statistics over the rows `g` of one group

const part = (column: string, fraction: number): SQL => {
  const row = (TOTALS as readonly string[]).includes(column) ? sql`n` : sql`g`
  return sql`percentile_cont(${fraction}) within group (order by ${row}.${sql.identifier(column)}::float8)`
}
const share = (condition: SQL): SQL => sql`count(*) filter (where ${condition})::float8 / nullif(count(*), 0)`
const cost = (column: string): SQL => sql`sum(n.${sql.identifier(column)})`
const tokens = (column: string): SQL => sql`coalesce(sum(n.${sql.identifier(column)}), 0)`

type Computed = 'feedback_stats' | 'run_facets' | `${string}_details`
const EXPRESSIONS: Record<Exclude<Statistic, Computed>, SQL> = {
  run_count: sql`count(*)`,
  thread_count: sql`count(distinct g.thread_id)`,
  latency_avg: sql`avg(g.latency)`,
  latency_p50: part('latency', 0.5),
  latency_p99: part('latency', 0.99),
  first_token_p50: part('first_token', 0.5),
  first_token_p99: part('first_token', 0.99),
  error_rate: share(sql`g.status = 'error'`),
  streaming_rate: share(sql`g.first_token_time is not null`),
  total_tokens: tokens('total_tokens'),
  prompt_tokens: tokens('prompt_tokens'),
  completion_tokens: tokens('completion_tokens'),
  median_tokens: part('total_tokens', 0.5),
  tokens_p99: part('total_tokens', 0.99),
  prompt_tokens_p50: part('prompt_tokens', 0.5),
  prompt_tokens_p99: part('prompt_tokens', 0.99),
  completion_tokens_p50: part('completion_tokens', 0.5),
  completion_tokens_p99: part('completion_tokens', 0.99),
  total_cost: cost('total_cost'),
  prompt_cost: cost('prompt_cost'),
  completion_cost: cost('completion_cost'),
  cost_p50: part('total_cost', 0.5),
  cost_p99: part('total_cost', 0.99),
  first_run_start_time: toIso(sql`min(g.start_time)`),
  last_run_start_time: toIso(sql`max(g.start_time)`),
  last_run_end_time: toIso(sql`max(g.end_time)`),
}

const DETAILS_COLUMNS: Record<string, string> = {
  prompt_token_details: 'input_token_details',
  completion_token_details: 'output_token_details',
  prompt_cost_details: 'input_cost_details',
  completion_cost_details: 'output_cost_details',
}

function expressionOf(name: Statistic, isInGroup: SQL, isOfRoots: boolean): SQL {
  if (name === 'run_facets') return facets(isInGroup)
  if (name === 'feedback_stats')
    return summarizeFeedback(sql`f.run_id in (select p.id from picked p where ${isInGroup})`)
  const details = DETAILS_COLUMNS[name]
  return details ? addDetails(details, isInGroup, isOfRoots) : EXPRESSIONS[name as keyof typeof EXPRESSIONS]
}

const OWN_DETAILS = sql`cross join lateral (select p.usage_details) t`

const addDetails = (column: string, isInGroup: SQL, isOfRoots: boolean): SQL => sql`(
    select json_object_agg(d.key, d.total order by d.key)
    from (
      select e.key, sum(e.value::numeric) as total
      from picked p
      ${isOfRoots ? sql`join members t on t.root_id = p.id` : OWN_DETAILS}
      cross join lateral json_each_text(t.usage_details -> ${column}) e
      where ${isInGroup}
      group by e.key
    ) d
  )`

/** The values that come most often, among the latest runs. */
const MAX_RUNS = 10_000
const MAX_VALUES = 10
const MAX_MEMBERS = 50
/** Longer values differ in every run, so they are useless as a choice. */
const MAX_LENGTH = 256

const facets = (isInGroup: SQL): SQL => sql`(
    select coalesce(
      json_agg(
        json_strip_nulls(json_build_object('field', f.field, 'member', f.member, 'value', f.value, 'n', f.n))
        order by f.field, f.member nulls first, f.n desc, f.value
      ) filter (where f.place <= ${MAX_VALUES} and f.member_place <= ${MAX_MEMBERS}),
      '[]'
    )
    from (
      select v.field, v.member, v.value, count(*) as n,
        row_number() over (partition by v.field, v.member order by count(*) desc, v.value) as place,
        dense_rank() over (partition by v.field order by v.member) as member_place
      from (
        select p.name, p.run_type, p.status, p.tags, p.metadata
        from picked p
        where ${isInGroup}
        order by p.order_time desc, p.id desc
        limit ${MAX_RUNS}
      ) p
      cross join lateral (
        values ('name', null, p.name), ('run_type', null, p.run_type), ('status', null, p.status)
        union all
        select distinct 'tag', null::text, t.tag
        from unnest(p.tags) t(tag)
        union all
        select 'metadata', m.key, m.value
        from jsonb_each_text(case when jsonb_typeof(p.metadata) = 'object' then p.metadata else '{}' end) m
      ) v(field, member, value)
      where length(v.value) <= ${MAX_LENGTH}
      group by v.field, v.member, v.value
    ) f
  )`
