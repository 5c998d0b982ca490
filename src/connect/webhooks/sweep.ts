// Sends the deliveries that are due, and deletes old ones and replaced secrets.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { deliverDue } from './delivery-worker.ts'

/** Deliveries that wait are kept. Others are, for 30 days and the last 50,000 events of the workspace. */
const RETENTION = sql`interval '30 days'`
const MAX_EVENTS_BACK = 50_000
const DELETE_BATCH = 10_000

export async function sweepWebhooks(services: Services): Promise<void> {
  await deleteExpired(services, 'webhook deliveries', [
    { table: 'webhook_deliveries', where: sql`state <> 'waiting' and created_at < clock() - ${RETENTION}` },
  ])
  const deleteFarBack = sql`
    delete from webhook_deliveries
    where id = any(array(
      select d.id
      from webhooks w
      join webhook_deliveries d on d.webhook_id = w.id and d.seq < w.position - ${MAX_EVENTS_BACK}
      where d.state <> 'waiting'
      limit ${DELETE_BATCH}
    ))`
  const forgetSecrets = sql`
    update webhooks
    set previous_secret = null, previous_secret_until = null
    where previous_secret_until < clock()`
  await runAsSystem(services.database, setClock(services.platform), deleteFarBack, forgetSecrets)
  await deliverDue(services, sql`true`)
}
