import { describe, expect, it } from 'vitest'
import { permissionNames } from '../../../src/kernel/permissions.ts'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { newTenant, unusedId } from '../../support/app.ts'

const listNames = (roles: { display_name: string }[]) => roles.map(role => role.display_name).sort()

describe('roles', () => {
  it('that manage keys may do so by each of the permissions of keys', async () => {
    const { owner } = await newTenant()
    const role = { display_name: unusedId(), permissions: ['workspaces:manage-keys'] }
    const { permissions } = (await owner.post('/orgs/current/roles', role)).body
    expect(permissions).toEqual(['workspaces:manage-keys', 'api-keys:read', 'api-keys:create', 'api-keys:delete'])
  })

  it('are the six built-in roles and those of the organization', async () => {
    const tenant = await newTenant()
    const created = await tenant.owner.post('/orgs/current/roles', {
      display_name: 'Operator',
      permissions: ['deployments:read'],
    })
    expect(created.status).toBe(201)
    expect(created.body).toMatchObject({ scope: 'workspace', description: '', organization_id: tenant.organization_id })
    const { resources } = (await tenant.get('/orgs/current/roles')).body
    expect(listNames(resources)).toEqual([
      'Admin',
      'Auditor',
      'Editor',
      'Operator',
      'Organization Admin',
      'Organization User',
      'Viewer',
    ])
    for (const role of resources) expect(permissionNames).toEqual(expect.arrayContaining(role.permissions))
    expect((await tenant.get(created.headers.get('Location')!)).body).toEqual(created.body)
  })

  it('have the documented permissions', async () => {
    const tenant = await newTenant()
    const { resources } = (await tenant.get('/orgs/current/roles')).body
    const listRolesWith = (permission: string) =>
      listNames(resources.filter((role: { permissions: string[] }) => role.permissions.includes(permission)))
    expect(listRolesWith('deployments:read')).toEqual(['Admin', 'Editor', 'Organization Admin', 'Viewer'])
    expect(listRolesWith('deployments:create')).toEqual(['Admin', 'Editor', 'Organization Admin'])
    expect(listRolesWith('deployments:update')).toEqual(['Admin', 'Editor', 'Organization Admin'])
    expect(listRolesWith('deployments:delete')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('deployments:exec')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('deployments:copy-database')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('projects:increase-trace-tier')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('projects:decrease-trace-tier')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('fleet-admin:read')).toEqual(['Organization Admin'])
    expect(listRolesWith('workspaces:manage-keys')).toEqual(['Admin', 'Organization Admin'])
    expect(listRolesWith('feedback-configs:create')).toEqual(['Admin', 'Editor', 'Organization Admin'])
    expect(listRolesWith('feedback-configs:delete')).toEqual(['Admin', 'Editor', 'Organization Admin'])
    expect(listRolesWith('projects:update-retention')).toEqual([])
  })

  it('can be changed and deleted, unless they are built in or in use', async () => {
    const { owner, tenant_id } = await newTenant()
    const { id } = (
      await owner.post('/orgs/current/roles', { display_name: 'Operator', permissions: ['deployments:read'] })
    ).body
    const path = `/orgs/current/roles/${id}`
    expect((await owner.patch(path, { permissions: ['deployments:update'] })).body).toMatchObject({
      display_name: 'Operator',
      permissions: ['deployments:update'],
    })
    const key = await owner.post(
      '/workspaces/current/api-keys',
      { description: 'x', role_id: id },
      { 'X-Tenant-Id': tenant_id },
    )
    expect((await owner.delete(path)).body.code).toBe('role_in_use')
    expect(key.status).toBe(201)
    const free = (await owner.post('/orgs/current/roles', { display_name: 'Free', permissions: [] })).body.id
    expect((await owner.delete(`/orgs/current/roles/${free}`)).status).toBe(204)
    expect((await owner.delete(`/orgs/current/roles/${free}`)).body.code).toBe('role_not_found')
    expect((await owner.patch(`/orgs/current/roles/${VIEWER}`, { display_name: 'Mine' })).body.code).toBe(
      'role_built_in',
    )
    expect((await owner.delete(`/orgs/current/roles/${VIEWER}`)).body.code).toBe('role_built_in')
    expect((await owner.get(`/orgs/current/roles/${unusedId()}`)).body.code).toBe('role_not_found')
  })

  it('have unique names within their organization', async () => {
    const [first, second] = await Promise.all([newTenant(), newTenant()])
    const role = { display_name: 'Operator', permissions: [] }
    expect((await first.owner.post('/orgs/current/roles', role)).status).toBe(201)
    expect((await second.owner.post('/orgs/current/roles', role)).status).toBe(201)
    expect((await first.owner.post('/orgs/current/roles', role)).body.code).toBe('role_name_taken')
  })

  it('in a workspace cannot have permissions of the organization', async () => {
    const { owner } = await newTenant()
    const permissions = ['deployments:read', 'organization:manage-keys', 'fleet-admin:read']
    const refused = await owner.post('/orgs/current/roles', { display_name: 'Too much', permissions })
    expect(refused.body.errors.map((fault: { loc: unknown }) => fault.loc)).toEqual([
      ['body', 'permissions', 1],
      ['body', 'permissions', 2],
    ])
    expect(
      (await owner.post('/orgs/current/roles', { display_name: 'Wide', scope: 'organization', permissions })).status,
    ).toBe(201)
    const { id } = (await owner.post('/orgs/current/roles', { display_name: 'Narrow', permissions: [] })).body
    expect((await owner.patch(`/orgs/current/roles/${id}`, { permissions })).body.code).toBe('permission_beyond_scope')
  })

  it('cannot get a permission that the caller lacks', async () => {
    const { owner, as } = await newTenant()
    const permissions = ['organization:read', 'organization:manage-roles', 'organization:manage-keys']
    const clerk = (
      await owner.post('/orgs/current/roles', { display_name: 'Clerk', scope: 'organization', permissions })
    ).body.id
    const { key } = (await owner.post('/orgs/current/api-keys', { description: 'clerk', role_id: clerk })).body
    const wide = [...permissions, 'workspaces:delete']
    expect(
      (await as(key).post('/orgs/current/roles', { display_name: 'W', scope: 'organization', permissions: wide })).body
        .code,
    ).toBe('role_exceeds_actor')
    expect((await as(key).patch(`/orgs/current/roles/${clerk}`, { permissions: wide })).body.code).toBe(
      'role_exceeds_actor',
    )
    expect((await as(key).patch(`/orgs/current/roles/${clerk}`, { permissions })).status).toBe(200)
  })

  it('cannot have unknown permissions, such as one that was replaced', async () => {
    const { owner } = await newTenant()
    const refused = await owner.post('/orgs/current/roles', {
      display_name: 'Old',
      permissions: ['projects:update-retention'],
    })
    expect([refused.status, refused.body.errors[0].loc]).toEqual([422, ['body', 'permissions', 0]])
  })

  it('are made of permissions that can be listed, each with its scope', async () => {
    const { resources } = (await (await newTenant()).get('/orgs/current/permissions')).body
    expect(resources.map((one: { name: string }) => one.name)).toEqual(permissionNames)
    expect(resources.find((one: { name: string }) => one.name === 'workspaces:create').scope).toBe('organization')
  })
})
