// Turns silence into an outcome: revisions past their deadline fail and say so, deployments that idle read UNUSED.
import { type SQL, sql } from 'drizzle-orm'
import { type Database, runAsSystem, uuidArray } from '../kernel/db.ts'
import { systemEvents, systemSettings } from '../kernel/journal.ts'
import { pending } from '../tables.ts'
import { DEADLINES, UNUSED_AFTER } from './lifecycle.ts'
import { followed, moved, turns } from './queue.ts'

const MOST = 1000

const deadlines = JSON.stringify(
  Object.entries(DEADLINES).map(([status, { after, becomes, message }]) => ({ status, after, becomes, message })),
)
const overdue = sql`r.status = l.status and r.status_since <= clock() - l.after * interval '1 millisecond'`
const limits = sql`jsonb_to_recordset(${deadlines}::jsonb) l(status text, after bigint, becomes text, message text)`
/** The partial index's own condition, so that the sweep reads nothing else. */
const hasDeadline = pending(sql`r.status`)

/** Deployments that someone else is changing now are left for the next time. */
const hold = (inside: SQL) => sql`with held as (
    select c.id from deployments c where ${inside} and c.id in (select r.deployment_id from revisions r, ${limits} where ${hasDeadline} and ${overdue})
    order by c.id limit ${MOST} for update skip locked)
  select set_config('app.swept', coalesce(string_agg(id::text, ','), ''), true) from held`

const taken = sql`any(string_to_array(setting('swept'), ',')::uuid[])`

const failing = [
  sql`moves as (
    select r.id, r.deployment_id, r.number, l.becomes, l.message, '{}'::jsonb as resolved, null::jsonb as made_commit
    from revisions r, ${limits} where r.deployment_id = ${taken} and ${hasDeadline} and ${overdue})`,
  ...turns,
  sql`failed as (${moved})`,
  ...followed,
]

/**
 * Nothing of it changed or was in flight for so long. Its updated_at stays: nobody changed it now either. One whose revision fails now
 * is left for the next time, since a statement changes a row once.
 */
const idling = (inside: SQL) => [
  sql`still as (
    select c.id from deployments c where ${inside} and c.status = 'READY' and c.in_flight_revision_id is null and c.deleting_at is null
      and c.updated_at <= clock() - ${UNUSED_AFTER} * interval '1 millisecond' and (c.id = ${taken}) is not true
    order by c.id limit ${MOST} for update skip locked)`,
  sql`idle as (update deployments d set status = 'UNUSED', version = d.version + 1 from still where d.id = still.id returning d.*)`,
]

const events = systemEvents(sql`
  select tenant_id, organization_id, 'revision.' || lower(status) as type, id as subject_id,
    json_build_object('deployment_id', deployment_id, 'message', status_message) as data from failed
  union all select * from consequences
  union all select tenant_id, organization_id, 'deployment.unused', id, '{}' from idle`)

/** One statement, so that the journals of all workspaces are taken in one order: two sweeps would otherwise wait for each other. */
const outcome = (inside: SQL) =>
  sql`with ${sql.join([...failing, ...idling(inside), events], sql`, `)} select id from failed union all select id from idle`

type Scope = {
  /** How many milliseconds are taken to have passed. */
  ahead?: number
  /** These workspaces only. */
  within?: string[]
}
/** All in one trip and one transaction. */
export async function sweepRevisions(database: Database, { ahead = 0, within }: Scope = {}): Promise<void> {
  const settings = systemSettings(ahead, `sweep-${crypto.randomUUID()}`)
  const inside = within ? sql`c.tenant_id = any(${uuidArray(within)})` : sql`true`
  await runAsSystem(database, settings, hold(inside), outcome(inside))
}
