// Insights in a real browser: a job is started, its report and clusters are read, and the traces of a cluster.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { appendQuestions, newModelTenant, TOPICS, work } from '../../support/insights.ts'
import { projectId } from '../../support/new-traces.ts'

const dashboard = useDashboard()

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true })

it('starts a job without a model, and leads from its clusters to their traces', async () => {
  const tenant = await newTenant()
  await appendQuestions(tenant, TOPICS.flat())
  const project = await projectId(tenant, 'traced')
  const { page, problems } = await dashboard.open(tenant, `/traces/${project}`)
  await button(page, 'Hide whose account this is').click()
  await page.keyboard.press('i')
  await page.getByText('No insights yet').waitFor()
  await check(page, 'insights-empty')
  await page.keyboard.press('n')
  await page.getByLabel('Name').fill('What people ask')
  await page.getByLabel('Clusters of each level').fill('many')
  await check(page, 'insights-new')
  await button(page, 'Start job').click()
  await page.getByRole('alert').first().waitFor()
  await page.getByLabel('Clusters of each level').fill('3')
  await button(page, 'Start job').click()
  await page.getByRole('heading', { name: 'What people ask' }).waitFor()
  await work(tenant)
  const rows = page.getByRole('table').first().locator('tbody tr')
  await rows.nth(2).waitFor()
  expect(await rows.count()).toBe(3)
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('table').nth(1).locator('tbody tr').nth(2).waitFor()
  await check(page, 'insights-lexical')
  await page.getByRole('table').nth(1).getByRole('link').first().click()
  await page.getByRole('tree').waitFor()
  expect(problems.filter(problem => !/422/.test(problem))).toEqual([])
})

it('shows the report of a model, and what it says of hostile traces as text', async () => {
  const { tenant, services, session_id, models, startJob } = await newModelTenant()
  const answer = models.answer
  models.answer = call =>
    call.schema?.name === 'report'
      ? {
          title: '<img src=x onerror=alert(1)>',
          key_points: ['Read [this](javascript:alert(1)).', 'Invoices are often wrong.'],
          highlighted_traces: [{ n: 1, reason: 'It was charged twice.' }],
        }
      : answer(call)
  const id = await startJob({ hierarchy: [3, 1] })
  await work(tenant, services)
  const { page, problems } = await dashboard.open(tenant, `/traces/${session_id}/insights/${id}`)
  await button(page, 'Hide whose account this is').click()
  await page.getByRole('heading', { name: '<img src=x onerror=alert(1)>' }).waitFor()
  await page.getByText('It was charged twice.').waitFor()
  await link(page, 'About the invoice').last().click()
  await page.getByText('The user asked about the invoice.').nth(1).waitFor()
  await check(page, 'insights-report')
  await button(page, 'Delete job').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete job' }).click()
  await page.getByText('No insights yet').waitFor()
  expect(problems).toEqual([])
})
