// What one workspace can fill: rows, its journal, and the room for archives.
import { sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { NewProvider } from '../../src/oauth/schema.ts'
import { clock, getApp, newTenant, type Reply, send, startApp, type Tenant, withClockAhead } from '../support/app.ts'
import { makeArchive, streamChunks } from '../support/archives.ts'
import { minimalBody } from '../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'
import { makeSourceBody } from '../support/uploads-suite.ts'

type Asking = Pick<Tenant, 'post'>
const MINUTE = 60_000
const outcome = ({ status, body }: Reply) => [status, body?.code]
afterEach(() => {
  clock.ahead = 0
})

describe('archives', () => {
  const bytes = makeArchive()
  const room = async (archives: number) => startApp({ overrides: { uploadBytes: archives * (await bytes).length } })
  const offer = async (tenant: Tenant) => {
    const { body } = await tenant.post('/v2/deployments', makeSourceBody())
    return tenant.post(`/v2/deployments/${body.id}/upload-url`)
  }
  const put = async ({ body }: Reply, app: ReturnType<typeof startApp>) => {
    const { pathname, search } = new URL(body.upload_url)
    const raw = await bytes
    return send('PUT', pathname + search, { raw, headers: { 'Content-Length': String(raw.length) }, app })
  }

  it('have so much room in a workspace: neither a link nor an archive gets more', async () => {
    const app = await room(2)
    const [tenant, other] = [await newTenant({ app }), await newTenant({ app })]
    const links = [await offer(tenant), await offer(tenant), await offer(tenant), await offer(tenant)]
    const taken = await Promise.all(links.map(link => put(link, app)))
    expect(taken.map(outcome).sort()).toEqual([
      ...Array(2).fill([200, undefined]),
      ...Array(2).fill([409, 'uploads_full']),
    ])
    expect(outcome(await offer(tenant))).toEqual([409, 'uploads_full'])
    expect(outcome(await put(await offer(other), app))).toEqual([200, undefined])
    // A link that found no room is as good as before.
    const left = links[taken.findIndex(({ status }) => status === 409)]!
    await runAsSystem(app.database, sql`update uploads set size = 0 where tenant_id = ${tenant.tenant_id}::uuid`)
    expect(outcome(await put(left, app))).toEqual([200, undefined])
  })

  it('count as large as they may become while they are received, without a length as the largest', async () => {
    const app = await room(3)
    const tenant = await newTenant({ app })
    const { body } = await offer(tenant)
    const { pathname, search } = new URL(body.upload_url)
    const stream = streamChunks(await bytes)
    expect(outcome(await send('PUT', pathname + search, { raw: stream, app }))).toEqual([409, 'uploads_full'])
  })

  it('wait for a hundred links at most, which end after a quarter of an hour', async () => {
    const tenant = await newTenant()
    const first = await offer(tenant)
    await runAsSystem(
      getApp().database,
      sql`insert into uploads (organization_id, tenant_id, deployment_id, object_path, expires_at)
        select organization_id, tenant_id, deployment_id, object_path || n, expires_at
        from uploads, generate_series(1, 99) n
        where tenant_id = ${tenant.tenant_id}::uuid`,
    )
    expect(outcome(first)).toEqual([200, undefined])
    expect(outcome(await offer(tenant))).toEqual([409, 'upload_links_full'])
    expect(outcome(await offer(await newTenant()))).toEqual([200, undefined])
    expect(outcome(await withClockAhead(16 * MINUTE, () => offer(tenant)))).toEqual([200, undefined])
  })
})

describe('the journal', () => {
  it('limits the events of a workspace per day, says when to retry, and keeps existing events readable', async () => {
    const app = startApp({ overrides: { eventsPerDay: 5 } })
    const [tenant, other] = [await newTenant({ app }), await newTenant({ app })]
    const asked = []
    for (let i = 0; i < 8; i++) asked.push(await tenant.post('/v2/tag-keys', { key: `key-${i}` }))
    // The key that was made at the beginning is an event, too, but not one that a request wrote.
    expect(asked.map(outcome)).toEqual([...Array(5).fill([201, undefined]), ...Array(3).fill([429, 'journal_full'])])
    const wait = Number(asked.at(-1)!.headers.get('Retry-After'))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(24 * 60 * 60)
    expect((await tenant.get('/v2/tag-keys')).status).toBe(200)
    expect((await other.post('/v2/tag-keys', { key: 'a' })).status).toBe(201)
    const next = await withClockAhead((wait + 1) * 1000, () => tenant.post('/v2/tag-keys', { key: 'tomorrow' }))
    expect(outcome(next)).toEqual([201, undefined])
  })

  it('counts what a change stores as well, so that a workspace cannot fill the disk with few changes', async () => {
    const app = startApp({ overrides: { eventsPerDay: 300 } })
    const tenant = await newTenant({ app })
    const large = (name: string) => ({ ...minimalBody, name, secrets: [{ name: 'LARGE', value: 'x'.repeat(800_000) }] })
    const [first, second] = [
      await tenant.post('/v2/deployments', large('a')),
      await tenant.post('/v2/deployments', large('b')),
    ]
    expect([first, second].map(outcome)).toEqual([
      [201, undefined],
      [429, 'journal_full'],
    ])
  })

  it('counts what the agents of a workspace cause, and takes twice as many events of them', async () => {
    const app = startApp({ overrides: { eventsPerDay: 20 } })
    const tenant = await newTenant({ app })
    const { listener, key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await tenant.post(
      '/v2/deployments',
      makeListenerDeployment(listener, { name: 'a', secrets: [{ name: 'TOKEN', value: 'hush' }] }),
    )
    const asked = []
    // Each time it asks for everything, and each time the secrets that it gets are journaled.
    for (let i = 0; i < 45; i++) {
      const reply = await agent.sendPoll({ cursor: null })
      agent.fence ??= reply.body.lease.fence
      asked.push(reply)
    }
    expect(asked.slice(0, 30).every(({ status }) => status === 200)).toBe(true)
    expect(outcome(asked.at(-1)!)).toEqual([429, 'journal_full'])
    expect(Number(asked.at(-1)!.headers.get('Retry-After'))).toBeGreaterThan(0)
    expect(outcome(await tenant.post('/v2/tag-keys', { key: 'more' }))).toEqual([429, 'journal_full'])
  })

  it('forgets what is older than 400 days, and nothing younger', async () => {
    const { tenant_id } = await newTenant()
    const count = sql`select count(*) from events where tenant_id = ${tenant_id}::uuid`
    const aged = (days: number) =>
      sql`update events set created_at = now() - ${`${days} days`}::interval where tenant_id = ${tenant_id}::uuid`
    const left = async (days: number) => {
      await runAsSystem(getApp().database, aged(days))
      await getApp().housekeep()
      return (await runAsSystem(getApp().database, count)) as unknown
    }
    expect(await left(399)).toEqual([[['1']]])
    expect(await left(401)).toEqual([[['0']]])
  })
})

describe('a request adds rows up to a limit, and whoever deletes some has room again', () => {
  const filled = {
    roles: sql`(organization_id, scope, display_name, permissions) select o, 'workspace', 'r' || n, '{}'`,
    listeners: sql`(organization_id, tenant_id, compute_type, compute_id, compute_config) select o, t, 'local', 'l' || n, '{}'`,
    deployments: sql`(organization_id, tenant_id, name, source, deployment_type, status, source_config, source_revision_config, secrets)
      select o, t, 'd' || n, 'internal_source', 'prod', 'READY', '{}', '{}', '[]'`,
  }
  it.each([
    ['roles', 200, (t: Tenant) => t.owner.post('/orgs/current/roles', { display_name: 'More', permissions: [] })],
    [
      'listeners',
      200,
      (t: Tenant) => t.post('/v2/listeners', { compute_type: 'local', compute_id: 'more', compute_config: {} }),
    ],
    ['deployments', 10_000, (t: Tenant) => t.post('/v2/deployments', makeSourceBody({ name: 'more' }))],
  ] as const)('%s: %i', async (table, most, add) => {
    const tenant = await newTenant()
    const { organization_id, tenant_id } = tenant
    const from = sql`from (select ${organization_id}::uuid o, ${tenant_id}::uuid t) w, generate_series(1, ${most}::integer) n`
    await runAsSystem(getApp().database, sql`insert into ${sql.raw(table)} ${filled[table]} ${from}`)
    const refused = await add(tenant)
    expect(outcome(refused)).toEqual([409, 'quota_full'])
    expect(refused.body.detail).toContain(`${most} ${table}`)
    const one = sql`select id from ${sql.raw(table)} where organization_id = ${organization_id}::uuid limit 1`
    await runAsSystem(getApp().database, sql`delete from ${sql.raw(table)} where id in (${one})`)
    expect((await add(tenant)).status).toBe(201)
  })

  it.each([
    [
      'api_keys',
      1000,
      sql`(organization_id, tenant_id, description, hint, key_hash, role_id)
        select o, t, 'key', 'hint', gen_random_uuid()::text, '00000000-0000-4000-8000-000000000001'`,
      (t: Asking, headers = {}) => t.post('/workspaces/current/api-keys', { description: 'more' }, headers),
    ],
    [
      'oauth_providers',
      200,
      sql`(organization_id, made_by_workspace, provider_id, name, client_id, auth_url, token_url, uses_pkce, registration, redirect_uri,
          token_endpoint_auth_method)
        select o, t, 'p' || n, 'p', 'c', 'https://a.example/a', 'https://a.example/t', true, 'given', 'https://a.example/', 'none'`,
      (t: Asking, headers = {}) => t.post('/v2/auth/providers', NewProvider.meta()!.example, headers),
    ],
  ] as const)('%s: %i by one workspace, which leaves room to the others', async (table, most, filled, add) => {
    const { owner, organization_id, ...tenant } = await newTenant()
    const second = (await owner.post('/workspaces', { display_name: 'Second' })).body.id
    const from = sql`from (select ${organization_id}::uuid o, ${tenant.tenant_id}::uuid t) w, generate_series(1, ${most}::integer) n`
    await runAsSystem(getApp().database, sql`insert into ${sql.raw(table)} ${filled} ${from}`)
    expect(outcome(await add(tenant))).toEqual([409, 'quota_full'])
    expect((await add(owner, { 'X-Tenant-Id': second })).body.code).toBeUndefined()
  })
})
