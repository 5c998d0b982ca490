// Tags of projects, datasets and deployments at the paths of the reference, and who may change them.
import { describe, expect, it } from 'vitest'
import { EDITOR, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { allow, deny, hasTag, newLimitedCaller, newPolicy, newTaggedDeployment } from '../../support/access-policies.ts'
import { type App, newTenant, readEvents, send, startApp, type Tenant, unusedId } from '../../support/app.ts'

const KEYS = '/workspaces/current/tag-keys'
const TAGGINGS = '/workspaces/current/taggings'
const outcome = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]

async function newValue(tenant: Tenant, key: string, value: string): Promise<string> {
  const keys = (await tenant.get(KEYS)).body as { id: string; key: string }[]
  const id = keys.find(one => one.key === key)?.id ?? (await tenant.post(KEYS, { key })).body.id
  return (await tenant.post(`${KEYS}/${id}/tag-values`, { value })).body.id
}
const newDataset = async (tenant: Tenant, over: object = {}): Promise<string> =>
  (await tenant.post('/datasets', { name: unusedId(), ...over })).body.id
const withRole = async (tenant: Tenant, role_id: string) => {
  const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'x', role_id })
  return tenant.as(body.key)
}
const tag = (by: Pick<Tenant, 'post'>, tag_value_id: string, resource_type: string, resource_id: string) =>
  by.post(TAGGINGS, { tag_value_id, resource_type, resource_id })

describe('tag keys', () => {
  it('begin with Application and Environment', async () => {
    const tenant = await newTenant()
    const names = async () => (await tenant.get(KEYS)).body.map(({ key }: { key: string }) => key)
    expect(await names()).toEqual(['Application', 'Environment'])
    const created = await tenant.post(KEYS, { key: 'Client', description: 'Who pays' })
    expect(created.body).toMatchObject({ key: 'Client', description: 'Who pays' })
    expect(await names()).toEqual(['Application', 'Client', 'Environment'])
  })

  it('and their values are changed and deleted, also for those who know the other paths', async () => {
    const tenant = await newTenant()
    const key = (await tenant.post('/v2/tag-keys', { key: 'Client' })).body.id
    const patched = await tenant.patch(`${KEYS}/${key}`, { description: 'Who pays' })
    expect(patched.body).toMatchObject({ key: 'Client', description: 'Who pays' })
    const values = `${KEYS}/${key}/tag-values`
    const value = (await tenant.post(values, { value: 'acme' })).body
    expect((await tenant.get(`${values}/${value.id}`)).body).toEqual(value)
    const renamed = (await tenant.patch(`${values}/${value.id}`, { value: 'acme-corp' })).body
    expect((await tenant.get(values)).body).toEqual([renamed])
    expect((await tenant.get('/workspaces/current/tags')).body).toMatchObject([
      { key: 'Application', values: [] },
      { id: key, values: [renamed] },
      { key: 'Environment', values: [] },
    ])
    const other = (await tenant.post(KEYS, { key: 'Other' })).body.id
    const ofOther = `${KEYS}/${other}/tag-values/${value.id}`
    expect(outcome(await tenant.get(ofOther))).toEqual([404, 'tag_value_not_found'])
    expect(outcome(await tenant.delete(ofOther))).toEqual([404, 'tag_value_not_found'])
    expect((await tenant.delete(`${values}/${value.id}`)).body).toEqual({})
    expect((await tenant.delete(`${KEYS}/${key}`)).body).toEqual({})
    expect(outcome(await tenant.get(`/v2/tag-keys/${key}`))).toEqual([404, 'tag_key_not_found'])
  })
})

describe('taggings', () => {
  it('tag resources of every kind, are listed by value and by resource, and are deleted', async () => {
    const tenant = await newTenant()
    const deployment = await newTaggedDeployment(tenant)
    const [session] = (await tenant.get('/sessions')).body.resources ?? (await tenant.get('/sessions')).body
    const resources = { deployment: deployment.id, project: session.id, dataset: await newDataset(tenant) }
    const value = await newValue(tenant, 'Application', 'shop')
    const ids: Record<string, string> = {}
    for (const [type, id] of Object.entries(resources)) {
      const { body } = await tag(tenant, value, type, id)
      expect(body).toMatchObject({ tag_value_id: value, resource_type: type, resource_id: id })
      expect((await tag(tenant, value, type, id)).body.id).toBe(body.id)
      ids[type] = body.id
      const [key] = (await tenant.get(`/workspaces/current/tags/resource?resource_type=${type}&resource_id=${id}`)).body
      expect(key).toMatchObject({ key: 'Application', values: [{ value: 'shop', taggings: [{ id: body.id }] }] })
    }
    const list = async () => (await tenant.get(`${TAGGINGS}?tag_value_id=${value}`)).body
    expect(await list()).toMatchObject([
      {
        tag_key: 'Application',
        tag_value: 'shop',
        tag_value_id: value,
        resources: {
          deployments: [{ tagging_id: ids.deployment, resource_id: deployment.id, resource_name: deployment.name }],
          projects: [{ tagging_id: ids.project, resource_id: session.id }],
          datasets: [{ tagging_id: ids.dataset, resource_id: resources.dataset }],
          prompts: [],
        },
      },
    ])
    const deleted = await tenant.delete(`${TAGGINGS}/${ids.dataset}`)
    expect(await readEvents(deleted.headers.get('X-Request-Id')!)).toMatchObject([
      {
        type: 'dataset.untagged',
        subject_id: resources.dataset,
        changes: '[{"path" : "tags", "before" : ["Application=shop"], "after" : null}]',
      },
    ])
    expect(outcome(await tenant.delete(`${TAGGINGS}/${ids.dataset}`))).toEqual([404, 'tagging_not_found'])
    expect((await list())[0].resources.datasets).toEqual([])
    const keys = (await tenant.get(KEYS)).body as { id: string; key: string }[]
    await tenant.delete(`${KEYS}/${keys.find(({ key }) => key === 'Application')!.id}`)
    expect(await list()).toEqual([])
    expect((await tenant.get(`/v2/deployments/${deployment.id}/tags`)).body.resources).toEqual([])
  })

  it('find no resource of another workspace or of a kind that does not exist here', async () => {
    const [tenant, other] = await Promise.all([newTenant(), newTenant()])
    const value = await newValue(tenant, 'Application', 'shop')
    const foreign = await newDataset(other)
    expect(outcome(await tag(tenant, value, 'dataset', foreign))).toEqual([404, 'resource_not_found'])
    expect(outcome(await tag(other, value, 'dataset', foreign))).toEqual([404, 'tag_value_not_found'])
    expect(outcome(await tag(tenant, value, 'prompt', foreign))).toEqual([404, 'resource_not_found'])
    const own = await newDataset(tenant)
    expect((await tag(tenant, value, 'experiment', own)).status).toBe(404)
    const { id } = (await tag(tenant, value, 'dataset', own)).body
    expect(outcome(await other.delete(`${TAGGINGS}/${id}`))).toEqual([404, 'tagging_not_found'])
  })
})

describe('the right to tag', () => {
  it('with Application comes with the right to update, and with another key from workspaces:update', async () => {
    const tenant = await newTenant()
    const [application, client] = [
      await newValue(tenant, 'Application', 'shop'),
      await newValue(tenant, 'Client', 'acme'),
    ]
    const dataset = await newDataset(tenant)
    const editor = await withRole(tenant, EDITOR)
    const viewer = await withRole(tenant, VIEWER)
    expect(outcome(await tag(viewer, application, 'dataset', dataset))).toEqual([403, 'permission_missing'])
    const tagged = await tag(editor, application, 'dataset', dataset)
    expect(tagged.status).toBe(200)
    expect(outcome(await tag(editor, client, 'dataset', dataset))).toEqual([403, 'permission_missing'])
    expect(outcome(await viewer.delete(`${TAGGINGS}/${tagged.body.id}`))).toEqual([403, 'permission_missing'])
    const other = (await tag(tenant, client, 'dataset', dataset)).body.id
    expect(outcome(await editor.delete(`${TAGGINGS}/${other}`))).toEqual([403, 'permission_missing'])
    expect((await editor.delete(`${TAGGINGS}/${tagged.body.id}`)).status).toBe(200)
    const create = (value: string) => editor.post('/datasets', { name: unusedId(), tag_value_ids: [value] })
    expect((await create(application)).status).toBe(200)
    expect(outcome(await create(client))).toEqual([403, 'permission_missing'])
    const change = (...tag_value_ids: string[]) => editor.patch(`/datasets/${dataset}`, { tag_value_ids })
    expect((await change(client, application)).status).toBe(200)
    expect(outcome(await change(application))).toEqual([403, 'permission_missing'])
    expect(outcome(await editor.post(KEYS, { key: 'Mine' }))).toEqual([403, 'permission_missing'])
  })

  it('with a key that a policy names takes workspaces:update at every path', async () => {
    const tenant = await newTenant()
    const editor = await withRole(tenant, EDITOR)
    const { id } = await newTaggedDeployment(tenant)
    const key = (await editor.post('/v2/tag-keys', { key: 'Stage' })).body.id
    const value = (await editor.post(`/v2/tag-keys/${key}/values`, { value: 'live' })).body.id
    const add = () => editor.post(`/v2/deployments/${id}/tags`, { tag_value_ids: [value] })
    expect((await add()).status).toBe(200)
    const decoy = (await editor.post('/v2/tag-keys', { key: 'Decoy' })).body.id
    await newPolicy(tenant, deny('deployments:delete', hasTag('Stage', 'live')))
    const attempts = [
      () => editor.delete(`/v2/deployments/${id}/tags/${value}`),
      () => editor.patch(`/v2/tag-keys/${key}`, { key: 'Phase' }),
      () => editor.delete(`/v2/tag-keys/${key}`),
      () => editor.patch(`/v2/tag-values/${value}`, { value: 'dead' }),
      () => editor.delete(`/v2/tag-values/${value}`),
      () => editor.patch(`/v2/tag-keys/${decoy}`, { key: 'Stage' }),
    ]
    for (const attempt of attempts) expect(outcome(await attempt())).toEqual([403, 'permission_missing'])
    expect((await add()).status).toBe(200)
    expect((await tenant.delete(`/v2/deployments/${id}/tags/${value}`)).status).toBe(204)
    expect(outcome(await add())).toEqual([403, 'permission_missing'])
  })

  it('ends where a policy denies the update, before or after the change', async () => {
    const tenant = await newTenant()
    const [live, shop] = [await newValue(tenant, 'Environment', 'live'), await newValue(tenant, 'Application', 'shop')]
    const rights = ['workspaces:read', 'workspaces:update', 'datasets:read', 'datasets:update']
    const policies = [
      deny('datasets:update', hasTag('Environment', 'live')),
      deny('datasets:read', hasTag('Secret', 'yes')),
    ]
    const caller = await newLimitedCaller(tenant, rights, policies)
    const [denied, free] = [await newDataset(tenant, { tag_value_ids: [live] }), await newDataset(tenant)]
    const tagging = (await tag(tenant, live, 'dataset', denied)).body.id
    expect(outcome(await caller.delete(`${TAGGINGS}/${tagging}`))).toEqual([403, 'denied_by_policy'])
    expect(outcome(await tag(caller, shop, 'dataset', denied))).toEqual([403, 'denied_by_policy'])
    expect(outcome(await tag(caller, live, 'dataset', free))).toEqual([403, 'denied_by_policy'])
    expect((await tag(caller, shop, 'dataset', free)).status).toBe(200)
    const patched = await caller.patch(`/datasets/${free}`, { tag_value_ids: [live] })
    expect(outcome(patched)).toEqual([403, 'denied_by_policy'])

    const secret = await newValue(tenant, 'Secret', 'yes')
    const hidden = await newDataset(tenant, { tag_value_ids: [secret, shop] })
    expect(outcome(await tag(caller, shop, 'dataset', hidden))).toEqual([404, 'resource_not_found'])
    const query = `resource_type=dataset&resource_id=${hidden}`
    expect(outcome(await caller.get(`/workspaces/current/tags/resource?${query}`))).toEqual([404, 'resource_not_found'])
    expect((await caller.get(TAGGINGS)).text).not.toContain(hidden)
    expect((await tenant.get(TAGGINGS)).text).toContain(hidden)
  })

  it('is up to roles alone with ABAC=off', async () => {
    const tenant = await newTenant()
    const [live, shop] = [await newValue(tenant, 'Environment', 'live'), await newValue(tenant, 'Application', 'shop')]
    const dataset = await newDataset(tenant, { tag_value_ids: [live] })
    const isLive = hasTag('Environment', 'live')
    const denied = await newLimitedCaller(
      tenant,
      ['workspaces:read', 'datasets:read', 'datasets:update'],
      [deny('datasets:update', isLive)],
    )
    const allowed = await newLimitedCaller(
      tenant,
      ['workspaces:read', 'datasets:read'],
      [allow('datasets:update', isLive)],
    )
    const body = { tag_value_id: shop, resource_type: 'dataset', resource_id: dataset }
    const tagBy = ({ key }: { key: string }, app?: App) =>
      send('POST', TAGGINGS, { body, headers: { 'X-Api-Key': key }, ...(app && { app }) })
    expect(outcome(await tagBy(denied))).toEqual([403, 'denied_by_policy'])
    const app = startApp({ settings: { ABAC: 'off' } })
    expect(outcome(await tagBy(allowed, app))).toEqual([403, 'permission_missing'])
    expect((await tagBy(denied, app)).status).toBe(200)
  })

  it('may come from a policy alone', async () => {
    const tenant = await newTenant()
    const [shop, blog] = [await newValue(tenant, 'Application', 'shop'), await newValue(tenant, 'Application', 'blog')]
    const dataset = await newDataset(tenant, { tag_value_ids: [shop] })
    const isShop = hasTag('Application', 'shop')
    const caller = await newLimitedCaller(
      tenant,
      ['workspaces:read'],
      [allow('datasets:read', isShop), allow('datasets:update', isShop)],
    )
    expect((await tag(caller, blog, 'dataset', dataset)).status).toBe(200)
    const other = await newDataset(tenant)
    expect(outcome(await tag(caller, blog, 'dataset', other))).toEqual([404, 'resource_not_found'])
  })
})

it('deleting a tag value removes it also from what its caller does not see', async () => {
  const tenant = await newTenant()
  const secret = await newValue(tenant, 'Secret', 'yes')
  const common = await newValue(tenant, 'Application', 'shop')
  const { id } = await newTaggedDeployment(tenant)
  await tenant.post(`/v2/deployments/${id}/tags`, { tag_value_ids: [secret, common] })
  const caller = await newLimitedCaller(
    tenant,
    ['deployments:read', 'deployments:update'],
    [deny('deployments:read', hasTag('Secret', 'yes'))],
  )
  expect((await caller.get(`/v2/deployments/${id}`)).status).toBe(404)
  expect((await caller.delete(`/v2/tag-values/${common}`)).status).toBe(204)
  const { resources } = (await tenant.get(`/v2/deployments/${id}/tags`)).body
  expect(resources.map(({ tag_value_id }: { tag_value_id: string }) => tag_value_id)).toEqual([secret])
})
