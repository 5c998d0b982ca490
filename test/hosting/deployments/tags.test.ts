import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, readEvents, startApp, type Tenant, unusedId } from '../../support/app.ts'

const createDeployment = async (tenant: Tenant) =>
  (await tenant.post('/v2/deployments', { ...(NewDeployment.meta()!.example as object), name: `a${unusedId()}` })).body
    .id as string
const createKey = async (tenant: Tenant, key: string): Promise<string> =>
  (await tenant.post('/v2/tag-keys', { key })).body.id
const createValue = async (tenant: Tenant, key: string, value: string): Promise<string> =>
  (await tenant.post(`/v2/tag-keys/${key}/values`, { value })).body.id
const listTags = async (tenant: Tenant, id: string): Promise<string[]> =>
  (await tenant.get(`/v2/deployments/${id}/tags`)).body.resources.map(
    (one: { key: string; value: string }) => `${one.key}=${one.value}`,
  )
const addTags = (tenant: Tenant, id: string, ...tag_value_ids: string[]) =>
  tenant.post(`/v2/deployments/${id}/tags`, { tag_value_ids })
const outcome = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]

describe('tag keys and values', () => {
  it('can be created, read, listed newest first, and deleted', async () => {
    const tenant = await newTenant()
    const key = await tenant.post('/v2/tag-keys', { key: ' team ' })
    expect(key.body).toMatchObject({ key: 'team' })
    expect((await tenant.get(key.headers.get('Location')!)).body).toEqual(key.body)
    const value = await tenant.post(`/v2/tag-keys/${key.body.id}/values`, { value: 'payments' })
    expect(value.body).toMatchObject({ tag_key_id: key.body.id, value: 'payments' })
    expect((await tenant.get(value.headers.get('Location')!)).body).toEqual(value.body)
    await createValue(tenant, key.body.id, 'search')
    const page = await tenant.get(`/v2/tag-keys/${key.body.id}/values?limit=1`)
    expect(page.body).toMatchObject({ resources: [{ value: 'search' }], offset: 1 })
    const rest = await tenant.get(/<(.*)>/.exec(page.headers.get('Link')!)![1]!)
    expect(rest.body).toMatchObject({ resources: [{ value: 'payments' }], offset: 2 })
    expect(rest.headers.has('Link')).toBe(false)
    await createKey(tenant, 'stage')
    const { resources } = (await tenant.get('/v2/tag-keys')).body
    expect(resources.map((one: { key: string }) => one.key)).toEqual(['stage', 'team'])

    expect((await tenant.delete(`/v2/tag-keys/${key.body.id}`)).status).toBe(204)
    expect(outcome(await tenant.get(`/v2/tag-keys/${key.body.id}`))).toEqual([404, 'tag_key_not_found'])
    expect(outcome(await tenant.get(`/v2/tag-values/${value.body.id}`))).toEqual([404, 'tag_value_not_found'])
    expect(outcome(await tenant.get(`/v2/tag-keys/${key.body.id}/values`))).toEqual([404, 'tag_key_not_found'])
    expect(outcome(await tenant.post(`/v2/tag-keys/${key.body.id}/values`, { value: 'x' }))).toEqual([
      404,
      'tag_key_not_found',
    ])
    expect(outcome(await tenant.delete(`/v2/tag-values/${value.body.id}`))).toEqual([404, 'tag_value_not_found'])
  })

  it('are unique: keys in their workspace, values in their key', async () => {
    const tenant = await newTenant()
    const [team, stage] = [await createKey(tenant, 'team'), await createKey(tenant, 'stage')]
    expect(outcome(await tenant.post('/v2/tag-keys', { key: 'team' }))).toEqual([409, 'tag_key_taken'])
    await createValue(tenant, team, 'one')
    expect(outcome(await tenant.post(`/v2/tag-keys/${team}/values`, { value: 'one' }))).toEqual([
      409,
      'tag_value_taken',
    ])
    expect(await createValue(tenant, stage, 'one')).toBeTruthy()
    expect(await createKey(await newTenant(), 'team')).toBeTruthy()
  })
})

describe('tags', () => {
  it('can be renamed without changing the deployments that have them', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const id = await createDeployment(tenant)
    const team = await createKey(tenant, 'team')
    const [search, shop] = [await createValue(tenant, team, 'search'), await createValue(tenant, team, 'shop')]
    await addTags(tenant, id, search)
    const renamed = await tenant.patch(`/v2/tag-keys/${team}`, { key: 'squad' })
    expect([renamed.status, renamed.body.key]).toEqual([200, 'squad'])
    expect((await tenant.patch(`/v2/tag-values/${search}`, { value: 'find' })).body.value).toBe('find')
    expect(await listTags(tenant, id)).toEqual(['squad=find'])
    await createKey(tenant, 'team')
    expect(outcome(await tenant.patch(`/v2/tag-keys/${team}`, { key: 'team' }))).toEqual([409, 'tag_key_taken'])
    expect(outcome(await tenant.patch(`/v2/tag-values/${shop}`, { value: 'find' }))).toEqual([409, 'tag_value_taken'])
    expect((await tenant.patch(`/v2/tag-values/${shop}`, { value: 'shop' })).status).toBe(200)
    expect(outcome(await foreign.patch(`/v2/tag-keys/${team}`, { key: 'taken' }))).toEqual([404, 'tag_key_not_found'])
  })

  it('are limited to 100 keys per workspace and 1,000 values per key, even with concurrent requests', async () => {
    const tenant = await newTenant()
    const { tenant_id, organization_id } = tenant
    const key = await createKey(tenant, 'n')
    const fill = (table: string, columns: string, count: number) => sql`
      insert into ${sql.raw(`${table} (organization_id, tenant_id, ${columns})`)}
      select ${organization_id}::uuid, ${tenant_id}::uuid, ${sql.raw(table === 'tag_keys' ? '' : `'${key}',`)} n
      from generate_series(1, ${count}::integer) n`
    await runAsSystem(getApp().database, fill('tag_keys', 'key', 96), fill('tag_values', 'tag_key_id, value', 997))
    const names = Array.from({ length: 6 }, (_, i) => `more ${i}`)
    const keys = await Promise.all(names.map(name => tenant.post('/v2/tag-keys', { key: name })))
    const values = await Promise.all(names.map(value => tenant.post(`/v2/tag-keys/${key}/values`, { value })))
    const makeThreeOfEach = (code: string) => [...Array(3).fill([201, undefined]), ...Array(3).fill([400, code])]
    expect(keys.map(outcome).sort()).toEqual(makeThreeOfEach('tag_keys_full'))
    expect(values.map(outcome).sort()).toEqual(makeThreeOfEach('tag_values_full'))
    expect(await createKey(await newTenant(), 'n')).toBeTruthy()
  })
})

describe('a deployment', () => {
  it('has each tag once and can be listed by it, and tags do not change its version', async () => {
    const tenant = await newTenant()
    const [id, other] = [await createDeployment(tenant), await createDeployment(tenant)]
    const { headers } = await tenant.get(`/v2/deployments/${id}`)
    const [team, stage] = [await createKey(tenant, 'team'), await createKey(tenant, 'stage')]
    const [search, shop, live] = [
      await createValue(tenant, team, 'search'),
      await createValue(tenant, team, 'shop'),
      await createValue(tenant, stage, 'live'),
    ]
    expect(await listTags(tenant, id)).toEqual([])
    const reply = await addTags(tenant, id, shop, live, shop)
    expect(reply.body.resources).toEqual([
      { tag_value_id: live, tag_key_id: stage, key: 'stage', value: 'live' },
      { tag_value_id: shop, tag_key_id: team, key: 'team', value: 'shop' },
    ])
    await addTags(tenant, id, shop, search)
    await addTags(tenant, other, search)
    expect(await listTags(tenant, id)).toEqual(['stage=live', 'team=search', 'team=shop'])
    const listByTags = async (...ids: string[]) =>
      (await tenant.get(`/v2/deployments?tag_value_ids=${ids}`)).body.resources.map((one: { id: string }) => one.id)
    expect(await listByTags(search)).toEqual([other, id])
    expect(await listByTags(shop, search)).toEqual([other, id])
    expect(await listByTags(search, live)).toEqual([id])
    expect(await listByTags(search, unusedId())).toEqual([])

    expect((await tenant.delete(`/v2/deployments/${id}/tags/${search}`)).status).toBe(204)
    expect(await listByTags(search)).toEqual([other])
    expect(outcome(await tenant.delete(`/v2/deployments/${id}/tags/${search}`))).toEqual([404, 'tag_value_not_found'])
    expect((await tenant.get(`/v2/deployments/${id}`)).headers.get('ETag')).toBe(headers.get('ETag'))
  })

  it('loses its tags in the write that deletes their value or key', async () => {
    const tenant = await newTenant()
    const [id, other] = [await createDeployment(tenant), await createDeployment(tenant)]
    const [team, stage] = [await createKey(tenant, 'team'), await createKey(tenant, 'stage')]
    const [search, shop] = [await createValue(tenant, team, 'search'), await createValue(tenant, team, 'shop')]
    const live = await createValue(tenant, stage, 'live')
    for (const one of [id, other]) await addTags(tenant, one, search, shop, live)
    const { headers } = await tenant.delete(`/v2/tag-values/${search}`)
    expect(await readEvents(headers.get('X-Request-Id')!)).toMatchObject([
      { type: 'tag_value.deleted', subject_id: search },
    ])
    for (const one of [id, other]) expect(await listTags(tenant, one)).toEqual(['stage=live', 'team=shop'])
    await tenant.delete(`/v2/tag-keys/${team}`)
    for (const one of [id, other]) expect(await listTags(tenant, one)).toEqual(['stage=live'])
    expect((await tenant.get(`/v2/deployments?tag_value_ids=${shop}`)).body.resources).toEqual([])
  })

  it('cannot get an unknown tag value, one of another workspace, or any while it is being deleted', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const id = await createDeployment(tenant)
    const foreignValue = await createValue(foreign, await createKey(foreign, 'team'), 'foreign')
    const ownValue = await createValue(tenant, await createKey(tenant, 'team'), 'own')
    expect(outcome(await addTags(tenant, id, ownValue, foreignValue))).toEqual([404, 'tag_value_not_found'])
    expect(outcome(await addTags(tenant, id, unusedId()))).toEqual([404, 'tag_value_not_found'])
    expect(await listTags(tenant, id)).toEqual([])
    expect(outcome(await addTags(foreign, id, foreignValue))).toEqual([404, 'deployment_not_found'])
    await tenant.delete(`/v2/deployments/${id}`)
    expect(outcome(await addTags(tenant, id, ownValue))).toEqual([409, 'deployment_deleting'])
  })

  it('cannot get a tag value of another workspace even without the tenant filters in SQL', async () => {
    const app = startApp({ through: 'withoutTenantPredicates' })
    const [tenant, foreign] = [await newTenant({ app }), await newTenant({ app })]
    const id = await createDeployment(tenant)
    const foreignValue = await createValue(foreign, await createKey(foreign, 'team'), 'foreign')
    expect(outcome(await addTags(tenant, id, foreignValue))).toEqual([404, 'tag_value_not_found'])
  })

  it('has at most fifty tags, even with concurrent requests', async () => {
    const tenant = await newTenant()
    const id = await createDeployment(tenant)
    const key = await createKey(tenant, 'n')
    const values = await Promise.all(Array.from({ length: 60 }, (_, i) => createValue(tenant, key, `${i}`)))
    expect((await addTags(tenant, id, ...values.slice(0, 45))).status).toBe(200)
    const more = await Promise.all(values.slice(45).map(value => addTags(tenant, id, value)))
    expect(more.map(outcome).sort()).toEqual([
      ...Array(5).fill([200, undefined]),
      ...Array(10).fill([400, 'tags_full']),
    ])
    expect(await listTags(tenant, id)).toHaveLength(50)
    expect((await addTags(tenant, id, ...values.slice(0, 5))).status).toBe(200)
  })

  it('does not have a tag value whose deletion is concurrent', async () => {
    const tenant = await newTenant()
    const ids = await Promise.all(Array.from({ length: 6 }, () => createDeployment(tenant)))
    for (let round = 0; round < 8; round++) {
      const key = await createKey(tenant, `k${round}`)
      const value = await createValue(tenant, key, 'v')
      const path = round % 2 ? `/v2/tag-values/${value}` : `/v2/tag-keys/${key}`
      const body = { source_config: { build_command: `make ${round}` } }
      const patches = ids.map(id => tenant.patch(`/v2/deployments/${id}`, body))
      const [deleted, ...additions] = await Promise.all([
        tenant.delete(path),
        ...ids.map(id => addTags(tenant, id, value)),
      ])
      for (const one of await Promise.all(patches)) expect(one.status).toBe(200)
      expect(deleted.status).toBe(204)
      for (const one of additions) expect([200, 404]).toContain(one.status)
      expect((await tenant.get(`/v2/deployments?tag_value_ids=${value}`)).body.resources).toEqual([])
    }
  })
})

describe('tracing projects', () => {
  it('exist while their deployment does, can be filtered by name, and require their own permission', async () => {
    const tenant = await newTenant()
    const deployment = (await tenant.post('/v2/deployments', NewDeployment.meta()!.example)).body
    await createDeployment(tenant)
    const part = deployment.name.slice(0, -1).toUpperCase()
    const found = (await tenant.get(`/sessions?name_contains=${part}`)).body
    expect(found).toMatchObject([
      {
        id: expect.any(String),
        tenant_id: tenant.tenant_id,
        name: deployment.name,
        deployment_id: deployment.id,
        created_at: deployment.created_at,
      },
    ])
    expect((await tenant.get(`/sessions/${found[0].id}`)).body).toEqual(found[0])
    expect((await tenant.get('/sessions?name_contains=')).body).toHaveLength(2)
    expect((await tenant.get('/sessions?name_contains=%25')).body).toHaveLength(0)
    const { key } = (
      await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions: ['deployments:read'] })
    ).body
    expect(outcome(await tenant.as(key).get('/sessions'))).toEqual([403, 'permission_missing'])
    await tenant.delete(`/v2/deployments/${deployment.id}`)
    expect(outcome(await tenant.get(`/sessions/${found[0].id}`))).toEqual([404, 'project_not_found'])
  })
})
