// The published client works with evaluators.
import { Langsmith } from 'langsmith'
import { expect, it } from 'vitest'
import { getApp } from '../../support/app.ts'
import { makeEvaluator, newModel, SCHEMA } from '../../support/evaluators.ts'
import { newTracedTenant } from '../../support/rules.ts'

it('langsmith lists rules with evaluators, and creates, reads, changes, lists and deletes evaluators', async () => {
  const { tenant, session_id, createRule } = await newTracedTenant()
  const model = await newModel(tenant, 'https://models.example.com/v1')
  const statuses: number[] = []
  const client = new Langsmith({
    apiKey: tenant.key,
    baseURL: 'http://slipway.test',
    maxRetries: 0,
    fetch: async (input, init) => {
      const response = await getApp().fetch(new Request(input, init))
      statuses.push(response.status)
      return response
    },
  })
  const { structured } = makeEvaluator(model)
  const { evaluator } = await client.onlineEvaluators.create({
    name: 'Helpful',
    type: 'llm',
    // The client knows prompts of a hub only.
    llm_evaluator: structured as { playground_settings_id: string },
    metadata: { team: 'a' },
  })
  const id = evaluator!.id!
  expect(evaluator).toMatchObject({ name: 'Helpful', type: 'llm', feedback_keys: ['helpful'] })
  const rule = await createRule({ evaluator_id: id, evaluators: [{ structured }], spend_limit: { limit_usd: 3 } })
  expect(await client.evaluators.list({ evaluator_id: id })).toMatchObject([
    {
      id: rule.id,
      evaluator_id: id,
      evaluator_name: 'Helpful',
      evaluator_type: 'llm',
      spend_limit: { limit_usd: '3', window: 'weekly' },
      evaluators: [{ structured: { schema: SCHEMA } }],
    },
  ])
  const changed = await client.onlineEvaluators.update(id, { name: 'Helpful answers', metadata: null })
  expect(changed.evaluator).toMatchObject({ name: 'Helpful answers', metadata: null, run_rules: [{ id: rule.id }] })
  expect(await client.onlineEvaluators.retrieve(id)).toEqual(changed.evaluator)
  const listed = []
  const query = { resource_id: [session_id], feedback_key: 'helpful', sort_by: 'name', limit: 1 }
  for await (const one of client.onlineEvaluators.list(query)) listed.push(one.id)
  expect(listed).toEqual([id])
  const spend = await client.onlineEvaluators.spend({ period_start: '2026-11-23', group_by: 'evaluator' })
  expect(spend).toEqual({ period_start: '2026-11-23', period_end: '2026-11-30', groups: [] })
  await expect(client.onlineEvaluators.delete(id)).rejects.toThrow(/409/)
  const other = (await client.onlineEvaluators.create({ name: 'Other', llm_evaluator: structured as object })).evaluator
  expect(await client.onlineEvaluators.bulkDelete({ evaluator_ids: [other!.id!, id] })).toEqual({
    succeeded: [other!.id],
    failed: [{ id, error: 'evaluator_in_use' }],
  })
  await client.onlineEvaluators.delete(id, { delete_run_rules: true })
  expect(await client.evaluators.list()).toEqual([])
  expect(statuses.filter(status => status >= 400)).toEqual([409])
})
