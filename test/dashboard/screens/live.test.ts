// The dashboard tells the truth: in a hidden tab, in a second tab, without a stream, and with a thousand deployments.
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, type Tenant } from '../../support/app.ts'
import { isLive, useDashboard, WIDE } from '../../support/dashboard.ts'
import { imageConfig, newDeployment } from '../../support/deployments.ts'
import { query } from '../../support/postgres.ts'
import { database } from '../../support/worker-database.ts'

const dashboard = useDashboard()
const rowOf = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })
const STREAM = '/v2/events/stream'

/** Headless tabs are never hidden by another one. */
const setHidden = (page: Page, hidden: boolean) =>
  page.evaluate(`{
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${hidden} })
    document.dispatchEvent(new Event('visibilitychange'))
  }`)

/** At the list, with a clock that the test can put forward. */
async function openWithClock(tenant: Tenant) {
  const visitor = await dashboard.newVisitor({ viewport: WIDE })
  await visitor.page.clock.install()
  await dashboard.signIn(visitor, tenant, { next: `/ui/${tenant.tenant_id}/deployments` })
  return visitor
}

it('a hidden tab closes its stream, and shows what happened when it is shown again', async () => {
  const tenant = await newTenant()
  const { page, problems } = await openWithClock(tenant)
  await isLive(page)
  const closed = page.waitForEvent('requestfailed', request => request.url().includes(STREAM))
  await setHidden(page, true)
  await page.clock.fastForward(6_000)
  await closed
  await newDeployment(tenant, { name: 'while-hidden' })
  await setHidden(page, false)
  await rowOf(page, 'while-hidden').waitFor()
  await newDeployment(tenant, { name: 'while-shown' })
  await rowOf(page, 'while-shown').waitFor()
  await isLive(page)
  expect(problems).toEqual([])
})

it('the second tab reads the stream on when the tab that read it is closed', async () => {
  const tenant = await newTenant()
  const { context, page } = await dashboard.open(tenant, '/deployments')
  const second = await context.newPage()
  await second.goto(page.url())
  await isLive(second)
  await page.close()
  await newDeployment(tenant, { name: 'after-the-first' })
  await rowOf(second, 'after-the-first').waitFor()
  await isLive(second)
})

it('a page whose stream is refused says so, and reads again every 15 seconds', async () => {
  const tenant = await newTenant()
  const visitor = await dashboard.newVisitor({ viewport: WIDE })
  const { page } = visitor
  await page.clock.install()
  const refusal = { status: 403, code: 'permission_missing', title: 'Refused', detail: 'No stream.', request_id: 'r' }
  const answer = { status: 403, contentType: 'application/problem+json', body: JSON.stringify(refusal) }
  await page.route(`**${STREAM}**`, route => route.fulfill(answer))
  await dashboard.signIn(visitor, tenant, { next: `/ui/${tenant.tenant_id}/deployments` })
  await page.getByRole('status').filter({ hasText: 'Every 15 s' }).waitFor()
  await page.getByRole('heading', { name: 'No deployments yet' }).waitFor()
  await newDeployment(tenant, { name: 'polled' })
  await page.clock.fastForward(15_000)
  await rowOf(page, 'polled').waitFor()
})

/** With one deployment in progress, the oldest, and 999 others. */
async function fillWorkspace(): Promise<Tenant> {
  const tenant = await newTenant()
  await newDeployment(tenant, { name: 'first', ...imageConfig })
  const fill = sql`
    insert into deployments (organization_id, tenant_id, name, source, deployment_type, status, source_config,
      source_revision_config, secrets)
    select organization_id, tenant_id, 'many-' || n, source, deployment_type, 'READY', source_config,
      source_revision_config, secrets
    from deployments, generate_series(1, 999) n
    where tenant_id = ${tenant.tenant_id}::uuid`
  await runAsSystem(getApp().database, fill)
  // Autovacuum does this after a while. Without statistics, the list by state takes over 10 seconds.
  await query(database.url, 'analyze deployments, revisions')
  return tenant
}

it('a list of 1,000 deployments is counted, loads as one scrolls, and fits at 200 % zoom and text', async () => {
  const tenant = await fillWorkspace()
  const { page, problems } = await dashboard.open(tenant, '/deployments')
  await page.getByText('1,000 deployments', { exact: true }).waitFor()
  // Its group comes first, though it is on the last page of the list.
  await rowOf(page, 'first').waitFor()
  const rows = page.locator('a[data-row]')
  const before = await rows.count()
  // Elsewhere it may stand on the menu, which scrolls by itself.
  await rows.first().hover()
  await page.mouse.wheel(0, 100_000)
  await expect.poll(() => rows.count()).toBeGreaterThan(before)
  expect(await page.evaluate('document.querySelectorAll("tbody").length')).toBe(2)
  const overflow = () => page.evaluate('document.documentElement.scrollWidth - innerWidth')
  await page.setViewportSize({ width: WIDE.width / 2, height: WIDE.height / 2 })
  await expect.poll(overflow).toBe(0)
  await page.setViewportSize(WIDE)
  // The text size in the browser's settings.
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Page.setFontSizes', { fontSizes: { standard: 32 } })
  expect(await page.locator('h1').evaluate(heading => getComputedStyle(heading).fontSize)).toBe('40px')
  await expect.poll(overflow).toBe(0)
  expect(problems).toEqual([])
})

it('a list says so when it cannot read a group that comes before its pages', async () => {
  const tenant = await fillWorkspace()
  const { page } = await dashboard.open(tenant, '/deployments')
  await rowOf(page, 'first').waitFor()
  const refusal = { status: 403, code: 'permission_missing', title: 'Refused', detail: 'No group.', request_id: 'r' }
  const answer = { status: 403, contentType: 'application/problem+json', body: JSON.stringify(refusal) }
  await page.route(/state=in_flight/, route => route.fulfill(answer))
  await page.reload()
  await page.getByRole('alert').getByText('No group.').waitFor()
  expect(await page.locator('a[data-row]').count()).toBeGreaterThan(90)
})
