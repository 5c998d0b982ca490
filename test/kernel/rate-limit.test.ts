import { sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { NewListener } from '../../src/hosting/listeners/schema.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { VIEWER } from '../../src/people/access/built-in-roles.ts'
import { type App, clock, newTenant, send, startApp, type Tenant } from '../support/app.ts'

afterEach(() => {
  clock.ahead = 0
})

const startAppWithLimit = (limit: number) => startApp({ settings: { RATE_LIMIT_PER_MINUTE: String(limit) } })
const readRemaining = async (caller: Pick<Tenant, 'get'>) =>
  Number(/r=(\d+)/.exec((await caller.get('/workspaces')).headers.get('RateLimit')!)![1])

async function runInParallel<T>(times: number, act: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: times }, (_, i) => act(i)))
}

const createKey = async (creator: Pick<Tenant, 'post'>, tenant: Tenant, input = {}) => {
  const { body } = await creator.post('/workspaces/current/api-keys', { description: 'test', ...input })
  return tenant.as(body.key)
}

describe('the rate limit of a key', () => {
  const app = startAppWithLimit(3)

  it('is reported in headers, and refuses requests over it until the minute has passed', async () => {
    const tenant = await newTenant({ app })
    for (const remaining of [2, 1, 0]) {
      const { status, headers } = await tenant.get('/workspaces')
      expect(status).toBe(200)
      expect(headers.get('RateLimit-Policy')).toBe('"key";q=3;w=60')
      expect(headers.get('RateLimit')).toBe(`"key";r=${remaining};t=60`)
    }
    const refused = await tenant.get('/workspaces')
    expect([refused.status, refused.body.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(50)
    expect(refused.headers.get('RateLimit')).toBe(`"key";r=0;t=${refused.headers.get('Retry-After')}`)
    expect((await tenant.owner.get('/workspaces')).status).toBe(200)
    await finishPendingWork()
    clock.ahead = 61_000
    expect((await tenant.get('/workspaces')).headers.get('RateLimit')).toBe('"key";r=2;t=60')
  })

  it('is off when the setting is 0', async () => {
    const tenant = await newTenant()
    expect((await tenant.get('/workspaces')).headers.get('RateLimit-Policy')).toBeNull()
  })
})

describe('the budget of the rate limit', () => {
  it('admits exactly its number of parallel requests', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(10) })
    const replies = await runInParallel(100, i => tenant.post('/v2/tag-keys', { key: `key-${i}` }))
    const statuses = replies.map(({ status }) => status)
    expect([statuses.filter(one => one === 201).length, statuses.filter(one => one === 429).length]).toEqual([10, 90])
    clock.ahead = 61_000
    // Refused requests have no effect.
    expect((await tenant.get('/v2/tag-keys?limit=100')).body.resources).toHaveLength(10)
  })

  it('is used by failed requests too', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(100) })
    const { tenant_id, owner } = tenant
    const path = `/workspaces/${tenant_id}`
    const once = { 'Idempotency-Key': 'once' }
    const requests: [string, () => Promise<{ status: number }>, number][] = [
      ['permission_missing', () => tenant.post('/workspaces', { display_name: 'x' }), 403],
      ['workspace_forbidden', () => tenant.get('/workspaces', { 'X-Tenant-Id': crypto.randomUUID() }), 403],
      ['not found', () => tenant.get(`/v2/deployments/${crypto.randomUUID()}`), 404],
      ['precondition_failed', () => tenant.patch(path, { display_name: 'x' }, { 'If-Match': '"99"' }), 412],
      ['created', () => tenant.post('/v2/tag-keys', { key: 'one' }, once), 201],
      ['replayed', () => tenant.post('/v2/tag-keys', { key: 'one' }, once), 201],
      ['idempotency key reused', () => tenant.post('/v2/tag-keys', { key: 'two' }, once), 422],
      ['conflict', () => tenant.post('/v2/tag-keys', { key: 'one' }), 409],
      [
        'refused in SQL',
        () => tenant.post('/workspaces/current/api-keys', { description: 'x', role_id: crypto.randomUUID() }),
        404,
      ],
    ]
    let expected = await readRemaining(tenant)
    for (const [name, act, status] of requests) {
      expect((await act()).status, name).toBe(status)
      // The request and the one that reads the remaining budget.
      expected -= 2
      expect(await readRemaining(tenant), name).toBe(expected)
    }
    expect(await readRemaining(owner)).toBe(99)
  })

  it.each<[string, (tenant: Tenant) => Promise<{ status: number }>, number]>([
    ['an invalid body', tenant => tenant.post('/v2/tag-keys', {}), 422],
    ['an invalid header', tenant => tenant.get('/workspaces', { 'X-Tenant-Id': 'mine' }), 422],
  ])('is used by %s, counted after the response', async (_, act, status) => {
    const tenant = await newTenant({ app: startAppWithLimit(10) })
    expect(await readRemaining(tenant)).toBe(9)
    for (const reply of await runInParallel(9, () => act(tenant))) expect(reply.status).toBe(status)
    await finishPendingWork()
    expect((await tenant.get('/workspaces')).status).toBe(429)
    // The instance remembers the key and reads no further body.
    expect((await act(tenant)).status).toBe(429)
    clock.ahead = 61_000
    expect(await readRemaining(tenant)).toBe(9)
  })

  it('is shared by a key and all keys created with it', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(10) })
    const child = await createKey(tenant, tenant)
    const grandchild = await createKey(child, tenant, { role_id: VIEWER })
    expect(await readRemaining(grandchild)).toBe(7)
    const replies = await runInParallel(30, i => [tenant, child, grandchild][i % 3]!.get('/workspaces'))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(7)
    for (const caller of [tenant, child, grandchild]) expect((await caller.get('/workspaces')).status).toBe(429)
    expect(await readRemaining(tenant.owner)).toBe(9)
  })

  it('for a workspace is separate from the budgets of other workspaces and of the organization', async () => {
    const { owner, ...tenant } = await newTenant({ app: startAppWithLimit(10) })
    const second = (await owner.post('/workspaces', { display_name: 'Second' })).body.id as string
    const createKeyIn = async (workspace: string) =>
      (await owner.post('/workspaces/current/api-keys', { description: 'CI' }, { 'X-Tenant-Id': workspace })).body
    const leaked = await createKeyIn(tenant.tenant_id)
    const sibling = await createKeyIn(tenant.tenant_id)
    const ofSecondWorkspace = await createKeyIn(second)
    await runInParallel(30, () => tenant.as(leaked.key).get('/workspaces'))
    // The instance learns the budget of a key from its first request.
    await tenant.as(sibling.key).get('/workspaces')
    expect((await tenant.as(sibling.key).get('/workspaces')).status).toBe(429)
    expect(await readRemaining(tenant.as(ofSecondWorkspace.key))).toBe(9)
    const revoked = await owner.delete(`/orgs/current/api-keys/${leaked.id}`)
    expect(revoked.status).toBe(204)
    expect(await readRemaining(owner)).toBe(4)
  })

  it('is not used by a revoked key', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(10) })
    const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'leaked' })
    await tenant.delete(`/workspaces/current/api-keys/${body.id}`)
    for (let i = 0; i < 2; i++)
      for (const reply of await runInParallel(10, () => tenant.as(body.key).get('/workspaces')))
        expect(reply.status).toBe(401)
    expect(await readRemaining(tenant)).toBe(7)
  })

  it('is used by what a key sent that was revoked before it was counted', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(0) })
    const { key, id } = (await tenant.post('/workspaces/current/api-keys', { description: 'job' })).body
    const app = startApp({ settings: { RATE_LIMIT_PER_MINUTE: '20' }, overrides: { exchangeMs: 300 } })
    const at = (key: string) => send('GET', '/workspaces', { app, headers: { 'X-Api-Key': key } })
    // After the first request the instance waits before it counts others.
    await at(tenant.key)
    for (const { status } of await runInParallel(8, () => at(key))) expect(status).toBe(200)
    expect((await tenant.delete(`/workspaces/current/api-keys/${id}`)).status).toBe(204)
    await finishPendingWork()
    expect((await at(tenant.key)).headers.get('RateLimit')).toMatch(/^"key";r=10;/)
  })

  it('is used by replays, which are no failures of their address', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(0) })
    const once = { 'Idempotency-Key': 'once' }
    expect((await tenant.post('/v2/tag-keys', { key: 'one' }, once)).status).toBe(201)
    const app = startApp({
      settings: { RATE_LIMIT_PER_MINUTE: '20', UNKNOWN_KEYS_PER_MINUTE: '5' },
      overrides: { clientAddress: () => '198.51.100.7' },
    })
    const headers = { 'X-Api-Key': tenant.key, ...once }
    for (let i = 1; i <= 8; i++) {
      const replay = await send('POST', '/v2/tag-keys', { app, body: { key: 'one' }, headers })
      expect(replay.status).toBe(201)
      expect(replay.headers.get('RateLimit')).toMatch(new RegExp(`^"key";r=${20 - i};`))
      await finishPendingWork()
    }
    const elsewhere = startAppWithLimit(20)
    await send('GET', '/workspaces', { app: elsewhere, headers: { 'X-Api-Key': tenant.key } })
    await finishPendingWork()
    const next = await send('GET', '/workspaces', { app: elsewhere, headers: { 'X-Api-Key': tenant.key } })
    expect(next.headers.get('RateLimit')).toMatch(/^"key";r=10;/)
  })

  it('is used by a slow read whose client has left', async () => {
    const app = startAppWithLimit(10)
    const tenant = await newTenant({ app })
    expect(await readRemaining(tenant)).toBe(9)
    const headers = { 'X-Api-Key': tenant.key }
    const leave = () => new Request('http://slipway.test/api/v1/sessions', { headers, signal: AbortSignal.abort() })
    for (const { status } of await runInParallel(5, async () => app.fetch(leave()))) expect(status).toBe(503)
    await finishPendingWork()
    expect(await readRemaining(tenant)).toBe(3)
  })

  it('has no minute that begins in the future, after a clock was set back', async () => {
    const app = startAppWithLimit(10)
    const tenant = await newTenant({ app })
    await tenant.get('/workspaces')
    await finishPendingWork()
    const ofTenant = sql`key_id in (select budget_id from api_keys where tenant_id = ${tenant.tenant_id})`
    await runAsSystem(
      app.database,
      sql`update rate_windows set started_at = now() + interval '1 hour' where ${ofTenant}`,
    )
    const elsewhere = startAppWithLimit(10)
    for (const remaining of [9, 8]) {
      const { headers } = await send('GET', '/workspaces', { app: elsewhere, headers: { 'X-Api-Key': tenant.key } })
      expect(headers.get('RateLimit')).toMatch(new RegExp(`^"key";r=${remaining};t=(60|59)$`))
      await finishPendingWork()
    }
  })

  it('for a listener is shared by its agents and by no other key', async () => {
    const tenant = await newTenant({ app: startAppWithLimit(10) })
    const listener = (await tenant.post('/v2/listeners', NewListener.meta()!.example)).body.id
    const keys = [1, 2].map(async () => (await tenant.post(`/v2/listeners/${listener}/keys`, {})).body.key as string)
    const [first, second] = (await Promise.all(keys)).map(key => tenant.as(key))
    // An agent has no permission for workspaces, so the request is refused and counts.
    for (const reply of await runInParallel(10, i => [first!, second!][i % 2]!.get('/workspaces')))
      expect(reply.status).toBe(403)
    // A refusal does not tell the instance the budget of a key that it has not seen before. The database does.
    await finishPendingWork()
    expect((await first!.get('/workspaces')).status).toBe(429)
    expect(await readRemaining(tenant)).toBe(6)
  })
})

describe('the budget at four instances', () => {
  const LIMIT = 20
  const startInstances = () => [1, 2, 3, 4].map(() => startAppWithLimit(LIMIT))
  const at = (tenant: Tenant, app: App) => send('GET', '/workspaces', { app, headers: { 'X-Api-Key': tenant.key } })

  it('is exceeded by what the other three have admitted since an instance asked the database', async () => {
    const instances = startInstances()
    const tenant = await newTenant({ app: instances[0]! })
    const statuses: number[] = []
    for (let i = 0; i < LIMIT + 12; i++) {
      statuses.push((await at(tenant, instances[i % 4]!)).status)
      await finishPendingWork()
    }
    const admitted = statuses.filter(status => status === 200).length
    expect(admitted).toBeGreaterThanOrEqual(LIMIT)
    expect(admitted).toBeLessThanOrEqual(LIMIT + 3)
    expect(statuses.slice(-4)).toEqual([429, 429, 429, 429])
  })

  it('is admitted once by each of them at most, and then by none', async () => {
    const instances = startInstances()
    const tenant = await newTenant({ app: instances[0]! })
    const replies = await runInParallel(4 * (LIMIT + 10), i => at(tenant, instances[i % 4]!))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(4 * LIMIT)
    await finishPendingWork()
    for (const instance of [...instances, startAppWithLimit(LIMIT)]) {
      // One that has not seen the key yet learns the count from its first request.
      await at(tenant, instance)
      await finishPendingWork()
      expect((await at(tenant, instance)).status).toBe(429)
    }
    clock.ahead = 61_000
    for (const instance of instances) expect((await at(tenant, instance)).status).toBe(200)
  })
})
