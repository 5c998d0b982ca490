import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { NewProvider } from '../../../src/connect/oauth/schema.ts'
import { sweepProviders } from '../../../src/connect/oauth/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { EDITOR } from '../../../src/people/access/built-in-roles.ts'
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
} from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
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
} from '../../support/providers.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const RECHECK_PATH = `${getProviderPath('found')}/recheck`
const secondsInDays = (days: number) => Math.floor((Date.now() + days * DAY) / 1000)

let mcpServer: ReturnType<typeof makeMcpServer>
beforeEach(() => {
  mcpServer = makeMcpServer()
  foreignServers.fetch = mcpServer
})
afterEach(() => {
  clock.ahead = 0
  foreignServers.fetch = makeFakeFetch({})
})

async function discoverProvider(over: Record<string, unknown> = {}) {
  const tenant = await newTenant()
  const { status, body } = await tenant.post(DISCOVER_PATH, makeDiscoverBody(over))
  expect(status).toBe(200)
  mcpServer.requests.length = 0
  return { tenant, provider: body }
}

const OTHER_ORIGIN = 'https://other.example.com'
const otherServer = { resource: { authorization_servers: [OTHER_ORIGIN] } }
const otherSite = {
  '/.well-known/oauth-authorization-server': {
    issuer: OTHER_ORIGIN,
    authorization_endpoint: `${OTHER_ORIGIN}/authorize`,
    token_endpoint: `${OTHER_ORIGIN}/token`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
  },
}

describe('a recheck', () => {
  it('reports an unchanged server as healthy, and registers nothing', async () => {
    const { tenant, provider } = await discoverProvider()
    const { status, body, headers } = await tenant.post(RECHECK_PATH)
    expect(status).toBe(200)
    expect(body).toMatchObject({ ...provider, health: 'healthy', health_detail: null })
    expect(body.trace).toHaveLength(3)
    expect((await tenant.get(getProviderPath('found'))).headers.get('ETag')).toBe('"2"')
    expect(mcpServer.requests.map(({ method, url }) => `${method} ${url}`)).not.toContain(
      `POST ${AUTH_ORIGIN}/register`,
    )
    expect(await readEvents(headers.get('X-Request-Id')!)).toMatchObject([{ type: 'oauth_provider.checked' }])
  })

  it('updates endpoints that have moved within the same issuer', async () => {
    const { tenant, provider } = await discoverProvider()
    mcpServer.responses.server = { token_endpoint: `${AUTH_ORIGIN}/v2/token` }
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

  it('reports a change of the authorization server, and sends no client data to the new one', async () => {
    const { tenant, provider } = await discoverProvider()
    mcpServer = makeMcpServer(otherServer, { [OTHER_ORIGIN]: otherSite })
    foreignServers.fetch = mcpServer
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({
      ...provider,
      health: 'as_changed',
      health_detail: expect.stringContaining(OTHER_ORIGIN),
    })
    const requests = mcpServer.requests
      .map(({ url, headers, body }) => [url, ...headers.values(), body].join(' '))
      .join('\n')
    expect(requests).toContain(OTHER_ORIGIN)
    for (const secret of [...Object.values(CLIENT_SECRETS), provider.client_id]) expect(requests).not.toContain(secret)
    foreignServers.fetch = makeMcpServer()
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
  })

  it('keeps people connected after a change of the server, and refreshes at the previous one', async () => {
    const grants: string[] = []
    /** Adds the token endpoint of the previous authorization server. */
    const withPreviousServer =
      (servers: typeof mcpServer): typeof fetch =>
      async (input, init) => {
        if (String(input) !== `${AUTH_ORIGIN}/token`) return servers(input, init)
        const body = await new Request(String(input), init).arrayBuffer()
        const form = new URLSearchParams(new TextDecoder().decode(body))
        grants.push(form.get('grant_type')!)
        return Response.json(as.makeTokens())
      }
    foreignServers.fetch = withPreviousServer(mcpServer)
    const { tenant } = await discoverProvider()
    await as.completeAuthentication(getApp(), tenant, { provider: 'found' }, { as: 'found' })
    mcpServer = makeMcpServer(otherServer, { [OTHER_ORIGIN]: otherSite })
    foreignServers.fetch = withPreviousServer(mcpServer)
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('as_changed')
    mcpServer.requests.length = 0
    const authenticate = () => tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'ada' })
    const { token } = (await authenticate()).body
    clock.ahead = 2 * HOUR
    const { body } = await authenticate()
    expect(body).toEqual({ status: 'completed', token: expect.not.stringContaining(token) })
    expect(grants).toEqual(['authorization_code', 'refresh_token'])
    expect(mcpServer.requests).toEqual([])
  })

  it('reports degraded, not as_changed, if the first of several listed servers fails', async () => {
    mcpServer = makeMcpServer(
      { resource: { authorization_servers: [AUTH_ORIGIN, OTHER_ORIGIN] } },
      { [OTHER_ORIGIN]: otherSite },
    )
    foreignServers.fetch = mcpServer
    const { tenant, provider } = await discoverProvider()
    mcpServer.responses.status = 404
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({ ...provider, health: 'degraded' })
  })

  it.each([
    [503, 'unreachable', 'upstream_error'],
    [404, 'degraded', 'metadata_invalid'],
  ])('reports a server with status %i as %s', async (status, health, code) => {
    const { tenant, provider } = await discoverProvider()
    mcpServer.responses.status = status
    const { body } = await tenant.post(RECHECK_PATH)
    expect(body).toMatchObject({ ...provider, health, health_detail: expect.stringContaining(code) })
  })

  it('reports a server that refuses connections as unreachable', async () => {
    const { tenant } = await discoverProvider()
    foreignServers.fetch = makeFakeFetch({})
    const { status, body } = await tenant.post(RECHECK_PATH)
    expect([status, body.health]).toEqual([200, 'unreachable'])
    expect(body.trace.at(-1).outcome).toBe('upstream_error')
  })

  it('reports a server that no longer supports the client or S256 as degraded', async () => {
    const { tenant } = await discoverProvider()
    mcpServer.responses.server = { token_endpoint_auth_methods_supported: ['none'] }
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
    mcpServer.responses.server = { code_challenge_methods_supported: [] }
    const { body } = await tenant.post(RECHECK_PATH)
    expect([body.health, body.health_detail]).toEqual(['degraded', expect.stringContaining('pkce_unsupported')])
  })

  it('reports an expired client secret', async () => {
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(10) }
    const { tenant } = await discoverProvider()
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
    clock.ahead = 11 * DAY
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('client_expired')
    expect(mcpServer.clients.size).toBe(1)
  })

  it('checks that the endpoints of a manually created provider respond', async () => {
    const tenant = await newTenant()
    const manualProvider = {
      ...NewProvider.meta()!.example!,
      provider_id: 'found',
      auth_url: `${AUTH_ORIGIN}/a`,
      token_url: `${AUTH_ORIGIN}/t`,
    }
    await tenant.post(PROVIDERS_PATH, manualProvider)
    for (const [respond, health] of [
      [() => new Response(null, { status: 302, headers: { Location: 'https://elsewhere.example.com/' } }), 'healthy'],
      [() => new Response(null, { status: 405 }), 'healthy'],
      [() => new Response(null, { status: 500 }), 'unreachable'],
    ] as const) {
      foreignServers.fetch = makeFakeFetch({ [AUTH_ORIGIN]: respond })
      expect((await tenant.post(RECHECK_PATH)).body.health).toBe(health)
    }
    foreignServers.fetch = makeFakeFetch({})
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('unreachable')
  })

  it('takes two round trips, and a replay sends no requests', async () => {
    const { tenant } = await discoverProvider()
    const recheckAndCount = async () => {
      const id = `trip-recheck-${unusedId()}`
      const reply = await tenant.post(RECHECK_PATH, undefined, { 'X-Request-Id': id, 'Idempotency-Key': 'k' })
      return [await countTrips(id), reply.headers.get('Idempotency-Replayed'), mcpServer.requests.length]
    }
    expect([await recheckAndCount(), await recheckAndCount()]).toEqual([
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
    expect(mcpServer.requests).toEqual([])
  })
})

describe('endpoints that have moved', () => {
  beforeEach(deleteOrganizations)
  /** The requests to the token and revocation endpoints, at both origins. */
  const grants: { url: string; form: URLSearchParams }[] = []
  const NEW_ORIGIN = 'https://moved.example.com'
  const makeGrantServer = (): typeof fetch => async (input, init) => {
    const request = new Request(input, init)
    const { origin, pathname } = new URL(request.url)
    if (![AUTH_ORIGIN, NEW_ORIGIN].includes(origin) || !/(token|revoke)$/.test(pathname)) return mcpServer(input, init)
    const form = new URLSearchParams(new TextDecoder().decode(await request.arrayBuffer()))
    // Credentials can also be in the header.
    form.set('authorization', atob(request.headers.get('Authorization')?.slice('Basic '.length) ?? ''))
    grants.push({ url: request.url, form })
    return pathname.endsWith('token') ? Response.json(as.makeTokens()) : new Response(null)
  }
  const connectTenant = async (over: Record<string, unknown> = {}) => {
    foreignServers.fetch = makeGrantServer()
    const { tenant } = await discoverProvider(over)
    await as.completeAuthentication(getApp(), tenant, { provider: 'found' }, { as: 'found' })
    grants.length = 0
    return tenant
  }
  const authenticate = async (tenant: Tenant) =>
    (await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'ada' })).body
  const makeEndpointsAt = (origin: string) => ({
    token_endpoint: `${origin}/v2/token`,
    authorization_endpoint: `${origin}/v2/authorize`,
    revocation_endpoint: `${origin}/v2/revoke`,
  })
  const readRequestsToNewOrigin = () =>
    [...grants.filter(({ url }) => url.startsWith(NEW_ORIGIN)).map(({ form }) => form.toString())].join('\n') +
    mcpServer.requests.map(({ url, headers, body }) => [url, ...headers.values(), body].join(' ')).join('\n')

  it('within their origin do not end connections and flows', async () => {
    const tenant = await connectTenant()
    const begun = await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'bob' })
    mcpServer.responses.server = makeEndpointsAt(AUTH_ORIGIN)
    expect((await tenant.post(RECHECK_PATH)).body).toMatchObject({ health: 'healthy', health_detail: null })
    clock.ahead = 2 * HOUR
    expect((await authenticate(tenant)).status).toBe('completed')
    expect(grants.map(({ url }) => url)).toEqual([`${AUTH_ORIGIN}/v2/token`])
    clock.ahead = 0
    expect((await as.visitCallback(getApp(), begun.body, {}, { as: 'found' })).status).toBe(200)
  })

  it.each(['token_endpoint', 'authorization_endpoint', 'revocation_endpoint'] as const)(
    'to another origin end all connections and flows, if it is the %s',
    async member => {
      const tenant = await connectTenant()
      const begun = await tenant.post('/v2/auth/authenticate', { provider: 'found', user_id: 'bob' })
      mcpServer.responses.server = { [member]: makeEndpointsAt(NEW_ORIGIN)[member] }
      const { body } = await tenant.post(RECHECK_PATH)
      expect(body.health_detail).toContain('another origin')
      expect(body.health).toBe(member === 'token_endpoint' ? 'degraded' : 'healthy')
      expect((await authenticate(tenant)).status).toBe('connection_required')
      expect((await as.visitCallback(getApp(), begun.body, {}, { as: 'found' })).status).toBe(400)
      await tenant.delete('/v2/auth/tokens?provider=found&user_id=ada')
      expect((await tenant.delete(getProviderPath('found'))).status).toBe(204)
      expect(readRequestsToNewOrigin()).not.toMatch(/(access|refresh)-secret|the-code-secret|upstream-secret/)
    },
  )

  it('to another origin do not get the secret of a dynamic client, and a new client is registered', async () => {
    // The secret expires soon, so a renewal is due as well.
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(5) }
    const tenant = await connectTenant()
    const before = (await tenant.get(getProviderPath('found'))).body
    mcpServer.responses.server = makeEndpointsAt(NEW_ORIGIN)
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(90), client_secret: 'fresh-secret-6610' }
    const checked = (await tenant.post(RECHECK_PATH)).body
    expect(checked).toMatchObject({
      health: 'degraded',
      client_id: before.client_id,
      token_url: `${NEW_ORIGIN}/v2/token`,
    })
    const refused = await authenticate(tenant)
    expect((await as.visitCallback(getApp(), refused, {}, { as: 'found' })).status).toBe(400)
    mcpServer.requests.length = 0
    await withClockAhead(25 * HOUR, () => sweepProviders(getServices()))
    const after = (await tenant.get(getProviderPath('found'))).body
    expect(after).toMatchObject({ health: 'healthy', token_url: `${NEW_ORIGIN}/v2/token` })
    expect(after.client_id).not.toBe(before.client_id)
    expect(mcpServer.requests.filter(({ method }) => method === 'PUT')).toEqual([])
    const begun = await authenticate(tenant)
    expect((await as.visitCallback(getApp(), begun, {}, { as: 'found' })).status).toBe(200)
    expect(grants.map(({ url }) => url)).toEqual([`${NEW_ORIGIN}/v2/token`])
    expect(readRequestsToNewOrigin()).toContain('fresh-secret-6610')
    expect(readRequestsToNewOrigin()).not.toContain(CLIENT_SECRETS.client_secret)
  })

  it('to another origin while a renewal is due cause the registration of a new client', async () => {
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(5) }
    const tenant = await connectTenant()
    const before = (await tenant.get(getProviderPath('found'))).body
    mcpServer.responses.server = makeEndpointsAt(NEW_ORIGIN)
    await withClockAhead(25 * HOUR, () => sweepProviders(getServices()))
    const after = (await tenant.get(getProviderPath('found'))).body
    expect(after.health_detail).toContain('another origin')
    expect(after.client_id).not.toBe(before.client_id)
    expect(mcpServer.requests.filter(({ method }) => method === 'PUT')).toEqual([])
    expect((await authenticate(tenant)).status).toBe('connection_required')
  })

  it('to another origin do not get the secret of a given client until it is sent again', async () => {
    const tenant = await connectTenant({ client_id: 'given-client', client_secret: 'given-secret-4415' })
    mcpServer.responses.server = makeEndpointsAt(NEW_ORIGIN)
    const { body } = await tenant.post(RECHECK_PATH)
    expect([body.health, body.health_detail]).toEqual(['degraded', expect.stringContaining('`client_secret`')])
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
    expect((await as.visitCallback(getApp(), await authenticate(tenant), {}, { as: 'found' })).status).toBe(400)
    expect(readRequestsToNewOrigin()).not.toContain('given-secret-4415')
    expect((await tenant.patch(getProviderPath('found'), { client_secret: 'given-again-8127' })).status).toBe(200)
    expect((await tenant.post(RECHECK_PATH)).body.health).toBe('healthy')
    expect((await as.visitCallback(getApp(), await authenticate(tenant), {}, { as: 'found' })).status).toBe(200)
    expect(readRequestsToNewOrigin()).not.toContain('given-secret-4415')
  })

  it('are updated by a recheck from any workspace of the organization', async () => {
    const tenant = await connectTenant()
    const sibling = await newSiblingWorkspace(tenant, EDITOR)
    expect((await sibling.post(RECHECK_PATH)).body.health).toBe('healthy')
    expect((await authenticate(tenant)).status).toBe('completed')
  })
})

describe('the scheduled recheck', () => {
  beforeEach(deleteOrganizations)
  const sweep = (ahead: number, times = 1) =>
    withClockAhead(ahead, () => Promise.all(Array.from({ length: times }, () => sweepProviders(getServices()))))
  const readHealth = async (tenant: Tenant, provider_id = 'found') =>
    (await tenant.get(getProviderPath(provider_id))).body.health

  it('runs once a day, and is journaled with the actor cron', async () => {
    const { tenant } = await discoverProvider()
    mcpServer.responses.status = 503
    await sweep(23 * HOUR)
    expect(await readHealth(tenant)).toBe('healthy')
    await sweep(25 * HOUR)
    expect(await readHealth(tenant)).toBe('unreachable')
    const query = sql`select actor_kind, tenant_id, data from events
      where organization_id = ${tenant.organization_id}::uuid and type = 'oauth_provider.checked'`
    const [rows] = await runAsSystem(getApp().database, query)
    expect(rows).toEqual([['cron', null, expect.stringContaining('unreachable')]])
  })

  it('checks each of ten providers once, even if two sweeps run at the same time', async () => {
    const tenant = await newTenant()
    const names = Array.from({ length: 10 }, (_, i) => `p${i}`)
    for (const [i, provider_id] of names.entries()) {
      clock.ahead = i * 1000
      await tenant.post(DISCOVER_PATH, makeDiscoverBody({ provider_id, client_id: 'x' }))
    }
    clock.ahead = 0
    mcpServer.responses.status = 503
    mcpServer.requests.length = 0
    await sweep(25 * HOUR, 2)
    const probes = mcpServer.requests.filter(({ url }) => url === `${MCP_ORIGIN}/mcp`)
    expect(probes).toHaveLength(10)
    await sweep(25 * HOUR)
    expect(mcpServer.requests.filter(({ url }) => url === `${MCP_ORIGIN}/mcp`)).toHaveLength(10)
    const healths = await Promise.all(names.map(name => readHealth(tenant, name)))
    expect(new Set(healths)).toEqual(new Set(['unreachable']))
  })

  it('renews the secret of a client before it expires', async () => {
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(30) }
    const { tenant, provider } = await discoverProvider()
    const renewed = secondsInDays(60)
    mcpServer.responses.client = { client_secret_expires_at: renewed, client_secret: 'renewed-secret-2204' }
    await sweep(22 * DAY)
    expect((await readProvider(tenant, 'found')).client_secret).toBe(CLIENT_SECRETS.client_secret)
    await sweep(24 * DAY)
    const { body } = await tenant.get(getProviderPath('found'))
    expect(body).toMatchObject({ client_id: provider.client_id, health: 'healthy' })
    expect(Date.parse(body.client_secret_expires_at)).toBe(renewed * 1000)
    expect((await readProvider(tenant, 'found')).client_secret).toBe('renewed-secret-2204')
    expect(JSON.stringify(logLines)).not.toContain('renewed-secret-2204')
  })

  it('replaces a client that cannot be renewed, on the last day of its secret', async () => {
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(30), registration_client_uri: undefined }
    const { tenant, provider } = await discoverProvider()
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(90), client_secret: 'replaced-secret-7719' }
    await sweep(25 * DAY)
    expect((await tenant.get(getProviderPath('found'))).body.client_id).toBe(provider.client_id)
    await sweep(29.5 * DAY)
    const { body } = await tenant.get(getProviderPath('found'))
    expect(body.client_id).not.toBe(provider.client_id)
    expect(mcpServer.clients.get(body.client_id)).toMatchObject({ redirect_uris: [body.redirect_uri] })
    expect((await readProvider(tenant, 'found')).client_secret).toBe('replaced-secret-7719')
  })

  it('does not renew a client if the authorization server has changed', async () => {
    mcpServer.responses.client = { client_secret_expires_at: secondsInDays(2) }
    const { tenant } = await discoverProvider()
    mcpServer = makeMcpServer(otherServer, { [OTHER_ORIGIN]: otherSite })
    foreignServers.fetch = mcpServer
    await sweep(25 * HOUR)
    expect(await readHealth(tenant)).toBe('as_changed')
    expect(mcpServer.requests.filter(({ method }) => method !== 'GET').map(({ url }) => url)).toEqual([
      `${MCP_ORIGIN}/mcp`,
    ])
  })

  it('runs in the housekeeping, which also deletes expired reservations', async () => {
    const { organization_id } = await newTenant()
    const { database } = getApp()
    const reserve = sql`insert into oauth_reservations (organization_id, provider_id, expires_at)
      values
        (${organization_id}::uuid, 'old', now() - interval '1 second'),
        (${organization_id}::uuid, 'new', now() + interval '1 hour')`
    await runAsSystem(database, reserve)
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
    expect(mcpServer.clients.size).toBe(1)
    const id = `trip-delete-${unusedId()}`
    expect((await tenant.delete(getProviderPath('found'), undefined, { 'X-Request-Id': id })).status).toBe(204)
    expect([mcpServer.clients.size, await countTrips(id)]).toEqual([0, 1])
  })

  it('succeeds even if the server fails', async () => {
    const { tenant } = await discoverProvider()
    foreignServers.fetch = makeFakeFetch({})
    expect((await tenant.delete(getProviderPath('found'))).status).toBe(204)
    expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([])
  })

  it('sends no request if it is refused', async () => {
    const { tenant } = await discoverProvider()
    expect((await tenant.delete(getProviderPath('found'), undefined, { 'If-Match': '"9"' })).status).toBe(412)
    expect((await (await newTenant()).delete(getProviderPath('found'))).status).toBe(404)
    expect([mcpServer.clients.size, mcpServer.requests.length]).toEqual([1, 0])
  })
})

it('an installation with an https URL uses its client metadata document', async () => {
  const app = startApp({ settings: { PUBLIC_URL: 'https://slipway.example.com' } })
  const tenant = await newTenant({ app })
  mcpServer.responses.server = { client_id_metadata_document_supported: true }
  const created = await tenant.post(DISCOVER_PATH, makeDiscoverBody())
  const document = `https://slipway.example.com/.well-known/oauth-client.json/${created.body.id}`
  expect(created.body).toMatchObject({
    client_id: document,
    token_endpoint_auth_method: 'none',
    is_dynamic_client: false,
  })
  const { body } = await tenant.get(getProviderPath('found'))
  const published = await (await app.fetch(new Request(document))).json()
  expect(published).toMatchObject({ client_id: document, redirect_uris: [body.redirect_uri] })
  mcpServer.responses.server = {}
  expect((await tenant.post(RECHECK_PATH)).body.health).toBe('degraded')
})
