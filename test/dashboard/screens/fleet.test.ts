// The fleet in a real browser: of an organization, and of the installation for an instance admin.
import { expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'

const dashboard = useDashboard({ settings: { INSTANCE_ADMIN_EMAILS: 'admin@example.com' } })

async function newFleet() {
  const tenant = await newTenant({ app: dashboard.app })
  await tenant.post('/v2/deployments', makeImageBody())
  await tenant.post('/v2/listeners', { compute_type: 'local', compute_id: 'rack-1' })
  await tenant.owner.patch('/orgs/current', { display_name: 'Acme' })
  return tenant
}

it('shows an organization what it has and what waits', async () => {
  await dashboard.app.housekeep()
  const { page, problems } = await dashboard.open(await newFleet(), '/settings')
  await page.getByRole('link', { name: 'Fleet' }).click()
  await page.getByRole('heading', { name: 'Acme' }).waitFor()
  await page.getByRole('row').filter({ hasText: 'rack-1' }).waitFor()
  await page.getByRole('row').filter({ hasText: 'Default' }).first().waitFor()
  await page.getByRole('row').filter({ hasText: 'Audit log' }).getByText('On time').waitFor()
  expect(await page.getByRole('button', { name: 'Installation' }).count()).toBe(0)
  await check(page, 'fleet')
  expect(problems).toEqual([])
})

it('shows an instance admin the whole installation', async () => {
  const tenant = await newFleet()
  await tenant.owner.post('/orgs/current/members', { email: 'admin@example.com' })
  await tenant.post('/workspaces/current/members', { email: 'admin@example.com' })
  const { page, problems } = await dashboard.open(tenant, '/fleet', { email: 'admin@example.com' })
  await page.getByRole('heading', { name: 'Organizations' }).waitFor()
  await page.getByRole('row').filter({ hasText: 'Acme' }).first().waitFor()
  await check(page, 'fleet-installation')
  expect(problems).toEqual([])
})

it('is not for others, who read why', async () => {
  const tenant = await newFleet()
  await tenant.post('/workspaces/current/members', { email: 'user@example.com' })
  const { page } = await dashboard.open(tenant, '/fleet', { email: 'user@example.com' })
  await page.getByRole('heading', { name: 'Your role cannot see the fleet' }).waitFor()
  expect(await page.getByRole('link', { name: 'Fleet' }).count()).toBe(0)
})
