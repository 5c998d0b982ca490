// Evaluators for tests: a workspace with a traced project, a model server, and rules whose evaluators ask it.

import { onTestFinished } from 'vitest'
import { localFetch } from '#runtime'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { getServices, startApp, type Tenant, unusedId } from './app.ts'
import { startModelServer } from './model-server.ts'
import { newTracedTenant, readLogs, sweep } from './rules.ts'

export const SCHEMA = {
  title: 'helpfulness',
  type: 'object',
  properties: { helpful: { type: 'boolean' }, comment: { type: 'string' } },
  required: ['helpful', 'comment'],
}
export const newModel = async (tenant: Tenant, base_url: string, members: object = {}): Promise<string> =>
  (
    await tenant.post('/v1/model-configurations', {
      name: unusedId(),
      provider: 'openai_compatible',
      base_url,
      model: 'small-1',
      auth_type: 'none',
      ...members,
    })
  ).body.id

export const makeEvaluator = (playground_settings_id: string, members: object = {}) => ({
  structured: {
    playground_settings_id,
    prompt: [
      ['system', 'You judge answers.'],
      ['user', 'Question: {{input.question}} Answer: {{output.answer}}'],
    ],
    template_format: 'mustache',
    schema: SCHEMA,
    ...members,
  },
})

export async function newJudgedTenant() {
  const models = await startModelServer()
  onTestFinished(models.close)
  const app = startApp({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch: localFetch } })
  const services = getServices(app)
  const traced = await newTracedTenant({ app })
  const model = await newModel(traced.tenant, models.url)
  const judge = async () => {
    await sweep(traced.tenant, services)
    await finishPendingWork()
  }
  return { ...traced, app, services, models, model, judge }
}

export const QUESTION = { inputs: '{"question":"Where?"}', outputs: '{"answer":"Paris"}' }

export const feedbackOf = async (tenant: Tenant, run: string) => (await tenant.get(`/feedback?run=${run}`)).body

/** The results of evaluators in the log of a rule, newest run first. */
export const readVerdicts = async (tenant: Tenant, rule: { id: string }) =>
  (await readLogs(tenant, rule)).map(({ evaluators }: { evaluators: unknown }) => evaluators)
