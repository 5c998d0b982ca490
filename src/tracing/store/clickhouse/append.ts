// Stores runs: one statement of Postgres places them, and then one insert into ClickHouse stores them. The client
// repeats a request that failed in between, because it got no success.
import { sql } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { type Row, run, uuidArray } from '../../../kernel/db/db.ts'
import { type Ctx, isConfined } from '../../../kernel/http/context.ts'
import { invalidRequest } from '../../../kernel/http/input.ts'
import { toFeedbackRows } from '../../feedback/store-feedback.ts'
import { mergeOperations } from '../../ingest/merged-operations.ts'
import { type StoredRuns, withObjects } from '../../ingest/run-objects.ts'
import { lockTraces, lockWholeTraces } from '../postgres/locks.ts'
import type { NewFeedback, RunOperation, SpanPlace } from '../store.ts'
import { findPlaces } from './find-runs.ts'
import { OPEN_RUNS, type Placed, placeStatement, queueStatement, readPlaced } from './place-statement.ts'
import { moveSpans } from './span-places.ts'
import { mergeWaitingPatches } from './waiting-patches.ts'
import { enterWith } from './workspace.ts'
import { insertRuns, toWriteRow } from './write-rows.ts'

export async function append(
  clickHouse: ClickHouse,
  ctx: Ctx,
  operations: RunOperation[],
  feedback: NewFeedback[] = [],
  spans: SpanPlace[] = [],
): Promise<void> {
  const { runs, faults } = mergeOperations(operations, isConfined(ctx))
  if (faults.length > 0) throw invalidRequest(faults)
  const given = feedback.length > 0 ? { feedback, rows: toFeedbackRows(feedback) } : undefined
  if (runs.length === 0 && !given) return
  await withObjects(ctx, runs, stored => appendRows(clickHouse, ctx, stored, given, spans))
}

type Feedback = { feedback: NewFeedback[]; rows: string }
type Unassigned = { traceIds: string[]; runIds: string[] }

async function appendRows(
  clickHouse: ClickHouse,
  ctx: Ctx,
  { runs, objects }: StoredRuns,
  feedback: Feedback | undefined,
  spans: SpanPlace[],
): Promise<void> {
  const traceIds: string[] = []
  const unassigned: Unassigned = { traceIds: [], runIds: [] }
  for (const { id, place, session_id, session_name } of runs) {
    const hasProject = session_id !== undefined || session_name !== undefined || isConfined(ctx)
    if (!place) unassigned.runIds.push(id)
    else (hasProject ? traceIds : unassigned.traceIds).push(place.trace_id)
  }
  const isUnassigned = ({ place, session_id, session_name }: (typeof runs)[0]) =>
    !place || (session_id === undefined && session_name === undefined && !isConfined(ctx))
  const needsLookup = runs.some(isUnassigned)
  const known = needsLookup
    ? await findUnassigned(
        clickHouse,
        ctx,
        runs.filter(isUnassigned).map(({ id }) => id),
      )
    : []
  const foreign = feedback ? foreignRuns(feedback.feedback, runs) : []
  const found = foreign.length > 0 ? await findPlaces(clickHouse, ctx, foreign) : []
  const statement = placeStatement({
    rows: JSON.stringify(runs.map(run => toGiven(run, isUnassigned(run)))),
    ...(objects.length > 0 && { objects: JSON.stringify(objects) }),
    ...(feedback && { feedbackRows: feedback.rows, found: JSON.stringify(found) }),
    ...(needsLookup && { known: JSON.stringify(known) }),
    ...(isConfined(ctx) && { isConfined: true }),
  })
  const lock = spans.length > 0 ? lockWholeTraces([...new Set(traceIds)]) : lockTraces(traceIds, unassigned, OPEN_RUNS)
  const [row] = await run(ctx, statement, lock)
  const placed = readPlaced(row!)
  await insertPlaced(clickHouse, ctx, placed, runs)
  const later = { ...ctx, idempotency: null }
  if (spans.length > 0) await moveSpans(clickHouse, later, spans, placed.runs)
  if (placed.hasRules) await run(later, queueStatement({ runs: JSON.stringify(placed.runs) }))
  if (placed.waiting > 0)
    await mergeWaitingPatches(
      clickHouse,
      later,
      runs.map(({ id }) => id),
    )
}

async function insertPlaced(
  clickHouse: ClickHouse,
  ctx: Ctx,
  { runs: places, version }: Placed,
  runs: StoredRuns['runs'],
) {
  if (places.length === 0) return
  const byId = new Map(runs.map(run => [run.id, run]))
  const now = ctx.platform.clock.now()
  const rows = places.map(place => toWriteRow(ctx.requestInfo.tenant!, place, byId.get(place.id)!, version, now))
  await insertRuns(clickHouse, rows)
}

/** Postgres gets the members that it decides by. A patch that waits for its project waits as a whole. */
function toGiven(run: StoredRuns['runs'][number], mayWait: boolean): object {
  const { place, loc: _loc, attachments: _attachments, is_posted: _posted, ...values } = run
  if (mayWait) return { ...values, ...place }
  const { id, session_id, session_name, name, start_time, end_time, error } = run
  return {
    id,
    session_id,
    session_name,
    name,
    start_time,
    end_time,
    error: error === undefined ? undefined : '',
    ...place,
  }
}

/** Runs that patches without a project are about, as far as Postgres does not have them among the open ones. */
async function findUnassigned(clickHouse: ClickHouse, ctx: Ctx, ids: string[]): Promise<object[]> {
  const open = sql<Row>`
    select coalesce(json_agg(id), '[]')
    from open_runs
    where tenant_id = current_tenant() and id = any(${uuidArray(ids)})`
  const { row } = await enterWith(ctx, open)
  const known = new Set(JSON.parse(row[0] as string) as string[])
  const missing = ids.filter(id => !known.has(id))
  return missing.length > 0 ? findPlaces(clickHouse, ctx, missing) : []
}

const foreignRuns = (feedback: NewFeedback[], runs: StoredRuns['runs']): string[] => {
  const own = new Set(runs.map(({ id }) => id))
  return [...new Set(feedback.flatMap(({ run_id }) => (run_id && !own.has(run_id) ? [run_id] : [])))]
}
