// Times as texts, in UTC with microseconds.
import { type SQL, sql } from 'drizzle-orm'

export const toIso = (time: SQL): SQL => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
