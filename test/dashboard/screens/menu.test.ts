// The menu shows what the workspace uses, and folds the rest.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { check, isLive, PHONE, useDashboard } from '../../support/dashboard.ts'

const dashboard = useDashboard()

const ESSENTIAL = [
  'Deployments',
  'Queue',
  'History',
  'Alerts',
  'Logs',
  'Traces',
  'Channels',
  'Members',
  'Keys',
  'Workspace',
  'API pages',
]
const menu = (page: Page) => page.locator('#menu').getByRole('navigation', { name: 'Workspace' })
const readMenu = (page: Page) => menu(page).getByRole('link').allInnerTexts()
const more = (page: Page) => menu(page).getByRole('button', { name: 'More' })
const countJournalReads = () => dashboard.paths.filter(path => path === '/v2/events').length

it('folds what a workspace does not use behind a button, and the browser remembers that it is open', async () => {
  const tenant = await newTenant()
  const { page, problems } = await dashboard.open(tenant, '/deployments')
  expect(await readMenu(page)).toEqual(ESSENTIAL)
  await check(page, 'menu-folded')
  expect(await more(page).getAttribute('aria-expanded')).toBe('false')
  await more(page).press('Enter')
  expect(await more(page).getAttribute('aria-expanded')).toBe('true')
  const all = await readMenu(page)
  expect(all).toEqual(expect.arrayContaining([...ESSENTIAL, 'Previews', 'Webhooks', 'Audit']))
  await check(page, 'menu-open')
  await page.reload()
  await isLive(page)
  expect(await readMenu(page)).toEqual(all)
  await more(page).click()
  expect(await readMenu(page)).toEqual(ESSENTIAL)
  expect(problems).toEqual([])
})

it('shows the entry of the open page, and those in use, which it learns with one request', async () => {
  const tenant = await newTenant()
  const { page, context } = await dashboard.open(tenant, '/rules')
  expect(await readMenu(page)).toEqual(ESSENTIAL.toSpliced(6, 0, 'Rules'))
  expect(await menu(page).getByRole('link', { name: 'Rules' }).getAttribute('aria-current')).toBe('page')
  await menu(page).getByRole('link', { name: 'Queue' }).click()
  await menu(page).getByRole('link', { name: 'Rules' }).waitFor({ state: 'detached' })

  // By a live event, and then from what the browser remembers.
  await tenant.post('/v2/webhooks', { url: 'https://hooks.example.com/slipway', event_types: ['*'] })
  await menu(page).getByRole('link', { name: 'Webhooks' }).waitFor()
  await menu(page).getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('heading', { name: 'Keys' }).waitFor()
  const before = countJournalReads()
  const second = await context.newPage()
  await second.goto(page.url())
  await isLive(second)
  expect(await readMenu(second)).toContain('Webhooks')
  expect(countJournalReads(), 'a browser that knows the workspace asks nothing').toBe(before)

  const other = await dashboard.open(tenant, '/keys', { viewport: PHONE })
  await other.page.getByRole('button', { name: 'Menu' }).click()
  await other.page.locator('#phone-menu').getByRole('link', { name: 'Webhooks' }).waitFor()
  await expect.poll(countJournalReads).toBe(before + 1)
})
