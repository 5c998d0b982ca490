// Access policies: created, attached, deleted, and what they decide.
import { beforeAll, describe, expect, it } from 'vitest'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { operators } from '../../../src/people/access/policies.schema.ts'
import {
  allow,
  deny,
  hasTag,
  newLimitedCaller,
  newPolicy,
  newRole,
  newTaggedDeployment,
  POLICIES,
} from '../../support/access-policies.ts'
import { newTenant, startApp, type Tenant, unusedId } from '../../support/app.ts'

const READ = 'deployments:read'
const UPDATE = 'deployments:update'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

describe('access policies', () => {
  const policy = deny(UPDATE, hasTag('Environment', 'production'))

  it('are created, listed, read and deleted', async () => {
    const { owner } = await newTenant()
    const created = await owner.post(POLICIES, { ...policy, description: 'Ask Ada.', role_ids: [VIEWER] })
    expect([created.status, Object.keys(created.body)]).toEqual([201, ['id']])
    const read = await owner.get(created.headers.get('Location')!)
    expect(read.body).toMatchObject({ ...policy, id: created.body.id, description: 'Ask Ada.', role_ids: [VIEWER] })
    expect(read.body.condition_groups[0].conditions[0].attribute_name).toBe('resource_tag_key')
    expect((await owner.get(POLICIES)).body).toEqual({ access_policies: [read.body] })
    expect((await owner.delete(`${POLICIES}/${created.body.id}`)).status).toBe(204)
    expect((await owner.get(`${POLICIES}/${created.body.id}`)).body.code).toBe('access_policy_not_found')
    expect((await owner.get(POLICIES)).body).toEqual({ access_policies: [] })
  })

  it('are attached to roles and detached from them', async () => {
    const { owner } = await newTenant()
    const role = (await owner.post('/orgs/current/roles', { display_name: 'Operator', permissions: [] })).body.id
    const { id } = (await owner.post(POLICIES, policy)).body
    const path = `${POLICIES}/roles/${role}/access-policies`
    for (let i = 0; i < 2; i++) {
      expect((await owner.post(path, { access_policy_ids: [id, id] })).status).toBe(204)
      expect((await owner.get(`${POLICIES}/${id}`)).body.role_ids).toEqual([role])
    }
    expect((await owner.delete(`${path}/${id}`)).status).toBe(204)
    expect((await owner.get(`${POLICIES}/${id}`)).body.role_ids).toEqual([])
    expect((await owner.delete(`${path}/${id}`)).body.code).toBe('access_policy_not_found')
    const audit = '/v1/audit-logs?start_time=2026-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&succeeded=true&limit=4'
    const { items } = (await owner.get(audit)).body
    expect(items.map((item: { api: { operation: string } }) => item.api.operation)).toEqual([
      'detach_access_policy',
      'attach_access_policies',
      'attach_access_policies',
      'create_access_policy',
    ])
    expect(items[0].unmapped.events[0]).toMatchObject({
      subject_id: role,
      changes: [{ path: 'access_policy_ids', before: [id], after: [] }],
    })
  })

  it('name roles and policies of their organization only', async () => {
    const other = await newTenant()
    const foreign = (await other.owner.post('/orgs/current/roles', { display_name: 'Theirs', permissions: [] })).body.id
    const created = await tenant.owner.post(POLICIES, { ...policy, role_ids: [foreign] })
    expect([created.status, created.body.code]).toEqual([404, 'role_not_found'])
    const id = await newPolicy(tenant, policy)
    for (const [by, role, status] of [
      [other.owner, foreign, 'access_policy_not_found'],
      [tenant.owner, foreign, 'role_not_found'],
    ] as const) {
      const path = `${POLICIES}/roles/${role}/access-policies`
      expect((await by.post(path, { access_policy_ids: [id] })).body.code).toBe(status)
    }
    expect((await other.owner.get(`${POLICIES}/${id}`)).status).toBe(404)
    expect((await other.owner.delete(`${POLICIES}/${id}`)).status).toBe(404)
  })

  it('attached to a built-in role do not concern other organizations', async () => {
    const [one, two] = await Promise.all([newTenant(), newTenant()])
    await newPolicy(one, deny(READ, hasTag('Any', 'x', 'equals_if_exists')), VIEWER)
    for (const [{ owner, as, tenant_id, ...rest }, seen] of [
      [one, 0],
      [two, 1],
    ] as const) {
      await newTaggedDeployment({ owner, as, tenant_id, ...rest } as Tenant)
      const key = { description: 'Viewer', role_id: VIEWER }
      const { body } = await owner.post('/workspaces/current/api-keys', key, { 'X-Tenant-Id': tenant_id })
      expect((await as(body.key).get('/v2/deployments')).body.resources).toHaveLength(seen)
    }
  })

  it('are refused with all faults at once', async () => {
    const group = { permission: 'projects:read', resource_type: 'deployment', conditions: [] }
    const condition = { attribute_name: 'owner', attribute_key: ' ', operator: 'like', attribute_value: 1 }
    const { status, body } = await tenant.owner.post(POLICIES, {
      name: 'Wrong',
      effect: 'maybe',
      condition_groups: [group, { ...group, permission: 'deployments:create', conditions: [condition] }],
      unknown: true,
    })
    expect([status, body.errors.map(({ loc }: { loc: string[] }) => loc.slice(1).join('.')).sort()]).toEqual([
      422,
      [
        'condition_groups.0.conditions',
        'condition_groups.0.permission',
        'condition_groups.1.conditions.0.attribute_key',
        'condition_groups.1.conditions.0.attribute_name',
        'condition_groups.1.conditions.0.attribute_value',
        'condition_groups.1.conditions.0.operator',
        'condition_groups.1.permission',
        'effect',
        'unknown',
      ],
    ])
  })

  it('can be switched off by the operator', async () => {
    const role_id = await newRole(tenant, [])
    await newPolicy(tenant, allow(READ, hasTag('Any', 'x', 'equals_if_exists')), role_id)
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'x', role_id })).body
    const headers = { 'X-Api-Key': key }
    const app = startApp({ settings: { ABAC: 'off' } })
    const get = (path: string, by: Record<string, string>) =>
      app.fetch(new Request(`http://slipway.test${path}`, { headers: by }))
    expect((await get('/v2/deployments', headers)).status).toBe(403)
    expect((await get(POLICIES, { 'X-Api-Key': tenant.owner.key })).status).toBe(404)
    expect((await tenant.as(key).get('/v2/deployments')).status).toBe(200)
  })
})

describe('the deciding policy', () => {
  const matches = hasTag('Client', 'acme')
  let id: string
  beforeAll(async () => {
    id = (await newTaggedDeployment(tenant, ['Client=acme'])).id
  })

  it.each([
    [true, true, false, true, 'allow'],
    [true, false, false, true, 'role'],
    [true, true, true, false, 'deny'],
    [true, false, true, false, 'deny'],
    [false, true, false, true, 'allow'],
    [false, false, false, false, 'role'],
    [false, true, true, false, 'deny'],
  ] as const)(
    'the role permits %s, a policy allows %s, a policy denies %s: allowed %s, by %s',
    async (isPermitted, isAllowed, isDenied, expected, decided_by) => {
      const policies = [
        allow(READ, isAllowed ? matches : hasTag('Client', 'other')),
        deny(READ, isDenied ? matches : hasTag('Client', 'other')),
      ]
      const caller = await newLimitedCaller(tenant, isPermitted ? [READ] : [], policies)
      const { status } = await caller.get(`/v2/deployments/${id}`)
      expect(status).toBe(expected ? 200 : 404)
      const { resources } = (await caller.get('/v2/deployments')).body
      expect(resources.some((one: { id: string }) => one.id === id)).toBe(expected)
      const question = { role_id: caller.role_id, permission: READ, resource_type: 'deployment', resource_id: id }
      const answer = await tenant.owner.post(`${POLICIES}/test`, question)
      expect(answer.body).toMatchObject({
        allowed: expected,
        decided_by,
        access_policy: decided_by === 'role' ? null : { name: `${decided_by} ${READ}`, condition_group: 0 },
        tags: [{ key: 'Client', value: 'acme' }],
      })
    },
  )

  it('is one group of several, in which all conditions hold', async () => {
    const caller = await newLimitedCaller(
      tenant,
      [],
      [
        {
          effect: 'allow',
          condition_groups: [
            ...allow(READ, matches, hasTag('Purpose', 'training')).condition_groups,
            ...allow(UPDATE, matches).condition_groups,
            ...allow(READ, hasTag('Client', 'umbrella')).condition_groups,
          ],
        },
      ],
    )
    const both = await newTaggedDeployment(tenant, ['Client=acme', 'Purpose=training'])
    const second = await newTaggedDeployment(tenant, ['Client=umbrella'])
    const { resources } = (await caller.get('/v2/deployments')).body
    expect(resources.map((one: { id: string }) => one.id)).toEqual([second.id, both.id])
    const question = { role_id: caller.role_id, permission: READ, resource_type: 'deployment', resource_id: second.id }
    const answer = await tenant.owner.post(`${POLICIES}/test`, question)
    expect(answer.body.access_policy.condition_group).toBe(2)
  })

  it('is not found for a role or a resource that does not exist', async () => {
    const question = { role_id: VIEWER, permission: READ, resource_type: 'deployment', resource_id: id }
    for (const [changed, code] of [
      [{ role_id: unusedId() }, 'role_not_found'],
      [{ resource_id: unusedId() }, 'resource_not_found'],
      [{ permission: 'projects:read', resource_type: 'project' }, 'resource_not_found'],
    ] as const) {
      const { status, body } = await tenant.owner.post(`${POLICIES}/test`, { ...question, ...changed })
      expect([status, body.code]).toEqual([404, code])
    }
    const other = await newTenant()
    expect((await other.owner.post(`${POLICIES}/test`, question)).body.code).toBe('resource_not_found')
  })
})

describe('each operator', () => {
  const deployments: Record<string, string> = {}
  let own: Tenant
  beforeAll(async () => {
    own = await newTenant()
    const tags = { absent: ['Team=red'], same: ['App=Shop'], other: ['App=blog'], several: ['App=Shop', 'App=blog'] }
    for (const [name, of] of Object.entries({ ...tags, folded: ['App=SHOP'], percent: ['App=S%op'] }))
      deployments[(await newTaggedDeployment(own, of)).id] = name
  })

  const SAME = ['same', 'several']
  const FOLDED = ['same', 'several', 'folded']
  const LIKE = ['same', 'several', 'percent']
  const PRESENT = ['same', 'other', 'several', 'folded', 'percent']
  const without = (held: string[]) => PRESENT.filter(name => !held.includes(name))
  const EXPECTED: Record<(typeof operators)[number], [value: string, held: string[]]> = {
    equals: ['Shop', SAME],
    not_equals: ['Shop', without(SAME)],
    equals_ignore_case: ['sHOp', FOLDED],
    not_equals_ignore_case: ['sHOp', without(FOLDED)],
    matches: ['S?o*', LIKE],
    not_matches: ['S?op', without(LIKE)],
    equals_if_exists: ['Shop', [...SAME, 'absent']],
    not_equals_if_exists: ['Shop', [...without(SAME), 'absent']],
    equals_ignore_case_if_exists: ['sHOp', [...FOLDED, 'absent']],
    not_equals_ignore_case_if_exists: ['sHOp', [...without(FOLDED), 'absent']],
    matches_if_exists: ['S%*', ['percent', 'absent']],
    not_matches_if_exists: ['*', ['absent']],
  }

  it.each(operators)('%s', async operator => {
    const [value, held] = EXPECTED[operator]
    const caller = await newLimitedCaller(own, [], [allow(READ, hasTag('App', value, operator))])
    const { resources } = (await caller.get('/v2/deployments')).body
    const names = resources.map(({ id }: { id: string }) => deployments[id])
    expect(names.sort()).toEqual(held.toSorted())
  })
})
