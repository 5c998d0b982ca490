// Scheduled deletion of expired rows: rate windows, stored answers, old events.
import { sql } from 'drizzle-orm'
import { type Database, runAsSystem } from './db.ts'

const EVENT_BATCH = 10_000

export async function sweepExpiredRows(database: Database): Promise<void> {
  await runAsSystem(
    database,
    sql`
      with expired_windows as (
        delete from rate_windows
        where started_at < clock() - interval '1 day'
      )
      delete from idempotency_keys
      where created_at < clock() - interval '24 hours'`,
    sql`
      delete from events
      where ctid = any(array(
        select ctid
        from events
        where created_at < clock() - interval '400 days'
        limit ${EVENT_BATCH}
      ))`,
  )
}
