// Deletes installs of the GitHub App that were not completed within the hour.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

export const sweepInstalls = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'installs', [{ table: 'integration_installs', where: sql`expires_at < clock()` }])
