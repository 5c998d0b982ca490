// Insights in a real browser: a job by words, one by a model with its report, and a config with a schedule.
import type { Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { answerLikeAnalyst, appendQuestions, setUpModel, TOPICS } from '../../support/insights.ts'
import { startModelServer } from '../../support/model-server.ts'
import { projectId } from '../../support/new-traces.ts'

const dashboard = useDashboard({
  settings: { ALLOW_LOOPBACK: 'true' },
  overrides: { foreignFetch: createPinnedFetch({ allowLoopback: true }) },
})

const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).first().click()
const see = (page: Page, name: string | RegExp) => page.getByRole('heading', { name }).first().waitFor()

async function newProject() {
  const tenant = await newTenant({ app: dashboard.app })
  await appendQuestions(tenant, TOPICS.flat())
  return { tenant, path: `/traces/${await projectId(tenant, 'traced')}/insights` }
}

describe('the dashboard', () => {
  it('groups traces by their words, says that no model has read them, and leads to each', async () => {
    const { tenant, path } = await newProject()
    const { page, problems } = await dashboard.open(tenant, path)
    await see(page, 'No insights yet')
    await check(page, 'insights-none')
    await page.keyboard.press('n')
    await page.getByLabel('Name', { exact: true }).fill('What people ask')
    await page.getByLabel('Clusters by level').fill('0')
    await page.keyboard.press('Control+Enter')
    await page.locator('[aria-invalid="true"]').waitFor()
    await check(page, 'insights-new')
    await page.getByLabel('Clusters by level').fill('3, 2')
    await page.keyboard.press('Control+Enter')
    await see(page, 'What people ask')
    await see(page, 'Clusters')
    await page.getByText('Grouped by shared words, without a model.').waitFor()
    await check(page, 'insights-lexical')
    await page
      .getByRole('button', { name: /Frequent words/ })
      .last()
      .click()
    await page.getByRole('button', { name: 'Show all ×' }).waitFor()
    await page.getByRole('table').getByRole('link').first().click()
    await page.waitForURL(/\/traces\/[0-9a-f-]{36}\/[0-9a-f-]{36}/)
    expect(problems).toEqual([])
  })

  it('shows the report of a model, and deletes a job', async () => {
    const { tenant, path } = await newProject()
    const models = await startModelServer()
    onTestFinished(models.close)
    models.answer = answerLikeAnalyst
    await setUpModel(tenant, { base_url: `${models.url}/v1`, name: 'analyst' })
    const { page, problems } = await dashboard.open(tenant, `${path}?open=new`)
    await page.getByLabel('What would you like to learn?').fill('Where does it not help?')
    await page.getByLabel('Clusters by level').fill('3, 1')
    await press(page, 'Start job')
    await finishPendingWork()
    await see(page, 'What people ask')
    await page.getByText('Notable traces').waitFor()
    await check(page, 'insights-report')
    await press(page, 'Delete job')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete job' }).click()
    await see(page, 'No insights yet')
    expect(problems).toEqual([])
  })

  it('saves a config with a schedule, starts it now, and deletes it', async () => {
    const { tenant, path } = await newProject()
    const { page, problems } = await dashboard.open(tenant, `${path}?open=new`)
    await page.getByLabel('Name', { exact: true }).fill('Every Monday')
    await page.getByLabel('When').selectOption({ label: 'Every Monday at 8:00 UTC' })
    await press(page, 'Save config')
    await page.getByText('0 8 * * 1').waitFor()
    await press(page, 'Start now')
    await page.getByRole('link', { name: 'Every Monday' }).waitFor()
    await finishPendingWork()
    await page.getByText('9 traces in').waitFor()
    await check(page, 'insights-configs')
    await press(page, 'Delete')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('0 8 * * 1').waitFor({ state: 'detached' })
    expect(problems).toEqual([])
  })
})
