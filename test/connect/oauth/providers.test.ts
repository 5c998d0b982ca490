import { afterEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { NewProvider } from '../../../src/connect/oauth/schema.ts'
import { clock, logLines, newTenant, readEvents, unusedId } from '../../support/app.ts'
import { getProviderPath, PROVIDERS_PATH, readProvider } from '../../support/providers.ts'

const SECRET = 'very-secret-7261'
const makeProvider = (over: Record<string, unknown> = {}) => ({
  ...NewProvider.meta()!.example!,
  provider_id: 'hand',
  client_secret: SECRET,
  ...over,
})
const idempotencyHeader = (key: string) => ({ 'Idempotency-Key': key })

const CONTRACT_MEMBERS = [
  'id',
  'organization_id',
  'provider_id',
  'name',
  'client_id',
  'auth_url',
  'token_url',
  'uses_pkce',
  'code_challenge_method',
  'created_at',
  'updated_at',
  'provider_type',
  'mcp_server_url',
  'token_endpoint_auth_method',
  'is_dynamic_client',
].sort()

afterEach(() => {
  clock.ahead = 0
})

describe('a manually created provider', () => {
  it('has all documented members, and no response has its secret', async () => {
    const tenant = await newTenant()
    const created = await tenant.post(PROVIDERS_PATH, makeProvider())
    expect(created.status).toBe(200)
    expect(Object.keys(created.body).sort()).toEqual(CONTRACT_MEMBERS)
    expect(created.body).toMatchObject({
      organization_id: tenant.organization_id,
      provider_id: 'hand',
      uses_pkce: true,
      code_challenge_method: 'S256',
      provider_type: null,
      mcp_server_url: null,
      token_endpoint_auth_method: 'client_secret_post',
      is_dynamic_client: false,
    })
    const list = await tenant.get(PROVIDERS_PATH)
    expect([list.status, list.body]).toEqual([200, [created.body]])
    const provider = await tenant.get(getProviderPath('hand'))
    expect(provider.body).toMatchObject({
      ...created.body,
      scopes: ['read:user'],
      redirect_uri: 'http://slipway.test/v2/auth/callback/hand',
      registration: 'given',
      health: 'healthy',
      warnings: [],
      trace: [],
    })
    expect([created, list, provider].map(reply => reply.text).join()).not.toContain(SECRET)
    expect((await readProvider(tenant, 'hand')).client_secret).toBe(SECRET)
  })

  it('can have a public client without a secret, no PKCE, and a documented type', async () => {
    const tenant = await newTenant()
    const over = { client_secret: null, uses_pkce: false, provider_type: 'slack', scopes: ['a', 'b', 'a'] }
    const { body } = await tenant.post(PROVIDERS_PATH, makeProvider(over))
    expect(body).toMatchObject({
      token_endpoint_auth_method: 'none',
      uses_pkce: false,
      code_challenge_method: null,
      provider_type: 'slack',
    })
    expect((await tenant.get(getProviderPath('hand'))).body.scopes).toEqual(['a', 'b'])
    expect((await readProvider(tenant, 'hand')).client_secret).toBe(null)
  })

  it.each([
    [{ provider_id: 'Upper' }, 'provider_id'],
    [{ provider_id: '-a' }, 'provider_id'],
    [{ provider_id: 'a'.repeat(64) }, 'provider_id'],
    [{ provider_id: 'a/b' }, 'provider_id'],
    [{ provider_id: '' }, 'provider_id'],
    [{ provider_id: unusedId() }, 'provider_id'],
    [{ provider_id: 'mcp-discover' }, 'provider_id'],
    [{ auth_url: 'not an address' }, 'auth_url'],
    [{ auth_url: 'file:///etc/passwd' }, 'auth_url'],
    [{ token_url: 'https://example.com/#x' }, 'token_url'],
    [{ provider_type: 'mcp' }, 'provider_type'],
    [{ code_challenge_method: 'plain' }, 'code_challenge_method'],
    [{ token_endpoint_auth_method: 'private_key_jwt' }, 'token_endpoint_auth_method'],
    [{ token_endpoint_auth_method: 'none' }, 'client_secret'],
    [{ token_endpoint_auth_method: 'client_secret_basic', client_secret: null }, 'client_secret'],
    [{ scopes: ['a b'] }, 'scopes'],
    [{ client_id: '' }, 'client_id'],
  ])('is refused with %j', async (over, member) => {
    const { status, body } = await (await newTenant()).post(PROVIDERS_PATH, makeProvider(over))
    expect([status, body.code, body.errors[0].loc[1]]).toEqual([422, 'invalid_request', member])
  })

  it.each([
    ['auth_url', 'https://127.0.0.1/a'],
    ['token_url', 'http://accounts.example.com/t'],
    ['revocation_url', 'https://metadata.internal/r'],
    ['auth_url', 'https://user:pass@example.com/a'],
  ])('is refused if its %s is %s', async (member, url) => {
    const { status, body } = await (await newTenant()).post(PROVIDERS_PATH, makeProvider({ [member]: url }))
    expect([status, body.code]).toEqual([422, 'blocked_url'])
  })

  it('has a provider_id that is unique across the workspaces of the organization', async () => {
    const [tenant, otherTenant] = await Promise.all([newTenant(), newTenant()])
    await tenant.post(PROVIDERS_PATH, makeProvider())
    const second = (await tenant.owner.post('/workspaces', { display_name: 'Second' })).body.id
    const inside = { 'X-Tenant-Id': second }
    const again = await tenant.owner.post(PROVIDERS_PATH, makeProvider(), inside)
    expect([again.status, again.body.code]).toEqual([409, 'provider_id_conflict'])
    expect((await tenant.owner.get(PROVIDERS_PATH, inside)).body).toHaveLength(1)
    expect((await otherTenant.post(PROVIDERS_PATH, makeProvider())).status).toBe(200)
    expect((await otherTenant.get(PROVIDERS_PATH)).body).toHaveLength(1)
  })

  it('is created once by concurrent requests', async () => {
    const tenant = await newTenant()
    const replies = await Promise.all(Array.from({ length: 8 }, () => tenant.post(PROVIDERS_PATH, makeProvider())))
    expect(replies.map(reply => reply.status).sort()).toEqual([200, ...Array(7).fill(409)])
  })

  it('is created once by a retry under an idempotency key', async () => {
    const tenant = await newTenant()
    const [first, again] = [
      await tenant.post(PROVIDERS_PATH, makeProvider(), idempotencyHeader('k')),
      await tenant.post(PROVIDERS_PATH, makeProvider(), idempotencyHeader('k')),
    ]
    expect([again.text, again.headers.get('Idempotency-Replayed')]).toEqual([first.text, 'true'])
  })

  it('needs a workspace if it is created with an organization key', async () => {
    const { owner, tenant_id } = await newTenant()
    const inside = { 'X-Tenant-Id': tenant_id }
    expect((await owner.post(PROVIDERS_PATH, makeProvider())).body.code).toBe('workspace_required')
    expect((await owner.get(PROVIDERS_PATH)).body.code).toBe('workspace_required')
    expect((await owner.post(PROVIDERS_PATH, makeProvider(), inside)).status).toBe(200)
    expect((await owner.get(PROVIDERS_PATH, inside)).body).toHaveLength(1)
  })
})

describe('the list of providers', () => {
  it('is newest first', async () => {
    const tenant = await newTenant()
    for (const [i, provider_id] of ['a', 'c', 'b'].entries()) {
      clock.ahead = i * 1000
      await tenant.post(PROVIDERS_PATH, makeProvider({ provider_id }))
    }
    const ids = (await tenant.get(PROVIDERS_PATH)).body.map((one: { provider_id: string }) => one.provider_id)
    expect(ids).toEqual(['b', 'c', 'a'])
  })

  it('is an empty array if there are none', async () => {
    expect((await (await newTenant()).get(PROVIDERS_PATH)).body).toEqual([])
  })
})

describe('reading a provider', () => {
  it('returns 304 for a current ETag, and 404 for an unknown provider', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    const tag = (await tenant.get(getProviderPath('hand'))).headers.get('ETag')!
    expect((await tenant.get(getProviderPath('hand'), { 'If-None-Match': tag })).status).toBe(304)
    for (const unknown of ['other', unusedId()]) {
      const { status, body } = await tenant.get(getProviderPath(unknown))
      expect([status, body.code]).toEqual([404, 'provider_not_found'])
    }
  })

  it('shows warnings and trace only with the permission to update', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    const role_id = '00000000-0000-4000-8000-000000000003'
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'viewer', role_id })).body
    const viewer = tenant.as(key)
    const [ofAdmin, ofViewer] = [await tenant.get(getProviderPath('hand')), await viewer.get(getProviderPath('hand'))]
    expect(ofViewer.body).toEqual({ ...ofAdmin.body, warnings: null, trace: null })
    expect((await viewer.post(PROVIDERS_PATH, makeProvider({ provider_id: 'x' }))).body.code).toBe('permission_missing')
    expect((await viewer.patch(getProviderPath('hand'), { name: 'x' })).body.code).toBe('permission_missing')
    expect((await viewer.delete(getProviderPath('hand'))).body.code).toBe('permission_missing')
  })
})

describe('a patch of a provider', () => {
  it('changes the members that it names, and no others', async () => {
    const tenant = await newTenant()
    const created = await tenant.post(PROVIDERS_PATH, makeProvider())
    const patch = {
      name: ' Renamed ',
      client_id: 'new-client',
      client_secret: 'new-secret-9313',
      scopes: ['x'],
      auth_url: 'https://example.com/a',
      token_url: null,
      uses_pkce: false,
    }
    const patched = await tenant.patch(getProviderPath('hand'), patch)
    expect(patched.status).toBe(200)
    expect(patched.body).toMatchObject({
      ...created.body,
      name: 'Renamed',
      client_id: 'new-client',
      scopes: ['x'],
      auth_url: 'https://example.com/a',
      uses_pkce: false,
      code_challenge_method: null,
      updated_at: expect.any(String),
    })
    expect(patched.headers.get('ETag')).toBe('"2"')
    expect((await tenant.get(getProviderPath('hand'))).body).toEqual(patched.body)
    expect((await readProvider(tenant, 'hand')).client_secret).toBe('new-secret-9313')
  })

  it('turns a confidential client into a public one and back', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    const publicClient = await tenant.patch(getProviderPath('hand'), { token_endpoint_auth_method: 'none' })
    expect(publicClient.body.token_endpoint_auth_method).toBe('none')
    expect((await readProvider(tenant, 'hand')).client_secret).toBe(null)
    const confidential = await tenant.patch(getProviderPath('hand'), { client_secret: SECRET })
    expect(confidential.body.token_endpoint_auth_method).toBe('client_secret_post')
    const basic = { client_secret: SECRET, token_endpoint_auth_method: 'client_secret_basic' }
    expect((await tenant.patch(getProviderPath('hand'), basic)).body.token_endpoint_auth_method).toBe(
      'client_secret_basic',
    )
    const withoutSecret = await tenant.patch(getProviderPath('hand'), {
      token_endpoint_auth_method: 'client_secret_post',
    })
    expect(withoutSecret.body.code).toBe('invalid_request')
  })

  it('can repeat the value of an immutable member, but not change it', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    expect((await tenant.patch(getProviderPath('hand'), { provider_id: 'hand', mcp_server_url: null })).status).toBe(
      200,
    )
    for (const patch of [
      { provider_id: 'other' },
      { mcp_server_url: 'https://mcp.example.com/mcp' },
      { provider_type: 'slack' },
    ]) {
      const { status, body } = await tenant.patch(getProviderPath('hand'), patch)
      expect([status, body.code]).toEqual([400, 'member_immutable'])
      expect(body.detail).toContain(Object.keys(patch)[0])
    }
    expect((await tenant.patch(getProviderPath('hand'), { auth_url: 'https://10.0.0.1/' })).body.code).toBe(
      'blocked_url',
    )
  })

  it('and a deletion are refused if If-Match names an old version', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    const stale = { 'If-Match': '"1"' }
    expect((await tenant.patch(getProviderPath('hand'), { name: 'A' }, stale)).status).toBe(200)
    expect((await tenant.patch(getProviderPath('hand'), { name: 'B' }, stale)).status).toBe(412)
    expect((await tenant.delete(getProviderPath('hand'), undefined, stale)).status).toBe(412)
    expect((await tenant.delete(getProviderPath('hand'), undefined, { 'If-Match': '"2"' })).status).toBe(204)
  })
})

describe('deleting a provider', () => {
  it('makes its provider_id available', async () => {
    const tenant = await newTenant()
    await tenant.post(PROVIDERS_PATH, makeProvider())
    expect((await tenant.delete(getProviderPath('hand'))).status).toBe(204)
    expect((await tenant.delete(getProviderPath('hand'))).body.code).toBe('provider_not_found')
    expect((await tenant.post(PROVIDERS_PATH, makeProvider())).status).toBe(200)
  })
})

it('every change of a provider has an event, and no event or log line has a secret', async () => {
  const tenant = await newTenant()
  const replies = [
    await tenant.post(PROVIDERS_PATH, makeProvider()),
    await tenant.patch(getProviderPath('hand'), { client_secret: 'other-secret-5521', scopes: ['x'] }),
    await tenant.delete(getProviderPath('hand')),
  ]
  const events = (await Promise.all(replies.map(reply => readEvents(reply.headers.get('X-Request-Id')!)))).flat()
  expect(events.map(event => event.type)).toEqual([
    'oauth_provider.created',
    'oauth_provider.updated',
    'oauth_provider.deleted',
  ])
  expect(new Set(events.map(event => event.subject_id)).size).toBe(1)
  for (const text of [JSON.stringify(events), JSON.stringify(logLines), ...replies.map(reply => reply.text)]) {
    expect(text).not.toContain(SECRET)
    expect(text).not.toContain('other-secret-5521')
  }
})

it('each operation on a manually created provider takes one round trip', async () => {
  const tenant = await newTenant()
  const countTripsOf = async (call: (headers: Record<string, string>) => Promise<unknown>) => {
    const id = `trip-provider-${unusedId()}`
    await call({ 'X-Request-Id': id })
    return countTrips(id)
  }
  const secret = { client_secret: 'other' }
  expect([
    await countTripsOf(headers => tenant.post(PROVIDERS_PATH, makeProvider(), headers)),
    await countTripsOf(headers => tenant.get(PROVIDERS_PATH, headers)),
    await countTripsOf(headers => tenant.get(getProviderPath('hand'), headers)),
    await countTripsOf(headers => tenant.patch(getProviderPath('hand'), secret, headers)),
    await countTripsOf(headers => tenant.delete(getProviderPath('hand'), undefined, headers)),
  ]).toEqual([1, 1, 1, 1, 1])
})
