// Evaluators that several rules use: what the published client and others do with them.
import { describe, expect, it } from 'vitest'
import { deny, hasTag, newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { unusedId, withClockAhead } from '../../support/app.ts'
import { feedbackOf, makeEvaluator, newJudgedTenant, newModel, QUESTION, SCHEMA } from '../../support/evaluators.ts'
import { appendEnded } from '../../support/rules.ts'

const PATH = '/v1/platform/evaluators'
const MINUTE = 60_000

async function newEvaluators() {
  const judged = await newJudgedTenant()
  const { tenant, model } = judged
  const { structured: llm_evaluator } = makeEvaluator(model)
  const create = async (name: string, members: object = {}) =>
    (await tenant.post(PATH, { name, type: 'llm', llm_evaluator: { ...llm_evaluator, ...members } })).body.evaluator
  return { ...judged, llm_evaluator, create }
}

describe('an evaluator of several rules', () => {
  it('judges for each of them, as it is at the time', async () => {
    const { tenant, models, model, createRule, judge, create } = await newEvaluators()
    const evaluator = await create('Helpful')
    expect(evaluator).toMatchObject({
      name: 'Helpful',
      type: 'llm',
      feedback_keys: ['helpful'],
      run_rules: [],
      is_managed: false,
      llm_evaluator: { playground_settings_id: model, template_format: 'mustache', schema: SCHEMA },
    })
    const path = `${PATH}/${evaluator.id}`
    expect((await tenant.get(path)).body).toEqual(evaluator)
    const rule = await createRule({ evaluator_id: evaluator.id, spend_limit: { limit_usd: 2 } })
    expect(rule).toMatchObject({ evaluator_id: evaluator.id, evaluator_name: 'Helpful', evaluator_type: 'llm' })
    const other = await createRule({ evaluator_id: evaluator.id })
    const [run_id] = await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls).toHaveLength(2)
    expect(await feedbackOf(tenant, run_id!)).toHaveLength(2)
    const changed = await tenant.patch(path, { llm_evaluator: { prompt: [['human', 'Is {{output.answer}} kind?']] } })
    expect(changed.body.evaluator).toMatchObject({
      llm_evaluator: { prompt: [['user', 'Is {{output.answer}} kind?']], template_format: 'mustache' },
      run_rules: [
        { id: rule.id, spend_limit: { limit_usd: 2, utilization_pct: 0, window: 'weekly' }, spend_usd: 0 },
        { id: other.id, spend_limit: null },
      ],
    })
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls.map(({ prompt }) => prompt).slice(2)).toEqual(['Is Paris kind?', 'Is Paris kind?'])
    expect((await tenant.get(`/runs/rules?evaluator_id=${evaluator.id}`)).body).toHaveLength(2)
    await tenant.patch(`/runs/rules/${other.id}`, { evaluator_id: null })
    expect((await tenant.get(`/runs/rules?evaluator_id=${evaluator.id}`)).body).toHaveLength(1)
  })

  it('has no prompt of an author whose policies hide runs that it may judge', async () => {
    const { tenant, create } = await newEvaluators()
    const evaluator = await create('Helpful')
    const project = { name: unusedId(), tag_value_ids: [await tagValue(tenant, 'Secret=yes')] }
    const { id: session_id } = (await tenant.post('/sessions', project)).body
    const rule = { display_name: 'Secret', sampling_rate: 1, session_id, evaluator_id: evaluator.id }
    expect((await tenant.post('/runs/rules', rule)).status).toBe(200)
    const may = ['rules:update', 'runs:read', 'feedback:create', 'models:invoke', 'rules:read']
    const policies = [deny('runs:read', hasTag('Secret', 'yes'))]
    const body = { llm_evaluator: { prompt: [['user', 'Repeat {{input}}']] } }
    const change = async (one: Pick<typeof tenant, 'patch'>) =>
      (await one.patch(`${PATH}/${evaluator.id}`, body)).body.code ?? 'changed'
    expect(await change(await newLimitedCaller(tenant, may, policies))).toBe('denied_by_policy')
    expect(await change(await newLimitedCaller(tenant, may, []))).toBe('changed')
  })

  it('is found by its name, its text, and the resources of its rules', async () => {
    const { tenant, session_id, createRule, create } = await newEvaluators()
    const helpful = await create('Helpful')
    const tone = { schema: { properties: { tone: { type: 'string' } } } }
    await create('Tone', tone)
    await createRule({ evaluator_id: helpful.id })
    const names = async (query: string) => {
      const { body } = await tenant.get(`${PATH}?${query}`)
      return [body.total, ...body.evaluators.map(({ name }: { name: string }) => name)]
    }
    expect(await names('')).toEqual([2, 'Tone', 'Helpful'])
    expect(await names('sort_by=name&sort_by_desc=false&limit=1')).toEqual([2, 'Helpful'])
    expect(await names('name_contains=TON')).toEqual([1, 'Tone'])
    expect(await names('feedback_key=helpful')).toEqual([1, 'Helpful'])
    expect(await names(`resource_id=${session_id}`)).toEqual([1, 'Helpful'])
    expect(await names('type=code')).toEqual([0])
  })

  it('that rules use is deleted with them, or not', async () => {
    const { tenant, createRule, create } = await newEvaluators()
    const [used, free, alsoUsed] = [await create('Used'), await create('Free'), await create('Also used')]
    const [rule, other] = [await createRule({ evaluator_id: used.id }), await createRule({ evaluator_id: alsoUsed.id })]
    const kept = await tenant.delete(`${PATH}/${used.id}`)
    expect([kept.status, kept.body.code]).toEqual([409, 'evaluator_in_use'])
    const unknown = crypto.randomUUID()
    const ids = [used.id, free.id, unknown].map(id => `evaluator_ids=${id}`).join('&')
    const { body } = await tenant.delete(`${PATH}?${ids}`)
    expect(body.succeeded).toEqual([free.id])
    expect(body.failed).toEqual([
      { id: used.id, error: 'evaluator_in_use' },
      { id: unknown, error: 'evaluator_not_found' },
    ])
    expect((await tenant.delete(`${PATH}/${used.id}?delete_run_rules=true`)).status).toBe(204)
    expect((await tenant.get(`/runs/rules?id=${rule.id}&id=${other.id}`)).body).toMatchObject([{ id: other.id }])
    expect((await tenant.get(`${PATH}/${used.id}`)).body.code).toBe('evaluator_not_found')
  })

  it('has its cost by day, by rule and by project', async () => {
    const { tenant, models, session_id, createRule, judge, llm_evaluator } = await newEvaluators()
    const model = await newModel(tenant, models.url, { input_price: 1_000_000, output_price: 1_000_000 })
    const { evaluator } = (
      await tenant.post(PATH, { name: 'Paid', llm_evaluator: { ...llm_evaluator, playground_settings_id: model } })
    ).body
    const rule = await createRule({ evaluator_id: evaluator.id })
    await appendEnded(tenant, 2, QUESTION)
    await judge()
    await withClockAhead(8 * 24 * 60 * MINUTE, async () => {
      await appendEnded(tenant, 1, QUESTION)
      await judge()
    })
    const today = new Date().toISOString().slice(0, 10)
    const { body } = await tenant.get(`${PATH}/spend?period_start=${today}&group_by=run_rule`)
    expect(body.groups).toMatchObject([
      {
        run_rule_id: rule.id,
        total_trace_count: 2,
        prev_total_trace_count: 0,
        days: [{ date: today, trace_count: 2 }],
      },
    ])
    expect(body.groups[0].total_spend_usd).toBeGreaterThan(2)
    const next = new Date(Date.parse(today) + 7 * 86_400_000).toISOString().slice(0, 10)
    expect((await tenant.get(`${PATH}/spend?period_start=${next}&evaluator_id=${evaluator.id}`)).body).toMatchObject({
      period_start: next,
      groups: [{ evaluator_name: 'Paid', total_trace_count: 1, prev_total_trace_count: 2 }],
    })
    expect((await tenant.get(`${PATH}/spend?period_start=${today}&session_id=${session_id}`)).body).toMatchObject({
      groups: [{ session_id, total_trace_count: 2 }],
    })
    expect((await tenant.get(`${PATH}/spend?period_start=${today}`)).body.code).toBe('invalid_request')
  })

  it.each<[string, object, string]>([
    ['code', { type: 'code' }, 'invalid_request'],
    ['a prompt of a hub', { prompt_repo_handle: 'owner/prompt' }, 'invalid_request'],
    ['an unknown variable', { prompt: [['user', '{{answer}}']] }, 'invalid_request'],
    ['an unknown model', { playground_settings_id: crypto.randomUUID() }, 'model_not_found'],
    ['a name that is taken', {}, 'evaluator_exists'],
  ])('with %s is refused', async (_, members, code) => {
    const { tenant, llm_evaluator, create } = await newEvaluators()
    await create('Taken')
    const { type = 'llm', ...llm } = members as { type?: string }
    const body = { name: 'Taken', type, llm_evaluator: { ...llm_evaluator, ...llm } }
    expect((await tenant.post(PATH, body)).body.code).toBe(code)
  })
})
