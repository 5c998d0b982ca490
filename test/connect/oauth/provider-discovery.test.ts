import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { discoverProvider } from '../../../src/connect/oauth/provider-discovery.ts'
import { sha256Hex } from '../../../src/kernel/crypto/digest.ts'
import type { Database } from '../../../src/kernel/db/db.ts'
import type { Caller } from '../../../src/kernel/http/context.ts'
import { fail } from '../../../src/kernel/http/errors.ts'
import {
  clock,
  foreignServers,
  getApp,
  getServices,
  logLines,
  newTenant,
  readEvents,
  type Tenant,
  unusedId,
  wrapTrips,
} from '../../support/app.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import {
  AUTH_ORIGIN,
  CLIENT_SECRETS,
  countReservations,
  DISCOVER_PATH,
  getProviderPath,
  MCP_ORIGIN,
  makeDiscoverBody,
  makeMcpServer,
  PROVIDERS_PATH,
  readProvider,
} from '../../support/providers.ts'

const idempotencyHeader = (key: string) => ({ 'Idempotency-Key': key })
const MINUTE = 60_000

let mcpServer: ReturnType<typeof makeMcpServer>
beforeEach(() => {
  mcpServer = makeMcpServer()
  foreignServers.fetch = mcpServer
})
afterEach(() => {
  clock.ahead = 0
  foreignServers.fetch = makeFakeFetch({})
})

const filterRegistrations = () =>
  mcpServer.requests.filter(({ method, url }) => method === 'POST' && url === `${AUTH_ORIGIN}/register`)

describe('discovery', () => {
  it('creates a provider for an MCP server and registers its client', async () => {
    const tenant = await newTenant()
    const created = await tenant.post(DISCOVER_PATH, makeDiscoverBody())
    expect(created.status).toBe(200)
    const [client_id] = [...mcpServer.clients.keys()]
    expect(created.body).toEqual({
      id: expect.any(String),
      organization_id: tenant.organization_id,
      provider_id: 'found',
      name: 'Found',
      client_id,
      auth_url: `${AUTH_ORIGIN}/authorize`,
      token_url: `${AUTH_ORIGIN}/token`,
      uses_pkce: true,
      code_challenge_method: 'S256',
      provider_type: 'mcp',
      mcp_server_url: `${MCP_ORIGIN}/mcp`,
      token_endpoint_auth_method: 'client_secret_post',
      is_dynamic_client: true,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    })
    expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([created.body])
    const provider = (await tenant.get(getProviderPath('found'))).body
    expect(provider).toMatchObject({
      ...created.body,
      scopes: ['issues:read'],
      issuer: AUTH_ORIGIN,
      registration: 'dynamic',
      revocation_url: `${AUTH_ORIGIN}/revoke`,
      redirect_uri: `http://slipway.test/v2/auth/callback/${created.body.id}`,
      warnings: [],
    })
    expect(mcpServer.clients.get(client_id!)).toMatchObject({ redirect_uris: [provider.redirect_uri] })
    expect(provider.trace.map((hop: { url: string; status: number }) => [hop.url, hop.status])).toEqual([
      [`${MCP_ORIGIN}/mcp`, 401],
      [`${MCP_ORIGIN}/.well-known/oauth-protected-resource/mcp`, 200],
      [`${AUTH_ORIGIN}/.well-known/oauth-authorization-server`, 200],
      [`${AUTH_ORIGIN}/register`, 201],
    ])
    expect(await readProvider(tenant, 'found')).toMatchObject(CLIENT_SECRETS)
    expect(await countReservations(tenant)).toBe(0)
  })

  it('uses a given client and given scopes, and registers no client', async () => {
    const tenant = await newTenant()
    const given = { client_id: 'given-client', client_secret: 'given-secret-6650', scopes: ['a', 'b'] }
    const { body } = await tenant.post(DISCOVER_PATH, makeDiscoverBody(given))
    expect(body).toMatchObject({ client_id: 'given-client', is_dynamic_client: false })
    expect((await tenant.get(getProviderPath('found'))).body).toMatchObject({
      scopes: ['a', 'b'],
      registration: 'given',
      redirect_uri: 'http://slipway.test/v2/auth/callback/found',
    })
    expect((await readProvider(tenant, 'found')).client_secret).toBe('given-secret-6650')
    expect(filterRegistrations()).toEqual([])
  })

  it.each([
    [{ client_secret: 'x' }, 'client_id'],
    [{ registration: 'given' }, 'client_id'],
    [{ registration: 'dynamic', client_id: 'x' }, 'registration'],
    [{ registration: 'magic' }, 'registration'],
    [{ provider_id: unusedId() }, 'provider_id'],
    [{ provider_id: 'mcp-discover' }, 'provider_id'],
    [{ name: ' ' }, 'name'],
  ])('refuses %j', async (over, member) => {
    const { status, body } = await (await newTenant()).post(DISCOVER_PATH, makeDiscoverBody(over))
    expect([status, body.code, body.errors[0].loc[1]]).toEqual([422, 'invalid_request', member])
    expect(mcpServer.requests).toEqual([])
  })

  it.each([
    ['mcp.example.com/mcp', 'invalid_mcp_server_url'],
    ['https://10.0.0.1/mcp', 'blocked_url'],
    ['http://mcp.example.com/mcp', 'blocked_url'],
    ['http://slipway.test/mcp', 'blocked_url'],
  ])('refuses to connect to %s', async (mcp_server_url, code) => {
    const { status, body } = await (await newTenant()).post(DISCOVER_PATH, makeDiscoverBody({ mcp_server_url }))
    expect([status, body.code]).toEqual([422, code])
    expect(mcpServer.requests).toEqual([])
  })

  it('assumes S256 for the hosts that the organization lists', async () => {
    mcpServer = makeMcpServer({ server: { code_challenge_methods_supported: undefined } })
    foreignServers.fetch = mcpServer
    const tenant = await newTenant()
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).body.code).toBe('pkce_unsupported')
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const assumed = await tenant.owner.patch('/orgs/current', { assume_s256: ['AUTH.example.com'] }, inside)
    expect(assumed.body.assume_s256).toEqual(['auth.example.com'])
    expect((await tenant.get('/orgs/current/info')).body.assume_s256).toEqual(['auth.example.com'])
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).status).toBe(200)
    expect((await tenant.get(getProviderPath('found'))).body.warnings).toMatchObject([{ code: 'pkce_assumed' }])
  })

  it('with an organization key needs a workspace', async () => {
    const { owner, tenant_id } = await newTenant()
    expect((await owner.post(DISCOVER_PATH, makeDiscoverBody())).body.code).toBe('workspace_required')
    expect((await owner.post(`${DISCOVER_PATH}?dry_run=true`, makeDiscoverBody())).body.code).toBe('workspace_required')
    expect((await owner.post(DISCOVER_PATH, makeDiscoverBody(), { 'X-Tenant-Id': tenant_id })).status).toBe(200)
  })
})

describe('a dry run of a discovery', () => {
  it('returns the provider, but stores nothing and registers no client', async () => {
    const tenant = await newTenant()
    const { status, body } = await tenant.post(`${DISCOVER_PATH}?dry_run=true`, makeDiscoverBody())
    expect(status).toBe(200)
    expect(body).toMatchObject({
      provider_id: 'found',
      mcp_server_url: `${MCP_ORIGIN}/mcp`,
      registration: 'dynamic',
      redirect_uri: null,
      warnings: [],
      metadata: {
        issuer: AUTH_ORIGIN,
        resource: `${MCP_ORIGIN}/mcp`,
        registration_url: `${AUTH_ORIGIN}/register`,
        scopes: ['issues:read'],
      },
    })
    expect(body.trace).toHaveLength(3)
    expect(filterRegistrations()).toEqual([])
    expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([])
    expect(await countReservations(tenant)).toBe(0)
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).status).toBe(200)
    const taken = await tenant.post(`${DISCOVER_PATH}?dry_run=true`, makeDiscoverBody())
    expect([taken.status, taken.body.code]).toEqual([409, 'provider_id_conflict'])
  })

  it('fails with the same error as the discovery', async () => {
    mcpServer = makeMcpServer({ server: { registration_endpoint: undefined } })
    foreignServers.fetch = mcpServer
    const tenant = await newTenant()
    for (const path of [`${DISCOVER_PATH}?dry_run=true`, DISCOVER_PATH]) {
      const { status, body } = await tenant.post(path, makeDiscoverBody())
      expect([status, body.code]).toEqual([422, 'registration_unsupported'])
    }
  })
})

describe('the provider_id of a discovery', () => {
  it('is checked before any request to a server', async () => {
    const tenant = await newTenant()
    await tenant.post(DISCOVER_PATH, makeDiscoverBody())
    mcpServer.requests.length = 0
    const { status, body } = await tenant.post(
      DISCOVER_PATH,
      makeDiscoverBody({ mcp_server_url: 'https://other.example.com/' }),
    )
    expect([status, body.code]).toEqual([409, 'provider_id_conflict'])
    expect(mcpServer.requests).toEqual([])
  })

  it('is taken by one of several concurrent requests, and only that one registers a client', async () => {
    const tenant = await newTenant()
    const replies = await Promise.all(Array.from({ length: 8 }, () => tenant.post(DISCOVER_PATH, makeDiscoverBody())))
    expect(replies.map(reply => reply.status).sort()).toEqual([200, ...Array(7).fill(409)])
    expect(filterRegistrations()).toHaveLength(1)
    expect((await tenant.get(PROVIDERS_PATH)).body).toHaveLength(1)
  })

  it('is reserved during discovery, and free after a failure', async () => {
    const tenant = await newTenant()
    const manualProvider = {
      ...makeDiscoverBody(),
      client_id: 'x',
      auth_url: `${AUTH_ORIGIN}/a`,
      token_url: `${AUTH_ORIGIN}/t`,
    }
    const codesDuringDiscovery: unknown[] = []
    foreignServers.fetch = async () => {
      const { body } = await tenant.post(PROVIDERS_PATH, manualProvider)
      codesDuringDiscovery.push(body.code)
      throw new TypeError('connection reset')
    }
    const failed = await tenant.post(DISCOVER_PATH, makeDiscoverBody())
    expect([failed.status, failed.body.code]).toEqual([502, 'upstream_error'])
    expect(codesDuringDiscovery[0]).toBe('provider_id_conflict')
    expect(await countReservations(tenant)).toBe(0)
    expect((await tenant.post(PROVIDERS_PATH, manualProvider)).status).toBe(200)
  })

  it('is free when its reservation has expired, and the late discovery fails', async () => {
    const tenant = await newTenant()
    const slowServer = makeMcpServer()
    const response = Promise.withResolvers<void>()
    const firstRequest = Promise.withResolvers<void>()
    foreignServers.fetch = async (input, init) => {
      firstRequest.resolve()
      await response.promise
      return slowServer(input, init)
    }
    const first = tenant.post(DISCOVER_PATH, makeDiscoverBody())
    await firstRequest.promise
    foreignServers.fetch = mcpServer
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).body.code).toBe('provider_id_conflict')
    clock.ahead = 3 * MINUTE
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).status).toBe(200)
    response.resolve()
    expect((await first).body.code).toBe('provider_id_conflict')
    expect([slowServer.clients.size, mcpServer.clients.size]).toEqual([0, 1])
  })
})

describe('a repeated discovery with the same idempotency key', () => {
  it('gets the same response without requests to servers', async () => {
    const tenant = await newTenant()
    const first = await tenant.post(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k'))
    mcpServer.requests.length = 0
    const again = await tenant.post(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k'))
    expect([again.status, again.text, again.headers.get('Idempotency-Replayed')]).toEqual([200, first.text, 'true'])
    expect(mcpServer.requests).toEqual([])
    const other = await tenant.post(DISCOVER_PATH, makeDiscoverBody({ name: 'Other' }), idempotencyHeader('k'))
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused'])
  })

  it('is refused while the first request is in flight', async () => {
    const tenant = await newTenant()
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => tenant.post(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k'))),
    )
    const created = replies.filter(reply => reply.status === 200)
    const conflicts = replies.filter(reply => reply.body.code === 'idempotency_in_flight')
    expect([created.length >= 1, created.length + conflicts.length]).toEqual([true, 5])
    for (const { headers } of conflicts) expect(headers.get('Retry-After')).toBe('1')
    expect(filterRegistrations()).toHaveLength(1)
  })

  it('is executed if the first one failed', async () => {
    const tenant = await newTenant()
    foreignServers.fetch = makeFakeFetch({})
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k'))).status).toBe(502)
    foreignServers.fetch = mcpServer
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k'))).status).toBe(200)
  })
})

describe('a discovery whose provider cannot be stored', () => {
  /** Runs the verb with a database that fails. */
  async function discoverThrough(tenant: Tenant, failing: (database: Database) => Database) {
    const caller: Caller = {
      ...getServices(),
      database: failing(getApp().database),
      actor: { kind: 'key', hash: sha256Hex(tenant.key) },
      tenant: null,
      origin: 'http://slipway.test',
      requestId: `discover-${unusedId()}`,
      request: null,
      ifMatch: null,
      withoutIfMatch: false,
      idempotency: null,
      planDigest: null,
      warnings: [],
      requestInfo: {},
    }
    return discoverProvider(caller, { ...makeDiscoverBody(), registration: 'auto', dry_run: false })
  }
  const unavailable = () => fail('database_unavailable')

  it('unregisters the client and releases the provider_id if the key was revoked meanwhile', async () => {
    const tenant = await newTenant()
    const key = (await tenant.post('/workspaces/current/api-keys', { description: 'short-lived' })).body
    foreignServers.fetch = async (input, init) => {
      if (String(input) === `${AUTH_ORIGIN}/register`) await tenant.delete(`/workspaces/current/api-keys/${key.id}`)
      return mcpServer(input, init)
    }
    const { status, body } = await tenant.as(key.key).post(DISCOVER_PATH, makeDiscoverBody())
    expect([status, body.code]).toEqual([401, 'key_revoked'])
    expect(filterRegistrations()).toHaveLength(1)
    expect([mcpServer.clients.size, await countReservations(tenant)]).toEqual([0, 0])
    expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([])
  })

  it('unregisters the client and releases the provider_id if the insert fails', async () => {
    const tenant = await newTenant()
    const failing = (database: Database): Database => {
      let trip = 0
      return wrapTrips(database, act => statements => (++trip === 2 ? Promise.reject(unavailable()) : act(statements)))
    }
    await expect(discoverThrough(tenant, failing)).rejects.toMatchObject({ code: 'database_unavailable' })
    expect([filterRegistrations().length, mcpServer.clients.size, await countReservations(tenant)]).toEqual([1, 0, 0])
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).status).toBe(200)
  })

  it('unregisters the client if the database stays unavailable, and the reservation expires', async () => {
    const tenant = await newTenant()
    const failing = (database: Database): Database => {
      let trip = 0
      return wrapTrips(database, act => statements => (++trip > 1 ? Promise.reject(unavailable()) : act(statements)))
    }
    await expect(discoverThrough(tenant, failing)).rejects.toMatchObject({ code: 'database_unavailable' })
    expect([filterRegistrations().length, mcpServer.clients.size, await countReservations(tenant)]).toEqual([1, 0, 1])
    clock.ahead = 3 * MINUTE
    expect((await tenant.post(DISCOVER_PATH, makeDiscoverBody())).status).toBe(200)
  })

  it('keeps the client if only the reply of the insert was lost', async () => {
    const tenant = await newTenant()
    const failing = (database: Database): Database => {
      let trip = 0
      return wrapTrips(database, act => async statements => {
        const results = await act(statements)
        if (++trip === 2) throw unavailable()
        return results
      })
    }
    await expect(discoverThrough(tenant, failing)).rejects.toMatchObject({ code: 'database_unavailable' })
    expect([mcpServer.clients.size, (await tenant.get(PROVIDERS_PATH)).body.length]).toEqual([1, 1])
  })
})

it('a discovery writes one event, and no response, event, trace or log line has a secret', async () => {
  const tenant = await newTenant()
  const replies = [
    await tenant.post(
      `${DISCOVER_PATH}?dry_run=true`,
      makeDiscoverBody({ mcp_server_url: `${MCP_ORIGIN}/mcp?key=query-secret-1188` }),
    ),
    await tenant.post(DISCOVER_PATH, makeDiscoverBody()),
    await tenant.get(PROVIDERS_PATH),
    await tenant.get(getProviderPath('found')),
    await tenant.post(
      DISCOVER_PATH,
      makeDiscoverBody({ provider_id: 'other', client_id: 'x', client_secret: 'given-secret-4410' }),
    ),
  ]
  const events = await Promise.all(replies.map(reply => readEvents(reply.headers.get('X-Request-Id')!)))
  expect(events.flat()).toMatchObject([
    { type: 'oauth_provider.created', changes: expect.stringContaining('"dynamic"') },
    { type: 'oauth_provider.created', changes: expect.stringContaining('"given"') },
  ])
  const trace = JSON.stringify(replies[0]!.body.trace)
  const everything = [JSON.stringify(events), JSON.stringify(logLines), ...replies.map(reply => reply.text)].join()
  for (const secret of [...Object.values(CLIENT_SECRETS), 'given-secret-4410']) expect(everything).not.toContain(secret)
  expect(trace).not.toContain('query-secret-1188')
})

it('a discovery takes two round trips, a dry run or a replay takes one, and a blocked URL takes none', async () => {
  const tenant = await newTenant()
  const countTripsOf = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const id = `trip-discover-${unusedId()}`
    await tenant.post(path, body, { ...headers, 'X-Request-Id': id })
    return countTrips(id)
  }
  expect([
    await countTripsOf(`${DISCOVER_PATH}?dry_run=true`, makeDiscoverBody()),
    await countTripsOf(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k')),
    await countTripsOf(DISCOVER_PATH, makeDiscoverBody(), idempotencyHeader('k')),
    await countTripsOf(DISCOVER_PATH, makeDiscoverBody()),
    await countTripsOf(DISCOVER_PATH, makeDiscoverBody({ mcp_server_url: 'https://10.0.0.1/' })),
  ]).toEqual([1, 2, 1, 1, 0])
})
