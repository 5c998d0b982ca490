// The charts of a project, from its counts by the minute and its feedback.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { CountQuery } from '../store/store.ts'
import { buildDashboard, type Data, type Metric } from './project-charts.ts'
import type * as schema from './project-dashboard.schema.ts'
import type { ProjectRef } from './projects.schema.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const DEFAULT_STRIDE = { days: 0, hours: 0, minutes: 15 }
const MAX_POINTS = 1000

/** Metrics over the minutes `m` of a point. */
const METRICS: Record<Metric, SQL> = {
  run_count: sql`sum(m.roots)`,
  error_count: sql`sum(m.errors)`,
  error_rate: sql`sum(m.errors)::float8 / nullif(sum(m.roots), 0)`,
  streaming_rate: sql`sum(m.streamed)::float8 / nullif(sum(m.roots), 0)`,
  latency_p50: sql`percentile_of(sum_counts(m.latencies)::bigint[], 0.5)`,
  latency_p99: sql`percentile_of(sum_counts(m.latencies)::bigint[], 0.99)`,
  first_token_p50: sql`percentile_of(sum_counts(m.first_token_latencies)::bigint[], 0.5)`,
  first_token_p99: sql`percentile_of(sum_counts(m.first_token_latencies)::bigint[], 0.99)`,
  total_tokens: sql`sum(m.total_tokens)`,
  prompt_tokens: sql`sum(m.prompt_tokens)`,
  completion_tokens: sql`sum(m.completion_tokens)`,
  total_cost: sql`sum(m.total_cost)`,
  prompt_cost: sql`sum(m.prompt_cost)`,
  completion_cost: sql`sum(m.completion_cost)`,
}

type Span = { start: number; end: number; strideMs: number }

function readSpan({ start_time, end_time, stride }: schema.DashboardRequest, now: number): Span {
  const { days, hours, minutes } = stride ?? DEFAULT_STRIDE
  const strideMs = days * DAY_MS + (hours * 60 + minutes) * MINUTE_MS
  const end = end_time ? Date.parse(end_time) : now
  const start = start_time ? Date.parse(start_time) : end - DAY_MS
  const refuse = (member: string, msg: string) => invalidRequest([{ type: 'custom', loc: ['body', member], msg }])
  if (strideMs === 0) throw refuse('stride', 'must be longer than nothing')
  if (start >= end) throw refuse('start_time', 'must be before end_time')
  if (end - start > MAX_POINTS * strideMs)
    throw refuse('stride', `gives more than ${MAX_POINTS} points; use a longer one, or less time`)
  return { start, end, strideMs }
}

function selectPoints({ start, end, strideMs }: Span, minutes: SQL): SQL {
  const from = sql`to_timestamp(${start / 1000}::float8)`
  const until = sql`to_timestamp(${end / 1000}::float8)`
  const binned = (time: SQL) =>
    sql`extract(epoch from date_bin(${`${strideMs} milliseconds`}::interval, ${time}, ${from})) * 1000`
  const metrics = Object.entries(METRICS).map(([name, value]) => sql`${value} as ${sql.identifier(name)}`)
  return sql`json_build_object(
        'points', (
          select coalesce(json_agg(c), '[]')
          from (
            select ${binned(sql`m.minute`)} as at, ${sql.join(metrics, sql`, `)}
            from ${minutes} m
            where m.tenant_id = p.tenant_id and m.session_id = p.id and m.minute >= ${from} and m.minute < ${until}
            group by 1
          ) c
        ),
        'feedback', (
          select coalesce(json_agg(c), '[]')
          from (
            select ${binned(sql`f.created_at`)} as at, f.key, avg(f.score) as score
            from feedbacks f
            where f.tenant_id = p.tenant_id
              and f.session_id = p.id
              and f.created_at >= ${from}
              and f.created_at < ${until}
            group by 1, f.key
          ) c
        ))`
}

export const readDashboard = verb(
  'projects:read',
  async (ctx, { session_id, ...request }: z.output<typeof ProjectRef> & schema.DashboardRequest) => {
    const span = readSpan(request, ctx.platform.clock.now())
    const points = request.omit_data
      ? sql`'{"points": [], "feedback": []}'`
      : selectPoints(span, await ctx.traces.countRuns(ctx, toCountQuery(session_id, span)))
    const query = sql<Row>`
      select p.name, ${points}
      from projects p
      where p.id = ${session_id}::uuid and p.tenant_id = current_tenant()`
    const [name, json] = requireRow(await run(ctx, query), 'project_not_found') as [string, string]
    return buildDashboard(session_id, name, JSON.parse(json) as Data, request.omit_data ? [] : timesOf(span))
  },
)

const toCountQuery = (session_id: string, { start, end, strideMs }: Span): CountQuery => ({
  projects: [session_id],
  since: new Date(start).toISOString(),
  until: new Date(end).toISOString(),
  strideMs,
})

const timesOf = ({ start, end, strideMs }: Span): number[] =>
  Array.from({ length: Math.ceil((end - start) / strideMs) }, (_, i) => start + i * strideMs)
