// The plan of a new deployment: what it shows, that nothing is written, and that it refuses what creating it refuses.
import { describe, expect, it } from 'vitest'
import { newTenant, readEvents, SEALING_KEYS, send, startApp, type Tenant } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'

const PATH = '/v2/deployments'
const planOf = (tenant: Tenant, body: object) => tenant.post(`${PATH}?dry_run=true`, body)

describe('the plan of a new deployment', () => {
  it('shows its members and the names of its secrets, and creates nothing', async () => {
    const tenant = await newTenant()
    const body = makeImageBody({ source_config: { resource_spec: { cpu: 2 }, deployment_type: 'prod' } })
    const plan = await planOf(tenant, body)
    expect(plan.status).toBe(200)
    expect(plan.body).toMatchObject({ creates_revision: true, reasons: ['created'], warnings: [] })
    expect(plan.body.changes).toEqual([
      { path: 'name', before: null, after: body.name, effect: 'in_place' },
      { path: 'source', before: null, after: 'internal_container', effect: 'in_place' },
      { path: 'source_config.deployment_type', before: null, after: 'prod', effect: 'in_place' },
      { path: 'source_config.resource_spec.cpu', before: null, after: 2, effect: 'revision' },
      { path: 'source_revision_config.image_uri', before: null, after: expect.any(String), effect: 'revision' },
      { path: 'secrets', before: null, after: ['TOKEN'], effect: 'revision' },
    ])
    expect((await tenant.get(PATH)).body.resources).toEqual([])
    expect((await tenant.get('/sessions')).text).not.toContain(body.name)
  })

  it('is applied with its digest; another body with that digest is a stale plan', async () => {
    const tenant = await newTenant()
    const body = makeImageBody()
    const { plan_digest } = (await planOf(tenant, body)).body
    const other = await tenant.post(PATH, { ...body, secrets: [] }, { 'Plan-Digest': plan_digest })
    expect([other.status, other.body.code]).toEqual([409, 'plan_stale'])
    const later = await tenant.post(PATH, body, { 'Plan-Digest': plan_digest.replace(/^0/, '1') })
    expect([later.status, later.body.code]).toEqual([409, 'plan_stale'])
    expect((await tenant.post(PATH, body, { 'Plan-Digest': plan_digest })).status).toBe(201)
  })

  it('has a digest that shows nothing of a weak secret, and stays valid when keys are rotated', async () => {
    const tenant = await newTenant()
    const body = makeImageBody({ secrets: [{ name: 'PIN', value: '1234' }] })
    const { plan_digest } = (await planOf(tenant, body)).body
    const other = `other:${Buffer.alloc(32, 8).toString('base64url')}`
    const headers = { 'X-Api-Key': tenant.key }
    const digestWith = async (keys: string) => {
      const app = startApp({ settings: { SEALING_KEYS: keys } })
      return (await send('POST', `${PATH}?dry_run=true`, { body, headers, app })).body.plan_digest
    }
    // The same plan has another digest under another key, so it cannot be computed without one.
    expect(await digestWith(SEALING_KEYS)).toBe(plan_digest)
    expect(await digestWith(`${other},${SEALING_KEYS}`)).not.toBe(plan_digest)
    const app = startApp({ settings: { SEALING_KEYS: `${other},${SEALING_KEYS}` } })
    const applied = await send('POST', PATH, { body, headers: { ...headers, 'Plan-Digest': plan_digest }, app })
    expect(applied.status).toBe(201)
  })

  it('needs the permission to create, writes no event, and does not use up an idempotency key', async () => {
    const tenant = await newTenant()
    const body = makeImageBody()
    const keyWith = async (permission: string) => {
      const { key } = (
        await tenant.post('/workspaces/current/api-keys', { description: permission, permissions: [permission] })
      ).body
      return tenant.as(key)
    }
    const refused = await (await keyWith('deployments:read')).post(`${PATH}?dry_run=true`, body)
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
    const headers = { 'Idempotency-Key': 'once' }
    const creator = await keyWith('deployments:create')
    const plans = [
      await creator.post(`${PATH}?dry_run=true`, body, headers),
      await creator.post(`${PATH}?dry_run=true`, body, headers),
    ]
    expect(plans[1]!.body).toEqual(plans[0]!.body)
    expect(await readEvents(plans[0]!.headers.get('X-Request-Id')!)).toEqual([])
    expect((await creator.post(PATH, body, headers)).status).toBe(201)
    const afterwards = await creator.post(`${PATH}?dry_run=true`, body, headers)
    expect(afterwards.body.code).toBe('idempotency_key_reused')
  })

  it('reports every fault of the request at once', async () => {
    const tenant = await newTenant()
    const source_config = { resource_spec: { cpu: -1, cpus: 2 }, custom_url: 'ftp://x' }
    const body = makeImageBody({ name: 'Not A Name', source_config, secrets: [{ name: '1' }] })
    const faultsOf = async (query: string) => {
      const reply = await tenant.post(`${PATH}${query}`, body)
      return [reply.status, reply.body.errors.map((fault: { loc: string[] }) => fault.loc.join('.')).sort()]
    }
    const [status, faults] = await faultsOf('?dry_run=true')
    expect(status).toBe(422)
    expect(faults).toEqual([
      'body.name',
      'body.secrets.0.name',
      'body.secrets.0.value',
      'body.source_config.custom_url',
      'body.source_config.resource_spec.cpu',
      'body.source_config.resource_spec.cpus',
    ])
    expect(await faultsOf('')).toEqual([status, faults])
  })

  it('warns of a first revision that waits for its archive', async () => {
    const tenant = await newTenant()
    const body = makeImageBody({ source: 'internal_source', source_revision_config: {} })
    expect((await planOf(tenant, body)).body.warnings).toHaveLength(1)
  })

  it('refuses what creating the deployment refuses', async () => {
    const tenant = await newTenant()
    const taken = makeImageBody()
    await tenant.post(PATH, taken)
    const unknownId = crypto.randomUUID()
    const refused: object[] = [
      taken,
      makeImageBody({ source_config: { repo_url: 'https://git.example.com/a/b' } }),
      makeImageBody({ source_config: { listener_id: unknownId } }),
      makeImageBody({ source_config: { integration_id: unknownId } }),
      makeImageBody({ source: 'internal_source', source_revision_config: { source_tarball_path: 'unknown' } }),
      makeImageBody({ name: 'Not A Name' }),
    ]
    for (const body of refused) {
      const [plan, creation] = [await planOf(tenant, body), await tenant.post(PATH, body)]
      expect(plan.status).toBeGreaterThanOrEqual(400)
      expect([plan.status, plan.body.code, plan.body.detail]).toEqual([
        creation.status,
        creation.body.code,
        creation.body.detail,
      ])
    }
  })
})

describe('a plan warns of what is replaced as a whole', () => {
  const secrets = ['GREETING', 'TOKEN'].map(name => ({ name, value: 'hush' }))

  it('secrets that are not sent again, also in a rollback', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = (await tenant.post(PATH, makeImageBody({ secrets: secrets.slice(1) }))).body
    const path = `${PATH}/${id}`
    await tenant.patch(path, { secrets })
    const plan = await tenant.patch(`${path}?dry_run=true`, { secrets: [{ name: 'TOKEN', value: '********' }] })
    expect(plan.body.warnings).toEqual([expect.stringContaining('GREETING')])
    const rollback = await tenant.post(`${path}/rollback?dry_run=true`, { revision_id: latest_revision_id })
    expect(rollback.body.warnings[0]).toContain('GREETING')
  })
})
