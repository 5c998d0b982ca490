// The scheduled work of annotation queues: it extends the retention of what was added, and deletes what is old.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../kernel/db.ts'
import { setClock } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { upgradeWaitingTraces } from '../traces/waiting-upgrades.ts'

const MAX_ROWS = 25_000

const WAITING = {
  table: sql`annotation_queue_items`,
  isWaiting: sql`extends_retention and not is_upgraded`,
  oldestFirst: sql`created_at`,
  permission: 'annotation-queues:update' as const,
}

/** No trace is kept for longer, so their runs are gone. */
const EXPIRED = sql`
  delete from annotation_queue_items
  where ctid = any(array(
    select i.ctid
    from annotation_queue_items i
    where i.created_at < clock() - kept_for('longlived')
    limit ${MAX_ROWS}
    for update of i skip locked
  ))`

export async function sweepQueues(services: Services): Promise<void> {
  await upgradeWaitingTraces(services, WAITING)
  await runAsSystem(services.database, setClock(services.config), EXPIRED)
}
