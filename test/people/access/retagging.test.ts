// A caller that a policy on tags limits does not leave it behind by changing tags: of a resource, of a key, of a value.
import { beforeAll, expect, it } from 'vitest'
import { allow, deny, hasTag, newLimitedCaller, newTaggedDeployment, tagValue } from '../../support/access-policies.ts'
import { newTenant, type Reply, type Tenant, unusedId } from '../../support/app.ts'

const UPDATE = 'deployments:update'
const DELETE = 'deployments:delete'
const PERMISSIONS = [
  'deployments:read',
  UPDATE,
  DELETE,
  'deployments:create',
  'workspaces:read',
  'workspaces:update',
  'datasets:read',
  'datasets:create',
  'datasets:update',
  'datasets:delete',
]
const REFUSED = [403, 'widens_own_access']
const outcome = ({ status, body }: Reply) => [status, body?.code]
const TAGGINGS = '/workspaces/current/taggings'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

type Limited = Awaited<ReturnType<typeof newLimitedCaller>>
type Tagged = { own: Tenant; id: string; value: string; other: string; key: string }
/** Each is a way to change what the tag of a resource means for the caller. */
const WAYS: Record<string, (by: Limited, of: Tagged) => Promise<Reply>> = {
  'removes the tag': (by, { id, value }) => by.delete(`/v2/deployments/${id}/tags/${value}`),
  'removes the tagging': async (by, { own, id, value }) => {
    const query = `resource_type=deployment&resource_id=${id}`
    const [{ values }] = (await own.get(`/workspaces/current/tags/resource?${query}`)).body
    expect(values[0].id).toBe(value)
    return by.delete(`${TAGGINGS}/${values[0].taggings[0].id}`)
  },
  'renames the value': (by, { value }) => by.patch(`/v2/tag-values/${value}`, { value: 'no' }),
  'renames another value': (by, { other }) => by.patch(`/v2/tag-values/${other}`, { value: 'never' }),
  'renames the key': (by, { key }) => by.patch(`/v2/tag-keys/${key}`, { key: unusedId() }),
  'deletes the value': (by, { value }) => by.delete(`/v2/tag-values/${value}`),
  'deletes the key': (by, { key }) => by.delete(`/v2/tag-keys/${key}`),
  'deletes the value below its key': (by, { key, value }) =>
    by.delete(`/workspaces/current/tag-keys/${key}/tag-values/${value}`),
  'deletes the key of a workspace': (by, { key }) => by.delete(`/workspaces/current/tag-keys/${key}`),
}
/** Everyone who may change a resource may add and remove tags with the key Application. */
const CASES = [
  ...Object.keys(WAYS).map(way => ['Guarded', way] as const),
  ...(['removes the tag', 'removes the tagging'] as const).map(way => ['Application', way] as const),
]

it.each(CASES)('a policy on %s denies to delete: a caller who %s is refused', async (name, way) => {
  const own = await newTenant()
  const value = await tagValue(own, `${name}=yes`)
  const other = await tagValue(own, `${name}=other`)
  const { id } = await newTaggedDeployment(own, [`${name}=yes`])
  const by = await newLimitedCaller(own, PERMISSIONS, [deny(DELETE, hasTag(name, 'yes'))])
  const key = (await own.get(`/v2/tag-values/${value}`)).body.tag_key_id
  expect(outcome(await WAYS[way]!(by, { own, id, value, other, key }))).toEqual(REFUSED)
  expect(outcome(await by.delete(`/v2/deployments/${id}`))).toEqual([403, 'denied_by_policy'])
  // A caller without such a policy may.
  expect((await own.delete(`/v2/deployments/${id}/tags/${value}`)).status).toBe(204)
})

it('a tag that a policy allows more for is not added by its caller, and one that takes access away is', async () => {
  const [open, closed] = await Promise.all([tagValue(tenant, 'Stage=open'), tagValue(tenant, 'Stage=closed')])
  const { id } = await newTaggedDeployment(tenant)
  const by = await newLimitedCaller(
    tenant,
    PERMISSIONS.filter(permission => permission !== DELETE),
    [allow(DELETE, hasTag('Stage', 'open')), deny('datasets:delete', hasTag('Stage', 'closed'))],
  )
  const add = (tag_value_id: string) => by.post(`/v2/deployments/${id}/tags`, { tag_value_ids: [tag_value_id] })
  expect(outcome(await add(open))).toEqual(REFUSED)
  const tagging = { tag_value_id: open, resource_type: 'deployment', resource_id: id }
  expect(outcome(await by.post(TAGGINGS, tagging))).toEqual(REFUSED)
  expect((await add(closed)).status).toBe(200)
  const dataset = (await tenant.post('/datasets', { name: unusedId(), tag_value_ids: [closed] })).body.id
  expect(outcome(await by.patch(`/datasets/${dataset}`, { tag_value_ids: [] }))).toEqual(REFUSED)
  expect(outcome(await by.patch(`/datasets/${dataset}`, { tag_value_ids: [open] }))).toEqual(REFUSED)
})
