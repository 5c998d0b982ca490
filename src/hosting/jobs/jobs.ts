// Runs commands once: creates, lists, reads and cancels jobs. Functions of drizzle/functions/jobs.sql decide.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, type Row, run } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { makePlanDigest, readPlannedVersion } from '../deployments/plan-digest.ts'
import type { DeploymentRef, DryRun } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import type * as schema from './schema.ts'
import { jobs } from './tables.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type JobParams = z.output<typeof schema.JobRef>
export type JobRow = typeof jobs.$inferSelect

export const jobToWire = (row: JobRow): schema.Job => ({
  id: row.id,
  deployment_id: row.deployment_id,
  schedule_id: row.schedule_id,
  due_at: toIsoTime(row.due_at),
  missed_until: toIsoTime(row.missed_until),
  missed_count: row.missed_count,
  attempt: row.attempt,
  status: row.status,
  command: row.command,
  action: row.action,
  timeout_seconds: row.timeout_seconds,
  deadline_seconds: row.deadline_seconds,
  process: row.process,
  not_before: toIsoTime(row.not_before),
  revision_id: row.revision_id,
  actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
  exit_code: row.exit_code,
  reason: row.reason,
  cancel_requested_at: toIsoTime(row.cancel_requested_at),
  created_at: toIsoTime(row.created_at),
  started_at: toIsoTime(row.started_at),
  finished_at: toIsoTime(row.finished_at),
})

export const isJob = ({ deployment_id, job_id }: JobParams | Placeholders<JobParams>): SQL =>
  and(eq(jobs.id, job_id), eq(jobs.deployment_id, deployment_id), inTenant(jobs))!

type ListInput = DeploymentParams & schema.JobQuery

/** Selects from the deployment, to tell an unknown deployment from one without such jobs. */
const pageStatement = prepareStatement(({ deployment_id, ...query }: Placeholders<ListInput>) => {
  const { status, schedule_id } = query
  const page = db
    .select()
    .from(jobs)
    .where(
      and(
        eq(jobs.deployment_id, deployment_id),
        inTenant(jobs),
        status && sql`${jobs.status} = any(${status}::text[])`,
        schedule_id && eq(jobs.schedule_id, schedule_id),
        afterCursor(jobs, query),
      ),
    )
    .orderBy(...newestFirst(jobs))
    .limit(query.limit)
    .offset(query.offset)
    .as('job')
  return db.select().from(deployments).leftJoinLateral(page, sql`true`).where(isDeployment(deployment_id))
})

export const listJobs = verb('deployments:read', async (ctx, input: ListInput) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'deployment_not_found')
  return toListPage(
    rows.flatMap(({ job }) => (job ? [job as JobRow] : [])),
    input,
    jobToWire,
  )
})

const jobStatement = prepareStatement((ref: Placeholders<JobParams>) => db.select().from(jobs).where(isJob(ref)))

export const readJob = verb('deployments:read', async (ctx, { deployment_id, job_id }: JobParams) =>
  jobToWire(requireRow(await run(ctx, jobStatement({ deployment_id, job_id })), 'job_not_found')),
)

/** With `schedule_id` the members are those of the schedule. */
export async function insertJob(ctx: Ctx, deployment_id: string, job: object): Promise<schema.Job> {
  const statement = sql<Row>`
    select answer, has_webhooks
    from create_job(${deployment_id}::uuid, ${JSON.stringify(job)}::jsonb, ${describeWrite(ctx)}::jsonb)`
  return jobToWire(requireRow(await runWrite<JobRow>(ctx, statement), 'deployment_not_found'))
}

type CreateInput = DeploymentParams & schema.NewJob & z.output<typeof DryRun>
const plannedRequest = ({ dry_run: _, ...job }: CreateInput) => job

export const planJob = verb('deployments:update', async (ctx, input: CreateInput): Promise<schema.JobPlan> => {
  const { command, timeout_seconds, deadline_seconds } = input
  const process = input.process ?? null
  const query = sql<Row>`
    select revision_id, revision_number, open_jobs, free_places
    from plan_job(${input.deployment_id}::uuid, ${process})`
  const [revision_id, number, open, places] = requireRow(await run(ctx, query), 'deployment_not_found') as string[]
  const revision_number = Number(number)
  return {
    ...{ command, process, timeout_seconds, deadline_seconds },
    revision_id: revision_id!,
    revision_number,
    open_jobs: Number(open),
    waits: Number(places) === 0,
    warnings: ctx.warnings,
    plan_digest: await makePlanDigest(ctx, revision_number, plannedRequest(input)),
  }
})

export const createJob = verb('deployments:update', async (ctx, input: CreateInput) => {
  const { deployment_id, ...job } = plannedRequest(input)
  const planned_number = await readPlannedVersion(ctx, plannedRequest(input))
  return insertJob(ctx, deployment_id, { ...job, planned_number })
})

export const cancelJob = verb('deployments:update', async (ctx, { deployment_id, job_id }: JobParams) => {
  const statement = sql<Row>`
    select answer, has_webhooks
    from cancel_job(${deployment_id}::uuid, ${job_id}::uuid, ${describeWrite(ctx)}::jsonb)`
  return jobToWire(requireRow(await runWrite<JobRow>(ctx, statement), 'job_not_found'))
})
