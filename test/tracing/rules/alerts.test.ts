// Alerts of rules: the incident that runs open, what PagerDuty is told and how often, and what the log says.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { deliverDueNotices } from '../../../src/connect/channels/notice-worker.ts'
import { lookAtAlerts } from '../../../src/hosting/alerts/sweep.ts'
import { getServices, startApp, withClockAhead } from '../../support/app.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import { appendEnded, newTracedTenant, readLogs, sweep } from '../../support/rules.ts'

const MINUTE = 60_000
const ROUTING_KEY = 'R0123456789abcdef0123456789abcde'

async function newAlertedTenant(statusOf: (attempt: number) => number = () => 202) {
  const state = { attempts: 0 }
  const foreignFetch = makeFakeFetch({
    'https://events.pagerduty.com': () => new Response(null, { status: statusOf(++state.attempts) }),
  })
  const app = startApp({ overrides: { foreignFetch } })
  const services = getServices(app)
  const traced = await newTracedTenant({ app })
  const { tenant } = traced
  const sent = () => foreignFetch.requests.map(({ url, body }) => ({ url, event: JSON.parse(body) }))
  const tell = async () => {
    await sweep(tenant, services)
    await deliverDueNotices(services, sql`c.tenant_id = ${tenant.tenant_id}::uuid`)
  }
  const at = (ms: number, work: () => Promise<unknown>) => withClockAhead(ms, work)
  const incidents = async () => (await tenant.get('/v2/incidents')).body.resources
  return { ...traced, services, sent, tell, at, incidents }
}

describe('an alert', () => {
  it('is one incident and one message for all runs of five minutes, with a key that no answer shows', async () => {
    const { tenant, services, sent, tell, at, incidents, createRule } = await newAlertedTenant()
    const alerts = [{ type: 'pagerduty', routing_key: ROUTING_KEY, summary: 'Checkout fails', severity: 'critical' }]
    const rule = await createRule({ alerts })
    const shown = { ...alerts[0], routing_key: '*****' }
    expect(rule.alerts).toEqual([shown])
    expect((await tenant.get(`/runs/rules?id=${rule.id}`)).body[0].alerts).toEqual([shown])
    const runs = await appendEnded(tenant, 2)
    await tell()
    await appendEnded(tenant, 1)
    await at(MINUTE, tell)
    const [{ url, event }, ...more] = sent() as [ReturnType<typeof sent>[0]]
    expect(more).toEqual([])
    expect(url).toBe('https://events.pagerduty.com/v2/enqueue')
    expect(event).toMatchObject({
      routing_key: ROUTING_KEY,
      event_action: 'trigger',
      payload: { summary: 'Checkout fails', severity: 'critical', custom_details: { 'Rule id': rule.id, Runs: '2' } },
    })
    expect(event.payload.custom_details['Run ids'].split(' ').toSorted()).toEqual(runs)
    const [incident, ...others] = await incidents()
    expect(others).toEqual([])
    expect(incident).toMatchObject({ run_rule_id: rule.id, state: 'open', severity: 'critical' })
    expect((await tenant.get('/v2/channels')).body.resources).toEqual([])
    const logs = await readLogs(tenant, rule)
    expect(logs.map((log: { alerts: object }) => log.alerts)).toEqual(
      Array(3).fill({
        outcome: 'success',
        payload: { incident_id: incident.id, deliveries: [expect.objectContaining({ state: 'delivered' })] },
      }),
    )
    expect(logs[0].webhooks).toBeNull()

    await appendEnded(tenant, 1)
    await at(6 * MINUTE, tell)
    expect(sent()).toHaveLength(2)
    expect(sent()[1]!.event).toMatchObject({ event_action: 'trigger', dedup_key: event.dedup_key })
    await at(20 * MINUTE, () => lookAtAlerts(services))
    expect((await incidents())[0].state).toBe('open')
    await at(22 * MINUTE, () => lookAtAlerts(services))
    expect((await incidents())[0].state).toBe('resolved')
    await at(22 * MINUTE, tell)
    expect(sent().map(one => one.event.event_action)).toEqual(['trigger', 'trigger', 'resolve'])

    await appendEnded(tenant, 1)
    await at(23 * MINUTE, tell)
    expect(await incidents()).toMatchObject([{ id: incident.id, state: 'open', reopened: 1 }])
    expect(sent()).toHaveLength(3)
  })

  it('that a person has taken on is told no more', async () => {
    const { tenant, sent, tell, at, incidents, createRule } = await newAlertedTenant()
    await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await tell()
    const [{ id }] = await incidents()
    await tenant.post(`/v2/incidents/${id}/acknowledge`, {})
    await appendEnded(tenant, 1)
    await at(10 * MINUTE, tell)
    expect(sent().map(one => one.event.event_action)).toEqual(['trigger', 'acknowledge'])
  })

  it('that a mute covers is an incident that nobody is told', async () => {
    const { tenant, sent, tell, incidents, createRule } = await newAlertedTenant()
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    const { status } = await tenant.post('/v2/alert-mutes', { reason: 'The night' })
    expect(status).toBe(201)
    await appendEnded(tenant, 1)
    await tell()
    expect(sent()).toEqual([])
    expect(await incidents()).toHaveLength(1)
    expect((await readLogs(tenant, rule))[0].alerts).toMatchObject({ outcome: 'skipped' })
  })

  it('that a mute covers later is told no more', async () => {
    const { tenant, sent, tell, at, createRule } = await newAlertedTenant()
    await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await tell()
    await tenant.post('/v2/alert-mutes', { reason: 'The night' })
    await appendEnded(tenant, 1)
    await at(6 * MINUTE, tell)
    expect(sent()).toHaveLength(1)
  })

  it('ends with its rule', async () => {
    const { tenant, services, tell, incidents, createRule } = await newAlertedTenant()
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await tell()
    expect((await tenant.delete(`/runs/rules/${rule.id}`)).status).toBeLessThan(300)
    await lookAtAlerts(services)
    expect((await incidents())[0]).toMatchObject({ state: 'resolved', run_rule_id: null })
  })

  it.each([
    ['429 is repeated', (attempt: number) => (attempt < 3 ? 429 : 202), 3, 'success'],
    ['400 is not', () => 400, 1, 'error'],
  ] as const)('that is answered %s', async (_, statusOf, attempts, outcome) => {
    const { tenant, sent, tell, at, createRule } = await newAlertedTenant(statusOf)
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await tell()
    for (const minutes of [2, 10]) await at(minutes * MINUTE, tell)
    expect(sent()).toHaveLength(attempts)
    expect((await readLogs(tenant, rule))[0].alerts).toMatchObject({
      outcome,
      payload: { deliveries: [{ attempts }] },
    })
  })

  it('that the rule no longer has is not sent', async () => {
    const { tenant, sent, tell, at, createRule } = await newAlertedTenant(() => 503)
    const rule = await createRule({ alerts: [{ routing_key: ROUTING_KEY }] })
    await appendEnded(tenant, 1)
    await tell()
    expect((await tenant.patch(`/runs/rules/${rule.id}`, { alerts: null })).body.alerts).toEqual([])
    await at(5 * MINUTE, tell)
    expect(sent()).toHaveLength(1)
    expect((await readLogs(tenant, rule))[0].alerts).toMatchObject({ payload: { reason: 'alert_removed' } })
  })
})
