import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { EDITOR } from '../../src/access/built-in-roles.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { sweepProviders } from '../../src/oauth/provider-recheck.ts'
import { NewProvider } from '../../src/oauth/schema.ts'
import {
  clock,
  deleteOrganizations,
  foreignServers,
  getApp,
  getServices,
  logLines,
  newTenant,
  readEvents,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../support/app.ts'
import * as as from '../support/authorization-server.ts'
import { makeFakeFetch } from '../support/fake-fetch.ts'
import {
  AUTH_ORIGIN,
  CLIENT_SECRETS,
  DISCOVER_PATH,
  getProviderPath,
  MCP_ORIGIN,
  makeDiscoverBody,
  makeMcpServer,
  newSiblingWorkspace,
  PROVIDERS_PATH,
  readProvider,
} from '../support/providers.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const RECHECK_PATH = `${getProviderPath('found')}/recheck`
const secondsInDays = (days: number) => Math.floor((Date.now() + days * DAY) / 1000)

let world: ReturnType<typeof makeMcpServer>
beforeEach(() => {
  world = makeMcpServer()
  foreignServers.fetch = world
})
afterEach(() => {
  clock.ahead = 0
  foreignServers.fetch = makeFakeFetch({})
})

async function discoverProvider(over: Record<string, unknown> = {}) {
  const tenant = await newTenant()
  const { status, body } = await tenant.post(DISCOVER_PATH, makeDiscoverBody(over))
  expect(status).toBe(200)
  world.requests.length = 0
  return { tenant, provider: body }
}

const OTHER_ORIGIN = 'https://other.example.com'
const otherServer = { resource: { authorization_servers: [OTHER_ORIGIN] } }
const atOther = {
  '/.well-known/oauth-authorization-server': {
    issuer: OTHER_ORIGIN,
    authorization_endpoint: `${OTHER_ORIGIN}/authorize`,
    token_endpoint: `${OTHER_ORIGIN}/token`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
  },
}

describe('a check', () => {
  it('reports an unchanged server as healthy, and registers nothing', async () => {
    const { tenant, provider } = await discoverProvider()
    const { status, body, headers } = await tenant.post(RECHECK_PATH)
    expect(status).toBe(200)
    expect(body).toMatchObject({ ...provider, health: 'healthy', health_detail: null })
    expect(body.trace).toHaveLength(3)
    expect((await tenant.get(getProviderPath('found'))).headers.get('ETag')).toBe('"2"')
    expect(world.requests.map(({ method, url }) => `${method} ${url}`)).not.toContain(`POST ${AUTH_ORIGIN}/register`)
    expect(await readEvents(headers.get('X-Request-Id')!)).toMatchObject([{ type: 'oauth_provider.checked' }])
  })

  it('updates endpoints that the same issuer moved', async () => {
    const { tenant, provider } = await discoverProvider()
    world.responses.server = { token_endpoint: `${AUTH_ORIGIN}/v2/token` }
    clock.ahead = HOUR
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({
      health: 'healthy',
      token_url: `${AUTH_ORIGIN}/v2/token`,
      client_id: provider.client_id,
    })
    expect(body.updated_at > provider.updated_at).toBe(true)
    expect(await readProvider(tenant, 'found')).toMatchObject(CLIENT_SECRETS)
  })

  it('reports another authorization server, and sends it no client', async () => {
    const { tenant, provider } = await discoverProvider()
    world = makeMcpServer(otherServer, { [OTHER_ORIGIN]: atOther })
    foreignServers.fetch = world
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({
      ...provider,
      health: 'as_changed',
      health_detail: expect.stringContaining(OTHER_ORIGIN),
    })
    const told = world.requests.map(({ url, headers, body }) => [url, ...headers.values(), body].join(' ')).join('\n')
    expect(told).toContain(OTHER_ORIGIN)
    for (const secret of [...Object.values(CLIENT_SECRETS), provider.client_id]) expect(told).not.toContain(secret)
    foreignServers.fetch = makeMcpServer()
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
  })

  it('keeps people connected to the previous server, and refreshes only there', async () => {
    const grants: string[] = []
    /** The previous authorization server still issues tokens. */
    const also =
      (others: typeof world): typeof fetch =>
      async (input, init) => {
        if (String(input) !== `${AUTH_ORIGIN}/token`) return others(input, init)
        const body = await new Request(String(input), init).arrayBuffer()
        const form = new URLSearchParams(new TextDecoder().decode(body))
        grants.push(form.get('grant_type')!)
        return Response.json(as.makeTokens())
      }
    foreignServers.fetch = also(world)
    const { tenant } = await discoverProvider()
    await as.completeAuthentication(getApp(), tenant, { provider: 'found' }, { as: 'found' })
    world = makeMcpServer(otherServer, { [OTHER_ORIGIN]: atOther })
    foreignServers.fetch = also(world)
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('as_changed')
    world.requests.length = 0
    const ask = () => tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'ada' })
    const { token } = (await ask()).body
    clock.ahead = 2 * HOUR
    const { body } = await ask()
    expect(body).toEqual({ status: 'completed', token: expect.not.stringContaining(token) })
    expect(grants).toEqual(['authorization_code', 'refresh_token'])
    expect(world.requests).toEqual([])
  })

  it('does not report a skipped server as changed', async () => {
    world = makeMcpServer(
      { resource: { authorization_servers: [AUTH_ORIGIN, OTHER_ORIGIN] } },
      { [OTHER_ORIGIN]: atOther },
    )
    foreignServers.fetch = world
    const { tenant, provider } = await discoverProvider()
    world.responses.status = 404
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({ ...provider, health: 'degraded' })
  })

  it.each([
    [503, 'unreachable', 'upstream_error'],
    [404, 'degraded', 'metadata_invalid'],
  ])('reports a server that answers %i as %s', async (status, health, code) => {
    const { tenant, provider } = await discoverProvider()
    world.responses.status = status
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({ ...provider, health, health_detail: expect.stringContaining(code) })
  })

  it('reports a server without a connection as unreachable', async () => {
    const { tenant } = await discoverProvider()
    foreignServers.fetch = makeFakeFetch({})
    const { status, body } = await tenant.post(RECHECK_PATH)
    expect([status, body.health]).toEqual([200, 'unreachable'])
    expect(body.trace.at(-1).outcome).toBe('upstream_error')
  })

  it('reports a mismatch as degraded', async () => {
    const { tenant } = await discoverProvider()
    world.responses.server = { token_endpoint_auth_methods_supported: ['none'] }
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
    world.responses.server = { code_challenge_methods_supported: [] }
    const { body } = await tenant.post(RECHECK_PATH)
    expect([body.health, body.health_detail]).toEqual(['degraded', expect.stringContaining('pkce_unsupported')])
  })

  it('reports an expired client secret', async () => {
    world.responses.client = { client_secret_expires_at: secondsInDays(10) }
    const { tenant } = await discoverProvider()
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
    clock.ahead = 11 * DAY
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('client_expired')
    expect(world.clients.size).toBe(1)
  })

  it('checks that the endpoints of a provider made by hand respond', async () => {
    const tenant = await newTenant()
    const byHand = {
      ...NewProvider.meta()!.example!,
      provider_id: 'found',
      auth_url: `${AUTH_ORIGIN}/a`,
      token_url: `${AUTH_ORIGIN}/t`,
    }
    await tenant.post(PROVIDERS_PATH, byHand)
    for (const [answer, health] of [
      [() => new Response(null, { status: 302, headers: { Location: 'https://elsewhere.example.com/' } }), 'healthy'],
      [() => new Response(null, { status: 405 }), 'healthy'],
      [() => new Response(null, { status: 500 }), 'unreachable'],
    ] as const) {
      foreignServers.fetch = makeFakeFetch({ [AUTH_ORIGIN]: answer })
      expect((await tenant.post(RECHECK_PATH)).body.health).toBe(health)
    }
    foreignServers.fetch = makeFakeFetch({})
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('unreachable')
  })

  it('takes two round trips, and a replay sends no requests', async () => {
    const { tenant } = await discoverProvider()
    const counted = async () => {
      const id = `trip-recheck-${unusedId()}`
      const reply = await tenant.post(RECHECK_PATH, undefined, { 'X-Request-Id': id, 'Idempotency-Key': 'k' })
      return [await countTrips(id), reply.headers.get('Idempotency-Replayed'), world.requests.length]
    }
    expect([await counted(), await counted()]).toEqual([
      [2, null, 3],
      [1, 'true', 3],
    ])
  })

  it('is refused for another organization and without the permission to update', async () => {
    const { tenant } = await discoverProvider()
    expect((await (await newTenant()).post(RECHECK_PATH)).body.code).toBe('provider_not_found')
    const role_id = '00000000-0000-4000-8000-000000000003'
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'viewer', role_id })).body
    expect((await tenant.as(key).post(RECHECK_PATH)).body.code).toBe('permission_missing')
    expect(world.requests).toEqual([])
  })
})

describe('endpoints that their issuer moved', () => {
  beforeEach(deleteOrganizations)
  /** What the authorization server was asked at its token and revocation endpoints, wherever those are. */
  const grants: { url: string; form: URLSearchParams }[] = []
  const AWAY = 'https://away.example.com'
  const answering = (): typeof fetch => async (input, init) => {
    const request = new Request(input, init)
    const { origin, pathname } = new URL(request.url)
    if (![AUTH_ORIGIN, AWAY].includes(origin) || !/(token|revoke)$/.test(pathname)) return world(input, init)
    const form = new URLSearchParams(new TextDecoder().decode(await request.arrayBuffer()))
    // A client may prove itself by the header instead.
    form.set('authorization', atob(request.headers.get('Authorization')?.slice('Basic '.length) ?? ''))
    grants.push({ url: request.url, form })
    return pathname.endsWith('token') ? Response.json(as.makeTokens()) : new Response(null)
  }
  const connected = async (over: Record<string, unknown> = {}) => {
    foreignServers.fetch = answering()
    const { tenant } = await discoverProvider(over)
    await as.completeAuthentication(getApp(), tenant, { provider: 'found' }, { as: 'found' })
    grants.length = 0
    return tenant
  }
  const ask = async (tenant: Tenant) =>
    (await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'ada' })).body
  const movedTo = (origin: string) => ({
    token_endpoint: `${origin}/v2/token`,
    authorization_endpoint: `${origin}/v2/authorize`,
    revocation_endpoint: `${origin}/v2/revoke`,
  })
  const toldAway = () =>
    [...grants.filter(({ url }) => url.startsWith(AWAY)).map(({ form }) => form.toString())].join('\n') +
    world.requests.map(({ url, headers, body }) => [url, ...headers.values(), body].join(' ')).join('\n')

  it('within their origin keep people connected, and the client its secret', async () => {
    const tenant = await connected()
    const begun = await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'bob' })
    world.responses.server = movedTo(AUTH_ORIGIN)
    expect((await tenant.post(RECHECK_PATH)).body).toMatchObject({ health: 'healthy', health_detail: null })
    clock.ahead = 2 * HOUR
    expect((await ask(tenant)).status).toBe('completed')
    expect(grants.map(({ url }) => url)).toEqual([`${AUTH_ORIGIN}/v2/token`])
    clock.ahead = 0
    expect((await as.visitCallback(getApp(), begun.body, {}, { as: 'found' })).status).toBe(200)
  })

  it.each(['token_endpoint', 'authorization_endpoint', 'revocation_endpoint'] as const)(
    'to another origin end what was granted before: %s',
    async member => {
      const tenant = await connected()
      const begun = await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'bob' })
      world.responses.server = { [member]: movedTo(AWAY)[member] }
      const { body } = await tenant.post(RECHECK_PATH)
      expect(body.health_detail).toContain('another origin')
      expect(body.health).toBe(member === 'token_endpoint' ? 'degraded' : 'healthy')
      expect((await ask(tenant)).status).toBe('connection_required')
      expect((await as.visitCallback(getApp(), begun.body, {}, { as: 'found' })).status).toBe(400)
      await tenant.delete('/v2/auth/tokens?provider=found&user_id=ada')
      expect((await tenant.delete(getProviderPath('found'))).status).toBe(204)
      expect(toldAway()).not.toMatch(/(access|refresh)-secret|the-code-secret|upstream-secret/)
    },
  )

  it('to another origin do not get the secret of a dynamic client: the schedule registers another', async () => {
    // The secret is about to run out, so that renewing it would be due as well.
    world.responses.client = { client_secret_expires_at: secondsInDays(5) }
    const tenant = await connected()
    const before = (await tenant.get(getProviderPath('found'))).body
    world.responses.server = movedTo(AWAY)
    world.responses.client = { client_secret_expires_at: secondsInDays(90), client_secret: 'fresh-secret-6610' }
    const checked = (await tenant.post(RECHECK_PATH)).body
    expect(checked).toMatchObject({ health: 'degraded', client_id: before.client_id, token_url: `${AWAY}/v2/token` })
    const refused = await ask(tenant)
    expect((await as.visitCallback(getApp(), refused, {}, { as: 'found' })).status).toBe(400)
    world.requests.length = 0
    await withClockAhead(25 * HOUR, () => sweepProviders(getServices()))
    const after = (await tenant.get(getProviderPath('found'))).body
    expect(after).toMatchObject({ health: 'healthy', token_url: `${AWAY}/v2/token` })
    expect(after.client_id).not.toBe(before.client_id)
    expect(world.requests.filter(({ method }) => method === 'PUT')).toEqual([])
    const again = await ask(tenant)
    expect((await as.visitCallback(getApp(), again, {}, { as: 'found' })).status).toBe(200)
    expect(grants.map(({ url }) => url)).toEqual([`${AWAY}/v2/token`])
    expect(toldAway()).toContain('fresh-secret-6610')
    expect(toldAway()).not.toContain(CLIENT_SECRETS.client_secret)
  })

  it('and a renewal in the same check: another client is registered', async () => {
    world.responses.client = { client_secret_expires_at: secondsInDays(5) }
    const tenant = await connected()
    const before = (await tenant.get(getProviderPath('found'))).body
    world.responses.server = movedTo(AWAY)
    await withClockAhead(25 * HOUR, () => sweepProviders(getServices()))
    const after = (await tenant.get(getProviderPath('found'))).body
    expect(after.health_detail).toContain('another origin')
    expect(after.client_id).not.toBe(before.client_id)
    expect(world.requests.filter(({ method }) => method === 'PUT')).toEqual([])
    expect((await ask(tenant)).status).toBe('connection_required')
  })

  it('to another origin need the secret of a given client again', async () => {
    const tenant = await connected({ client_id: 'mine', client_secret: 'given-secret-4415' })
    world.responses.server = movedTo(AWAY)
    const { body } = await tenant.post(RECHECK_PATH)
    expect([body.health, body.health_detail]).toEqual(['degraded', expect.stringContaining('`client_secret`')])
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
    expect((await as.visitCallback(getApp(), await ask(tenant), {}, { as: 'found' })).status).toBe(400)
    expect(toldAway()).not.toContain('given-secret-4415')
    expect((await tenant.patch(getProviderPath('found'), { client_secret: 'given-again-8127' })).status).toBe(200)
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
    expect((await as.visitCallback(getApp(), await ask(tenant), {}, { as: 'found' })).status).toBe(200)
    expect(toldAway()).not.toContain('given-secret-4415')
  })

  it('are updated by a check from any workspace of the organization', async () => {
    const tenant = await connected()
    const beside = await newSiblingWorkspace(tenant, EDITOR)
    expect((await beside.post(RECHECK_PATH)).body.health).toBe('healthy')
    expect((await ask(tenant)).status).toBe('completed')
  })
})

describe('the scheduled check', () => {
  beforeEach(deleteOrganizations)
  const sweep = (ahead: number, times = 1) =>
    withClockAhead(ahead, () => Promise.all(Array.from({ length: times }, () => sweepProviders(getServices()))))
  const healthOf = async (tenant: Tenant, provider_id = 'found') =>
    (await tenant.get(getProviderPath(provider_id))).body.health

  it('runs once a day, with its own actor in the journal', async () => {
    const { tenant } = await discoverProvider()
    world.responses.status = 503
    await sweep(23 * HOUR)
    expect(await healthOf(tenant)).toBe('healthy')
    await sweep(25 * HOUR)
    expect(await healthOf(tenant)).toBe('unreachable')
    const query = sql`select actor_kind, tenant_id, data from events
      where organization_id = ${tenant.organization_id}::uuid and type = 'oauth_provider.checked'`
    const [rows] = await runAsSystem(getApp().database, query)
    expect(rows).toEqual([['cron', null, expect.stringContaining('unreachable')]])
  })

  it('takes the oldest first, in batches, and no provider twice', async () => {
    const tenant = await newTenant()
    const names = Array.from({ length: 10 }, (_, i) => `p${i}`)
    for (const [i, provider_id] of names.entries()) {
      clock.ahead = i * 1000
      await tenant.post(DISCOVER_PATH, makeDiscoverBody({ provider_id, client_id: 'x' }))
    }
    clock.ahead = 0
    world.responses.status = 503
    world.requests.length = 0
    await sweep(25 * HOUR, 2)
    const probes = world.requests.filter(({ url }) => url === `${MCP_ORIGIN}/mcp`)
    expect(probes).toHaveLength(10)
    await sweep(25 * HOUR)
    expect(world.requests.filter(({ url }) => url === `${MCP_ORIGIN}/mcp`)).toHaveLength(10)
    const ten = await Promise.all(names.map(name => healthOf(tenant, name)))
    expect(new Set(ten)).toEqual(new Set(['unreachable']))
  })

  it('renews the secret of a client before it expires', async () => {
    world.responses.client = { client_secret_expires_at: secondsInDays(30) }
    const { tenant, provider } = await discoverProvider()
    const renewed = secondsInDays(60)
    world.responses.client = { client_secret_expires_at: renewed, client_secret: 'renewed-secret-2204' }
    await sweep(22 * DAY)
    expect((await readProvider(tenant, 'found')).client_secret).toBe(CLIENT_SECRETS.client_secret)
    await sweep(24 * DAY)
    const { body } = await tenant.get(getProviderPath('found'))
    expect(body).toMatchObject({ client_id: provider.client_id, health: 'healthy' })
    expect(Date.parse(body.client_secret_expires_at)).toBe(renewed * 1000)
    expect((await readProvider(tenant, 'found')).client_secret).toBe('renewed-secret-2204')
    expect(JSON.stringify(logLines)).not.toContain('renewed-secret-2204')
  })

  it('replaces a client that cannot be renewed, as late as possible', async () => {
    world.responses.client = { client_secret_expires_at: secondsInDays(30), registration_client_uri: undefined }
    const { tenant, provider } = await discoverProvider()
    world.responses.client = { client_secret_expires_at: secondsInDays(90), client_secret: 'replaced-secret-7719' }
    await sweep(25 * DAY)
    expect((await tenant.get(getProviderPath('found'))).body.client_id).toBe(provider.client_id)
    await sweep(29.5 * DAY)
    const { body } = await tenant.get(getProviderPath('found'))
    expect(body.client_id).not.toBe(provider.client_id)
    expect(world.clients.get(body.client_id)).toMatchObject({ redirect_uris: [body.redirect_uri] })
    expect((await readProvider(tenant, 'found')).client_secret).toBe('replaced-secret-7719')
  })

  it('renews no client at another authorization server', async () => {
    world.responses.client = { client_secret_expires_at: secondsInDays(2) }
    const { tenant } = await discoverProvider()
    world = makeMcpServer(otherServer, { [OTHER_ORIGIN]: atOther })
    foreignServers.fetch = world
    await sweep(25 * HOUR)
    expect(await healthOf(tenant)).toBe('as_changed')
    expect(world.requests.filter(({ method }) => method !== 'GET').map(({ url }) => url)).toEqual([`${MCP_ORIGIN}/mcp`])
  })

  it('runs with the housekeeping, which deletes expired reservations', async () => {
    const { organization_id } = await newTenant()
    const { database } = getApp()
    const reserved = sql`insert into oauth_reservations (organization_id, provider_id, expires_at)
      values
        (${organization_id}::uuid, 'old', now() - interval '1 second'),
        (${organization_id}::uuid, 'new', now() + interval '1 hour')`
    await runAsSystem(database, reserved)
    await getApp().housekeep()
    const [rows] = await runAsSystem(
      database,
      sql`select provider_id from oauth_reservations where organization_id = ${organization_id}::uuid`,
    )
    expect(rows).toEqual([['new']])
  })
})

describe('deleting a discovered provider', () => {
  it('unregisters the client at its server', async () => {
    const { tenant } = await discoverProvider()
    expect(world.clients.size).toBe(1)
    const id = `trip-delete-${unusedId()}`
    expect((await tenant.delete(getProviderPath('found'), undefined, { 'X-Request-Id': id })).status).toBe(204)
    expect([world.clients.size, await countTrips(id)]).toEqual([0, 1])
  })

  it('succeeds even if the server fails', async () => {
    const { tenant } = await discoverProvider()
    foreignServers.fetch = makeFakeFetch({})
    expect((await tenant.delete(getProviderPath('found'))).status).toBe(204)
    expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([])
  })

  it('sends no requests if it is refused', async () => {
    const { tenant } = await discoverProvider()
    expect((await tenant.delete(getProviderPath('found'), undefined, { 'If-Match': '"9"' })).status).toBe(412)
    expect((await (await newTenant()).delete(getProviderPath('found'))).status).toBe(404)
    expect([world.clients.size, world.requests.length]).toEqual([1, 0])
  })
})

it('an installation with an https URL uses its client metadata document', async () => {
  const app = startApp({ settings: { PUBLIC_URL: 'https://slipway.example.com' } })
  const tenant = await newTenant({ app })
  world.responses.server = { client_id_metadata_document_supported: true }
  const made = await tenant.post(DISCOVER_PATH, makeDiscoverBody())
  const document = `https://slipway.example.com/.well-known/oauth-client.json/${made.body.id}`
  expect(made.body).toMatchObject({ client_id: document, token_endpoint_auth_method: 'none', is_dynamic_client: false })
  const { body } = await tenant.get(getProviderPath('found'))
  const published = await (await app.fetch(new Request(document))).json()
  expect(published).toMatchObject({ client_id: document, redirect_uris: [body.redirect_uri] })
  world.responses.server = {}
  expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
})
