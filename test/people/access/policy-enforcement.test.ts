// Callers that a policy limits, in each kind of answer: bulk requests, events, streams, webhooks, the audit log, and
// the keys and links that a limited caller makes for others.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { EDITOR, ORGANIZATION_USER, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import {
  allow,
  deny,
  hasTag,
  newLimitedCaller,
  newPolicy,
  newRole,
  newTaggedDeployment,
  type Policy,
  tagValue,
} from '../../support/access-policies.ts'
import { getApp, newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { openStream, startStreamingApp } from '../../support/live-streams.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'
import { storeRuns } from '../../support/runs.ts'
import { newSession } from '../../support/sessions.ts'

const [READ, UPDATE, DELETE] = ['deployments:read', 'deployments:update', 'deployments:delete']
const SECRET = hasTag('Secret', 'yes')
const outcome = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]
const idsOf = ({ body }: { body: { resources: { id: string }[] } }) => body.resources.map(({ id }) => id)
const setTags = async (tenant: Tenant, table: string, id: string, ...tags: string[]) => {
  const values = await Promise.all(tags.map(tag => tagValue(tenant, tag)))
  await runAsSystem(
    getApp().database,
    sql`update ${sql.identifier(table)} set tag_value_ids = ${sql.param(values)}::uuid[] where id = ${id}::uuid`,
  )
}

let tenant: Tenant
let open: { id: string; name: string }
let secret: { id: string; name: string }
beforeAll(async () => {
  tenant = await newTenant()
  open = await newTaggedDeployment(tenant, ['Public=yes'])
  secret = await newTaggedDeployment(tenant, ['Secret=yes'])
})

describe('a caller for whom a policy denies', () => {
  it('reading, does not see the resource in lists, counts or by its id, but its name stays taken', async () => {
    const caller = await newLimitedCaller(
      tenant,
      [READ!, UPDATE!, 'deployments:create', DELETE!],
      [deny(READ!, SECRET)],
    )
    expect(idsOf(await caller.get('/v2/deployments'))).toEqual([open.id])
    expect(idsOf(await caller.get(`/v2/deployments?name=${secret.name}`))).toEqual([])
    expect((await caller.get('/v2/deployment-counts')).body.total).toBe(1)
    for (const reply of [
      await caller.get(`/v2/deployments/${secret.id}`),
      await caller.get(`/v2/deployments/${secret.id}/revisions`),
      await caller.patch(`/v2/deployments/${secret.id}`, {}),
      await caller.delete(`/v2/deployments/${secret.id}`),
    ])
      expect(outcome(reply)).toEqual([404, 'deployment_not_found'])
    const { source, source_config, source_revision_config } = (await tenant.get(`/v2/deployments/${secret.id}`)).body
    const same = { name: secret.name, source, source_config: { template_id: source_config.template_id } }
    const created = await caller.post('/v2/deployments', { ...same, source_revision_config, secrets: [] })
    expect(outcome(created)).toEqual([409, 'deployment_name_taken'])
  })

  it('a change, gets the name of the policy, and can still read and change the rest', async () => {
    const policies: Policy[] = [{ ...deny(UPDATE!, SECRET), name: 'Hands off' }]
    const caller = await newLimitedCaller(tenant, [READ!, UPDATE!], policies)
    expect((await caller.get(`/v2/deployments/${secret.id}`)).status).toBe(200)
    const refused = await caller.patch(`/v2/deployments/${secret.id}`, {})
    expect(outcome(refused)).toEqual([403, 'denied_by_policy'])
    expect(refused.body.detail).toContain('Hands off')
    expect((await caller.patch(`/v2/deployments/${open.id}`, {})).status).toBe(200)
    expect(outcome(await caller.patch(`/v2/deployments/${secret.id}?dry_run=true`, {}))).toEqual([
      403,
      'denied_by_policy',
    ])
  })

  it('some deletions of a bulk request, gets an outcome for each', async () => {
    const own = await newTenant()
    const deployments = await Promise.all([
      newTaggedDeployment(own, ['Public=yes']),
      newTaggedDeployment(own, ['Keep=yes']),
      newTaggedDeployment(own, ['Secret=yes']),
    ])
    const policies = [deny(DELETE!, hasTag('Keep', 'yes')), deny(READ!, SECRET)]
    const caller = await newLimitedCaller(own, [READ!, DELETE!], policies)
    const ids = deployments.map(({ id }) => id).join()
    const { status, body } = await caller.delete(`/v2/deployments?deployment_ids=${ids}`)
    expect(status).toBe(207)
    expect(body.results.map(({ code }: { code: string }) => code)).toEqual([
      null,
      'denied_by_policy',
      'deployment_not_found',
    ])
    expect(idsOf(await own.get('/v2/deployments?status=READY'))).toHaveLength(2)
  })

  it('is limited as soon as the resource gets the tag, and until it loses it', async () => {
    const deployment = await newTaggedDeployment(tenant)
    const caller = await newLimitedCaller(tenant, [READ!], [deny(READ!, hasTag('Frozen', 'yes'))])
    const read = async () => (await caller.get(`/v2/deployments/${deployment.id}`)).status
    const value = await tagValue(tenant, 'Frozen=yes')
    expect(await read()).toBe(200)
    await tenant.post(`/v2/deployments/${deployment.id}/tags`, { tag_value_ids: [value] })
    expect(await read()).toBe(404)
    await tenant.delete(`/v2/deployments/${deployment.id}/tags/${value}`)
    expect(await read()).toBe(200)
  })
})

describe('a caller whom only a policy lets in', () => {
  it('reaches resources of that type by their tags, and nothing else that has the same permission', async () => {
    const caller = await newLimitedCaller(tenant, [], [allow(READ!, hasTag('Public', 'yes'))])
    expect(idsOf(await caller.get('/v2/deployments'))).toEqual([open.id])
    expect((await caller.get('/v2/deployment-counts')).body.total).toBe(1)
    expect((await caller.get(`/v2/deployments/${open.id}/revisions`)).status).toBe(200)
    expect((await caller.get(`/v2/deployments/${secret.id}`)).status).toBe(404)
    expect(outcome(await caller.patch(`/v2/deployments/${open.id}`, {}))).toEqual([403, 'permission_missing'])
    for (const path of ['/v2/auth/providers', '/v2/tag-keys', '/v2/templates', '/v2/custom-hosts'])
      expect(outcome(await caller.get(path)), path).toEqual([403, 'permission_missing'])
  })

  it('may change the resources that a policy allows', async () => {
    const isPublic = hasTag('Public', 'yes')
    const caller = await newLimitedCaller(tenant, [], [allow(READ!, isPublic), allow(UPDATE!, isPublic)])
    const changed = await caller.patch(`/v2/deployments/${open.id}`, { source_config: { resource_spec: { cpu: 2 } } })
    expect([changed.status, changed.body.source_config.resource_spec.cpu]).toEqual([200, 2])
    const path = `/v2/deployments/${open.id}/tags/${await tagValue(tenant, 'Public=yes')}`
    expect(outcome(await caller.delete(path))).toEqual([403, 'permission_missing'])
  })
})

describe('policies apply to', () => {
  const policies = [deny(READ!, SECRET)]
  const sees = async (by: { get: Tenant['get'] }) =>
    idsOf(await by.get('/v2/deployments?limit=100', { 'X-Tenant-Id': tenant.tenant_id })).includes(secret.id)

  it('a member, for the role in the organization and for that in the workspace', async () => {
    const denied = await newRole(tenant, [READ!])
    await newPolicy(tenant, policies[0]!, denied)
    const organizationRole = (
      await tenant.owner.post('/orgs/current/roles', {
        scope: 'organization',
        display_name: unusedId(),
        permissions: ['organization:read'],
      })
    ).body.id
    await newPolicy(tenant, policies[0]!, organizationRole)
    expect(await sees(await newSession(tenant, { workspaceRole: EDITOR }))).toBe(true)
    expect(await sees(await newSession(tenant, { workspaceRole: denied }))).toBe(false)
    expect(await sees(await newSession(tenant, { workspaceRole: EDITOR, organizationRole }))).toBe(false)
  })

  it('a member who has no permission but a policy', async () => {
    const role = await newRole(tenant, [])
    await newPolicy(tenant, allow(READ!, hasTag('Public', 'yes')), role)
    const session = await newSession(tenant, { workspaceRole: role })
    expect(idsOf(await session.get('/v2/deployments', { 'X-Tenant-Id': tenant.tenant_id }))).toEqual([open.id])
    expect(outcome(await session.get('/v2/deployments'))).toEqual([403, 'workspace_required'])
  })

  it('the session of a key, and a key of a member', async () => {
    const caller = await newLimitedCaller(tenant, [READ!], policies)
    expect(await sees(caller)).toBe(false)
    const denied = await newRole(tenant, [READ!, 'api-keys:create'])
    await newPolicy(tenant, policies[0]!, denied)
    const { member_id } = await newSession(tenant, { workspaceRole: denied })
    const key = (await tenant.post('/workspaces/current/api-keys', { description: 'Bound', role_id: VIEWER })).body
    const bind = sql`update api_keys set member_id = ${member_id}::uuid where id = ${key.id}::uuid`
    expect(await sees(tenant.as(key.key))).toBe(true)
    await runAsSystem(getApp().database, bind)
    expect(await sees(tenant.as(key.key))).toBe(false)
  })

  it('no key that lists its permissions, beyond these', async () => {
    const role_id = await newRole(tenant, ['projects:read'])
    await newPolicy(tenant, allow(READ!, hasTag('Public', 'yes')), role_id)
    const create = async (input: object) =>
      tenant.as((await tenant.post('/workspaces/current/api-keys', { description: 'x', role_id, ...input })).body.key)
    expect((await (await create({})).get('/v2/deployments')).status).toBe(200)
    const narrowed = await create({ permissions: ['projects:read'] })
    expect(outcome(await narrowed.get('/v2/deployments'))).toEqual([403, 'permission_missing'])
  })
})

describe('a hidden resource', () => {
  it('is left out of events, whose numbers then have gaps, and of deliveries of webhooks', async () => {
    const own = await newTenant()
    const [shown, hidden] = [await newTaggedDeployment(own), await newTaggedDeployment(own, ['Secret=yes'])]
    const webhook = await own.post('/v2/webhooks', { url: 'https://ci.example.com/', enabled: false, after: 0 })
    await runAsSystem(
      getApp().database,
      sql`
        insert into webhook_deliveries (organization_id, tenant_id, webhook_id, seq, type, state)
        select e.organization_id, e.tenant_id, ${webhook.body.id}::uuid, e.seq, e.type, 'failed'
        from events e
        where e.scope_id = ${own.tenant_id}::uuid and e.type = 'deployment.created'`,
    )
    const rights = ['events:read', 'webhooks:read', 'webhooks:manage', READ!]
    const caller = await newLimitedCaller(own, rights, [deny(READ!, SECRET)])
    const all = (await own.get('/v2/events?limit=100')).body.resources
    const { status, body } = await caller.get('/v2/events?limit=100&after=0')
    expect(status).toBe(200)
    const of = (events: { number: number }[]) => events.map(({ number }) => number)
    const expected = all.filter((event: object) => !JSON.stringify(event).includes(hidden.id))
    expect(of(body.resources)).toEqual(of(expected))
    expect(expected.length).toBeLessThan(all.length)
    expect(JSON.stringify(body)).toContain(shown.id)
    const deliveries = await caller.get(`/v2/webhooks/${webhook.body.id}/deliveries`)
    expect([deliveries.status, deliveries.body.resources.length]).toEqual([200, 1])
    expect((await own.get(`/v2/webhooks/${webhook.body.id}/deliveries`)).body.resources).toHaveLength(2)
  })

  it('keeps its caller from managing webhooks and from the audit log, which show everything', async () => {
    const audit = '/v1/audit-logs?start_time=2026-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z'
    const role = {
      scope: 'organization',
      display_name: unusedId(),
      permissions: ['audit-logs:read', 'webhooks:manage', 'events:read'],
    }
    const role_id = (await tenant.owner.post('/orgs/current/roles', role)).body.id
    const { key } = (await tenant.owner.post('/orgs/current/api-keys', { description: 'Auditor', role_id })).body
    const caller = tenant.as(key, { 'X-Tenant-Id': tenant.tenant_id })
    const webhook = { url: 'https://ci.example.com/', enabled: false }
    expect((await caller.get(audit)).status).toBe(200)
    expect((await caller.post('/v2/webhooks', webhook)).status).toBe(201)
    await newPolicy(tenant, deny('datasets:read', SECRET), role_id)
    expect(outcome(await caller.get(audit))).toEqual([403, 'denied_by_policy'])
    expect(outcome(await caller.post('/v2/webhooks', webhook))).toEqual([403, 'denied_by_policy'])
  })

  it('includes the projects of runs: their reading, their deletion, and the ingestion into them', async () => {
    const own = await newTenant()
    const project = async (name: string, tag: string) => {
      const [run] = await storeRuns(own, [{ session_name: name }])
      const rows = await runAsSystem(
        getApp().database,
        sql`select id from projects where name = ${name} and tenant_id = ${own.tenant_id}::uuid`,
      )
      const id = (rows[0] as [string][])[0]![0]
      await setTags(own, 'projects', id, tag)
      return { id, run: run! }
    }
    const [shown, hidden] = [await project('shown', 'Public=yes'), await project('hidden', 'Secret=yes')]
    const caller = await newLimitedCaller(
      own,
      ['projects:read', 'runs:create'],
      [deny('projects:read', SECRET), deny('runs:create', SECRET)],
    )
    expect((await caller.get(`/sessions/${shown.id}`)).status).toBe(200)
    expect((await caller.get(`/sessions/${hidden.id}`)).status).toBe(404)
    await storeRuns(caller, [{ session_name: 'shown' }])
    await expect(storeRuns(caller, [{ session_name: 'shown' }, { session_name: 'hidden' }])).rejects.toMatchObject({
      code: 'denied_by_policy',
      extra: { about: 'hidden' },
    })
    const onlyPublic = await newLimitedCaller(own, [], [allow('runs:create', hasTag('Public', 'yes'))])
    await storeRuns(onlyPublic, [{ session_name: 'shown' }])
    for (const session_name of ['hidden', 'new'])
      await expect(storeRuns(onlyPublic, [{ session_name }])).rejects.toMatchObject({ code: 'denied_by_policy' })
    const counted = await runAsSystem(
      getApp().database,
      sql`select count(*) from runs where tenant_id = ${own.tenant_id}::uuid`,
    )
    expect(counted[0]).toEqual([['4']])
  })
})

describe('a stream', () => {
  const app = startStreamingApp()

  it('has only events that its caller sees, although watchers of the workspace share queries', async () => {
    const own = await newTenant()
    const hidden = await newTaggedDeployment(own, ['Secret=yes'])
    const caller = await newLimitedCaller(own, ['events:read', READ!], [deny(READ!, SECRET)])
    const [ofAll, limited] = await Promise.all(
      [own, caller].map(by => openStream(app, { key: by.key }, '/v2/events/stream')),
    )
    const next = (stream: typeof ofAll) => stream!.next().then(item => JSON.parse(item!.data!).subject.id)
    const first = [next(ofAll), next(limited)]
    await own.patch(`/v2/deployments/${hidden.id}`, { source_config: { resource_spec: { cpu: 2 } } })
    const key = (await own.post('/v2/tag-keys', { key: 'later' })).body.id
    expect(await first[0]).toBe(hidden.id)
    expect(await first[1]).toBe(key)
    await Promise.all([ofAll!.close(), limited!.close()])
  })

  it('ends once a policy limits its caller, who comes back', async () => {
    const own = await newTenant()
    const caller = await newLimitedCaller(own, ['events:read', READ!], [])
    const stream = await openStream(app, { key: caller.key }, '/v2/events/stream')
    const other = await openStream(app, own, '/v2/events/stream')
    await newPolicy(own, deny(READ!, SECRET), caller.role_id)
    for (let item = await stream.next(); item; item = await stream.next()) expect(item.event).not.toBe('message')
    const next = other.next()
    const key = (await own.post('/v2/tag-keys', { key: 'later' })).body.id
    expect(JSON.parse((await next)!.data!).subject.id).toBe(key)
    await other.close()
  })

  it('with logs ends when a policy hides its deployment, and others go on', async () => {
    const deployment = await newLoggedDeployment()
    const caller = await newLimitedCaller(deployment.tenant, [READ!], [deny(READ!, hasTag('Public', 'yes'))])
    const send = deployment.openLog()
    const [limited, other] = await Promise.all(
      [caller, deployment.tenant].map(by => openStream(app, { key: by.key }, `${deployment.path}/stream`)),
    )
    await setTags(deployment.tenant, 'deployments', deployment.id, 'Public=yes')
    await expect.poll(async () => (await limited!.next())?.event).toBe('error')
    const next = other!.next()
    await send([{ message: 'one' }])
    expect((await next)!.data).toContain('one')
    await other!.close()
    expect((await caller.get(deployment.path)).status).toBe(404)
  })
})

describe('a caller whom a policy limits', () => {
  const rights = [READ!, 'api-keys:create', 'workspaces:manage-members']
  let policy: string
  let callerRole: string
  let caller: Tenant['owner']
  beforeAll(async () => {
    const limited = await newLimitedCaller(tenant, rights, [])
    callerRole = limited.role_id
    caller = limited
    policy = await newPolicy(tenant, deny(READ!, SECRET), callerRole)
  })
  const attach = (role: string) =>
    tenant.owner.post(`/v1/platform/orgs/current/access-policies/roles/${role}/access-policies`, {
      access_policy_ids: [policy],
    })

  it('gives keys and members only roles with the same denying policies', async () => {
    const free = await newRole(tenant, [READ!])
    const createKey = (role_id?: string) =>
      caller.post('/workspaces/current/api-keys', { description: 'x', ...(role_id && { role_id }) })
    const invite = (role_id: string) =>
      caller.post('/workspaces/current/members', { email: `${unusedId()}@example.com`, role_id })
    expect(outcome(await createKey(free))).toEqual([403, 'denied_by_policy'])
    expect(outcome(await invite(free))).toEqual([403, 'denied_by_policy'])
    const own = await createKey()
    expect(idsOf(await tenant.as(own.body.key).get('/v2/deployments?limit=100'))).not.toContain(secret.id)
    await attach(free)
    expect((await createKey(free)).status).toBe(201)
    expect((await invite(free)).status).toBe(201)
  })

  it('gives no role whose policies allow more than it may', async () => {
    const wide = await newRole(tenant, [])
    await attach(wide)
    await newPolicy(tenant, allow(DELETE!, hasTag('Public', 'yes')), wide)
    const reply = await caller.post('/workspaces/current/api-keys', { description: 'x', role_id: wide })
    expect(outcome(reply)).toEqual([403, 'role_exceeds_actor'])
    const created = await tenant.owner.post(
      '/workspaces/current/api-keys',
      { description: 'x', role_id: wide },
      { 'X-Tenant-Id': tenant.tenant_id },
    )
    expect(created.status).toBe(201)
  })

  it('makes no link to sign in as a member whom no policy limits', async () => {
    const permissions = ['organization:read', 'organization:manage-members', READ]
    const role = { scope: 'organization', display_name: unusedId(), permissions }
    const organizationRole = (await tenant.owner.post('/orgs/current/roles', role)).body.id
    await newPolicy(tenant, deny(READ!, SECRET), organizationRole)
    const manager = await newSession(tenant, { organizationRole })
    const free = await newSession(tenant, { organizationRole: ORGANIZATION_USER })
    const link = (member_id: string) => manager.post(`/orgs/current/members/${member_id}/sign-in-links`)
    expect(outcome(await link(free.member_id))).toEqual([403, 'denied_by_policy'])
    const same = await newSession(tenant, { organizationRole })
    expect((await link(same.member_id)).status).toBe(201)
  })
})
