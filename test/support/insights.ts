// Insights for tests: a tenant with a project of conversations, its jobs, and what the schedule does.
import { sql } from 'drizzle-orm'
import { onTestFinished } from 'vitest'
import { localFetch } from '#runtime'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { workOnJobs } from '../../src/tracing/insights/job-steps.ts'
import type { InsightRequest } from '../../src/tracing/insights/tables.ts'
import { type AppOptions, getServices, newTenant, startApp, type Tenant, unusedId } from './app.ts'
import { type Answer, startModelServer } from './model-server.ts'
import { appendRuns, newTrace, projectId } from './new-traces.ts'
import { END } from './rules.ts'
import type { RunInput } from './trace-operations.ts'

type Services = ReturnType<typeof getServices>

/** Jobs of this workspace alone: tests of one database run beside each other. */
export const work = ({ tenant_id }: Tenant, services: Services = getServices()) =>
  workOnJobs(services, sql`j.tenant_id = ${tenant_id}::uuid`)

export const TOPICS = [
  ['refund for my invoice', 'invoice charged twice, refund please', 'wrong amount on the invoice'],
  ['password reset link expired', 'cannot sign in with my password', 'forgot the password of my account'],
  ['parcel has not arrived', 'where is my parcel', 'parcel arrived damaged'],
]

/** Appends roots that have ended, one for each question. */
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

/** The first of each topic, the second of each, and so on. */
const QUESTIONS = [0, 1, 2].flatMap(i => TOPICS.map(topic => topic[i]!))

/** A workspace whose project `traced` has questions, by default of each topic in turn. */
export async function newAskedTenant(options: Parameters<typeof newTenant>[0] = {}, questions = QUESTIONS) {
  const tenant = await newTenant(options)
  const ids = await appendQuestions(tenant, questions)
  return { tenant, ids, session_id: await projectId(tenant, 'traced') }
}

/** Creates a model configuration, whose server need not exist. Returns its id. */
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

/** Inserts the row that a request would create. */
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

const WORDS = ['invoice', 'password', 'parcel']
const wordOf = (text: string) => WORDS.find(word => text.includes(word)) ?? 'other'
const itemsOf = (text: string): { n: number; summary: string }[] =>
  [...text.matchAll(/^\{"n":.*\}$/gm)].map(([line]) => JSON.parse(line))

/** The answers of a model that sorts the questions by their topics. */
export const answerLikeAnalyst: Answer = ({ schema, messages }) => {
  const prompt = messages[0]!.content
  switch (schema?.name) {
    case 'summary':
      return { summary: `The user asked about the ${wordOf(prompt)}.`, category: WORDS.indexOf(wordOf(prompt)) + 1 }
    case 'themes':
    case 'merge':
      return { categories: WORDS.map(word => ({ name: `About the ${word}`, description: `Questions on ${word}s.` })) }
    case 'assignments':
      return {
        assignments: itemsOf(prompt).map(({ n, summary }) => ({ n, category: WORDS.indexOf(wordOf(summary)) + 1 })),
      }
    case 'groups':
      return { groups: [{ name: 'Support', description: 'All of it.', members: itemsOf(prompt).map(({ n }) => n) }] }
    case 'report':
      return {
        title: 'What people ask',
        key_points: ['They ask about three things.'],
        highlighted_traces: [{ n: 1, reason: 'typical' }],
      }
  }
}

/** A workspace with questions, and a model that it may call. */
export async function newModelTenant(questions = QUESTIONS, overrides: AppOptions['overrides'] = {}) {
  const models = await startModelServer()
  models.answer = answerLikeAnalyst
  onTestFinished(models.close)
  const app = startApp({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch: localFetch, ...overrides } })
  const asked = await newAskedTenant({ app }, questions)
  const configuration = await asked.tenant.post('/v1/model-configurations', {
    name: 'Model',
    provider: 'openai_compatible',
    base_url: models.url,
    model: 'small-1',
    auth_type: 'none',
    input_price: 1,
    output_price: 2,
  })
  const configuration_id = configuration.body.id as string
  const services = getServices(app)
  const startJob = async (request: Partial<InsightRequest> = {}, config_id?: string) => {
    const id = await insertJob(asked.tenant, asked.session_id, { model: 'openai', ...request }, 'model')
    await runAsSystem(
      services.database,
      sql`
        update insight_jobs
        set summary_configuration_id = ${configuration_id}::uuid, cluster_configuration_id = ${configuration_id}::uuid,
          config_id = ${config_id ?? null}::uuid
        where id = ${id}::uuid`,
    )
    return id
  }
  return { ...asked, app, services, models, configuration_id, startJob }
}
