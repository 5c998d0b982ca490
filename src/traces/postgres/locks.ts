// Locks between the writes of a trace and what moves it to another tier, which would each miss rows of the other.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../kernel/db.ts'

/** Before a statement that writes runs of these traces. */
export const lockTraces = (traceIds: string[]): SQL => sql`
  select pg_advisory_xact_lock_shared(key)
  from (
    select distinct hashtextextended(trace_id::text, 0) as key
    from unnest(${uuidArray(traceIds)}) trace_id
    order by key
  ) keys`

/** Before a statement that moves these traces. Such statements wait for each other, too. */
export const lockMovedTraces = (traceIds: string[]): SQL => sql`
  select pg_advisory_xact_lock(key)
  from (
    select distinct hashtextextended(trace_id::text, 0) as key
    from unnest(${uuidArray(traceIds)}) trace_id
    order by key
  ) keys`
