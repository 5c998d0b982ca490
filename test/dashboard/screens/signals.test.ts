// Drains, in a real browser.
import { gunzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

/** The receiver of drains. */
let answer = () => new Response('{}')
const received: { headers: Headers; text: string }[] = []
const foreignFetch = (async (_, init) => {
  const bytes = Buffer.from(await new Response(init!.body).arrayBuffer())
  received.push({ headers: new Headers(init!.headers), text: gunzipSync(bytes).toString() })
  return answer()
}) as typeof fetch
const dashboard = useDashboard({ overrides: { foreignFetch } })

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const seeHeading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name }).first().waitFor()
const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })
const seeState = (page: Page, word: string) => page.getByText(word, { exact: true }).first().waitFor()
const goTo = (page: Page, tenant: Tenant, path: string) =>
  page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}${path}`)

async function newServedTenant() {
  const tenant = await newTenant({ app: dashboard.app })
  const { listener, key } = await newListener(tenant, { compute_id: 'machine-1' })
  const agent = makeSyncAgent(tenant, key)
  const shop = await newDeployment(tenant, makeListenerDeployment(listener, { name: 'shop' }))
  const [work] = await agent.pollAll()
  await agent.report(work!, { state: 'deployed' })
  return { tenant, agent, shop }
}

describe('a drain', () => {
  it('is made, tested and changed without its secrets shown again, and says what fails and what is lost', async () => {
    const { tenant, agent, shop } = await newServedTenant()
    const { page, problems } = await dashboard.open(tenant, '/drains')
    await seeHeading(page, 'No drains yet')
    await check(page, 'drains-empty')
    await page.keyboard.press('n')
    await page.getByLabel('Name', { exact: true }).fill('Collector')
    await page.getByLabel('Address').fill('https://otel.example.com:4318')
    await page.getByLabel('Value of Authorization').fill('Bearer hush-drain')
    await press(page, 'Metrics')
    await page.getByRole('radio', { name: /^Some/ }).check()
    await page.getByRole('button', { name: 'Create drain', exact: true }).press('Enter')
    await page.getByText('Select a deployment or a tag first.').first().waitFor()
    await press(page, 'shop')
    await page.getByText('Filter and sample').click()
    await page.getByLabel('Level').selectOption('Warnings and errors')
    await check(page, 'drain-new')
    await page.keyboard.press('Control+Enter')
    await seeState(page, 'Nothing sent yet')
    const [drain] = (await tenant.get('/v2/drains')).body.resources
    expect(drain).toMatchObject({
      kind: 'otlp',
      header_names: ['Authorization'],
      signals: ['logs', 'metrics'],
      deployment_ids: [shop.id],
      filter: { min_level: 'WARNING' },
    })

    await press(page, 'Send test line')
    await seeHeading(page, 'The test line was accepted')
    expect(received.at(-1)!.headers.get('Authorization')).toBe('Bearer hush-drain')
    answer = () => new Response(null, { status: 401 })
    await press(page, 'Send test line')
    await seeHeading(page, 'The test line was not accepted')
    await page.getByText('The receiver responded with 401.').waitFor()

    await agent.poll({ drains: 'unknown' })
    const counts = {
      id: drain.id,
      epoch: crypto.randomUUID(),
      sent: 12_400,
      dropped: 31,
      waiting: 7,
      waiting_bytes: 900,
    }
    const failing = { failing_since: new Date(Date.now() - 180_000).toISOString(), error: 'The receiver answered 503.' }
    await agent.post('/v1/sync/drains', {
      agent_id: agent.agent_id,
      fence: agent.fence,
      drains: [{ ...counts, ...failing, last_sent_at: failing.failing_since }],
    })
    await page.getByText('7 records wait at agents', { exact: false }).waitFor()
    await rowOf(page, 'machine-1').getByText('Failing', { exact: true }).waitFor()
    await check(page, 'drain-failing')

    await press(page, 'Edit')
    await page.getByLabel('Replace the headers').waitFor()
    await press(page, 'Requests')
    await check(page, 'drain-edit')
    await press(page, 'Save drain')
    await page.getByText('Logs, Metrics, Requests').first().waitFor()
    expect((await tenant.get(`/v2/drains/${drain.id}`)).body.headers_fingerprint).toBe(drain.headers_fingerprint)
    expect(await page.content()).not.toContain('hush-drain')

    await press(page, 'Pause')
    await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click()
    await seeState(page, 'Paused')
    await goTo(page, tenant, '/drains?view=attention')
    await rowOf(page, 'Collector').getByText('31 records dropped').waitFor()
    await check(page, 'drains')
    await rowOf(page, 'Collector').getByRole('link').click()
    await press(page, 'Delete drain')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete drain', exact: true }).click()
    await seeHeading(page, 'No drains yet')
    expect(problems).toEqual([])
  })
})
