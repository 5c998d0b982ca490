// Deletes share links and bypass tokens that have ended.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

export const sweepBypasses = (services: SweepServices) =>
  deleteExpired(services, 'bypasses', [
    { table: 'protection_bypasses', where: sql`expires_at < clock() - interval '7 days'` },
  ])
