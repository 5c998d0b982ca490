// Adds up all runs of a selection, as one or by groups.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { join, name, type Sql, sql, text, texts } from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime } from '../../../kernel/clickhouse/times.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { DETAILS, type NUMBERS, TIMES } from '../../runs/run-stats.schema.ts'
import {
  type Facet,
  type Grouping,
  type RunTotals,
  type Statistic,
  type StatsAnswer,
  type StatsQuery,
  TOTALS,
} from '../queries.ts'
import { summarizeByGroup } from './feedback-of-runs.ts'
import { selectRuns } from './run-columns.ts'
import type { RunSource } from './run-source.ts'
import { selectWhole } from './whole-selection.ts'

type Plain = (typeof NUMBERS)[number] | (typeof TIMES)[number]

export async function stats(clickHouse: ClickHouse, ctx: Ctx, query: StatsQuery): Promise<StatsAnswer> {
  const { scope, source, hasAllProjects, isEmpty } = await selectWhole(clickHouse, ctx, query)
  const { statistics, group_by } = query
  if (isEmpty && query.projects) return { groups: [], hasAllProjects }
  const select = selectPicked(source, group_by, statistics)
  const groups = await readTotals(clickHouse, select, statistics, group_by)
  const byGroup = new Map(groups.map(one => [one.group ?? '', one.totals]))
  const projects = scope.projects.map(({ id }) => id)
  await Promise.all([
    addDetails(clickHouse, scope.tenant, source, select, statistics, byGroup),
    statistics.includes('run_facets') && addFacets(clickHouse, select, byGroup),
    statistics.includes('feedback_stats') &&
      summarizeByGroup(
        clickHouse,
        ctx,
        projects,
        wanted => sql`select toString(g.id), g.group_name from (${select(wanted)}) g`,
      ).then(found => {
        for (const [group, totals] of byGroup) totals.feedback_stats = found.get(group) ?? null
      }),
  ])
  return { groups, hasAllProjects }
}

// ---- the runs `g`

const COLUMNS = [
  'name',
  'run_type',
  'status',
  'tags',
  'metadata',
  'thread_id',
  'start_time',
  'end_time',
  'first_token_time',
  'usage_details',
  ...TOTALS,
]
const TAGS = sql`JSONExtract(ifNull(r.tags, '[]'), 'Array(String)')`

function groupName(group: Grouping | undefined): Sql {
  if (!group) return sql`''`
  if (group.attribute === 'tag') return sql`arrayJoin(arrayDistinct(${TAGS}))`
  if (group.attribute === 'project') return sql`toString(r.session_id)`
  if (group.attribute !== 'metadata') return sql`toString(r.${name(group.attribute)})`
  const value = sql`JSONExtractRaw(ifNull(r.metadata, ''), ${text(group.path ?? '')})`
  return sql`multiIf(${value} in ('', 'null'), null, startsWith(${value}, '"'), JSONExtractString(${value}), ${value})`
}

/** The runs of the wanted groups. With roots only, tokens and costs are those of their traces. */
function selectPicked(source: RunSource, group: Grouping | undefined, statistics: readonly Statistic[]) {
  const hasTotals = source.isOfRoots && statistics.some(one => /^(?!first).*(token|cost)/.test(one))
  const seconds = (until: string) => sql`dateDiff('microsecond', r.start_time, r.${name(until)}) / 1e6`
  const totals = TOTALS.map(total => sql`${hasTotals ? sql`t` : sql`r`}.${name(total)} as ${name(total)}`)
  const isWanted = group?.groups ? sql`p.group_name in ${texts(group.groups)}` : sql`p.group_name is not null`
  return (also: Sql = sql`true`): Sql => sql`
      select *
      from (
        select r.id as id, r.trace_id as trace_id, r.order_time as order_time, r.name as name, r.run_type as run_type,
          r.status as status, ${TAGS} as tags, r.metadata as metadata, r.thread_id as thread_id,
          r.start_time as start_time, r.end_time as end_time, r.first_token_time as first_token_time,
          r.usage_details as usage_details, ${seconds('end_time')} as latency,
          ${seconds('first_token_time')} as first_token, ${join(totals, ', ')}, ${groupName(group)} as group_name
        ${source.select(COLUMNS, { hasTotals })} and ${also}
      ) p
      where ${isWanted}`
}
type Picked = ReturnType<typeof selectPicked>

// ---- statistics

const part = (column: string, fraction: string): Sql =>
  sql`quantileExactInclusive(${name(fraction)})(toFloat64(g.${name(column)}))`
const share = (condition: Sql): Sql => sql`countIf(${condition}) / nullIf(count(), 0)`
const sum = (column: string): Sql => sql`sum(g.${name(column)})`
const tokens = (column: string): Sql => sql`ifNull(sum(g.${name(column)}), 0)`
const EXPRESSIONS: Record<Plain, Sql> = {
  run_count: sql`count()`,
  thread_count: sql`uniqExact(g.thread_id)`,
  latency_avg: sql`avg(g.latency)`,
  latency_p50: part('latency', '0.5'),
  latency_p99: part('latency', '0.99'),
  first_token_p50: part('first_token', '0.5'),
  first_token_p99: part('first_token', '0.99'),
  error_rate: share(sql`g.status = 'error'`),
  streaming_rate: share(sql`g.first_token_time is not null`),
  total_tokens: tokens('total_tokens'),
  prompt_tokens: tokens('prompt_tokens'),
  completion_tokens: tokens('completion_tokens'),
  median_tokens: part('total_tokens', '0.5'),
  tokens_p99: part('total_tokens', '0.99'),
  prompt_tokens_p50: part('prompt_tokens', '0.5'),
  prompt_tokens_p99: part('prompt_tokens', '0.99'),
  completion_tokens_p50: part('completion_tokens', '0.5'),
  completion_tokens_p99: part('completion_tokens', '0.99'),
  total_cost: sum('total_cost'),
  prompt_cost: sum('prompt_cost'),
  completion_cost: sum('completion_cost'),
  cost_p50: part('total_cost', '0.5'),
  cost_p99: part('total_cost', '0.99'),
  first_run_start_time: sql`min(g.start_time)`,
  last_run_start_time: sql`max(g.start_time)`,
  last_run_end_time: sql`max(g.end_time)`,
}
const isPlain = (statistic: Statistic): statistic is Plain => Object.hasOwn(EXPRESSIONS, statistic)
const isTime = (statistic: Plain): boolean => TIMES.some(one => one === statistic)

async function readTotals(
  clickHouse: ClickHouse,
  select: Picked,
  statistics: readonly Statistic[],
  group: Grouping | undefined,
): Promise<StatsAnswer['groups']> {
  const plain = statistics.filter(isPlain)
  const rows = await clickHouse.query<(string | number | null)[]>(sql`
    select ${group ? sql`g.group_name` : sql`null`}, ${join(
      [sql`count() as size`, ...plain.map(one => EXPRESSIONS[one])],
      ', ',
    )}
    from (${select()}
    ) g
    ${group ? sql`group by g.group_name order by size desc, g.group_name` : sql``}
    limit ${name(String(group?.max_groups ?? 1))}`)
  return rows.map(([found, , ...values]) => ({
    group: found as string | null,
    totals: Object.fromEntries(plain.map((one, i) => [one, readValue(one, values[i]!)])) as RunTotals,
  }))
}

function readValue(statistic: Plain, value: string | number | null): string | number | null {
  if (value === null) return null
  return isTime(statistic) ? fromClickHouseTime(value as string) : Number(value)
}

// ---- details of tokens and costs

const DETAILS_COLUMNS: Record<(typeof DETAILS)[number], string> = {
  prompt_token_details: 'input_token_details',
  completion_token_details: 'output_token_details',
  prompt_cost_details: 'input_cost_details',
  completion_cost_details: 'output_cost_details',
}

/** Sums by category, of the JSON in `usage_details`. Decimals, so that sums of costs have no digits of their own. */
export const sumDetails = (usage: Sql, member: string): Sql =>
  sql`sumMap(JSONExtract(ifNull(${usage}, ''), '${name(member)}', 'Map(String, Decimal(38, 12))'))`
export const readDetails = (found: Record<string, string | number>): Record<string, number> =>
  Object.fromEntries(Object.entries(found).map(([key, value]) => [key, Number(value)]))

async function addDetails(
  clickHouse: ClickHouse,
  tenant: string,
  source: RunSource,
  select: Picked,
  statistics: readonly Statistic[],
  byGroup: Map<string, RunTotals>,
): Promise<void> {
  const wanted = DETAILS.filter(one => statistics.includes(one))
  if (wanted.length === 0) return
  const sums = (from: Sql) =>
    join(
      wanted.map(one => sumDetails(from, DETAILS_COLUMNS[one])),
      ', ',
    )
  const ofTraces = sql`
    select g.group_name, ${sums(sql`m.usage_details`)}
    from (${selectRuns(tenant, ['usage_details'], source.inTraces)}
    ) m
    join (${select()}
    ) g on g.trace_id = m.trace_id
    group by g.group_name`
  const own = sql`
    select g.group_name, ${sums(sql`g.usage_details`)}
    from (${select()}
    ) g
    group by g.group_name`
  const rows = await clickHouse.query<[string, ...Record<string, string>[]]>(source.isOfRoots ? ofTraces : own)
  const found = new Map(rows.map(([group, ...values]) => [group, values]))
  for (const [group, totals] of byGroup)
    for (const [i, one] of wanted.entries()) {
      const details = readDetails(found.get(group)?.[i] ?? {})
      totals[one] = Object.keys(details).length > 0 ? details : null
    }
}

// ---- facets: the values that come most often, among the latest runs

const MAX_RUNS = 10_000
const MAX_VALUES = 10
const MAX_MEMBERS = 50
/** Longer values differ in every run, so they are useless as a choice. */
const MAX_LENGTH = 256

async function addFacets(clickHouse: ClickHouse, select: Picked, byGroup: Map<string, RunTotals>): Promise<void> {
  const value = (json: Sql) => sql`if(startsWith(${json}, '"'), JSONExtractString(${json}), ${json})`
  const rows = await clickHouse.query<[string, Facet['field'], string, string, string]>(sql`
    select group_name, field, member, value, n
    from (
      select g.group_name as group_name, f.1 as field, f.2 as member, f.3 as value, count() as n
      from (
        select *
        from (${select()}
        )
        order by order_time desc, id desc
        limit ${name(String(MAX_RUNS))} by group_name
      ) g
      array join arrayConcat(
        [
          ('name', '', ifNull(g.name, '')),
          ('run_type', '', ifNull(toString(g.run_type), '')),
          ('status', '', g.status)
        ],
        arrayMap(tag -> ('tag', '', tag), arrayDistinct(g.tags)),
        arrayMap(m -> ('metadata', m.1, ${value(sql`m.2`)}),
          arrayFilter(m -> m.2 != 'null', JSONExtractKeysAndValuesRaw(ifNull(g.metadata, ''))))
      ) as f
      where lengthUTF8(f.3) <= ${name(String(MAX_LENGTH))}
      group by group_name, field, member, value
    )
    order by group_name, field, member, n desc, value
    limit ${name(String(MAX_VALUES))} by group_name, field, member`)
  for (const [group, totals] of byGroup) {
    const own = rows.filter(([of]) => of === group)
    const members = [...new Set(own.map(([, , member]) => member))].slice(0, MAX_MEMBERS + 1)
    totals.run_facets = own
      .filter(([, , member]) => members.includes(member))
      .map(([, field, member, value, n]) => ({ field, ...(field === 'metadata' && { member }), value, n: Number(n) }))
  }
}
