// The dashboard with answers that are broken, addresses that mean nothing, and two people in one browser.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { ADMIN } from '../../../src/people/access/built-in-roles.ts'
import { newTenant, type Tenant } from '../../support/app.ts'
import { useDashboard } from '../../support/dashboard.ts'

const dashboard = useDashboard()

const SCREENS = ['deployments', 'queue', 'previews', 'history', 'listeners', 'providers', 'integrations', 'webhooks']
const TRACING = [
  'traces',
  'traces/1',
  'traces/1/charts',
  'traces/1/threads',
  'traces/1/feedback',
  'traces/1/2',
  'traces/run/1',
  'datasets',
  'datasets/1',
  'datasets/new',
  'rules',
  'rules/1',
  'rules/new',
  'annotation',
  'annotation/1',
  'annotation/new',
]
const SETTINGS = ['audit', 'members', 'roles', 'keys', 'settings', 'account', 'new']
const TABS = [
  '',
  '/logs',
  '/requests',
  '/metrics',
  '/traces',
  '/history',
  '/previews',
  '/environment',
  '/settings',
  '/compare',
  '/revisions/1',
]

async function newDeployment(tenant: Tenant): Promise<string> {
  const source = { source: 'internal_source', source_config: {}, source_revision_config: {}, secrets: [] }
  const { body } = await tenant.post('/v2/deployments', { name: 'shop', ...source })
  await tenant.post(`/v2/deployments/${body.id}/revisions`, {})
  return body.id
}

/** Without reading the page again, as a link does. */
const goTo = (page: Page, address: string) => page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`)
const person = (page: Page, name: RegExp) => page.locator('#workspaces').getByText(name)
const readScreen = (page: Page) => page.locator('#content > :not(aside)').allInnerTexts()

const API_PATHS = [
  'v1',
  'v2',
  'workspaces',
  'orgs',
  'sessions',
  'runs',
  'datasets',
  'examples',
  'feedback',
  'annotation-queues',
]
const ANSWERS = [
  ['lacks members', '{"resources":[{}],"items":[null],"logs":7}'],
  ['is a page of a proxy', '<h1>Please wait</h1>'],
] as const

it('no screen is empty if answers lack members', async () => {
  const tenant = await newTenant()
  const id = await newDeployment(tenant)
  const { page } = await dashboard.open(tenant, '/deployments')
  await page.route(new RegExp(`^https://[^/]+/(${API_PATHS.join('|')})\\b(?!/me$|/events/stream)`), route =>
    route.fulfill({ body: ANSWERS[0][1], contentType: 'application/json' }),
  )
  for (const screen of [...SCREENS, ...TRACING, ...SETTINGS, ...TABS.map(tab => `deployments/${id}${tab}`)]) {
    await goTo(page, `/ui/${tenant.tenant_id}/${screen}`)
    await expect.poll(async () => (await readScreen(page)).join('').trim().length).toBeGreaterThan(20)
  }
  await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/deployments/${id}`)
  await page.getByRole('alert').first().waitFor()
})

it.each(ANSWERS)('the page says what is wrong if the answer about the caller %s', async (_, body) => {
  const { page } = await dashboard.newVisitor()
  await page.route('**/v2/me', route => route.fulfill({ body, contentType: 'application/json' }))
  await page.goto(`${dashboard.origin}/ui/`)
  await page.getByRole('alert').waitFor()
})

it('shows that it loads until it knows who is here', async () => {
  const { page } = await dashboard.newVisitor()
  await page.route('**/v2/me', () => {})
  await page.goto(`${dashboard.origin}/ui/`)
  await page.getByRole('status', { name: 'Loading' }).waitFor()
})

it('keeps what an address says, whatever it is', async () => {
  const tenant = await newTenant()
  const id = await newDeployment(tenant)
  const { page, problems } = await dashboard.open(tenant, '/deployments?q=constructor:x')
  const filter = page.getByLabel('Filter deployments')
  expect(await filter.inputValue()).toBe('constructor:x')
  await page.getByRole('heading', { name: 'No deployment matches' }).waitFor()
  await filter.fill('%41 100%25')
  await page.waitForURL(/%2541/)
  expect(await filter.inputValue()).toBe('%41 100%25')
  // They read the same list, one by its pages.
  for (const screen of ['history', 'compare', 'history', 'compare'])
    for (const at of ['', '?at=x&from=%00&to=-1', '?at=%2B275760-09-13T00:00:00Z&range=constructor']) {
      await goTo(page, `/ui/${tenant.tenant_id}/deployments/${id}/${screen}${at}`)
      await (screen === 'compare' ? page.getByLabel('From') : page.getByRole('slider')).waitFor()
    }
  expect(problems).toEqual([])
})

it('shows nothing of a person when another one has signed in in another tab', async () => {
  const tenant = await newTenant()
  const inWorkspace = { 'X-Tenant-Id': tenant.tenant_id }
  for (const full_name of ['Ada', 'Eve']) {
    const email = `${full_name.toLowerCase()}@example.com`
    await tenant.owner.post('/workspaces/current/members', { email, full_name, role_id: ADMIN }, inWorkspace)
  }
  const { context, page } = await dashboard.open(tenant, '/deployments', { email: 'ada@example.com' })
  // The name of the organization has random hexadecimal digits, which can spell ada.
  const [ada, eve] = [/Ada|ada@/, /Eve/]
  await person(page, ada).waitFor({ state: 'attached' })
  await context.clearCookies()
  const second = await context.newPage()
  await dashboard.signIn({ page: second }, tenant, { next: `/ui/${tenant.tenant_id}/queue`, email: 'eve@example.com' })
  await person(page, eve).waitFor({ state: 'attached' })
  expect(await page.getByText(ada).count()).toBe(0)
})
