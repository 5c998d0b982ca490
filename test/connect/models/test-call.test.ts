// The test of a model configuration: one small call, whose outcome says what is wrong.
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { type App, newTenant, send, unusedId } from '../../support/app.ts'
import { type Fault, startModelServer } from '../../support/model-server.ts'
import { startModelApp } from '../../support/models.ts'

const PATH = '/v1/model-configurations'
const SECRET = 'sk-canary-0123456789'

let app: App
beforeAll(() => {
  app = startModelApp()
})

async function newTestable(more: object = {}) {
  const models = await startModelServer()
  onTestFinished(models.close)
  const tenant = await newTenant({ app })
  const body = { name: unusedId(), provider: 'openai', base_url: models.url, model: 'small-1', secret: SECRET, ...more }
  const { id } = (await tenant.post(PATH, body)).body
  const test = async () => (await tenant.post(`${PATH}/${id}/test`)).body
  return { models, tenant, id, test }
}

describe('the test of a model configuration', () => {
  it.each(['openai', 'anthropic'])(
    'calls the model of %s once, counts the call, and keeps the outcome',
    async provider => {
      const { models, tenant, id, test } = await newTestable({ provider, input_price: 1, output_price: 1 })
      const before = await tenant.get(`${PATH}/${id}`)
      const outcome = await test()
      expect(outcome).toMatchObject({ ok: true, code: null, detail: null, model: 'small-1' })
      expect(outcome.answer).toContain('OK')
      expect(models.calls.map(call => call.provider)).toEqual([provider])
      const after = await tenant.get(`${PATH}/${id}`)
      expect(after.body.last_test).toEqual(outcome)
      // The version that a person read before a change is still the newest.
      expect(after.headers.get('ETag')).toBe(before.headers.get('ETag'))
      await finishPendingWork()
      expect((await tenant.get('/v1/model-usage')).body.total).toMatchObject({ calls: 1, failed: 0 })
    },
  )

  it.each<[Fault, string]>([
    ['redirect', 'upstream_redirected'],
    ['cut', 'upstream_error'],
    ['huge_headers', 'upstream_error'],
    ['invalid_json', 'model_answer_invalid'],
    ['secret_echoed', 'model_call_failed'],
  ])('says of an upstream with the fault %s that the code is %s, without the secret', async (fault, code) => {
    const { models, tenant, id, test } = await newTestable()
    models.faults.push(fault, fault)
    const outcome = await test()
    expect(outcome).toMatchObject({ ok: false, code, answer: null })
    expect(JSON.stringify(outcome)).not.toContain('canary')
    expect((await tenant.get(`${PATH}/${id}`)).body.last_test).toEqual(outcome)
  })

  it('shows that the organization or a budget forbids it', async () => {
    const { models, tenant, test } = await newTestable()
    const allow = (settings: object) => tenant.owner.patch('/orgs/current/model-proxy', settings)
    await allow({ allowed_urls: { mode: 'none' } })
    expect((await test()).code).toBe('model_url_not_allowed')
    await allow({ enabled: false })
    expect((await test()).code).toBe('model_proxy_off')
    await allow({ enabled: true, allowed_urls: { mode: 'all' } })
    await tenant.post('/v1/model-budgets', { period: 'day', limit_calls: 0 })
    expect((await test()).code).toBe('model_budget_spent')
    expect(models.calls).toEqual([])
  })

  it('needs the permission to call models, and an existing configuration', async () => {
    const { tenant, id } = await newTestable()
    const unknown = await tenant.post(`${PATH}/${unusedId()}/test`)
    expect([unknown.status, unknown.body.code]).toEqual([404, 'model_not_found'])
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'x', role_id: VIEWER })).body
    const refused = await send('POST', `${PATH}/${id}/test`, { headers: { 'X-Api-Key': key }, app })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
  })
})
