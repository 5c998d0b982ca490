// The version of an application, which the agent that builds it reports.
import { describe, expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { listRevisions } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

async function createServed(over: Record<string, unknown>) {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id } = (await tenant.post('/v2/deployments', makeImageBody(makeListenerDeployment(listener, over)))).body
  const deploy = async (fields: { application_version?: string | null }) => {
    const work = (await agent.poll({ cursor: null })).changes.find(one => one.deployment_id === id)!
    await agent.report(work, { state: 'deploying', ...fields })
    await agent.report(work, { state: 'deployed', ...fields })
  }
  const path = `/v2/deployments/${id}`
  const read = async () => (await tenant.get(path)).body.image_version
  const find = async (version: string) =>
    (await tenant.get(`/v2/deployments?image_version=${version}`)).body.resources.length
  return { tenant, path, id, deploy, read, find }
}

const TEMPLATE = { source: 'internal_template', source_config: { template_id: 'web' }, source_revision_config: {} }

describe('the version of a deployment', () => {
  it('that is built is what the agent reports of its latest revision, and the list finds it', async () => {
    const { tenant, path, deploy, read, find } = await createServed(TEMPLATE)
    expect(await read()).toBeNull()
    await deploy({ application_version: '1.4.2' })
    expect([await read(), await find('1.4.2'), await find('1.4')]).toEqual(['1.4.2', 1, 0])
    const { headers } = await tenant.get(path)
    await tenant.post(`${path}/revisions`)
    expect(await read()).toBeNull()
    await deploy({ application_version: '1.5.0' })
    expect([await read(), await find('1.4.2'), await find('1.5.0')]).toEqual(['1.5.0', 0, 1])
    expect((await tenant.get(path)).headers.get('ETag')).not.toBe(headers.get('ETag'))
    await tenant.patch(path, { source_config: { resource_spec: { min_scale: 2 } } })
    expect(await read()).toBe('1.5.0')
  })

  it('that an earlier agent reports stays unknown', async () => {
    const { tenant, id, deploy, read } = await createServed(TEMPLATE)
    await deploy({})
    expect([await read(), (await listRevisions(tenant, id))[0]!.status]).toEqual([null, 'DEPLOYED'])
  })

  it('is the tag of an image, whatever the agent reports', async () => {
    const { deploy, read } = await createServed({
      source: 'internal_container',
      source_revision_config: { image_uri: 'registry.example.com/app:2.0' },
    })
    await deploy({ application_version: '9.9' })
    expect(await read()).toBe('2.0')
  })

  it('is visible text: what terminals and pages would obey is refused', async () => {
    const { deploy, read } = await createServed(TEMPLATE)
    for (const application_version of ['', '\u001b[31m1.0', '1.0\n', '1\u202e0', 'a b', 'x'.repeat(129)])
      await expect(deploy({ application_version })).rejects.toThrow()
    expect(await read()).toBeNull()
  })
})
