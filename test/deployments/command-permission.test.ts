// Commands are changed by whoever has the permission for it; without it, everything else can still be changed.
import { describe, expect, it } from 'vitest'
import { newTenant, type Reply, readEvents, type Tenant, unusedId } from '../support/app.ts'
import { listRevisions, newDeployment } from '../support/deployments.ts'
import { makeRepositoryBody, makeRepositoryConfig } from '../support/integrations.ts'

const sidecars = [{ name: 'beside', image: 'busybox', command: ['env'] }]
const init_containers = [{ name: 'before', image: 'busybox', command: ['env'] }]
const refused = [403, 'permission_missing', false]
const outcome = ({ status, body }: Reply) => [status, body?.code, false]

async function keyWithoutPermission(tenant: Tenant) {
  const permissions = ['deployments:read', 'deployments:create', 'deployments:update']
  return tenant.as((await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body.key)
}

describe('a key without deployments:change-commands', () => {
  it.each<[string, { source_config: object }]>([
    ['install_command', { source_config: { install_command: 'env' } }],
    ['build_command', { source_config: { build_command: 'env' } }],
    ['sidecars', { source_config: { resource_spec: { cpu: 1, sidecars } } }],
    ['init_containers', { source_config: { resource_spec: { cpu: 1, init_containers } } }],
  ])('sets no %s: not in a new deployment, not by a patch, not in a plan', async (_, change) => {
    const tenant = await newTenant()
    const [key, { id }] = [await keyWithoutPermission(tenant), await newDeployment(tenant)]
    const path = `/v2/deployments/${id}`
    for (const reply of [await key.patch(path, change), await key.patch(`${path}?dry_run=true`, change)]) {
      expect(outcome(reply)).toEqual(refused)
      expect(reply.body.detail).toContain('deployments:change-commands')
      expect(await readEvents(reply.headers.get('X-Request-Id')!)).toEqual([])
    }
    const fresh = await makeRepositoryBody(tenant, {
      name: `a${unusedId()}`,
      source_config: { ...(await makeRepositoryConfig(tenant)), ...change.source_config },
    })
    expect(outcome(await key.post('/v2/deployments', fresh))).toEqual(refused)
    expect((await tenant.post('/v2/deployments', fresh)).status).toBe(201)
    expect((await tenant.patch(path, change)).status).toBe(200)
  })

  it('changes everything else, names what is stored, and neither clears nor brings back a command', async () => {
    const tenant = await newTenant()
    const [key, { id }] = [await keyWithoutPermission(tenant), await newDeployment(tenant)]
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
    expect(outcome(await key.patch(path, { source_config: { resource_spec: { cpu: 2 } } }))).toEqual(refused)
    expect(outcome(await key.patch(`${path}?clear=build_command`, {}))).toEqual(refused)

    const again = `${path}/revisions/${first!.id}/redeploy`
    const back = { revision_id: first!.id }
    for (const query of ['', '?dry_run=true']) {
      expect(outcome(await key.post(`${again}${query}`))).toEqual(refused)
      expect(outcome(await key.post(`${path}/rollback${query}`, back))).toEqual(refused)
      expect((await tenant.post(`${again}?dry_run=true`)).status).toBe(200)
    }
    const [latest] = await listRevisions(tenant, id)
    expect((await key.post(`${path}/revisions/${latest!.id}/redeploy`)).status).toBe(200)
  })

  it('makes no preview policy that brings commands', async () => {
    const tenant = await newTenant()
    const [key, { id }] = [await keyWithoutPermission(tenant), await newDeployment(tenant)]
    const path = `/v2/deployments/${id}/preview-policy`
    const policy = { branches: ['feature/*'], ttl: 86_400, max: 5, forks: 'deny', secrets: [] }
    expect((await key.put(path, { ...policy, resource_spec: { cpu: 1 } })).status).toBe(200)
    expect(outcome(await key.put(path, { ...policy, resource_spec: { cpu: 1, sidecars } }))).toEqual(refused)
    expect((await tenant.put(path, { ...policy, resource_spec: { cpu: 1, sidecars } })).status).toBe(200)
    expect((await key.put(path, { ...policy, max: 3, resource_spec: { cpu: 2, sidecars } })).status).toBe(200)
  })
})

it('whoever could change commands before still can', async () => {
  const tenant = await newTenant()
  const { body } = await tenant.get('/orgs/current/roles')
  const having = (permission: string) =>
    body.resources
      .filter((one: { permissions: string[] }) => one.permissions.includes(permission))
      .map((one: { id: string }) => one.id)
  const before = new Set([...having('deployments:create'), ...having('deployments:update')])
  expect(new Set(having('deployments:change-commands'))).toEqual(before)
})
