import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import type { Source } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { getIntegration, makeRepositoryBody, makeRepositoryConfig, newIntegration } from '../../support/integrations.ts'

const parts: Record<Exclude<Source, 'githost'>, Record<string, unknown>> = {
  external_container: {
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: 'registry.example.com:5000/acme/app:1.4.2' },
    secret_references: [{ name: 'TOKEN', secret_name: 'app', secret_key: 'token' }],
  },
  internal_container: { source_config: {}, source_revision_config: {} },
  internal_source: { source_config: { deployment_type: 'prod' }, source_revision_config: {} },
  internal_template: { source_config: { template_id: 'chat' }, source_revision_config: {} },
}
const makeBody = (source: keyof typeof parts, over: Record<string, unknown> = {}) => ({
  name: `a${unusedId()}`,
  source,
  secrets: [],
  ...parts[source],
  ...over,
})
const makeBodyFor = async (tenant: Tenant, source: Source, over: Record<string, unknown> = {}) =>
  source === 'githost' ? makeRepositoryBody(tenant, { secrets: [], ...over }) : makeBody(source, over)
const selfHosted = startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } })
const newTenantFor = (source: Source) => newTenant(source === 'external_container' ? { app: selfHosted } : {})
const createContainer = async (tenant: Tenant, over?: Record<string, unknown>) =>
  (await tenant.post('/v2/deployments', makeBody('internal_container', over))).body
const outcome = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]

const CONFIG = {
  integration_id: null,
  repo_url: null,
  build_on_push: null,
  custom_url: null,
  resource_spec: null,
  listener_id: null,
  listener_config: null,
  root_directory: null,
  install_command: null,
  build_command: null,
  deployment_type: 'dev',
  template_id: null,
  tracing: null,
  watch_paths: null,
}
const REVISION_CONFIG = {
  repo_ref: null,
  platform_config_path: null,
  image_uri: null,
  source_tarball_path: null,
  repo_commit_sha: null,
}

describe('a new deployment', () => {
  const sources = ['githost', ...(Object.keys(parts) as Source[])] as const
  const states: Record<Source, string> = {
    githost: 'AWAITING_BUILD',
    external_container: 'AWAITING_DEPLOY',
    internal_container: 'CREATING',
    internal_source: 'CREATING',
    internal_template: 'AWAITING_DEPLOY',
  }
  it.each(sources)('from source %s is created with its first revision', async source => {
    const tenant = await newTenantFor(source)
    const request: Record<string, unknown> = await makeBodyFor(tenant, source, {
      secrets: [{ name: 'KEY', value: 'hush' }],
    })
    const reply = await tenant.post('/v2/deployments', request)
    expect(reply.status).toBe(201)
    expect(reply.headers.get('Location')).toBe(`/v2/deployments/${reply.body.id}`)
    const isExternal = source === 'external_container'
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(reply.body).toEqual({
      id: expect.any(String),
      tenant_id: tenant.tenant_id,
      hold: null,
      owner: null,
      protection: { mode: 'none', open_paths: [] },
      request_logs: { mode: 'sampled', rate: 2, slow_ms: 1_000, client_address: 'truncated' },
      traffic: [],
      traffic_settings: { starts_at: 100, sticky: null },
      rollout: null,
      rollout_progress: null,
      parent_deployment_id: null,
      preview: null,
      url: null,
      local_url: null,
      name: request.name,
      source,
      source_config: {
        ...CONFIG,
        ...(isExternal && { deployment_type: 'prod' }),
        ...(request.source_config as object),
      },
      source_revision_config: { ...REVISION_CONFIG, ...(request.source_revision_config as object) },
      secrets: [{ name: 'KEY', value: '********' }],
      secret_fingerprints: { KEY: '1' },
      secret_references: request.secret_references ?? null,
      status: 'READY',
      serving: 'none',
      health: { state: 'nothing_serves', since: time, reason: expect.any(String), processes: [] },
      image_version: isExternal ? '1.4.2' : null,
      latest_revision_id: expect.any(String),
      active_revision_id: null,
      created_at: time,
      updated_at: reply.body.created_at,
    })
    const read = await tenant.get(reply.headers.get('Location')!)
    expect(read.body).toEqual(reply.body)
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([reply.body])
    const { resources } = (await tenant.get(`/v2/deployments/${reply.body.id}/revisions`)).body
    expect(resources).toMatchObject([
      {
        id: reply.body.latest_revision_id,
        number: 1,
        source,
        status: states[source],
        reasons: ['created'],
        actor: { kind: 'key' },
      },
    ])
  })

  it.each(sources)('from source %s is refused in the mode without that source', async source => {
    const tenant = await newTenantFor(source === 'external_container' ? 'githost' : 'external_container')
    const reply = await tenant.post('/v2/deployments', await makeBodyFor(tenant, source))
    expect(outcome(reply)).toEqual([400, 'source_rule'])
    expect(reply.body.errors).toMatchObject([{ type: 'source_mode', loc: ['body', 'source'] }])
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
    expect((await tenant.get('/sessions')).body).toEqual([])
  })

  it('that breaks several rules of its source is refused with all of them', async () => {
    const tenant = await newTenant()
    const reply = await tenant.post('/v2/deployments', {
      ...(await makeBodyFor(tenant, 'githost')),
      source_config: { listener_id: unusedId() },
      source_revision_config: { repo_ref: 'main', image_uri: 'app:1' },
    })
    expect(outcome(reply)).toEqual([400, 'source_rule'])
    expect(reply.body.errors.map((one: { loc: string[] }) => one.loc.at(-1)).sort()).toEqual([
      'image_uri',
      'integration_id',
      'listener_id',
      'repo_url',
    ])
  })

  it('waits for its database if it requests one', async () => {
    const spec = { resource_spec: { db_cpu: 1 } }
    expect((await createContainer(await newTenant(), { source_config: spec })).status).toBe('AWAITING_DATABASE')
  })

  it('can use only an active integration of its own workspace', async () => {
    const [tenant, other] = await Promise.all([newTenant(), newTenant()])
    const createWith = async (integration_id: string) => {
      const source_config = { ...(await makeRepositoryConfig(tenant)), integration_id }
      return outcome(await tenant.post('/v2/deployments', await makeBodyFor(tenant, 'githost', { source_config })))
    }
    const foreignIntegration = await getIntegration(other)
    for (const id of [unusedId(), foreignIntegration])
      expect(await createWith(id)).toEqual([400, 'integration_unknown'])
    for (const state of ['suspended', 'revoked'] as const)
      expect(await createWith(await newIntegration(tenant, { state }))).toEqual([409, `integration_${state}`])
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })

  it('cannot get a new ref after its integration was revoked or deleted, but accepts other changes', async () => {
    const tenant = await newTenant()
    const integration_id = await newIntegration(tenant)
    const source_config = { ...(await makeRepositoryConfig(tenant)), integration_id }
    const { id } = (await tenant.post('/v2/deployments', await makeBodyFor(tenant, 'githost', { source_config }))).body
    await runAsSystem(
      getApp().database,
      sql`update integrations set state = 'revoked' where id = ${integration_id}::uuid`,
    )
    const path = `/v2/deployments/${id}`
    for (const query of ['', '?dry_run=true'])
      expect(outcome(await tenant.patch(path + query, { source_revision_config: { repo_ref: 'next' } }))).toEqual([
        409,
        'integration_revoked',
      ])
    await runAsSystem(getApp().database, sql`delete from integrations where id = ${integration_id}::uuid`)
    expect(outcome(await tenant.patch(path, { revision_source: 'githost' }))).toEqual([400, 'integration_unknown'])
    expect((await tenant.patch(path, { source_config: { install_command: 'make' } })).status).toBe(200)
  })

  it('can be created from the members of a listed repository', async () => {
    const tenant = await newTenant()
    const { integration_id, repo_url } = await makeRepositoryConfig(tenant)
    const listed = {
      host_integration_id: integration_id,
      id: 42,
      name: 'app',
      owner: 'acme',
      url: repo_url,
      default_branch: 'trunk',
    }
    const { name, source, secrets } = await makeBodyFor(tenant, 'githost')
    const config = { repo_url: listed.url }
    const source_revision_config = { repo_ref: listed.default_branch }
    const members = { source, secrets, source_revision_config }
    for (const over of [
      { source_config: { ...config, integration_id: listed.host_integration_id } },
      { source_config: config, integration_id: listed.host_integration_id },
    ]) {
      const body = { ...members, ...over, name: `${name}-${Object.keys(over).length}` }
      const plan = await tenant.post('/v2/deployments?dry_run=true', body)
      const reply = await tenant.post('/v2/deployments', body, { 'Plan-Digest': plan.body.plan_digest })
      expect(reply.status).toBe(201)
      expect(reply.body.source_config).toMatchObject({ integration_id, repo_url, build_on_push: false })
      expect(reply.body.source_revision_config).toMatchObject({ repo_ref: 'trunk', platform_config_path: null })
    }
    const two = { ...members, name, integration_id, source_config: { ...config, integration_id: unusedId() } }
    const refused = await tenant.post('/v2/deployments', two)
    expect([refused.status, refused.body.errors.map(({ loc }: { loc: string[] }) => loc)]).toEqual([
      422,
      [['body', 'integration_id']],
    ])
  })

  it('is created once under an idempotency key, even with concurrent requests', async () => {
    const tenant = await newTenant()
    const request = makeBody('internal_container', { secrets: [{ name: 'KEY', value: 'hush' }] })
    const headers = { 'Idempotency-Key': 'make' }
    const first = await tenant.post('/v2/deployments', request, headers)
    const again = await tenant.post('/v2/deployments', request, headers)
    expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([201, 'true'])
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('Location')).toBe(first.headers.get('Location'))
    expect(outcome(await tenant.post('/v2/deployments', { ...request, name: 'other' }, headers))).toEqual([
      422,
      'idempotency_key_reused',
    ])
    expect((await tenant.get('/v2/deployments')).body.resources).toHaveLength(1)

    const once = { 'Idempotency-Key': 'once' }
    const concurrent = makeBody('internal_container')
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => tenant.post('/v2/deployments', concurrent, once)),
    )
    for (const reply of replies) expect(reply.body.code ?? reply.status).toBeOneOf([201, 'idempotency_in_flight'])
    expect((await tenant.get('/v2/deployments')).body.resources).toHaveLength(2)
  })
})
describe('the name of a deployment', () => {
  it('is unique in its workspace, and free again after a deletion', async () => {
    const tenant = await newTenant()
    const first = await createContainer(tenant, { name: 'shop' })
    const taken = await tenant.post('/v2/deployments', makeBody('internal_container', { name: 'shop' }))
    expect(outcome(taken)).toEqual([409, 'deployment_name_taken'])
    expect((await createContainer(await newTenant(), { name: 'shop' })).name).toBe('shop')
    await tenant.delete(`/v2/deployments/${first.id}`)
    const second = await createContainer(tenant, { name: 'shop' })
    expect(second.id).not.toBe(first.id)
    const { resources } = (await tenant.get('/v2/deployments?name_contains=shop')).body
    expect(resources.map((one: { status: string }) => one.status)).toEqual(['READY', 'AWAITING_DELETE'])
    expect((await tenant.get('/sessions')).body).toMatchObject([{ deployment_id: second.id }])
  })

  it('is refused if a tracing project has it, and nothing is created', async () => {
    const tenant = await newTenant()
    await runAsSystem(
      getApp().database,
      sql`insert into projects (organization_id, tenant_id, name)
        values (${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, 'shop')`,
    )
    const taken = await tenant.post('/v2/deployments', makeBody('internal_container', { name: 'shop' }))
    expect(outcome(taken)).toEqual([409, 'project_name_taken'])
    expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
  })

  it('goes to one of several concurrent requests', async () => {
    const tenant = await newTenant()
    const replies = await Promise.all(
      Array.from({ length: 10 }, () =>
        tenant.post('/v2/deployments', makeBody('internal_container', { name: 'shop' })),
      ),
    )
    expect(replies.map(outcome).sort()).toEqual([[201, undefined], ...Array(9).fill([409, 'deployment_name_taken'])])
  })
})

describe('deleting', () => {
  it('one deployment sets AWAITING_DELETE, and is refused the second time', async () => {
    const tenant = await newTenant()
    const { id } = await createContainer(tenant)
    const path = `/v2/deployments/${id}`
    expect((await tenant.delete(path)).status).toBe(204)
    expect((await tenant.get(path)).body).toMatchObject({ id, status: 'AWAITING_DELETE' })
    expect(outcome(await tenant.delete(path))).toEqual([404, 'deployment_not_found'])
    expect(outcome(await tenant.patch(path, { source_config: { build_command: 'make' } }))).toEqual([
      409,
      'deployment_deleting',
    ])
  })

  it('one deployment deletes its tracing project, unless it is to stay', async () => {
    const tenant = await newTenant()
    const [gone, kept, kept2] = [
      await createContainer(tenant),
      await createContainer(tenant),
      await createContainer(tenant),
    ]
    await tenant.delete(`/v2/deployments/${gone.id}`)
    await tenant.delete(`/v2/deployments/${kept.id}?delete_tracing_project=false`)
    await tenant.delete(`/v2/deployments?deployment_ids=${kept2.id}&delete_tracing_project=false`)
    const { body } = await tenant.get('/sessions')
    const left = body.map(({ name, deployment_id }: Record<string, unknown>) => [name, deployment_id])
    expect(left.sort()).toEqual([kept, kept2].map(({ name }) => [name, null]).sort())
    const again = (name: string) => tenant.post('/v2/deployments', makeBody('internal_container', { name }))
    expect(outcome(await again(kept.name))).toEqual([409, 'project_name_taken'])
    expect((await again(gone.name)).status).toBe(201)
    const [stayed] = body.filter(({ name }: { name: string }) => name === kept.name)
    expect((await tenant.delete(`/sessions/${stayed.id}`)).status).toBe(204)
    expect((await again(kept.name)).status).toBe(201)
  })

  it('several deployments returns the result of each', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const ids = await Promise.all(Array.from({ length: 3 }, async () => (await createContainer(tenant)).id as string))
    const foreignId = (await createContainer(foreign)).id
    const deleted = (id: string) => ({ id, status: 204, code: null })
    const missing = (id: string) => ({ id, status: 404, code: 'deployment_not_found' })
    const allFound = await tenant.delete(`/v2/deployments?deployment_ids=${ids.slice(0, 2)}`)
    expect([allFound.status, allFound.body.results]).toEqual([200, ids.slice(0, 2).map(deleted)])
    const someFound = await tenant.delete(`/v2/deployments?deployment_ids=${[foreignId, ids[2], ids[0]]}`)
    expect([someFound.status, someFound.body.results]).toEqual([
      207,
      [missing(foreignId), deleted(ids[2]!), missing(ids[0]!)],
    ])
    const noneFound = await tenant.delete(`/v2/deployments?deployment_ids=${ids}`)
    expect([noneFound.status, noneFound.body.results]).toEqual([207, ids.map(missing)])
    expect((await foreign.get(`/v2/deployments/${foreignId}`)).body.status).toBe('READY')
    expect((await tenant.delete('/v2/deployments')).status).toBe(422)
  })
})

describe('a conditional request', () => {
  it('is answered with 304 for a current If-None-Match and with 412 for an outdated If-Match', async () => {
    const tenant = await newTenant()
    const path = `/v2/deployments/${(await createContainer(tenant)).id}`
    const old = (await tenant.get(path)).headers.get('ETag')!
    const notModified = await tenant.get(path, { 'If-None-Match': old })
    expect([notModified.status, notModified.text, notModified.headers.get('ETag')]).toEqual([304, '', old])
    const makePatch = (build_command: string) => ({ source_config: { build_command } })
    const patched = await tenant.patch(path, makePatch('make'), { 'If-Match': old })
    const current = patched.headers.get('ETag')!
    expect([patched.status, current === old]).toEqual([200, false])
    expect((await tenant.get(path, { 'If-None-Match': old })).headers.get('ETag')).toBe(current)
    expect(outcome(await tenant.patch(path, makePatch('all'), { 'If-Match': old }))).toEqual([
      412,
      'precondition_failed',
    ])
    expect(outcome(await tenant.delete(path, undefined, { 'If-Match': old }))).toEqual([412, 'precondition_failed'])
    expect((await tenant.get(path)).body.source_config.build_command).toBe('make')
    expect((await tenant.delete(path, undefined, { 'If-Match': current })).status).toBe(204)
  })

  it('is required for a change if the workspace requires If-Match', async () => {
    const tenant = await newTenant()
    const path = `/v2/deployments/${(await createContainer(tenant)).id}`
    await tenant.owner.patch(`/workspaces/${tenant.tenant_id}`, { require_if_match: true })
    for (const reply of [await tenant.patch(path, {}), await tenant.delete(path)])
      expect(outcome(reply)).toEqual([428, 'if_match_required'])
    expect((await tenant.delete(path, undefined, { 'If-Match': '*' })).status).toBe(204)
  })
})

describe('the version of an image', () => {
  const digest = `@sha256:${'a'.repeat(64)}`
  it.each([
    ['app:1.2.3', '1.2.3'],
    ['registry.example.com:5000/acme/app:v2_rc-1', 'v2_rc-1'],
    [`acme/app:1.2${digest}`, '1.2'],
    [`acme/app${digest}`, null],
    ['registry.example.com:5000/acme/app', null],
  ])(
    'in %s is %s for a new and for a patched deployment, and the list can be filtered by it',
    async (image_uri, version) => {
      const tenant = await newTenant()
      const created = await createContainer(tenant, { source_revision_config: { image_uri } })
      expect(created.image_version).toBe(version)
      const { id } = await createContainer(tenant, { source_revision_config: { image_uri: 'app:old' } })
      const path = `/v2/deployments/${id}`
      const patched = await tenant.patch(path, { source_revision_config: { image_uri } })
      expect(patched.body.image_version).toBe(version)
      const unchanged = await tenant.patch(path, { source_config: { build_command: 'make' } })
      expect(unchanged.body.image_version).toBe(version)
      const { resources } = (await tenant.get(`/v2/deployments?image_version=${version ?? 'old'}`)).body
      expect(resources).toHaveLength(version ? 2 : 0)
    },
  )
})
