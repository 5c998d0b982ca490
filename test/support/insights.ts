// Insights for tests: a tenant with a project of conversations, its jobs, and what the schedule does.
import { sql } from 'drizzle-orm'
import { workOnJobs } from '../../src/insights/job-steps.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import type { InsightRequest } from '../../src/tables/insights.ts'
import { getServices, newTenant, type Tenant, unusedId } from './app.ts'
import { appendRuns, newTrace, projectId, type RunInput } from './new-traces.ts'
import { END } from './rules.ts'

type Services = ReturnType<typeof getServices>

/** Jobs of this workspace alone: tests of one database run beside each other. */
export const work = ({ tenant_id }: Tenant, services: Services = getServices()) =>
  workOnJobs(services, sql`j.tenant_id = ${tenant_id}::uuid`)

export const TOPICS = [
  ['refund for my invoice', 'invoice charged twice, refund please', 'wrong amount on the invoice'],
  ['password reset link expired', 'cannot sign in with my password', 'forgot the password of my account'],
  ['parcel has not arrived', 'where is my parcel', 'parcel arrived damaged'],
]

/** Roots that have ended, one for each question. */
export async function appendQuestions(tenant: Tenant, questions: string[], members: Partial<RunInput> = {}) {
  const now = Date.now()
  const roots = questions.map((question, i) => ({
    ...newTrace([], new Date(now - i)).root,
    ...END,
    inputs: JSON.stringify({ messages: [{ role: 'user', content: question }] }),
    outputs: JSON.stringify({ messages: [{ role: 'assistant', content: 'Noted.' }] }),
    ...members,
  }))
  await appendRuns(tenant, roots)
  return roots.map(({ id }) => id)
}

/** A workspace whose project `traced` has a question of each topic in turn. */
export async function newAskedTenant(options: Parameters<typeof newTenant>[0] = {}) {
  const tenant = await newTenant(options)
  const ids = await appendQuestions(
    tenant,
    [0, 1, 2].flatMap(i => TOPICS.map(topic => topic[i]!)),
  )
  return { tenant, ids, session_id: await projectId(tenant, 'traced') }
}

/** A model configuration, whose server need not exist. Returns its id. */
export async function setUpModel(
  { organization_id, tenant_id }: Tenant,
  { name = 'Model', provider = 'openai', model = 'test-model', base_url = 'http://127.0.0.1:1/v1' } = {},
): Promise<string> {
  const id = unusedId()
  await runAsSystem(
    getServices().database,
    sql`
      insert into model_configurations (id, organization_id, tenant_id, name, provider, base_url, model, auth_type)
      values (
        ${id}::uuid, ${organization_id}::uuid, ${tenant_id}::uuid, ${name}, ${provider}, ${base_url}, ${model}, 'none'
      )`,
  )
  return id
}

/** As if a request had created it. */
export async function insertJob(
  { organization_id, tenant_id }: Tenant,
  session_id: string,
  request: Partial<InsightRequest> = {},
  method: 'model' | 'lexical' = 'lexical',
  id: string = unusedId(),
): Promise<string> {
  await runAsSystem(
    getServices().database,
    sql`
      insert into insight_jobs (id, organization_id, tenant_id, session_id, name, method, request)
      values (
        ${id}::uuid, ${organization_id}::uuid, ${tenant_id}::uuid, ${session_id}::uuid, 'Job', ${method},
        ${JSON.stringify({ model: 'none', ...request })}::json
      )`,
  )
  return id
}

/** The row of a job, its clusters and its runs, as they are stored. */
export async function readStoredJob(id: string) {
  const [[job], clusters, runs] = (await runAsSystem(
    getServices().database,
    sql`select to_json(j)::text from insight_jobs j where id = ${id}::uuid`,
    sql`select to_json(c)::text from insight_clusters c where job_id = ${id}::uuid order by level desc, place`,
    sql`select to_json(r)::text from insight_runs r where job_id = ${id}::uuid order by place`,
  )) as [[string][], [string][], [string][]]
  const parse = ([json]: [string]) => JSON.parse(json)
  return { job: parse(job!), clusters: clusters.map(parse), runs: runs.map(parse) }
}
