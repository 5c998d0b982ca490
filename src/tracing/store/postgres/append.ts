// Stores runs: one statement creates their projects, finds their tier and merges each run into its row.
import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Row, requirePermission, run, uuidArray } from '../../../kernel/db/db.ts'
import { type Placeholders, prepareStatement } from '../../../kernel/db/statement.ts'
import { type Ctx, isConfined } from '../../../kernel/http/context.ts'
import { fail } from '../../../kernel/http/errors.ts'
import { invalidRequest } from '../../../kernel/http/input.ts'
import { attachFeedback, readFeedbackRows, storeFeedback, toFeedbackRows } from '../../feedback/store-feedback.ts'
import { mergeOperations } from '../../ingest/merged-operations.ts'
import { type StoredRuns, withObjects } from '../../ingest/run-objects.ts'
import type { NewFeedback, RunOperation, SpanPlace } from '../store.ts'
import { lockTraces, lockWholeTraces } from './locks.ts'
import { FOUND_BY_TIME, findIn, IN_OWN_PROJECT, placeGiven } from './place-runs.ts'
import { columns, MERGED_COLUMNS, PLACE_COLUMNS, ROW_TYPES, VALUE_COLUMNS } from './run-columns.ts'
import { placeSpans, registerSpans } from './span-places.ts'

export async function append(
  ctx: Ctx,
  operations: RunOperation[],
  feedback: NewFeedback[] = [],
  spans: SpanPlace[] = [],
): Promise<void> {
  const { runs, faults } = mergeOperations(operations, isConfined(ctx))
  if (faults.length > 0) throw invalidRequest(faults)
  const feedbackRows = feedback.length > 0 ? toFeedbackRows(feedback) : undefined
  if (spans.length > 0) await withObjects(ctx, runs, stored => appendSpans(ctx, stored, spans))
  else if (runs.length > 0) await withObjects(ctx, runs, stored => appendRows(ctx, stored, feedbackRows))
  else if (feedbackRows) await run(ctx, feedbackStatement({ feedbackRows }))
}

async function appendRows(ctx: Ctx, { runs, objects }: StoredRuns, feedbackRows: string | undefined): Promise<void> {
  const traceIds: string[] = []
  const unassigned = { traceIds: [] as string[], runIds: [] as string[] }
  for (const { id, place, session_id, session_name } of runs) {
    const hasProject = session_id !== undefined || session_name !== undefined || isConfined(ctx)
    if (!place) unassigned.runIds.push(id)
    else (hasProject ? traceIds : unassigned.traceIds).push(place.trace_id)
  }
  const needsLookup = unassigned.traceIds.length + unassigned.runIds.length > 0
  const input = { ...toInput(ctx, runs, objects), feedbackRows, ...(needsLookup && { needsLookup }) }
  const [row] = await run(ctx, appendStatement(input), lockTraces(traceIds, unassigned))
  const runIds = runs.map(({ id }) => id)
  if (Number(row![0]) > 0) await mergeWaitingPatches(ctx, runIds)
}

async function appendSpans(ctx: Ctx, { runs, objects }: StoredRuns, spans: SpanPlace[]): Promise<void> {
  const traceIds = new Set([...spans.map(({ trace }) => trace), ...runs.map(({ place }) => place!.trace_id)])
  const input: AppendInput = { ...toInput(ctx, runs, objects), feedbackRows: undefined, ofSpans: true }
  await run(ctx, placeSpans(spans), [lockWholeTraces([...traceIds]), appendStatement(input), registerSpans(spans)])
}

function toInput(ctx: Ctx, runs: StoredRuns['runs'], objects: StoredRuns['objects']) {
  const rows = JSON.stringify(runs.map(toRow))
  refuseLargeRows(rows)
  return {
    rows,
    ...(objects.length > 0 && { objects: JSON.stringify(objects) }),
    ...(isConfined(ctx) && { isConfined: true }),
  }
}

/** The limit of a request to the database, which has the rows as a JSON string. */
const MAX_TRIP_BYTES = 30 * 1024 * 1024

/** An object store leaves only a batch of many texts just below its threshold too large. */
function refuseLargeRows(rows: string): void {
  const isSuspect = rows.length > MAX_TRIP_BYTES / 6
  if (isSuspect && Buffer.byteLength(JSON.stringify(rows)) > MAX_TRIP_BYTES) throw fail('batch_too_large')
}

/** Absent members are left out, so that a small run is a small part of the parameter. */
function toRow(run: StoredRuns['runs'][number]): object {
  const { place, loc: _loc, attachments: _attachments, is_posted: _posted, ...values } = run
  return { ...values, ...place }
}

type AppendInput = {
  rows: string
  feedbackRows: string | undefined
  objects?: string
  needsLookup?: boolean
  /** A run that is stored stays where it is, because its ancestors may have been found since. */
  ofSpans?: boolean
  isConfined?: boolean
}

const FOUND = findIn(sql`runs`)

/** Returns how many patches of these runs wait for their project. */
const appendStatement = prepareStatement(
  ({ rows, feedbackRows, objects, needsLookup, ofSpans, isConfined }: Placeholders<AppendInput>) => sql<Row>`
    with given as materialized (
      select ${isConfined ? IN_OWN_PROJECT : sql`*`}
      from json_to_recordset(${rows}::json) as g(${ROW_TYPES})
    ),
    ${mergeGiven(needsLookup ? FOUND : ofSpans ? FOUND_BY_TIME : undefined)},
    ${feedbackRows ? storeFeedbackOfRuns(feedbackRows) : sql``}
    ${attachFeedback(PROJECT_RUNS)}
    ${objects ? recordObjects(sql`${objects}`) : sql``}
    select count(*)
    from waiting_patches
    where tenant_id = current_tenant()
      and run_id in (select id from given where session_id is not null or session_name is not null)`,
)

/** Merges the rows of `given`, one for each run. A run in `found` keeps its place. */
const mergeGiven = (found: SQL | undefined): SQL => sql`
    ${placeGiven(found, { mayWait: found === FOUND })}
    written as (
      insert into runs (organization_id, tenant_id, id, ${columns(PLACE_COLUMNS)}, ${columns(VALUE_COLUMNS)})
      select current_organization(), current_tenant(), id, ${columns(PLACE_COLUMNS)}, ${columns(VALUE_COLUMNS)}
      from placed p
      where case
        when session_id is not null then true
        when has_no_project then false
        else refuse('project_not_found')
      end
      order by id
      on conflict (tenant_id, id, order_time, trace_tier) do update set
        ${MERGED_COLUMNS}
        where case
          when runs.session_id = excluded.session_id then true
          else refuse('run_in_other_project', runs.id::text)
        end
      returning id, trace_tier, trace_time, objects
    )`

// ---- patches before their posts

/** Merges the patches that waited for these runs, the oldest first. The schedule does it if this process ends. */
export async function mergeWaitingPatches(ctx: Ctx, runIds: string[]): Promise<void> {
  for (;;) {
    const [row] = await run(ctx, mergeWaiting(runIds), lockTraces([], { traceIds: [], runIds }))
    if (Number(row![0]) === 0) return
  }
}

const mergeWaiting = (runIds: string[]): SQL<Row> => sql`
    with oldest as (
      select distinct on (run_id) id
      from waiting_patches
      where tenant_id = current_tenant() and run_id = any(${uuidArray(runIds)})
      order by run_id, id
    ),
    taken as (
      delete from waiting_patches
      where tenant_id = current_tenant() and run_id = any(${uuidArray(runIds)}) and id in (select id from oldest)
      returning patch
    ),
    given as materialized (
      select g.*
      from taken
      cross join lateral json_to_record(patch) as g(${ROW_TYPES})
    ),
    ${mergeGiven(FOUND)}
    select count(*)
    from written`

// ---- objects

/** An object that no row refers to has lost against a patch. */
const recordObjects = (objects: SQL): SQL => sql`,
    recorded as (
      insert into trace_objects (organization_id, tenant_id, path, trace_id, session_id, run_id, expires_at, bytes)
      select
        current_organization(), current_tenant(), o.path, p.trace_id, p.session_id, p.id,
        case
          when w.id is null then clock() + kept_for('shortlived')
          when strpos(w.objects::text, o.path) > 0 then w.trace_time + kept_for(w.trace_tier)
          else clock()
        end,
        o.bytes
      from json_to_recordset(${objects}::json) as o(run_id uuid, path text, bytes bigint)
      join placed p on p.id = o.run_id
      left join written w on w.id = o.run_id
    )`

// ---- feedback

const PROJECT_RUNS = sql`(select * from placed where session_id is not null)`

const readPermittedFeedback = (rows: Placeholder): SQL => sql`
    ${readFeedbackRows(rows)}
    where ${requirePermission('feedback:create')}`

/** The feedback may be about these runs, or about others. */
const storeFeedbackOfRuns = (rows: Placeholder): SQL => sql`
    ${sql.join(storeFeedback(readPermittedFeedback(rows), { found: sql`runs`, written: PROJECT_RUNS }), sql`,`)},`

const feedbackStatement = prepareStatement(
  ({ feedbackRows }: Placeholders<{ feedbackRows: string }>) => sql`
    with ${sql.join(storeFeedback(readPermittedFeedback(feedbackRows), { found: sql`runs` }), sql`,`)}
    select`,
)
