// Scheduled housekeeping: what has served its time goes.
import { sql } from 'drizzle-orm'
import { type Database, runAsSystem } from './db.ts'

/** Answers kept for repeated requests, and the counts of keys that have gone quiet. Neither is a change anyone made. */
export async function sweep(database: Database): Promise<void> {
  await runAsSystem(
    database,
    sql`with quiet as (delete from rate_windows where started_at < clock() - interval '1 day')
      delete from idempotency_keys where created_at < clock() - interval '24 hours'`,
  )
}
