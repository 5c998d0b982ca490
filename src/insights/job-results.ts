// What a worker stores of a job: answers of models, summaries, clusters and the report. All of it under the lease.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import type { InsightReport } from '../tables/insights.ts'
import { type ClaimedJob, writeUnderLease } from './claimed-job.ts'

export type StepAnswer = {
  key: string
  /** Null where it is stored elsewhere. */
  answer: unknown
  run_id: string | null
}

/** Answers of earlier calls by their keys. Those without an answer of their own are null. */
export async function readAnswers(ctx: Ctx, { id }: ClaimedJob): Promise<Map<string, unknown>> {
  const answered = sql<Row>`
    select key, answer::text
    from insight_steps
    where job_id = ${id}::uuid and tenant_id = current_tenant() and state = 'answered'`
  const rows = (await run(ctx, answered)) as [string, string | null][]
  return new Map(rows.map(([key, answer]) => [key, answer === null ? null : JSON.parse(answer)]))
}

/** Of all its calls of that key, the number of this one. It is stored before the call. */
export async function countAttempt(ctx: Ctx, job: ClaimedJob, key: string): Promise<void> {
  const count = sql`counted as (
      insert into insight_steps as s (organization_id, tenant_id, job_id, key, attempts)
      select organization_id, tenant_id, id, ${key}, 1
      from job
      on conflict (job_id, key) do update
      set attempts = s.attempts + 1, updated_at = clock()
    )`
  await writeUnderLease(ctx, job, [count])
}

const storeAnswers = (answers: StepAnswer[]): SQL => sql`answered as (
      insert into insight_steps as s (organization_id, tenant_id, job_id, key, state, attempts, answer, run_id)
      select j.organization_id, j.tenant_id, j.id, a.key, 'answered', 1, a.answer, a.run_id
      from job j
      cross join json_to_recordset(${JSON.stringify(answers)}::json) as a(key text, answer json, run_id uuid)
      on conflict (job_id, key) do update
      set state = 'answered', answer = excluded.answer, run_id = excluded.run_id, error = null, updated_at = clock()
    )`

export async function storeAnswer(ctx: Ctx, job: ClaimedJob, answer: StepAnswer): Promise<void> {
  await writeUnderLease(ctx, job, [storeAnswers([answer])])
}

export type RunSummary = {
  run_id: string
  summary: string | null
  attributes?: Record<string, unknown> | null
  is_excluded?: boolean
}

/** Together with the answers that they come from. */
export async function storeSummaries(
  ctx: Ctx,
  job: ClaimedJob,
  summaries: RunSummary[],
  answers: StepAnswer[] = [],
): Promise<void> {
  const update = sql`summarized as (
      update insight_runs r
      set summary = s.summary, attributes = s.attributes, is_excluded = coalesce(s.is_excluded, false)
      from job j
      cross join json_to_recordset(${JSON.stringify(summaries)}::json)
        as s(run_id uuid, summary text, attributes json, is_excluded boolean)
      where r.job_id = j.id and r.tenant_id = j.tenant_id and r.run_id = s.run_id
    )`
  await writeUnderLease(ctx, job, answers.length > 0 ? [update, storeAnswers(answers)] : [update])
}

export type NewCluster = {
  id: string
  parent_id: string | null
  /** The finest is 0. */
  level: number
  /** Within its level. */
  place: number
  name: string
  description: string
  num_runs: number
  stats: Record<string, unknown> | null
}

/** Of all clusters of a job at once, from the `job` of the statement. A repeat inserts nothing. */
export const insertClusters = (clusters: NewCluster[]): SQL => sql`clusters as (
      insert into insight_clusters (
        organization_id, tenant_id, job_id, id, parent_id, level, place, name, description, num_runs, stats
      )
      select
        j.organization_id, j.tenant_id, j.id, c.id, c.parent_id, c.level, c.place, c.name, c.description, c.num_runs,
        c.stats
      from job j
      cross join json_to_recordset(${JSON.stringify(clusters)}::json) as c(
        id uuid, parent_id uuid, level integer, place integer, name text, description text, num_runs integer, stats json
      )
      on conflict (id) do nothing
    )`

/** With the finest cluster of each run. `metadata` then says how many there are. */
export async function storeClusters(
  ctx: Ctx,
  job: ClaimedJob,
  clusters: NewCluster[],
  clusterOf: Map<string, string>,
): Promise<void> {
  const assign = sql`assigned as (
      update insight_runs r
      set cluster_id = a.cluster_id
      from job j
      cross join unnest(
        ${sql.param([...clusterOf.keys()])}::uuid[], ${sql.param([...clusterOf.values()])}::uuid[]
      ) as a(run_id, cluster_id)
      where r.job_id = j.id and r.tenant_id = j.tenant_id and r.run_id = a.run_id
    )`
  job.metadata = { ...job.metadata, clusters: clusters.length }
  const set = [sql`metadata = ${JSON.stringify(job.metadata)}::json`]
  await writeUnderLease(ctx, job, [insertClusters(clusters), assign], set)
}

export async function storeReport(ctx: Ctx, job: ClaimedJob, report: InsightReport): Promise<void> {
  await writeUnderLease(ctx, job, [], [sql`report = ${JSON.stringify(report)}::json`])
}

/** Adds to what the job shows of itself. */
export async function storeMetadata(ctx: Ctx, job: ClaimedJob, metadata: Record<string, unknown>): Promise<void> {
  job.metadata = { ...job.metadata, ...metadata }
  await writeUnderLease(ctx, job, [], [sql`metadata = ${JSON.stringify(job.metadata)}::json`])
}

export type JobRun = {
  run_id: string
  summary: string | null
  attributes: Record<string, unknown> | null
  is_excluded: boolean
  cluster_id: string | null
}

/** By their places. */
export async function listJobRuns(ctx: Ctx, { id }: ClaimedJob): Promise<JobRun[]> {
  const rows = sql<Row>`
    select json_build_object(
      'run_id', run_id, 'summary', summary, 'attributes', attributes, 'is_excluded', is_excluded,
      'cluster_id', cluster_id
    )::text
    from insight_runs
    where job_id = ${id}::uuid and tenant_id = current_tenant()
    order by place`
  return ((await run(ctx, rows)) as [string][]).map(([json]) => JSON.parse(json) as JobRun)
}
