// The time machine and the previews in a real browser.
import type { Page } from 'playwright-core'
import { beforeEach, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { clock, newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import {
  advanceRevisionTo,
  imageConfig,
  minimalBody,
  newDeployment,
  reportRevision,
} from '../../support/deployments.ts'
import { setUpPreviews } from '../../support/previews.ts'
import { newRepositoryDeployment, serveRepositories } from '../../support/pushes.ts'

const dashboard = useDashboard()
beforeEach(() => serveRepositories())

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Events of the last hours: r1 served, r2 failed, r3 served, a change in place, and a rollback to r1. */
async function createHistory(tenant: Tenant) {
  const start = clock.ahead
  const wait = (ms: number) => (clock.ahead += ms)
  try {
    wait(-6 * HOUR)
    const {
      id,
      name,
      latest_revision_id: first,
    } = await newDeployment(tenant, {
      ...minimalBody,
      name: 'shop',
      source_revision_config: imageConfig,
    })
    wait(MINUTE)
    await advanceRevisionTo(tenant, id, first, 'DEPLOYED', { url: 'https://shop.apps.example.com' })
    const patch = async (body: object) => {
      wait(HOUR)
      return (await tenant.patch(`/v2/deployments/${id}`, body)).body.latest_revision_id as string
    }
    const second = await patch({ source_config: { resource_spec: { cpu: 7 } } })
    wait(MINUTE)
    await reportRevision({ deployment_id: id, revision_id: second }, 'failed')
    const third = await patch({ secrets: [{ name: 'TOKEN', value: 'hush' }] })
    wait(MINUTE)
    await advanceRevisionTo(tenant, id, third)
    await patch({ source_config: { custom_url: 'https://shop.example.test' } })
    wait(HOUR)
    const { body } = await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: first })
    wait(MINUTE)
    await advanceRevisionTo(tenant, id, body.latest_revision_id)
    return { id, name }
  } finally {
    clock.ahead = start
  }
}

const serves = (page: Page, title: 'Serves' | 'Served') =>
  page.locator('section').filter({ hasText: new RegExp(`^${title}`) })
const goBack = (page: Page) => page.keyboard.press('[')

it('a deployment is walked back in time with keys, and shown at the moment of a link', async () => {
  const tenant = await newTenant()
  const { id } = await createHistory(tenant)
  const { page, problems } = await dashboard.open(tenant, `/deployments/${id}`)
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  await page.keyboard.press('h')
  await page.getByRole('heading', { name: 'The last changes' }).waitFor()
  await serves(page, 'Serves').getByText('r4', { exact: true }).waitFor()

  // When r4 served, when it was wanted, and the change in place before: r3 served.
  await goBack(page)
  await goBack(page)
  await goBack(page)
  const served = serves(page, 'Served')
  await served.getByText('r3', { exact: true }).waitFor()
  await served.getByText(/r4 serves, since/).waitFor()
  const address = new URL(page.url())
  expect(address.searchParams.get('at')).toMatch(/^\d{4}-/)
  await page.getByRole('row', { name: /secrets\.TOKEN/ }).waitFor()
  await check(page, 'history-past')

  // Before r3 was wanted: r2 failed while r1 served.
  for (let i = 0; i < 3; i++) await goBack(page)
  await page.getByText('Deploy failed', { exact: true }).first().waitFor()
  await served.getByText('r1', { exact: true }).waitFor()
  expect(await served.getByRole('link', { name: 'Roll back to r1' }).getAttribute('href')).toContain(
    '/compare?from=4&to=1',
  )
  const link = page.url()

  await page.keyboard.press('n')
  await serves(page, 'Serves').getByText('r4', { exact: true }).waitFor()
  expect(new URL(page.url()).search).toBe('')
  await page.goto(link)
  await served.getByText('r1', { exact: true }).waitFor()

  await page.goto(`${dashboard.origin}/ui/deployments/${id}/history?at=2020-01-01T00:00:00Z`)
  await page.getByRole('heading', { name: 'The deployment did not exist' }).waitFor()
  await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/history?${link.split('?')[1]}`)
  const row = page.getByRole('row').filter({ hasText: 'shop' })
  await row.getByText('Different').waitFor()
  await row.getByText('r1 serves').waitFor()
  await check(page, 'history')
  expect(problems).toEqual([])
})

it('a fork’s commit is approved as it is shown, and not one that arrives meanwhile', async () => {
  const { tenant, repository, parent, pull, preview } = await setUpPreviews({ forks: 'approve' })
  await pull('opened', 7, { branch: 'feature/cart' })
  const [first, second] = ['a1b2c3d4'.repeat(5), 'e5f60718'.repeat(5)] as const
  await pull('opened', 8, { branch: 'patch-1', fork: true, sha: first })
  const { page, problems } = await dashboard.open(tenant, `/deployments/${parent.id}`)
  await page.getByRole('heading', { name: parent.name }).waitFor()
  await page.keyboard.press('v')
  await page.getByRole('button', { name: `Approve ${first.slice(0, 7)} …` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(`Commit ${first}`, { exact: true }).waitFor()
  expect(await dialog.getByRole('link', { name: 'Read the commit' }).getAttribute('href')).toBe(
    `${repository.url}/commit/${first}`,
  )
  await dialog.getByText('OVERLAY').waitFor()
  await check(page, 'preview-approval')

  await pull('synchronize', 8, { branch: 'patch-1', fork: true, sha: second })
  await dialog.getByRole('alert').getByText('A newer commit has arrived').waitFor()
  expect(await dialog.getByRole('button', { name: /^Approve [0-9a-f]/ }).count()).toBe(0)
  await dialog.getByRole('button', { name: `Look at ${second.slice(0, 7)}` }).click()
  await dialog.getByText(`Commit ${second}`, { exact: true }).waitFor()
  await dialog.getByRole('button', { name: `Approve ${second.slice(0, 7)}`, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  await finishPendingWork()
  expect((await preview(8)).approved_sha).toBe(second)
  await check(page, 'previews-of-deployment')

  const other = await newRepositoryDeployment(tenant, repository, 0, { name: 'docs' })
  await tenant.put(`/v2/deployments/${other.id}/preview-policy`, { branches: ['feature/*'] })
  await pull('synchronize', 7, { branch: 'feature/cart' })
  await page.keyboard.press('g')
  await page.keyboard.press('v')
  await page.getByRole('heading', { name: 'Previews', exact: true }).waitFor()
  await page.getByRole('row').filter({ hasText: 'docs #7' }).waitFor()
  await check(page, 'previews')
  await page.keyboard.press('x')
  const cart = page.getByRole('row').filter({ hasText: 'feature/cart' })
  await expect.poll(() => cart.getByText('#7').count()).toBe(2)
  expect(new URL(page.url()).searchParams.get('as')).toBe('matrix')
  await check(page, 'preview-matrix')
  expect(problems).toEqual([])
})

it('a preview policy is set up by its plan, and a preview is removed', async () => {
  const { tenant, parent, pull, preview } = await setUpPreviews()
  await pull('opened', 3, { branch: 'feature/cart' })
  const { page, problems } = await dashboard.open(tenant, `/deployments/${parent.id}/previews`)
  await page.getByRole('button', { name: 'Change policy' }).click()
  await page.getByLabel('Branches').fill('release/*')
  await page.getByLabel('At most').fill('3')
  await check(page, 'preview-policy')
  await page.getByRole('button', { name: 'Plan the policy' }).click()
  await page
    .getByRole('row', { name: /branches/ })
    .getByText('release/*')
    .waitFor()
  await check(page, 'preview-policy-plan')
  await page.getByRole('button', { name: 'Apply policy', exact: true }).click()
  await page.getByText('3 at once').waitFor()

  await page.getByRole('button', { name: 'Remove preview', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove preview', exact: true }).click()
  await page.getByRole('row').filter({ hasText: '#3' }).getByText('Ended').waitFor()
  await finishPendingWork()
  expect((await preview(3)).state).toBe('ended')
  await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/previews`)
  await page.getByRole('heading', { name: 'No open previews' }).waitFor()
  await check(page, 'previews-empty')
  expect(problems).toEqual([])
})
