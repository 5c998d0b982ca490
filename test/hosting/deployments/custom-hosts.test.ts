import { sql } from 'drizzle-orm'
import { afterAll, describe, expect, it } from 'vitest'
import { createVerificationRecord } from '../../../src/hosting/custom-hosts/custom-hosts.ts'
import { registerPlatformListener } from '../../../src/hosting/listeners/platform-listener.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { sources } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, type Reply, startApp, type Tenant, txtRecords, unusedId } from '../../support/app.ts'
import { imageConfig } from '../../support/deployments.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const settings = {
  SLIPWAY_MODE: 'self_hosted',
  APPS_DOMAIN: 'apps.example.net',
  PUBLIC_URL: 'https://slipway.example.net',
}
const app = startApp({ settings })
// A shared listener serves deployments of other organizations, so those block the deletion of its own.
afterAll(() => runAsSystem(app.database, sql`delete from deployments`))

const saas = startApp({ settings: { ...settings, SLIPWAY_MODE: 'saas' } })

const newAppTenant = () => newTenant({ app })
const NO_PROBLEM = { certificate_failed_at: null, unreachable_since: null }
const newHost = () => `${unusedId()}.example.com`
const makeBody = (source_config: object) => ({
  name: `app-${unusedId()}`,
  source: 'external_container',
  source_config: { resource_spec: {}, ...source_config },
  source_revision_config: imageConfig,
  secrets: [],
})
const create = (tenant: Tenant, custom_url?: string, more: object = {}) =>
  tenant.post('/v2/deployments', makeBody({ custom_url, ...more }))
const patch = (tenant: Tenant, id: string, custom_url: string, query = '') =>
  tenant.patch(`/v2/deployments/${id}${query}`, { source_config: { custom_url } })
const outcome = ({ status, body }: Reply) => (status < 300 ? status : body.code)
const verify = (tenant: Tenant, host: string, headers?: Record<string, string>) =>
  tenant.post(`/v2/custom-hosts/${host}/verification`, undefined, headers)
/** Sets the verification records of a host to those of these workspaces. */
async function setProofRecords(host: string, ...tenants: Tenant[]) {
  const records = await Promise.all(tenants.map(({ tenant_id }) => createVerificationRecord(app, tenant_id, host)))
  txtRecords.set(`_slipway.${host}`, ['v=spf1 -all', ...records.map(({ value }) => value)])
}
const listHosts = async (tenant: Tenant) => (await tenant.get('/v2/custom-hosts')).body.resources
const explainCodes = async (tenant: Tenant, id: string) =>
  (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources.map(({ code }: { code: string }) => code)
const readEventTypes = async (tenant: Tenant, host: string) => {
  const query = sql`
    select type
    from events
    where tenant_id = ${tenant.tenant_id}::uuid and data ->> 'host' = ${host}
    order by seq`
  const [rows] = (await runAsSystem(app.database, query)) as [[string][]]
  return rows.map(([type]) => type)
}

/** Starts an agent that serves every workspace without a listener, and returns how to read its custom URLs. */
async function startSharedAgent(tenant: Tenant) {
  const { organization_id } = tenant
  const listener = { organization_id, compute_id: `shared-${unusedId()}`, compute_type: 'local' as const }
  const { listener_key } = await registerPlatformListener(app.database, listener)
  const agent = makeSyncAgent(tenant, listener_key)
  const customUrls = new Map<string, string | null>()
  return async () => {
    // The first poll only assigns deployments without a listener.
    const works = [...(await agent.pollAll()), ...(await agent.pollAll())]
    for (const work of works) customUrls.set(work.deployment_id, work.custom_url)
    return customUrls
  }
}

describe('a custom host', () => {
  it('that one workspace has is refused to every other workspace, in any spelling', async () => {
    const [own, other] = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    expect(outcome(await create(own, `https://${host}/shop`))).toBe(201)
    const { id } = (await create(other)).body
    for (const url of [host, host.toUpperCase(), `https://${host}/other`, `https://${host}:8443`, `${host}:443`]) {
      expect(outcome(await create(other, url)), url).toBe('custom_host_taken')
      expect(outcome(await patch(other, id, url)), url).toBe('custom_host_taken')
      expect(outcome(await patch(other, id, url, '?dry_run=true')), url).toBe('custom_host_taken')
    }
    expect(outcome(await create(other, `sub.${host}`))).toBe(201)
    expect(await listHosts(other)).toMatchObject([{ host: `sub.${host}` }])
  })

  it('can be shared by deployments of one workspace, each with its own path', async () => {
    const tenant = await newAppTenant()
    const host = newHost()
    const { id } = (await create(tenant, `https://${host}/one`)).body
    expect(outcome(await create(tenant, `https://${host}/two`))).toBe(201)
    for (const url of [`https://${host}/one`, `https://${host}/one/`, `https://${host}/x/../two`])
      expect(outcome(await create(tenant, url)), url).toBe('custom_url_taken')
    expect(outcome(await patch(tenant, id, `https://${host}/two`))).toBe('custom_url_taken')
    expect(outcome(await patch(tenant, id, `https://${host}/one`))).toBe(200)
    expect(outcome(await patch(tenant, id, host))).toBe(200)
    expect(await listHosts(tenant)).toHaveLength(1)
  })

  it('goes to one of several workspaces that claim it at the same time', async () => {
    const tenants = await Promise.all(Array.from({ length: 6 }, newAppTenant))
    const host = newHost()
    const outcomes = await Promise.all(tenants.map(async tenant => outcome(await create(tenant, host))))
    expect(outcomes.sort()).toEqual([201, ...Array(5).fill('custom_host_taken')])
  })

  it.each<[string, (tenant: Tenant, ids: string[]) => Promise<unknown>]>([
    [
      'every custom_url with it is cleared',
      (tenant, ids) => each(ids, id => tenant.patch(`/v2/deployments/${id}?clear=custom_url`, {})),
    ],
    ['every custom_url with it gets another host', (tenant, ids) => each(ids, id => patch(tenant, id, newHost()))],
    ['every deployment with it is deleted', (tenant, ids) => each(ids, id => tenant.delete(`/v2/deployments/${id}`))],
    [
      'all deployments with it are deleted in one request',
      (tenant, ids) => tenant.delete(`/v2/deployments?deployment_ids=${ids}`),
    ],
    [
      'all deployments with it are deleted by concurrent requests',
      (tenant, ids) => Promise.all(ids.map(id => tenant.delete(`/v2/deployments/${id}`))),
    ],
    ['its workspace is deleted', tenant => tenant.owner.delete(`/workspaces/${tenant.tenant_id}`)],
  ])('is free again when %s', async (_, release) => {
    const [own, other] = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    const ids = [(await create(own, host)).body.id, (await create(own, `https://${host}/more`)).body.id]
    expect(outcome(await create(other, host))).toBe('custom_host_taken')
    await release(own, ids)
    expect(outcome(await create(other, host))).toBe(201)
  })
  const each = async (ids: string[], act: (id: string) => Promise<Reply>) => {
    for (const id of ids) expect((await act(id)).status).toBeLessThan(300)
  }

  it.each([
    'slipway.example.net',
    'apps.example.net',
    'shop.apps.example.net',
    'localhost',
    'shop.localhost',
    'registry.example.com',
  ])('cannot be %s, which is reserved for the installation', async host => {
    const tenant = await newAppTenant()
    const { id } = (await create(tenant)).body
    expect(outcome(await create(tenant, `https://${host}/x`))).toBe('custom_host_reserved')
    expect(outcome(await patch(tenant, id, host))).toBe('custom_host_reserved')
    expect(outcome(await verify(tenant, host))).toBe('custom_host_reserved')
  })
})

describe.each(sources.filter(source => source !== 'external_container'))('a deployment of source %s', source => {
  const bodyOf = async (tenant: Tenant) =>
    source === 'githost'
      ? makeRepositoryBody(tenant, { secrets: [] })
      : {
          name: `app-${unusedId()}`,
          source,
          source_config: source === 'internal_template' ? { template_id: 'web-service' } : {},
          source_revision_config: source === 'internal_container' ? imageConfig : {},
          secrets: [],
        }
  async function createHere(tenant: Tenant, custom_url: string) {
    const body = await bodyOf(tenant)
    return tenant.post('/v2/deployments', { ...body, source_config: { ...body.source_config, custom_url } })
  }

  it('can be created with a custom_url, of which every rule holds', async () => {
    const [own, other] = await Promise.all([newTenant({ app: saas }), newTenant({ app: saas })])
    const host = newHost()
    const { status, body } = await createHere(own, `https://${host}/shop`)
    expect([status, body.source_config.custom_url]).toEqual([201, `https://${host}/shop`])
    expect(outcome(await createHere(own, `https://${host}/shop`))).toBe('custom_url_taken')
    expect(outcome(await createHere(other, host))).toBe('custom_host_taken')
    expect(outcome(await createHere(other, 'shop.apps.example.net'))).toBe('custom_host_reserved')
    expect(await explainCodes(own, body.id)).toContain('custom_url_unverified')
  })

  it('can get another custom_url without a new revision, and lose it', async () => {
    const tenant = await newTenant({ app: saas })
    const { id } = (await createHere(tenant, newHost())).body
    const host = newHost()
    expect((await patch(tenant, id, host, '?dry_run=true')).body).toMatchObject({
      creates_revision: false,
      changes: [{ path: 'source_config.custom_url', after: host, effect: 'in_place' }],
    })
    expect((await patch(tenant, id, host)).body.source_config.custom_url).toBe(host)
    expect(await listHosts(tenant)).toMatchObject([{ host, served: false }])
    expect((await tenant.patch(`/v2/deployments/${id}?clear=custom_url`, {})).body.source_config.custom_url).toBeNull()
    expect(await listHosts(tenant)).toEqual([])
  })
})

describe('the verification of a custom host', () => {
  it('names the missing record, and does not accept the record of another workspace', async () => {
    const [tenant, other] = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    const { id } = (await create(tenant, host)).body
    const [{ record, ...rest }] = await listHosts(tenant)
    expect(rest).toEqual({ host, verified_at: null, ...NO_PROBLEM, served: false })
    expect(record.name).toBe(`_slipway.${host}`)
    const refused = await verify(tenant, host)
    expect([refused.status, refused.body.code]).toEqual([404, 'custom_host_unproven'])
    expect(refused.body.detail).toContain(`${record.name} TXT "${record.value}"`)
    for (const wrong of [
      [],
      ['slipway-host='],
      [record.value.slice(0, -1)],
      [`${record.value}x`, 'a'.repeat(60_000)],
    ]) {
      txtRecords.set(record.name, wrong)
      expect(outcome(await verify(tenant, host))).toBe('custom_host_unproven')
    }
    await setProofRecords(host, other)
    expect(outcome(await verify(tenant, host))).toBe('custom_host_unproven')
    expect(await explainCodes(tenant, id)).toContain('custom_url_unverified')
    await setProofRecords(host, tenant)
    const { body } = await verify(tenant, host.toUpperCase())
    expect(body).toEqual({ host, verified_at: expect.any(String), ...NO_PROBLEM, record, served: true })
    expect(await listHosts(tenant)).toEqual([body])
    expect(await explainCodes(tenant, id)).not.toContain('custom_url_unverified')
    expect(await readEventTypes(tenant, host)).toEqual(['custom_host.verified'])
  })

  it('moves an unverified host to the workspace that verifies it, with an event in both journals', async () => {
    const [squatter, owner] = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    const { id } = (await create(squatter, host)).body
    await setProofRecords(host, owner)
    expect(outcome(await verify(owner, host))).toBe(200)
    expect(await listHosts(squatter)).toEqual([])
    expect(await explainCodes(squatter, id)).toContain('custom_url_lost')
    expect(await readEventTypes(squatter, host)).toEqual(['custom_host.lost'])
    expect(await readEventTypes(owner, host)).toEqual(['custom_host.verified'])
    // The previous owner must not see who took the host over.
    const cause = sql`
      select actor_name, request
      from events
      where tenant_id = ${squatter.tenant_id}::uuid and type = 'custom_host.lost'`
    expect(await runAsSystem(getApp().database, cause)).toEqual([[[null, null]]])
    expect(outcome(await create(owner, host))).toBe(201)
    // The deployment that lost the host can still be changed, but does not get it back.
    expect(
      outcome(await squatter.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { cpu: 1 } } })),
    ).toBe(200)
    expect(outcome(await create(squatter, `https://${host}/more`))).toBe('custom_host_taken')
    await squatter.delete(`/v2/deployments/${id}`)
    expect(await listHosts(owner)).toHaveLength(1)
  })

  it('moves a verified host only after the record of its owner is gone', async () => {
    const [first, second] = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    await create(first, host)
    await setProofRecords(host, first)
    await verify(first, host)
    await setProofRecords(host, first, second)
    expect(outcome(await verify(second, host))).toBe('custom_host_taken')
    expect(outcome(await verify(first, host))).toBe(200)
    await setProofRecords(host, second)
    expect(outcome(await verify(second, host))).toBe(200)
    expect(await readEventTypes(first, host)).toContain('custom_host.lost')
    expect(await listHosts(first)).toEqual([])
  })

  it('succeeds for one of two concurrent workspaces', async () => {
    const tenants = await Promise.all([newAppTenant(), newAppTenant()])
    const host = newHost()
    await Promise.all(tenants.map(tenant => create(tenant, host)))
    await setProofRecords(host, ...tenants)
    const outcomes = await Promise.all(tenants.map(async tenant => outcome(await verify(tenant, host))))
    expect(outcomes.sort()).toEqual([200, 'custom_host_taken'])
    const hosts = await Promise.all(tenants.map(listHosts))
    expect(hosts.flat()).toHaveLength(1)
  })

  it('does not deadlock with concurrent changes of the same hosts', async () => {
    const tenants = await Promise.all([newAppTenant(), newAppTenant()])
    const hosts = [newHost(), newHost()] as const
    for (const host of hosts) await setProofRecords(host, ...tenants)
    const ids = await Promise.all(tenants.map(async tenant => (await create(tenant)).body.id))
    const requests = Array.from({ length: 10 }, (_, round) =>
      tenants.flatMap((tenant, i) => [
        patch(tenant, ids[i], hosts[(round + i) % 2]!),
        verify(tenant, hosts[(round + i) % 2]!),
        create(tenant, `https://${hosts[round % 2]}/${round}`),
        tenant.patch(`/v2/deployments/${ids[i]}?clear=custom_url`, {}),
      ]),
    ).flat()
    const outcomes = new Set((await Promise.all(requests)).map(outcome))
    for (const one of outcomes) expect([200, 201, 'custom_host_taken', 'custom_url_taken']).toContain(one)
  })

  it('is replayed under an idempotency key without a DNS lookup', async () => {
    const tenant = await newAppTenant()
    const host = newHost()
    await setProofRecords(host, tenant)
    const key = { 'Idempotency-Key': 'once' }
    const { body } = await verify(tenant, host, key)
    txtRecords.clear()
    const again = await verify(tenant, host, key)
    expect([again.headers.get('Idempotency-Replayed'), again.body]).toEqual(['true', body])
  })
})

describe('an agent', () => {
  it('that serves several workspaces gets a custom host only after its verification', async () => {
    const [own, other] = await Promise.all([newAppTenant(), newAppTenant()])
    const readCustomUrls = await startSharedAgent(own)
    const host = newHost()
    const unverified = (await create(other, `https://${host}/pay`)).body
    expect((await readCustomUrls()).get(unverified.id)).toBeNull()
    await setProofRecords(host, own)
    await verify(own, host)
    const shop = (await create(own, host)).body
    expect((await readCustomUrls()).get(shop.id)).toBe(host)
    expect((await readCustomUrls()).get(unverified.id)).toBeNull()
    await setProofRecords(host, other)
    await verify(other, host)
    const after = await readCustomUrls()
    expect([after.get(shop.id), after.get(unverified.id)]).toEqual([null, `https://${host}/pay`])
  })

  it('that serves several workspaces gets the host of a template only after it is verified', async () => {
    const tenant = await newTenant({ app: saas })
    const readCustomUrls = await startSharedAgent(tenant)
    const host = newHost()
    const config = { source_config: { template_id: 'web-service', custom_url: host }, source_revision_config: {} }
    const body = { name: `app-${unusedId()}`, source: 'internal_template', secrets: [], ...config }
    const { id } = (await tenant.post('/v2/deployments', body)).body
    expect((await readCustomUrls()).get(id)).toBeNull()
    await setProofRecords(host, tenant)
    await verify(tenant, host)
    expect((await readCustomUrls()).get(id)).toBe(host)
  })

  it('for one workspace that serves in public gets a host only after it is verified', async () => {
    const tenant = await newAppTenant()
    const { listener, key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await agent.poll({ verified_hosts_only: true })
    const host = newHost()
    const created = await create(tenant, host, { listener_id: listener.id })
    expect(created.status).toBe(201)
    const readUrls = async () => (await agent.poll({ verified_hosts_only: true })).changes.map(work => work.custom_url)
    expect(await readUrls()).toEqual([null])
    expect(await listHosts(tenant)).toMatchObject([{ verified_at: null, served: false }])
    expect(await explainCodes(tenant, created.body.id)).toContain('custom_url_unverified')
    await setProofRecords(host, tenant)
    await verify(tenant, host)
    expect(await readUrls()).toEqual([host])
    expect(await listHosts(tenant)).toMatchObject([{ served: true }])
  })

  it('for one workspace gets an unverified host, until another workspace verifies it', async () => {
    const tenant = await newAppTenant()
    const { listener, key } = await newListener(tenant)
    const host = newHost()
    const { id } = (await create(tenant, host, { listener_id: listener.id })).body
    const agent = makeSyncAgent(tenant, key)
    expect(await agent.pollAll()).toMatchObject([{ deployment_id: id, custom_url: host }])
    expect(await listHosts(tenant)).toMatchObject([{ verified_at: null, served: true }])
    expect(await explainCodes(tenant, id)).not.toContain('custom_url_unverified')
    const owner = await newAppTenant()
    await setProofRecords(host, owner)
    await verify(owner, host)
    expect(await agent.pollAll()).toMatchObject([{ deployment_id: id, custom_url: null }])
  })
})

describe('the agent that serves a host', () => {
  it('has an event for each change of its DNS and of its certificate, once', async () => {
    const tenant = await newAppTenant()
    const { listener, key } = await newListener(tenant)
    const host = newHost()
    await create(tenant, host, { listener_id: listener.id })
    const agent = makeSyncAgent(tenant, key)
    const [work] = await agent.pollAll()
    const report = async (facts: object, about = host) => {
      const { body: before } = await tenant.get('/v2/events?order=desc&limit=1')
      await agent.report(work!, { state: 'building', custom_host: { host: about, ...facts } })
      const { body } = await tenant.get(`/v2/events?type=custom_host.*&after=${before.resources[0].number}`)
      return body.resources.map((event: { type: string; data: object }) => [event.type.slice(12), event.data])
    }
    const about = { host, deployment_id: work!.deployment_id }
    const failing = { leads_here: false, certificate: 'failed', reason: 'No record.' }
    expect(await report(failing)).toEqual([
      ['unreachable', { ...about, reason: 'No record.' }],
      ['certificate_failed', { ...about, reason: 'No record.' }],
    ])
    expect(await report({ ...failing, reason: 'Another record.' })).toEqual([])
    expect(await report({ certificate: null })).toEqual([])
    expect(await report({ leads_here: true, reason: 'No answer.' })).toEqual([['reachable', about]])
    expect(await report({ certificate: 'valid' }, newHost())).toEqual([])
    expect(await listHosts(tenant)).toMatchObject([
      { host, certificate_failed_at: expect.any(String), unreachable_since: null },
    ])
    expect(await report({ certificate: 'valid' })).toEqual([['certificate_issued', about]])
  })
})

describe('a dry run', () => {
  it('warns of a custom host that is not verified', async () => {
    const tenant = await newAppTenant()
    const { id } = (await create(tenant)).body
    const host = newHost()
    const { value } = await createVerificationRecord(app, tenant.tenant_id, host)
    const readWarnings = async () => (await patch(tenant, id, host, '?dry_run=true')).body.warnings
    expect(await readWarnings()).toEqual([expect.stringContaining(value)])
    await setProofRecords(host, tenant)
    await verify(tenant, host)
    expect(await readWarnings()).toEqual([])
  })
})
