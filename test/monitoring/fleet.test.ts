import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { ADMIN, ORGANIZATION_ADMIN, ORGANIZATION_USER } from '../../src/people/access/built-in-roles.ts'
import { type App, newTenant, startApp, type Tenant, unusedId } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { signInByOperator, startAdministeredApp } from '../support/instance-admins.ts'
import { newSession } from '../support/sessions.ts'

let app: App
let email: string
let tenant: Tenant
beforeAll(async () => {
  ;({ app, email } = startAdministeredApp())
  tenant = await newTenant({ app })
  await tenant.post('/v2/deployments', makeImageBody())
  await tenant.post('/v2/listeners', { compute_type: 'local', compute_id: 'rack-1' })
})
const names = (list: { display_name?: string; compute_id?: string }[]) =>
  list.map(one => one.display_name ?? one.compute_id)

describe('the fleet of an organization', () => {
  it('has its workspaces, listeners, deployments, queues and usage', async () => {
    const { body } = await tenant.owner.get('/v2/admin/fleet')
    expect(body).toMatchObject({
      version: VERSION,
      migration: expect.stringMatching(/^\d{4}_/),
      organizations: 1,
      workspaces: 1,
      members: 1,
      listeners: { total: 1, silent: 0 },
      agents: [{ version: null, skew: 'unknown', listeners: 1 }],
      deployments: { total: 1, unhealthy: 0, not_reconciled: 1 },
      storage: { archives_bytes: 0, attachments_bytes: 0, database_bytes: null },
      usage: { traces: 0, bytes: 0 },
    })
    expect(Object.values(body.deployments.by_status)).toContain(1)
    expect(names(body.queues.map(({ name }: { name: string }) => ({ display_name: name })))).toEqual([
      'revisions',
      'webhook_deliveries',
      'preview_hooks',
      'rule_evaluations',
      'insight_jobs',
    ])
    expect(body.queues[0]).toMatchObject({ waiting: 1, oldest_seconds: expect.any(Number) })
  })

  it('lists workspaces and listeners, with agents and versions', async () => {
    await runAsSystem(
      app.database,
      sql`
        update listeners
        set agent_id = 'a1', agent_version = '0.1.0', last_seen_at = now() - interval '1 hour'
        where tenant_id = ${tenant.tenant_id}::uuid`,
    )
    const [workspace] = (await tenant.owner.get('/v2/admin/fleet/workspaces')).body.resources
    expect(workspace).toMatchObject({
      id: tenant.tenant_id,
      organization_id: tenant.organization_id,
      members: 1,
      listeners: 1,
      deployments: { total: 1 },
      storage_bytes: 0,
      usage: { traces: 0, bytes: 0 },
    })
    const [listener] = (await tenant.owner.get('/v2/admin/fleet/listeners')).body.resources
    expect(listener).toMatchObject({
      workspace_id: tenant.tenant_id,
      compute_id: 'rack-1',
      agent_id: 'a1',
      version: '0.1.0',
      is_silent: true,
      deployments: 0,
    })
    const { body } = await tenant.owner.get('/v2/admin/fleet')
    expect(body.listeners).toEqual({ total: 1, silent: 1 })
    expect(body.agents).toEqual([{ version: '0.1.0', skew: listener.skew, listeners: 1 }])
  })

  it('is listed in pages, by offset and by cursor', async () => {
    const own = await newTenant({ app })
    for (const display_name of ['b', 'c']) await own.owner.post('/workspaces', { display_name })
    const first = await own.owner.get('/v2/admin/fleet/workspaces?limit=2')
    expect([names(first.body.resources), first.body.offset]).toEqual([['c', 'b'], 2])
    const next = /<(.+)>/.exec(first.headers.get('Link')!)![1]!
    for (const path of [next, '/v2/admin/fleet/workspaces?limit=2&offset=2'])
      expect(names((await own.owner.get(path)).body.resources)).toEqual(['Default'])
  })

  it('takes the largest offset that the document allows', async () => {
    const admin = await signInByOperator(tenant, email, app)
    const lists = [
      ...['fleet/workspaces', 'fleet/listeners'].map(list => [tenant.owner, list] as const),
      ...['organizations', 'workspaces', 'listeners'].map(list => [admin, `installation/${list}`] as const),
    ]
    for (const [caller, list] of lists) {
      const { status, body } = await caller.get(`/v2/admin/${list}?offset=${Number.MAX_SAFE_INTEGER}`)
      expect([list, status, body.resources]).toEqual([list, 200, []])
    }
  })

  it('is for roles of the organization: an Admin of a workspace does not see the others', async () => {
    const own = await newTenant({ app })
    await own.owner.post('/workspaces', { display_name: 'Other' })
    const organization = await newSession(own, { organizationRole: ORGANIZATION_ADMIN })
    expect((await organization.get('/v2/admin/fleet')).body.workspaces).toBe(2)
    const user = await newSession(own, { organizationRole: ORGANIZATION_USER, workspaceRole: ADMIN })
    for (const path of ['/v2/admin/fleet', '/v2/admin/fleet/workspaces', '/v2/admin/fleet/listeners'])
      expect((await user.get(path, { 'X-Tenant-Id': own.tenant_id })).body.code).toBe('permission_missing')
  })

  it('shows no more than its workspace to a role of a workspace from before the permission counted', async () => {
    const own = await newTenant({ app })
    await own.owner.post('/workspaces', { display_name: 'Other' })
    const [role] = await roleOfWorkspace(own)
    const user = await newSession(own, { workspaceRole: role!.id })
    const { body } = await user.get('/v2/admin/fleet/workspaces', { 'X-Tenant-Id': own.tenant_id })
    expect(names(body.resources)).toEqual(['Default'])
    expect((await user.get('/v2/admin/fleet', { 'X-Tenant-Id': own.tenant_id })).body.workspaces).toBe(1)
  })
})

/** A role that the API refuses. */
async function roleOfWorkspace(own: Tenant): Promise<{ id: string }[]> {
  const [rows] = await runAsSystem(
    app.database,
    sql`
      insert into roles (organization_id, scope, display_name, permissions)
      values (${own.organization_id}::uuid, 'workspace', ${unusedId()}, '{fleet-admin:read}')
      returning id`,
  )
  return (rows as string[][]).map(([id]) => ({ id: id! }))
}

describe('the fleet of the installation', () => {
  it('has every organization, workspace and listener', async () => {
    const other = await newTenant({ app })
    const admin = await signInByOperator(other, email, app)
    const { body } = await admin.get('/v2/admin/installation')
    expect(body.organizations).toBeGreaterThan(1)
    expect(body.storage.database_bytes).toBeGreaterThan(0)
    const organizations = (await admin.get('/v2/admin/installation/organizations?limit=1')).body.resources
    expect(organizations).toMatchObject([{ id: other.organization_id, workspaces: 1, members: 2, deployments: 0 }])
    const workspaces = (await admin.get('/v2/admin/installation/workspaces?limit=100')).body.resources
    const found = new Set(workspaces.map((one: { organization_id: string }) => one.organization_id))
    expect([found.has(tenant.organization_id), found.has(other.organization_id)]).toEqual([true, true])
    const listeners = (await admin.get('/v2/admin/installation/listeners?limit=100')).body.resources
    expect(names(listeners)).toContain('rack-1')
  })
})

it('the scheduled work reports when it was done', async () => {
  const sweeping = startApp()
  await sweeping.housekeep()
  const own = await newTenant({ app: sweeping })
  const { body } = await own.owner.get('/v2/admin/fleet')
  const requests = body.sweeps.find(({ name }: { name: string }) => name === 'requests')
  expect(requests).toMatchObject({ is_late: false, done_at: expect.any(String), ms: expect.any(Number) })
  expect(body.sweeps.map(({ name }: { name: string }) => name)).toEqual(Object.keys(sweeping.sweeps).toSorted())
})
