// Locks between the writes of a trace and changes of its tier: each would miss rows of the other. They are statements
// of their own before the write, so that it sees the rows that others have committed meanwhile.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../../kernel/db/db.ts'

type Unassigned = { traceIds: string[]; runIds: string[] }
/**
 * Writes of one trace do not wait for each other, except for patches that name no project: such a patch and its post,
 * on two connections, would both miss each other. `runs` is the relation that says the traces of runs.
 */
export const lockTraces = (traceIds: string[], unassigned: Unassigned, runs = sql`runs`): SQL => {
  const traces = sql`
    select ${TIERS} as key, false as is_exclusive
    union all
    select ${keyOf(sql`id`)}, false
    from unnest(${uuidArray(traceIds)}) id`
  return unassigned.traceIds.length + unassigned.runIds.length === 0
    ? lock(traces)
    : lock(sql`${traces}
    union all
    select ${keyOf(sql`id`)}, true
    from unnest(${uuidArray(unassigned.traceIds)}) id
    union all
    select ${keyOf(sql`trace_id`)}, false
    from ${runs} r
    where tenant_id = current_tenant() and id = any(${uuidArray(unassigned.runIds)})`)
}

/** Goes before a statement that moves or deletes these traces. */
export const lockWholeTraces = (traceIds: string[]): SQL =>
  lock(sql`
    select ${keyOf(sql`id`)} as key, true as is_exclusive
    from unnest(${uuidArray(traceIds)}) id`)

/** Goes before a statement that changes the tier of a project. */
export const lockTiers = (): SQL => sql`select pg_advisory_xact_lock(${TIERS})`

/**
 * Traces of a workspace share 32 locks: Postgres has room for about 6,000 locks of all transactions together, and a
 * batch may have a hundred traces.
 */
const keyOf = (traceId: SQL): SQL => sql`${WORKSPACE} # (hashtextextended(${traceId}::text, 0) & 31)`
const WORKSPACE = sql`hashtextextended(current_tenant()::text, 0)`
const TIERS = sql`${WORKSPACE} # 32`

/** Locks in the order of the keys, so that two requests do not deadlock. */
const lock = (keys: SQL): SQL => sql`
  select case when is_exclusive then pg_advisory_xact_lock(key) else pg_advisory_xact_lock_shared(key) end
  from (
    select key, bool_or(is_exclusive) as is_exclusive
    from (${keys}) keys
    group by key
    order by key
  ) keys`
