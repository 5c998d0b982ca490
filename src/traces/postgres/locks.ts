// Locks between the writes of a trace and what moves it to another tier, which would each miss rows of the other. A
// statement of its own before the write, so that the write sees what others have committed meanwhile.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../kernel/db.ts'

/**
 * Writes of one trace do not wait for each other, except for patches that name no project: such a patch and its post,
 * on two connections, would both miss each other.
 */
export const lockTraces = (traceIds: string[], unassigned: { traceIds: string[]; runIds: string[] }): SQL =>
  unassigned.traceIds.length + unassigned.runIds.length === 0
    ? lock(sql`select unnest(${uuidArray(traceIds)}) as trace_id, false as is_exclusive`)
    : lock(sql`
    select unnest(${uuidArray(traceIds)}) as trace_id, false as is_exclusive
    union all
    select unnest(${uuidArray(unassigned.traceIds)}), true
    union all
    select trace_id, false
    from runs
    where tenant_id = current_tenant() and id = any(${uuidArray(unassigned.runIds)})`)

/** Before a statement that moves or deletes these traces. */
export const lockWholeTraces = (traceIds: string[]): SQL =>
  lock(sql`select unnest(${uuidArray(traceIds)}) as trace_id, true as is_exclusive`)

/** In the order of the keys, so that two requests do not deadlock. */
const lock = (traces: SQL): SQL => sql`
  select case when is_exclusive then pg_advisory_xact_lock(key) else pg_advisory_xact_lock_shared(key) end
  from (
    select hashtextextended(trace_id::text, 0) as key, bool_or(is_exclusive) as is_exclusive
    from (${traces}) traces
    group by hashtextextended(trace_id::text, 0)
    order by key
  ) keys`
