// The clusters and runs of a job, as its worker stores and reads them.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { type ClaimedJob, writeUnderLease } from './claimed-job.ts'

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

/** Inserts all clusters of a job at once, from the `job` of the statement. A repeat inserts nothing. */
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

/** Stores the finest cluster of each run, too. `metadata` then says how many there are. */
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

export type JobRun = {
  run_id: string
  summary: string | null
  attributes: Record<string, unknown> | null
  is_excluded: boolean
  cluster_id: string | null
}

/** Reads the runs in the order of their places. */
export async function readJobRuns(ctx: Ctx, { id }: ClaimedJob): Promise<JobRun[]> {
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
