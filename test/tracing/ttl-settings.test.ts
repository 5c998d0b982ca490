// The retention that projects inherit from their workspace and its organization.
import { describe, expect, it } from 'vitest'
import { newTenant, type Reply, type Tenant, unusedId } from '../support/app.ts'
import { newDeployment } from '../support/deployments.ts'
import { storeRuns } from '../support/runs.ts'

const outcome = ({ status, body }: Reply) => [status, body?.code]
const LONG = { default_trace_tier: 'longlived' }
const SHORT = { default_trace_tier: 'shortlived' }
const tierOfNew = async (tenant: Tenant) => (await tenant.post('/sessions', {})).body.trace_tier
const tiersOf = async (tenant: Tenant): Promise<string[]> =>
  (await tenant.get('/sessions')).body.map(({ trace_tier }: { trace_tier: string }) => trace_tier)

describe('the tier of new projects', () => {
  it('is that of the workspace, or of the organization, or short-lived', async () => {
    const tenant = await newTenant()
    expect((await tenant.get('/ttl-settings')).body).toMatchObject([
      { ...SHORT, tenant_id: tenant.tenant_id, configured_by: 'system', longlived_ttl_days: 400 },
    ])
    expect(await tierOfNew(tenant)).toBe('shortlived')
    expect((await tenant.owner.put('/orgs/ttl-settings', LONG)).body).toMatchObject({ ...LONG, tenant_id: null })
    expect(await tierOfNew(tenant)).toBe('longlived')
    expect((await tenant.put('/ttl-settings', SHORT)).body).toMatchObject({ ...SHORT, configured_by: 'user' })
    expect(await tierOfNew(tenant)).toBe('shortlived')
    const inside = { ...LONG, tenant_id: tenant.tenant_id }
    expect((await tenant.owner.put('/orgs/ttl-settings', inside)).body).toMatchObject(inside)
    expect((await tenant.get('/ttl-settings')).body).toMatchObject([{ ...LONG, configured_by: 'user' }])
    expect((await tenant.owner.get('/orgs/ttl-settings')).body).toMatchObject([
      { ...LONG, tenant_id: null },
      { ...LONG, tenant_id: tenant.tenant_id },
    ])
  })

  it('is also that of projects of deployments, and of those that runs create', async () => {
    const tenant = await newTenant()
    await tenant.put('/ttl-settings', LONG)
    await newDeployment(tenant)
    await storeRuns(tenant, [{ session_name: 'new' }])
    expect(await tiersOf(tenant)).toEqual(['longlived', 'longlived'])
  })

  it('is set for the projects that exist too, if that is asked for', async () => {
    const tenant = await newTenant()
    await tenant.post('/sessions', {})
    await tenant.put('/ttl-settings', LONG)
    expect(await tiersOf(tenant)).toEqual(['shortlived'])
    const reply = await tenant.put('/ttl-settings', { ...LONG, apply_to_all_projects: true })
    expect(reply.body.apply_to_all_projects).toBe(true)
    expect(await tiersOf(tenant)).toEqual(['longlived'])
    const refused = await tenant.owner.put('/orgs/ttl-settings', { ...SHORT, apply_to_all_projects: true })
    expect(outcome(refused)).toEqual([422, 'invalid_request'])
  })

  it('is set for workspaces of one’s own', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const foreign = { ...LONG, tenant_id: other.tenant_id }
    expect(outcome(await tenant.put('/ttl-settings', foreign))).toEqual([403, 'workspace_forbidden'])
    expect(outcome(await tenant.owner.put('/orgs/ttl-settings', foreign))).toEqual([404, 'workspace_not_found'])
    expect(await tierOfNew(other)).toBe('shortlived')
  })
})

describe('the days of long-lived traces', () => {
  it('are those of the workspace', async () => {
    const tenant = await newTenant()
    const path = '/workspaces/current/ttl-settings'
    expect((await tenant.get(path)).body).toEqual({
      tenant_id: tenant.tenant_id,
      longlived_ttl_days: 400,
      is_custom: false,
    })
    await tenant.put(path, { longlived_ttl_days: 30 })
    expect((await tenant.get(path)).body).toMatchObject({ longlived_ttl_days: 30, is_custom: true })
    expect((await tenant.get('/ttl-settings')).body).toMatchObject([{ ...SHORT, longlived_ttl_days: 30 }])
    for (const longlived_ttl_days of [13, 401, null])
      expect(outcome(await tenant.put(path, { longlived_ttl_days }))).toEqual([422, 'invalid_request'])
  })
})

it.each<[string, Parameters<Tenant['put']>, Parameters<Tenant['put']>, string]>([
  [
    'more days',
    ['/workspaces/current/ttl-settings', { longlived_ttl_days: 30 }],
    ['/workspaces/current/ttl-settings', { longlived_ttl_days: 31 }],
    'projects:increase-trace-tier',
  ],
  [
    'fewer days',
    ['/workspaces/current/ttl-settings', { longlived_ttl_days: 30 }],
    ['/workspaces/current/ttl-settings', { longlived_ttl_days: 29 }],
    'projects:decrease-trace-tier',
  ],
  ['the longer tier', ['/ttl-settings', SHORT], ['/ttl-settings', LONG], 'projects:increase-trace-tier'],
  ['the shorter tier', ['/ttl-settings', LONG], ['/ttl-settings', SHORT], 'projects:decrease-trace-tier'],
])('%s take the permission for it', async (_, before, after, needed) => {
  const tenant = await newTenant()
  await tenant.put(...before)
  const attempt = async (permissions: string[]) => {
    const body = { description: unusedId(), permissions }
    const { key } = (await tenant.post('/workspaces/current/api-keys', body)).body
    return outcome(await tenant.as(key).put(...after))
  }
  expect(await attempt(['projects:update'])).toEqual([403, 'permission_missing'])
  expect(await attempt(['projects:update', needed])).toEqual([200, undefined])
})
