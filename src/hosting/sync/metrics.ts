// Receives metrics from agents: the last minute of every copy. Not journaled, and a repeated request adds nothing.

import { run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import type { MetricReceipt, Metrics } from '../../protocol/metrics.schema.ts'
import { appendPoints, lockDeploymentsOf } from '../metrics/metric-points.ts'
import { lockLease } from './lease.ts'

type RefusedRow = [place: string, code: MetricReceipt['refused'][number]['code']]

export const receiveMetrics = verb('listeners:sync', async (ctx, input: Metrics): Promise<MetricReceipt> => {
  const { points } = input
  const rows = await run(ctx, appendPoints(points), [lockLease(input), lockDeploymentsOf(points)])
  return { refused: (rows as RefusedRow[]).map(([place, code]) => ({ place: Number(place), code })) }
})
