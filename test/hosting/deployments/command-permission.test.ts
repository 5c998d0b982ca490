import { describe, expect, it } from 'vitest'
import { newTenant, type Reply, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import { listRevisions, newDeployment } from '../../support/deployments.ts'
import { makeRepositoryBody, makeRepositoryConfig } from '../../support/integrations.ts'

const sidecars = [{ name: 'sidecar', image: 'busybox', command: ['env'] }]
const init_containers = [{ name: 'init', image: 'busybox', command: ['env'] }]
const refused = [403, 'permission_missing', false]
const outcome = ({ status, body }: Reply) => [status, body?.code, false]

async function createKeyWithoutPermission(tenant: Tenant) {
  const permissions = ['deployments:read', 'deployments:create', 'deployments:update']
  return tenant.as((await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body.key)
}

describe('a key without deployments:change-commands', () => {
  it.each<[string, { source_config: object }]>([
    ['install_command', { source_config: { install_command: 'env' } }],
    ['build_command', { source_config: { build_command: 'env' } }],
    ['sidecars', { source_config: { resource_spec: { cpu: 1, sidecars } } }],
    ['init_containers', { source_config: { resource_spec: { cpu: 1, init_containers } } }],
  ])('cannot set %s in a new deployment, a patch or a dry run', async (_, change) => {
    const tenant = await newTenant()
    const [key, { id }] = [await createKeyWithoutPermission(tenant), await newDeployment(tenant)]
    const path = `/v2/deployments/${id}`
    for (const reply of [await key.patch(path, change), await key.patch(`${path}?dry_run=true`, change)]) {
      expect(outcome(reply)).toEqual(refused)
      expect(reply.body.detail).toContain('deployments:change-commands')
      expect(await readEvents(reply.headers.get('X-Request-Id')!)).toEqual([])
    }
    const newBody = await makeRepositoryBody(tenant, {
      name: `a${unusedId()}`,
      source_config: { ...(await makeRepositoryConfig(tenant)), ...change.source_config },
    })
    expect(outcome(await key.post('/v2/deployments', newBody))).toEqual(refused)
    expect((await tenant.post('/v2/deployments', newBody)).status).toBe(201)
    expect((await tenant.patch(path, change)).status).toBe(200)
  })

  it('can send stored commands again and change other members, but cannot clear or restore a command', async () => {
    const tenant = await newTenant()
    const [key, { id }] = [await createKeyWithoutPermission(tenant), await newDeployment(tenant)]
    const path = `/v2/deployments/${id}`
    const [first] = await listRevisions(tenant, id)
    const commands = { install_command: 'npm ci', build_command: 'make', resource_spec: { cpu: 1, sidecars } }
    expect((await tenant.patch(path, { source_config: commands })).status).toBe(200)

    const same = {
      source_config: { ...commands, resource_spec: { cpu: 2, sidecars } },
      secrets: [{ name: 'A', value: 'b' }],
    }
    expect((await key.patch(path, same)).status).toBe(200)
    expect(
      (await key.patch(path, { source_config: { resource_spec: { cpu: 2, sidecars, init_containers: [] } } })).status,
    ).toBe(200)
    expect((await key.patch(path, { source_revision_config: { repo_ref: 'other' } })).status).toBe(200)
    expect((await key.post(`${path}/revisions`)).status).toBe(201)
    expect(outcome(await key.patch(path, { source_config: { resource_spec: { sidecars: [] } } }))).toEqual(refused)
    expect(outcome(await key.patch(`${path}?clear=resource_spec.sidecars`, {}))).toEqual(refused)
    expect(outcome(await key.patch(`${path}?clear=build_command`, {}))).toEqual(refused)

    const redeployPath = `${path}/revisions/${first!.id}/redeploy`
    const rollback = { revision_id: first!.id }
    for (const query of ['', '?dry_run=true']) {
      expect(outcome(await key.post(`${redeployPath}${query}`))).toEqual(refused)
      expect(outcome(await key.post(`${path}/rollback${query}`, rollback))).toEqual(refused)
      expect((await tenant.post(`${redeployPath}?dry_run=true`)).status).toBe(200)
    }
    const [latest] = await listRevisions(tenant, id)
    expect((await key.post(`${path}/revisions/${latest!.id}/redeploy`)).status).toBe(200)
  })

  it('cannot add commands to a preview policy', async () => {
    const tenant = await newTenant()
    const [key, { id }] = [await createKeyWithoutPermission(tenant), await newDeployment(tenant)]
    const path = `/v2/deployments/${id}/preview-policy`
    const policy = { branches: ['feature/*'], ttl: 86_400, max: 5, forks: 'deny', secrets: [] }
    expect((await key.put(path, { ...policy, resource_spec: { cpu: 1 } })).status).toBe(200)
    expect(outcome(await key.put(path, { ...policy, resource_spec: { cpu: 1, sidecars } }))).toEqual(refused)
    expect((await tenant.put(path, { ...policy, resource_spec: { cpu: 1, sidecars } })).status).toBe(200)
    expect((await key.put(path, { ...policy, max: 3, resource_spec: { cpu: 2, sidecars } })).status).toBe(200)
  })
})

it('every role that can create or update deployments can change commands', async () => {
  const tenant = await newTenant()
  const { body } = await tenant.get('/orgs/current/roles')
  const listRolesWith = (permission: string) =>
    body.resources
      .filter((one: { permissions: string[] }) => one.permissions.includes(permission))
      .map((one: { id: string }) => one.id)
  const expected = new Set([...listRolesWith('deployments:create'), ...listRolesWith('deployments:update')])
  expect(new Set(listRolesWith('deployments:change-commands'))).toEqual(expected)
})
