// The dashboard in a real browser: signing in, a deployment that changes while it is watched, and how it looks.
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, type Tenant } from '../../support/app.ts'
import { expectAccessible } from '../../support/browser.ts'
import { check, isLive, PHONE, useDashboard } from '../../support/dashboard.ts'

const dashboard = useDashboard()

type Deployment = { id: string; name: string; latest_revision_id: string }
/** Without an agent its revision waits. */
async function createDeployment(tenant: Tenant, name: string): Promise<Deployment> {
  const source = { source: 'internal_source', source_config: {}, source_revision_config: {}, secrets: [] }
  return (await tenant.post('/v2/deployments', { name, ...source })).body
}
const interrupt = (tenant: Tenant, { id, latest_revision_id }: Deployment) =>
  tenant.post(`/v2/deployments/${id}/revisions/${latest_revision_id}/interruption`)

const rowOf = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })

describe('the dashboard', () => {
  it('leads a person without a session to the sign-in page, and back to the same view', async () => {
    const tenant = await newTenant()
    const { page, problems } = await dashboard.newVisitor()
    await page.goto(`${dashboard.origin}/ui/deployments?q=shop`)
    await page.getByLabel('API key').fill(tenant.key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await isLive(page)
    expect(page.url()).toBe(`${dashboard.origin}/ui/${tenant.tenant_id}/deployments?q=shop`)
    expect(problems).toEqual([])
  })

  it('shows what others do as it happens, and is operated with keys', async () => {
    const tenant = await newTenant()
    const { page, problems } = await dashboard.open(tenant, '/')
    await page.getByRole('heading', { name: 'No deployments yet' }).waitFor()
    const shop = await createDeployment(tenant, 'shop')
    await rowOf(page, 'shop').getByText('Waiting for a source', { exact: true }).waitFor()
    await interrupt(tenant, shop)
    await rowOf(page, 'shop').getByText('Interrupted', { exact: true }).waitFor()

    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'The latest revision was interrupted' }).waitFor()
    expect(new URL(page.url()).pathname).toBe(`/ui/${tenant.tenant_id}/deployments/${shop.id}`)
    await page.getByRole('button', { name: 'Deploy again', exact: true }).first().click()
    await page.getByRole('dialog', { name: 'Deploy shop again' }).getByText('Creates r2.').waitFor()
    await page.keyboard.press('Control+Enter')
    await page.getByText('a new revision of the current configuration is queued').waitFor()
    await page.getByText('r2', { exact: true }).first().waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('activity')
    await page.keyboard.press('Enter')
    const done = page.getByRole('dialog', { name: 'Activity in this tab' })
    await done.getByRole('listitem').getByText('a new revision of the current configuration is queued').waitFor()
    await page.keyboard.press('Escape')
    await done.waitFor({ state: 'detached' })
    await page.keyboard.press('Control+k')
    await page.keyboard.type('deployments')
    await page.keyboard.press('Enter')
    await rowOf(page, 'shop').waitFor()
    expect(problems).toEqual([])
  })

  it('keeps the filter in the address, and offers to remove one that matches nothing', async () => {
    const tenant = await newTenant()
    for (const name of ['search', 'shop']) await createDeployment(tenant, name)
    const { page, problems } = await dashboard.open(tenant, '/deployments?q=sea')
    await rowOf(page, 'search').waitFor()
    expect(await rowOf(page, 'shop').count()).toBe(0)
    await page.keyboard.press('/')
    await page.keyboard.type('-of-nothing')
    await page.getByRole('button', { name: 'Show all deployments' }).click()
    await rowOf(page, 'shop').waitFor()
    expect(new URL(page.url()).search).toBe('')
    expect(problems).toEqual([])
  })

  it('has one stream for two tabs, and continues it after the network was cut', async () => {
    const tenant = await newTenant()
    const { context, page } = await dashboard.open(tenant, '/deployments')
    const countStreams = () => dashboard.paths.filter(path => path === '/v2/events/stream').length
    const before = countStreams()
    const second = await context.newPage()
    await second.goto(`${dashboard.origin}/ui/deployments`)
    await isLive(second)
    const blog = await createDeployment(tenant, 'blog')
    await Promise.all(
      [page, second].map(tab => rowOf(tab, 'blog').getByText('Waiting for a source', { exact: true }).waitFor()),
    )
    expect(countStreams()).toBe(before)

    await context.setOffline(true)
    await page.getByText(/^Offline since/).waitFor()
    await interrupt(tenant, blog)
    await context.setOffline(false)
    await isLive(page)
    await rowOf(page, 'blog').getByText('Interrupted', { exact: true }).waitFor()
  })

  it('stays open when the session ends, and goes on after a new one', async () => {
    const tenant = await newTenant()
    const { context, page } = await dashboard.open(tenant, '/deployments?view=idle')
    const { organization_id } = tenant
    await runAsSystem(getApp().database, sql`delete from sessions where organization_id = ${organization_id}::uuid`)
    await createDeployment(tenant, 'news')
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    expect(await dialog.getByRole('link', { name: 'Sign in', exact: true }).getAttribute('href')).toContain(
      'view%3Didle',
    )
    await dashboard.signIn({ page: await context.newPage() }, tenant)
    await dialog.getByRole('button', { name: 'I have signed in elsewhere' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'No deployment matches' }).waitFor()
  })

  it('has no fault of accessibility and fits the screen, light and wide, dark and on a phone', async () => {
    const tenant = await newTenant()
    const name = 'a-name-as-long-as-names-of-deployments-are-allowed-to-be-here'
    const deployment = await createDeployment(tenant, name)
    const { page, problems } = await dashboard.open(tenant, '/deployments')
    await rowOf(page, name).waitFor()
    await check(page, 'list')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor()
    await check(page, 'shortcuts')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+k')
    await page.getByRole('option').first().waitFor()
    await check(page, 'palette')
    await page.goto(`${dashboard.origin}/ui/deployments/${deployment.id}`)
    await page.getByRole('heading', { name: 'Revisions' }).waitFor()
    const upload = page.getByRole('link', { name: 'Upload a folder', exact: true })
    expect(await upload.getAttribute('href')).toMatch(/\/settings$/)
    await check(page, 'deployment')
    await page.getByRole('button', { name: 'Delete deployment', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    await check(page, 'question')
    await page.goto(`${dashboard.origin}/ui/deployments/${crypto.randomUUID()}`)
    await page.getByRole('heading', { name: 'Deployment not found' }).waitFor()
    await check(page, 'gone')
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/nothing`)
    await page.getByRole('heading', { name: 'Page not found' }).waitFor()
    await page.setViewportSize(PHONE)
    await expectAccessible(page)
    await page.getByRole('navigation', { name: 'Main screens' }).getByRole('link', { name: 'Queue' }).click()
    await page.getByRole('heading', { name: 'Queue', level: 1 }).waitFor()
    expect(problems).toEqual([])
  })
})
