// Deletes the usage of models after as long as events are kept.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

export const sweepModelUsage = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'model usage', [
    { table: 'model_usage', where: sql`day < (clock() - interval '400 days')::date` },
  ])
