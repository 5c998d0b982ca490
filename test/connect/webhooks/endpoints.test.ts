import { describe, expect, it } from 'vitest'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { newTenant, readEvents, send, unusedId } from '../../support/app.ts'

const URL = 'https://ci.example.com/slipway'

describe('a webhook', () => {
  it('is created for events from now on, and shows its secret only then', async () => {
    const tenant = await newTenant()
    const { status, headers, body } = await tenant.post('/v2/webhooks', { url: URL, enabled: false })
    expect([status, headers.get('Location')]).toEqual([201, `/v2/webhooks/${body.id}`])
    expect(body).toMatchObject({
      url: URL,
      description: '',
      event_types: ['*'],
      deployment_ids: [],
      tag_value_ids: [],
      enabled: false,
      health: { status: 'ok', failing_since: null, disabled_at: null, disabled_reason: null },
      after: 1,
      previous_secret_until: null,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      public_key: expect.stringMatching(/^whpk_[A-Za-z0-9+/]{43}=$/),
    })
    const { secret, ...rest } = body
    const read = await tenant.get(`/v2/webhooks/${body.id}`)
    expect(read.body).toEqual(rest)
    expect(read.headers.get('ETag')).toBe('"1"')
    const { resources } = (await tenant.get('/v2/webhooks')).body
    expect(resources).toEqual([rest])
  })

  it('created again under the same idempotency key has the same secret', async () => {
    const tenant = await newTenant()
    const create = () => tenant.post('/v2/webhooks', { url: URL, enabled: false }, { 'Idempotency-Key': 'once' })
    const [first, second] = [await create(), await create()]
    expect(second.headers.get('Idempotency-Replayed')).toBe('true')
    expect(second.body).toEqual(first.body)
  })

  it('is changed, under If-Match, and deleted', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/webhooks', { url: URL })).body
    const path = `/v2/webhooks/${id}`
    const changed = await tenant.patch(path, { event_types: ['deployment.*'], enabled: false }, { 'If-Match': '"1"' })
    expect(changed.body).toMatchObject({ url: URL, event_types: ['deployment.*'], enabled: false })
    expect((await tenant.patch(path, { enabled: true }, { 'If-Match': '"1"' })).body.code).toBe('precondition_failed')
    expect((await tenant.delete(path)).status).toBe(204)
    expect((await tenant.get(path)).body.code).toBe('webhook_not_found')
  })

  it('is journaled with its members before and after, its URL without the query, and no key', async () => {
    const tenant = await newTenant()
    const url = `${URL}?token=hush`
    const created = await tenant.post('/v2/webhooks', { url, enabled: false })
    const path = `/v2/webhooks/${created.body.id}`
    const replies = [
      created,
      await tenant.patch(path, { url: `${URL}/2?token=hush` }),
      await tenant.post(`${path}/rotate_secret`, {}),
      await tenant.delete(path),
    ]
    const events = (await Promise.all(replies.map(({ headers }) => readEvents(headers.get('X-Request-Id')!)))).flat()
    expect(events.map(({ type }) => type)).toEqual([
      'webhook.created',
      'webhook.updated',
      'webhook.secret_rotated',
      'webhook.deleted',
    ])
    const text = JSON.stringify(events)
    for (const secret of ['hush', 'whsec_', 'first.']) expect(text).not.toContain(secret)
    expect(JSON.parse(events[1]!.changes as string)).toEqual([{ path: 'url', before: URL, after: `${URL}/2` }])
  })

  it.each([
    'http://ci.example.com/',
    'https://10.0.0.1/',
    'https://localhost/',
    'https://user:password@ci.example.com/',
    'ftp://ci.example.com/',
    'nonsense',
  ])('is refused for %s, when created and when changed', async url => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/webhooks', { url: URL, enabled: false })).body
    expect((await tenant.post('/v2/webhooks', { url })).body.code).toBe('blocked_url')
    expect((await tenant.patch(`/v2/webhooks/${id}`, { url })).body.code).toBe('blocked_url')
  })

  it('is refused for deployments and tags of another workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const deployment = (await other.post('/v2/deployments', NewDeployment.meta()!.example)).body.id
    const key = (await other.post('/v2/tag-keys', { key: 'team' })).body.id
    const tag = (await other.post(`/v2/tag-keys/${key}/values`, { value: 'one' })).body.id
    const { id } = (await tenant.post('/v2/webhooks', { url: URL, enabled: false })).body
    for (const [filter, code] of [
      [{ deployment_ids: [deployment] }, 'deployment_not_found'],
      [{ tag_value_ids: [tag] }, 'tag_value_not_found'],
    ] as const) {
      expect((await tenant.post('/v2/webhooks', { url: URL, ...filter })).body.code).toBe(code)
      expect((await tenant.patch(`/v2/webhooks/${id}`, filter)).body.code).toBe(code)
    }
  })

  it('is created and changed only by a key that may read events', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/webhooks', { url: URL, enabled: false })).body
    const path = `/v2/webhooks/${id}`
    const key = { description: 'narrow', permissions: ['webhooks:read', 'webhooks:manage'] }
    const narrow = tenant.as((await tenant.post('/workspaces/current/api-keys', key)).body.key)
    expect((await narrow.get(path)).status).toBe(200)
    for (const { body } of [
      await narrow.post('/v2/webhooks', { url: URL }),
      await narrow.patch(path, { url: `${URL}/elsewhere` }),
    ])
      expect(body).toMatchObject({ code: 'permission_missing', detail: expect.stringContaining('events:read') })
  })

  it.each([[[]], [['Deployment']], [['deployment.%']], [['x'.repeat(101)]]])(
    'is refused with event types %j',
    async event_types => {
      const tenant = await newTenant()
      expect((await tenant.post('/v2/webhooks', { url: URL, event_types })).status).toBe(422)
    },
  )
})

it('publishes its key without an API key, and none of an unknown webhook', async () => {
  const tenant = await newTenant()
  const { id, public_key } = (await tenant.post('/v2/webhooks', { url: URL, enabled: false })).body
  const { headers, body } = await send('GET', `/.well-known/webhook-keys/${id}`)
  expect(headers.get('Cache-Control')).toBe('public, max-age=3600')
  const x = Buffer.from(public_key.slice(5), 'base64').toString('base64url')
  expect(body.keys).toEqual([{ kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA', kid: id, x, whpk: public_key }])
  expect((await send('GET', `/.well-known/webhook-keys/${unusedId()}`)).body.code).toBe('webhook_not_found')
  expect((await send('GET', '/.well-known/webhook-keys/nonsense')).status).toBe(422)
})
