// Fails overdue revisions, marks idle deployments UNUSED and those of a silent listener UNKNOWN, and records changes of
// health, restarts and lost listeners.
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

// ---- deployments whose health has changed, or that were restarted

/** Health may use half of a day's events: a hundred applications that flap must not keep people from changes. */
const hasRoomForHealth = (eventsPerDay: number): SQL =>
  eventsPerDay === 0
    ? sql`true`
    : sql`not exists (
        select
        from journals j
        where j.scope_id = c.tenant_id and j.day = journal_day() and j.today >= ${Math.ceil(eventsPerDay / 2)})`

/** It changed six times within an hour, and was not the same for a quarter of an hour since. */
const IS_FLAPPING = sql`(
      json_array_length(c.health_changes) = 6
      and (c.health_changes ->> 5)::timestamptz > clock() - interval '1 hour'
      and c.health_since > clock() - interval '15 minutes')`

const findHealthChanges = (failed: string, eventsPerDay: number): SQL => sql`health_changes as (
    select c.id, c.recorded_health as previous_health, f.becomes
    from deployments c
    cross join lateral (select case when ${IS_FLAPPING} then 'flapping' else c.health end as becomes) f
    where ${isHealthUnrecorded(sql`c.health`, sql`c.recorded_health`)}
      and f.becomes is distinct from c.recorded_health
      and c.deleting_at is null
      and ${isNotIn(failed)}
      and c.id not in (select id from status_changes)
      and ${hasRoomForHealth(eventsPerDay)}
    order by c.id
    limit ${MAX_ROWS}
    for update of c skip locked)`

/** Restarts and the like: at most once in ten minutes for each deployment, with how many there were. */
const findIncidents = (failed: string, eventsPerDay: number): SQL => sql`due_incidents as (
    select c.id, c.incidents as due
    from deployments c
    where c.incidents_due <= clock()
      and c.deleting_at is null
      and ${isNotIn(failed)}
      and c.id not in (select id from status_changes union all select id from health_changes)
      and ${hasRoomForHealth(eventsPerDay)}
    order by c.incidents_due
    limit ${MAX_ROWS}
    for update skip locked)`

/** Health moves by itself, so the version stays. */
const RECORDED_HEALTH = sql`recorded_health as (
    update deployments d set recorded_health = t.becomes
    from health_changes t
    where d.id = t.id
    returning d.*, coalesce(t.previous_health, 'healthy') as previous_health)`
const RECORDED_INCIDENTS = sql`recorded_incidents as (
    update deployments d
    set
      incidents = (
        select json_agg(i.value::jsonb || '{"pending": 0}' order by i.place)
        from json_array_elements(t.due) with ordinality i(value, place)),
      incidents_due = null,
      incidents_recorded_at = clock()
    from due_incidents t
    where d.id = t.id
    returning d.*, t.due)`

/** `healthy` is what earlier releases recorded. */
const healthMembers = (health: SQL): SQL => sql`
        jsonb_build_object('health', ${health}, 'healthy', ${health} not in ('unhealthy', 'crash_looping'))`

// ---- listeners that are lost

const LOST_LISTENERS = sql`lost_listeners as (
    select s.id, ${IS_LISTENER_SILENT} as is_lost
    from listeners s
    where s.last_seen_at is not null and ${IS_LISTENER_SILENT} = (s.lost_at is null)
    order by s.id
    limit ${MAX_ROWS}
    for update skip locked)`
const RECORDED_LISTENERS = sql`recorded_listeners as (
    update listeners l set lost_at = case when t.is_lost then clock() end
    from lost_listeners t
    where l.id = t.id
    returning l.*)`

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
      and c.id not in (
        select id from status_changes union all select id from health_changes union all select id from due_incidents
      )
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
      'deployment.' || case recorded_health when 'flapping' then 'health_flapping' else recorded_health end, id,
      case when health_reason is not null then json_build_object('message', left(health_reason, 500)) else '{}' end,
      changed_members(${healthMembers(sql`previous_health`)}, ${healthMembers(sql`recorded_health`)})
    from recorded_health
    union all
    select tenant_id, organization_id, 'deployment.' || (i ->> 'kind'), id,
      json_build_object('count', i -> 'pending', 'last_at', i -> 'last_at', 'message', left(i ->> 'message', 500)), null
    from recorded_incidents
    cross join json_array_elements(due) i
    where (i ->> 'pending')::integer > 0
    union all
    select tenant_id, organization_id, case when lost_at is null then 'listener.found' else 'listener.lost' end, id,
      json_build_object('last_seen_at', last_seen_at), null
    from recorded_listeners
    where tenant_id is not null
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
      findIncidents(failed, eventsPerDay),
      RECORDED_INCIDENTS,
      LOST_LISTENERS,
      RECORDED_LISTENERS,
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
