// Adds channels to new workspaces, sends the notices that are due, and deletes old ones and the windows of e-mails.
import { sql } from 'drizzle-orm'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { deliverDueNotices } from './notice-worker.ts'
import { addOwnerChannels } from './owner-channels.ts'

export async function sweepChannels(services: Services): Promise<void> {
  await deleteExpired(services, 'notices', [
    { table: 'notices', where: sql`created_at < clock() - interval '30 days'` },
    { table: 'mail_windows', where: sql`started_at < clock() - interval '1 day'` },
  ])
  await addOwnerChannels(services, sql`true`)
  await deliverDueNotices(services, sql`true`)
}
