// The owner of deployments, roles, webhooks and OAuth providers: set, kept, removed, and listed by.
import { expect, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'

type Kind = {
  list: string
  create: string
  body: object
  act: (tenant: Tenant) => Pick<Tenant, 'post' | 'patch' | 'get'>
}
const inWorkspace = (tenant: Tenant) => tenant
const PROVIDER = {
  name: 'Issues',
  client_id: 'c',
  auth_url: 'https://issues.example/a',
  token_url: 'https://issues.example/t',
}
const KINDS: Record<string, Kind> = {
  role: {
    list: '/orgs/current/roles',
    create: '/orgs/current/roles',
    body: { display_name: 'Operator', permissions: ['deployments:read'] },
    act: tenant => tenant.owner as never,
  },
  webhook: { list: '/v2/webhooks', create: '/v2/webhooks', body: { url: 'https://ci.example/hook' }, act: inWorkspace },
  provider: {
    list: '/v2/auth/providers',
    create: '/v2/auth/providers',
    body: { provider_id: 'issues', ...PROVIDER },
    act: inWorkspace,
  },
}

it.each(Object.entries(KINDS))('labels a %s', async (kind, { list, create, body, act }) => {
  const caller = act(await newTenant())
  const { body: created } = await caller.post(create, { ...body, owner: 'shop/infra' })
  const path = `${create}/${kind === 'provider' ? 'issues' : created.id}`
  const read = async () => (await caller.get(path)).body.owner
  expect(await read()).toBe('shop/infra')
  const idsOf = async (owner: string) => {
    const { body: page } = await caller.get(`${list}?owner=${owner}`)
    return (Array.isArray(page) ? page : page.resources).map(({ id }: { id: string }) => id)
  }
  expect(await idsOf('shop/infra')).toEqual([created.id])
  expect(await idsOf('shop')).toEqual([])
  // Null keeps it, an empty text removes it.
  for (const [owner, expected] of [
    [null, 'shop/infra'],
    ['billing', 'billing'],
    ['', null],
  ] as const) {
    expect((await caller.patch(path, { owner })).status).toBe(200)
    expect(await read()).toBe(expected)
  }
  expect((await caller.patch(path, { owner: 'Not a label' })).body.errors[0].loc).toEqual(['body', 'owner'])
})

it('labels a deployment, without a revision', async () => {
  const tenant = await newTenant()
  const body = {
    source: 'internal_template',
    source_config: { template_id: 'web-service' },
    source_revision_config: {},
  }
  const create = (name: string, more = {}) => tenant.post('/v2/deployments', { name, ...body, secrets: [], ...more })
  const { body: web } = await create('web', { owner: 'shop' })
  await create('other')
  expect(web.owner).toBe('shop')
  const path = `/v2/deployments/${web.id}`
  const set = await tenant.put(`${path}/owner`, { owner: 'shop/infra' })
  expect(set).toMatchObject({ status: 200, body: { owner: 'shop/infra', latest_revision_id: web.latest_revision_id } })
  const namesOf = async (owner: string) =>
    (await tenant.get(`/v2/deployments?owner=${owner}`)).body.resources.map(({ name }: { name: string }) => name)
  expect(await namesOf('shop/infra')).toEqual(['web'])
  expect(await namesOf('shop')).toEqual([])
  const { body: events } = await tenant.get('/v2/events?type=deployment.owner_changed')
  expect(events.resources[0].changes).toEqual([{ path: 'owner', before: 'shop', after: 'shop/infra' }])
  const stale = await tenant.put(`${path}/owner`, { owner: null }, { 'If-Match': '"1"' })
  expect(stale.status).toBe(412)
  expect((await tenant.put(`${path}/owner`, { owner: null })).body.owner).toBeNull()
})
