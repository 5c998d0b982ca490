// The limits of what one workspace can store.
import { type SQL, sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { NewProvider } from '../../../src/connect/oauth/schema.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { MAX_PLANNED_BYTES } from '../../../src/hosting/uploads/uploads.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { clock, getApp, newTenant, type Reply, send, startApp, type Tenant, withClockAhead } from '../../support/app.ts'
import { gzip, makeRandomBytes, makeTar, packFiles, streamChunks } from '../../support/archives.ts'
import { minimalBody, newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'
import { makeSourceBody } from '../../support/uploads-suite.ts'

type Creator = Pick<Tenant, 'post'>
const MINUTE = 60_000
const outcome = ({ status, body }: Reply) => [status, body?.code]
afterEach(() => {
  clock.ahead = 0
})

describe('archives', () => {
  /** Larger than the room that is reserved for a plan. */
  const bytes = gzip(Uint8Array.from([...makeTar('x'), ...makeRandomBytes(100_000)]))
  const startAppWithRoomFor = async (archives: number) =>
    startApp({ overrides: { uploadBytes: archives * ((await bytes).length + MAX_PLANNED_BYTES) } })
  const requestLink = async (tenant: Tenant) => {
    const { body } = await tenant.post('/v2/deployments', makeSourceBody())
    return tenant.post(`/v2/deployments/${body.id}/upload-url`)
  }
  const upload = async ({ body }: Reply, app: ReturnType<typeof startApp>, archive = bytes) => {
    const { pathname, search } = new URL(body.upload_url)
    const raw = await archive
    return send('PUT', pathname + search, { raw, headers: { 'Content-Length': String(raw.length) }, app })
  }

  it('in a workspace have a total size limit, after which neither links nor uploads are accepted', async () => {
    const app = await startAppWithRoomFor(2)
    const [tenant, other] = [await newTenant({ app }), await newTenant({ app })]
    const links = [
      await requestLink(tenant),
      await requestLink(tenant),
      await requestLink(tenant),
      await requestLink(tenant),
    ]
    const uploads = await Promise.all(links.map(link => upload(link, app)))
    expect(uploads.map(outcome).sort()).toEqual([
      ...Array(2).fill([200, undefined]),
      ...Array(2).fill([409, 'uploads_full']),
    ])
    const setSizes = (size: SQL) =>
      runAsSystem(app.database, sql`update uploads set size = ${size} where tenant_id = ${tenant.tenant_id}::uuid`)
    // They leave the room that was reserved for their plans.
    await setSizes(sql`size + ${MAX_PLANNED_BYTES}`)
    expect(outcome(await requestLink(tenant))).toEqual([409, 'uploads_full'])
    expect(outcome(await upload(await requestLink(other), app))).toEqual([200, undefined])
    // A refused upload does not use up its link.
    const unusedLink = links[uploads.findIndex(({ status }) => status === 409)]!
    await setSizes(sql`0`)
    expect(outcome(await upload(unusedLink, app))).toEqual([200, undefined])
  })

  it('count with their plans', async () => {
    const [start_command, install_command] = [1, 2].map(() => Buffer.from(makeRandomBytes(3000)).toString('base64'))
    const archive = packFiles({ 'slipway.json': JSON.stringify({ start_command, install_command }) })
    const app = startApp({ overrides: { uploadBytes: 2 * (await archive).length + MAX_PLANNED_BYTES } })
    const tenant = await newTenant({ app })
    const planned = await upload(await requestLink(tenant), app, archive)
    expect(planned.body.build_plan.start).toBe(start_command)
    expect(outcome(await upload(await requestLink(tenant), app, archive))).toEqual([409, 'uploads_full'])
  })

  it('without a declared length count with the maximum size while they are received', async () => {
    const app = await startAppWithRoomFor(3)
    const tenant = await newTenant({ app })
    const { body } = await requestLink(tenant)
    const { pathname, search } = new URL(body.upload_url)
    const stream = streamChunks(await bytes)
    expect(outcome(await send('PUT', pathname + search, { raw: stream, app }))).toEqual([409, 'uploads_full'])
  })

  it('can have a hundred open upload links per workspace, which expire after 15 minutes', async () => {
    const tenant = await newTenant()
    const first = await requestLink(tenant)
    await runAsSystem(
      getApp().database,
      sql`insert into uploads (organization_id, tenant_id, deployment_id, object_path, expires_at)
        select organization_id, tenant_id, deployment_id, object_path || n, expires_at
        from uploads, generate_series(1, 99) n
        where tenant_id = ${tenant.tenant_id}::uuid`,
    )
    expect(outcome(first)).toEqual([200, undefined])
    expect(outcome(await requestLink(tenant))).toEqual([409, 'upload_links_full'])
    expect(outcome(await requestLink(await newTenant()))).toEqual([200, undefined])
    expect(outcome(await withClockAhead(16 * MINUTE, () => requestLink(tenant)))).toEqual([200, undefined])
  })
})

describe('the journal', () => {
  it('limits the events of a workspace per day, with a Retry-After, and does not limit reads', async () => {
    const app = startApp({ overrides: { eventsPerDay: 5 } })
    const [tenant, other] = [await newTenant({ app }), await newTenant({ app })]
    const replies = []
    for (let i = 0; i < 8; i++) replies.push(await tenant.post('/v2/tag-keys', { key: `key-${i}` }))
    // The creation of the tenant's keys does not count, because no request wrote those events.
    expect(replies.map(outcome)).toEqual([...Array(5).fill([201, undefined]), ...Array(3).fill([429, 'journal_full'])])
    const wait = Number(replies.at(-1)!.headers.get('Retry-After'))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(24 * 60 * 60)
    expect((await tenant.get('/v2/tag-keys')).status).toBe(200)
    expect((await other.post('/v2/tag-keys', { key: 'a' })).status).toBe(201)
    const next = await withClockAhead((wait + 1) * 1000, () => tenant.post('/v2/tag-keys', { key: 'tomorrow' }))
    expect(outcome(next)).toEqual([201, undefined])
  })

  it('also counts the bytes that a change stores, so that a few large changes cannot fill the disk', async () => {
    const app = startApp({ overrides: { eventsPerDay: 300 } })
    const tenant = await newTenant({ app })
    const makeLargeBody = (name: string) => ({
      ...minimalBody,
      name,
      secrets: [{ name: 'LARGE', value: 'x'.repeat(800_000) }],
    })
    const [first, second] = [
      await tenant.post('/v2/deployments', makeLargeBody('a')),
      await tenant.post('/v2/deployments', makeLargeBody('b')),
    ]
    expect([first, second].map(outcome)).toEqual([
      [201, undefined],
      [429, 'journal_full'],
    ])
  })

  it('also limits the events that agents of the workspace cause, to twice as many', async () => {
    const app = startApp({ overrides: { eventsPerDay: 20 } })
    const tenant = await newTenant({ app })
    const { listener, key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await tenant.post(
      '/v2/deployments',
      makeListenerDeployment(listener, { name: 'a', secrets: [{ name: 'TOKEN', value: 'hush' }] }),
    )
    const replies = []
    // Each poll without a cursor receives all secrets again, which is journaled.
    for (let i = 0; i < 45; i++) {
      const reply = await agent.sendPoll({ cursor: null })
      agent.fence ??= reply.body.lease.fence
      replies.push(reply)
    }
    expect(replies.slice(0, 30).every(({ status }) => status === 200)).toBe(true)
    expect(outcome(replies.at(-1)!)).toEqual([429, 'journal_full'])
    expect(Number(replies.at(-1)!.headers.get('Retry-After'))).toBeGreaterThan(0)
    expect(outcome(await tenant.post('/v2/tag-keys', { key: 'more' }))).toEqual([429, 'journal_full'])
  })

  it('gives health that flaps half of the events of a day, so that people can still make changes', async () => {
    const app = startApp({ overrides: { eventsPerDay: 20 } })
    const tenant = await newTenant({ app })
    const { id } = await newDeployment(tenant)
    await runAsSystem(
      app.database,
      sql`update deployments set active_revision_id = latest_revision_id where id = ${id}::uuid`,
    )
    const flap = async () => {
      await runAsSystem(app.database, sql`update deployments set healthy = healthy is false where id = ${id}::uuid`)
      await sweepRevisions(app)
    }
    const countEvents = async () =>
      (await tenant.get(`/v2/events?subject_id=${id}&type=deployment.healthy,deployment.unhealthy`)).body.resources
        .length
    for (let i = 0; i < 21; i++) await flap()
    const today = await countEvents()
    expect(today).toBeGreaterThan(0)
    expect(today).toBeLessThanOrEqual(10)
    expect(outcome(await tenant.post('/v2/tag-keys', { key: 'fix' }))).toEqual([201, undefined])
    await withClockAhead(24 * 60 * MINUTE, flap)
    await withClockAhead(25 * 60 * MINUTE, flap)
    expect(await countEvents()).toBeGreaterThan(today)
  })

  it('deletes events that are older than 400 days, and no others', async () => {
    const { tenant_id } = await newTenant()
    const count = sql`select count(*) from events where tenant_id = ${tenant_id}::uuid`
    const setAge = (days: number) =>
      sql`update events set created_at = now() - ${`${days} days`}::interval where tenant_id = ${tenant_id}::uuid`
    const countAfterSweep = async (days: number) => {
      await runAsSystem(getApp().database, setAge(days))
      await getApp().housekeep()
      return (await runAsSystem(getApp().database, count)) as unknown
    }
    expect(await countAfterSweep(399)).toEqual([[['1']]])
    expect(await countAfterSweep(401)).toEqual([[['0']]])
  })
})

describe('the number of rows is limited', () => {
  const inserts = {
    roles: sql`(organization_id, scope, display_name, permissions) select o, 'workspace', 'r' || n, '{}'`,
    listeners: sql`
      (organization_id, tenant_id, compute_type, compute_id, compute_config)
      select o, t, 'local', 'l' || n, '{}'`,
    deployments: sql`
      (organization_id, tenant_id, name, source, deployment_type, status,
        source_config, source_revision_config, secrets)
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
  ] as const)('for %s to %i, and a deleted row can be replaced', async (table, limit, add) => {
    const tenant = await newTenant()
    const { organization_id, tenant_id } = tenant
    await runAsSystem(
      getApp().database,
      sql`
        insert into ${sql.raw(table)} ${inserts[table]}
        from
          (select ${organization_id}::uuid o, ${tenant_id}::uuid t) w,
          generate_series(1, ${limit}::integer) n`,
    )
    const refused = await add(tenant)
    expect(outcome(refused)).toEqual([409, 'quota_full'])
    expect(refused.body.detail).toContain(`${limit} ${table}`)
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
      (t: Creator, headers = {}) => t.post('/workspaces/current/api-keys', { description: 'more' }, headers),
    ],
    [
      'oauth_providers',
      200,
      sql`
        (organization_id, made_by_workspace, provider_id, name, client_id, auth_url, token_url, uses_pkce, registration,
          redirect_uri, token_endpoint_auth_method)
        select o, t, 'p' || n, 'p', 'c', 'https://a.example/a', 'https://a.example/t', true, 'given',
          'https://a.example/', 'none'`,
      (t: Creator, headers = {}) => t.post('/v2/auth/providers', NewProvider.meta()!.example, headers),
    ],
  ] as const)('for %s to %i per workspace, without effect on others', async (table, limit, columns, add) => {
    const { owner, organization_id, ...tenant } = await newTenant()
    const second = (await owner.post('/workspaces', { display_name: 'Second' })).body.id
    await runAsSystem(
      getApp().database,
      sql`
        insert into ${sql.raw(table)} ${columns}
        from
          (select ${organization_id}::uuid o, ${tenant.tenant_id}::uuid t) w,
          generate_series(1, ${limit}::integer) n`,
    )
    expect(outcome(await add(tenant))).toEqual([409, 'quota_full'])
    expect((await add(owner, { 'X-Tenant-Id': second })).body.code).toBeUndefined()
  })
})
