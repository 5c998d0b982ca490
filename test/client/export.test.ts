// A workspace as one file: what is in it, and what is not. cli/apply.test.ts creates it again.
import { sql } from 'drizzle-orm'
import { loadAll } from 'js-yaml'
import { expect, it } from 'vitest'
import { applyPlan, listWrites } from '../../src/client/apply/apply.ts'
import type { WorkspaceDocument } from '../../src/client/apply/documents.ts'
import { planApply } from '../../src/client/apply/plan.ts'
import { createClient } from '../../src/client/client.ts'
import { type ExportFormat, exportWorkspace, findWorkspace, writeExport } from '../../src/client/export.ts'
import { toYaml } from '../../src/client/yaml.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { CLOSED_POLICY } from '../../src/protocol/listener-policy.ts'
import { getApp, newTenant, type Tenant } from '../support/app.ts'
import { getPolicyPath, setUpPreviews } from '../support/previews.ts'
import { serveRepositories } from '../support/pushes.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'

const requestApp: typeof fetch = async (input, init) => getApp().fetch(new Request(input, init))

async function exportText({ key }: Pick<Tenant, 'key'>, format: ExportFormat, workspace?: string): Promise<string> {
  const client = createClient({ url: 'http://slipway.test', key, workspace, fetch: requestApp })
  const parts = writeExport(client, (await findWorkspace(client, { workspace }))!, format)
  let text = ''
  for await (const part of parts) text += part
  return text
}
const exportDocuments = async (tenant: Pick<Tenant, 'key'>): Promise<WorkspaceDocument[]> =>
  JSON.parse(await exportText(tenant, 'json'))
const create = async (tenant: { post: Tenant['post'] }, path: string, body: object) => {
  const { status, body: created } = await tenant.post(path, body)
  expect([201, 200], JSON.stringify(created)).toContain(status)
  return created
}
const templateBody = (name: string) => ({
  name,
  source: 'internal_template',
  secrets: [
    { name: 'ZETA', value: 'hush-1' },
    { name: 'ALPHA', value: 'hush-2' },
  ],
  source_config: {
    template_id: 'web-service',
    resource_spec: { min_scale: 1, max_scale: 3, cpu: 0.5, protocol: 'h2c' },
  },
  source_revision_config: {},
})

const withoutSecrets = ({ secrets: _, ...body }: ReturnType<typeof templateBody>) => body

/** A repository with a preview policy and an open preview, a tagged template, and one of everything else. */
async function setUpWorkspace() {
  serveRepositories()
  const { tenant, parent, pull, live } = await setUpPreviews()
  const hooks = { on_create: 'https://ci.example.com/create', secret: 'hush-of-hooks' }
  const more = { kinds: ['pull_requests', 'branches'], inherited_secrets: ['TOKEN'], database: { mode: 'empty' } }
  expect((await tenant.put(getPolicyPath(parent.id), { branches: ['a/*'], ...more, hooks })).status).toBe(200)
  const web = await create(tenant, '/v2/deployments', templateBody('web'))
  const listener = await create(tenant, '/v2/listeners', { compute_type: 'local', compute_id: 'machine-1' })
  const team = await create(tenant, '/v2/tag-keys', { key: 'team' })
  const payments = await create(tenant, `/v2/tag-keys/${team.id}/values`, { value: 'payments: "eu"' })
  await create(tenant, `/v2/deployments/${web.id}/tags`, { tag_value_ids: [payments.id] })
  const role = { display_name: 'Operator', description: 'yes', permissions: ['deployments:read'] }
  await create(tenant.owner, '/orgs/current/roles', role)
  const webhook = { url: 'https://ci.example.com/slipway', deployment_ids: [web.id], tag_value_ids: [payments.id] }
  await create(tenant, '/v2/webhooks', webhook)
  return { tenant, parent, web, pull, live, listener }
}

it('has a document for each resource that can be created again, with names of secrets and no values', async () => {
  const { tenant, parent, web, pull, live } = await setUpWorkspace()
  await pull('opened', 1, { branch: 'a/b' })
  expect(await live()).toHaveLength(1)
  const documents = await exportDocuments(tenant)
  const find = (kind: string, name?: string) =>
    documents.find(one => one.kind === kind && (name === undefined || one.name === name))
  expect(documents.map(({ kind, name }) => [kind, name])).toEqual([
    ['Workspace', 'Default'],
    ['Role', 'Operator'],
    ['Listener', 'local/machine-1'],
    ['TagKey', 'team'],
    ['TagValue', 'team=payments: "eu"'],
    ['Deployment', parent.name],
    ['PreviewPolicy', parent.name],
    ['Deployment', 'web'],
    ['Webhook', 'https://ci.example.com/slipway'],
  ])
  expect(find('Deployment', 'web')).toEqual({
    kind: 'Deployment',
    name: 'web',
    secrets: ['ALPHA', 'ZETA'],
    tags: ['team=payments: "eu"'],
    spec: {
      ...withoutSecrets(templateBody('web')),
      source_config: { ...templateBody('web').source_config, deployment_type: 'dev' },
    },
  })
  expect(find('PreviewPolicy')).toMatchObject({
    spec: { kinds: ['pull_requests', 'branches'], inherited_secrets: ['TOKEN'], database: { mode: 'empty' } },
    hooks: { on_create: 'https://ci.example.com/create' },
  })
  expect(find('Webhook')).toMatchObject({ deployments: ['web'], tags: ['team=payments: "eu"'] })
  expect(find('Deployment', parent.name)?.integration).toMatch(/^[^/]+\/[^/]+$/)
  expect(JSON.stringify(documents)).not.toContain(web.id)
  expect(JSON.stringify(documents)).not.toMatch(/hush|\*{8}/)
  // YAML has the same documents.
  expect(loadAll(await exportText(tenant, 'yaml'))).toEqual(documents)
})

it('plans no change in its own workspace, and restores a deleted preview policy', async () => {
  const { tenant, parent } = await setUpWorkspace()
  const documents = await exportDocuments(tenant)
  const client = createClient({ url: 'http://slipway.test', key: tenant.key, fetch: requestApp })
  const plan = async (secrets = {}) => planApply(client, documents, { secrets: new Map(Object.entries(secrets)) })
  const none = await plan()
  expect([none.faults, listWrites(none)]).toEqual([[], []])
  expect((await tenant.delete(getPolicyPath(parent.id))).status).toBe(204)
  // The file has no secret of its hooks.
  expect((await plan()).faults).toMatchObject([{ document: `PreviewPolicy ${parent.name}`, path: 'hooks' }])
  const restored = await plan({ [`PreviewPolicy/${parent.name}/hooks.secret`]: 'hush-again' })
  expect(listWrites(restored).map(({ kind, action }) => [kind, action])).toEqual([['PreviewPolicy', 'create']])
  for await (const { kind } of applyPlan(restored)) expect(kind).toBe('PreviewPolicy')
  expect(await exportDocuments(tenant)).toEqual(documents)
  expect(listWrites(await plan({ [`PreviewPolicy/${parent.name}/hooks.secret`]: 'another' }))).toEqual([])
})

it('lists the parts that a key cannot read, and exports the workspace that an organization key names', async () => {
  const tenant = await newTenant()
  const permissions = ['workspaces:read', 'deployments:read']
  const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'reader', permissions })
  const text = await exportText(body, 'yaml')
  expect(text).toMatch(/^# - webhooks, which take the permission webhooks:read$/m)
  expect(text).toMatch(/^kind: Workspace$/m)
  const { tenant_id, owner } = tenant
  await create(owner, '/workspaces', { display_name: 'Second' })
  expect(JSON.parse(await exportText(owner, 'json', tenant_id))[0]).toMatchObject({ name: 'Default' })
})

it('leaves out a deployment that is deleted meanwhile', async () => {
  const tenant = await newTenant()
  const { id } = await create(tenant, '/v2/deployments', templateBody('gone'))
  const team = await create(tenant, '/v2/tag-keys', { key: 'team' })
  await create(tenant, `/v2/tag-keys/${team.id}/values`, { value: 'payments' })
  const fetch: typeof requestApp = async (input, init) => {
    const { pathname } = new URL(new Request(input, init).url)
    if (pathname.endsWith(`${id}/tags`))
      await runAsSystem(getApp().database, sql`delete from deployments where id = ${id}::uuid`)
    return requestApp(input, init)
  }
  const client = createClient({ url: 'http://slipway.test', key: tenant.key, fetch })
  const kinds: string[] = []
  for await (const { kind } of exportWorkspace(client, (await findWorkspace(client, {}))!)) kinds.push(kind)
  expect(kinds).toEqual(['Workspace', 'TagKey', 'TagValue'])
})

it('writes YAML that a parser reads as the same data', () => {
  const tricky = [
    'yes',
    'No',
    'null',
    '1',
    '1e3',
    '0x1f',
    '~',
    '',
    ' a',
    'a: b',
    '# a',
    '- a',
    '*',
    '\u0085\u2028\ufeff',
  ]
  const values = [
    ...tricky,
    'line\nline',
    '"',
    "'",
    '{',
    '[]',
    '2026-01-01',
    'a/b-c.d_e',
    'true',
    true,
    null,
    0,
    -1.5,
    '😀',
  ]
  const data = {
    values,
    'a key: ': { nested: [[1, [2]], {}, [], { a: 1, b: { c: [{ d: 'e' }] } }] },
    yes: {},
    none: [],
  }
  expect(loadAll(toYaml(data))).toEqual([data])
})

it('declares the rollout, first share and request log of a deployment, and leaves or removes them', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const features = ['images', 'traffic', 'traffic_router', 'rollout', 'rollout_gates', 'request_logs']
  await makeSyncAgent(tenant, key).poll({ policy: { ...CLOSED_POLICY, features } })
  await create(tenant, '/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
  const client = createClient({ url: 'http://slipway.test', key: tenant.key, fetch: requestApp })
  const secrets = new Map([['shop/rollout.secret', 'hush-hush']])
  async function apply(over: Partial<WorkspaceDocument>) {
    const documents = await exportDocuments(tenant)
    const i = documents.findIndex(({ kind }) => kind === 'Deployment')
    const { traffic: _, rollout: __, request_logs: ___, ...rest } = documents[i]!
    const plan = await planApply(client, documents.with(i, { ...rest, ...over }), { secrets })
    expect(plan.faults).toEqual([])
    const writes = listWrites(plan).flatMap(({ changes }) => changes.map(({ path }) => path))
    for await (const { name } of applyPlan(plan)) expect(name).toBe('shop')
    const { rollout, traffic, request_logs } = (await exportDocuments(tenant))[i]!
    return { writes, rollout, traffic, request_logs }
  }
  const webhook = { url: 'https://ci.example.com/gate' }
  const declared = { steps: [{ share: 10, requests: 5 }], gates: { errors: {}, webhook } }
  const stored = {
    steps: [{ share: 10, minutes: 5, requests: 5 }],
    gates: { errors: { margin: 0.01, alpha: 0.001 }, webhook },
  }
  const sticky = { by: 'cookie' }
  expect(await apply({ traffic: { starts_at: 20 } })).toMatchObject({ writes: ['traffic'], traffic: { starts_at: 20 } })
  const both = await apply({ traffic: { sticky }, rollout: declared })
  expect(both).toEqual({ writes: ['traffic', 'rollout'], traffic: { sticky }, rollout: stored })
  expect((await apply({ traffic: { sticky }, rollout: declared })).writes).toEqual([])
  expect(await apply({})).toEqual({ writes: [], traffic: { sticky }, rollout: stored })
  const [{ rollout }] = (await tenant.get('/v2/deployments')).body.resources
  expect(rollout.gates.webhook.secret).toBe('********')
  const removed = await apply({ rollout: null, traffic: { starts_at: 30 } })
  expect(removed).toEqual({ writes: ['traffic', 'rollout'], traffic: { starts_at: 30 }, rollout: undefined })
  const request_logs = { mode: 'errors', slow_ms: 500, rate: 2, client_address: 'truncated' }
  const logged = await apply({ request_logs: { mode: 'errors', slow_ms: 500 } })
  expect(logged).toMatchObject({ writes: ['request_logs'], request_logs })
  expect(await apply({})).toMatchObject({ writes: [], request_logs })
})
