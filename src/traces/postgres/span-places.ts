// Places runs of OpenTelemetry when their ancestors come in other requests. These statements belong to the transaction
// that appends the runs, whose lock on the trace makes them see the spans of all requests before it.
import { type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../kernel/db.ts'
import { type Placeholders, prepareStatement } from '../../kernel/statement.ts'
import type { SpanPlace } from '../store.ts'
import { TIER } from './tiers.ts'

type SpansInput = { spans: string }

const sent = ({ spans }: Placeholders<SpansInput>): SQL => sql`sent as materialized (
      select *
      from json_to_recordset(${spans}::json) as s(
        trace uuid, span uuid, parent uuid, run_id uuid, order_time timestamptz, dotted_order text, is_root boolean,
        is_fixed boolean)
    )`

/** A span that is sent again stays where it is. */
const registerStatement = prepareStatement(
  (input: Placeholders<SpansInput>) => sql<Row>`
    with ${sent(input)}
    insert into otlp_spans (
      organization_id, tenant_id, trace, span, parent, run_id, order_time, dotted_order, is_root, is_fixed)
    select
      current_organization(), current_tenant(), trace, span, parent, run_id, order_time, dotted_order, is_root, is_fixed
    from sent
    order by trace, span
    on conflict (tenant_id, trace, span) do nothing`,
)

const MAX_DEPTH = 100
const belowParent = (order: SQL, child: SQL): SQL =>
  sql`${order} || '.' || right(${child}.dotted_order, ${SEGMENT_LENGTH})`
const SEGMENT_LENGTH = 58
const canStandBelow = (order: SQL, child: SQL): SQL => sql`(
        length(${order}) < ${(MAX_DEPTH - 1) * (SEGMENT_LENGTH + 1)} and strpos(${order}, ${child}.run_id::text) = 0)`

/** `orderSpans()` does the same within one request. */
const placeStatement = prepareStatement(
  (input: Placeholders<SpansInput>) => sql<Row>`
    with recursive ${sent(input)},
    roots as materialized (
      select distinct on (s.trace) s.trace, s.span, s.dotted_order
      from otlp_spans s
      where s.tenant_id = current_tenant() and s.is_root and s.trace in (select trace from sent)
      order by s.trace, s.order_time, s.span
    ),
    -- Sent spans whose parent is not; with the root of a trace, also those that hang under it for want of their parent.
    tops as (
      select s.*
      from otlp_spans s
      join sent g using (trace, span)
      where s.tenant_id = current_tenant()
        and not exists (select from sent p where p.trace = s.trace and p.span = s.parent)
      union
      select s.*
      from otlp_spans s
      where s.tenant_id = current_tenant()
        and s.trace in (select r.trace from roots r join sent g using (trace, span))
        and not exists (
          select from otlp_spans p
          where p.tenant_id = current_tenant() and p.trace = s.trace and p.span = s.parent
        )
    ),
    placed as (
      select t.trace, t.span, 0 as level,
        case
          when t.parent is null or t.is_fixed then t.dotted_order
          when ${canStandBelow(sql`p.dotted_order`, sql`t`)} then ${belowParent(sql`p.dotted_order`, sql`t`)}
          when ${canStandBelow(sql`r.dotted_order`, sql`t`)} then ${belowParent(sql`r.dotted_order`, sql`t`)}
          else t.dotted_order
        end as dotted_order
      from tops t
      left join otlp_spans p on p.tenant_id = current_tenant() and p.trace = t.trace and p.span = t.parent
      left join roots r on r.trace = t.trace
      union all
      select c.trace, c.span, a.level + 1, ${belowParent(sql`a.dotted_order`, sql`c`)}
      from placed a
      join otlp_spans c on c.tenant_id = current_tenant() and c.trace = a.trace and c.parent = a.span
      where not c.is_fixed and ${canStandBelow(sql`a.dotted_order`, sql`c`)}
    ),
    -- A span below several tops belongs where the farthest one leads.
    decided as (
      select distinct on (trace, span) *
      from placed
      order by trace, span, level desc
    ),
    moved as (
      update otlp_spans s
      set dotted_order = d.dotted_order
      from decided d
      where s.tenant_id = current_tenant() and s.trace = d.trace and s.span = d.span
        and s.dotted_order <> d.dotted_order
      returning s.run_id, s.order_time, d.dotted_order
    ),
    destinations as (
      select m.*,
        substr(m.dotted_order, 23, 36)::uuid as trace_id,
        regexp_replace(
          left(m.dotted_order, 22), '(....)(..)(..)T(..)(..)(..)(.*)', '\\1-\\2-\\3T\\4:\\5:\\6.\\7'
        )::timestamptz as trace_time,
        left(right(m.dotted_order, ${36 + 1 + SEGMENT_LENGTH}), 36)::uuid as parent_run_id
      from moved m
    )
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
      and d.tenant_id = current_tenant() and d.id = r.session_id`,
)

export const registerSpans = (spans: SpanPlace[]) => registerStatement({ spans: JSON.stringify(spans) })
export const placeSpans = (spans: SpanPlace[]) => placeStatement({ spans: JSON.stringify(spans) })
