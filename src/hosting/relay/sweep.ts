// Ends tunnels whose instance has ended or whose client never came, and deletes old ones.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import { deleteExpired, HAS_SWEEP_LEASE, type SweepServices, takeSweepLease } from '../../kernel/db/sweep.ts'
import { journalEnds } from './pairs.ts'

const MAX_ENDS = 500

/** An instance writes `seen_at` every 15 seconds. */
export async function sweepTunnels(services: SweepServices): Promise<void> {
  const { platform, database } = services
  const endLost = sql`
    with ended as (
      update tunnels
      set ended_at = clock(), request = null,
        end_reason = case when joined_at is null then 'not_used' else 'instance_lost' end
      where id in (
        select id
        from tunnels
        where ${HAS_SWEEP_LEASE}
          and ended_at is null
          and (joined_at is null and expires_at < clock() or seen_at < clock() - interval '2 minutes')
        limit ${MAX_ENDS}
        for update skip locked
      )
      returning *)
    select ${journalEnds}
    from ended`
  await runAsSystem(
    database,
    setSystemSettings(platform, `sweep-${crypto.randomUUID()}`),
    takeSweepLease('tunnels'),
    endLost,
  )
  await deleteExpired(services, 'tunnels', [{ table: 'tunnels', where: sql`ended_at < clock() - interval '1 day'` }])
}
