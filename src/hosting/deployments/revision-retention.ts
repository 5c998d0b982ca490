// Deletes the logs of revisions that were replaced long ago, and revisions that are older still.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { HAS_SWEEP_LEASE, type SweepServices, takeSweepLease } from '../../kernel/db/sweep.ts'
import { MAX_LOG_LINES } from '../logs/logs.ts'

/** The newest revisions of each deployment stay, however old they are. */
const KEPT_REVISIONS = 100
const MAX_LOGS = 500
const MAX_LINES = 20_000
const MAX_REVISIONS = 500
const MAX_DEPLOYMENTS = 50
const BUDGET_MS = 10_000

const days = (count: number): SQL => sql`make_interval(days => ${count})`

/** Revision `r` of deployment `d`. Ids of the deployment may be null, which `in` would pass on. */
const IS_IN_USE = sql`(
        (r.id in (d.latest_revision_id, d.active_revision_id, d.in_flight_revision_id, d.waiting_revision_id)) is true
        or (d.traffic #>> '{beside, revision_id}' = r.id::text) is true
      )`
/** The counter of log lines would go with its revision. */
const HAS_COUNTER = sql`exists (select from log_counters c where c.revision_id = r.id and c.deployment_id = d.id)`

/** The time of the newest line of log `l`. */
const LAST_WRITTEN = sql`coalesce(
          (select max(n.timestamp) from log_lines n where n.revision_id = l.revision_id and n.kind = l.kind),
          r.created_at
        )`

/** One event for each deployment and batch. */
const DELETED_LOGS = sql`
      select due.tenant_id, due.organization_id, 'deployment.logs_expired' as type, due.deployment_id as subject_id,
        json_build_object('lines', sum(n.lines), 'revisions', count(distinct n.revision_id)) as data,
        null::json as changes
      from (select revision_id, kind, count(*) as lines from deleted_lines group by revision_id, kind) n
      join due on due.revision_id = n.revision_id and due.kind = n.kind
      group by due.tenant_id, due.organization_id, due.deployment_id`

/** Each log is looked at once a day. */
const deleteOldLogs = (kept: number): SQL<Row> => sql`
  with due as materialized (
    select *
    from (
      select l.revision_id, l.kind, r.deployment_id, r.tenant_id, r.organization_id,
        ${IS_IN_USE} or ${LAST_WRITTEN} > clock() - ${days(kept)} as is_kept,
        sum(l.kept_lines) over (order by l.check_at, l.revision_id, l.kind) - l.kept_lines as lines_before
      from (
        select *, least(lines, ${MAX_LOG_LINES}) as kept_lines
        from logs
        where check_at < clock() and ${HAS_SWEEP_LEASE}
        order by check_at
        limit ${MAX_LOGS}
      ) l
      join revisions r on r.id = l.revision_id
      join deployments d on d.id = r.deployment_id
    ) counted
    where is_kept or lines_before < ${MAX_LINES}
  ),
  looked_at as (
    update logs l
    set check_at = clock() + interval '1 day'
    from due
    where l.revision_id = due.revision_id and l.kind = due.kind and due.is_kept
  ),
  deleted_lines as (
    delete from log_lines n
    using due
    where n.revision_id = due.revision_id and n.kind = due.kind and not due.is_kept
    returning n.revision_id, n.kind
  ),
  deleted_logs as (
    delete from logs l
    using due
    where l.revision_id = due.revision_id and l.kind = due.kind and not due.is_kept
    returning 1
  )
  select (select count(*) from due), (select count(*) from deleted_lines), (select count(*) from deleted_logs)
  from (select ${journalTenantEvents(DELETED_LOGS)}) journaled`

/** Selects the revisions `r` of deployment `d` that may be deleted. */
const isOldRevision = (kept: number): SQL => sql`
          r.deployment_id = d.id
          and r.number <= d.revisions - ${KEPT_REVISIONS}
          and r.created_at < clock() - ${days(kept)}
          and not ${IS_IN_USE}
          and not ${HAS_COUNTER}`

/**
 * Each deployment has its turn once an hour. A rollback to an old revision locks its deployment too, so what it refers
 * to is not deleted meanwhile. The next statement sees what was written before the lock was granted.
 */
const lockDeploymentsInTurn = (kept: number): SQL => sql`
  with locked as (
    select d.id
    from deployments d
    where d.revisions > ${KEPT_REVISIONS}
      and abs(hashtext(d.id::text) % 60) = extract(minute from clock())
      and ${HAS_SWEEP_LEASE}
      and exists (select from revisions r where ${isOldRevision(kept)})
    order by d.id
    limit ${MAX_DEPLOYMENTS}
    for update of d skip locked
  )
  select set_config('app.swept', coalesce(string_agg(id::text, ','), ''), true)
  from locked`

/** One event for each deployment: it has its turn once an hour. */
const DELETED_REVISIONS = sql`
      select tenant_id, organization_id, 'deployment.revisions_expired' as type, deployment_id as subject_id,
        json_build_object('count', count(*), 'oldest', min(number), 'newest', max(number)) as data,
        null::json as changes
      from deleted
      group by tenant_id, organization_id, deployment_id`

/** A value of a secret goes with the last revision that has it. */
const deleteOldRevisions = (kept: number): SQL<Row> => sql`
  with old as materialized (
    select r.id, r.deployment_id
    from (
      select *
      from deployments
      where id = any(string_to_array(setting('swept'), ',')::uuid[])
    ) d
    cross join lateral (
      select r.*
      from revisions r
      where ${isOldRevision(kept)}
      order by r.number
      limit ${MAX_REVISIONS}
    ) r
    limit ${MAX_REVISIONS}
  ),
  deleted as (
    delete from revisions r
    using old
    where r.id = old.id
    returning r.*
  ),
  deleted_secrets as (
    delete from deployment_secrets s
    where s.deployment_id in (select deployment_id from old)
      and not exists (
        select
        from revisions r
        cross join json_to_recordset(r.secrets) k(name text, version integer)
        where r.deployment_id = s.deployment_id
          and r.id not in (select id from old)
          and k.name = s.name
          and k.version = s.version
      )
      and not exists (
        select
        from deployments d
        cross join json_to_recordset(d.secrets) k(name text, version integer)
        where d.id = s.deployment_id and k.name = s.name and k.version = s.version
      )
    returning 1
  )
  select (select count(*) from deleted), (select count(*) from deleted_secrets)
  from (select ${journalTenantEvents(DELETED_REVISIONS)}) journaled`

/** Runs the statements, which make progress, until it finds nothing or the time is over. */
async function repeat(
  { platform, database, onSweep }: SweepServices,
  sweep: string,
  tables: string[],
  statements: SQL[],
): Promise<void> {
  const end = Date.now() + BUDGET_MS
  let found = 1
  while (found > 0 && Date.now() < end && !platform.stopping?.aborted) {
    const startedAt = Date.now()
    const results = await runAsSystem(
      database,
      setSystemSettings(platform, `sweep-${sweep}`),
      takeSweepLease(sweep),
      ...statements,
    )
    const counts = ((results.at(-1) as Row[])[0] as string[]).map(Number)
    found = counts[0]!
    const ms = Date.now() - startedAt
    for (const [i, table] of tables.entries()) onSweep?.({ table, rows: counts.at(i - tables.length)!, ms })
  }
}

export async function sweepOldRevisions(services: SweepServices): Promise<void> {
  const { logRetentionDays, revisionRetentionDays } = services.config
  await repeat(services, 'logs', ['log_lines', 'logs'], [deleteOldLogs(logRetentionDays)])
  await repeat(
    services,
    'revisions',
    ['revisions', 'deployment_secrets'],
    [lockDeploymentsInTurn(revisionRetentionDays), deleteOldRevisions(revisionRetentionDays)],
  )
}
