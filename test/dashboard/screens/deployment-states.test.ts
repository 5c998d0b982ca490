// The list, the page of a deployment and the queue, with deployments in every state.
import { describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { advanceRevisionTo, newDeployment, reportRevision } from '../../support/deployments.ts'

const dashboard = useDashboard()

type Deployment = { id: string; latest_revision_id: string }
const deployed = async (tenant: Tenant, name: string): Promise<Deployment> => {
  const one = await newDeployment(tenant, { name })
  await advanceRevisionTo(tenant, one.id, one.latest_revision_id, 'DEPLOYED', { url: `https://${name}.example.com` })
  return one
}
const redeploy = async (tenant: Tenant, { id }: Deployment) =>
  (await tenant.post(`/v2/deployments/${id}/revisions`)).body as { id: string }

async function fillWorkspace(): Promise<{ tenant: Tenant; shop: Deployment; blog: Deployment }> {
  const tenant = await newTenant()
  const shop = await deployed(tenant, 'shop')
  const failed = await redeploy(tenant, shop)
  const message = '`npm ci` exited with code 1: package-lock.json is not in sync with package.json'
  await advanceRevisionTo(tenant, shop.id, failed.id, 'BUILD_FAILED', { message })
  const blog = await deployed(tenant, 'blog')
  const building = await redeploy(tenant, blog)
  await redeploy(tenant, blog)
  await reportRevision({ deployment_id: blog.id, revision_id: building.id }, 'building')
  for (const name of ['checkout', 'image-resizer']) await deployed(tenant, name)
  const stopped = await newDeployment(tenant, { name: 'sandbox' })
  await tenant.post(`/v2/deployments/${stopped.id}/revisions/${stopped.latest_revision_id}/interruption`)
  return { tenant, shop, blog }
}

describe('the deployments of a workspace', () => {
  it('are grouped, counted and filtered by state, and operated from their rows', async () => {
    const { tenant } = await fillWorkspace()
    const { page, problems } = await dashboard.open(tenant, '/deployments')
    const row = (name: string) => page.getByRole('row').filter({ hasText: name })
    await row('shop').getByText('Build failed', { exact: true }).waitFor()
    await row('blog').getByText('r3 is queued behind r2', { exact: true }).waitFor()
    await page.getByText('5 deployments', { exact: true }).waitFor()
    await row('blog').hover()
    await row('blog').getByRole('button', { name: 'Interrupt r2: blog' }).waitFor()
    await check(page, 'deployments')

    await page.getByRole('button', { name: 'Needs attention 1' }).click()
    await page.getByText('1 of 5', { exact: true }).waitFor()
    await row('checkout').waitFor({ state: 'detached' })
    expect(new URL(page.url()).search).toBe('?view=attention')
    await page.keyboard.press('/')
    await page.keyboard.type('source:template')
    await page.getByRole('button', { name: 'Show all deployments' }).click()
    await row('checkout').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('listener:nowhere')
    await page.getByText('There is no listener “nowhere”').waitFor()
    expect(problems).toEqual([])
  })

  it('have reasons with remedies, and a queue that says what waits behind what', async () => {
    const { tenant, shop, blog } = await fillWorkspace()
    const { page, problems } = await dashboard.open(tenant, `/deployments/${shop.id}`)
    await page.getByRole('heading', { name: 'The latest revision failed Revision r2' }).waitFor()
    const log = page.getByRole('link', { name: 'Read the log', exact: true })
    expect(await log.getAttribute('href')).toMatch(/\/logs\?revision=[0-9a-f-]{36}$/)
    const compare = page.getByRole('link', { name: 'Compare with the serving revision', exact: true })
    expect(await compare.getAttribute('href')).toContain(`from=${shop.latest_revision_id}`)
    await check(page, 'deployment-failed')

    // It takes the place of r3.
    await redeploy(tenant, blog)
    await page.keyboard.press('g')
    await page.keyboard.press('q')
    const entry = (text: string) => page.getByRole('listitem').filter({ hasText: text })
    await entry('Queued behind r2').getByText('r4', { exact: true }).waitFor()
    await entry('Skipped').getByRole('link', { name: 'Open r3', exact: true }).waitFor()
    await check(page, 'queue')
    await entry('Building').getByRole('button', { name: 'Interrupt r2', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Interrupt r2', exact: true }).click()
    await page.getByText('blog: r2 is interrupted.', { exact: true }).first().waitFor()
    await entry('Waiting for the listener').getByRole('button', { name: 'Interrupt r4', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Interrupt r4', exact: true }).click()
    await page.getByRole('heading', { name: 'Nothing in progress' }).waitFor()

    await page.goto(`${dashboard.origin}/ui/deployments/${blog.id}`)
    await page.getByText('The data plane has not confirmed it yet').waitFor()
    expect(problems).toEqual([])
  })
})
