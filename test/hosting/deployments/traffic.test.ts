// The traffic of a deployment is split between the revision that serves and one beside it.
import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { CLOSED_POLICY, type ListenerPolicy } from '../../../src/protocol/listener-policy.ts'
import type { ReportedTraffic } from '../../../src/protocol/traffic.schema.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { getApp, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from '../../support/sync-agent.ts'

const FEATURES = ['images', 'disks', 'traffic', 'traffic_router']
const SPLITS: ListenerPolicy = { ...CLOSED_POLICY, engine: 'container', features: FEATURES }
const ALL_AT_ONCE = { starts_at: 100, sticky: null }

let tenant: Tenant
let agent: SyncAgent
let id: string
let listener: { id: string }

const read = async () => (await tenant.get(`/v2/deployments/${id}`)).body
const setTraffic = (shares: object[], over: object = {}, headers: Record<string, string> = {}) =>
  tenant.put(`/v2/deployments/${id}/traffic`, { shares, ...over }, headers)
const work = async (): Promise<Work> => {
  const { changes } = await agent.poll({ cursor: null })
  return changes.find(one => one.deployment_id === id)!
}
const revisionOf = async (revision_id: string) =>
  (await tenant.get(`/v2/deployments/${id}/revisions/${revision_id}`)).body
const sharesNow = async () =>
  (await read()).traffic.map((one: { share: number; applied: boolean }) => [one.share, one.applied])

/** A revision that is about to be deployed. */
async function push(image = unusedId()) {
  const { status, body } = await tenant.patch(`/v2/deployments/${id}`, {
    source_revision_config: { image_uri: `registry.example.com/shop:${image}` },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.latest_revision_id as string
}
async function deploy() {
  await agent.report(await work(), { state: 'deployed' })
}
/** Its agent has it healthy beside the one that serves. */
async function runBeside(share: number, over: Partial<ReportedTraffic> = {}) {
  const now = await work()
  return agent.report(now, { state: 'deploying', traffic: { revision_id: now.revision!.id, share, ...over } })
}

async function setUp(policy = SPLITS, over: object = {}) {
  tenant = await newTenant()
  const made = await newListener(tenant)
  listener = made.listener
  agent = makeSyncAgent(tenant, made.key)
  await agent.poll({ policy })
  const body = makeListenerDeployment(listener, { name: `shop-${unusedId().slice(0, 8)}`, ...over })
  id = (await tenant.post('/v2/deployments', body)).body.id
  await deploy()
}
beforeEach(() => setUp())

describe('a new revision', () => {
  it('takes all traffic at once by default', async () => {
    expect(await read()).toMatchObject({ traffic: [{ share: 100, applied: true }], traffic_settings: ALL_AT_ONCE })
    const first = (await read()).active_revision_id
    const second = await push()
    expect(await work()).toMatchObject({ revision: { id: second }, serving: { id: first }, traffic: null })
    await deploy()
    expect(await read()).toMatchObject({ active_revision_id: second, traffic: [{ revision_id: second, share: 100 }] })
  })

  it('starts with its share, stays DEPLOYING, and serves alone once it gets all', async () => {
    const first = (await read()).active_revision_id
    const set = await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10, sticky: { by: 'cookie' } })
    expect(set.body.traffic_settings).toEqual({ starts_at: 10, sticky: { by: 'cookie' } })
    const canary = await push()
    expect(await work()).toMatchObject({
      revision: { id: canary },
      serving: { id: first },
      beside: null,
      traffic: { revision_id: canary, share: 10, sticky: { by: 'cookie' } },
    })
    expect(await sharesNow()).toEqual([
      [90, false],
      [10, false],
    ])
    await runBeside(10)
    expect(await sharesNow()).toEqual([
      [90, true],
      [10, true],
    ])
    expect(await read()).toMatchObject({ active_revision_id: first, serving: 'previous' })
    expect((await revisionOf(canary)).status).toBe('DEPLOYING')
    const { resources } = (await tenant.get(`/v2/deployments/${id}/explain`)).body
    expect(resources).toMatchObject([{ code: 'in_progress', detail: expect.stringContaining('10 %') }])
    const { body: plan } = await tenant.post(`/v2/deployments/${id}/revisions?dry_run=true`)
    expect(plan.warnings).toEqual([expect.stringContaining('10 %')])

    const half = [
      { revision_id: first, share: 50 },
      { revision_id: canary, share: 50 },
    ]
    expect((await setTraffic(half, { starts_at: 10 })).body.traffic).toMatchObject([{ share: 50 }, { share: 50 }])
    expect((await work()).traffic).toMatchObject({ share: 50, sticky: null })
    expect((await setTraffic([{ revision_id: canary, share: 100 }], { starts_at: 10 })).status).toBe(200)
    expect((await work()).traffic).toMatchObject({ share: 100 })
    await deploy()
    expect(await read()).toMatchObject({
      active_revision_id: canary,
      traffic: [{ revision_id: canary, share: 100, applied: true }],
    })
    const third = await push()
    expect((await work()).traffic).toMatchObject({ revision_id: third, share: 10 })
  })

  it('that has a share is superseded by a newer one, which takes its place and name at the first step', async () => {
    const first = (await read()).active_revision_id
    const canary = await push()
    const shares = (share: number) => [
      { revision_id: first, share: 100 - share },
      { revision_id: canary, share, name: 'next' },
    ]
    expect((await setTraffic(shares(5))).status).toBe(200)
    await runBeside(5)
    await setTraffic(shares(50))
    await runBeside(50)
    const newer = await push()
    expect((await revisionOf(canary)).status).toBe('INTERRUPTED')
    const now = await work()
    expect(now).toMatchObject({ revision: { id: newer }, traffic: { revision_id: newer, share: 5 } })
    expect(now.host_labels!.find(({ label }) => label.startsWith('next--'))!.revision_id).toBe(newer)
  })

  it('that waited behind one takes its place when that one has its share', async () => {
    const first = (await read()).active_revision_id
    await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10 })
    const canary = await push()
    await agent.report(await work(), { state: 'deploying' })
    const newer = await push()
    expect((await revisionOf(newer)).status).toBe('QUEUED')
    await runBeside(10)
    expect((await revisionOf(canary)).status).toBe('INTERRUPTED')
    expect(await work()).toMatchObject({ revision: { id: newer }, traffic: { revision_id: newer, share: 10 } })
  })

  it('that fails or is interrupted leaves all traffic to the one that serves', async () => {
    const first = (await read()).active_revision_id
    await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10 })
    const failing = await push()
    await agent.report(await work(), { state: 'failed', message: 'It ended.' })
    expect((await revisionOf(failing)).status).toBe('DEPLOY_FAILED')
    expect(await sharesNow()).toEqual([[100, true]])
    const canary = await push()
    await runBeside(10)
    await tenant.post(`/v2/deployments/${id}/revisions/${canary}/interruption`)
    expect(await work()).toMatchObject({ revision: null, serving: { id: first }, traffic: null })
  })

  it('ends with a rollback, which takes all traffic at once', async () => {
    const first = (await read()).active_revision_id
    await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10 })
    const canary = await push()
    await runBeside(10)
    await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: first })
    expect((await revisionOf(canary)).status).toBe('INTERRUPTED')
    const now = await work()
    expect([now.revision!.number, now.traffic]).toEqual([3, null])
  })

  it('takes over the name of the one that serves as it replaces it, and a name without a revision ends', async () => {
    const { name, active_revision_id: first } = await read()
    const labels = async () => (await work()).host_labels!.slice(1).map(one => [one.label, one.revision_id])
    await setTraffic([{ revision_id: first, share: 100, name: 'blue' }])
    const second = await push()
    await deploy()
    expect((await read()).traffic).toMatchObject([{ revision_id: second, name: 'blue' }])
    expect(await labels()).toEqual([[`blue--${name}`, second]])
    const canary = await push()
    const named = [
      { revision_id: second, share: 90, name: 'blue' },
      { revision_id: canary, share: 10, name: 'green' },
    ]
    expect((await setTraffic(named)).status).toBe(200)
    await runBeside(10)
    await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: first })
    await deploy()
    const { active_revision_id: restored } = await read()
    expect(await labels()).toEqual([[`blue--${name}`, restored]])
  })

  it('has no deadline once its agent gave it a share, also while its copies start again', async () => {
    const first = (await read()).active_revision_id
    await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10 })
    const canary = await push()
    await runBeside(10)
    await withClockAhead(3_600_000, async () => {
      await agent.report(await work(), { state: 'deploying' })
      expect((await read()).traffic).toMatchObject([{ share: 90 }, { share: 10, applied: false }])
      await sweepRevisions(getApp())
    })
    expect((await revisionOf(canary)).status).toBe('DEPLOYING')
  })
})

describe('a revision that has served', () => {
  it('gets a share again beside the one that serves, until a newer one comes', async () => {
    const first = (await read()).active_revision_id
    const second = await push()
    await deploy()
    const split = await setTraffic([
      { revision_id: second, share: 80, name: 'blue' },
      { revision_id: first, share: 20, name: 'green' },
    ])
    expect(split.status, JSON.stringify(split.body)).toBe(200)
    const now = await work()
    expect(now).toMatchObject({
      revision: null,
      serving: { id: second },
      beside: { id: first },
      traffic: { revision_id: first, share: 20 },
    })
    await agent.report(
      { ...now, revision: now.serving },
      { state: 'serving', healthy: true, url: 'http://shop.localhost:1', traffic: { revision_id: first, share: 20 } },
    )
    const { traffic } = await read()
    expect(traffic).toMatchObject([
      { revision_id: second, share: 80, applied: true, name: 'blue' },
      { revision_id: first, share: 20, applied: true, name: 'green' },
    ])
    expect(traffic[1].url).toMatch(/^http:\/\/green--shop-[^.]+\.localhost:1$/)
    await push()
    expect(await work()).toMatchObject({ beside: null, traffic: { share: 20 } })
  })
})

describe('a split is refused by name', () => {
  const refusal = async (shares: object[], over: object = {}) => {
    const { status, body } = await setTraffic(shares, over)
    return [status, body.code]
  }

  it('for shares that do not add up, and names that are none, all at once', async () => {
    const first = (await read()).active_revision_id
    const { status, body } = await setTraffic(
      [
        { revision_id: first, share: 50 },
        { revision_id: first, share: 101, name: 'A--b' },
      ],
      { starts_at: -1, sticky: { by: 'header', header: 'x y' } },
    )
    expect(status).toBe(422)
    expect(body.errors.map((one: { loc: unknown[] }) => one.loc.slice(1).join('.'))).toEqual(
      expect.arrayContaining(['shares.1.share', 'shares.1.name', 'starts_at', 'sticky.header']),
    )
    expect((await refusal([{ revision_id: first, share: 99 }]))[0]).toBe(422)
    expect(await read()).toMatchObject({ traffic_settings: ALL_AT_ONCE, traffic: [{ share: 100 }] })
  })

  it('for revisions that cannot run beside the one that serves', async () => {
    const first = (await read()).active_revision_id
    expect(await refusal([{ revision_id: unusedId(), share: 100 }])).toEqual([404, 'revision_not_found'])
    const failed = await push()
    await agent.report(await work(), { state: 'failed', message: 'It ended.' })
    const with_failed = [
      { revision_id: first, share: 90 },
      { revision_id: failed, share: 10 },
    ]
    expect(await refusal(with_failed)).toEqual([400, 'traffic_refused'])
    await push()
    await deploy()
    expect(await refusal([{ revision_id: first, share: 100 }])).toEqual([400, 'traffic_refused'])
  })

  it('for an agent that splits none, which then gets no revision to split', async () => {
    const first = (await read()).active_revision_id
    await setTraffic([{ revision_id: first, share: 100 }], { starts_at: 10 })
    await push()
    expect((await work()).revision).not.toBeNull()
    await agent.poll({ fence: null, policy: { ...SPLITS, features: ['images'] } })
    expect(await work()).toMatchObject({ revision: null, serving: { id: first }, traffic: null })
    expect(await refusal([{ revision_id: first, share: 100 }])).toEqual([400, 'not_allowed_by_listener'])
    expect((await setTraffic([])).status).toBe(200)
    expect((await work()).revision).not.toBeNull()
    // By weights of a gateway.
    await agent.poll({ fence: null, policy: { ...SPLITS, features: ['images', 'traffic'] } })
    const named = await setTraffic([{ revision_id: first, share: 100, name: 'blue' }], { sticky: { by: 'cookie' } })
    expect([named.status, named.body.detail]).toEqual([400, expect.stringMatching(/sticky.*shares\.0\.name/)])
  })

  it('for a disk of one writer', async () => {
    const volume = { claimName: 'data', storage_gi: 1, access_mode: 'ReadWriteOncePod' }
    const resource_spec = { cpu: 1, memory_mb: 256, volumes: [{ name: 'data', persistentVolumeClaim: volume }] }
    await setUp(SPLITS, { source_config: { resource_spec } })
    const first = (await read()).active_revision_id
    expect(await refusal([{ revision_id: first, share: 100 }], { starts_at: 10 })).toEqual([400, 'traffic_refused'])
    await setUp()
    await setTraffic([{ revision_id: (await read()).active_revision_id, share: 100 }], { starts_at: 10 })
    const patch = (volumes: object[]) =>
      tenant.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { volumes } } })
    const exclusive = await patch(resource_spec.volumes)
    expect([exclusive.status, exclusive.body.code, exclusive.body.detail]).toEqual([
      400,
      'source_rule',
      expect.stringContaining('data has one writer'),
    ])
    expect((await patch([{ name: 'data', persistentVolumeClaim: { claimName: 'data', storage_gi: 1 } }])).status).toBe(
      200,
    )
  })

  it('for a name that another deployment has', async () => {
    const { name } = await read()
    const first = (await read()).active_revision_id
    const other = (await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'other' }))).body
    await runAsSystem(
      getApp().database,
      sql`
        insert into host_labels (listener_id, label, organization_id, tenant_id, deployment_id, kind)
        select listener_id, ${`red--${name}`}, organization_id, tenant_id, id, 'branch'
        from deployments where id = ${other.id}::uuid`,
    )
    expect(await refusal([{ revision_id: first, share: 100, name: 'red' }])).toEqual([409, 'traffic_name_taken'])
    expect((await setTraffic([{ revision_id: first, share: 100, name: 'green' }])).status).toBe(200)
    expect((await setTraffic([{ revision_id: first, share: 100, name: 'blue' }])).status).toBe(200)
    const labels = (await work()).host_labels!.map(({ label }) => label)
    expect(labels).toEqual([name, `blue--${name}`])
  })

  it('for an older version', async () => {
    const first = (await read()).active_revision_id
    const headers = { 'If-Match': '"0"' }
    const { status } = await setTraffic([{ revision_id: first, share: 100 }], {}, headers)
    expect(status).toBe(412)
  })
})
