import { describe, expect, it } from 'vitest'
import {
  ADMIN,
  EDITOR,
  ORGANIZATION_ADMIN,
  ORGANIZATION_USER,
  VIEWER,
} from '../../../src/people/access/built-in-roles.ts'
import { newTenant, startApp, unusedId } from '../../support/app.ts'
import { insertKeys } from '../../support/entries.ts'
import { vouchFor } from '../../support/instance-admins.ts'
import { newSession } from '../../support/sessions.ts'

describe('members of the organization', () => {
  it('can be added, read, listed, changed and removed', async () => {
    const { owner } = await newTenant()
    const added = await owner.post('/orgs/current/members', { email: ' Ada@Example.com ', full_name: 'Ada' })
    expect(added.status).toBe(201)
    expect(added.body).toMatchObject({
      email: 'ada@example.com',
      full_name: 'Ada',
      role_id: ORGANIZATION_USER,
      is_instance_admin: false,
    })
    const path = added.headers.get('Location')!
    expect((await owner.patch(path, { role_id: ORGANIZATION_ADMIN })).body).toMatchObject({
      full_name: 'Ada',
      role_id: ORGANIZATION_ADMIN,
    })
    expect((await owner.get(path)).body.role_id).toBe(ORGANIZATION_ADMIN)
    expect(
      (await owner.get('/orgs/current/members')).body.resources.map((one: { email: string }) => one.email),
    ).toEqual(['ada@example.com', 'owner@example.com'])
    expect((await owner.delete(path)).status).toBe(204)
    expect((await owner.get(path)).body.code).toBe('member_not_found')
  })

  it('say when their last session was used, in the organization and in a workspace', async () => {
    const tenant = await newTenant()
    const { member_id } = await newSession(tenant, { workspaceRole: VIEWER })
    type Seen = { email: string; last_seen_at: string | null }
    const seen = async (path: string): Promise<(string | null)[]> =>
      (await tenant.owner.get(path, { 'X-Tenant-Id': tenant.tenant_id })).body.resources
        .toSorted((a: Seen, b: Seen) => (a.email < b.email ? -1 : 1))
        .map((one: Seen) => one.last_seen_at)
    for (const path of ['/orgs/current/members', '/workspaces/current/members'])
      expect(await seen(path)).toEqual([expect.stringMatching(/^20\d\d-.*Z$/), null])
    expect((await tenant.owner.get(`/orgs/current/members/${member_id}`)).body.last_seen_at).not.toBeNull()
  })

  it('cannot be added twice', async () => {
    const { owner } = await newTenant()
    expect((await owner.post('/orgs/current/members', { email: 'OWNER@example.com' })).body.code).toBe('member_exists')
  })

  it('have an organization role, not a workspace role', async () => {
    const { owner } = await newTenant()
    expect((await owner.post('/orgs/current/members', { email: 'a@example.com', role_id: EDITOR })).body.code).toBe(
      'role_not_found',
    )
    expect((await owner.post('/orgs/current/members', { email: 'a@example.com', role_id: unusedId() })).body.code).toBe(
      'role_not_found',
    )
  })

  it('always include an Organization Admin', async () => {
    const { owner } = await newTenant()
    const [{ id }] = (await owner.get('/orgs/current/members')).body.resources
    const demoted = await owner.patch(`/orgs/current/members/${id}`, { role_id: ORGANIZATION_USER })
    expect([demoted.status, demoted.body.code]).toEqual([400, 'last_organization_admin'])
    expect((await owner.delete(`/orgs/current/members/${id}`)).status).toBe(400)
    await owner.post('/orgs/current/members', { email: 'second@example.com', role_id: ORGANIZATION_ADMIN })
    expect((await owner.patch(`/orgs/current/members/${id}`, { role_id: ORGANIZATION_USER })).status).toBe(200)
  })

  it.each(['INSTANCE_ADMIN_EMAILS', 'USAGE_EXPORT_ADMIN_EMAILS'])(
    'are instance admins when %s names them and the identity provider vouches for them',
    async setting => {
      const app = startApp({ settings: { [setting]: 'someone@example.com, Owner@example.com' } })
      const { owner } = await newTenant({ app })
      const isAdmin = async () => (await owner.get('/orgs/current/members')).body.resources[0].is_instance_admin
      expect(await isAdmin()).toBe(false)
      await vouchFor('owner@example.com', app, false)
      expect(await isAdmin()).toBe(false)
      await vouchFor('owner@example.com', app)
      expect(await isAdmin()).toBe(true)
    },
  )
})

describe('members of a workspace', () => {
  it('can be added by e-mail or by id, changed and removed', async () => {
    const tenant = await newTenant()
    const added = await tenant.post('/workspaces/current/members', {
      email: 'ada@example.com',
      full_name: 'Ada',
      role_id: EDITOR,
    })
    expect(added.status).toBe(201)
    expect(added.body).toMatchObject({
      tenant_id: tenant.tenant_id,
      email: 'ada@example.com',
      full_name: 'Ada',
      role_id: EDITOR,
    })
    const joined = await tenant.owner.get(`/orgs/current/members/${added.body.member_id}`)
    expect(joined.body.role_id).toBe(ORGANIZATION_USER)
    const path = `/workspaces/current/members/${added.body.id}`
    expect((await tenant.patch(path, { role_id: ADMIN })).body).toMatchObject({
      role_id: ADMIN,
      email: 'ada@example.com',
    })
    expect((await tenant.delete(path)).status).toBe(204)
    expect((await tenant.delete(path)).body.code).toBe('member_not_found')
    expect((await tenant.post('/workspaces/current/members', { member_id: added.body.member_id })).status).toBe(201)
    expect((await tenant.post('/workspaces/current/members', { member_id: added.body.member_id })).body.code).toBe(
      'workspace_member_exists',
    )
    expect((await tenant.post('/workspaces/current/members', { member_id: unusedId() })).body.code).toBe(
      'member_not_found',
    )
    expect((await tenant.post('/workspaces/current/members', {})).status).toBe(422)
  })

  it('are Admins by default, unless RBAC requires a role', async () => {
    const tenant = await newTenant()
    expect((await tenant.post('/workspaces/current/members', { email: 'a@example.com' })).body.role_id).toBe(ADMIN)
    await tenant.owner.patch('/orgs/current', { rbac_enabled: true })
    for (const role_id of [undefined, null]) {
      const refused = await tenant.post('/workspaces/current/members', { email: 'b@example.com', role_id })
      expect([refused.status, refused.body.code]).toEqual([400, 'role_required'])
    }
    expect((await tenant.get('/workspaces/current/members')).body.resources).toHaveLength(2)
    expect((await tenant.owner.get('/orgs/current/members')).body.resources).toHaveLength(2)
    expect((await tenant.post('/workspaces/current/members', { email: 'b@example.com', role_id: EDITOR })).status).toBe(
      201,
    )
  })

  it.each([{}, { email: 'not an address' }, { email: 5, unknown: true }, { member_id: 'x', read_only: true }])(
    'need a role with RBAC before anything else: %j',
    async body => {
      const tenant = await newTenant()
      expect((await tenant.post('/workspaces/current/members', body)).status).toBe(422)
      await tenant.owner.patch('/orgs/current', { rbac_enabled: true })
      const refused = await tenant.post('/workspaces/current/members', body)
      expect([refused.status, refused.body.code]).toEqual([400, 'role_required'])
      for (const role of ['role_id', 'workspace_role_id'])
        expect((await tenant.post('/workspaces/current/members', { ...body, [role]: EDITOR })).status).toBe(422)
      expect((await tenant.post('/workspaces/current/members', body, { 'X-Tenant-Id': 'x' })).status).toBe(422)
      const [key] = await insertKeys(tenant, [{ tenant_id: tenant.tenant_id, role_id: VIEWER }])
      expect((await tenant.as(key!).post('/workspaces/current/members', body)).body.code).toBe('permission_missing')
    },
  )

  it.each(['org_identity_id', 'user_id', 'ls_user_id'])('are named by %s and workspace_role_id, too', async name => {
    const tenant = await newTenant()
    const { id } = (await tenant.owner.post('/orgs/current/members', { email: 'ada@example.com' })).body
    const body = { [name]: id, workspace_role_id: EDITOR, read_only: false }
    const contradictions = { member_id: unusedId(), role_id: VIEWER }
    const refused = await tenant.post('/workspaces/current/members', { ...body, ...contradictions })
    expect(refused.body.errors.map(({ loc }: { loc: string[] }) => loc[1])).toEqual([name, 'workspace_role_id'])
    const { status, body: added } = await tenant.post('/workspaces/current/members', body)
    expect([status, added.member_id, added.role_id]).toEqual([201, id, EDITOR])
  })

  it('are Viewers if they are read-only, unless RBAC requires a role', async () => {
    const tenant = await newTenant()
    const readOnly = { email: 'a@example.com', read_only: true }
    expect((await tenant.post('/workspaces/current/members', readOnly)).body.role_id).toBe(VIEWER)
    await tenant.owner.patch('/orgs/current', { rbac_enabled: true })
    const refused = await tenant.post('/workspaces/current/members', { ...readOnly, email: 'b@example.com' })
    expect(refused.body.code).toBe('role_required')
  })

  it('always include an Admin', async () => {
    const tenant = await newTenant()
    const [{ id, member_id }] = (await tenant.get('/workspaces/current/members')).body.resources
    const path = `/workspaces/current/members/${id}`
    const demoted = await tenant.patch(path, { role_id: EDITOR })
    expect([demoted.status, demoted.body.code]).toEqual([400, 'last_admin'])
    expect((await tenant.delete(path)).body.code).toBe('last_admin')
    await tenant.owner.post('/orgs/current/members', { email: 'b@example.com', role_id: ORGANIZATION_ADMIN })
    expect((await tenant.owner.delete(`/orgs/current/members/${member_id}`)).body.code).toBe('last_admin')
    await tenant.post('/workspaces/current/members', { email: 'b@example.com' })
    expect((await tenant.owner.delete(`/orgs/current/members/${member_id}`)).status).toBe(204)
  })

  it('keep one Admin when two are removed at the same time', async () => {
    const tenant = await newTenant()
    await tenant.post('/workspaces/current/members', { email: 'b@example.com' })
    for (let round = 0; round < 10; round++) {
      const { resources } = (await tenant.get('/workspaces/current/members')).body
      const replies = await Promise.all(
        resources.map(({ id }: { id: string }) =>
          tenant.patch(`/workspaces/current/members/${id}`, { role_id: EDITOR }),
        ),
      )
      expect(replies.map(reply => reply.status).sort()).toEqual([200, 400])
      const demoted = replies.find(reply => reply.status === 200)!.body.id
      expect((await tenant.patch(`/workspaces/current/members/${demoted}`, { role_id: ADMIN })).status).toBe(200)
    }
  })

  it('cannot get a role with more permissions than the caller has', async () => {
    const { owner, as, tenant_id } = await newTenant()
    const permissions = ['workspaces:manage-members', 'deployments:read']
    const role = (await owner.post('/orgs/current/roles', { display_name: 'Clerk', permissions })).body.id
    const { key } = (
      await owner.post(
        '/workspaces/current/api-keys',
        { description: 'clerk', role_id: role },
        { 'X-Tenant-Id': tenant_id },
      )
    ).body
    const refused = await as(key).post('/workspaces/current/members', { email: 'a@example.com', role_id: ADMIN })
    expect([refused.status, refused.body.code]).toEqual([403, 'role_exceeds_actor'])
    expect((await as(key).post('/workspaces/current/members', { email: 'a@example.com', role_id: role })).status).toBe(
      201,
    )
  })
})
