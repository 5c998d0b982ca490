// Budgets and usage of model calls: what a call takes and adds, when it is refused, and what is shown.
import { type SQL, sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { sweepModelUsage } from '../../../src/connect/models/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { setClock } from '../../../src/kernel/db/journal.ts'
import { deny, hasTag, newLimitedCaller, newTaggedDeployment } from '../../support/access-policies.ts'
import { getApp, getServices, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'

const DAY = 24 * 3600_000
const BUDGETS = '/v1/model-budgets'
const USAGE = '/v1/model-usage'

type Call = { deployment?: string; failed?: boolean; tokens?: [input: number, output: number]; cost?: number | null }

/** Sends the statements of a call, as the proxy does. */
async function newCaller() {
  const tenant = await newTenant()
  const { platform, database } = getServices()
  const model = { name: unusedId(), provider: 'openai', model: 'gpt', auth_type: 'none' }
  const { id } = (await tenant.post('/v1/model-configurations', model)).body
  const asTenant = sql`select set_config('app.tenant_id', ${tenant.tenant_id}, true)`
  const take = (deployment: string | null = null, ...meanwhile: SQL[]) =>
    runAsSystem(
      database,
      setClock(platform),
      asTenant,
      sql`select take_model_call(${deployment}::uuid)`,
      ...meanwhile,
    ).then(
      () => 'taken',
      error => error.code,
    )
  const record = ({ deployment, failed = false, tokens: [input, output] = [10, 5], cost = null }: Call = {}) =>
    runAsSystem(
      database,
      setClock(platform),
      sql`select record_model_call(
        ${tenant.tenant_id}::uuid, ${id}::uuid, ${deployment ?? null}::uuid, 'key', ${failed}::boolean,
        ${input}::bigint, ${output}::bigint, ${cost}::double precision)`,
    )
  const createBudget = async (body: object) => {
    const reply = await tenant.post(BUDGETS, body)
    expect(reply.status, reply.text).toBe(201)
    return reply.body
  }
  return { tenant, id, take, record, createBudget, model }
}
const readBudget = async (tenant: Tenant, id: string) =>
  (await tenant.get(BUDGETS)).body.resources.find((budget: { id: string }) => budget.id === id)

describe('a budget', () => {
  it('is created, changed and deleted', async () => {
    const { tenant, createBudget } = await newCaller()
    const created = await createBudget({ period: 'month', limit_usd: 5, limit_calls: 100 })
    expect(created).toMatchObject({
      deployment_id: null,
      period: 'month',
      limit_usd: 5,
      limit_tokens: null,
      limit_calls: 100,
      spent: { usd: 0, tokens: 0, calls: 0 },
      is_spent: false,
    })
    expect(created.period_start).toMatch(/-01T00:00:00.000Z$/)
    const again = await tenant.post(BUDGETS, { period: 'month', limit_calls: 1 })
    expect([again.status, again.body.code]).toEqual([409, 'model_budget_exists'])
    const path = `${BUDGETS}/${created.id}`
    const changed = (await tenant.patch(path, { limit_usd: null, limit_tokens: 9 })).body
    expect(changed).toMatchObject({ limit_usd: null, limit_tokens: 9, limit_calls: 100 })
    const emptied = await tenant.patch(path, { limit_tokens: null, limit_calls: null })
    expect([emptied.status, emptied.body.code]).toEqual([422, 'model_budget_empty'])
    expect((await tenant.post(BUDGETS, { period: 'day' })).status).toBe(422)
    expect((await tenant.delete(path)).status).toBe(204)
    expect((await tenant.patch(path, { limit_calls: 1 })).body.code).toBe('model_budget_not_found')
  })

  it('refuses a call once the calls, the tokens or the cost reach its limit, and no call before', async () => {
    for (const [limit, calls] of [
      [{ limit_calls: 2 }, 2],
      [{ limit_tokens: 30 }, 2],
      [{ limit_tokens: 31 }, 3],
      [{ limit_usd: 0.5 }, 2],
      [{ limit_calls: 0 }, 0],
    ] as const) {
      const { tenant, take, record, createBudget } = await newCaller()
      const { id } = await createBudget({ period: 'day', ...limit })
      for (let i = 0; i < calls; i++) {
        expect(await take(), JSON.stringify(limit)).toBe('taken')
        await record({ cost: 0.25 })
      }
      expect(await take(), JSON.stringify(limit)).toBe('model_budget_spent')
      expect(await readBudget(tenant, id)).toMatchObject({
        is_spent: true,
        spent: { calls, tokens: calls * 15, usd: calls * 0.25 },
      })
    }
  })

  it('starts again in its next period', async () => {
    const { tenant, take, record, createBudget } = await newCaller()
    const { id, period_end } = await createBudget({ period: 'day', limit_calls: 1 })
    expect([await take(), await take()]).toEqual(['taken', 'model_budget_spent'])
    await withClockAhead(Date.parse(period_end) - Date.now() + 1000, async () => {
      expect(await readBudget(tenant, id)).toMatchObject({
        spent: { calls: 0 },
        is_spent: false,
        period_start: period_end,
      })
      expect([await take(), await take()]).toEqual(['taken', 'model_budget_spent'])
      await record({ tokens: [1, 2] })
      expect(await readBudget(tenant, id)).toMatchObject({ spent: { calls: 1, tokens: 3 } })
    })
  })

  it('has an event once it is nearly spent, once it is spent, and once it is renewed, each once', async () => {
    const { tenant, take, createBudget } = await newCaller()
    const { id, period_end } = await createBudget({ period: 'day', limit_calls: 5 })
    const types = 'model_budget.near_limit,model_budget.spent,model_budget.renewed'
    const tell = async () => {
      for (let i = 0; i < 2; i++) await sweepModelUsage(getServices())
      const { body } = await tenant.get(`/v2/events?subject_id=${id}&type=${types}`)
      return body.resources.map(({ type, data }: { type: string; data: { percent: number } }) => [
        type.slice(13),
        data.percent,
      ])
    }
    for (let i = 0; i < 3; i++) await take()
    expect(await tell()).toEqual([])
    await take()
    expect(await tell()).toEqual([['near_limit', 80]])
    await take()
    const spent = [
      ['near_limit', 80],
      ['spent', 100],
    ]
    expect(await tell()).toEqual(spent)
    await withClockAhead(Date.parse(period_end) - Date.now() + 1000, async () => {
      expect(await tell()).toEqual([...spent, ['renewed', 0]])
    })
  })

  it('limits the calls of its deployment only, or those of all for the workspace', async () => {
    const { tenant, take, record, createBudget } = await newCaller()
    const [one, two] = [await newDeployment(tenant), await newDeployment(tenant)]
    const own = await createBudget({ period: 'day', limit_calls: 1, deployment_id: one.id })
    const all = await createBudget({ period: 'day', limit_calls: 3 })
    expect(await take(one.id)).toBe('taken')
    await record({ deployment: one.id })
    expect(await take(one.id)).toBe('model_budget_spent')
    expect([await take(two.id), await take(), await take(two.id)]).toEqual(['taken', 'taken', 'model_budget_spent'])
    expect((await readBudget(tenant, own.id)).spent).toEqual({ calls: 1, tokens: 15, usd: 0 })
    // A refused call takes nothing of any budget.
    expect((await readBudget(tenant, all.id)).spent.calls).toBe(3)
    const foreign = await newDeployment(await newTenant())
    const refused = await tenant.post(BUDGETS, { period: 'week', limit_calls: 1, deployment_id: foreign.id })
    expect([refused.status, refused.body.code]).toEqual([404, 'deployment_not_found'])
  })

  it('lets only as many calls through as its limit, also of many at once', async () => {
    const { take, createBudget } = await newCaller()
    await createBudget({ period: 'day', limit_calls: 3 })
    await createBudget({ period: 'week', limit_calls: 100 })
    // Each holds its locks until all others have begun.
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => take(null, sql`select pg_sleep(0.05)`)))
    expect(outcomes.toSorted()).toEqual([...Array(5).fill('model_budget_spent'), ...Array(3).fill('taken')])
  })

  it('counts the usage of its period before it was created', async () => {
    const { record, createBudget, take } = await newCaller()
    await record({ tokens: [100, 20], cost: 1.5 })
    const { spent } = await createBudget({ period: 'day', limit_tokens: 100 })
    expect(spent).toEqual({ calls: 1, tokens: 120, usd: 1.5 })
    expect(await take()).toBe('model_budget_spent')
  })
})

describe('usage', () => {
  it('is summed by day, configuration and deployment, newest first', async () => {
    const { tenant, id, record, model } = await newCaller()
    const deployment = await newDeployment(tenant)
    await record({ cost: 0.5 })
    await record({ failed: true, tokens: [1, 0] })
    await record({ deployment: deployment.id, cost: null })
    await withClockAhead(DAY, () => record({ tokens: [7, 0] }))
    const today = new Date().toISOString().slice(0, 10)
    const tomorrow = new Date(Date.now() + DAY).toISOString().slice(0, 10)
    const { body } = await tenant.get(`${USAGE}?end=${tomorrow}`)
    const row = { configuration_id: id, configuration_name: model.name, deployment_id: null, deployment_name: null }
    expect(body.days).toEqual([
      { ...row, day: tomorrow, calls: 1, failed: 0, input_tokens: 7, output_tokens: 0, cost_usd: null },
      { ...row, day: today, calls: 2, failed: 1, input_tokens: 11, output_tokens: 5, cost_usd: 0.5 },
      {
        ...row,
        deployment_id: deployment.id,
        deployment_name: deployment.name,
        day: today,
        calls: 1,
        failed: 0,
        input_tokens: 10,
        output_tokens: 5,
        cost_usd: null,
      },
    ])
    expect(body.by_day.map(({ day, calls }: { day: string; calls: number }) => [day, calls])).toEqual([
      [tomorrow, 1],
      [today, 3],
    ])
    expect(body.by_caller).toMatchObject([
      { deployment_id: null, calls: 3, cost_usd: 0.5 },
      { deployment_name: deployment.name, calls: 1, cost_usd: null },
    ])
    expect(body.total).toEqual({ calls: 4, failed: 1, input_tokens: 28, output_tokens: 10, cost_usd: 0.5 })
    const filtered = async (query: string) => (await tenant.get(`${USAGE}?${query}`)).body
    expect((await filtered(`deployment_id=${deployment.id}`)).total.calls).toBe(1)
    expect((await filtered(`configuration_id=${unusedId()}`)).days).toEqual([])
    const page = await filtered(`end=${tomorrow}&limit=1&offset=1`)
    expect([page.days.length, page.offset, page.total.calls]).toEqual([1, 2, 4])
    for (const query of [
      'start=2026-13-01',
      'end=0000-01-01',
      'start=2026-11-02&end=2026-11-01',
      'start=2024-01-01&end=2026-01-01',
    ])
      expect((await tenant.get(`${USAGE}?${query}`)).status, query).toBe(422)
  })

  it('is hidden with its deployment, and so are budgets', async () => {
    const { tenant, record, createBudget } = await newCaller()
    const deployment = await newTaggedDeployment(tenant, ['team=secret'])
    await record({ deployment: deployment.id })
    await record()
    await createBudget({ period: 'day', limit_calls: 9, deployment_id: deployment.id })
    await createBudget({ period: 'day', limit_calls: 9 })
    const policies = [deny('deployments:read', hasTag('team', 'secret'))]
    const limited = await newLimitedCaller(tenant, ['models:read', 'deployments:read', 'events:read'], policies)
    expect((await limited.get(USAGE)).body.total.calls).toBe(1)
    expect((await limited.get(BUDGETS)).body.resources).toMatchObject([{ deployment_id: null }])
    const listEvents = async (get: Tenant['get']) =>
      (await get('/v2/events?type=model_budget.created')).body.resources.length
    expect([await listEvents(tenant.get), await listEvents(limited.get)]).toEqual([2, 1])
  })

  it('outlives the configuration, and is deleted after 400 days', async () => {
    const { tenant, id, record, model } = await newCaller()
    const old = new Date(Date.now() - 402 * DAY).toISOString().slice(0, 10)
    const countOld = async () => (await tenant.get(`${USAGE}?start=${old}&end=${old}`)).body.total.calls
    await withClockAhead(-402 * DAY, () => record())
    await record()
    expect((await tenant.delete(`/v1/model-configurations/${id}`)).status).toBe(204)
    expect(await countOld()).toBe(1)
    await sweepModelUsage(getApp())
    expect(await countOld()).toBe(0)
    expect((await tenant.get(USAGE)).body.days).toMatchObject([{ configuration_name: model.name, calls: 1 }])
  })
})
