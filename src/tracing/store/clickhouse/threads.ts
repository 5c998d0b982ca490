// Lists the threads of a project: roots that share a `thread_id`.
import { sql as pg, type SQL } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { join, name, type Sql, sql, text, texts, time } from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime } from '../../../kernel/clickhouse/times.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { type StoredThread, type ThreadPage, type ThreadQuery, TOTALS } from '../queries.ts'
import { summarizeByGroup } from './feedback-of-runs.ts'
import { selectRuns } from './run-columns.ts'
import { readDetails, sumDetails } from './stats.ts'
import { selectWhole } from './whole-selection.ts'

const COLUMNS = ['thread_id', 'start_time', 'end_time', 'error', 'inputs_preview', 'outputs_preview']
const ORDER = sql`(r.order_time, r.id)`
const seconds = sql`dateDiff('microsecond', r.start_time, r.end_time) / 1e6`
/** Takes a value of the first or last root. The tuple keeps a null from being passed over. */
const ofRoot = (pick: 'argMin' | 'argMax', value: Sql): Sql =>
  sql`tupleElement(${name(pick)}(tuple(${value}), ${ORDER}), 1)`

export async function listThreads(clickHouse: ClickHouse, ctx: Ctx, query: ThreadQuery): Promise<ThreadPage> {
  const { scope, source, hasAllProjects, isEmpty } = await selectWhole(clickHouse, ctx, { ...query, is_root: true })
  if (isEmpty) return { threads: [], total: 0, hasAllProjects }
  const { limit, offset = 0, after } = query
  const isAfter = after
    ? sql`having (max(r.start_time), r.thread_id) < (${time(after.time)}, ${text(after.id)})`
    : sql``
  const picked = sql`${source.select(COLUMNS)} and r.thread_id is not null`
  const [counted] = await clickHouse.query<[string]>(sql`select toString(uniqExact(r.thread_id)) ${picked}`)
  const rows = await clickHouse.query(sql`
    select r.thread_id, toString(count()), toString(count(r.error)), toString(${ofRoot('argMin', sql`r.id`)}),
      toString(${ofRoot('argMax', sql`r.id`)}), toString(min(r.start_time)), toString(max(r.start_time)),
      quantileExactInclusive(0.5)(${seconds}), quantileExactInclusive(0.99)(${seconds}),
      ${ofRoot('argMin', sql`r.inputs_preview`)}, ${ofRoot('argMax', sql`r.outputs_preview`)},
      left(argMax(r.error, ${ORDER}), 1000)
    ${picked}
    group by r.thread_id
    ${isAfter}
    order by max(r.start_time) desc, r.thread_id desc
    limit ${name(String(limit))} offset ${name(String(offset))}`)
  const threads = rows.map(toThread)
  const members = selectMembers(
    scope.tenant,
    source.inTraces,
    picked,
    threads.map(({ thread_id }) => thread_id),
  )
  const [totals, feedback] = await Promise.all([
    readTotals(clickHouse, members),
    summarizeByGroup(
      clickHouse,
      ctx,
      scope.projects.map(({ id }) => id),
      wanted => sql`
      select toString(r.id), r.thread_id
      from (${members}
      ) r
      where ${wanted}`,
    ),
  ])
  return {
    threads: threads.map(one => ({
      ...one,
      ...totals.get(one.thread_id)!,
      feedback_stats: feedback.get(one.thread_id) ?? null,
    })),
    total: Number(counted![0]),
    hasAllProjects,
  }
}

export async function findThread(clickHouse: ClickHouse, ctx: Ctx, project: string, thread: string): Promise<SQL> {
  const { source, isEmpty } = await selectWhole(clickHouse, ctx, { projects: [project], is_root: true })
  if (isEmpty) return pg`false`
  const found = await clickHouse.query(sql`
    select r.thread_id
    ${source.select(['thread_id'])} and r.thread_id = ${text(thread)}
    limit 1`)
  return pg`${found.length > 0}::boolean`
}

type Totals = Pick<StoredThread, (typeof TOTALS)[number] | 'token_details' | 'cost_details'>
type Thread = Omit<StoredThread, keyof Totals | 'feedback_stats'>

const toThread = ([
  thread_id,
  count,
  errors,
  first,
  last,
  min,
  max,
  p50,
  p99,
  inputs,
  outputs,
  error,
]: unknown[]): Thread => ({
  thread_id: thread_id as string,
  count: Number(count),
  error_count: Number(errors),
  first_trace_id: first as string,
  last_trace_id: last as string,
  min_start_time: fromClickHouseTime(min as string)!,
  max_start_time: fromClickHouseTime(max as string)!,
  latency_p50: p50 as number | null,
  latency_p99: p99 as number | null,
  first_inputs: inputs as string | null,
  last_outputs: outputs as string | null,
  last_error: error as string | null,
})

/** All runs of the traces of these threads. */
const selectMembers = (tenant: string, inTraces: Sql, picked: Sql, threads: string[]): Sql => sql`
      select m.id as id, p.thread_id as thread_id, m.usage_details as usage_details,
        ${join(
          TOTALS.map(total => sql`m.${name(total)} as ${name(total)}`),
          ', ',
        )}
      from (${selectRuns(tenant, ['usage_details', ...TOTALS], inTraces)}
      ) m
      join (
        select r.trace_id as trace_id, assumeNotNull(r.thread_id) as thread_id ${picked}
      ) p on p.trace_id = m.trace_id
      where p.thread_id in ${texts(threads)}`

async function readTotals(clickHouse: ClickHouse, members: Sql): Promise<Map<string, Totals>> {
  const details = (kinds: string[]) => kinds.map(kind => sumDetails(sql`r.usage_details`, kind))
  const rows = await clickHouse.query<[string, ...unknown[]]>(sql`
    select r.thread_id, ${join(
      [
        ...TOTALS.map(total => sql`toString(sum(r.${name(total)}))`),
        ...details(['input_token_details', 'output_token_details', 'input_cost_details', 'output_cost_details']),
      ],
      ', ',
    )}
    from (${members}
    ) r
    group by r.thread_id`)
  return new Map(
    rows.map(([thread, ...values]) => {
      const sums = TOTALS.map((total, i) => [total, readSum(total, values[i])])
      const [input, output, inputCost, outputCost] = values.slice(TOTALS.length) as Record<string, string>[]
      return [
        thread,
        {
          ...Object.fromEntries(sums),
          token_details: add(readDetails(input!), readDetails(output!)),
          cost_details: add(readDetails(inputCost!), readDetails(outputCost!)),
        },
      ]
    }),
  )
}

const readSum = (total: string, value: unknown): number | null =>
  value === null ? (total.endsWith('tokens') ? 0 : null) : Number(value)

function add(one: Record<string, number>, other: Record<string, number>): Record<string, number> {
  const keys = [...new Set([...Object.keys(one), ...Object.keys(other)])].sort()
  return Object.fromEntries(keys.map(key => [key, (one[key] ?? 0) + (other[key] ?? 0)]))
}
