// Turns silence into an outcome: revisions past their deadline fail and say so, deployments that idle read UNUSED, those of a silent listener UNKNOWN.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../kernel/db.ts'
import { journalSystemEvents, setSystemSettings } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { isPendingStatus, isUnknownStatus } from '../tables/deployments.ts'
import { DEADLINES, LISTENER_LOST, LISTENER_SILENT_AFTER, UNUSED_AFTER } from './lifecycle.ts'
import { applyMoves, applyMovesToDeployments, promoteWithoutReports } from './revision-queue.ts'

const MAX_ROWS = 1000

const deadlinesJson = JSON.stringify(
  Object.entries(DEADLINES).map(([status, { after, becomes, message }]) => ({ status, after, becomes, message })),
)
const isOverdue = sql`r.status = l.status and r.status_since <= clock() - l.after * interval '1 millisecond'`
const deadlineRows = sql`jsonb_to_recordset(${deadlinesJson}::jsonb) l(status text, after bigint, becomes text, message text)`
/** The partial index's own condition, so that the sweep reads nothing else. */
const hasDeadline = isPendingStatus(sql`r.status`)

/** Deployments that someone else is changing now are left for the next time. */
const lockOverdueDeployments = sql`with held as (
    select c.id from deployments c where c.id in (select r.deployment_id from revisions r, ${deadlineRows} where ${hasDeadline} and ${isOverdue})
    order by c.id limit ${MAX_ROWS} for update skip locked)
  select set_config('app.swept', coalesce(string_agg(id::text, ','), ''), true) from held`

/** Of a listener `s`; one that never came is silent from its registration on. */
const isListenerSilent = sql`coalesce(coalesce(s.last_seen_at, s.created_at) <= clock() - ${LISTENER_SILENT_AFTER} * interval '1 millisecond', false)`
const isLost = sql`r.status = 'DEPLOYING' and ${isListenerSilent}`

const anyLockedId = sql`any(string_to_array(setting('swept'), ',')::uuid[])`

const failOverdueRevisions = [
  sql`moves as (
    select r.id, r.deployment_id, r.number, case when ${isLost} then ${LISTENER_LOST.becomes} else l.becomes end as becomes,
      case when ${isLost} then ${LISTENER_LOST.message} else l.message end as message, '{}'::jsonb as resolved, null::jsonb as made_commit
    from revisions r join deployments c on c.id = r.deployment_id left join listeners s on s.id = c.listener_id cross join ${deadlineRows}
    where r.deployment_id = ${anyLockedId} and ${hasDeadline} and ${isOverdue})`,
  ...promoteWithoutReports,
  sql`failed as (${applyMoves})`,
  ...applyMovesToDeployments,
]

/** Whose revision fails now is left for the next time, since a statement changes a row once. */
const isNotLocked = sql`(c.id = ${anyLockedId}) is not true`

/** Nobody says how they fare while their listener is silent; once it is heard of again, they read as before. */
const updateSilentDeployments = [
  sql`turned as (
    select c.id, case when c.status = 'UNKNOWN' then 'READY' else 'UNKNOWN' end as becomes from deployments c
    where c.deleting_at is null and ${isNotLocked} and c.id in (
      select c.id from listeners s join deployments c on c.listener_id = s.id where ${isListenerSilent} and c.status in ('READY', 'UNUSED')
      union all
      select c.id from deployments c join listeners s on s.id = c.listener_id where ${isUnknownStatus(sql`c.status`)} and not ${isListenerSilent})
    order by c.id limit ${MAX_ROWS} for update skip locked)`,
  sql`heard as (update deployments d set status = t.becomes, version = d.version + 1 from turned t where d.id = t.id returning d.*)`,
]

/** An agent that cannot see requests tells of none: what it serves may be in use. */
const hasUnknownUse = sql`c.last_request_at is null and c.listener_id is not null and c.active_revision_id is not null`

/** Nothing of it changed or was in flight for so long, and nobody used it. Its updated_at stays: nobody changed it now either. */
const markUnusedDeployments = [
  sql`still as (
    select c.id from deployments c where c.status = 'READY' and c.in_flight_revision_id is null and c.deleting_at is null
      and greatest(c.updated_at, c.last_request_at) <= clock() - ${UNUSED_AFTER} * interval '1 millisecond'
      and c.updated_at <= clock() - ${UNUSED_AFTER} * interval '1 millisecond' and not (${hasUnknownUse}) and ${isNotLocked} and c.id not in (select id from turned)
    order by c.id limit ${MAX_ROWS} for update skip locked)`,
  sql`idle as (update deployments d set status = 'UNUSED', version = d.version + 1 from still where d.id = still.id returning d.*)`,
]

const REMOVE_UNSERVED_AFTER = sql`interval '10 minutes'`
/** What no listener ever took up, no agent has to remove. */
const removeUnservedDeployments = sql`removed as (delete from deployments where id in (
    select c.id from deployments c where c.listener_id is null and c.deleting_at <= clock() - ${REMOVE_UNSERVED_AFTER} and ${isNotLocked}
    order by c.id limit ${MAX_ROWS} for update skip locked) returning *)`

const sweepEvents = journalSystemEvents(sql`
  select tenant_id, organization_id, 'revision.' || lower(status) as type, id as subject_id,
    json_build_object('deployment_id', deployment_id, 'message', status_message) as data from failed
  union all select * from consequences
  union all select tenant_id, organization_id, 'deployment.' || lower(status), id, '{}' from heard
  union all select tenant_id, organization_id, 'deployment.unused', id, '{}' from idle
  union all select tenant_id, organization_id, 'deployment.removed', id, '{}' from removed`)

/** One statement, so that the journals of all workspaces are taken in one order: two sweeps would otherwise wait for each other. */
const sweepStatement = sql`with ${sql.join([...failOverdueRevisions, ...updateSilentDeployments, ...markUnusedDeployments, removeUnservedDeployments, sweepEvents], sql`, `)} select count(*) from event_rows`

/** All in one trip and one transaction. */
export async function sweepRevisions({ config, database }: Pick<Services, 'config' | 'database'>): Promise<void> {
  const settings = setSystemSettings(config, `sweep-${crypto.randomUUID()}`)
  await runAsSystem(database, settings, lockOverdueDeployments, sweepStatement)
}
