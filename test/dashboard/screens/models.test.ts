// Models in a real browser: one is created and tested, its calls are counted, limited and shown.
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { setClock } from '../../../src/kernel/db/journal.ts'
import { createClock } from '../../../src/platform.ts'
import { newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newDeployment } from '../../support/deployments.ts'
import { startModelServer } from '../../support/model-server.ts'

const dashboard = useDashboard({
  settings: { ALLOW_LOOPBACK: 'true' },
  overrides: { foreignFetch: createPinnedFetch({ allowLoopback: true }) },
})
const DAY = 24 * 3600_000

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const seeHeading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name }).first().waitFor()
const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })

/** Calls of the last days, as the proxy counts them. */
async function recordCalls({ tenant_id }: Tenant, configuration: string, deployment: string): Promise<void> {
  const { platform, database } = dashboard.app
  for (let day = 0; day < 20; day++)
    for (const [of, failed] of [
      [null, day % 7 === 3],
      [deployment, false],
      [null, false],
    ] as const)
      await runAsSystem(
        database,
        setClock({ clock: createClock(() => platform.clock.ahead() - day * DAY) }),
        sql`select record_model_call(
          ${tenant_id}::uuid, ${configuration}::uuid, ${of}::uuid, 'key', ${failed}::boolean,
          ${400 + 90 * ((day * 7) % 11)}::bigint, 120::bigint, 0.021::double precision)`,
      )
}

describe('the dashboard', () => {
  it('creates a model, says what is wrong when its test fails, and shows its answer once it works', async () => {
    const models = await startModelServer()
    onTestFinished(models.close)
    const tenant = await newTenant({ app: dashboard.app })
    const { page, problems } = await dashboard.open(tenant, '/models')
    await seeHeading(page, 'No models yet')
    await check(page, 'models-none')
    await page.keyboard.press('n')
    await page.getByLabel('Name', { exact: true }).fill('fast')
    await page.keyboard.press('Control+Enter')
    await page.getByRole('alert').waitFor()
    await page.getByLabel('Provider', { exact: true }).selectOption('openai_compatible')
    await page.getByLabel('Model', { exact: true }).fill('gpt-4.1-mini')
    await page.getByRole('textbox', { name: 'Base URL' }).fill(`${models.url}/faults/broken`)
    await page.getByRole('textbox', { name: 'Key of the provider' }).fill('sk-test')
    await page.getByLabel('Price of input').fill('0.4')
    await page.getByLabel('Price of output').fill('1.6')
    await check(page, 'model-new')
    await page.keyboard.press('Control+Enter')
    await seeHeading(page, 'fast')
    await page.keyboard.press('t')
    await seeHeading(page, 'The model did not answer')
    await check(page, 'model-failed')

    await press(page, 'Edit')
    await page.getByRole('textbox', { name: 'Base URL' }).fill(models.url)
    await press(page, 'Save model')
    await page.getByText('The secret is needed again').waitFor()
    await page.getByRole('radio', { name: /^Replace/ }).check()
    await page.getByRole('textbox', { name: 'Key of the provider' }).fill('sk-test')
    await press(page, 'Save model')
    await page.getByText('The model is saved.').waitFor()
    await press(page, 'Test model')
    await seeHeading(page, 'The model answered')
    expect(models.calls.at(-1)!.headers.authorization).toBe('Bearer sk-test')
    await check(page, 'model')
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/models`)
    await rowOf(page, 'fast').getByText('Answered', { exact: true }).waitFor()
    await check(page, 'models')
    expect(problems).toEqual([])
  })

  it('shows usage by day, what is spent of budgets, and what the organization allows', async () => {
    const tenant = await newTenant({ app: dashboard.app })
    const model = { name: 'fast', provider: 'openai', model: 'gpt-4.1-mini', auth_type: 'jwt' }
    const { id } = (await tenant.post('/v1/model-configurations', model)).body
    const deployment = await newDeployment(tenant, { name: 'shop' })
    await recordCalls(tenant, id, deployment.id)
    await tenant.post('/v1/model-budgets', { period: 'day', limit_calls: 3 })
    const { page, problems } = await dashboard.open(tenant, '/models/usage')
    await page.getByRole('img', { name: /^60 calls, of which 3 failed/ }).waitFor()
    await rowOf(page, 'shop').getByText('20', { exact: true }).waitFor()
    await rowOf(page, 'All calls of the workspace').getByText('Spent', { exact: true }).waitFor()
    await press(page, 'Create budget')
    await page.getByLabel('Applies to').selectOption({ label: 'shop' })
    await page.getByLabel('Cost').fill('50')
    await page.keyboard.press('Control+Enter')
    await rowOf(page, 'Each month')
      .getByText(/of \$50$/)
      .waitFor()
    await check(page, 'model-usage')

    await page.getByRole('navigation', { name: 'Pages about models' }).getByRole('link', { name: 'Settings' }).click()
    await page.getByText('/.well-known/jwks.json').waitFor()
    await page.getByRole('radio', { name: /a pattern matches/ }).check()
    await page.getByLabel('Patterns').fill('*')
    await press(page, 'Save settings')
    await page.getByText('must be a URL with a path').first().waitFor()
    await page.getByLabel('Patterns').fill('https://api.openai.com/v1/*')
    await check(page, 'model-settings')
    await press(page, 'Save settings')
    await page.getByText('The settings are saved.').waitFor()
    expect((await tenant.get('/orgs/current/model-proxy')).body.allowed_urls.mode).toBe('list')
    expect(problems).toEqual([])
  })
})
