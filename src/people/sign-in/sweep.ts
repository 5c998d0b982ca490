// Deletes sessions, links and requests to sign in that have expired, and the grants of connected programs.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

export const sweepSessions = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'sessions', [
    { table: 'sessions', where: sql`expires_at < clock()` },
    { table: 'sign_in_links', where: sql`expires_at < clock() - interval '1 day'` },
    // A device learns until then that its code has expired.
    { table: 'device_requests', where: sql`expires_at < clock() - interval '10 minutes'` },
    { table: 'oauth_grants', where: sql`expires_at < clock() - interval '10 minutes'` },
  ])
