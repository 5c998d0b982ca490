// The templates that an agent offers: a deployment of another one is refused at its creation.
import { describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { getPlatformAgent } from '../../support/deployments.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const createFrom = (tenant: Tenant, template_id: string, config: object = {}, query = '') =>
  tenant.post(
    `/v2/deployments${query}`,
    makeImageBody({
      source: 'internal_template',
      source_config: { template_id, ...config },
      source_revision_config: {},
    }),
  )

describe('a template', () => {
  it('is accepted until an agent reports its templates, and by a listener of an older agent', async () => {
    const tenant = await newTenant()
    expect((await createFrom(tenant, 'unknown')).status).toBe(201)
    const { listener, key } = await newListener(tenant)
    await makeSyncAgent(tenant, key).poll()
    expect((await createFrom(tenant, 'unknown', { listener_id: listener.id })).status).toBe(201)
  })

  it('that the named listener does not offer is refused, with those that it offers, also in a plan', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await agent.poll({ templates: ['web-service', 'static-site'] })
    // A later poll without them keeps them.
    await agent.poll()
    for (const query of ['', '?dry_run=true']) {
      const { status, body } = await createFrom(tenant, 'web-servic', { listener_id: listener.id }, query)
      expect([status, body.code]).toEqual([400, 'template_unknown'])
      expect(body.detail).toContain('static-site, web-service')
    }
    expect((await createFrom(tenant, 'static-site', { listener_id: listener.id })).status).toBe(201)
    await agent.poll({ templates: [] })
    expect((await createFrom(tenant, 'static-site', { listener_id: listener.id })).body.code).toBe('template_unknown')
  })

  it('is listed with its description and the listeners of the workspace that offer it', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const listeners = await Promise.all([newListener(tenant), newListener(tenant)])
    const [first, second] = listeners.map(({ listener }) => listener.id as string)
    const offers = [
      { templates: ['own-b', 'own-a'], template_descriptions: { 'own-b': 'The second one.' } },
      { templates: ['own-b'] },
    ]
    for (const [i, offer] of offers.entries()) {
      const agent = makeSyncAgent(tenant, listeners[i]!.key)
      await agent.poll(offer)
      // A later poll without them keeps them.
      await agent.poll()
    }
    await (await getPlatformAgent()).poll({ templates: ['own-a', 'shared'] })
    const listOwn = async (of: Tenant) => {
      // Other tests have listeners of the platform too.
      const { resources } = (await of.get('/v2/templates?limit=100')).body
      return resources.filter((one: { name: string }) => /^own|^shared/.test(one.name))
    }
    const shared = { name: 'shared', description: null, platform: true, listener_ids: [] }
    expect(await listOwn(tenant)).toEqual([
      { name: 'own-a', description: null, platform: true, listener_ids: [first] },
      { name: 'own-b', description: 'The second one.', platform: false, listener_ids: [first, second].sort() },
      shared,
    ])
    expect(await listOwn(foreign)).toEqual([{ ...shared, name: 'own-a' }, shared])
    const all = (await tenant.get('/v2/templates?limit=100')).body.resources
    expect((await tenant.get('/v2/templates?limit=1&offset=1')).body).toEqual({ resources: all.slice(1, 2), offset: 2 })
  })

  it('hides the templates of a listener in another workspace', async () => {
    const [owner, stranger] = [await newTenant(), await newTenant()]
    const { listener, key } = await newListener(owner)
    await makeSyncAgent(owner, key).poll({ templates: ['web-service'] })
    const create = async (listener_id: string, query: string) => {
      const { status, body } = await createFrom(stranger, 'static-site', { listener_id }, query)
      return { status, code: body.code, detail: body.detail }
    }
    for (const query of ['', '?dry_run=true']) {
      const unknown = await create(crypto.randomUUID(), query)
      expect(unknown.code).toBe('source_rule')
      expect(await create(listener.id, query)).toEqual(unknown)
    }
  })

  it('is refused with a short list, however many templates there are', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const templates = Array.from({ length: 1000 }, (_, i) => `${'x'.repeat(120)}${i}`)
    await makeSyncAgent(tenant, key).poll({ templates })
    const { body, text } = await createFrom(tenant, 'static-site', { listener_id: listener.id })
    expect(body.code).toBe('template_unknown')
    expect(text.length).toBeLessThan(4000)
  })

  it('that no listener of the platform offers is refused', async () => {
    const tenant = await newTenant()
    const platform = await getPlatformAgent()
    await platform.poll({ templates: ['web-service'] })
    expect((await createFrom(tenant, 'static-site')).body.code).toBe('template_unknown')
    expect((await createFrom(tenant, 'web-service')).status).toBe(201)
  })
})
