// Evaluators of rules: what a model is asked about a run, and what its answer becomes.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { evaluateAndSend } from '../../../src/tracing/rules/evaluate.ts'
import { newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { type getServices, type Tenant, unusedId, withClockAhead, wrapTrips } from '../../support/app.ts'
import {
  feedbackOf,
  makeEvaluator,
  newJudgedTenant,
  newModel,
  QUESTION,
  readVerdicts,
  SCHEMA,
} from '../../support/evaluators.ts'
import { startModelServer } from '../../support/model-server.ts'
import { projectId } from '../../support/new-traces.ts'
import { appendEnded, sweep } from '../../support/rules.ts'

const MINUTE = 60_000
const DAY = 86_400_000

const runsOf = async (tenant: Tenant, project: string) => {
  const projects = [await projectId(tenant, project)]
  const select = ['id', 'name', 'run_type', 'inputs', 'outputs', 'extra', 'status']
  return (await tenant.post('/runs/query', { session: projects, select, limit: 100 })).body.runs
}

describe('an evaluator', () => {
  it('keeps nothing of the runs of a tagged project in the runs of its calls', async () => {
    const { tenant, models, model, createRule, judge, session_id } = await newJudgedTenant()
    const tag_value_id = await tagValue(tenant, 'Secret=yes')
    const tagging = { tag_value_id, resource_type: 'project', resource_id: session_id }
    expect((await tenant.post('/workspaces/current/taggings', tagging)).status).toBeLessThan(300)
    await createRule({ evaluators: [makeEvaluator(model)] })
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls[0]!.messages[0]!.content).toContain('Paris')
    const calls = await runsOf(tenant, 'evaluators')
    expect(calls).toMatchObject([{ status: 'success' }])
    expect(JSON.stringify(calls)).not.toContain('Paris')
  })

  it('asks the model about each run, and its answer becomes feedback', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const schema = {
      ...SCHEMA,
      properties: { ...SCHEMA.properties, score: { type: 'number' }, tone: { enum: ['kind', 'rude'] } },
    }
    const evaluator = makeEvaluator(model, { schema })
    const rule = await createRule({ evaluators: [evaluator], filter: 'eq(name, "chat")' })
    expect(rule.evaluators).toEqual([{ structured: { ...evaluator.structured, variable_mapping: {} } }])
    models.answer = () => ({ helpful: true, score: 0.75, tone: 'kind', comment: 'Right.' })
    const [run_id] = await appendEnded(tenant, 1, QUESTION)
    await appendEnded(tenant, 1, { ...QUESTION, name: 'other' })
    await judge()
    await judge()
    expect(models.calls).toHaveLength(1)
    const [{ system, messages, model: asked, schema: sent, headers }] = models.calls as [(typeof models.calls)[0]]
    expect([system, messages, asked]).toEqual([
      'You judge answers.',
      [{ role: 'user', content: 'Question: Where? Answer: Paris' }],
      'small-1',
    ])
    expect(sent).toMatchObject({ name: 'helpfulness' })
    expect(headers['idempotency-key']).toBeTruthy()
    const calls = await runsOf(tenant, 'evaluators')
    expect(calls).toMatchObject([{ name: 'helpfulness', run_type: 'llm', status: 'success' }])
    const feedback: { key: string }[] = await feedbackOf(tenant, run_id!)
    const source = { type: 'auto_eval', metadata: { rule_id: rule.id, __run: { run_id: calls[0].id } } }
    expect(feedback.toSorted((a, b) => a.key.localeCompare(b.key))).toMatchObject([
      { key: 'helpful', score: 1, comment: 'Right.', feedback_source: source },
      { key: 'score', score: 0.75, comment: 'Right.', feedback_source: source },
      { key: 'tone', score: null, value: 'kind', comment: 'Right.', feedback_source: source },
    ])
    expect(await readVerdicts(tenant, rule)).toMatchObject([
      {
        outcome: 'success',
        payload: {
          evaluations: [
            {
              state: 'done',
              attempts: 1,
              evaluation_run_id: calls[0].id,
              feedback: [{ key: 'helpful', score: true, comment: 'Right.' }, { key: 'score' }, { key: 'tone' }],
            },
          ],
        },
      },
    ])
  })

  it('compares with the example of an experiment, and is skipped where a variable has no value', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const dataset = (await tenant.post('/datasets', { name: unusedId() })).body
    const example = { dataset_id: dataset.id, inputs: { q: 1 }, outputs: { answer: 'London' } }
    const reference_example_id = (await tenant.post('/examples', example)).body.id
    const prompt = [['user', '{got} or {reference.answer}?']]
    const variable_mapping = { got: 'output.answer' }
    const rule = await createRule({
      evaluators: [makeEvaluator(model, { prompt, variable_mapping, template_format: null })],
    })
    await appendEnded(tenant, 1, { ...QUESTION, reference_example_id })
    await judge()
    expect(models.calls.map(({ prompt: said }) => said)).toEqual(['Paris or London?'])
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls).toHaveLength(1)
    expect((await readVerdicts(tenant, rule))[0]).toMatchObject({
      outcome: 'skipped',
      payload: { reason: 'missing reference.answer' },
    })
  })

  it('judges long payloads, which are stored apart, up to a size', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const prompt = [['user', '{output.answer}']]
    const rule = await createRule({ evaluators: [makeEvaluator(model, { prompt, template_format: 'f-string' })] })
    const answerOf = (length: number) => ({ outputs: JSON.stringify({ answer: 'x'.repeat(length) }) })
    await appendEnded(tenant, 1, answerOf(90_000))
    await judge()
    expect(models.calls.map(({ prompt: said }) => said.length)).toEqual([90_000])
    await appendEnded(tenant, 1, answerOf(2_200_000))
    await judge()
    expect(models.calls).toHaveLength(1)
    expect((await readVerdicts(tenant, rule))[0]).toMatchObject({
      outcome: 'skipped',
      payload: { reason: 'run_too_long' },
    })
  })

  it('whose model fails is asked again, and given up after three attempts', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const rule = await createRule({ evaluators: [makeEvaluator(model)] })
    models.faults = ['cut', 'cut', null, 'cut', 'cut', 'cut', 'cut']
    const [first] = await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(await readVerdicts(tenant, rule)).toEqual([null])
    for (const minutes of [2, 10]) await withClockAhead(minutes * MINUTE, judge)
    expect(await feedbackOf(tenant, first!)).toHaveLength(1)
    // Each attempt is a run of its own.
    expect(await runsOf(tenant, 'evaluators')).toHaveLength(3)
    const [second] = await appendEnded(tenant, 1, QUESTION)
    for (const minutes of [20, 30, 50, 90]) await withClockAhead(minutes * MINUTE, judge)
    expect(models.calls).toHaveLength(6)
    expect(await feedbackOf(tenant, second!)).toEqual([])
    const [log] = await readVerdicts(tenant, rule)
    expect(log).toMatchObject({ outcome: 'error', payload: { evaluations: [{ attempts: 3, feedback: [] }] } })
    expect(log.payload.reason).toMatch(/^upstream_/)
  })

  it.each([
    ['is no JSON', () => 'nonsense'],
    ['lacks what is required', () => ({ comment: 'Only that.' })],
    ['has the wrong type', () => ({ helpful: 'yes', comment: '' })],
  ])('whose answer %s fails, and says so', async (_, answer) => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const rule = await createRule({ evaluators: [makeEvaluator(model)] })
    models.answer = answer
    const [run_id] = await appendEnded(tenant, 1, QUESTION)
    await judge()
    for (const minutes of [2, 10, 60]) await withClockAhead(minutes * MINUTE, judge)
    expect(await feedbackOf(tenant, run_id!)).toEqual([])
    expect(await readVerdicts(tenant, rule)).toMatchObject([{ outcome: 'error' }])
    expect(models.calls.length).toBeLessThanOrEqual(3)
  })

  it('that is removed from a rule is not asked any more, and one that stays is', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const [kept, lost] = [makeEvaluator(model), makeEvaluator(model, { prompt: [['user', '{{output}}']] })]
    const rule = await createRule({ evaluators: [kept, lost] })
    models.faults = ['cut', 'cut']
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    await tenant.patch(`/runs/rules/${rule.id}`, { evaluators: [kept] })
    await withClockAhead(2 * MINUTE, judge)
    const [{ outcome, payload }] = await readVerdicts(tenant, rule)
    expect(outcome).toBe('error')
    const states = payload.evaluations.map(({ state, error }: Record<string, unknown>) => [state, error])
    expect(states.toSorted()).toEqual([
      ['done', null],
      ['failed', 'evaluator_removed'],
    ])
    expect(models.calls).toHaveLength(3)
  })
})

describe('the spending of evaluators', () => {
  it('ends at the limit of the rule, until the next week', async () => {
    const { tenant, models, createRule, judge } = await newJudgedTenant()
    // A call has more than a token, and each costs a dollar.
    const model = await newModel(tenant, models.url, { input_price: 1_000_000, output_price: 1_000_000 })
    const limited = { evaluators: [makeEvaluator(model)], spend_limit: { limit_usd: '5', window: 'weekly' } }
    const rule = await createRule(limited)
    expect(rule).toMatchObject({ spend_limit: { limit_usd: '5', window: 'weekly' }, spend_usd: 0 })
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls).toHaveLength(1)
    expect((await readVerdicts(tenant, rule))[0]).toMatchObject({
      outcome: 'skipped',
      payload: { reason: 'spend_limit_reached' },
    })
    expect((await tenant.get(`/runs/rules?id=${rule.id}`)).body[0].spend_usd).toBeGreaterThan(5)
    await appendEnded(tenant, 1, QUESTION)
    await withClockAhead(7 * DAY, judge)
    expect(models.calls).toHaveLength(2)
    expect((await tenant.patch(`/runs/rules/${rule.id}`, { spend_limit: null })).body.spend_limit).toBeNull()
  })

  it('ends at a budget of the workspace', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    await tenant.post('/v1/model-budgets', { period: 'week', limit_calls: 1 })
    const rule = await createRule({ evaluators: [makeEvaluator(model)] })
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    expect(models.calls).toHaveLength(1)
    expect((await readVerdicts(tenant, rule))[0]).toMatchObject({
      outcome: 'skipped',
      payload: { reason: 'model_budget_spent' },
    })
  })
})

describe('rules that judge the calls of evaluators', () => {
  it('come to an end, also if they judge each other', async () => {
    const { tenant, models, model, createRule, judge } = await newJudgedTenant()
    const evaluators = [makeEvaluator(model, { prompt: [['user', '{{inputs}}']] })]
    await createRule({ evaluators })
    await appendEnded(tenant, 1, QUESTION)
    await judge()
    const session_id = await projectId(tenant, 'evaluators')
    const loops = [await createRule({ evaluators, session_id }), await createRule({ evaluators, session_id })]
    // One of them with calls that fail.
    models.faults = [null, null, 'cut']
    await appendEnded(tenant, 1, QUESTION)
    for (let minutes = 0; minutes < 30; minutes += 3) await withClockAhead(minutes * MINUTE, judge)
    const count = models.calls.length
    await withClockAhead(60 * MINUTE, judge)
    expect(models.calls).toHaveLength(count)
    // The run before, the run after, and its call by each of both, with an attempt that failed.
    expect(count).toBe(5)
    for (const rule of loops) {
      const verdicts: { outcome: string; payload: { reason?: string } }[] = await readVerdicts(tenant, rule)
      expect(verdicts.filter(({ outcome }) => outcome === 'success')).toHaveLength(1)
      const skipped = verdicts.filter(({ outcome }) => outcome === 'skipped')
      expect(new Set(skipped.map(({ payload }) => payload.reason))).toEqual(new Set(['is_evaluation']))
      expect(skipped.length).toBeGreaterThan(1)
    }
  })
})

describe('a worker that dies at one of its round trips to the database', () => {
  class CutError extends Error {}

  const cutAt = (services: ReturnType<typeof getServices>, cut: number, isReplyLost: boolean) => {
    const state = { trips: 0 }
    const database = wrapTrips(services.database, trip => async statements => {
      state.trips++
      if (state.trips < cut) return trip(statements)
      if (state.trips === cut && isReplyLost) await trip(statements)
      throw new CutError('cut')
    })
    return { services: { ...services, database }, state }
  }

  it.each([
    ['before it', false],
    ['after it, so that the reply is lost', true],
  ])('%s, leaves one verdict and asks again only what was not answered', async (_, isReplyLost) => {
    const { tenant, models, model, services, createRule } = await newJudgedTenant()
    for (let cut = 1, isCut = true; isCut; cut++) {
      const rule = await createRule({ evaluators: [makeEvaluator(model)] })
      const [run_id] = await appendEnded(tenant, 1, QUESTION)
      models.calls.length = 0
      const { services: dying, state } = cutAt(services, cut, isReplyLost)
      await sweep(tenant, dying).catch(error => expect(error).toBeInstanceOf(CutError))
      await finishPendingWork()
      isCut = state.trips >= cut
      const answered = models.calls.length
      // The leases end.
      for (const minutes of [3, 6, 9]) await withClockAhead(minutes * MINUTE, () => sweep(tenant, services))
      const about = `cut at trip ${cut}`
      const feedback = await feedbackOf(tenant, run_id!)
      expect(
        feedback.filter(({ key }: { key: string }) => key === 'helpful'),
        about,
      ).toHaveLength(1)
      expect(await readVerdicts(tenant, rule), about).toMatchObject([{ outcome: 'success' }])
      // The answer of a call may be lost with its worker; then it has the same key again.
      expect(models.calls.length - answered, about).toBeLessThanOrEqual(1)
      expect(new Set(models.calls.map(({ headers }) => headers['idempotency-key'])).size, about).toBe(1)
      await tenant.delete(`/runs/rules/${rule.id}`)
    }
  })
})

it('a model that does not answer holds up no rule of another workspace', async () => {
  const { tenant, models, model, services, createRule } = await newJudgedTenant()
  const stalled = await newJudgedTenant()
  const silent = await startModelServer()
  let release = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  silent.answer = async () => {
    await released
    return { helpful: true, comment: '' }
  }
  const slow = await newModel(stalled.tenant, silent.url)
  // These are more evaluators than are asked at once.
  for (let i = 0; i < 12; i++) await stalled.createRule({ evaluators: [makeEvaluator(slow)] })
  await appendEnded(stalled.tenant, 1, QUESTION)
  await createRule({ evaluators: [makeEvaluator(model)] })
  const [run_id] = await appendEnded(tenant, 1, QUESTION)
  const tenants = [stalled, { tenant }].map(one => one.tenant.tenant_id)
  const swept = evaluateAndSend(services, sql`r.tenant_id = any(${sql.param(tenants)}::uuid[])`)
  try {
    await expect.poll(() => feedbackOf(tenant, run_id!)).toHaveLength(1)
    expect(models.calls).toHaveLength(1)
    expect(silent.calls.length).toBeGreaterThan(0)
  } finally {
    release()
    await swept
    await silent.close()
  }
})

describe('a rule that is validated', () => {
  it('gets the verdicts of its evaluators on the latest matching run, or a given one, and stores nothing', async () => {
    const { tenant, models, session_id, model, judge } = await newJudgedTenant()
    const [sample] = await appendEnded(tenant, 1, QUESTION)
    await appendEnded(tenant, 1, { name: 'other' })
    models.answer = ({ prompt }) => (prompt.includes('Paris') ? { helpful: true, comment: 'Yes.' } : 'nonsense')
    const evaluators = [makeEvaluator(model), makeEvaluator(model, { prompt: [['user', '{{input}}']] })]
    const rule = { display_name: 'R', sampling_rate: 1, session_id, filter: 'eq(name, "chat")', evaluators }
    const { body } = await tenant.post('/runs/rules/validate', rule)
    expect(body).toMatchObject([
      {
        run_id: sample,
        run_name: 'chat',
        outcome: 'success',
        payload: { feedback: [{ key: 'helpful', score: true, comment: 'Yes.' }], reason: null },
      },
      { run_id: sample, outcome: 'error', payload: { feedback: [], reason: 'answer_invalid', message: 'nonsense' } },
    ])
    expect(await feedbackOf(tenant, sample!)).toEqual([])
    const calls = await runsOf(tenant, 'evaluators')
    expect(calls.map(({ id }: { id: string }) => id)).toContain(body[0].payload.evaluation_run_id)
    const given = await appendEnded(tenant, 1, { ...QUESTION, name: 'elsewhere', session_name: 'other' })
    const again = await tenant.post('/runs/rules/validate', { ...rule, sample_run_id: given[0] })
    expect(again.body[0]).toMatchObject({ run_id: given[0], outcome: 'success' })
    const none = await tenant.post('/runs/rules/validate', { ...rule, filter: 'eq(name, "none")' })
    expect(none.body).toEqual([])
    const unknown = await tenant.post('/runs/rules/validate', { ...rule, sample_run_id: unusedId() })
    expect([unknown.status, unknown.body.code]).toEqual([404, 'run_not_found'])
    await judge()
    expect((await tenant.get('/runs/rules')).body).toEqual([])
  })
})

describe('a refusal', () => {
  const prompt = (text: string) => [['user', text]]
  it.each<[string, object, string[][]]>([
    ['no model', { playground_settings_id: null }, [['playground_settings_id']]],
    ['no prompt', { prompt: [] }, [['prompt']]],
    ['an unknown role', { prompt: [['tool', '{{output}}']] }, [['prompt', '0', '0']]],
    ['an unknown variable', { prompt: prompt('{{answer}}') }, [['prompt', '0', '1']]],
    ['a tag that does not end', { prompt: prompt('{{output') }, [['prompt', '0', '1']]],
    ['no variable', { prompt: prompt('{output}') }, [['prompt']]],
    ['a mapping to nowhere', { variable_mapping: { a: 'run.b' } }, [['variable_mapping', 'a']]],
    ['a schema without properties', { schema: { type: 'object' } }, [['schema', 'properties']]],
    [
      'properties that are no judgement',
      { schema: { properties: { a: { type: 'object' }, comment: { type: 'string' } } } },
      [['schema', 'properties', 'a']],
    ],
    [
      'a schema of a comment alone',
      { schema: { properties: { comment: { type: 'string' } } } },
      [['schema', 'properties']],
    ],
    ['a prompt of a hub', { hub_ref: 'owner/prompt' }, [['hub_ref']]],
    [
      'several faults, all at once',
      { prompt: prompt('{{answer}}'), variable_mapping: { a: 'b' }, schema: {} },
      [
        ['prompt', '0', '1'],
        ['variable_mapping', 'a'],
        ['schema', 'properties'],
      ],
    ],
  ])('%s', async (_, members, places) => {
    const { tenant, session_id, model } = await newJudgedTenant()
    const body = { display_name: 'R', sampling_rate: 1, session_id, evaluators: [makeEvaluator(model, members)] }
    for (const path of ['/runs/rules', '/runs/rules/validate']) {
      const refused = await tenant.post(path, body)
      expect([refused.status, refused.body.code]).toEqual([422, 'invalid_request'])
      const at = ['body', 'evaluators', '0', 'structured']
      const locs = refused.body.errors.map(({ loc }: { loc: unknown[] }) => loc.map(String))
      expect(locs).toEqual(places.map(place => [...at, ...place]))
    }
  })

  it('meets a model of another workspace, and authors who may not call models or give feedback', async () => {
    const { tenant, session_id, model } = await newJudgedTenant()
    const other = await newJudgedTenant()
    const body = { display_name: 'R', sampling_rate: 1, session_id, evaluators: [makeEvaluator(model)] }
    const foreign = await tenant.post('/runs/rules', { ...body, evaluators: [makeEvaluator(other.model)] })
    expect([foreign.status, foreign.body.code]).toEqual([404, 'model_not_found'])
    const needed = ['rules:create', 'runs:read', 'feedback:create', 'models:invoke']
    for (const missing of needed.slice(1)) {
      const limited = await newLimitedCaller(
        tenant,
        needed.filter(one => one !== missing),
        [],
      )
      const refused = await limited.post('/runs/rules', body)
      expect([missing, refused.status, refused.body.code]).toEqual([missing, 403, 'permission_missing'])
    }
    expect((await (await newLimitedCaller(tenant, needed, [])).post('/runs/rules', body)).status).toBe(200)
  })

  it('meets authors who widen a rule that they could not have set up', async () => {
    const { tenant, model, createRule } = await newJudgedTenant()
    const judging = await createRule({ evaluators: [makeEvaluator(model)] })
    const plain = await createRule()
    const limited = await newLimitedCaller(tenant, ['rules:update'], [])
    const change = async ({ id }: { id: string }, patch: object) =>
      (await limited.patch(`/runs/rules/${id}`, patch)).status
    const wider = [{ filter: null }, { sampling_rate: 1 }, { is_enabled: true }, { spend_limit: null }]
    for (const patch of wider) expect([patch, await change(judging, patch)]).toEqual([patch, 403])
    expect(await change(judging, { is_enabled: false, display_name: 'Off' })).toBe(200)
    expect(await change(plain, { filter: null, sampling_rate: 1, is_enabled: true })).toBe(200)
  })
})
