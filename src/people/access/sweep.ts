// Deletes API keys that were revoked or expired long ago. Until then they are listed, for those who read old events.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'

/**
 * A key stays as long as those that were made with it: to revoke the key that made it revokes them too. That of a
 * connected client stays until the client's grant expires.
 */
export const sweepEndedKeys = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'api keys', [
    {
      table: 'api_keys',
      where: sql`
        least(revoked_at, expires_at) < clock() - make_interval(days => ${services.config.auditRetentionDays})
        and not exists (select from api_keys made where made.created_by = api_keys.id)
        and not exists (
          select from oauth_grants g
          where g.key_id = api_keys.id and g.expires_at > clock() and api_keys.revoked_at is null
        )`,
    },
    // A job has a key for minutes, and there are many jobs. Their events say for whom each key was.
    {
      table: 'api_keys',
      where: sql`
        trusted_issuer_id is not null and expires_at < clock() - interval '1 day'
        and not exists (select from api_keys made where made.created_by = api_keys.id)`,
    },
    { table: 'exchanged_tokens', where: sql`expires_at < clock()` },
  ])
