// Deletes snapshots whose agent has not told for long that it has them.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

export const sweepSnapshots = (services: SweepServices) =>
  deleteExpired(services, 'snapshots', [{ table: 'snapshots', where: sql`expires_at < clock() - interval '30 days'` }])
