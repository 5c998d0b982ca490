import { describe, expect, it } from 'vitest'
import { newTenant, startApp, unusedId } from '../../support/app.ts'

describe('the organization', () => {
  it('can be read with any of its keys', async () => {
    const tenant = await newTenant()
    const { status, body, headers } = await tenant.get('/orgs/current/info')
    expect(status).toBe(200)
    expect(body).toMatchObject({ id: tenant.organization_id, rbac_enabled: false })
    expect(headers.get('ETag')).toBe('"1"')
  })

  it('can be renamed with the permission, and a missing or null field changes nothing', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.owner.patch('/orgs/current', { display_name: ' Acme ', rbac_enabled: null })
    expect(body).toMatchObject({ display_name: 'Acme', rbac_enabled: false })
    expect((await tenant.owner.patch('/orgs/current', { rbac_enabled: true })).body).toMatchObject({
      display_name: 'Acme',
      rbac_enabled: true,
    })
    expect((await tenant.patch('/orgs/current', { display_name: 'Mine' })).body.code).toBe('permission_missing')
  })

  it('has what clients of the reference read, and is changed by the path where they read it', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.get('/orgs/current/info')
    expect(body).toMatchObject({
      config: { can_use_rbac: true, can_use_abac: true, can_use_audit_logs: true },
      tier: null,
      is_personal: false,
      disabled: false,
      sso_only: false,
      jit_provisioning_enabled: false,
      invites_enabled: true,
      public_sharing_disabled: false,
      pat_creation_disabled: false,
    })
    expect(body.permissions).toContain('workspaces:manage-members')
    expect(body.permissions).not.toContain('organization:update')
    const changed = await tenant.owner.patch('/orgs/current/info', { display_name: 'Acme' })
    expect(changed.body).toMatchObject({ display_name: 'Acme' })
    expect(changed.body.permissions).toContain('organization:update')
    expect(changed.body).toEqual((await tenant.owner.get('/orgs/current/info')).body)
    expect((await tenant.owner.patch('/orgs/current/info', { public_sharing_disabled: true })).status).toBe(422)
  })

  it('says whether people of a domain join it', async () => {
    const { organization_id } = await newTenant()
    const settings = {
      OIDC_ISSUER: 'https://login.example.com',
      OIDC_CLIENT_ID: 'slipway',
      OIDC_CLIENT_SECRET: 'hunter2',
    }
    const app = startApp({
      settings: { ...settings, OIDC_ALLOWED_DOMAINS: `example.com=${organization_id}`, ABAC: 'off' },
    })
    const other = await newTenant({ app })
    expect((await other.get('/orgs/current/info')).body).toMatchObject({
      config: { can_use_abac: false },
      jit_provisioning_enabled: false,
    })
  })

  it('is changed only if If-Match names its current version', async () => {
    const { owner } = await newTenant()
    const first = (await owner.get('/orgs/current/info')).headers.get('ETag')!
    const changed = await owner.patch('/orgs/current', { display_name: 'A' }, { 'If-Match': first })
    expect(changed.headers.get('ETag')).toBe('"2"')
    for (const stale of [first, 'W/"2"', '"other"', '""']) {
      expect((await owner.patch('/orgs/current', { display_name: 'B' }, { 'If-Match': stale })).status).toBe(412)
    }
    expect((await owner.patch('/orgs/current', { display_name: 'B' }, { 'If-Match': '"9", "2"' })).status).toBe(200)
    expect((await owner.patch('/orgs/current', { display_name: 'C' }, { 'If-Match': '*' })).status).toBe(200)
  })

  it('answers 304 when If-None-Match names its current version', async () => {
    const tenant = await newTenant()
    const known = (await tenant.get('/orgs/current/info')).headers.get('ETag')!
    for (const tag of [known, `W/${known}`, `"0", ${known}`, '*']) {
      const reply = await tenant.get('/orgs/current/info', { 'If-None-Match': tag })
      expect(reply.status).toBe(304)
      expect(reply.text).toBe('')
    }
    expect((await tenant.get('/orgs/current/info', { 'If-None-Match': '"0"' })).status).toBe(200)
  })
})

describe('workspaces', () => {
  it('can be created, read, listed, renamed and deleted with an organization key', async () => {
    const { owner, tenant_id } = await newTenant()
    const created = await owner.post('/workspaces', { display_name: 'Staging' })
    expect(created.status).toBe(201)
    expect(created.body).toMatchObject({ display_name: 'Staging', require_if_match: false })
    const path = created.headers.get('Location')!
    expect((await owner.get(path)).body).toEqual(created.body)
    expect((await owner.get('/workspaces')).body.resources.map((one: { id: string }) => one.id)).toEqual([
      created.body.id,
      tenant_id,
    ])
    expect((await owner.patch(path, { display_name: 'Production' })).body.display_name).toBe('Production')
    expect((await owner.delete(path)).status).toBe(204)
    expect((await owner.get(path)).body.code).toBe('workspace_not_found')
    expect((await owner.delete(path)).status).toBe(404)
  })

  it('have unique names within their organization', async () => {
    const [first, second] = await Promise.all([newTenant(), newTenant()])
    expect((await first.owner.post('/workspaces', { display_name: 'Staging' })).status).toBe(201)
    expect((await second.owner.post('/workspaces', { display_name: 'Staging' })).status).toBe(201)
    const again = await first.owner.post('/workspaces', { display_name: 'Staging' })
    expect([again.status, again.body.code]).toEqual([409, 'workspace_name_taken'])
    const renamed = await first.owner.patch(`/workspaces/${first.tenant_id}`, { display_name: 'Staging' })
    expect(renamed.body.code).toBe('workspace_name_taken')
  })

  it('are visible to a workspace key only if it belongs to them', async () => {
    const tenant = await newTenant()
    const other = (await tenant.owner.post('/workspaces', { display_name: 'Other' })).body.id
    expect((await tenant.get('/workspaces')).body.resources).toHaveLength(1)
    expect((await tenant.get(`/workspaces/${tenant.tenant_id}`)).status).toBe(200)
    expect((await tenant.get(`/workspaces/${other}`)).status).toBe(404)
    expect((await tenant.patch(`/workspaces/${other}`, { display_name: 'Mine' })).status).toBe(404)
    expect((await tenant.patch(`/workspaces/${tenant.tenant_id}`, { display_name: 'Mine' })).status).toBe(200)
    expect((await tenant.get('/workspaces', { 'X-Tenant-Id': other })).body.code).toBe('workspace_forbidden')
  })

  it('are deleted with their keys and members', async () => {
    const { owner, as } = await newTenant()
    const { id } = (await owner.post('/workspaces', { display_name: 'Short' })).body
    const inside = { 'X-Tenant-Id': id }
    const { key } = (
      await owner.post(
        '/workspaces/current/api-keys',
        { description: 'inside', role_id: '00000000-0000-4000-8000-000000000001' },
        inside,
      )
    ).body
    await owner.post('/workspaces/current/members', { email: 'owner@example.com' }, inside)
    expect((await as(key).get('/workspaces/current/members')).body.resources).toHaveLength(1)
    expect((await owner.delete(`/workspaces/${id}`)).status).toBe(204)
    expect((await as(key).get('/workspaces')).body.code).toBe('key_unknown')
    expect((await owner.get('/workspaces/current/members', inside)).body.code).toBe('workspace_forbidden')
  })

  it('can require If-Match for every change', async () => {
    const tenant = await newTenant()
    const path = `/workspaces/${tenant.tenant_id}`
    expect((await tenant.patch(path, { require_if_match: true })).status).toBe(200)
    const unconditional = await tenant.patch(path, { display_name: 'X' })
    expect([unconditional.status, unconditional.body.code]).toEqual([428, 'if_match_required'])
    expect((await tenant.owner.patch(path, { display_name: 'X' })).body.code).toBe('if_match_required')
    expect((await tenant.owner.delete(path)).body.code).toBe('if_match_required')
    const tag = (await tenant.get(path)).headers.get('ETag')!
    expect((await tenant.patch(path, { display_name: 'X' }, { 'If-Match': tag })).status).toBe(200)
    expect((await tenant.post('/workspaces/current/api-keys', { description: 'unconditional' })).status).toBe(201)
  })

  it('are not found under an unknown id', async () => {
    const { owner } = await newTenant()
    for (const reply of [
      await owner.get(`/workspaces/${unusedId()}`),
      await owner.delete(`/workspaces/${unusedId()}`),
    ]) {
      expect([reply.status, reply.body.code]).toEqual([404, 'workspace_not_found'])
    }
  })
})
