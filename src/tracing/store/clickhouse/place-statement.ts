// The statement of Postgres that places the runs of a batch, and stores projects, feedback, objects, and the runs that
// are open.
import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Row, requirePermission } from '../../../kernel/db/db.ts'
import { type Placeholders, prepareStatement } from '../../../kernel/db/statement.ts'
import { attachFeedback, readFeedbackRows, storeFeedback } from '../../feedback/store-feedback.ts'
import { findIn, IN_OWN_PROJECT, placeGiven } from '../postgres/place-runs.ts'
import { columns, PLACE_COLUMNS, ROW_TYPES } from '../postgres/run-columns.ts'
import type { PlacedRun } from './write-rows.ts'

export const OPEN_RUNS = sql`open_runs`
const PLACES = sql`id uuid, session_id uuid, trace_tier text, trace_id uuid, trace_time timestamptz,
          order_time timestamptz, dotted_order text, parent_run_id uuid, start_time timestamptz, name text`
/** A trace key finds the runs of its own project only. */
export const readPlaces = (places: Placeholder | string): SQL => sql`(
        select current_tenant() as tenant_id, k.*
        from json_to_recordset(${places}::json) as k(${PLACES})
        where (select confined_project()) is null or k.session_id = (select confined_project())
      )`
export const openOr = (known: Placeholder | string): SQL => sql`(
        select tenant_id, id, ${columns(PLACE_COLUMNS)} from open_runs
        union all
        select tenant_id, id, ${columns(PLACE_COLUMNS)} from ${readPlaces(known)} known
      )`

type PlaceInput = {
  rows: string
  objects?: string
  feedbackRows?: string
  found?: string
  known?: string
  isConfined?: boolean
}
const PLACED = sql`(select * from placed where session_id is not null)`

export const placeStatement = prepareStatement(
  ({ rows, objects, feedbackRows, found, known, isConfined }: Placeholders<PlaceInput>) => sql<Row>`
    with given as materialized (
      select ${isConfined ? IN_OWN_PROJECT : sql`*`}
      from json_to_recordset(${rows}::json) as g(${ROW_TYPES})
    ),
    ${placeGiven(known && findIn(openOr(known)), { mayWait: known !== undefined })}
    ${ELSEWHERE},
    ${OPEN_AND_CLOSE},
    ${feedbackRows ? storeFeedbackOfRuns(feedbackRows, readPlaces(found!)) : sql``}
    ${attachFeedback(PLACED)}
    ${objects ? recordObjects(objects) : sql``}
    ${SELECT_PLACED}`,
)

const OPEN_AND_CLOSE = sql`
    opened as (
      insert into open_runs (organization_id, tenant_id, id, ${columns(PLACE_COLUMNS)})
      select current_organization(), current_tenant(), id, ${columns(PLACE_COLUMNS)}
      from placed
      where session_id is not null and name is not null and end_time is null and error is null
      order by id
      on conflict do nothing
    ),
    closed as (
      delete from open_runs o
      using placed p
      where o.tenant_id = current_tenant()
        and o.id = p.id
        and p.session_id is not null
        and (p.end_time is not null or p.error is not null)
    )`

/** A run that has ended is not in `open_runs`: written to two projects, it becomes two runs. */
const ELSEWHERE = sql`
    elsewhere as (
      select p.id
      from placed p
      join open_runs o on o.tenant_id = current_tenant() and o.id = p.id
      where o.session_id <> p.session_id
      limit 1
    )`

const SELECT_PLACED = sql`
    select
      (
        select coalesce(json_agg(json_build_object(
          'id', p.id, 'session_id', p.session_id, 'trace_tier', p.trace_tier, 'trace_id', p.trace_id,
          'trace_time', to_char(p.trace_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'order_time', to_char(p.order_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'dotted_order', p.dotted_order, 'parent_run_id', p.parent_run_id
        )), '[]')
        from ${PLACED} p
      ),
      (
        select count(*)
        from placed p
        where p.session_id is null or exists (
          select from waiting_patches w where w.tenant_id = current_tenant() and w.run_id = p.id
        )
      ),
      (extract(epoch from clock_timestamp()) * 1000000)::bigint,
      exists (select from run_rules r where r.tenant_id = current_tenant() and r.is_enabled)
    from (select) one
    where case
        when exists (select from placed where session_id is null and not has_no_project)
          then refuse('project_not_found')
        else true
      end
      and case
        when exists (select from elsewhere)
          then refuse('run_in_other_project', (select id::text from elsewhere))
        else true
      end`

const storeFeedbackOfRuns = (rows: Placeholder, found: SQL): SQL => {
  const permitted = sql`
    ${readFeedbackRows(rows)}
    where ${requirePermission('feedback:create')}`
  return sql`${sql.join(storeFeedback(permitted, { found, written: PLACED }), sql`,`)},`
}

/** They stay until their trace expires, also when another text has taken their place. */
const recordObjects = (objects: Placeholder): SQL => sql`,
    recorded as (
      insert into trace_objects (organization_id, tenant_id, path, trace_id, session_id, run_id, expires_at, bytes)
      select
        current_organization(), current_tenant(), o.path, p.trace_id, p.session_id, p.id,
        p.trace_time + kept_for(p.trace_tier), o.bytes
      from json_to_recordset(${objects}::json) as o(run_id uuid, path text, bytes bigint)
      join placed p on p.id = o.run_id
    )`

/** Runs once the runs can be read: a rule that finds no run passes it over. */
export const queueStatement = prepareStatement(
  ({ runs }: Placeholders<{ runs: string }>) => sql<Row>`select queue_runs(${runs}::json)`,
)

export type Placed = { runs: PlacedRun[]; waiting: number; version: bigint; hasRules: boolean }
/** The row of the statement. `waiting` counts the runs with patches that wait. */
export const readPlaced = ([runs, waiting, version, hasRules]: Row): Placed => ({
  runs: JSON.parse(runs as string),
  waiting: Number(waiting),
  version: BigInt(version as string),
  hasRules: hasRules === true,
})
