// Moves runs of OpenTelemetry when their ancestors come in other requests.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { run } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { lockWholeTraces } from '../postgres/locks.ts'
import { registerSpans, selectMovedSpans } from '../postgres/span-places.ts'
import type { SpanPlace } from '../store.ts'
import { PLACED_LATER } from './run-columns.ts'
import { insertRuns, type PlacedRun, toWriteRow } from './write-rows.ts'

/** Moved is by a write that says nothing but the place, which wins over those of the run's own writes. */
export async function moveSpans(
  clickHouse: ClickHouse,
  ctx: Ctx,
  spans: SpanPlace[],
  stored: PlacedRun[],
): Promise<void> {
  const sessionOf = new Map(stored.map(({ id, session_id }) => [id, session_id]))
  const known = spans.flatMap(span => {
    const session_id = sessionOf.get(span.run_id)
    return session_id ? [{ ...span, session_id }] : []
  })
  const traces = [...new Set(known.map(({ trace }) => trace))]
  const [row] = await run(ctx, selectMovedSpans(known), [lockWholeTraces(traces), registerSpans(known)])
  const moved = JSON.parse(row![0] as string) as PlacedRun[]
  if (moved.length === 0) return
  const now = ctx.platform.clock.now()
  const version = BigInt(row![1] as string)
  const tenant = ctx.requestInfo.tenant!
  await insertRuns(
    clickHouse,
    moved.map(place => toWriteRow(tenant, place, { patched: PLACED_LATER }, version, now)),
  )
}
