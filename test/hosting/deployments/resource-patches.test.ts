// Patches, rollbacks and redeploys of resources: what they merge, keep, refuse, and tell the agent.
import { describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { listRevisions } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const DATABASE = { db_storage_gi: 5, db_cpu: 1 }
const DISK = { name: 'data', persistentVolumeClaim: { claimName: 'data' } }
const MOUNT = { name: 'data', mountPath: '/data' }

async function create(tenant: Tenant, resource_spec: object) {
  const { id } = (await tenant.post('/v2/deployments', makeImageBody({ source_config: { resource_spec } }))).body
  const path = `/v2/deployments/${id}`
  return {
    id,
    path,
    patch: (spec: object, query = '') => tenant.patch(`${path}${query}`, { source_config: { resource_spec: spec } }),
    read: async () => (await tenant.get(path)).body.source_config.resource_spec,
    revisions: () => listRevisions(tenant, id),
  }
}

describe('a patch of some resources', () => {
  it('keeps the others, a database among them, also if it sends them as null', async () => {
    const tenant = await newTenant()
    const { patch, read, revisions } = await create(tenant, { ...DATABASE, redis_cpu: 1, cpu: 1 })
    const plan = (await patch({ min_scale: 2 }, '?dry_run=true')).body
    expect(plan).toMatchObject({ creates_revision: false, reasons: [], warnings: [] })
    expect(plan.changes).toEqual([
      { path: 'source_config.resource_spec.min_scale', before: null, after: 2, effect: 'in_place' },
    ])
    await patch({ min_scale: 2, max_scale: null, cpu: null, db_cpu: null })
    expect(await read()).toEqual({ ...DATABASE, redis_cpu: 1, cpu: 1, min_scale: 2 })
    expect(await revisions()).toHaveLength(1)
  })

  it('is refused if its disks and those that stay are more than an agent takes, and so is a rollback', async () => {
    const tenant = await newTenant()
    const listOf = (prefix: string, count: number, kind: object) =>
      Array.from({ length: count }, (_, i) => ({ name: `${prefix}${i}`, ...kind }))
    const disks = (prefix: string, count: number) =>
      listOf(prefix, count, { persistentVolumeClaim: { claimName: 'a' } })
    const mounts = (prefix: string, count: number) => listOf(prefix, count, { mountPath: '/data' })
    const first = { volumes: listOf('t', 60, { emptyDir: {} }), volume_mounts: mounts('t', 60) }
    const { id, path, patch, read, revisions } = await create(tenant, first)
    const [revision] = await revisions()
    await patch({ volumes: disks('a', 60), volume_mounts: mounts('a', 60) })
    const stored = await read()
    expect(stored.volumes).toHaveLength(60)
    for (const query of ['', '?dry_run=true']) {
      const refused = await patch({ volumes: disks('b', 41), volume_mounts: mounts('b', 41) }, query)
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
      for (const name of ['volumes', 'volume_mounts']) expect(refused.body.detail).toContain(`resource_spec.${name} `)
      const back = await tenant.post(`/v2/deployments/${id}/rollback${query}`, { revision_id: revision!.id })
      expect([back.status, back.body.code]).toEqual([400, 'source_rule'])
      const again = await tenant.post(`${path}/revisions/${revision!.id}/redeploy${query}`)
      expect([again.status, again.body.code]).toEqual([400, 'source_rule'])
    }
    expect(await read()).toEqual(stored)
    expect((await patch({ volumes: disks('b', 40), volume_mounts: mounts('b', 40) })).status).toBe(200)
  })

  it('is refused if it makes all of them larger than several bodies', async () => {
    const { patch } = await create(await newTenant(), {})
    const large = (member: string) => ({
      [member]: [{ name: `of-${member}`.replace('_', '-'), image: 'a', args: Array(9).fill('x'.repeat(100_000)) }],
    })
    expect((await patch(large('sidecars'))).status).toBe(200)
    expect((await patch(large('init_containers'))).status).toBe(200)
    const volumes = [{ name: 'large', emptyDir: { note: 'x'.repeat(400_000) } }]
    expect((await patch({ volumes })).status).toBe(400)
  })

  it('creates a revision if a part comes or goes, also by its scale', async () => {
    const { patch, revisions } = await create(await newTenant(), { cpu: 1 })
    const plan = (await patch({ queue_min_scale: 1 }, '?dry_run=true')).body
    expect(plan.changes).toMatchObject([{ path: 'source_config.resource_spec.queue_min_scale', effect: 'revision' }])
    await patch({ queue_min_scale: 1, min_scale: 2 })
    await patch({ queue_min_scale: 2 })
    await patch({ queue_cpu: 1 })
    await patch({ queue_min_scale: 1 })
    expect((await revisions()).map(({ reasons }) => reasons)).toEqual([
      ['source_config.resource_spec.queue_cpu'],
      ['source_config.resource_spec.queue_min_scale'],
      ['created'],
    ])
  })

  it('sets the copies of processes at once, and their resources with a revision', async () => {
    const { patch, read, revisions } = await create(await newTenant(), { cpu: 1 })
    const scaled = { process_scale: { worker: 2 } }
    expect((await patch(scaled, '?dry_run=true')).body.changes).toMatchObject([{ effect: 'in_place' }])
    await patch(scaled)
    await patch({ process_resources: { worker: { memory_mb: 256 } } })
    expect(await read()).toMatchObject({ ...scaled, process_resources: { worker: { memory_mb: 256 } } })
    expect((await revisions()).map(({ reasons }) => reasons)).toEqual([
      ['source_config.resource_spec.process_resources'],
      ['created'],
    ])
  })

  it('is refused if the whole of them does not fit together, by the name of each fault', async () => {
    const sidecars = [{ name: 'proxy', image: 'envoy' }]
    const { patch, read } = await create(await newTenant(), { cpu_limit: 2, max_scale: 3, sidecars })
    const wrong = { cpu: 4, min_scale: 4, init_containers: [{ name: 'proxy', image: 'init' }] }
    for (const query of ['', '?dry_run=true']) {
      const { status, body } = await patch(wrong, query)
      expect([status, body.code]).toEqual([400, 'source_rule'])
      for (const name of ['cpu_limit', 'max_scale', 'proxy']) expect(body.detail).toContain(name)
    }
    expect((await patch({ cpu: 4, cpu_limit: 4 })).status).toBe(200)
    expect(await read()).toEqual({ cpu: 4, cpu_limit: 4, max_scale: 3, sidecars })
  })

  it('takes away disks and their mounts only by ?clear=', async () => {
    const scratch = { name: 'scratch', emptyDir: {} }
    const tenant = await newTenant()
    const { path, patch, read } = await create(tenant, { volumes: [scratch, DISK], volume_mounts: [MOUNT] })
    await patch({ volumes: [], volume_mounts: [] })
    expect(await read()).toEqual({ volumes: [DISK], volume_mounts: [MOUNT] })
    await patch({ volumes: [scratch], volume_mounts: [{ ...MOUNT, mountPath: '/files' }] })
    expect(await read()).toEqual({
      volumes: [scratch, DISK],
      volume_mounts: [{ ...MOUNT, mountPath: '/files' }],
    })
    await tenant.patch(`${path}?clear=resource_spec.volumes,resource_spec.volume_mounts`, {})
    expect(await read()).toBeNull()
  })

  it('is refused by name if it would put another volume in the place of a disk', async () => {
    const tenant = await newTenant()
    const scratch = { name: 'data', emptyDir: {} }
    const { path, patch, read, revisions } = await create(tenant, { volumes: [scratch], volume_mounts: [MOUNT] })
    const [revision] = await revisions()
    const log = { name: 'log', persistentVolumeClaim: { claimName: 'log' } }
    await patch({ volumes: [DISK, log] })
    const other = { name: 'log', persistentVolumeClaim: { claimName: 'other' } }
    for (const query of ['', '?dry_run=true']) {
      const refused = await patch({ volumes: [scratch, other] }, query)
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
      for (const name of ['data', 'log']) expect(refused.body.detail).toContain(`the disk ${name}`)
    }
    const [same, added] = [
      { name: 'log', persistentVolumeClaim: { claimName: 'log', readOnly: true } },
      { name: 'new', emptyDir: {} },
    ]
    expect((await patch({ volumes: [added, same] })).status).toBe(200)
    expect((await read()).volumes).toEqual([added, same, DISK])
    // An older revision has another volume of that name. The disk stays.
    expect((await tenant.post(`${path}/rollback`, { revision_id: revision!.id })).status).toBe(200)
    expect((await read()).volumes).toEqual([DISK, same])
  })

  it('is refused by name if mounts are left of volumes that it takes away', async () => {
    const tenant = await newTenant()
    const proxy = { name: 'proxy', image: 'envoy', volumeMounts: [MOUNT] }
    const volumes = [DISK, { name: 'scratch', emptyDir: {} }]
    const mounts = [MOUNT, { name: 'scratch', mountPath: '/scratch' }]
    const { path, patch, read } = await create(tenant, { volumes, volume_mounts: mounts, sidecars: [proxy] })
    const clear = `${path}?clear=resource_spec.volumes`
    for (const query of [clear, `${clear}&dry_run=true`]) {
      const refused = await tenant.patch(query, {})
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
      for (const place of ['volume_mounts mounts data', 'volume_mounts mounts scratch', 'sidecars.proxy mounts data'])
        expect(refused.body.detail).toContain(place)
    }
    const partly = await patch({ volumes: [DISK] })
    expect(partly.body.detail).toContain('volume_mounts mounts scratch')
    expect(partly.body.detail).not.toContain('mounts data')
    expect((await patch({ volumes: [DISK], volume_mounts: [MOUNT] })).status).toBe(200)
    const all = `${clear},resource_spec.volume_mounts,resource_spec.sidecars`
    expect((await tenant.patch(all, {})).status).toBe(200)
    expect(await read()).toBeNull()
  })

  it('takes away a database only by ?clear=, whose plan says so', async () => {
    const tenant = await newTenant()
    const { path, read } = await create(tenant, { ...DATABASE, cpu: 1 })
    const clear = `${path}?clear=resource_spec.db_cpu,resource_spec.db_storage_gi`
    expect((await tenant.patch(`${clear}&dry_run=true`, {})).body.warnings).toEqual([
      expect.stringContaining('database'),
    ])
    await tenant.patch(clear, {})
    expect(await read()).toEqual({ cpu: 1 })
    const both = { source_config: { resource_spec: { cpu: 2 } } }
    expect((await tenant.patch(`${path}?clear=resource_spec.cpu`, both)).body.code).toBe('source_rule')
    expect((await tenant.patch(`${path}?clear=resource_spec.cpus`, {})).status).toBe(422)
  })
})

describe.each(['rollback', 'redeploy'])('a %s', kind => {
  it('restores resources, and keeps the scale, the database and the disks', async () => {
    const tenant = await newTenant()
    const first = { cpu: 1, memory_mb: 512, min_scale: 1, max_scale: 4, labels: { team: 'a' } }
    const { id, path, patch, read, revisions } = await create(tenant, first)
    const [revision] = await revisions()
    await patch({ cpu: 2, min_scale: 3, ...DATABASE, redis_cpu: 1, volumes: [DISK], volume_mounts: [MOUNT] })
    const { body: restored } =
      kind === 'rollback'
        ? await tenant.post(`${path}/rollback?dry_run=true`, { revision_id: revision!.id })
        : await tenant.post(`${path}/revisions/${revision!.id}/redeploy?dry_run=true`)
    expect(restored.changes).toEqual([
      { path: 'source_config.resource_spec.cpu', before: 2, after: 1, effect: 'revision' },
    ])
    expect(restored.warnings).toHaveLength(kind === 'rollback' ? 1 : 0)
    if (kind === 'rollback') await tenant.post(`${path}/rollback`, { revision_id: revision!.id })
    else await tenant.post(`${path}/revisions/${revision!.id}/redeploy`)
    const expected = {
      ...first,
      ...DATABASE,
      min_scale: 3,
      redis_cpu: 1,
      volumes: [DISK],
      volume_mounts: [MOUNT],
    }
    expect(await read()).toEqual(expected)
    expect((await listRevisions(tenant, id))[0]!.source_config.resource_spec).toEqual(expected)
  })
})

it('a new scale reaches the agent for the revision that runs, and other settings with the next revision', async () => {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id } = (await tenant.post('/v2/deployments', makeImageBody(makeListenerDeployment(listener)))).body
  const path = `/v2/deployments/${id}`
  const workNow = async () => (await agent.poll({ cursor: null })).changes[0]!
  await agent.report(await workNow(), { state: 'deployed' })
  const scaled = { resource_spec: { min_scale: 3, max_scale: 5 }, install_command: 'npm ci' }
  await tenant.patch(path, { source_config: scaled })
  const { revision, serving } = await workNow()
  expect(revision).toBeNull()
  expect(serving).toMatchObject({ number: 1, install_command: null, parts: [] })
  expect(serving!.resource_spec).toMatchObject({ min_scale: 3, max_scale: 5 })
  await tenant.post(`${path}/revisions`)
  await tenant.patch(path, { source_config: { resource_spec: { min_scale: 4 } } })
  const next = await workNow()
  expect(next.revision).toMatchObject({ number: 2, install_command: 'npm ci', resource_spec: { min_scale: 4 } })
  expect(next.serving).toMatchObject({ number: 1, install_command: null, resource_spec: { min_scale: 4 } })
})

describe('the name and the source of a deployment', () => {
  it.each([
    ['name', { name: 'another' }],
    ['source', { source: 'internal_source' }],
  ])('cannot be patched: %s', async (member, change) => {
    const tenant = await newTenant()
    const deployment = (await tenant.post('/v2/deployments', makeImageBody())).body
    const path = `/v2/deployments/${deployment.id}`
    const refused = await tenant.patch(path, change)
    expect([refused.status, refused.body.code]).toEqual([400, 'member_immutable'])
    expect(refused.body.detail).toContain(member)
    const plan = (await tenant.patch(`${path}?dry_run=true`, change)).body
    expect(plan.changes).toMatchObject([{ path: member, effect: 'immutable' }])
    expect((await tenant.patch(path, { [member]: deployment[member] })).body).toEqual(deployment)
  })
})
