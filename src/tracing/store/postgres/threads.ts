// Lists the threads of a project: roots that share a `thread_id`.
import { type SQL, sql } from 'drizzle-orm'
import { runWithinTime } from '../../../kernel/db/bounded-time.ts'
import type { Row } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { summarizeFeedback } from '../../feedback/feedback-summary.ts'
import { type ThreadPage, type ThreadQuery, TOTALS } from '../queries.ts'
import { toIso } from './iso-time.ts'
import { inTraceOf } from './run-fields.ts'
import { hasAllProjects, selectAll } from './run-source.ts'

export async function listThreads(ctx: Ctx, query: ThreadQuery): Promise<ThreadPage> {
  const rows = await runWithinTime(ctx, threadStatement(query))
  return {
    hasAllProjects: rows[0]![0] === true,
    total: Number(rows[0]![1]),
    threads: rows.filter(([, , thread]) => thread !== null).map(([, , thread]) => JSON.parse(thread as string)),
  }
}

const ofThread = sql`p.thread_id = g.thread_id`
const part = (fraction: number): SQL =>
  sql`percentile_cont(${fraction}) within group (order by extract(epoch from p.end_time - p.start_time)::float8)`
/** A column of the first or the last root of the thread `g`. */
const rootOf = (column: SQL, direction: SQL, condition = sql`true`): SQL => sql`(
        select ${column} from picked p where ${ofThread} and ${condition}
        order by p.order_time ${direction}, p.id ${direction}
        limit 1
      )`
const detailsOf = (columns: [string, string]): SQL => sql`(
        select coalesce(json_object_agg(d.key, d.total order by d.key), '{}')
        from (
          select e.key, sum(e.value::numeric) as total
          from members t
          cross join lateral (
            select * from json_each_text(t.usage_details -> ${columns[0]})
            union all
            select * from json_each_text(t.usage_details -> ${columns[1]})
          ) e
          where t.thread_id = g.thread_id
          group by e.key
        ) d
      )`
const MEMBERS: [string, SQL][] = [
  ['thread_id', sql`g.thread_id`],
  ['count', sql`g.count`],
  ['error_count', sql`g.error_count`],
  ['first_trace_id', rootOf(sql`p.id`, sql`asc`)],
  ['last_trace_id', rootOf(sql`p.id`, sql`desc`)],
  ['min_start_time', toIso(sql`g.min_start_time`)],
  ['max_start_time', toIso(sql`g.max_start_time`)],
  ['latency_p50', sql`g.latency_p50`],
  ['latency_p99', sql`g.latency_p99`],
  ['first_inputs', rootOf(sql`p.inputs_preview`, sql`asc`)],
  ['last_outputs', rootOf(sql`p.outputs_preview`, sql`desc`)],
  ['last_error', rootOf(sql`p.error`, sql`desc`, sql`p.error is not null`)],
  ...TOTALS.map((name): [string, SQL] => [name, sql`totals.${sql.identifier(name)}`]),
  ['token_details', detailsOf(['input_token_details', 'output_token_details'])],
  ['cost_details', detailsOf(['input_cost_details', 'output_cost_details'])],
  ['feedback_stats', summarizeFeedback(sql`f.run_id in (select t.id from members t where t.thread_id = g.thread_id)`)],
]
const sum = (name: string): SQL =>
  name.endsWith('tokens') ? sql`coalesce(sum(t.${sql.identifier(name)}), 0)` : sql`sum(t.${sql.identifier(name)})`

/** Exported for the tests of query plans. */
export function threadStatement(query: ThreadQuery): SQL<Row> {
  const { source, condition } = selectAll({ ...query, is_root: true })
  const { limit, offset = 0, after } = query
  const isAfter = after ? sql`where (t.max_start_time, t.thread_id) < (${after.time}::timestamptz, ${after.id})` : sql``
  const members = MEMBERS.map(([name, value]) => sql`${sql.raw(`'${name}'`)}, ${value}`)
  return sql`
    with picked as materialized (
      select r.id, r.thread_id, r.trace_id, r.trace_time, r.order_time, r.start_time, r.end_time,
        left(r.error, 1000) as error, r.inputs_preview, r.outputs_preview
      from ${source} r
      where r.thread_id is not null and ${condition}
    ),
    threads as materialized (
      select p.thread_id, count(*) as count, count(p.error) as error_count, min(p.start_time) as min_start_time,
        max(p.start_time) as max_start_time, ${part(0.5)} as latency_p50, ${part(0.99)} as latency_p99
      from picked p
      group by p.thread_id
    ),
    page as (
      select *
      from threads t
      ${isAfter}
      order by t.max_start_time desc, t.thread_id desc
      limit ${limit}
      offset ${offset}
    ),
    members as materialized (
      select p.thread_id, t.id, t.usage_details,
        ${sql.join(
          TOTALS.map(name => sql`t.${sql.identifier(name)}`),
          sql`, `,
        )}
      from picked p
      join runs t on ${inTraceOf(sql`t`, sql`p`)}
      where p.thread_id in (select thread_id from page)
    )
    select ${hasAllProjects(query.projects)}, (select count(*) from threads),
      case when g.thread_id is not null then json_build_object(${sql.join(members, sql`, `)}) end
    from (select) one
    left join page g on true
    left join lateral (
      select ${sql.join(
        TOTALS.map(name => sql`${sum(name)} as ${sql.identifier(name)}`),
        sql`, `,
      )}
      from members t
      where t.thread_id = g.thread_id
    ) totals on true
    order by g.max_start_time desc, g.thread_id desc` as SQL<Row>
}
