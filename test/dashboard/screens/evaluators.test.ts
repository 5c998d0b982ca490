// Evaluators of rules in a real browser: one is written, tried on a run, and what it says is shown.
import type { Page } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { getServices, newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newModel, QUESTION } from '../../support/evaluators.ts'
import { startModelServer } from '../../support/model-server.ts'
import { appendEnded, sweep } from '../../support/rules.ts'

const dashboard = useDashboard({
  settings: { ALLOW_LOOPBACK: 'true' },
  overrides: { foreignFetch: createPinnedFetch({ allowLoopback: true }) },
})
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

it('writes an evaluator, tries it on the latest run, and shows its verdicts', async () => {
  const models = await startModelServer()
  onTestFinished(models.close)
  models.answer = () => ({ helpful: false, tone: 'curt', comment: 'It does not say why.' })
  const tenant = await newTenant({ app: dashboard.app })
  const model = await newModel(tenant, models.url, { name: 'judge', input_price: 0.4, output_price: 1.6 })
  await appendEnded(tenant, 1, QUESTION)
  const { page, problems } = await dashboard.open(tenant, '/rules/new')
  await page.getByLabel('Name', { exact: true }).fill('Judge answers')
  await page.getByLabel('Project').selectOption({ label: 'traced' })
  await page.getByLabel('Model', { exact: true }).selectOption({ label: 'judge (small-1)' })
  await page
    .getByRole('textbox', { name: 'Prompt', exact: true })
    .fill('Asked: {{input.question}} Answered: {{answer}}')
  await page.getByLabel('Weekly limit').fill('5')
  await press(page, 'Add score')
  await page.getByLabel('Feedback key').last().fill('tone')
  await page.getByLabel('Type', { exact: true }).last().selectOption({ label: 'Text' })
  await press(page, 'Create rule')
  await page.getByText('has unknown variables: answer').waitFor()
  await check(page, 'evaluator-faults')
  await page
    .getByRole('textbox', { name: 'Prompt', exact: true })
    .fill('Asked: {{input.question}} Answered: {{output.answer}}')
  await press(page, 'Test on the latest run')
  await page.getByText('helpful no').waitFor()
  await page.getByText('It does not say why.').waitFor()
  await check(page, 'evaluator-tried')
  await press(page, 'Create rule')
  await page.getByRole('heading', { name: 'Judge answers' }).waitFor()
  await page.getByText('Evaluate helpful, tone').waitFor()
  const [rule] = (await tenant.get('/runs/rules')).body
  expect(rule).toMatchObject({
    spend_limit: { limit_usd: '5' },
    evaluators: [{ structured: { playground_settings_id: model, template_format: 'mustache' } }],
  })
  await appendEnded(tenant, 1, QUESTION)
  await sweep(tenant, getServices(dashboard.app))
  await page.reload()
  await page.getByText('Evaluator: succeeded').waitFor()
  await page.getByText('helpful no, tone curt: It does not say why.').waitFor()
  await check(page, 'evaluator-verdicts')
  await press(page, 'Edit')
  await page.getByRole('textbox', { name: 'Prompt', exact: true }).waitFor()
  await page.getByLabel('Model', { exact: true }).selectOption({ label: 'No model' })
  await press(page, 'Save rule')
  await expect.poll(async () => (await tenant.get('/runs/rules')).body[0].evaluators).toEqual([])
  expect(problems).toEqual([])
})
