// The search of logs in a real browser.
import { expect, it } from 'vitest'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'

const dashboard = useDashboard()

it('finds lines of all deployments, shows the members of one, and leads to the others with the same', async () => {
  const { tenant, openLog } = await newLoggedDeployment({ name: 'shop' })
  const timestamp = new Date(Date.now() - 60_000).toISOString()
  await openLog()([
    { message: '{"msg": "paid <b>", "user": 42}', timestamp },
    { message: 'refused', level: 'ERROR', timestamp },
  ])
  const { page, problems } = await dashboard.open(tenant, '/logs?level=info')
  const rows = page.locator('summary')
  await rows.getByText('refused', { exact: true }).waitFor()
  await page.getByRole('img', { name: '2 lines, 1 of them errors' }).waitFor()
  await rows.getByText('paid <b>', { exact: true }).click()
  await page.getByRole('link', { name: '42' }).waitFor()
  await check(page, 'log-search')
  await page.getByRole('link', { name: '42' }).click()
  await rows.getByText('refused', { exact: true }).waitFor({ state: 'detached' })
  await rows.getByText('paid <b>', { exact: true }).waitFor()
  expect(problems).toEqual([])
})
