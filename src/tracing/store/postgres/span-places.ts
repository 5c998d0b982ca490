// Places runs of OpenTelemetry when their ancestors come in other requests. These statements belong to the transaction
// that appends the runs, whose lock on the trace makes them see the spans of all requests before it.
import { type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../../kernel/db/db.ts'
import { type Placeholders, prepareStatement } from '../../../kernel/db/statement.ts'
import type { SpanPlace } from '../store.ts'
import { TIER } from './tiers.ts'

type SpansInput = { spans: string }
type IdsInput = { traces: string[]; spans: string[] }

/** A span that is sent again stays where it is. */
const registerStatement = prepareStatement(
  ({ spans }: Placeholders<SpansInput>) => sql<Row>`
    insert into otlp_spans (
      organization_id, tenant_id, trace, span, parent, run_id, order_time, dotted_order, is_root, is_fixed,
      session_id)
    select
      current_organization(), current_tenant(), trace, span, parent, run_id, order_time, dotted_order, is_root,
      is_fixed, session_id
    from json_to_recordset(${spans}::json) as sent(
      trace uuid, span uuid, parent uuid, run_id uuid, order_time timestamptz, dotted_order text, is_root boolean,
      is_fixed boolean, session_id uuid)
    order by trace, span
    on conflict (tenant_id, trace, span) do nothing`,
)

const MAX_DEPTH = 100
const SEGMENT_LENGTH = 58
const below = (order: SQL, span: SQL): SQL => sql`${order} || '.' || right(${span}.dotted_order, ${SEGMENT_LENGTH})`
const canStandBelow = (order: SQL, span: SQL): SQL =>
  sql`length(${order}) < ${(MAX_DEPTH - 1) * (SEGMENT_LENGTH + 1)} and strpos(${order}, ${span}.run_id::text) = 0`

/** Reads by the index: with few statistics, the planner would choose to read all spans of the tenant. */
const spansWhere = (condition: SQL): SQL => sql`lateral (
        select *
        from otlp_spans s
        where s.tenant_id = current_tenant() and ${condition}
        offset 0
      )`

/**
 * CTEs that move spans once an ancestor has been found: `destinations` has the run of each, and its new place.
 * `placeSpans()` in `otlp/placement.ts` does the same within one request.
 */
const moveSpans = ({ traces, spans }: Placeholders<IdsInput>): SQL => sql`
    with recursive sent as materialized (
      select trace, span
      from unnest(${traces}::uuid[], ${spans}::uuid[]) as s(trace, span)
    ),
    roots as materialized (
      select distinct on (s.trace) s.trace, s.span, s.dotted_order
      from (select distinct trace from sent) g
      cross join ${spansWhere(sql`s.is_root and s.trace = g.trace`)} s
      order by s.trace, s.order_time, s.span
    ),
    -- Sent spans with all below them; with the root of a trace, also those that hang under it for want of their parent.
    affected as (
      (
        select trace, span
        from sent
        union
        select o.trace, o.span
        from roots r
        join sent g using (trace, span)
        cross join ${spansWhere(sql`s.trace = r.trace`)} o
        left join ${spansWhere(sql`s.trace = o.trace and s.span = o.parent`)} p on true
        where p.span is null
      )
      union
      select c.trace, c.span
      from affected a
      cross join ${spansWhere(sql`s.parent = a.span and s.trace = a.trace`)} c
      where not c.is_fixed
    ),
    placed as (
      select t.trace, t.span, t.run_id, t.order_time, t.dotted_order as earlier_order,
        case
          when t.parent is null or t.is_fixed then t.dotted_order
          when ${canStandBelow(sql`p.dotted_order`, sql`t`)} then ${below(sql`p.dotted_order`, sql`t`)}
          when ${canStandBelow(sql`r.dotted_order`, sql`t`)} then ${below(sql`r.dotted_order`, sql`t`)}
          else t.dotted_order
        end as dotted_order
      from affected a
      cross join ${spansWhere(sql`s.trace = a.trace and s.span = a.span`)} t
      left join ${spansWhere(sql`s.trace = t.trace and s.span = t.parent`)} p on true
      left join roots r on r.trace = t.trace
      where case
        when t.parent is null or t.is_fixed then true
        else (t.trace, t.parent) not in (select trace, span from affected)
      end
      union all
      select c.trace, c.span, c.run_id, c.order_time, c.dotted_order,
        case
          when ${canStandBelow(sql`a.dotted_order`, sql`c`)} then ${below(sql`a.dotted_order`, sql`c`)}
          else c.dotted_order
        end
      from placed a
      cross join ${spansWhere(sql`s.parent = a.span and s.trace = a.trace`)} c
      where not c.is_fixed
    ),
    moved as (
      update otlp_spans s
      set dotted_order = d.dotted_order
      from placed d
      where s.tenant_id = current_tenant() and s.trace = d.trace and s.span = d.span
        and d.dotted_order <> d.earlier_order
      returning s.run_id, s.session_id, s.order_time, d.dotted_order,
        substr(d.earlier_order, 23, 36)::uuid as earlier_trace_id
    ),
    destinations as (
      select m.*,
        substr(m.dotted_order, 23, 36)::uuid as trace_id,
        regexp_replace(
          left(m.dotted_order, 22), '(....)(..)(..)T(..)(..)(..)(.*)', '\\1-\\2-\\3T\\4:\\5:\\6.\\7'
        )::timestamptz as trace_time,
        left(right(m.dotted_order, ${36 + 1 + SEGMENT_LENGTH}), 36)::uuid as parent_run_id
      from moved m
    )`

const placeStatement = prepareStatement(
  (ids: Placeholders<IdsInput>) => sql<Row>`
    ${moveSpans(ids)},
    moved_runs as (
      update runs r
      set
        trace_id = g.trace_id,
        trace_time = g.trace_time,
        dotted_order = g.dotted_order,
        parent_run_id = g.parent_run_id,
        trace_tier = ${TIER}
      from destinations g
      left join upgraded_traces u on u.tenant_id = current_tenant() and u.trace_id = g.trace_id
      cross join projects d
      where r.tenant_id = current_tenant() and r.id = g.run_id and r.order_time = g.order_time
        and d.tenant_id = current_tenant() and d.id = r.session_id
      returning r.id, r.trace_id, r.trace_time, r.trace_tier, g.earlier_trace_id
    )
    update trace_objects o
    set trace_id = m.trace_id, expires_at = m.trace_time + kept_for(m.trace_tier)
    from moved_runs m
    where o.tenant_id = current_tenant() and o.trace_id = m.earlier_trace_id and o.run_id = m.id
      and o.expires_at > clock()`,
)

export const registerSpans = (spans: SpanPlace[]) => registerStatement({ spans: JSON.stringify(spans) })
export const placeSpans = (spans: SpanPlace[]) =>
  placeStatement({ traces: spans.map(({ trace }) => trace), spans: spans.map(({ span }) => span) })

const movedStatement = prepareStatement(
  (ids: Placeholders<IdsInput>) => sql<Row>`
    ${moveSpans(ids)}
    select coalesce(json_agg(json_build_object(
        'id', g.run_id, 'session_id', g.session_id, 'trace_id', g.trace_id, 'dotted_order', g.dotted_order,
        'parent_run_id', g.parent_run_id, 'trace_tier', ${TIER},
        'order_time', to_char(g.order_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'trace_time', to_char(g.trace_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      )), '[]'),
      (extract(epoch from clock_timestamp()) * 1000000)::bigint
    from destinations g
    left join upgraded_traces u on u.tenant_id = current_tenant() and u.trace_id = g.trace_id
    join projects d on d.tenant_id = current_tenant() and d.id = g.session_id`,
)
/** Moves the spans alone, and returns where their runs belong from now on. */
export const selectMovedSpans = (spans: SpanPlace[]) =>
  movedStatement({ traces: spans.map(({ trace }) => trace), spans: spans.map(({ span }) => span) })
