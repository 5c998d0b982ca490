// The relations of this store that statements of other slices join.
import { sql } from 'drizzle-orm'

export const RUNS = sql`runs`
export const SESSION_MINUTES = sql`session_minutes`
