// The scheduled work of traces: partitions for the days to come, and the deletion of expired rows, in batches.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray, uuidArray } from '../../../kernel/db/db.ts'
import { setClock } from '../../../kernel/db/journal.ts'
import { LEASE } from '../../../kernel/db/outbox.ts'
import { deleteExpired, HAS_SWEEP_LEASE, takeSweepLease } from '../../../kernel/db/sweep.ts'
import { createKeylessCaller } from '../../../kernel/http/context.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import type { Services } from '../../../kernel/http/routes.ts'
import { mergeWaitingPatches } from './append.ts'

/** The budget is under half the schedule's minute. */
export const BUDGET_MS = 25_000
const MAX_RUNS = 2000
const MAX_OBJECTS = 200
const MAX_ROWS = 10_000

export async function expire(services: Services): Promise<void> {
  const { database } = services
  const end = Date.now() + BUDGET_MS
  const hasTime = () => Date.now() < end && !services.platform.stopping?.aborted
  // Partitions follow the real clock, because the tables are those of all workspaces. Shifted clocks have their own.
  await runAsSystem(
    database,
    takeSweepLease('runs partitions'),
    sql`select case when ${HAS_SWEEP_LEASE} then make_runs_partitions(now()) end`,
    sql`select case when ${HAS_SWEEP_LEASE} then drop_expired_runs(now()) end`,
  )
  while ((await deleteRuns(services)) && hasTime());
  await deleteOldRows(services)
  await mergeLatePatches(services)
  while ((await removeObjects(services)) && hasTime());
}

// ---- runs

const KEYS = sql`r.tenant_id, r.id, r.order_time, r.trace_tier`

const ofWrongClocks = (tier: 'shortlived' | 'longlived'): SQL => sql`
    select ${KEYS}
    from ${sql.identifier(`runs_${tier}_other`)} r
    where order_time < clock() - kept_for(${tier})
    order by order_time
    limit ${MAX_RUNS}
    for update skip locked`

/** Runs of projects that keep long-lived runs for less. Each project has its turn once an hour. */
const OF_SHORT_PROJECTS = sql`
    select ${KEYS}
    from (
      select p.id, p.tenant_id, coalesce(p.longlived_ttl_days, t.longlived_ttl_days) as days
      from projects p
      left join ttl_settings t on t.tenant_id = p.tenant_id
    ) p
    cross join lateral (
      select *
      from runs r
      where r.tenant_id = p.tenant_id
        and r.session_id = p.id
        and r.trace_tier = 'longlived'
        and r.order_time < clock() - make_interval(days => p.days)
      limit ${MAX_RUNS}
      for update skip locked
    ) r
    where p.days < 400
      and abs(hashtext(p.id::text) % 60) = extract(minute from clock())
    limit ${MAX_RUNS}`

const OF_DELETED_PROJECTS = sql`
    select ${KEYS}
    from deleted_projects p
    cross join lateral (
      select *
      from runs r
      where r.tenant_id = p.tenant_id and r.session_id = p.id
      limit ${MAX_RUNS}
      for update skip locked
    ) r
    where not p.is_swept
    limit ${MAX_RUNS}`

const deleteDoomed = (doomed: SQL): SQL<Row> => sql`
  with doomed as materialized (${doomed}
  ),
  deleted as (
    delete from runs r
    using doomed d
    where r.tenant_id = d.tenant_id
      and r.id = d.id
      and r.order_time = d.order_time
      and r.trace_tier = d.trace_tier
    returning r.tenant_id, r.trace_id, r.id
  ),
  expired as (
    update trace_objects o
    set expires_at = clock()
    from deleted d
    where o.tenant_id = d.tenant_id and o.trace_id = d.trace_id and o.run_id = d.id
  )
  select count(*)
  from deleted`

/** Deletes runs that no dropped partition takes along. Their counts stay. Returns true if there may be more. */
async function deleteRuns({ platform, database }: Services): Promise<boolean> {
  const [, , ...counts] = await runAsSystem(
    database,
    setClock(platform),
    sql`select set_config('app.keeps_counts', 'true', true)`,
    ...[ofWrongClocks('shortlived'), ofWrongClocks('longlived'), OF_SHORT_PROJECTS, OF_DELETED_PROJECTS].map(
      deleteDoomed,
    ),
  )
  return counts.some(rows => Number((rows as Row[])[0]![0]) >= MAX_RUNS)
}

// ---- other rows

/** A write that ran when its project was deleted may come after the first sweep of it. */
const LATE_WRITES = sql`interval '1 hour'`
const CONCLUDE_DELETED_PROJECTS = sql`
  with swept as (
    update deleted_projects p
    set is_swept = true
    where not is_swept
      and deleted_at < clock() - ${LATE_WRITES}
      and not exists (select from runs r where r.tenant_id = p.tenant_id and r.session_id = p.id)
      and not exists (select from feedbacks f where f.tenant_id = p.tenant_id and f.session_id = p.id)
    returning *
  )
  delete from session_minutes m
  using swept p
  where m.tenant_id = p.tenant_id and m.session_id = p.id`

const SUMS = [
  'runs',
  'roots',
  'ended',
  'errors',
  'streamed',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'prompt_cost',
  'completion_cost',
  'total_cost',
  'bytes',
]
const COUNTS = ['latencies', 'first_token_latencies']
const joinNames = (names: string[], write: (column: SQL) => SQL): SQL =>
  sql.join(
    names.map(name => write(sql`${sql.identifier(name)}`)),
    sql`, `,
  )
/** Statistics of the last days are exact to the minute. */
const ADD_UP_HOURS = sql`
  with minutes as (
    delete from session_minutes
    where ctid = any(array(
      select ctid
      from session_minutes
      where slot >= 0 and minute < clock() - interval '8 days'
      order by minute
      limit ${MAX_ROWS}
      for update skip locked
    ))
    returning *
  )
  insert into session_minutes as m (
    organization_id, tenant_id, session_id, minute, slot, last_start_time,
    ${joinNames([...SUMS, ...COUNTS], name => name)}
  )
  select
    organization_id, tenant_id, session_id, date_bin('1 hour', minute, 'epoch'), -1, max(last_start_time),
    ${joinNames(SUMS, name => sql`sum(${name})`)}, ${joinNames(COUNTS, name => sql`sum_counts(${name})`)}
  from minutes
  group by organization_id, tenant_id, session_id, date_bin('1 hour', minute, 'epoch')
  order by session_id, date_bin('1 hour', minute, 'epoch')
  on conflict (tenant_id, session_id, minute, slot) do update set
    last_start_time = greatest(m.last_start_time, excluded.last_start_time),
    ${joinNames(SUMS, name => sql`${name} = m.${name} + excluded.${name}`)},
    ${joinNames(COUNTS, name => sql`${name} = add_counts(m.${name}, excluded.${name})`)}`

export async function deleteOldRows(services: Services): Promise<void> {
  const { platform, database } = services
  await runAsSystem(database, setClock(platform), CONCLUDE_DELETED_PROJECTS, ADD_UP_HOURS)
  await deleteExpired(services, 'traces', [
    { table: 'session_minutes', where: sql`minute < clock() - interval '400 days'` },
    { table: 'upgraded_traces', where: sql`trace_time < clock() - kept_for('longlived')` },
    { table: 'waiting_patches', where: sql`created_at < clock() - kept_for('shortlived')` },
    // A span that comes later does not find its parent, and hangs under the root.
    { table: 'otlp_spans', where: sql`created_at < clock() - interval '1 day'` },
    // A run of it that is sent so late would be as one of a project that never was.
    { table: 'deleted_projects', where: sql`is_swept and deleted_at < clock() - interval '30 days'` },
  ])
}

/** Patches that a request left waiting, because its process ended before it merged them. */
async function mergeLatePatches(services: Services): Promise<void> {
  const { config, platform, database } = services
  const late = sql<Row>`
    select organization_id, tenant_id, array_to_string(array_agg(distinct run_id), ',')
    from waiting_patches w
    where created_at between clock() - interval '1 hour' and clock() - interval '1 minute'
      and exists (select from runs r where r.tenant_id = w.tenant_id and r.id = w.run_id)
    group by organization_id, tenant_id
    limit 100`
  const [, rows] = await runAsSystem(database, setClock(platform), late)
  for (const [organization, tenant, runIds] of rows as string[][]) {
    const actor = { kind: 'cron', id: null, organization: organization!, tenant: tenant! } as const
    const caller = createKeylessCaller(services, actor, `sweep-${crypto.randomUUID()}`, configuredOrigin(config))
    await mergeWaitingPatches({ ...caller, permission: 'runs:create' }, runIds!.split(','))
  }
}

// ---- objects

/** A row goes once the store has removed its object. Else it is due again. Returns whether there may be more. */
export async function removeObjects({ platform, database }: Services): Promise<boolean> {
  const { storage } = platform
  if (!storage) return false
  const claim = sql`
    update trace_objects
    set expires_at = clock() + ${LEASE}
    where (tenant_id, path) in (
      select tenant_id, path
      from trace_objects
      where expires_at < clock()
      order by expires_at
      limit ${MAX_OBJECTS}
      for update skip locked
    )
    returning tenant_id, path`
  const [, rows] = (await runAsSystem(database, setClock(platform), claim)) as [unknown, string[][]]
  if (rows.length === 0) return false
  const paths = rows.map(([, path]) => path!)
  await storage.remove(paths)
  const removed = sql`
    delete from trace_objects
    where (tenant_id, path) in (
      select * from unnest(${uuidArray(rows.map(([tenant]) => tenant!))}, ${textArray(paths)})
    )`
  await runAsSystem(database, removed)
  return rows.length === MAX_OBJECTS
}

// ---- feedback

const ATTACH_MISSED = sql`
  update feedbacks f
  set trace_id = r.trace_id, session_id = r.session_id, start_time = r.start_time, is_attached = true
  from feedbacks w
  cross join lateral (
    select *
    from runs s
    where s.tenant_id = w.tenant_id and s.id = w.run_id
    limit 1
  ) r
  where not w.is_attached
    and w.received_at between clock() - interval '1 hour' and clock()
    and f.tenant_id = w.tenant_id
    and f.id = w.id`

/** Feedback and a run that were written at the same time did not see each other. */
export async function attachFeedback({ platform, database }: Services): Promise<void> {
  await runAsSystem(database, setClock(platform), ATTACH_MISSED)
}
