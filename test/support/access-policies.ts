// Tagged resources, and keys whose role has access policies.
import { NewDeployment } from '../../src/hosting/deployments/schema.ts'
import { type Tenant, unusedId } from './app.ts'

export const POLICIES = '/v1/platform/orgs/current/access-policies'

export type Condition = { attribute_key: string; operator: string; attribute_value: string }
export type Group = { permission: string; resource_type: string; conditions: Condition[] }
export type Policy = { name?: string; effect: 'allow' | 'deny'; condition_groups: Group[] }

export const hasTag = (attribute_key: string, attribute_value: string, operator = 'equals'): Condition => ({
  attribute_key,
  operator,
  attribute_value,
})
const typeOf = (permission: string) => {
  const [noun = ''] = permission.split(':')
  return { deployments: 'deployment', datasets: 'dataset', 'annotation-queues': 'queue' }[noun] ?? 'project'
}
const toPolicy = (effect: Policy['effect'], permission: string, conditions: Condition[]): Policy => ({
  name: `${effect} ${permission}`,
  effect,
  condition_groups: [{ permission, resource_type: typeOf(permission), conditions }],
})
export const allow = (permission: string, ...conditions: Condition[]) => toPolicy('allow', permission, conditions)
export const deny = (permission: string, ...conditions: Condition[]) => toPolicy('deny', permission, conditions)

/** Ids of tag values by `key=value`. */
const knownTags = new WeakMap<Tenant, Map<string, Promise<string>>>()
export function tagValue(tenant: Tenant, tag: string): Promise<string> {
  const known = knownTags.get(tenant) ?? new Map<string, Promise<string>>()
  knownTags.set(tenant, known)
  const [key = '', value = ''] = tag.split('=')
  const create = async () => {
    const keyId = await keyOf(tenant, known, key)
    return (await tenant.post(`/v2/tag-keys/${keyId}/values`, { value })).body.id as string
  }
  const id = known.get(tag) ?? create()
  known.set(tag, id)
  return id
}
function keyOf(tenant: Tenant, known: Map<string, Promise<string>>, key: string): Promise<string> {
  const id = known.get(key) ?? tenant.post('/v2/tag-keys', { key }).then(({ body }) => body.id as string)
  known.set(key, id)
  return id
}

export async function newTaggedDeployment(tenant: Tenant, tags: string[] = [], over: object = {}) {
  const { body } = await tenant.post('/v2/deployments', { ...NewDeployment.meta()!.example!, name: name(), ...over })
  if (tags.length > 0) {
    const tag_value_ids = await Promise.all(tags.map(tag => tagValue(tenant, tag)))
    await tenant.post(`/v2/deployments/${body.id}/tags`, { tag_value_ids })
  }
  return body as { id: string; name: string; latest_revision_id: string }
}
const name = () => `app-${unusedId()}`

export async function newRole(tenant: Tenant, permissions: string[]): Promise<string> {
  const role = { display_name: unusedId(), permissions }
  return (await tenant.owner.post('/orgs/current/roles', role)).body.id
}

export async function newPolicy(tenant: Tenant, policy: Policy, ...role_ids: string[]): Promise<string> {
  return (await tenant.owner.post(POLICIES, { name: 'Policy', ...policy, role_ids })).body.id
}

/** A key of the workspace, with a role that has these permissions and policies. */
export async function newLimitedCaller(tenant: Tenant, permissions: string[], policies: Policy[]) {
  const role_id = await newRole(tenant, permissions)
  const inside = { 'X-Tenant-Id': tenant.tenant_id }
  const key = { description: 'Limited', role_id }
  const { body } = await tenant.owner.post('/workspaces/current/api-keys', key, inside)
  for (const policy of policies) await newPolicy(tenant, policy, role_id)
  return { ...tenant.as(body.key), key: body.key as string, role_id }
}
