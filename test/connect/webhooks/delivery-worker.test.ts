// Delivery to real receivers on the loopback, on the real journal.
import { createPublicKey, verify } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { Webhook } from 'standardwebhooks'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { localFetch } from '#runtime'
import { createEventDeliverer } from '../../../src/connect/webhooks/delivery-worker.ts'
import { storeDueDeliveries } from '../../../src/connect/webhooks/due-deliveries.ts'
import { sweepWebhooks } from '../../../src/connect/webhooks/sweep.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { ADMIN } from '../../../src/people/access/built-in-roles.ts'
import {
  type App,
  getServices,
  logLines,
  newTenant,
  type Overrides,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
  wrapTrips,
} from '../../support/app.ts'
import { asSession, newSession } from '../../support/sessions.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'
import { type Receiver, startReceiver } from '../../support/webhook-receiver.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

let app: App
let tenant: Tenant
let receiver: Receiver
const startLoopbackApp = (overrides: Overrides = {}) =>
  startApp({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch: localFetch, ...overrides } })
beforeEach(async () => {
  app = startLoopbackApp()
  tenant = await newTenant({ app })
  receiver = await startReceiver()
  onTestFinished(receiver.close)
})

const settle = () => finishPendingWork()
/** Runs the sweep after that time. */
const sweepAfter = (ms: number) => withClockAhead(ms, () => sweepWebhooks(getServices(app)))

/** Subscribes, and waits for its own `webhook.created` if it wants that. */
async function subscribe(options: object = {}) {
  const { body } = await tenant.post('/v2/webhooks', { url: receiver.url, event_types: ['tag_key.*'], ...options })
  await settle()
  return { ...body, path: `/v2/webhooks/${body.id}` }
}
const addTagKey = async (key: string = unusedId()) => (await tenant.post('/v2/tag-keys', { key })).body
async function addTagKeys(count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) ids.push((await addTagKey()).id)
  await settle()
  return ids
}
const subjects = () => receiver.messages.map(({ json }) => json.data.subject.id)
const listDeliveries = async (path: string, query = '') =>
  (await tenant.get(`${path}/deliveries?limit=100${query}`)).body.resources
const readHealth = async (path: string) => (await tenant.get(path)).body.health

describe('an event', () => {
  it('is sent after the write, with the id of the event, and signed with both schemes', async () => {
    const { secret, id, path } = await subscribe()
    const key = await addTagKey('team')
    await settle()
    expect(receiver.messages).toHaveLength(1)
    const [{ headers, body, json }] = receiver.messages as [(typeof receiver.messages)[0]]
    expect(json).toMatchObject({
      type: 'tag_key.created',
      timestamp: json.data.created_at,
      data: {
        id: `evt_${tenant.tenant_id}_${json.data.number}`,
        workspace_id: tenant.tenant_id,
        subject: { type: 'tag_key', id: key.id },
        actor: { kind: 'key', name: 'Key of a test' },
        changes: [{ path: 'key', before: null, after: 'team' }],
        deployment: null,
      },
    })
    expect(headers['webhook-id']).toBe(json.data.id)
    expect(headers['content-type']).toBe('application/json')
    expect(new Webhook(secret).verify(body, headers)).toEqual(json)
    const { keys } = (await (await app.request(`/.well-known/webhook-keys/${id}`)).json()) as {
      keys: { kty: string; crv: string; x: string }[]
    }
    const { kty, crv, x } = keys[0]!
    const [, signature] = /v1a,(\S+)/.exec(headers['webhook-signature']!)!
    const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
    const publicKey = createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
    expect(verify(null, signed, publicKey, Buffer.from(signature!, 'base64'))).toBe(true)
    expect(await listDeliveries(path)).toMatchObject([
      { message_id: json.data.id, type: 'tag_key.created', state: 'delivered', attempts: 1, next_attempt_at: null },
    ])

    const member = await newSession(tenant, { workspaceRole: ADMIN })
    await asSession(member.token, app).post('/v2/tag-keys', { key: 'unit' }, { 'X-Tenant-Id': tenant.tenant_id })
    await settle()
    expect(receiver.messages[1]!.json.data.actor).toMatchObject({ kind: 'session', id: member.member_id })
  })

  it('is signed with both secrets after a rotation, and with the new one alone after the overlap', async () => {
    const before = await subscribe()
    const rotated = (await tenant.post(`${before.path}/rotate_secret`, { overlap_seconds: 3600 })).body
    await addTagKeys(1)
    const [first] = receiver.messages
    for (const { secret } of [before, rotated])
      expect(new Webhook(secret).verify(first!.body, first!.headers)).toEqual(first!.json)
    await withClockAhead(2 * HOUR, () => addTagKeys(1))
    const [, second] = receiver.messages
    expect(new Webhook(rotated.secret).verify(second!.body, second!.headers)).toEqual(second!.json)
    expect(() => new Webhook(before.secret).verify(second!.body, second!.headers)).toThrow()
  })

  it('reaches each webhook whose types match, also those of a paused one once it is resumed', async () => {
    const all = await startReceiver()
    onTestFinished(all.close)
    const paused = await subscribe({ enabled: false })
    await subscribe({ url: all.url, event_types: ['api_key.*', 'tag_k*'] })
    const ids = await addTagKeys(2)
    expect(all.messages.map(({ json }) => json.data.subject.id)).toEqual(ids)
    expect(subjects()).toEqual([])
    await tenant.patch(paused.path, { enabled: true })
    await settle()
    expect(subjects()).toEqual(ids)
  })

  it('from before the webhook is sent if the webhook begins after an earlier event', async () => {
    const ids = await addTagKeys(2)
    await subscribe({ after: 0 })
    expect(subjects()).toEqual(ids)
    const { path } = await subscribe()
    const goBack = async () => {
      await tenant.patch(path, { after: 0 })
      await settle()
    }
    await goBack()
    expect(subjects()).toEqual([...ids, ...ids])
    // Now it has delivered them before.
    await goBack()
    expect(subjects()).toEqual([...ids, ...ids, ...ids])
    expect(await listDeliveries(path, '&state=delivered')).toMatchObject([{ attempts: 1 }, { attempts: 1 }])
  })

  it('that waits is not sent any more once the webhook continues after a later one', async () => {
    const { path } = await subscribe()
    receiver.answer = response => response.writeHead(429, { 'Retry-After': '600' }).end()
    await addTagKeys(1)
    receiver.answer = receiver.accept
    await tenant.patch(path, { after: 1_000_000, enabled: true })
    const [id] = await addTagKeys(1)
    await sweepAfter(HOUR)
    expect(subjects().slice(1)).toEqual([id])
    const skipped = { error: 'skipped', next_attempt_at: null }
    expect(await listDeliveries(path, '&state=failed')).toMatchObject([skipped])
  })

  it('that is no longer kept fails at once, without harm to the health', async () => {
    app = startLoopbackApp({ deliveriesPerRequest: 0 })
    tenant = await newTenant({ app })
    const { path, id } = await subscribe()
    await addTagKeys(2)
    await runAsSystem(app.database, storeDueDeliveries(sql`${id}::uuid`))
    await runAsSystem(app.database, sql`delete from events where scope_id = ${tenant.tenant_id}::uuid`)
    await sweepAfter(0)
    const expired = { state: 'failed', error: 'event_expired', attempts: 1, next_attempt_at: null }
    expect(await listDeliveries(path)).toMatchObject([expired, expired])
    expect((await readHealth(path)).status).toBe('ok')
  })

  it('is sent only about the deployments of the filter, with their name and state', async () => {
    const deploy = async (name: string) =>
      (await tenant.post('/v2/deployments', { ...NewDeployment.meta()!.example!, name })).body
    const [shop, blog, plain] = [await deploy('shop'), await deploy('blog'), await deploy('plain')]
    const tagKey = await addTagKey('team')
    const tag = (await tenant.post(`/v2/tag-keys/${tagKey.id}/values`, { value: 'one' })).body.id
    await tenant.post(`/v2/deployments/${blog.id}/tags`, { tag_value_ids: [tag] })
    const event_types = ['*']
    await subscribe({ event_types, deployment_ids: [shop.id], tag_value_ids: [tag], after: 0 })
    expect(new Set(receiver.messages.map(({ json }) => json.data.deployment.name))).toEqual(new Set(['shop', 'blog']))
    expect(new Set(receiver.messages.map(({ json }) => json.type.split('.')[0]))).toEqual(
      new Set(['deployment', 'revision']),
    )
    expect(JSON.stringify(receiver.messages)).not.toContain(plain.id)
  })

  it('that an agent reports is sent after the report', async () => {
    const { listener, key } = await newListener(tenant)
    const { id } = (await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))).body
    await subscribe({ event_types: ['revision.deployed'] })
    const agent = makeSyncAgent(tenant, key)
    const work = (await agent.pollAll()).find(({ deployment_id }) => deployment_id === id)!
    await agent.report(work, { state: 'deployed' })
    await settle()
    expect(receiver.messages.map(({ json }) => json)).toMatchObject([
      {
        type: 'revision.deployed',
        data: { actor: { kind: 'listener' }, deployment: { id, name: 'shop', status: 'READY' } },
      },
    ])
  })

  it('shares one query for webhooks with those of other writes at once', async () => {
    let trips = 0
    const services = getServices(app)
    const database = wrapTrips(services.database, trip => statements => {
      trips++
      return trip(statements)
    })
    const deliver = createEventDeliverer({ ...services, database })
    await Promise.all(Array.from({ length: 50 }, () => deliver(tenant.tenant_id)))
    expect(trips).toBe(1)
  })

  it('that the process which wrote it does not send is sent by the schedule', async () => {
    app = startLoopbackApp({ deliveriesPerRequest: 0 })
    tenant = await newTenant({ app })
    await subscribe()
    const ids = await addTagKeys(2)
    expect(subjects()).toEqual([])
    await sweepAfter(0)
    expect(subjects()).toEqual(ids)
  })
})

describe('a receiver that fails', () => {
  it.each([
    ['answers 500', (response: import('node:http').ServerResponse) => response.writeHead(500).end('broken'), 'refused'],
    [
      'redirects',
      (response: import('node:http').ServerResponse) => response.writeHead(307, { Location: receiver.url }).end(),
      'refused',
    ],
    ['closes the connection', (response: import('node:http').ServerResponse) => response.destroy(), 'upstream_error'],
  ])('because it %s gets the same ids again, and every event once it is mended', async (_, answer, error) => {
    const { path, secret } = await subscribe()
    receiver.answer = answer
    const ids = await addTagKeys(3)
    const waiting = await listDeliveries(path)
    for (const delivery of waiting) expect(delivery.state).toBe('waiting')
    const oldest = waiting.find(({ number }: { number: number }) => number === receiver.messages[0]!.json.data.number)
    expect(oldest.error).toBe(error)
    expect((await readHealth(path)).status).toBe('failing')
    receiver.answer = receiver.accept
    const failed = receiver.messages.length
    await sweepAfter(7 * MINUTE)
    expect(new Set(subjects().slice(failed))).toEqual(new Set(ids))
    const byId = Map.groupBy(receiver.messages, ({ id }) => id)
    expect(byId.size).toBe(3)
    for (const [id, [first, second]] of byId) {
      if (!second) continue
      expect([first!.json, second.json]).toEqual([first!.json, first!.json])
      expect(new Webhook(secret).verify(second.body, second.headers)).toMatchObject({ data: { id } })
    }
    expect((await listDeliveries(path, '&state=delivered')).length).toBe(3)
    expect(await readHealth(path)).toEqual({
      status: 'ok',
      failing_since: null,
      disabled_at: null,
      disabled_reason: null,
    })
  })

  it('for one event still gets the others', async () => {
    const { path } = await subscribe()
    const [first] = await addTagKeys(1)
    receiver.answer = (response, { json }) => response.writeHead(json.data.changes[0].after === 'bad' ? 500 : 204).end()
    const bad = await addTagKey('bad')
    const rest = await addTagKeys(2)
    expect(subjects()).toContain(bad.id)
    expect(await listDeliveries(path, '&state=waiting')).toMatchObject([{ error: 'refused' }])
    expect(subjects().filter(id => id !== bad.id)).toEqual([first, ...rest])
  })

  it('with 429 gets nothing until the time in Retry-After', async () => {
    const { path } = await subscribe()
    receiver.answer = response => response.writeHead(429, { 'Retry-After': '600' }).end()
    await addTagKeys(3)
    expect(receiver.messages).toHaveLength(1)
    receiver.answer = receiver.accept
    await sweepAfter(9 * MINUTE)
    expect(receiver.messages).toHaveLength(1)
    await sweepAfter(11 * MINUTE)
    expect(receiver.messages).toHaveLength(4)
    expect(await listDeliveries(path, '&state=delivered')).toHaveLength(3)
  })

  it('with 410 is disabled at once, which is an event, and continues when it is resumed', async () => {
    const other = await startReceiver()
    onTestFinished(other.close)
    await subscribe({ url: other.url, event_types: ['webhook.disabled'] })
    const { path, id } = await subscribe()
    receiver.answer = response => response.writeHead(410).end()
    const ids = await addTagKeys(2)
    expect(receiver.messages).toHaveLength(1)
    expect((await tenant.get(path)).body).toMatchObject({
      enabled: false,
      health: { status: 'disabled', disabled_reason: 'gone' },
    })
    await sweepAfter(0)
    expect(other.messages.map(({ json }) => json.data)).toMatchObject([
      {
        type: 'webhook.disabled',
        subject: { id },
        data: { reason: 'gone' },
        changes: [{ path: 'enabled', before: true, after: false }],
      },
    ])
    receiver.answer = receiver.accept
    await tenant.patch(path, { enabled: true })
    await settle()
    await sweepAfter(10 * MINUTE)
    expect(new Set(subjects().slice(1))).toEqual(new Set(ids))
    expect((await readHealth(path)).status).toBe('ok')
  })

  it('gets ten attempts over three days, and is disabled after five days without a success', async () => {
    const { path } = await subscribe()
    receiver.answer = response => response.writeHead(500).end()
    const [id] = await addTagKeys(1)
    for (let hours = 0; hours < 120; hours++) await sweepAfter(hours * HOUR)
    expect(subjects().filter(subject => subject === id)).toHaveLength(10)
    const [delivery] = await listDeliveries(path)
    expect(delivery).toMatchObject({ state: 'failed', attempts: 10, next_attempt_at: null })
    expect((await readHealth(path)).status).toBe('failing')
    await withClockAhead(5 * DAY + MINUTE, () => addTagKeys(1))
    expect(await readHealth(path)).toMatchObject({ status: 'disabled', disabled_reason: 'failing' })
  })

  it('because it hangs costs one attempt, and the others wait', async () => {
    const { path } = await subscribe()
    const hung = Promise.withResolvers<void>()
    receiver.answer = () => hung.resolve()
    const { id } = await addTagKey()
    await hung.promise
    const other = startLoopbackApp({ deliveriesPerRequest: 0 })
    const headers = { 'X-Api-Key': tenant.key }
    for (const key of ['one', 'two']) await send('POST', '/v2/tag-keys', { body: { key }, headers, app: other })
    receiver.answer = receiver.accept
    // The worker that waits holds the webhook.
    await sweepAfter(0)
    expect(subjects()).toEqual([id])
    // It dies: its lease expires.
    await sweepAfter(3 * MINUTE)
    expect(receiver.messages).toHaveLength(4)
    expect(subjects()[1]).toBe(id)
    expect(new Set(receiver.messages.map(message => message.id)).size).toBe(3)
    await receiver.close()
    await settle()
    expect(await listDeliveries(path, '&state=delivered')).toHaveLength(3)
  })

  it('because all of its workspace hang does not delay another workspace', async () => {
    app = startLoopbackApp({ deliveriesPerRequest: 0 })
    const busy = await newTenant({ app })
    const hanging = await startReceiver()
    const hung: Parameters<Receiver['answer']>[0][] = []
    hanging.answer = response => hung.push(response)
    const body = { url: hanging.url, event_types: ['tag_key.*'] }
    for (let i = 0; i < 10; i++) await busy.post('/v2/webhooks', body)
    await busy.post('/v2/tag-keys', { key: 'team' })
    tenant = await newTenant({ app })
    const arrived = Promise.withResolvers<void>()
    receiver.answer = (...exchange) => {
      arrived.resolve()
      receiver.accept(...exchange)
    }
    await subscribe()
    await addTagKey()
    const sweep = sweepAfter(0)
    await arrived.promise
    // The sweep has eight workers.
    expect(hung.length).toBeLessThan(8)
    hanging.answer = hanging.accept
    for (const response of hung) response.writeHead(204).end()
    await sweep
    await hanging.close()
  })

  it('to stop sending is cut after 2 KiB', async () => {
    const { path } = await subscribe()
    let sent = 0
    receiver.answer = response => {
      response.writeHead(200)
      const chunk = 'x'.repeat(65_536)
      const send = () => {
        while (!response.destroyed && sent < 100_000_000) {
          sent += chunk.length
          if (!response.write(chunk)) return response.once('drain', send)
        }
        response.end()
      }
      send()
    }
    await addTagKeys(1)
    expect(sent).toBeLessThan(50_000_000)
    const [delivery] = await listDeliveries(path)
    const { answer } = (await tenant.get(`${path}/deliveries/${delivery.id}`)).body
    expect(answer).toEqual({ status: 200, body: 'x'.repeat(2048) })
  })
})

describe('a delivery', () => {
  it('shows its request and answer, and neither has a secret', async () => {
    const { path, secret } = await subscribe()
    receiver.answer = response => response.writeHead(500).end('out of\0 order')
    await addTagKeys(1)
    const [delivery] = await listDeliveries(path, '&type=tag_key.created')
    const deliveryPath = `${path}/deliveries/${delivery.id}`
    const { body, text } = await tenant.get(deliveryPath)
    const [{ headers, body: sentBody }] = receiver.messages as [(typeof receiver.messages)[0]]
    expect(body).toMatchObject({ ...delivery, answer: { status: 500, body: 'out of\ufffd order' } })
    expect(body.request).toMatchObject({ url: receiver.url, body: sentBody })
    expect(headers).toMatchObject(body.request.headers)
    expect(text).not.toContain(secret.slice(6))
    expect(await listDeliveries(path, '&type=deployment.created')).toEqual([])
    const [rows] = (await runAsSystem(
      app.database,
      sql`select json_agg(w)::text from webhooks w where w.id = ${delivery.webhook_id}::uuid`,
    )) as [[string][]]
    expect(rows[0]![0]).not.toContain(secret.slice(6))
    expect(JSON.stringify(logLines)).not.toContain(secret.slice(6))
  })

  it('is shown and sent again only with the permission to read events', async () => {
    const { path } = await subscribe()
    await addTagKeys(1)
    const [{ id }] = await listDeliveries(path)
    const key = { description: 'narrow', permissions: ['webhooks:read', 'webhooks:manage'] }
    const narrow = tenant.as((await tenant.post('/workspaces/current/api-keys', key)).body.key)
    const refusal = { code: 'permission_missing', detail: expect.stringContaining('events:read') }
    expect((await narrow.get(`${path}/deliveries/${id}`)).body).toMatchObject(refusal)
    expect((await narrow.post(`${path}/deliveries/${id}/redeliver`)).body).toMatchObject(refusal)
    expect(receiver.messages).toHaveLength(1)
  })

  it('is sent again at once on request, also to a disabled webhook, without a change of its health', async () => {
    const { path } = await subscribe()
    receiver.answer = response => response.writeHead(410).end()
    await addTagKeys(1)
    const [delivery] = await listDeliveries(path)
    const rotated = (await tenant.post(`${path}/rotate_secret`, { overlap_seconds: 0 })).body
    const redeliver = () => tenant.post(`${path}/deliveries/${delivery.id}/redeliver`)
    expect((await redeliver()).body).toMatchObject({ state: 'waiting', answer: { status: 410 } })
    receiver.answer = receiver.accept
    expect((await redeliver()).body).toMatchObject({ state: 'delivered', answer: { status: 204 }, attempts: 1 })
    const last = receiver.messages.at(-1)!
    expect(new Set(receiver.messages.map(({ id }) => id))).toEqual(new Set([delivery.message_id]))
    expect(new Webhook(rotated.secret).verify(last.body, last.headers)).toEqual(last.json)
    expect((await readHealth(path)).status).toBe('disabled')
  })

  it('that failed is attempted again with all that failed since a time', async () => {
    const { path } = await subscribe()
    receiver.answer = response => response.writeHead(500).end()
    const ids = await addTagKeys(2)
    await runAsSystem(app.database, sql`update webhook_deliveries set state = 'failed', attempts = 10`)
    receiver.answer = receiver.accept
    const recover = (since: string) => tenant.post(`${path}/recover`, { since })
    expect((await recover('2030-01-01T00:00:00Z')).body).toEqual({ recovered: 0 })
    expect((await recover('2020-01-01T00:00:00Z')).body).toEqual({ recovered: 2 })
    await settle()
    expect(subjects().slice(-2)).toEqual(ids)
  })

  it('is deleted after 30 days, unless it still waits', async () => {
    const { path } = await subscribe()
    await addTagKeys(1)
    receiver.answer = response => response.writeHead(410).end()
    await addTagKeys(1)
    await sweepAfter(31 * DAY)
    expect(await listDeliveries(path)).toMatchObject([{ state: 'waiting' }])
  })
})

it('a ping shows the answer of the receiver, also of a paused webhook, and is repeated under its key', async () => {
  const { path, secret } = await subscribe({ enabled: false })
  receiver.answer = response => response.writeHead(401).end('who are you?')
  const refused = await tenant.post(`${path}/ping`)
  expect(refused.body).toMatchObject({
    delivered: false,
    error: 'refused',
    answer: { status: 401, body: 'who are you?' },
  })
  receiver.answer = receiver.accept
  const ping = () => tenant.post(`${path}/ping`, undefined, { 'Idempotency-Key': 'once' })
  const accepted = await ping()
  expect(accepted.body).toMatchObject({ delivered: true, error: null, answer: { status: 204, body: '' } })
  expect((await ping()).body).toEqual(accepted.body)
  expect(receiver.messages.map(({ json }) => json.type)).toEqual(['webhook.ping', 'webhook.ping'])
  const { body, headers } = receiver.messages[1]!
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({ type: 'webhook.ping' })
})
