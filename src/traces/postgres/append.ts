// Stores runs: one statement creates their projects, finds their tier and merges each run into its row.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/context.ts'
import { refuseUnless, run } from '../../kernel/db.ts'
import { invalidRequest } from '../../kernel/input.ts'
import { type Placeholders, prepareStatement } from '../../kernel/statement.ts'
import { MERGED_MEMBERS, type MergedRun, mergeOperations } from '../run-operations.ts'
import type { NewFeedback, RunOperation, SpanPlace } from '../store.ts'
import { lockMovedTraces, lockTraces } from './locks.ts'
import { placeSpans, registerSpans } from './span-places.ts'
import { TIER } from './tiers.ts'

export async function append(
  ctx: Ctx,
  operations: RunOperation[],
  _feedback: NewFeedback[] = [],
  spans: SpanPlace[] = [],
): Promise<void> {
  const { runs, faults } = mergeOperations(operations)
  if (faults.length > 0) throw invalidRequest(faults)
  if (runs.length === 0) return
  const rows = JSON.stringify(runs.map(toRow))
  const needsLookup = runs.some(({ place, session_id, session_name }) => !place || !(session_id || session_name))
  const traceIds = [...new Set(runs.flatMap(({ place }) => place?.trace_id ?? []))]
  if (spans.length > 0) return appendSpans(ctx, rows, traceIds, spans)
  await run(ctx, appendStatement({ rows, ...(needsLookup && { needsLookup }) }), lockTraces(traceIds))
}

async function appendSpans(ctx: Ctx, rows: string, traceIds: string[], spans: SpanPlace[]): Promise<void> {
  const lock = lockMovedTraces([...new Set([...traceIds, ...spans.map(({ trace }) => trace)])])
  await run(ctx, placeSpans(spans), [lock, appendStatement({ rows, ofSpans: true }), registerSpans(spans)])
}

/** Absent members are left out, so that a batch of small runs is a small parameter. */
const toRow = ({ place, loc: _loc, attachments: _attachments, is_posted: _posted, ...run }: MergedRun) => ({
  ...run,
  ...place,
})

/** `ofSpans`: a run that is stored stays where it is, because its ancestors may have been found since. */
type AppendInput = { rows: string; needsLookup?: boolean; ofSpans?: boolean }

const ROW = sql`
      id uuid, session_id uuid, session_name text, trace_id uuid, trace_time timestamptz, order_time timestamptz,
      dotted_order text, parent_run_id uuid, name text, run_type text, start_time timestamptz, end_time timestamptz,
      first_token_time timestamptz, error text, tags text[], metadata jsonb, thread_id text, reference_example_id uuid,
      extra text, serialized text, inputs text, outputs text, events text, inputs_preview text, outputs_preview text,
      objects json, prompt_tokens bigint, completion_tokens bigint, total_tokens bigint, prompt_cost numeric,
      completion_cost numeric, total_cost numeric, usage_details json, patched integer`

const columns = (names: readonly string[], table?: string): SQL =>
  sql.join(
    names.map(name => (table ? sql`${sql.identifier(table)}.${sql.identifier(name)}` : sql.identifier(name))),
    sql`, `,
  )
const VALUES = [...MERGED_MEMBERS.flat(), 'objects', 'patched']

/** Keeps what a patch has set from what a post brings. */
const MERGED_VALUES = sql.join(
  MERGED_MEMBERS.flatMap(([first, ...others], bit) => {
    const mask = sql.raw(String(1 << bit))
    const isKept = sql`excluded.${sql.identifier(first)} is null
          or (runs.patched & ${mask} <> 0 and excluded.patched & ${mask} = 0)`
    return [first, ...others].map(name => {
      const column = sql.identifier(name)
      return sql`
        ${column} = case when ${isKept} then runs.${column} else excluded.${column} end`
    })
  }),
  sql`,`,
)

const appendStatement = prepareStatement(
  ({ rows, needsLookup, ofSpans }: Placeholders<AppendInput>) => sql`
    with given as materialized (
      select *
      from json_to_recordset(${rows}::json) as g(${ROW})
    ),
    named as (
      select distinct session_name as name
      from given
      where session_name is not null
    ),
    known as (
      select p.id, p.name, p.trace_tier, p.earlier_tiers
      from projects p
      where p.tenant_id = current_tenant()
        and (p.name in (select name from named) or p.id in (select session_id from given))
    ),
    -- The update does nothing, but returns a project that another request has created meanwhile.
    created as (
      insert into projects (organization_id, tenant_id, name)
      select current_organization(), current_tenant(), name
      from named
      where name not in (select name from known)
      order by name
      on conflict (tenant_id, name) do update set updated_at = projects.updated_at
      returning id, name, trace_tier, earlier_tiers
    ),
    destinations as (
      select * from known
      union all
      select * from created
    ),
    ${needsLookup ? FOUND : ofSpans ? FOUND_BY_TIME : sql``}
    placed as (
      select
        g.id, g.session_name, ${columns(VALUES, 'g')},
        ${needsLookup || ofSpans ? PLACE_OR_FOUND : PLACE}
      from given g
      left join destinations d
        on case when g.session_id is null then d.name = g.session_name else d.id = g.session_id end
      left join upgraded_traces u on u.tenant_id = current_tenant() and u.trace_id = g.trace_id
      ${needsLookup || ofSpans ? sql`left join found f on f.id = g.id` : sql``}
    )
    insert into runs (organization_id, tenant_id, id, ${columns(PLACE_NAMES)}, ${columns(VALUES)})
    select current_organization(), current_tenant(), p.id, ${columns(PLACE_NAMES, 'p')}, ${columns(VALUES, 'p')}
    from placed p
    where ${refuseUnless('run_not_found', sql`p.order_time is not null`)}
      and ${refuseUnless('project_not_found', sql`p.session_id is not null`)}
    order by p.id
    on conflict (tenant_id, id, order_time, trace_tier) do update set
        objects = coalesce(excluded.objects, runs.objects),
        patched = runs.patched | excluded.patched,
        updated_at = clock(),
        ${MERGED_VALUES}
      where case
        when runs.session_id = excluded.session_id then true
        else refuse('run_in_other_project', runs.id::text)
      end`,
)

const PLACE_NAMES = [
  ...['session_id', 'trace_tier', 'trace_id', 'trace_time', 'order_time', 'dotted_order', 'parent_run_id'],
] as const

const PLACE = sql`
        d.id as session_id, ${TIER} as trace_tier, ${columns(PLACE_NAMES.slice(2), 'g')}`
const PLACE_OR_FOUND = sql`
        coalesce(d.id, f.session_id) as session_id, coalesce(f.trace_tier, ${TIER}) as trace_tier,
        ${sql.join(
          PLACE_NAMES.slice(2).map(
            name => sql`coalesce(f.${sql.identifier(name)}, g.${sql.identifier(name)}) as ${sql.identifier(name)}`,
          ),
          sql`, `,
        )}`

/** Patches that do not say where their run is. */
const FOUND = sql`
    found as (
      select g.id, ${columns(PLACE_NAMES, 'r')}
      from given g
      cross join lateral (
        select *
        from runs r
        where r.tenant_id = current_tenant() and r.id = g.id
        limit 1
      ) r
      where g.order_time is null or (g.session_id is null and g.session_name is null)
    ),`
const FOUND_BY_TIME = sql`
    found as (
      select g.id, ${columns(PLACE_NAMES, 'r')}
      from given g
      join runs r on r.tenant_id = current_tenant() and r.id = g.id and r.order_time = g.order_time
    ),`
