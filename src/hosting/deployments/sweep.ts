// Fails overdue revisions, marks idle deployments UNUSED and those of a silent listener UNKNOWN, and records changes of
// health.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import { DEADLINES, LISTENER_LOST, LISTENER_SILENT_AFTER, UNUSED_AFTER } from './lifecycle.ts'
import { isHealthUnrecorded, isUnknownStatus } from './tables.ts'

const MAX_ROWS = 1000
const milliseconds = (duration: number) => sql`${duration} * interval '1 millisecond'`

// ---- revisions past their deadline

const DEADLINES_JSON = JSON.stringify(Object.entries(DEADLINES).map(([status, deadline]) => ({ status, ...deadline })))

/** Returns the deployments, as a literal of Postgres. */
const failOverdueRevisions = sql<[ids: string]>`
  select fail_overdue_revisions(
    ${DEADLINES_JSON},
    ${JSON.stringify(LISTENER_LOST)},
    ${milliseconds(LISTENER_SILENT_AFTER)},
    ${MAX_ROWS}
  )`

// ---- deployments of a silent listener

/** Listener `s`; one that never polled is silent from its registration on. */
const IS_LISTENER_SILENT = sql`coalesce(
    coalesce(s.last_seen_at, s.created_at) <= clock() - ${milliseconds(LISTENER_SILENT_AFTER)},
    false)`

const NEWLY_SILENT = sql`
      select c.id, c.status as previous_status, 'UNKNOWN' as becomes
      from listeners s
      join deployments c on c.listener_id = s.id
      where ${IS_LISTENER_SILENT} and c.status in ('READY', 'UNUSED')`
const POLLING_AGAIN = sql`
      select c.id, c.status, 'READY'
      from deployments c
      join listeners s on s.id = c.listener_id
      where ${isUnknownStatus(sql`c.status`)} and not ${IS_LISTENER_SILENT}`

/** A deployment whose revision fails now waits for the next sweep. */
const isNotIn = (failed: string): SQL => sql`c.id <> all(${failed}::uuid[])`

/** The second of two concurrent sweeps finds another status once it has the row. */
const findStatusChanges = (failed: string): SQL => sql`status_changes as (
    select c.id, t.previous_status, t.becomes
    from (${NEWLY_SILENT}
      union all${POLLING_AGAIN}) t
    join deployments c on c.id = t.id and c.status = t.previous_status
    where c.deleting_at is null
      and ${isNotIn(failed)}
    order by c.id
    limit ${MAX_ROWS}
    for update of c skip locked)`

const APPLIED_STATUS_CHANGES = sql`applied_status_changes as (
    update deployments d set status = t.becomes, version = d.version + 1
    from status_changes t
    where d.id = t.id
    returning d.*, t.previous_status)`

// ---- deployments whose health has changed

/** Health may use half of a day's events: a hundred applications that flap must not keep people from changes. */
const hasRoomForHealth = (eventsPerDay: number): SQL =>
  eventsPerDay === 0
    ? sql`true`
    : sql`not exists (
        select
        from journals j
        where j.scope_id = c.tenant_id and j.day = journal_day() and j.today >= ${Math.ceil(eventsPerDay / 2)})`

const findHealthChanges = (failed: string, eventsPerDay: number): SQL => sql`health_changes as (
    select c.id, c.recorded_healthy as previous_healthy
    from deployments c
    where ${isHealthUnrecorded(sql`c.healthy`, sql`c.recorded_healthy`)}
      and c.deleting_at is null
      and ${isNotIn(failed)}
      and c.id not in (select id from status_changes)
      and ${hasRoomForHealth(eventsPerDay)}
    order by c.id
    limit ${MAX_ROWS}
    for update skip locked)`

/** Health is no member of the resource, so the version stays. */
const RECORDED_HEALTH = sql`recorded_health as (
    update deployments d set recorded_healthy = d.healthy
    from health_changes t
    where d.id = t.id
    returning d.*, t.previous_healthy)`

// ---- unused deployments

/** An agent that cannot observe requests reports none: what it serves may be in use. */
const HAS_UNKNOWN_USE = sql`c.last_request_at is null
      and c.listener_id is not null
      and c.active_revision_id is not null`

const findIdle = (failed: string): SQL => sql`idle as (
    select c.id
    from deployments c
    where c.status = 'READY'
      and c.in_flight_revision_id is null
      and c.deleting_at is null
      and greatest(c.updated_at, c.last_request_at) <= clock() - ${milliseconds(UNUSED_AFTER)}
      and c.updated_at <= clock() - ${milliseconds(UNUSED_AFTER)}
      and not (${HAS_UNKNOWN_USE})
      and ${isNotIn(failed)}
      and c.id not in (select id from status_changes union all select id from health_changes)
    order by c.id
    limit ${MAX_ROWS}
    for update skip locked)`

/** updated_at stays: becoming unused is no change of the deployment. */
const UNUSED = sql`unused as (
    update deployments d set status = 'UNUSED', version = d.version + 1
    from idle
    where d.id = idle.id
    returning d.*)`

// ---- deployments that no listener ever served

const REMOVE_UNSERVED_AFTER = sql`interval '10 minutes'`
/** No agent has anything to remove. */
const removeUnserved = (failed: string): SQL => sql`removed as (
    delete from deployments
    where id in (
      select c.id
      from deployments c
      where c.listener_id is null and c.deleting_at <= clock() - ${REMOVE_UNSERVED_AFTER} and ${isNotIn(failed)}
      order by c.id
      limit ${MAX_ROWS}
      for update skip locked)
    returning *)`

const EVENTS = sql`
    select tenant_id, organization_id, 'deployment.' || lower(status) as type, id as subject_id, '{}'::json as data,
      changed_members(
        jsonb_build_object('status', previous_status), jsonb_build_object('status', status)
      ) as changes
    from applied_status_changes
    union all
    select tenant_id, organization_id,
      case when healthy then 'deployment.healthy' else 'deployment.unhealthy' end, id, '{}', changed_members(
        jsonb_build_object('healthy', coalesce(previous_healthy, true)), jsonb_build_object('healthy', healthy)
      )
    from recorded_health
    union all
    select tenant_id, organization_id, 'deployment.unused', id, '{}', changed_members(
        jsonb_build_object('status', 'READY'), jsonb_build_object('status', status)
      )
    from unused
    union all
    select tenant_id, organization_id, 'deployment.removed', id, '{}', changed_members(
        jsonb_build_object('status', status), null
      )
    from removed`

/** This is one statement, so it locks all journals in one order: otherwise two sweeps could deadlock. */
const sweepDeployments = (failed: string, eventsPerDay: number): SQL => sql`
  with ${sql.join(
    [
      findStatusChanges(failed),
      APPLIED_STATUS_CHANGES,
      findHealthChanges(failed, eventsPerDay),
      RECORDED_HEALTH,
      findIdle(failed),
      UNUSED,
      removeUnserved(failed),
    ],
    sql`,\n  `,
  )}
  select ${journalTenantEvents(EVENTS)}`

/** Runs two transactions, because each locks journals in their order. */
export async function sweepRevisions({ config, platform, database }: DatabaseServices): Promise<void> {
  const settings = setSystemSettings(platform, `sweep-${crypto.randomUUID()}`)
  const [, rows] = await runAsSystem(database, settings, failOverdueRevisions)
  const [[failed]] = rows as [[string]]
  await runAsSystem(database, settings, sweepDeployments(failed, config.eventsPerDay))
}
