// Receives metrics from agents: the last minute of every copy. Not journaled, and a repeated request adds nothing.

import { sql } from 'drizzle-orm'
import { type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { type Ctx, hasCredential, verb } from '../../kernel/http/context.ts'
import type { MetricReceipt, Metrics } from '../../protocol/metrics.schema.ts'
import { appendPoints, lockDeploymentsOf } from '../metrics/metric-points.ts'
import { lockLease } from './lease.ts'

type RefusedRow = [place: string, code: MetricReceipt['refused'][number]['code']]

const senderOf = ({ actor }: Ctx): string => (hasCredential(actor) ? actor.hash : String(actor.id))

export const receiveMetrics = verb('listeners:sync', async (ctx, input: Metrics): Promise<MetricReceipt> => {
  const { points } = input
  const rows = await run(ctx, appendPoints(points), [lockLease(input), lockDeploymentsOf(points)])
  if (ctx.lookAtAlerts) ctx.waitUntil?.(ctx.lookAtAlerts({ points, isEarly: false, from: senderOf(ctx) }))
  return { refused: (rows as RefusedRow[]).map(([place, code]) => ({ place: Number(place), code })) }
})

/** The minute of these points is not over: they are looked at, and not stored. */
export const receiveEarlyMetrics = verb('listeners:sync', async (ctx, input: Metrics): Promise<MetricReceipt> => {
  const served = sql<Row>`
    select array_agg(d.id)
    from deployments d
    join unnest(${uuidArray(input.points.map(({ deployment_id }) => deployment_id))}) g(id) on g.id = d.id
    where d.listener_id = current_listener()`
  const [[ids]] = (await run(ctx, served, lockLease(input))) as [[string | null]]
  const points = input.points.filter(({ deployment_id }) => ids?.includes(deployment_id))
  if (points.length > 0 && ctx.lookAtAlerts)
    ctx.waitUntil?.(ctx.lookAtAlerts({ points, isEarly: true, from: senderOf(ctx) }))
  return {
    refused: input.points.flatMap((point, place) =>
      points.includes(point) ? [] : [{ place, code: 'revision_unknown' as const }],
    ),
  }
})
