import { afterEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { looksLikeApiKey } from '../../../src/kernel/crypto/crypto.ts'
import { ADMIN, EDITOR, ORGANIZATION_ADMIN, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { clock, logLines, newTenant, send, type Tenant, unusedId } from '../../support/app.ts'

const HOUR = 3_600_000

afterEach(() => {
  clock.ahead = 0
})

const createKey = (tenant: Pick<Tenant, 'post'>, input: object) =>
  tenant.post('/workspaces/current/api-keys', { description: 'test', ...input })

describe('a key', () => {
  it('is shown once, when it is created, and can be used', async () => {
    const tenant = await newTenant()
    const { status, body } = await createKey(tenant, { role_id: VIEWER })
    expect(status).toBe(201)
    expect(looksLikeApiKey(body.key)).toBe(true)
    expect((await tenant.as(body.key).get('/workspaces')).status).toBe(200)
    const { resources } = (await tenant.get('/workspaces/current/api-keys')).body
    expect(resources[0]).toMatchObject({
      id: body.id,
      hint: body.hint,
      tenant_id: tenant.tenant_id,
      role_id: VIEWER,
      expires_at: null,
    })
    expect(JSON.stringify(resources)).not.toContain(body.key.slice(8, 30))
    expect(JSON.stringify(logLines)).not.toContain(body.key.slice(8, 30))
  })

  it('can be sent as X-Api-Key or as a bearer token', async () => {
    const { key } = await newTenant()
    expect((await send('GET', '/workspaces', { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200)
    expect((await send('GET', '/workspaces', { headers: { authorization: `bearer  ${key} ` } })).status).toBe(200)
    expect((await send('GET', '/workspaces', { headers: { Authorization: `Basic ${key}` } })).body.code).toBe(
      'key_missing',
    )
  })

  it('is refused at once when it is revoked', async () => {
    const tenant = await newTenant()
    const { key, id } = (await createKey(tenant, {})).body
    expect((await tenant.delete(`/workspaces/current/api-keys/${id}`)).status).toBe(204)
    const refused = await tenant.as(key).get('/workspaces')
    expect([refused.status, refused.body.code]).toEqual([401, 'key_revoked'])
    expect(refused.headers.get('WWW-Authenticate')).toContain('Bearer')
    expect((await tenant.delete(`/workspaces/current/api-keys/${id}`)).body.code).toBe('key_not_found')
    expect((await tenant.delete(`/workspaces/current/api-keys/${unusedId()}`)).status).toBe(404)
  })

  it('is refused after it has expired', async () => {
    const tenant = await newTenant()
    const { key } = (await createKey(tenant, { expires_at: new Date(Date.now() + HOUR).toISOString() })).body
    expect((await tenant.as(key).get('/workspaces')).status).toBe(200)
    clock.ahead = 2 * HOUR
    expect((await tenant.as(key).get('/workspaces')).body.code).toBe('key_expired')
  })

  it('shows when it was last used, to the minute', async () => {
    const tenant = await newTenant()
    const { key, id } = (await createKey(tenant, {})).body
    const readLastUse = async () => {
      await finishPendingWork()
      const { body } = await tenant.get('/workspaces/current/api-keys')
      return body.resources.find((one: { id: string }) => one.id === id).last_used_at
    }
    expect(await readLastUse()).toBeNull()
    await tenant.as(key).get('/workspaces')
    const first = await readLastUse()
    expect(first).not.toBeNull()
    await tenant.as(key).get('/workspaces')
    expect(await readLastUse()).toBe(first)
    clock.ahead = 2 * 60_000
    await tenant.as(key).get('/workspaces')
    expect(Date.parse(await readLastUse())).toBeGreaterThan(Date.parse(first))
  })

  it('can have fewer permissions than its role', async () => {
    const tenant = await newTenant()
    const { key } = (await createKey(tenant, { role_id: ADMIN, permissions: ['workspaces:read'] })).body
    expect((await tenant.as(key).get('/workspaces')).status).toBe(200)
    expect((await tenant.as(key).get('/workspaces/current/api-keys')).body.code).toBe('permission_missing')
  })

  it('cannot have a permission that its role lacks', async () => {
    const refused = await createKey(await newTenant(), {
      role_id: VIEWER,
      permissions: ['deployments:read', 'deployments:delete'],
    })
    expect([refused.status, refused.body.code]).toEqual([400, 'permission_not_in_role'])
  })

  it('gets the role and permissions of its creator by default', async () => {
    const tenant = await newTenant()
    const permissions = ['api-keys:create', 'workspaces:read']
    const { key } = (await createKey(tenant, { permissions })).body
    const child = (await createKey(tenant.as(key), {})).body
    expect(child).toMatchObject({ role_id: ADMIN, permissions })
  })
})

describe('a key that creates keys', () => {
  const createCreator = async (tenant: Tenant, permissions = ['api-keys:create', 'deployments:read']) =>
    tenant.as((await createKey(tenant, { role_id: ADMIN, permissions })).body.key)

  it.each([
    ['a wider role', { role_id: EDITOR }, 'role_exceeds_actor'],
    ['all permissions of its own role', { role_id: ADMIN }, 'role_exceeds_actor'],
    [
      'a permission that it lacks',
      { role_id: ADMIN, permissions: ['deployments:read', 'deployments:update'] },
      'role_exceeds_actor',
    ],
    ['a role of the organization', { role_id: ORGANIZATION_ADMIN }, 'role_not_found'],
    ['a role that does not exist', { role_id: '11111111-1111-4111-8111-111111111111' }, 'role_not_found'],
  ])('cannot grant %s', async (_, input, code) => {
    const tenant = await newTenant()
    expect((await createKey(await createCreator(tenant), input)).body.code).toBe(code)
    expect((await tenant.get('/workspaces/current/api-keys')).body.resources).toHaveLength(2)
  })

  it('can grant the permissions that it has', async () => {
    const tenant = await newTenant()
    expect(
      (await createKey(await createCreator(tenant), { role_id: ADMIN, permissions: ['deployments:read'] })).status,
    ).toBe(201)
  })

  it('creates keys with its own expiry by default, and cannot set a later one', async () => {
    const tenant = await newTenant()
    const expires_at = new Date(Date.now() + HOUR).toISOString()
    const expiring = tenant.as((await createKey(tenant, { expires_at })).body.key)
    const later = new Date(Date.now() + 2 * HOUR).toISOString()
    expect((await createKey(expiring, { expires_at: later })).body.code).toBe('key_outlives_creator')
    expect((await createKey(expiring, {})).body.expires_at).toBe(expires_at)
  })

  it('cannot create an organization key if it belongs to a workspace', async () => {
    const tenant = await newTenant()
    const refused = await tenant.post('/orgs/current/api-keys', { description: 'up' })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
  })
})

describe('an organization key', () => {
  it('creates an Admin key of a workspace when no role is named', async () => {
    const { owner, tenant_id } = await newTenant()
    const { body } = await owner.post(
      '/workspaces/current/api-keys',
      { description: 'x' },
      { 'X-Tenant-Id': tenant_id },
    )
    expect(body).toMatchObject({ role_id: ADMIN, permissions: null, tenant_id })
  })

  it('uses the workspace named in the request, and must name one', async () => {
    const { owner, tenant_id } = await newTenant()
    expect((await owner.get('/workspaces/current/api-keys', { 'X-Tenant-Id': tenant_id })).status).toBe(200)
    const without = await owner.get('/workspaces/current/api-keys')
    expect([without.status, without.body.code]).toEqual([403, 'workspace_required'])
    // Clients match this text, so it is part of the API.
    expect(without.body.detail).toContain('requires workspace specification')
    expect((await owner.get('/workspaces/current/api-keys', { 'X-Tenant-Id': unusedId() })).body.code).toBe(
      'workspace_forbidden',
    )
    expect((await owner.get('/workspaces/current/api-keys', { 'X-Tenant-Id': 'mine' })).status).toBe(422)
  })

  it('can have a workspace role, in every workspace', async () => {
    const { owner, as, tenant_id } = await newTenant()
    const { key } = (await owner.post('/orgs/current/api-keys', { description: 'reader', role_id: VIEWER })).body
    expect((await as(key).get('/workspaces/current/members', { 'X-Tenant-Id': tenant_id })).status).toBe(200)
    expect((await as(key).get('/orgs/current/api-keys')).body.code).toBe('permission_missing')
  })

  it('sees and revokes every key of the organization', async () => {
    const tenant = await newTenant()
    const { id } = (await createKey(tenant, {})).body
    const { resources } = (await tenant.owner.get('/orgs/current/api-keys')).body
    expect(resources).toHaveLength(3)
    expect((await tenant.owner.delete(`/orgs/current/api-keys/${id}`)).status).toBe(204)
    expect((await tenant.get('/workspaces/current/api-keys')).body.resources).toHaveLength(1)
  })
})
