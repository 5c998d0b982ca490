// Changing a deployment in the dashboard: every change shows its plan first, and a draft is not lost.
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import { getApp, newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { advanceRevisionTo, listRevisions } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const dashboard = useDashboard()

type Shop = { tenant: Tenant; id: string; path: string; read: () => Promise<Wanted> }
type Wanted = {
  source_config: { resource_spec: Record<string, number> | null; build_command: string | null }
  secrets: { name: string }[]
  hold: unknown
}

/** With a revision that serves. */
async function newShop(secrets: { name: string; value: string }[] = []): Promise<Shop> {
  const tenant = await newTenant()
  const { body } = await tenant.post('/v2/deployments', {
    name: 'shop',
    source: 'internal_template',
    source_config: { template_id: 'web-service' },
    source_revision_config: {},
    secrets,
  })
  await deploy(tenant, body.id)
  const path = `/v2/deployments/${body.id}`
  return { tenant, id: body.id, path, read: async () => (await tenant.get(path)).body }
}

async function deploy(tenant: Tenant, id: string): Promise<void> {
  const [latest] = await listRevisions(tenant, id)
  await advanceRevisionTo(tenant, id, latest!.id, 'DEPLOYED', { url: 'https://shop.apps.example.com' })
}
const setCpu = ({ tenant, path }: Shop, cpu: number) =>
  tenant.patch(path, { source_config: { resource_spec: { cpu, memory_mb: 2048 } } })

const dialogOf = (page: Page, name: string) => page.getByRole('dialog', { name })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

/** Into the field that has the focus. */
const paste = (page: Page, text: string) =>
  page.evaluate(`{
    const clipboardData = new DataTransfer()
    clipboardData.setData('text', ${JSON.stringify(text)})
    const pasted = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
    document.activeElement.dispatchEvent(pasted)
  }`)

it('rolls back after its difference was shown, and says what holds then', async () => {
  const shop = await newShop([{ name: 'GREETING', value: 'hello' }])
  await setCpu(shop, 2)
  await deploy(shop.tenant, shop.id)
  const { page, problems } = await dashboard.open(shop.tenant, `/deployments/${shop.id}`)
  await page.getByRole('button', { name: 'Roll back' }).first().waitFor()
  // A folder has no files of a template.
  expect(await page.getByText('slipway deploy --name').count()).toBe(0)
  await page.keyboard.press('r')
  const dialog = dialogOf(page, 'Roll back shop to r1')
  await dialog.getByText('Creates r3. r2 serves until it is healthy.').waitFor()
  await dialog.getByRole('row', { name: 'resource_spec.cpu 2' }).waitFor()
  await dialog.getByText('The hold lasts until you release the hold').waitFor()
  await check(page, 'rollback')
  expect((await shop.read()).hold, 'planning changes nothing').toBe(null)
  await page.keyboard.press('Control+Enter')
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Release the hold', exact: true }).waitFor()
  expect((await shop.read()).source_config.resource_spec).toBe(null)

  await page.getByRole('link', { name: 'r1', exact: true }).click()
  await page.getByText('Configuration', { exact: true }).waitFor()
  await check(page, 'revision')
  await page.getByRole('link', { name: 'Compare', exact: true }).click()
  await page.getByLabel('To', { exact: true }).selectOption('2')
  await page.getByRole('row', { name: 'source_config.resource_spec.memory_mb' }).waitFor()
  expect(new URL(page.url()).search).toBe('?from=1&to=2')
  await check(page, 'compare')
  expect(problems).toEqual([])
})

it('starts a revision with a share, shows what is applied, and gives it all', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy: { ...CLOSED_POLICY, features: ['images', 'traffic', 'traffic_router'] } })
  const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
  const path = `/v2/deployments/${body.id}`
  const report = async (fields: Parameters<typeof agent.report>[1]) => {
    const [work] = (await agent.poll({ cursor: null })).changes
    await agent.report(work!, fields)
  }
  await report({ state: 'deployed', url: 'https://shop.apps.example.com' })
  const { page, problems } = await dashboard.open(tenant, `/deployments/${body.id}/settings`)
  await page.getByLabel('New revisions start with').selectOption('10')
  await button(page, 'Apply traffic').click()
  await page.getByText('shop: later revisions start so.').waitFor()
  await tenant.patch(path, { source_revision_config: { image_uri: 'registry.example.com/shop:2' } })
  const revision_id = (await tenant.get(path)).body.latest_revision_id
  await report({ state: 'deploying', traffic: { revision_id, share: 10 } })
  await page.goto(`${dashboard.origin}/ui/deployments/${body.id}`)
  await page.getByText('r2: 10 %').waitFor()
  await check(page, 'traffic')
  await page.getByLabel('Share of r2').fill('25')
  await button(page, 'Apply share').click()
  await page.getByText('Not applied yet').first().waitFor()
  await button(page, 'Give it all').click()
  await page.getByText('shop: it gets all requests.').waitFor()
  await report({ state: 'deployed' })
  expect((await tenant.get(path)).body).toMatchObject({ active_revision_id: revision_id, traffic: [{ share: 100 }] })
  expect(problems).toEqual([])
})

it('shows the step of a rollout with its gates, moves it, and keeps why a revision was sent back', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const features = ['images', 'traffic', 'traffic_router', 'rollout', 'rollout_gates']
  await agent.poll({ policy: { ...CLOSED_POLICY, features } })
  const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
  const path = `/v2/deployments/${body.id}`
  const report = async (fields: Parameters<typeof agent.report>[1]) => {
    const [work] = (await agent.poll({ cursor: null })).changes
    await agent.report(work!, fields)
  }
  await report({ state: 'deployed', url: 'https://shop.apps.example.com' })
  const steps = [
    { share: 10, minutes: 10, requests: 500 },
    { share: 50, minutes: 60 },
  ]
  await tenant.put(`${path}/rollout`, { steps, gates: { errors: {}, latency: {}, restarts: {} } })
  await tenant.patch(path, { source_revision_config: { image_uri: 'registry.example.com/shop:2' } })
  const revision_id = (await tenant.get(path)).body.latest_revision_id
  const since = new Date().toISOString()
  const side = (count: number, value: number) => ({ count, value })
  const latency = {
    gate: 'latency',
    verdict: 'undecided',
    slower_than_ms: 227,
    p: 0.2,
    message: 'A few more.',
  } as const
  const judge = (verdict: 'passed' | 'failed') => {
    const errors = { gate: 'errors', verdict, canary: side(212, 0.05), serving: side(1_900, 0.001), p: 0.01 } as const
    const gates = [
      { ...errors, message: 'Its requests: 5 % of 212 failed.' },
      { ...latency, canary: side(212, 0.04), serving: side(1_900, 0.03) },
    ]
    return { revision_id, share: 10, rollout: { step: 0, since, requests: 212, gates } }
  }
  const held = judge('passed')
  await report({ state: 'deploying', traffic: { ...held, rollout: { ...held.rollout, outcome: 'holds' } } })
  const { page, problems } = await dashboard.open(tenant, `/deployments/${body.id}`)
  await page.getByText('Step 1 of 2, 10 %').waitFor()
  await page.getByRole('row', { name: /^Errors/ }).waitFor()
  await check(page, 'rollout')
  await button(page, 'Pause').click()
  await page.getByText('Paused', { exact: true }).waitFor()
  await button(page, 'Resume').click()
  await button(page, 'Pause').waitFor()

  const failed = judge('failed')
  const failing_requests = [{ at: since, method: 'GET', path: '/cart', status: 500, ms: 3, trace_id: null }]
  const rollout = { ...failed.rollout, outcome: 'failed' as const, failing_requests }
  await report({ state: 'failed', message: 'Sent back.', traffic: { ...failed, share: 0, rollout } })
  await page.goto(`${dashboard.origin}/ui/deployments/${body.id}/revisions/2`)
  await page.getByText('/cart').waitFor()
  await check(page, 'rollout-failed')
  await page.goto(`${dashboard.origin}/ui/deployments/${body.id}/settings`)
  await page.getByRole('heading', { name: 'Steps of later revisions' }).waitFor()
  await check(page, 'rollout-policy')
  await button(page, 'Remove the steps').click()
  await dialogOf(page, 'Remove the steps of shop?').getByRole('button', { name: 'Remove the steps' }).click()
  await page.getByText('slipway rollout shop').waitFor()
  expect(problems).toEqual([])
})

it('keeps the draft when another person was faster, and shows what they have changed', async () => {
  const shop = await newShop()
  const { page, problems } = await dashboard.open(shop.tenant, `/deployments/${shop.id}`)
  // With keys only.
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  await page.keyboard.press('s')
  await page.getByLabel('CPU').first().focus()
  await page.keyboard.type('2')
  await page.getByText('would create a revision').waitFor()
  await page.keyboard.press('Escape')
  await page.getByLabel('CPU').first().blur()
  await page.keyboard.press('p')
  const dialog = dialogOf(page, 'Plan for shop')
  await dialog.getByRole('button', { name: 'Apply: create r2' }).waitFor()
  await setCpu(shop, 3)
  await page.keyboard.press('Control+Enter')
  await dialog.getByRole('alert').getByText('The deployment changed after this plan was made').waitFor()
  await dialog.getByRole('row', { name: 'resource_spec.cpu' }).getByText('Now 3 by').waitFor()
  await check(page, 'plan-stale')
  expect((await shop.read()).source_config.resource_spec).toEqual({ cpu: 3, memory_mb: 2048 })
  await page.keyboard.press('Control+Enter')
  await dialog.getByRole('button', { name: 'Apply: create r3' }).waitFor()
  // Press both keys without a pause.
  await Promise.all([page.keyboard.press('Escape'), page.keyboard.press('p')])
  expect(await page.getByLabel('CPU').first().inputValue()).toBe('2')
  await dialog.getByRole('button', { name: 'Apply: create r3' }).waitFor()
  await page.keyboard.press('Control+Enter')
  await dialog.waitFor({ state: 'detached' })
  expect((await shop.read()).source_config.resource_spec).toEqual({ cpu: 2, memory_mb: 2048 })
  await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' })

  await page.getByLabel('Build command').waitFor({ state: 'detached' })
  await page.getByLabel('CPU', { exact: true }).first().fill('99')
  await page.getByLabel('Custom URL').fill('/not a host')
  await page.getByText('2 invalid fields').waitFor()
  const faults = page.locator('main [aria-invalid="true"]')
  expect(await faults.evaluateAll(fields => fields.map(field => 'value' in field && field.value))).toEqual([
    '/not a host',
    '99',
  ])
  await check(page, 'deployment-settings')
  expect(problems).toEqual([])
})

it('takes a pasted .env file, compares it by name, and keeps the draft when the session ends', async () => {
  const shop = await newShop([
    { name: 'STRIPE_KEY', value: 'sk_live_1' },
    { name: 'MODE', value: 'live' },
    { name: 'OLD', value: '1' },
  ])
  const { context, page, problems } = await dashboard.open(shop.tenant, `/deployments/${shop.id}/environment`)
  await button(page, 'Add variable').click()
  await page.getByLabel('Name of the new variable').focus()
  await paste(page, 'STRIPE_KEY=sk_live_2\nMODE="live"\nexport CACHE_URL=redis://cache # new\n')
  await button(page, 'Remove OLD').click()
  const compared = page.getByRole('definition')
  await compared.filter({ hasText: /^MODE$/ }).waitFor()
  expect(await compared.allTextContents()).toEqual(expect.arrayContaining(['CACHE_URL', 'STRIPE_KEY', 'OLD', 'MODE']))
  await check(page, 'environment')

  await page.getByLabel('Value of CACHE_URL').fill('redis://cache:6379')
  const { organization_id } = shop.tenant
  await runAsSystem(getApp().database, sql`delete from sessions where organization_id = ${organization_id}::uuid`)
  const ended = dialogOf(page, 'Your session has ended')
  await ended.waitFor()
  await dashboard.signIn({ page: await context.newPage() }, shop.tenant)
  await ended.getByRole('button', { name: 'I have signed in elsewhere' }).click()
  await ended.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Plan the change' }).click()
  const dialog = dialogOf(page, 'Plan for shop')
  await dialog.getByRole('row', { name: 'Variable OLD' }).getByText('removed').waitFor()
  expect(await dialog.textContent()).not.toMatch(/sk_live|redis:/)
  await dialog.getByRole('button', { name: 'Apply: create r2' }).click()
  await dialog.waitFor({ state: 'detached' })
  const { body } = await shop.tenant.get(`${shop.path}?reveal=true`)
  expect(body.secrets.map(({ name, value }: { name: string; value: string }) => `${name}=${value}`)).toEqual([
    'STRIPE_KEY=sk_live_2',
    'MODE=live',
    'CACHE_URL=redis://cache:6379',
  ])
  await page.getByText('Set by r2. r1 serves without it').waitFor()
  expect(problems).toEqual([])
})

it('edits variables as text, and removes the last one', async () => {
  const shop = await newShop([{ name: 'MODE', value: 'live' }])
  const { page, problems } = await dashboard.open(shop.tenant, `/deployments/${shop.id}/environment?view=text`)
  const text = page.getByLabel('Variables as text')
  expect(await text.inputValue()).toBe('MODE=********')
  await text.fill('MODE=********\nPORT=1')
  await page.getByText('is set by the platform').waitFor()
  await check(page, 'environment-text')
  await text.fill('MODE live')
  await page.getByText('Line 1 is not NAME=value.').waitFor()
  expect(await page.getByText('1 removed').count()).toBe(0)
  await text.fill('')
  await page.getByText('1 removed').waitFor()
  await text.blur()
  await page.keyboard.press('p')
  const dialog = dialogOf(page, 'Plan for shop')
  await dialog.getByRole('button', { name: 'Apply: create r2' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect((await shop.read()).secrets).toEqual([])
  expect(problems).toEqual([])
})
