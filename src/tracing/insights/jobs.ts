// Lists, creates, reads, renames and deletes the insights jobs of a project.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { ProjectRef } from '../projects/projects.schema.ts'
import { insertJob, isProject, type JobRow, MAY_START } from './job-insert.ts'
import type * as schema from './jobs.schema.ts'
import { checkRequest } from './request-checks.ts'
import { type InsightReport, type insightClusters, insightJobs } from './tables.ts'

type ProjectParams = z.output<typeof ProjectRef>
type JobParams = z.output<typeof schema.JobRef>
type ClusterParams = z.output<typeof schema.ClusterRef>
type ShownRow = JobRow & { shape: Record<string, number> | null }
type ClusterRow = typeof insightClusters.$inferSelect & { parent_name: string | null }

export const RECORDED_JOB = recordColumns(insightJobs, ['session_id', 'config_id', 'name', 'method', 'is_scheduled'])

/** Access policies that hide the project hide the event too. */
export const ofProject = (session_id: string) => ({ project_id: session_id })

/** The row `j` of a project that the caller may see. */
export const isJob = ({ session_id, job_id }: JobParams): SQL => sql`j.id = ${job_id}::uuid
      and j.session_id = ${session_id}::uuid
      and j.tenant_id = current_tenant()
      and exists (select from projects p where ${isProject(session_id)})`

const toWire = (row: ShownRow): schema.Job => ({
  id: row.id,
  name: row.name,
  status: row.status,
  start_time: toIsoTime(row.start_time),
  end_time: toIsoTime(row.end_time),
  created_at: toIsoTime(row.created_at),
  metadata: { method: row.method, model: row.request.model, num_runs: row.num_runs, ...row.metadata },
  shape: row.status === 'success' ? row.shape : null,
  error: row.error,
  config_id: row.config_id,
})

const clusterToWire = (row: ClusterRow): schema.Cluster => ({
  id: row.id,
  parent_id: row.parent_id,
  level: row.level,
  name: row.name,
  description: row.description,
  parent_name: row.parent_name,
  num_runs: row.num_runs,
  stats: row.stats,
})

const SHAPE = sql`(
        select json_object_agg(n.level, n.clusters order by n.level)
        from (
          select c.level, count(*) as clusters
          from insight_clusters c
          where c.job_id = j.id and c.tenant_id = j.tenant_id
          group by c.level
        ) n
      )`

export const listJobs = verb(
  'projects:read',
  async (ctx, { session_id, config_id, limit, offset }: ProjectParams & z.output<typeof schema.JobQuery>) => {
    // Selects from the project, to tell an unknown one from one without jobs.
    const query = sql<Row>`
      select to_json(j)::text
      from projects p
      left join lateral (
        select j.*, ${SHAPE} as shape
        from insight_jobs j
        where j.session_id = p.id
          and j.tenant_id = p.tenant_id
          ${config_id ? sql`and j.config_id = ${config_id}::uuid` : sql``}
        order by j.created_at desc, j.id desc
        limit ${limit}
        offset ${offset}
      ) j on true
      where ${isProject(session_id)}`
    const rows = await run(ctx, query)
    requireRow(rows, 'project_not_found')
    return { clustering_jobs: rows.flatMap(([json]) => (json === null ? [] : [toWire(JSON.parse(json as string))])) }
  },
)

export const createJob = verb('rules:create', async (ctx, input: ProjectParams & schema.NewJob) => {
  const { session_id, config_id = null, is_scheduled, validate_model_secrets, ...request } = input
  checkRequest(request)
  const change = insertJob({
    session_id,
    config_id,
    given: request,
    is_scheduled,
    isModelRequired: validate_model_secrets,
    condition: MAY_START,
  })
  const parts = {
    lock: sql`select from projects p where ${isProject(session_id)} for no key update`,
    changes: createdMembers(RECORDED_JOB),
  }
  const rows = await commit(ctx, 'insight_job.created', change, ofProject(session_id), parts)
  const { id, name, status, error } = requireRow(rows, 'project_not_found')
  ctx.waitUntil?.(startJob(ctx, id))
  return { id, name, status, error }
})

/** Works after the response. The schedule does the rest. */
async function startJob(ctx: Ctx, id: string): Promise<void> {
  const { workOnJobs } = await import('./job-steps.ts')
  await workOnJobs(ctx, sql`j.id = ${id}::uuid`)
}

export const readJob = verb('runs:read', async (ctx, ref: JobParams): Promise<schema.JobDetails> => {
  const query = sql<Row>`
    select
      (to_jsonb(j) || jsonb_build_object('shape', ${SHAPE}))::text,
      (
        select json_agg(to_jsonb(c) || jsonb_build_object('parent_name', a.name) order by c.level desc, c.place)
        from insight_clusters c
        left join insight_clusters a on a.id = c.parent_id
        where c.job_id = j.id and c.tenant_id = j.tenant_id
      )::text,
      (
        select json_agg(r.run_id)
        from json_array_elements(j.report -> 'highlighted_traces') h
        join insight_runs r
          on r.job_id = j.id and r.tenant_id = j.tenant_id and r.run_id = (h ->> 'run_id')::uuid
      )::text
    from insight_jobs j
    where ${isJob(ref)}`
  const found = requireRow(await run(ctx, query), 'insight_job_not_found')
  const [job, clusters, highlighted] = found as [string, string | null, string | null]
  const row = JSON.parse(job) as ShownRow
  return {
    ...toWire(row),
    clusters: (JSON.parse(clusters ?? '[]') as ClusterRow[]).map(clusterToWire),
    report: row.report && withoutDeletedTraces(row.report, JSON.parse(highlighted ?? '[]')),
  }
})

const withoutDeletedTraces = (report: InsightReport, runIds: string[]): InsightReport => ({
  ...report,
  highlighted_traces: report.highlighted_traces.filter(({ run_id }) => runIds.includes(run_id)),
})

export const renameJob = verb('rules:create', async (ctx, { name, ...ref }: JobParams & { name: string }) => {
  const change = sql<JobRow>`
    update insight_jobs j
    set name = ${name}, version = j.version + 1, updated_at = clock()
    where ${isJob(ref)}
    returning j.*`
  const parts = {
    lock: sql`select from insight_jobs j where ${isJob(ref)} for update`,
    changes: changedMembers(insightJobs, RECORDED_JOB),
  }
  const rows = await commit(ctx, 'insight_job.updated', change, ofProject(ref.session_id), parts)
  const row = requireRow(rows, 'insight_job_not_found')
  return { name: row.name, status: row.status }
})

/** A worker that has it stores nothing more. */
export const deleteJob = verb('rules:create', async (ctx, ref: JobParams) => {
  const change = sql<JobRow>`delete from insight_jobs j where ${isJob(ref)} returning j.*`
  const parts = { changes: deletedMembers(RECORDED_JOB) }
  const rows = await commit(ctx, 'insight_job.deleted', change, ofProject(ref.session_id), parts)
  return { id: requireRow(rows, 'insight_job_not_found').id, message: 'Deleted.' }
})

export const readCluster = verb('runs:read', async (ctx, { cluster_id, ...ref }: ClusterParams) => {
  const query = sql<Row>`
    select json_build_object(
      'id', c.id, 'parent_id', c.parent_id, 'level', c.level, 'name', c.name, 'description', c.description,
      'num_children', (
        select count(*)
        from insight_clusters b
        where b.parent_id = c.id and b.tenant_id = c.tenant_id
      )
    )::text
    from insight_jobs j
    join insight_clusters c on c.job_id = j.id and c.tenant_id = j.tenant_id and c.id = ${cluster_id}::uuid
    where ${isJob(ref)}`
  const [json] = requireRow(await run(ctx, query), 'insight_cluster_not_found')
  return JSON.parse(json as string) as z.output<typeof schema.ClusterDetails>
})
