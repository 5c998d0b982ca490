// Deletes the places of spans after a day. A span that comes later finds its parent no more, and hangs under the root.
import { sql } from 'drizzle-orm'
import { deleteExpired, type SweepServices } from '../../../kernel/db/sweep.ts'

export const expireSpans = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'spans', [{ table: 'otlp_spans', where: sql`created_at < clock() - interval '1 day'` }])
