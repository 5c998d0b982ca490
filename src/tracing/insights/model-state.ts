// The state of a job that calls models, as a worker reads and stores it. All writes are under its lease.
import { sql } from 'drizzle-orm'
import type { Completion } from '../../connect/models/complete.ts'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { type ClaimedJob, writeUnderLease } from './claimed-job.ts'
import { insertClusters } from './job-results.ts'
import type { Progress } from './model-plan.ts'
import type { JobResult } from './model-result.ts'
import type { Step, Steps } from './model-script.ts'

export async function readModelState(ctx: Ctx, { id }: ClaimedJob): Promise<{ runs: string[]; steps: Steps }> {
  const state = sql<Row>`
    select
      (
        select json_agg(run_id order by place)
        from insight_runs
        where job_id = ${id}::uuid and tenant_id = current_tenant()
      )::text,
      (
        select json_agg(json_build_object('key', key, 'state', state, 'answer', answer, 'fault', error))
        from insight_steps
        where job_id = ${id}::uuid and tenant_id = current_tenant() and state <> 'waiting'
      )::text`
  const [[runs, steps]] = (await run(ctx, state)) as [[string | null, string | null]]
  const known = JSON.parse(steps ?? '[]') as (Step & { key: string })[]
  return { runs: JSON.parse(runs ?? '[]'), steps: new Map(known.map(({ key, ...step }) => [key, step as Step])) }
}

type StoredStep = { key: string; step: Step; completion: Completion | null; progress: Progress }

/** Stores a step with the members that the job shows: its progress and its usage. */
export async function storeStep(
  ctx: Ctx,
  job: ClaimedJob,
  { key, step, completion, progress }: StoredStep,
): Promise<void> {
  job.metadata = { ...job.metadata, progress: { ...progress }, usage: addUsage(job.metadata.usage, completion) }
  const insert = sql`stored as (
      insert into insight_steps (organization_id, tenant_id, job_id, key, state, attempts, answer, error, run_id)
      select organization_id, tenant_id, id, ${key}, ${step.state}, 1, ${JSON.stringify(step.answer)}::json,
        ${step.state === 'failed' ? step.fault : null}, ${completion?.run_id ?? null}::uuid
      from job
      on conflict (job_id, key) do nothing
    )`
  await writeUnderLease(ctx, job, [insert], [sql`metadata = ${JSON.stringify(job.metadata)}::json`])
}

/** Null: no call had a price. */
const addCosts = (sum: number | null, cost: number | null): number | null =>
  cost === null ? sum : Number(((sum ?? 0) + cost).toFixed(6))

type Usage = { calls: number; input_tokens: number; output_tokens: number; cost: number | null }

function addUsage(given: unknown, completion: Completion | null): Usage {
  const usage = (given as Usage | undefined) ?? { calls: 0, input_tokens: 0, output_tokens: 0, cost: null }
  if (!completion) return usage
  return {
    calls: usage.calls + 1,
    input_tokens: usage.input_tokens + completion.usage.input_tokens,
    output_tokens: usage.output_tokens + completion.usage.output_tokens,
    cost: addCosts(usage.cost, completion.usage.cost),
  }
}

/** All of it at once. A config without categories keeps those that were found. A repeat changes nothing. */
export async function storeResult(ctx: Ctx, job: ClaimedJob, result: JobResult): Promise<void> {
  const { clusters, runs, report, categories } = result
  const updateRuns = sql`placed as (
      update insight_runs r
      set summary = p.summary, attributes = p.attributes, is_excluded = p.is_excluded, cluster_id = p.cluster_id
      from job j
      cross join json_to_recordset(${JSON.stringify(runs)}::json)
        as p(run_id uuid, summary text, attributes json, is_excluded boolean, cluster_id uuid)
      where r.job_id = j.id and r.tenant_id = j.tenant_id and r.run_id = p.run_id
    )`
  const keepCategories = sql`kept as (
      update insight_configs c
      set config = (c.config::jsonb || jsonb_build_object('partitions', ${JSON.stringify(categories)}::jsonb))::json,
        version = c.version + 1, updated_at = clock()
      from job j
      where c.id = ${job.config_id}::uuid
        and c.tenant_id = j.tenant_id
        and coalesce(c.config ->> 'partitions', '{}') = '{}'
    )`
  const numbered = clusters.map(cluster => ({ ...cluster, num_runs: cluster.stats.num_runs }))
  const hasNewCategories = Object.keys(job.request.partitions ?? {}).length === 0
  const { progress: _, ...metadata } = job.metadata
  job.metadata = { ...metadata, clusters: clusters.length }
  await writeUnderLease(
    ctx,
    job,
    [insertClusters(numbered), updateRuns, ...(hasNewCategories ? [keepCategories] : [])],
    [
      sql`report = (${JSON.stringify(report)}::jsonb || jsonb_build_object('created_at', clock()))::json`,
      sql`metadata = ${JSON.stringify(job.metadata)}::json`,
    ],
  )
}
