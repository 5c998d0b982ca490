// Notices on their way: their order, what takes the place of what, retries, and receivers that are gone.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { send, withClockAhead } from '../../support/app.ts'
import { linkIn, makeContent, newChannelTenant, settle } from '../../support/channels.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const ROUTING_KEY = '0123456789abcdef0123456789abcdef'
const HOUR = 3_600_000
const DAY = 24 * HOUR
const PAGERDUTY = 'https://events.pagerduty.com'

async function newPagerDuty(statusOf: (attempt: number) => number | Response = () => 202) {
  const state = { attempts: 0 }
  const site = () => {
    const answer = statusOf(++state.attempts)
    return typeof answer === 'number' ? new Response(null, { status: answer }) : answer
  }
  const set = await newChannelTenant({ sites: { [PAGERDUTY]: site } })
  const target = { kind: 'pagerduty', routing_key: ROUTING_KEY }
  const { body: channel } = await set.tenant.post('/v2/channels', { name: 'on call', target })
  const sent = () => set.foreignFetch.requests.map(({ body }) => JSON.parse(body))
  const health = async () => (await set.tenant.get(`/v2/channels/${channel.id}`)).body.health
  return { ...set, channel, sent, health, state }
}

describe('notices of a thread', () => {
  it('are stored once for each sequence, and sent in their order with one key', async () => {
    const { enqueue, deliver, channel, sent, listNotices } = await newPagerDuty()
    for (const sequence of [0, 0, 1]) await enqueue(channel, 'incident 1', sequence)
    await enqueue(channel, 'incident 1', 2, { content: makeContent({ acknowledged_by: 'Ada' }) })
    await deliver()
    await enqueue(channel, 'incident 1', 3, {
      phase: 'close',
      content: makeContent({ ended_at: '2026-11-30T12:09:00Z' }),
    })
    await enqueue(channel, 'incident 1', 3, { phase: 'close' })
    await deliver()
    // The update that waited is dropped for the newer one.
    expect(sent().map(({ event_action }) => event_action)).toEqual(['trigger', 'acknowledge', 'resolve'])
    expect(new Set(sent().map(({ dedup_key }) => dedup_key)).size).toBe(1)
    const states = (await listNotices(channel)).map((one: { state: string; phase: string }) => [one.phase, one.state])
    expect(states).toEqual([
      ['close', 'delivered'],
      ['update', 'delivered'],
      ['update', 'dropped'],
      ['open', 'delivered'],
    ])
  })

  it('are not stored for another workspace, a paused channel and an unconfirmed one', async () => {
    const { enqueue, channel, tenant, services, listNotices } = await newPagerDuty()
    const other = await newChannelTenant()
    await other.enqueue(channel, 'incident 1', 0)
    await tenant.patch(`/v2/channels/${channel.id}`, { enabled: false })
    await enqueue(channel, 'incident 1', 0)
    expect(await listNotices(channel)).toEqual([])
    const address = await tenant.post('/v2/channels', {
      name: 'team',
      target: { kind: 'email', address: 'team@example.com' },
    })
    await enqueue(address.body, 'incident 1', 0)
    const stored = await runAsSystem(
      services.database,
      sql`select from notices where tenant_id = ${tenant.tenant_id}::uuid`,
    )
    expect(stored).toEqual([[]])
  })

  it('wait for the earlier one, which is retried as Retry-After says', async () => {
    const busy = () => new Response(null, { status: 429, headers: { 'Retry-After': '600' } })
    const { enqueue, deliver, channel, sent, health } = await newPagerDuty(attempt => (attempt === 1 ? busy() : 202))
    await enqueue(channel, 'incident 1', 0)
    await deliver()
    await enqueue(channel, 'incident 1', 1, { phase: 'close' })
    await withClockAhead(HOUR / 12, deliver)
    expect(sent()).toHaveLength(1)
    expect(await health()).toMatchObject({ status: 'failing', error: 'refused' })
    await withClockAhead(HOUR / 4, deliver)
    expect(sent().map(({ event_action }) => event_action)).toEqual(['trigger', 'trigger', 'resolve'])
    expect(await health()).toMatchObject({ status: 'ok', error: null })
  })
})

describe('a channel that fails', () => {
  it('for five days is disabled, with an event', async () => {
    const { enqueue, deliver, channel, tenant, health } = await newPagerDuty(() => 500)
    await enqueue(channel, 'incident 1', 0)
    await deliver()
    await enqueue(channel, 'incident 2', 0)
    await withClockAhead(6 * DAY, deliver)
    expect(await health()).toMatchObject({ status: 'disabled', disabled_reason: 'failing' })
    const { body } = await tenant.get('/v2/events?limit=100&type=channel.disabled')
    expect(body.resources).toMatchObject([{ subject: { id: channel.id }, data: { reason: 'failing' } }])
    const resumed = await tenant.patch(`/v2/channels/${channel.id}`, { enabled: true })
    expect(resumed.body.health.status).toBe('ok')
  })

  it('for the contents of one notice goes on with the next one', async () => {
    const { enqueue, deliver, channel, listNotices, health } = await newPagerDuty(attempt =>
      attempt === 1 ? 400 : 202,
    )
    await enqueue(channel, 'incident 1', 0)
    await enqueue(channel, 'incident 2', 0)
    await deliver()
    const states = (await listNotices(channel)).map(({ state }: { state: string }) => state)
    expect(states.toSorted()).toEqual(['delivered', 'failed'])
    expect(await health()).toMatchObject({ status: 'ok' })
  })
})

describe('a bot of Slack', () => {
  const TARGET = { kind: 'slack', bot_token: 'xoxb-1-a', slack_channel: 'C024BE91L' }
  const answers = (
    log: [string, { ts?: string }][],
    more: Record<string, (body: object) => object | undefined> = {},
  ) => ({
    'https://slack.com': async (request: Request) => {
      const method = new URL(request.url).pathname.split('/').at(-1)!
      const body = (await request.json()) as { ts?: string; channel?: string }
      log.push([method, body])
      const ts = `1700000000.${String(log.length).padStart(6, '0')}`
      return Response.json(more[method]?.(body) ?? { ok: true, ts: body.ts ?? ts, channel: body.channel })
    },
  })

  it('keeps one message for an incident, and writes another if somebody has deleted it', async () => {
    const log: [string, { ts?: string }][] = []
    const state = { isDeleted: false }
    const sites = answers(log, {
      'chat.update': () => (state.isDeleted ? { ok: false, error: 'message_not_found' } : undefined),
    })
    const { tenant, enqueue, deliver } = await newChannelTenant({ sites })
    const { body: channel } = await tenant.post('/v2/channels', { name: 'ops', target: TARGET })
    for (const sequence of [0, 1, 2]) {
      state.isDeleted = sequence === 2
      await enqueue(channel, 'incident 1', sequence)
      await deliver()
    }
    expect(log.map(([method]) => method)).toEqual([
      'chat.postMessage',
      'chat.update',
      'chat.update',
      'chat.postMessage',
    ])
    expect(log[1]![1].ts).toBe('1700000000.000001')
  })

  it('posts once, also if the deliverer died before it stored the answer', async () => {
    const log: [string, { ts?: string; metadata?: object }][] = []
    const sites = answers(log, {
      'conversations.history': () => ({ ok: true, messages: [{ ts: '1700000000.5', metadata: log[0]![1].metadata }] }),
    })
    const { tenant, enqueue, deliver, services, listNotices } = await newChannelTenant({ sites })
    const { body: channel } = await tenant.post('/v2/channels', { name: 'ops', target: TARGET })
    await enqueue(channel, 'incident 1', 0)
    await deliver()
    // The outcome is lost.
    await runAsSystem(
      services.database,
      sql`
        update notices
        set state = 'waiting', remote = null, next_attempt_at = clock()
        where channel_id = ${channel.id}::uuid`,
    )
    await deliver()
    expect(log.map(([method]) => method)).toEqual(['chat.postMessage', 'conversations.history'])
    expect(await listNotices(channel)).toMatchObject([{ state: 'delivered', attempts: 2 }])
  })

  it('whose token is revoked disables its channel', async () => {
    const sites = answers([], { 'chat.postMessage': () => ({ ok: false, error: 'token_revoked' }) })
    const { tenant, enqueue, deliver } = await newChannelTenant({ sites })
    const { body: channel } = await tenant.post('/v2/channels', { name: 'ops', target: TARGET })
    await enqueue(channel, 'incident 1', 0)
    await deliver()
    const { health } = (await tenant.get(`/v2/channels/${channel.id}`)).body
    expect(health).toMatchObject({ status: 'disabled', disabled_reason: 'rejected' })
  })
})

describe('e-mails', () => {
  it('beyond the limit of the hour wait for the next one', async () => {
    const { tenant, app, enqueue, deliver, mails, listNotices } = await newChannelTenant({
      settings: { EMAILS_PER_HOUR: '1' },
    })
    const target = { kind: 'email', address: `${crypto.randomUUID()}@example.com` }
    const { body: channel } = await tenant.post('/v2/channels', { name: 'team', target })
    await settle()
    await send('POST', linkIn(mails[0]!, 'confirm'), { app })
    await enqueue(channel, 'incident 1', 0)
    await enqueue(channel, 'incident 2', 0)
    await deliver()
    expect(mails).toHaveLength(2)
    const [waiting] = await listNotices(channel, '&state=waiting')
    expect(waiting).toMatchObject({ error: 'mail_limit', attempts: 0 })
    await withClockAhead(2 * HOUR, deliver)
    expect(mails).toHaveLength(3)
    const [, one, other] = mails
    expect(one!.references).not.toEqual(other!.references)
  })
})

describe('a deployment', () => {
  it('that fails is told at once, with the last lines of its log, and one that succeeds where all are', async () => {
    const { tenant, channel, sent } = await newPagerDuty()
    const all = await tenant.post('/v2/channels', {
      name: 'all',
      target: { kind: 'pagerduty', routing_key: ROUTING_KEY },
      deploys: 'all',
    })
    expect(all.status).toBe(201)
    await tenant.patch(`/v2/channels/${channel.id}`, { deploys: 'failed' })
    const { listener, key } = await newListener(tenant)
    const body = makeListenerDeployment(listener, { name: 'shop' })
    const { id } = (await tenant.post('/v2/deployments', body)).body
    const agent = makeSyncAgent(tenant, key)
    const findWork = async () => (await agent.pollAll()).find(({ deployment_id }) => deployment_id === id)!
    await agent.report(await findWork(), { state: 'deployed' })
    await settle()
    expect(sent().map(({ payload }) => payload.summary)).toEqual(['shop: revision 1 is deployed'])
    await tenant.post(`/v2/deployments/${id}/revisions`, {})
    const work = await findWork()
    const revision = work.revision!
    const line = { timestamp: new Date().toISOString(), message: 'Error: no such module', level: 'ERROR' }
    await agent.post('/v1/sync/logs', {
      agent_id: agent.agent_id,
      fence: agent.fence,
      deployment_id: id,
      revision_id: revision.id,
      kind: 'deploy',
      stream: crypto.randomUUID(),
      from: 0,
      lines: [line],
    })
    await agent.report(work, { state: 'failed', message: 'It does not answer.' })
    await settle()
    const failures = sent().slice(1)
    expect(failures).toHaveLength(2)
    for (const { payload, links } of failures) {
      expect(payload).toMatchObject({
        summary: 'shop: revision 2 failed to deploy',
        severity: 'error',
        custom_details: { summary: 'It does not answer.', Revision: '2', lines: ['Error: no such module'] },
      })
      expect(links[0].href).toContain(`/ui/${tenant.tenant_id}/deployments/${id}/logs?revision=${revision.id}`)
    }
  })
})
