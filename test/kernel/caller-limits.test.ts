import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { createExpiringMap } from '../../src/kernel/limits/expiring-map.ts'
import { toNetworkPrefix } from '../../src/kernel/limits/network-prefix.ts'
import {
  type App,
  clock,
  getApp,
  newTenant,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../support/app.ts'
import { newIntegration } from '../support/integrations.ts'
import { signBody } from '../support/pushes.ts'

afterEach(() => {
  clock.ahead = 0
})

/** A new instance with empty limits. Tests set the address of a request in a header. */
const startInstance = (settings: Record<string, unknown> = {}) =>
  startApp({ settings, overrides: { clientAddress: c => c.req.header('X-Test-Address') } })
const DAY = 24 * 60 * 60_000
const from = (address: string) => ({ 'X-Test-Address': address })
let addresses = 0
const newAddress = () => `192.0.2.${++addresses}`
/** Instances share the failures of an address, so each test has one of its own. */
let here: string
beforeEach(() => {
  here = newAddress()
})

const guess = (app: App) => send('GET', '/workspaces', { headers: { ...from(here), 'X-Api-Key': newApiKey() }, app })

async function runInParallel<T>(times: number, act: (i: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: times }, (_, i) => act(i)))
}
const count = (replies: { status: number }[], status: number) => replies.filter(one => one.status === status).length

describe('unknown keys', () => {
  it('cause no more database round trips than the limit of their address, in parallel or one by one', async () => {
    const app = startInstance()
    const requestId = `trip-${unusedId()}`
    const headers = { 'X-Request-Id': requestId, ...from(here) }
    const guess = () => send('GET', '/workspaces', { headers: { ...headers, 'X-Api-Key': newApiKey() }, app })
    const parallel = await runInParallel(500, guess)
    expect([count(parallel, 401), count(parallel, 429)]).toEqual([60, 440])
    for (let i = 0; i < 500; i++) {
      const refused = await guess()
      expect([refused.status, refused.body.code]).toEqual([429, 'address_rate_limited'])
      expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(30)
      expect(refused.headers.get('RateLimit')).toBeNull()
    }
    expect(await countTrips(requestId)).toBe(60)
    clock.ahead = 61_000
    expect((await guess()).status).toBe(401)
  })

  it('do not lock out other addresses, or accepted keys of the same address', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const [acceptedBefore, acceptedLate] = [await newTenant({ app }), await newTenant({ app })]
    const own = from(here)
    expect((await acceptedBefore.get('/workspaces', own)).status).toBe(200)
    await runInParallel(10, () => send('GET', '/workspaces', { headers: { ...own, 'X-Api-Key': newApiKey() }, app }))
    expect((await acceptedBefore.get('/workspaces', own)).status).toBe(200)
    expect((await acceptedLate.get('/workspaces', own)).body.code).toBe('address_rate_limited')
    expect((await acceptedLate.get('/workspaces', from(newAddress()))).status).toBe(200)
    expect((await acceptedLate.get('/workspaces', own)).status).toBe(200)
  })

  it('are counted per /64 network of an IPv6 address', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const guess = (address: string) =>
      send('GET', '/workspaces', { headers: { ...from(address), 'X-Api-Key': newApiKey() }, app })
    const replies = await runInParallel(20, i => guess(`2001:db8::${i + 1}`))
    expect([count(replies, 401), count(replies, 429)]).toEqual([5, 15])
    expect((await guess('2001:db8:0:1::1')).status).toBe(401)
  })

  it('are not limited when the setting is 0', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '0' })
    const headers = () => ({ ...from(here), 'X-Api-Key': newApiKey() })
    const replies = await runInParallel(100, () => send('GET', '/workspaces', { headers: headers(), app }))
    expect(count(replies, 401)).toBe(100)
  })
})

describe('several instances', () => {
  const LIMIT = 12
  const startInstances = () => [1, 2, 3].map(() => startInstance({ UNKNOWN_KEYS_PER_MINUTE: String(LIMIT) }))

  it.each<[string, (app: App) => Promise<{ status: number; body: { code?: string } }>, number]>([
    ['unknown keys', app => guess(app), 401],
    [
      'unknown keys with an invalid body',
      app => send('POST', '/v2/tag-keys', { body: {}, headers: { ...from(here), 'X-Api-Key': newApiKey() }, app }),
      422,
    ],
    [
      'unknown OAuth states',
      app => send('GET', `/v2/auth/callback/acme?state=${'x'.repeat(43)}`, { headers: from(here), app }),
      400,
    ],
    [
      'device requests',
      app => {
        const headers = { ...from(here), 'Content-Type': 'application/x-www-form-urlencoded' }
        return send('POST', '/device/code', { raw: 'client_id=slipway-cli', headers, app })
      },
      200,
    ],
  ])('count %s of an address together', async (_, act, admitted) => {
    const instances = startInstances()
    const statuses: number[] = []
    for (let i = 0; i < LIMIT + 9; i++) {
      const reply = await act(instances[i % 3]!)
      statuses.push(reply.status)
      await finishPendingWork()
    }
    // An instance that counted its last failure before the limit was reached learns of it by one more.
    expect(statuses.lastIndexOf(admitted)).toBeLessThan(LIMIT + 2)
    expect(
      count(
        statuses.map(status => ({ status })),
        429,
      ),
    ).toBeGreaterThanOrEqual(7)
    expect(statuses.indexOf(429)).toBeGreaterThanOrEqual(LIMIT)
    clock.ahead = 61_000
    expect((await act(instances[0]!)).status).toBe(admitted)
  })

  it('admit accepted keys of an address over its limit, and other addresses', async () => {
    const instances = startInstances()
    const tenant = await newTenant({ app: instances[1]! })
    expect((await tenant.get('/workspaces', from(here))).status).toBe(200)
    await runInParallel(LIMIT, () => guess(instances[0]!))
    await finishPendingWork()
    await guess(instances[1]!)
    await finishPendingWork()
    expect((await guess(instances[1]!)).body.code).toBe('address_rate_limited')
    expect((await tenant.get('/workspaces', from(here))).status).toBe(200)
    here = newAddress()
    expect((await guess(instances[1]!)).status).toBe(401)
  })

  it('refuse by what they know while failures cannot be counted, and store no address', async () => {
    const unavailable = { DATABASE_URL: 'postgresql://nobody:none@127.0.0.1:1/none' }
    const [cut, other] = [startInstance({ UNKNOWN_KEYS_PER_MINUTE: '3', ...unavailable }), startInstance()]
    for (const app of [cut, cut, cut, other]) await send('GET', '/workspaces', { headers: from(here), app })
    await finishPendingWork()
    expect([(await guess(cut)).status, (await guess(other)).status]).toEqual([429, 401])
    const [windows] = await runAsSystem(getApp().database, sql`select w::text from rate_windows w`)
    expect(windows).not.toHaveLength(0)
    expect(String(windows)).not.toContain(here)
  })
})

describe('an accepted key', () => {
  it.each<[string, (tenant: Tenant) => Promise<{ status: number }>, number]>([
    ['succeeds', tenant => tenant.get('/workspaces', from(here)), 200],
    ['is not found', tenant => tenant.delete(`/v2/listeners/${unusedId()}`, undefined, from(here)), 404],
    ['is invalid', tenant => tenant.post('/v2/tag-keys', {}, from(here)), 422],
  ])('does not count against its address when its request %s', async (_, act, status) => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '3' })
    for (let i = 0; i < 6; i++) {
      expect((await act(await newTenant({ app }))).status).toBe(status)
      await finishPendingWork()
    }
  })
})

describe('a failed request of an address', () => {
  const createRevokedKey = async (tenant: Tenant) => {
    const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'revoked' })
    await tenant.delete(`/workspaces/current/api-keys/${body.id}`)
    return body.key as string
  }
  it.each<[string, (tenant: Tenant) => Promise<Record<string, string>>]>([
    ['no key', async () => ({})],
    ['a malformed key', async () => ({ 'X-Api-Key': 'slw_typo' })],
    ['a revoked key', async tenant => ({ 'X-Api-Key': await createRevokedKey(tenant) })],
  ])('is a request with %s', async (_, makeKeyHeaders) => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const tenant = await newTenant({ app })
    const headers = { ...from(here), ...(await makeKeyHeaders(tenant)) }
    for (let i = 0; i < 5; i++) expect((await send('GET', '/workspaces', { headers, app })).status).toBe(401)
    const unknown = { ...from(here), 'X-Api-Key': newApiKey() }
    expect((await send('GET', '/workspaces', { headers: unknown, app })).status).toBe(429)
  })

  it('is a request with an unknown key and an invalid body, counted after the response', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const post = () =>
      send('POST', '/v2/tag-keys', { body: {}, headers: { ...from(here), 'X-Api-Key': newApiKey() }, app })
    const replies = await runInParallel(50, post)
    expect([count(replies, 422), count(replies, 429)]).toEqual([5, 45])
    await finishPendingWork()
    expect((await post()).status).toBe(429)
  })
})

describe('a large body', () => {
  const large = { key: 'x'.repeat(200_000) }
  const streamLarge = () => new Blob([JSON.stringify(large)]).stream()

  it.each([
    ['declared', () => ({ raw: JSON.stringify(large) })],
    ['streamed', () => ({ raw: streamLarge() })],
  ])('with an unknown key is refused before it is validated, if it is %s', async (_, body) => {
    const headers = { 'X-Api-Key': newApiKey(), 'Content-Type': 'application/json' }
    const { status, body: problem } = await send('POST', '/v2/tag-keys', { ...body(), headers, app: startInstance() })
    expect([status, problem.code]).toEqual([401, 'key_unknown'])
  })

  it('costs one more round trip when an instance sees the key for the first time', async () => {
    const app = startInstance({ RATE_LIMIT_PER_MINUTE: '10' })
    const tenant = await newTenant({ app })
    for (const [trips, remaining] of [
      [2, 9],
      [1, 8],
    ]) {
      const requestId = `trip-${unusedId()}`
      const listener = { compute_type: 'local', compute_id: unusedId(), compute_config: { k8s_namespaces: [] } }
      const spaces = ' '.repeat(100_000)
      const reply = await send('POST', '/v2/listeners', {
        raw: JSON.stringify(listener) + spaces,
        headers: { 'X-Api-Key': tenant.key, 'X-Request-Id': requestId, 'Content-Type': 'application/json' },
        app,
      })
      expect(reply.status).toBe(201)
      expect(reply.headers.get('RateLimit')).toBe(`"key";r=${remaining};t=60`)
      expect(await countTrips(requestId)).toBe(trips)
    }
  })

  it('is not read if the key lacks the permission', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.post('/workspaces/current/api-keys', {
      description: 'r',
      permissions: ['workspaces:read'],
    })
    const headers = { 'X-Api-Key': body.key, 'Content-Type': 'application/json' }
    const reply = await send('POST', '/v2/tag-keys', { raw: JSON.stringify(large), headers, app: startInstance() })
    expect([reply.status, reply.body.code]).toEqual([403, 'permission_missing'])
  })

  it('that is declared too large is refused before any other check', async () => {
    const headers = { 'X-Api-Key': newApiKey(), 'Content-Type': 'application/json', 'Content-Length': '1048577' }
    const reply = await send('POST', '/v2/tag-keys', { raw: streamLarge(), headers, app: startInstance() })
    expect(reply.status).toBe(413)
  })
})

describe('a route without a key', () => {
  it('limits the lookups of unknown OAuth states per address', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const requestId = `trip-${unusedId()}`
    const makeState = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')
    const headers = { ...from(here), 'X-Request-Id': requestId }
    const replies = await runInParallel(50, () =>
      send('GET', `/v2/auth/callback/acme?state=${makeState()}`, { headers, app }),
    )
    expect([count(replies, 400), count(replies, 429)]).toEqual([5, 45])
    expect(await countTrips(requestId)).toBe(5)
  })

  it('limits the lookups of unsigned deliveries, except for an integration with a valid delivery before', async () => {
    const app = startInstance({ UNKNOWN_KEYS_PER_MINUTE: '5' })
    const tenant = await newTenant({ app })
    const integrationId = await newIntegration(tenant)
    const deliver = (id: string, signature = '0'.repeat(64)) =>
      send('POST', `/v1/integrations/forge/githost/${id}/webhook`, {
        raw: '{}',
        headers: {
          ...from(here),
          'Content-Type': 'application/json',
          'X-GitHub-Event': 'ping',
          'X-GitHub-Delivery': unusedId(),
          'X-Hub-Signature-256': `sha256=${signature}`,
        },
        app,
      })
    const signature = await signBody('{}')
    expect((await deliver(integrationId, signature)).status).toBe(202)
    const unknownIntegration = await runInParallel(50, () => deliver(unusedId()))
    expect([count(unknownIntegration, 401), count(unknownIntegration, 429)]).toEqual([5, 45])
    expect((await deliver(integrationId, signature)).status).toBe(202)
    // A git host delivers for all integrations from the same few addresses, and not every day for each of them.
    await withClockAhead(6 * DAY, async () => {
      await runInParallel(50, () => deliver(unusedId()))
      expect((await deliver(integrationId, signature)).status).toBe(202)
    })
    // A caller that knows the id of an integration but not its secret is limited too.
    const unsigned = await runInParallel(50, () => deliver(integrationId))
    expect([count(unsigned, 401), count(unsigned, 429)]).toEqual([5, 45])
    // Requests with a key have a limit of their own.
    expect((await tenant.get('/workspaces', from(here))).status).toBe(200)
  })
})

describe('the expiring map of an instance', () => {
  it('is bounded and evicts the oldest entry first', () => {
    let now = 0
    const entries = createExpiringMap<number>(3, () => now)
    for (let i = 0; i < 10; i++) entries.set(String(i), i, 60_000)
    now = 1000
    entries.set('7', 70, 60_000)
    entries.set('10', 10, 60_000)
    expect([entries.size(), entries.get('7'), entries.get('8'), entries.get('9')]).toEqual([3, 70, undefined, 9])
    // One that is set again within a second keeps its place.
    entries.set('7', 71, 60_000)
    expect(entries.get('7')).toBe(71)
    for (const key of ['11', '12']) entries.set(key, 0, 60_000)
    expect(['7', '10', '11', '12'].map(key => entries.get(key))).toEqual([undefined, 10, 0, 0])
  })

  it('drops an entry after its lifetime', () => {
    let now = 0
    const entries = createExpiringMap<number>(3, () => now)
    entries.set('a', 1, 1500)
    expect(entries.secondsLeft('a')).toBe(2)
    now = 1500
    expect([entries.get('a'), entries.secondsLeft('a'), entries.size()]).toEqual([undefined, 0, 0])
  })
})

describe('toNetworkPrefix()', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:0db8:0:1:2:3:4:5', '2001:db8:0:1::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::', 'fe80:0:0:0::/64'],
  ])('maps the address %s to %s', (address, network) => expect(toNetworkPrefix(address)).toBe(network))
})
