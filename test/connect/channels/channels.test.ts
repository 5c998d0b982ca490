// Channels: who sees and manages them, addresses and their confirmation, secrets, and test notices.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { addOwnerChannels } from '../../../src/connect/channels/owner-channels.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { ADMIN, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { newTenant, type Overrides, send, withClockAhead } from '../../support/app.ts'
import { linkIn, newChannelTenant, settle } from '../../support/channels.ts'
import { vouchFor } from '../../support/instance-admins.ts'
import { asSession, newSession } from '../../support/sessions.ts'

const ROUTING_KEY = '0123456789abcdef0123456789abcdef'
const BOT = { kind: 'slack', bot_token: 'xoxb-secret-of-a-bot', slack_channel: 'C024BE91L' }
const HOUR = 3_600_000
const outcome = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]

describe('a channel of a workspace', () => {
  it('is created, listed, changed and deleted, and no answer or event has its secrets', async () => {
    const { tenant } = await newChannelTenant()
    const targets = [
      { kind: 'pagerduty', routing_key: ROUTING_KEY },
      BOT,
      { kind: 'slack', webhook_url: 'https://hooks.slack.com/services/T0/B0/hidden-path' },
      { kind: 'webhook', url: 'https://ci.example.com/hook?token=hidden-query' },
    ]
    const created = []
    for (const [i, target] of targets.entries())
      created.push(await tenant.post('/v2/channels', { name: `channel ${i}`, target }))
    expect(created.map(({ status }) => status)).toEqual([201, 201, 201, 201])
    expect(created.map(({ body }) => typeof body.secret)).toEqual(['object', 'object', 'object', 'string'])
    const path = `/v2/channels/${created[1]!.body.id}`
    expect((await tenant.get(path)).body).toMatchObject({
      target: { kind: 'slack', slack_channel: 'C024BE91L' },
      health: { status: 'ok', attempted_at: null },
      deploys: 'none',
    })
    const patched = await tenant.patch(path, { deploys: 'all', target: { ...BOT, slack_channel: 'C99999999' } })
    expect(patched.body).toMatchObject({ deploys: 'all', target: { slack_channel: 'C99999999' } })
    expect(outcome(await tenant.patch(path, { target: targets[0] }))).toEqual([409, 'channel_kind_fixed'])
    expect(outcome(await tenant.patch(path, { name: 'channel 0' }))).toEqual([409, 'channel_name_taken'])
    expect((await tenant.delete(path)).status).toBe(204)
    expect(outcome(await tenant.get(path))).toEqual([404, 'channel_not_found'])
    const list = await tenant.get('/v2/channels')
    expect(list.body.resources).toHaveLength(3)
    const events = await tenant.get('/v2/events?limit=100')
    expect(events.body.resources.map(({ type }: { type: string }) => type)).toContain('channel.deleted')
    const texts = [list.text, events.text, patched.text, ...created.slice(0, 3).map(({ text }) => text)].join()
    expect(texts).not.toMatch(/0123456789abcdef|secret-of-a-bot|hidden-path/)
    expect(events.text).not.toContain('hidden-query')
  })

  it('is refused with all its faults at once, and what this control plane cannot send by name', async () => {
    const { tenant } = await newChannelTenant({ overrides: { sendMail: undefined } })
    const faults = async (target: object) =>
      ((await tenant.post('/v2/channels', { name: '', target })).body.errors ?? []).map(({ loc }: { loc: string[] }) =>
        loc.slice(1).join('.'),
      )
    expect(await faults({ kind: 'pagerduty', routing_key: 'short' })).toEqual(['name', 'target.routing_key'])
    expect(await faults({ kind: 'slack', bot_token: 'xoxb-1' })).toEqual(['name', 'target.webhook_url'])
    expect(await faults({ kind: 'email', address: 'a@example.com\r\nBcc: b@example.com' })).toEqual([
      'name',
      'target.address',
    ])
    const create = (target: object) => tenant.post('/v2/channels', { name: 'x', target })
    expect(outcome(await create({ kind: 'email', address: 'a@example.com' }))).toEqual([409, 'email_unavailable'])
    expect(outcome(await create({ kind: 'webhook', url: 'http://127.0.0.1/' }))).toEqual([422, 'blocked_url'])
    expect((await tenant.get('/v2/channels')).body.resources).toEqual([])
  })
})

describe('an address', () => {
  it('gets nothing before its owner has confirmed it, by a link that works once and in time', async () => {
    const { tenant, mails, app, enqueue, deliver } = await newChannelTenant()
    const { body } = await tenant.post('/v2/channels', {
      name: 'team',
      target: { kind: 'email', address: 'team@example.com' },
    })
    await settle()
    expect(body.health.status).toBe('unconfirmed')
    expect(mails.map(({ to }) => to)).toEqual(['team@example.com'])
    const path = `/v2/channels/${body.id}`
    expect(outcome(await tenant.post(`${path}/test`))).toEqual([409, 'channel_unconfirmed'])
    await enqueue(body, 'incident 1', 0)
    const again = await tenant.post(`${path}/confirmation`)
    await settle()
    expect(again.status).toBe(200)
    const [first, second] = mails.map(mail => linkIn(mail, 'confirm'))
    const open = (link: string, method = 'POST') => send(method, link, { app })
    expect((await open(second!, 'GET')).status).toBe(200)
    expect((await open(first!)).status).toBe(404)
    expect((await withClockAhead(80 * HOUR, () => open(second!))).status).toBe(404)
    expect((await open(second!)).status).toBe(200)
    expect((await open(second!)).status).toBe(404)
    expect((await tenant.get(path)).body.health.status).toBe('ok')
    expect(outcome(await tenant.post(`${path}/confirmation`))).toEqual([409, 'channel_confirmed'])
    await deliver()
    expect(mails).toHaveLength(2)
    expect((await tenant.post(`${path}/test`)).body).toMatchObject({ delivered: true, answer_status: 250 })
    // A new address is confirmed anew.
    const moved = await tenant.patch(path, { target: { kind: 'email', address: 'other@example.com' } })
    expect(moved.body.health.status).toBe('unconfirmed')
  })

  it('ends its e-mails by the link that each has, also twice, and only its owner begins them again', async () => {
    const { tenant, mails, app } = await newChannelTenant()
    const target = { kind: 'email', address: 'team@example.com' }
    const { body } = await tenant.post('/v2/channels', { name: 'team', target })
    await settle()
    await send('POST', linkIn(mails[0]!, 'confirm'), { app })
    await tenant.post(`/v2/channels/${body.id}/test`)
    const { unsubscribeUrl } = mails[1]!
    const link = unsubscribeUrl.slice(new URL(unsubscribeUrl).origin.length)
    for (let i = 0; i < 2; i++) expect((await send('POST', link, { app })).status).toBe(200)
    const path = `/v2/channels/${body.id}`
    expect((await tenant.get(path)).body.health).toMatchObject({
      status: 'disabled',
      disabled_reason: 'unsubscribed',
    })
    const resumed = await tenant.patch(path, { enabled: true })
    expect(resumed.body.health.status).toBe('unconfirmed')
    const events = (await tenant.get('/v2/events?limit=100')).body.resources
    const types = events.map(({ type }: { type: string }) => type)
    expect(types.filter((type: string) => type === 'channel.unsubscribed')).toHaveLength(1)

    await tenant.patch(path, { target: { kind: 'email', address: 'others@example.com' } })
    expect((await send('POST', link, { app })).status).toBe(404)
  })

  it('is told only what its maker may read', async () => {
    const { tenant } = await newChannelTenant()
    const key = { description: 'narrow', permissions: ['channels:manage', 'channels:read'] }
    const limited = tenant.as((await tenant.post('/workspaces/current/api-keys', key)).body.key)
    const target = { kind: 'webhook', url: 'https://hooks.example.com/a' }
    const refusals = []
    for (const members of [{ deploys: 'all' }, { is_default: true }])
      refusals.push(outcome(await limited.post('/v2/channels', { name: 'x', target, ...members })))
    expect((await limited.post('/v2/channels', { name: 'x', target })).status).toBe(201)
    const { body } = await tenant.post('/v2/channels', { name: 'y', target, deploys: 'all' })
    for (const members of [{ target: { kind: 'webhook', url: 'https://mine.example.com' } }, { is_default: true }])
      refusals.push(outcome(await limited.patch(`/v2/channels/${body.id}`, members)))
    expect(refusals).toEqual(Array(4).fill([403, 'permission_missing']))
    expect((await limited.patch(`/v2/channels/${body.id}`, { deploys: 'none' })).status).toBe(200)
  })

  it('is asked to confirm three times a day, whoever asks', async () => {
    const name = crypto.randomUUID()
    const statuses = []
    for (let i = 0; i < 4; i++) {
      const { tenant } = await newChannelTenant()
      const target = { kind: 'email', address: `${name}+${i}@example.com` }
      const reply = await tenant.post('/v2/channels', { name: 'x', target })
      statuses.push([...outcome(reply), Number(reply.headers.get('Retry-After') ?? 0) > 3600])
    }
    expect(statuses).toEqual([
      [201, undefined, false],
      [201, undefined, false],
      [201, undefined, false],
      [429, 'confirmations_full', true],
    ])
  })
})

describe('an own channel', () => {
  it('takes membership alone, is seen by its person alone, and goes with the membership', async () => {
    const { tenant, app, enqueue, deliver, mails, services } = await newChannelTenant()
    const viewer = await newSession(tenant, { workspaceRole: VIEWER })
    const admin = await newSession(tenant, { workspaceRole: ADMIN })
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const call = (person: typeof viewer, method: string, path: string, body?: object) =>
      send(method, path, {
        ...(body && { body }),
        headers: {
          ...inside,
          Cookie: `slipway-80=${person.token}`,
          'Sec-Fetch-Site': 'same-origin',
          ...(body && { 'Content-Type': 'application/json' }),
        },
        app,
      })
    await runAsSystem(
      services.database,
      sql`update sessions set is_verified = true where member_id = ${viewer.member_id}::uuid`,
    )
    const target = { kind: 'pagerduty', routing_key: ROUTING_KEY }
    expect(outcome(await call(viewer, 'POST', '/v2/channels', { name: 'x', target }))).toEqual([
      403,
      'permission_missing',
    ])
    const own = await call(viewer, 'POST', '/v2/channels/own', { deploys: 'failed' })
    expect(own.body).toMatchObject({
      is_own: true,
      target: { address: `${viewer.member_id}@example.com` },
      health: { status: 'ok' },
    })
    const path = `/v2/channels/${own.body.id}`
    const shared = await tenant.post('/v2/channels', { name: 'x', target })
    expect(outcome(await call(viewer, 'PATCH', `/v2/channels/${shared.body.id}`, { deploys: 'all' }))).toEqual([
      403,
      'permission_missing',
    ])
    for (const method of ['GET', 'DELETE'])
      expect(outcome(await call(admin, method, path))).toEqual([404, 'channel_not_found'])
    expect((await tenant.get('/v2/channels')).body.resources).toHaveLength(1)
    expect((await call(viewer, 'GET', '/v2/channels')).body.resources).toHaveLength(2)
    const [event] = (await tenant.get('/v2/events?limit=100&type=channel.created')).body.resources
    expect(event.changes.map((change: { path: string }) => change.path)).toEqual([
      'deploys',
      'enabled',
      'is_default',
      'kind',
    ])
    expect(outcome(await tenant.post('/v2/channels/own', {}))).toEqual([403, 'channel_needs_member'])
    await enqueue(own.body, 'incident 1', 0)
    await deliver()
    expect(mails).toHaveLength(1)
    await enqueue(own.body, 'incident 2', 0)
    await runAsSystem(services.database, sql`delete from workspace_members where member_id = ${viewer.member_id}::uuid`)
    await deliver()
    expect(mails).toHaveLength(1)
    const left = await runAsSystem(services.database, sql`select from channels where id = ${own.body.id}::uuid`)
    expect(left).toEqual([[]])
  })

  it('is confirmed first if nobody vouches for the address of its person', async () => {
    const { tenant, app, mails } = await newChannelTenant()
    const person = await newSession(tenant, { workspaceRole: VIEWER })
    const reply = await send('POST', '/v2/channels/own', {
      body: {},
      headers: {
        'X-Tenant-Id': tenant.tenant_id,
        Cookie: `slipway-80=${person.token}`,
        'Sec-Fetch-Site': 'same-origin',
        'Content-Type': 'application/json',
      },
      app,
    })
    await settle()
    expect(reply.body.health.status).toBe('unconfirmed')
    expect(mails.map(({ to }) => to)).toEqual([`${person.member_id}@example.com`])
  })
})

describe('the channel of a new workspace', () => {
  const prepare = async (overrides: Overrides = {}) => {
    const set = await newChannelTenant({ overrides })
    const { app, tenant, services } = set
    const isOfTenant = sql`w.id = ${tenant.tenant_id}::uuid`
    const sweep = () => addOwnerChannels(services, isOfTenant)
    const person = await newSession(tenant, { workspaceRole: ADMIN })
    const vouch = () => vouchFor(`${person.member_id}@example.com`, app)
    const session = asSession(person.token, app)
    const ofTenant = { 'X-Tenant-Id': tenant.tenant_id }
    const list = async () => (await session.get('/v2/channels', ofTenant)).body.resources
    const remove = (id: string) => session.delete(`/v2/channels/${id}`, undefined, ofTenant)
    return { ...set, sweep, person, vouch, list, remove }
  }

  it('tells its Admin once the address is vouched for, and once only', async () => {
    const { sweep, vouch, list, tenant, enqueue, deliver, mails, person, remove } = await prepare()
    await sweep()
    expect(await list()).toEqual([])
    await vouch()
    await Promise.all([sweep(), sweep()])
    const [channel, ...others] = await list()
    expect(others).toEqual([])
    expect(channel).toMatchObject({ is_own: true, is_default: true, deploys: 'failed', health: { status: 'ok' } })
    expect((await tenant.get('/v2/alert-settings')).body.default_channels).toBe(1)
    const events = (await tenant.get('/v2/events?limit=100&type=channel.created')).body.resources
    expect(events.map(({ actor }: { actor: { kind: string } }) => actor.kind)).toEqual(['cron'])
    await enqueue(channel, 'incident 1', 0)
    await deliver()
    expect(mails.map(({ to }) => to)).toEqual([`${person.member_id}@example.com`])
    expect((await remove(channel.id)).status).toBe(204)
    await sweep()
    expect(await list()).toEqual([])
  })

  it('is not made where there is one, nor later', async () => {
    const { sweep, vouch, list, tenant } = await prepare()
    const target = { kind: 'pagerduty', routing_key: ROUTING_KEY }
    const { body } = await tenant.post('/v2/channels', { name: 'on call', target })
    await sweep()
    await tenant.delete(`/v2/channels/${body.id}`)
    await vouch()
    await sweep()
    expect(await list()).toEqual([])
  })

  it('is not made without a mail server', async () => {
    const { sweep, vouch, list } = await prepare({ sendMail: undefined })
    await vouch()
    await sweep()
    expect(await list()).toEqual([])
  })
})

describe('a test notice', () => {
  it('says what the receiver answered, and nothing that it said', async () => {
    const state = { status: 202 }
    const { tenant } = await newChannelTenant({
      sites: {
        'https://events.pagerduty.com': () => new Response('inner words', { status: state.status }),
      },
    })
    const target = { kind: 'pagerduty', routing_key: ROUTING_KEY }
    const { body } = await tenant.post('/v2/channels', { name: 'on call', target })
    const test = () => tenant.post(`/v2/channels/${body.id}/test`)
    expect((await test()).body).toMatchObject({ delivered: true, error: null, answer_status: 202 })
    state.status = 400
    const refused = await test()
    expect(refused.body).toMatchObject({ delivered: false, error: 'refused', answer_status: 400 })
    expect(refused.text).not.toContain('inner')
    const other = await newTenant()
    expect(outcome(await other.post(`/v2/channels/${body.id}/test`))).toEqual([404, 'channel_not_found'])
  })
})
