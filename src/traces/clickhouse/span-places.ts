// Moves runs of OpenTelemetry when their ancestors come in other requests.
import type { Ctx } from '../../kernel/context.ts'
import { run } from '../../kernel/db.ts'
import { lockWholeTraces } from '../postgres/locks.ts'
import { registerSpans, selectMovedSpans } from '../postgres/span-places.ts'
import type { SpanPlace } from '../store.ts'
import type { ClickHouse } from './client.ts'
import { findPlaces } from './find-runs.ts'
import { insertRuns, type PlacedRun, toWriteRow } from './write-rows.ts'

type Moved = Pick<PlacedRun, 'id' | 'trace_id' | 'trace_time' | 'dotted_order' | 'parent_run_id'>

/** A write that says nothing but the place: the latest place counts. */
export async function moveSpans(
  clickHouse: ClickHouse,
  ctx: Ctx,
  spans: SpanPlace[],
  stored: PlacedRun[],
): Promise<void> {
  const traces = [...new Set(spans.map(({ trace }) => trace))]
  const [row] = await run(ctx, selectMovedSpans(spans), [lockWholeTraces(traces), registerSpans(spans)])
  const moved = JSON.parse(row![0] as string) as Moved[]
  if (moved.length === 0) return
  const known = new Map(stored.map(place => [place.id, place]))
  const missing = moved.filter(({ id }) => !known.has(id)).map(({ id }) => id)
  if (missing.length > 0)
    for (const place of (await findPlaces(clickHouse, ctx, missing)) as unknown as PlacedRun[])
      known.set(place.id, place)
  const now = Date.now() + ctx.config.clockOffset()
  const rows = moved.flatMap(place => {
    const earlier = known.get(place.id)
    return earlier
      ? [toWriteRow(ctx.requestInfo.tenant!, { ...earlier, ...place }, {}, BigInt(row![1] as string), now)]
      : []
  })
  if (rows.length > 0) await insertRuns(clickHouse, rows)
}
