// The summary of a deployment, the filter by its state, and the counts.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, type Tenant } from '../../support/app.ts'
import { advanceRevisionTo, minimalBody, newDeployment } from '../../support/deployments.ts'

let tenant: Tenant
const names = new Map<string, string>()
const idOf = (name: string) => names.get(name)!

/** One of each state: failed, unhealthy, on its way, one that waits behind it, two that serve, two idle. */
beforeAll(async () => {
  tenant = await newTenant()
  const create = async (name: string) => {
    const one = await newDeployment(tenant, { name })
    names.set(name, one.id)
    return one as { id: string; latest_revision_id: string }
  }
  const failed = await create('failed')
  await advanceRevisionTo(tenant, failed.id, failed.latest_revision_id, 'BUILD_FAILED', { message: 'x'.repeat(400) })
  for (const name of ['serving', 'unhealthy', 'interrupted-later', 'deleted']) {
    const one = await create(name)
    await advanceRevisionTo(tenant, one.id, one.latest_revision_id)
  }
  const setHealth = sql`update deployments set healthy = false where id = ${idOf('unhealthy')}::uuid`
  await runAsSystem(getApp().database, setHealth)
  const later = (await tenant.post(`/v2/deployments/${idOf('interrupted-later')}/revisions`)).body
  await tenant.post(`/v2/deployments/${idOf('interrupted-later')}/revisions/${later.id}/interruption`)
  await create('waiting')
  await tenant.post(`/v2/deployments/${idOf('waiting')}/revisions`)
  const stopped = await create('interrupted')
  await tenant.post(`/v2/deployments/${stopped.id}/revisions/${stopped.latest_revision_id}/interruption`)
  await tenant.delete(`/v2/deployments/${idOf('deleted')}`)
})

const STATES = {
  attention: ['failed', 'unhealthy'],
  in_flight: ['waiting'],
  serving: ['interrupted-later', 'serving'],
  idle: ['deleted', 'interrupted'],
}
const namesOf = async (query: string): Promise<string[]> =>
  (await tenant.get(`/v2/deployments?${query}`)).body.resources.map(({ name }: { name: string }) => name).sort()

describe('the state of a deployment', () => {
  it.each(Object.entries(STATES))('%s is a filter, and is counted', async (state, expected) => {
    expect(await namesOf(`state=${state}`)).toEqual(expected)
    const { resources } = (await tenant.get(`/v2/deployments?state=${state}&include=summary&limit=1`)).body
    expect(resources.map((one: { summary: { state: string } }) => one.summary.state)).toEqual([state])
    const { body } = await tenant.get('/v2/deployment-counts')
    expect(body).toMatchObject({ [state]: expected.length, total: Object.values(STATES).flat().length })
  })

  it('is counted for what another filter leaves', async () => {
    expect((await tenant.get('/v2/deployment-counts?name_contains=interrupted')).body).toEqual({
      total: 2,
      attention: 0,
      in_flight: 0,
      serving: 1,
      idle: 1,
      has_more: false,
    })
    expect((await (await newTenant()).get('/v2/deployment-counts')).body.total).toBe(0)
  })

  it('is counted for at most 1,000 deployments', async () => {
    const large = await newTenant()
    await newDeployment(large, minimalBody)
    const fill = (from: number, to: number) => sql`
      insert into deployments (organization_id, tenant_id, name, source, deployment_type, status, source_config,
        source_revision_config, secrets)
      select organization_id, tenant_id, 'many-' || n, source, deployment_type, status, source_config,
        source_revision_config, secrets
      from deployments, generate_series(${from}::integer, ${to}::integer) n
      where tenant_id = ${large.tenant_id}::uuid and name not like 'many-%'`
    await runAsSystem(getApp().database, fill(2, 1000))
    expect((await large.get('/v2/deployment-counts')).body).toMatchObject({ total: 1000, has_more: false })
    await runAsSystem(getApp().database, fill(1001, 1100))
    expect((await large.get('/v2/deployment-counts')).body).toMatchObject({ total: 1000, has_more: true })
    expect((await large.get('/v2/deployment-counts?name=many-7')).body).toMatchObject({ total: 1, has_more: false })
  })
})

describe('include=summary', () => {
  it('adds the latest, the in-flight and the serving revision to a list and to a deployment', async () => {
    const path = `/v2/deployments/${idOf('waiting')}?include=summary`
    const { summary } = (await tenant.get(path)).body
    expect(summary).toMatchObject({
      latest_revision: { number: 2, status: 'QUEUED', actor: { kind: 'key', name: expect.any(String) } },
      in_flight_revision: { number: 1 },
      serving_revision: null,
    })
    expect(summary.recent_revisions.map(({ number }: { number: number }) => number)).toEqual([2, 1])
    const listed = (await tenant.get('/v2/deployments?include=summary&name=waiting')).body.resources
    expect(listed.map((one: { summary: object }) => one.summary)).toEqual([summary])
    const unfiltered = (await tenant.get('/v2/deployments?include=summary')).body.resources
    expect(unfiltered.every((one: { summary?: object }) => one.summary)).toBe(true)
  })

  it('shortens the message, and says how long an ended revision took', async () => {
    const { summary } = (await tenant.get(`/v2/deployments/${idOf('failed')}?include=summary`)).body
    expect(summary.latest_revision.status_message).toHaveLength(300)
    expect(summary.recent_revisions).toEqual([{ number: 1, status: 'BUILD_FAILED', seconds: expect.any(Number) }])
  })

  it('is needed: without it, answers are as before', async () => {
    const [first] = (await tenant.get('/v2/deployments?limit=1')).body.resources
    expect(first).not.toHaveProperty('summary')
    const [filtered] = (await tenant.get('/v2/deployments?name=waiting')).body.resources
    expect(filtered).not.toHaveProperty('summary')
    expect((await tenant.get(`/v2/deployments/${first.id}`)).body).not.toHaveProperty('summary')
    expect((await tenant.get('/v2/deployments?include=everything')).status).toBe(422)
  })

  it('shows no deployment of another workspace', async () => {
    const other = await newTenant()
    expect((await other.get('/v2/deployments?include=summary&state=serving')).body.resources).toEqual([])
    expect((await other.get(`/v2/deployments/${idOf('serving')}?include=summary`)).status).toBe(404)
  })
})

describe('a list', () => {
  it('is filtered by source and by listener', async () => {
    const listener_id = (await tenant.get(`/v2/deployments?include=summary&name=serving`)).body.resources[0].summary
      .listener_id
    expect(await namesOf(`listener_id=${listener_id}&name=serving`)).toEqual(['serving'])
    expect(await namesOf(`listener_id=${crypto.randomUUID()}`)).toEqual([])
    expect(await namesOf('source=githost&state=in_flight')).toEqual(['waiting'])
    expect(await namesOf('source=internal_template')).toEqual([])
  })
})
