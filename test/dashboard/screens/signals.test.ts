// Channels, alerts, drains and archives of logs, in a real browser.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { deliverDueNotices } from '../../../src/connect/channels/notice-worker.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { lookAtAlerts } from '../../../src/hosting/alerts/sweep.ts'
import { sweepLogs } from '../../../src/hosting/logs/sweep.ts'
import { getServices, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newDeployment } from '../../support/deployments.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'
import { startReceiver } from '../../support/webhook-receiver.ts'

/** Receivers of channels are real, on this machine. */
const fetchLocally = createPinnedFetch({ allowLoopback: true })
/** The receiver of drains. */
let answer = () => new Response('{}')
const received: { headers: Headers; text: string }[] = []
const foreignFetch = (async (input, init) => {
  if (new URL(new Request(input).url).hostname === '127.0.0.1') return fetchLocally(input, init)
  const bytes = Buffer.from(await new Response(init!.body).arrayBuffer())
  received.push({ headers: new Headers(init!.headers), text: gunzipSync(bytes).toString() })
  return answer()
}) as typeof fetch
const dashboard = useDashboard({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch } })

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

describe('a channel', () => {
  it('is created with a secret that is shown once, tested, told of alerts, and deleted', async () => {
    const receiver = await startReceiver()
    onTestFinished(receiver.close)
    const tenant = await newTenant({ app: dashboard.app })
    const { page, problems } = await dashboard.open(tenant, '/channels')
    await seeHeading(page, 'No channels yet')
    await page.keyboard.press('n')
    await page.getByRole('radio', { name: /^Signed webhook/ }).check()
    await page.getByLabel('Name', { exact: true }).fill('on call')
    await page.getByLabel('URL', { exact: true }).fill(receiver.url)
    await check(page, 'channel-new')
    await page.keyboard.press('Control+Enter')
    await page.getByLabel('Copy the secret now').waitFor()
    await page.getByRole('link', { name: /send a test notice/ }).click()
    await press(page, 'Send test notice')
    await seeHeading(page, 'The test notice was accepted')
    receiver.answer = response => response.writeHead(500).end()
    await tenant.post('/v2/alert-rules', { name: 'Keys', condition: { kind: 'event', types: ['tag_key.created'] } })
    await tenant.post('/v2/tag-keys', { key: 'team' })
    await lookAtAlerts(getServices(dashboard.app))
    await finishPendingWork()
    await deliverDueNotices(getServices(dashboard.app), sql`c.tenant_id = ${tenant.tenant_id}::uuid`)
    await rowOf(page, 'Keys').getByText('To be retried').waitFor()
    await seeState(page, 'Failing')
    await press(page, 'No longer the default for alerts')
    await page.getByText('Only alerts that name it.').waitFor()
    await check(page, 'channel-failing')
    await goTo(page, tenant, '/channels?view=attention')
    await rowOf(page, 'on call').getByText('Failing', { exact: true }).waitFor()
    await check(page, 'channels')
    await rowOf(page, 'on call').getByRole('link').click()
    await press(page, 'Delete channel')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete channel', exact: true }).click()
    await seeHeading(page, 'No channels yet')
    expect(problems).toEqual([])
  })
})

describe('alerts', () => {
  it('make and edit a rule with units, for deployments and channels, and refuse what is no number', async () => {
    const { tenant, shop } = await newServedTenant()
    const target = { kind: 'webhook', url: 'https://hooks.example.com/slipway' }
    const channel = (await tenant.post('/v2/channels', { name: 'on call', target, is_default: false })).body
    const { page, problems } = await dashboard.open(tenant, '/alerts/rules')
    await rowOf(page, 'Error rate above 5 %').first().waitFor()
    await check(page, 'alert-rules')
    await page.keyboard.press('n')
    await page.getByLabel('Name', { exact: true }).fill('Payments fail')
    await page.getByLabel('Threshold').fill('7,5')
    await page.getByLabel('Is over below').fill('5')
    await check(page, 'alert-rule-new')
    await page.keyboard.press('Control+Enter')
    await page.getByText('Error rate above 7.5 % within 5 m').waitFor()
    const id = new URL(page.url()).pathname.split('/').at(-1)!
    const read = async () => (await tenant.get(`/v2/alert-rules/${id}`)).body
    expect((await read()).condition).toMatchObject({ threshold: 0.075, clear_threshold: 0.05, window_seconds: 300 })

    await press(page, 'Edit')
    await page.getByLabel('Threshold').fill('a lot')
    await page.getByRole('radio', { name: /^Some/ }).check()
    await press(page, 'shop')
    await page.getByRole('radio', { name: /^Selected channels/ }).check()
    await press(page, 'on call')
    await press(page, 'Save alert rule')
    await page.getByText('One field is invalid.').waitFor()
    await check(page, 'alert-rule-edit')
    await page.getByLabel('Threshold').fill('10')
    await press(page, 'Save alert rule')
    await page.getByText('Error rate above 10 % within 5 m').waitFor()
    await page.getByText('on call', { exact: true }).waitFor()
    await check(page, 'alert-rule')
    const changed = await read()
    expect(changed).toMatchObject({ deployment_ids: [shop.id], channel_ids: [channel.id] })
    expect(changed.condition).toMatchObject({ threshold: 0.1, clear_threshold: 0.05, min_requests: 0 })
    expect(problems).toEqual([])
  })

  it.each([
    [
      'Log lines',
      { Text: 'payment failed', 'At least': '5', 'Within the last': '2' },
      { kind: 'log', contains: 'payment failed', count: 5, window_seconds: 120 },
    ],
    [
      'Events',
      { 'Types of events that open it': 'tag_key.created\ntag_key.updated' },
      { kind: 'event', types: ['tag_key.created', 'tag_key.updated'], ends: [] },
    ],
    ['Traces', { Value: 'cost', Threshold: '12.50' }, { kind: 'trace', metric: 'cost', threshold: 12.5 }],
  ])('make a rule on %s', async (kind, fields, condition) => {
    const tenant = await newTenant({ app: dashboard.app })
    await tenant.post('/sessions', { name: 'checkout' })
    const { page, problems } = await dashboard.open(tenant, '/alerts/rules/new')
    await page.getByRole('radio', { name: new RegExp(`^${kind}`) }).check()
    await page.getByLabel('Name', { exact: true }).fill(kind)
    if (kind === 'Traces') await page.getByLabel('Project', { exact: true }).selectOption('checkout')
    for (const [label, value] of Object.entries(fields)) {
      const field = page.getByLabel(label, { exact: true })
      if (label === 'Value') await field.selectOption(value)
      else await field.fill(value)
    }
    await check(page, `alert-rule-new-${condition.kind}`)
    await page.keyboard.press('Control+Enter')
    await seeHeading(page, kind)
    const [rule] = (await tenant.get('/v2/alert-rules?limit=1')).body.resources
    expect(rule.condition).toMatchObject(condition)
    expect(problems).toEqual([])
  })

  it('show an incident until it is resolved, and mutes for a time and for hours of the week', async () => {
    const { tenant, agent, shop } = await newServedTenant()
    const rule = (
      await tenant.post('/v2/alert-rules', { name: 'Payments', condition: { kind: 'log', contains: 'payment failed' } })
    ).body
    await agent.post('/v1/sync/logs', {
      agent_id: agent.agent_id,
      fence: agent.fence,
      deployment_id: shop.id,
      revision_id: shop.latest_revision_id,
      kind: 'deploy',
      stream: crypto.randomUUID(),
      from: 0,
      lines: [{ timestamp: new Date().toISOString(), level: 'ERROR', message: 'payment failed: card 4242 refused' }],
    })
    await finishPendingWork()
    const { page, problems } = await dashboard.open(tenant, '/alerts')
    await seeHeading(page, 'Nobody is told')
    await check(page, 'incidents')
    await rowOf(page, 'Payments').getByRole('link').click()
    await page.getByText('card 4242 refused').first().waitFor()
    await check(page, 'incident')
    await press(page, 'Acknowledge')
    await seeState(page, 'Acknowledged')
    await press(page, 'Resolve')
    await seeState(page, 'Resolved')

    await goTo(page, tenant, `/alerts/rules/${rule.id}`)
    await page.getByRole('link', { name: 'Mute …' }).click()
    await page.getByLabel('Reason').fill('The nights')
    await page.getByRole('radio', { name: /^The same hours/ }).check()
    await press(page, 'Fri')
    await page.getByLabel('Time zone').fill('Europe/Atlantis')
    await press(page, 'Create mute')
    await page.getByText('One field is invalid.').waitFor()
    await page.getByLabel('Time zone').fill('Europe/Berlin')
    await check(page, 'mute-new')
    await press(page, 'Create mute')
    await rowOf(page, 'The nights').getByText('Mon, Tue, Wed, Thu, 22:00 to 06:00 (Europe/Berlin)').waitFor()
    const [weekly] = (await tenant.get('/v2/alert-mutes')).body.resources
    expect(weekly).toMatchObject({ rule_ids: [rule.id], ends_at: null, weekly: { until: '06:00' } })

    await page.keyboard.press('n')
    await page.getByLabel('Reason').fill('The database moves')
    await page.getByLabel('From', { exact: true }).fill('2099-05-01T10:00')
    await page.getByLabel('Until', { exact: true }).fill('2099-05-01T09:00')
    await press(page, 'Create mute')
    await page.getByText('One field is invalid.').waitFor()
    await page.getByLabel('Until', { exact: true }).fill('2099-05-01T12:30')
    await press(page, 'Create mute')
    await page.getByRole('rowgroup').filter({ hasText: 'Coming' }).getByText('The database moves').waitFor()
    await press(page, 'Mute all for an hour')
    await page.getByRole('rowgroup').filter({ hasText: 'Running' }).getByText('Muted in the dashboard').waitFor()
    await check(page, 'mutes')
    await goTo(page, tenant, '/alerts')
    await seeHeading(page, 'Muted now')
    await page.getByRole('link', { name: 'Open the mutes' }).click()
    await rowOf(page, 'Muted in the dashboard').getByRole('button', { name: 'End', exact: true }).click()
    await rowOf(page, 'Muted in the dashboard').waitFor({ state: 'detached' })
    expect(problems).toEqual([])
  })
})

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

describe('the archive of logs', () => {
  it('is turned on for the workspace, has files to download, and is turned off for a deployment', async () => {
    const tenant = await newTenant({ app: dashboard.app })
    const { id, openLog } = await newLoggedDeployment({ tenant })
    const { page, problems } = await dashboard.open(tenant, '/logs')
    await page.getByRole('link', { name: 'Archive', exact: true }).click()
    await page.getByLabel('Archive the lines of deployments').check()
    await page.getByLabel('Keep a new file for').fill('two weeks')
    await press(page, 'Save archive settings')
    await page.getByText('One field is invalid.').waitFor()
    await page.getByLabel('Keep a new file for').fill('14')
    await press(page, 'Save archive settings')
    await page.getByText('Lines that arrive from now on are archived.').waitFor()
    await check(page, 'archive-settings')

    await goTo(page, tenant, `/deployments/${id}/logs`)
    await page.getByRole('link', { name: 'Archive', exact: true }).click()
    await seeHeading(page, 'Lines are archived for 14 days')
    await page.getByText('No files yet.').waitFor()
    await openLog()([{ message: 'payment failed' }])
    await withClockAhead(3_600_000, () => sweepLogs(getServices(dashboard.app)))
    await page.reload()
    const button = page.getByRole('button', { name: /^Download / })
    await button.waitFor()
    await check(page, 'archive')
    const started = page.waitForEvent('download')
    await button.click()
    const file = await (await started).path()
    expect(JSON.parse(gunzipSync(readFileSync(file)).toString())).toMatchObject({ message: 'payment failed' })

    await page.getByLabel('Archive', { exact: true }).selectOption('Off')
    await page.getByLabel('Keep a new file for').fill('7')
    await press(page, 'Save archive settings')
    await seeHeading(page, 'No lines are archived')
    const { body } = await tenant.get(`/v2/deployments/${id}/log-archive-settings`)
    expect(body).toEqual({ enabled: false, retention_days: 7, effective: { enabled: false, retention_days: 7 } })
    expect(problems).toEqual([])
  })
})
