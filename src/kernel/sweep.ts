// Scheduled deletion of expired rows: rate windows and stored answers.
import { sql } from 'drizzle-orm'
import { type Database, runAsSystem } from './db.ts'

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
  )
}
