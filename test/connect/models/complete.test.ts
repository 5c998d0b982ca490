// Calls of models by the platform itself: both providers, structured answers, one repeat, and failures without secrets.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type CompletionRequest, complete } from '../../../src/connect/models/complete.ts'
import { createKeylessCaller } from '../../../src/kernel/http/context.ts'
import type { Failure } from '../../../src/kernel/http/errors.ts'
import { type App, getServices, newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { type ModelServer, startModelServer } from '../../support/model-server.ts'
import { MODEL, newModel, readUsage, SECRET, startModelApp } from '../../support/models.ts'

let models: ModelServer
let app: App
let tenant: Tenant
beforeAll(async () => {
  models = await startModelServer()
  app = startModelApp()
  tenant = await newTenant({ app })
})
afterAll(() => models.close())
beforeEach(() => {
  models.calls.length = 0
  models.faults.length = 0
  models.answer = () => undefined
})

const SCHEMA = { type: 'object', properties: { score: { type: 'integer' } }, required: ['score'] }
const REQUEST = {
  actor: { type: 'evaluator' as const, id: unusedId() },
  messages: [{ role: 'user' as const, content: 'How good is it?' }],
}
function ask(configuration_id: string, request: Partial<CompletionRequest> = {}) {
  const actor = { kind: 'cron', id: null, organization: tenant.organization_id, tenant: tenant.tenant_id } as const
  const caller = createKeylessCaller(getServices(app), actor, 'judge', 'http://slipway.test')
  return complete({ ...caller, permission: null }, { ...REQUEST, configuration_id, ...request })
}
const failureOf = (work: Promise<unknown>): Promise<Failure> =>
  work.then(
    () => Promise.reject(new Error('it succeeded')),
    error => error,
  )

describe.each(['openai', 'anthropic', 'openai_compatible'] as const)('a model of %s', provider => {
  it('answers a prompt, and fills in a schema', async () => {
    const id = await newModel(tenant, { provider, base_url: models.url, input_price: 1, output_price: 4 })
    models.answer = ({ schema }) => (schema ? { score: 7 } : undefined)
    const plain = await ask(id, { system: 'Be brief.', max_tokens: 50, idempotency_key: 'once' })
    expect(plain).toMatchObject({ text: 'You said: How good is it?', model: MODEL, run_id: null })
    expect(plain.usage).toEqual({
      input_tokens: 6,
      output_tokens: 7,
      estimated: false,
      cost: expect.closeTo((6 + 4 * 7) / 1_000_000),
    })
    expect(models.calls[0]).toMatchObject({ system: 'Be brief.', headers: { 'idempotency-key': 'once' } })
    expect(plain).not.toHaveProperty('json')
    const filled = await ask(id, { schema: { name: 'verdict', schema: SCHEMA } })
    expect(filled.json).toEqual({ score: 7 })
    expect(models.calls[1]!.schema).toMatchObject({ name: 'verdict', schema: SCHEMA })
    expect(await readUsage(app, id)).toMatchObject({ calls: 2, failed: 0 })
  })
})

describe('a call', () => {
  it('is a run of the project and the id that it names', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const trace = { project: 'judges', name: 'verdict', run_id: unusedId(), metadata: { rule: 'quality' } }
    expect(await ask(id, { trace })).toMatchObject({ run_id: trace.run_id })
    const { body } = await tenant.get(`/runs/${trace.run_id}`)
    const metadata = { rule: 'quality', actor_type: 'evaluator', model_configuration_id: id }
    expect(body).toMatchObject({ name: 'verdict', run_type: 'llm', status: 'success', extra: { metadata } })
  })

  it('is repeated once where the model is busy, and counted once', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    models.faults.push('rate_limited')
    expect((await ask(id)).text).toContain('You said')
    models.faults.push('rate_limited', 'rate_limited')
    expect(await failureOf(ask(id))).toMatchObject({
      code: 'upstream_error',
      extra: { headers: { 'Retry-After': '0' } },
    })
    expect(models.calls).toHaveLength(4)
    expect(await readUsage(app, id)).toMatchObject({ calls: 2, failed: 1 })
  })

  it('that fails shows a short excerpt without secrets', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const trace = { project: 'judges', name: 'verdict', run_id: unusedId() }
    models.faults.push('secret_echoed')
    const failure = await failureOf(ask(id, { trace }))
    expect(failure.code).toBe('model_call_failed')
    expect(failure.extra.about).toBe('model: status 401: Incorrect key Bearer ********')
    const { body, text } = await tenant.get(`/runs/${trace.run_id}`)
    expect(body).toMatchObject({ status: 'error', error: failure.extra.about })
    expect(text).not.toContain(SECRET)
    for (const fault of ['invalid_json', 'cut', 'redirect'] as const) {
      models.faults.push(fault)
      const code = { invalid_json: 'model_answer_invalid', cut: 'upstream_error', redirect: 'upstream_redirected' }
      expect(await failureOf(ask(id))).toMatchObject({ code: code[fault] })
    }
  })

  it('ends with its signal', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    models.faults.push('stall')
    expect(await failureOf(ask(id, { signal: AbortSignal.timeout(100) }))).toMatchObject({ code: 'upstream_timeout' })
  })

  it('with an answer that is no JSON has its text alone, and one between other words is found', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const schema = { name: 'verdict', schema: SCHEMA }
    models.answer = () => 'I cannot say.'
    expect(await ask(id, { schema })).not.toHaveProperty('json')
    models.answer = () => 'Here: ```json\n{"score": 3}\n``` Good?'
    expect((await ask(id, { schema })).json).toEqual({ score: 3 })
  })
})
