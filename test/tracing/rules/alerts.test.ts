// Alerts of rules for PagerDuty: what is sent, how often, and what the log says.
import { describe, expect, it } from 'vitest'
import { getServices, startApp, withClockAhead } from '../../support/app.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import { appendEnded, newTracedTenant, readLogs, sweep } from '../../support/rules.ts'

const MINUTE = 60_000
const WINDOW = 5 * MINUTE
const ROUTING_KEY = 'R0123456789abcdef0123456789abcde'

async function newAlertedTenant(statusOf: (attempt: number) => number = () => 202) {
  const state = { attempts: 0 }
  const foreignFetch = makeFakeFetch({
    'https://events.pagerduty.com': () => new Response(null, { status: statusOf(++state.attempts) }),
  })
  const app = startApp({ overrides: { foreignFetch } })
  const services = getServices(app)
  const sent = () => foreignFetch.requests.map(({ url, body }) => ({ url, event: JSON.parse(body) }))
  return { ...(await newTracedTenant({ app })), services, sent }
}

describe('an alert', () => {
  it('is one event for all runs of five minutes, with the key of the rule, which no answer shows', async () => {
    const { tenant, services, sent, createRule } = await newAlertedTenant()
    const alerts = [{ type: 'pagerduty', routing_key: ROUTING_KEY, summary: 'Checkout fails', severity: 'critical' }]
    const rule = await createRule({ alerts })
    const shown = { ...alerts[0], routing_key: '*****' }
    expect(rule.alerts).toEqual([shown])
    expect((await tenant.get(`/runs/rules?id=${rule.id}`)).body[0].alerts).toEqual([shown])
    const runs = await appendEnded(tenant, 2)
    const untilWindow = WINDOW - (Date.now() % WINDOW)
    await withClockAhead(untilWindow, () => sweep(tenant, services))
    await appendEnded(tenant, 1)
    await withClockAhead(untilWindow + MINUTE, () => sweep(tenant, services))
    const [{ url, event }, ...more] = sent() as [ReturnType<typeof sent>[0]]
    expect(more).toEqual([])
    expect(url).toBe('https://events.pagerduty.com/v2/enqueue')
    expect(event).toMatchObject({
      routing_key: ROUTING_KEY,
      event_action: 'trigger',
      dedup_key: expect.stringContaining(rule.id),
      payload: {
        summary: 'Checkout fails',
        severity: 'critical',
        component: rule.display_name,
        custom_details: { rule_id: rule.id, run_count: 2 },
      },
    })
    expect(event.payload.custom_details.run_ids.toSorted()).toEqual(runs)
    expect(Number.isNaN(Date.parse(event.payload.timestamp))).toBe(false)
    const logs = await readLogs(tenant, rule)
    expect(logs.map(({ alerts: one }: { alerts: { outcome: string } }) => one.outcome)).toEqual([
      'success',
      'success',
      'success',
    ])
    expect(logs[0].webhooks).toBeNull()
    await appendEnded(tenant, 1)
    await withClockAhead(untilWindow + 6 * MINUTE, () => sweep(tenant, services))
    expect(sent()).toHaveLength(2)
    expect(sent()[1]!.event.dedup_key).toBe(event.dedup_key)
  })

  it.each([
    ['429 is repeated', (attempt: number) => (attempt < 3 ? 429 : 202), 3, 'success'],
    ['400 is not', () => 400, 1, 'error'],
  ] as const)('that is answered %s', async (_, statusOf, attempts, outcome) => {
    const { tenant, services, sent, createRule } = await newAlertedTenant(statusOf)
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await sweep(tenant, services)
    for (const minutes of [2, 10]) await withClockAhead(minutes * MINUTE, () => sweep(tenant, services))
    expect(sent()).toHaveLength(attempts)
    expect((await readLogs(tenant, rule))[0].alerts).toMatchObject({
      outcome,
      payload: { deliveries: [{ attempts }] },
    })
  })

  it('that the rule no longer has is not sent', async () => {
    const { tenant, services, sent, createRule } = await newAlertedTenant(() => 503)
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await sweep(tenant, services)
    expect((await tenant.patch(`/runs/rules/${rule.id}`, { alerts: null })).body.alerts).toEqual([])
    await withClockAhead(5 * MINUTE, () => sweep(tenant, services))
    expect(sent()).toHaveLength(1)
    expect((await readLogs(tenant, rule))[0].alerts.payload.deliveries).toMatchObject([{ error: 'alert_removed' }])
  })
})
