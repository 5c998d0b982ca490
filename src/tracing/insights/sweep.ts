// Starts the jobs of configs with a schedule, each firing once, and works on the jobs that wait.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { commit, setClock } from '../../kernel/db/journal.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { lastFiring, parseCron } from '../../protocol/cron.ts'
import { insertJob } from './job-insert.ts'
import { workOnJobs } from './job-steps.ts'
import { ofProject, RECORDED_JOB } from './jobs.ts'
import { nextStart, nowOf } from './schedule.ts'

const MAX_CONFIGS = 200
/** The newest jobs of a config are kept. */
const KEPT_JOBS = 100

type DueConfig = {
  id: string
  organization_id: string
  tenant_id: string
  session_id: string
  name: string
  schedule_cron: string
  next_start_at: string
  last_started_at: string | null
  has_open_job: boolean
}

export async function sweepInsights(services: Services): Promise<void> {
  await startScheduledJobs(services)
  await workOnJobs(services)
}

/**
 * The condition is on configs `c`. Of each workspace the one that waits longest is first, then the second of each.
 * Firings that were missed are made up for by one job.
 */
export async function startScheduledJobs(services: Services, condition = sql`true`): Promise<void> {
  const { platform, database } = services
  const due = sql<Row>`
    select (
      to_jsonb(c) || jsonb_build_object('has_open_job', exists (
        select from insight_jobs j
        where j.config_id = c.id and j.status in ('queued', 'running')
      ))
    )::text
    from insight_configs c
    where c.next_start_at <= clock() and ${condition}
    order by row_number() over (partition by c.tenant_id order by c.next_start_at), c.next_start_at
    limit ${MAX_CONFIGS}`
  const [, rows] = (await runAsSystem(database, setClock(platform), due)) as [unknown, [string][]]
  for (const [json] of rows) await startConfig(services, JSON.parse(json) as DueConfig)
}

async function startConfig(services: Services, due: DueConfig): Promise<void> {
  const { config, platform } = services
  const cron = parseCron(due.schedule_cron)
  const firing = lastFiring(cron, Date.parse(due.next_start_at), nowOf(services))
  const isTooSoon =
    due.last_started_at !== null && firing - Date.parse(due.last_started_at) < config.insightsIntervalSeconds * 1000
  try {
    if (isTooSoon || due.has_open_job)
      return await postpone(services, due, nextStart(services, cron, due.last_started_at))
    const started = new Date(firing).toISOString()
    await createScheduledJob(actAsConfig(services, due), due, started, nextStart(services, cron, started))
  } catch (error) {
    platform.log({ level: 'warn', insight_config: due.id, error: 'scheduled job not started', message: String(error) })
    await postpone(services, due, nextStart(services, cron, due.last_started_at)).catch(() => {})
  }
}

/** One of several workers at the same firing finds the config unchanged. */
const isUnchanged = ({ id, next_start_at }: DueConfig) =>
  sql`id = ${id}::uuid and next_start_at = ${next_start_at}::timestamptz`

async function postpone({ database, platform }: Services, due: DueConfig, next: string | null): Promise<void> {
  const move = sql`update insight_configs set next_start_at = ${next}::timestamptz where ${isUnchanged(due)}`
  await runAsSystem(database, setClock(platform), move)
}

/** Row-level security confines it to the workspace. No access policy does: those are about people and keys. */
function actAsConfig(services: Services, { id, organization_id, tenant_id, name }: DueConfig): Ctx {
  const actor = { kind: 'cron' as const, id, name, organization: organization_id, tenant: tenant_id }
  return {
    ...createKeylessCaller(services, actor, `insights-${id}`, configuredOrigin(services.config)),
    permission: null,
  }
}

async function createScheduledJob(ctx: Ctx, due: DueConfig, firing: string, next: string | null): Promise<void> {
  const take = sql`taken as (
      update insight_configs
      set next_start_at = ${next}::timestamptz, last_started_at = ${firing}::timestamptz
      where ${isUnchanged(due)} and tenant_id = current_tenant()
      returning id
    )`
  // A job without a model fails, which people see.
  const change = insertJob({
    session_id: due.session_id,
    config_id: due.id,
    given: {},
    is_scheduled: true,
    isModelRequired: false,
    condition: sql`exists (select from taken)`,
  })
  const prune = sql`
    delete from insight_jobs
    where id in (
      select j.id
      from insight_jobs j
      where j.config_id = ${due.id}::uuid and j.tenant_id = current_tenant() and j.is_scheduled
      order by j.created_at desc, j.id desc
      offset ${KEPT_JOBS - 1}
    )`
  const parts = { ctesBefore: [take], lock: prune, changes: createdMembers(RECORDED_JOB) }
  await commit(ctx, 'insight_job.created', change, ofProject(due.session_id), parts)
}
