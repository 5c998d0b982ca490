// Deletes points of metrics: minutes after a day, hours after 30 days.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'
import { HOUR_SECONDS, MINUTE_SECONDS } from './metric-points.ts'

export const sweepMetrics = (services: SweepServices): Promise<number> =>
  deleteExpired(
    services,
    'metrics',
    ['metric_points', 'process_points', 'store_points'].flatMap(table => [
      { table, where: sql`seconds = ${MINUTE_SECONDS} and at < clock() - interval '24 hours'` },
      { table, where: sql`seconds = ${HOUR_SECONDS} and at < clock() - interval '720 hours'` },
    ]),
  )
