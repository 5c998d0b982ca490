// Snapshots: the jobs that take and restore them, what agents tell of them, and what a deployment keeps.
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { DISK, NO_SNAPSHOTS, reportJob, SNAPSHOT_POLICY, startWithDisk, STORE as store } from '../../support/jobs.ts'

const idsOf = ({ body }: { body: { resources: { id: string }[] } }) => body.resources.map(({ id }) => id)

describe('a snapshot', () => {
  it('is taken by a job with an action, without permission to change commands and a serving revision', async () => {
    const { tenant, path, agent } = await startWithDisk()
    const { status, body: job } = await tenant.post(`${path}/snapshots`, { store })
    expect([status, job]).toMatchObject([202, { action: { type: 'snapshot', store }, command: `snapshot ${store}` }])
    const { jobs } = (await agent.poll()) as unknown as { jobs: object[] }
    expect(jobs).toMatchObject([{ job_id: job.id, action: { type: 'snapshot', store } }])
    await reportJob(agent, job.id, 'running', { revision_id: null })
    await reportJob(agent, job.id, 'succeeded', { exit_code: 0 })
    expect((await tenant.get(`${path}/jobs/${job.id}`)).body).toMatchObject({ status: 'SUCCEEDED' })
    const schedule = { name: 'nightly', cron: '0 3 * * *', action: { type: 'snapshot', store } }
    const created = await tenant.post(`${path}/schedules`, schedule)
    expect(created).toMatchObject({ status: 201, body: { action: schedule.action, command: `snapshot ${store}` } })
    const run = await tenant.post(`${path}/schedules/${created.body.id}/run`, {})
    expect(run.body.action).toEqual(schedule.action)
    const changed = await tenant.patch(`${path}/schedules/${created.body.id}`, { command: 'true' })
    expect(changed.body).toMatchObject({ command: 'true', action: null })
    for (const faulty of [{}, { command: 'true' }])
      expect(
        await tenant.post(`${path}/schedules`, {
          ...schedule,
          ...faulty,
          action: faulty.command ? schedule.action : null,
        }),
      ).toMatchObject({ status: 422 })
  })

  it('is known from what the agent tells until the agent has none, also after its deployment', async () => {
    const { tenant, path, id, held, tell } = await startWithDisk()
    const [one, two] = [held(), held({ reason: 'last' })]
    expect((await tell([one, two].sort((a, b) => (a.id < b.id ? -1 : 1)))).body).toEqual({ forget: [] })
    expect((await tenant.get(`/v2/snapshots/${one.id}`)).body).toMatchObject({
      store,
      size_bytes: 1000,
      taken_at: one.taken_at,
    })
    expect(idsOf(await tenant.get(`/v2/snapshots?deployment_id=${id}&store=${store}`)).sort()).toEqual(
      [one.id, two.id].sort(),
    )
    // The listener does not serve this deployment.
    const stranger = await startWithDisk()
    await stranger.tell([{ ...held(), deployment_id: id }])
    expect(idsOf(await stranger.tenant.get('/v2/snapshots'))).toEqual([])
    expect(await stranger.tenant.get(`/v2/snapshots/${one.id}`)).toMatchObject({ status: 404 })
    expect(await stranger.tenant.delete(`/v2/snapshots/${one.id}`)).toMatchObject({ status: 404 })
    expect(await stranger.tell([], { fence: 99 })).toMatchObject({ status: 409 })

    expect((await tenant.delete(`/v2/snapshots/${one.id}`)).status).toBe(204)
    expect(await tenant.get(`/v2/snapshots/${one.id}`)).toMatchObject({
      status: 404,
      body: { code: 'snapshot_not_found' },
    })
    expect((await tell([one, two].sort((a, b) => (a.id < b.id ? -1 : 1)))).body).toEqual({ forget: [one.id] })
    await tenant.delete(path)
    await tell([two])
    expect(idsOf(await tenant.get('/v2/snapshots'))).toEqual([two.id])
    // A page says nothing of ids beyond it.
    await tell([], { after: two.id })
    expect(idsOf(await tenant.get('/v2/snapshots'))).toEqual([two.id])
    await tell([])
    expect(idsOf(await tenant.get('/v2/snapshots'))).toEqual([])
  })

  it('is restored by a job of a deployment of the same listener', async () => {
    const first = await startWithDisk()
    const second = await startWithDisk(SNAPSHOT_POLICY, first.tenant)
    const { tenant, path, held, tell } = first
    const one = held()
    await tell([one])
    const restore = (at: string, body: object) => tenant.post(`${at}/restores`, body)
    const done = await restore(path, { store, snapshot_id: one.id })
    expect(done).toMatchObject({ status: 202, body: { action: { type: 'restore', store, snapshot_id: one.id } } })
    const now = new Date().toISOString()
    const back = await restore(path, { store: 'database', at: now })
    expect(back.body.action).toEqual({ type: 'restore', store: 'database', from_deployment_id: first.id, at: now })

    const refusals: [string, object, number, string][] = [
      [path, { store, snapshot_id: randomUUID() }, 404, 'snapshot_not_found'],
      [path, { store: 'disk:other', snapshot_id: one.id }, 409, 'store_not_found'],
      [path, { store: 'database', snapshot_id: one.id }, 409, 'store_not_found'],
      [second.path, { store, snapshot_id: one.id }, 409, 'snapshot_elsewhere'],
      [second.path, { store: 'database', from_deployment_id: first.id, at: now }, 409, 'snapshot_elsewhere'],
      [path, { store, at: now }, 422, 'validation_failed'],
      [path, { store }, 422, 'validation_failed'],
      [path, { store: 'disk:../x', snapshot_id: one.id }, 422, 'validation_failed'],
      [`/v2/deployments/${randomUUID()}`, { store, snapshot_id: one.id }, 404, 'deployment_not_found'],
    ]
    for (const [at, body, status, code] of refusals)
      expect(await restore(at, body), JSON.stringify(body)).toMatchObject({
        status,
        ...(status !== 422 && { body: { code } }),
      })
  })

  it('is refused where the agent takes none of the store', async () => {
    const { tenant, path } = await startWithDisk({ ...SNAPSHOT_POLICY, features: [...NO_SNAPSHOTS, 'disk_snapshots'] })
    expect(await tenant.post(`${path}/snapshots`, { store: 'database' })).toMatchObject({
      status: 409,
      body: { code: 'snapshots_not_supported' },
    })
    expect((await tenant.post(`${path}/snapshots`, { store })).status).toBe(202)
  })

  it('to a time is refused where the agent has no history', async () => {
    const features = SNAPSHOT_POLICY.features.filter(name => name !== 'database_history')
    const { tenant, path } = await startWithDisk({ ...SNAPSHOT_POLICY, features })
    const at = new Date().toISOString()
    expect(await tenant.post(`${path}/restores`, { store: 'database', at })).toMatchObject({
      status: 409,
      body: { code: 'history_not_supported' },
    })
  })
})

it('only `clear` takes away what lasts, and its agent is told until it is wanted again', async () => {
  const { tenant, path, agent, patch, deploy, revision, id } = await startWithDisk()
  await deploy()
  const clearedNow = async () => {
    await tenant.patch(path, { source_config: { build_command: randomUUID() } })
    const work = (await agent.pollAll()).find(one => one.deployment_id === id)
    return (work as { cleared_stores?: string[] } | undefined)?.cleared_stores
  }
  await patch({ resource_spec: { volumes: [], cpu: 1 } })
  await patch({ resource_spec: { volumes: [{ name: 'more', persistentVolumeClaim: { claimName: 'more' } }] } })
  // Agents refuse it. It must not come back as a folder to remove.
  await patch({ resource_spec: { volumes: [{ name: 'path', persistentVolumeClaim: { claimName: '../path' } }] } })
  await tenant.post(`${path}/rollback`, { revision_id: revision })
  await tenant.post(`${path}/revisions/${revision}/redeploy`, {})
  const spec = (await tenant.get(path)).body.source_config.resource_spec
  expect(spec.volumes).toContainEqual(DISK)
  expect(spec.db_max_connections).toBe(5)

  const plan = await tenant.patch(
    `${path}?dry_run=true&clear=resource_spec.volumes,resource_spec.db_max_connections`,
    {},
  )
  expect(plan.body.warnings.join(' ')).toMatch(/database.*7 days.*disks.*7 days/s)
  await tenant.patch(`${path}?clear=resource_spec.volumes`, {})
  const [work] = await agent.pollAll()
  expect(work).toMatchObject({ cleared_stores: [store, 'disk:more'] })
  await patch({ resource_spec: { volumes: [DISK] } })
  const [next] = await agent.pollAll()
  expect(next).toMatchObject({ cleared_stores: ['disk:more'] })
  expect(await clearedNow()).toEqual(['disk:more'])
})

it('the stores of a source have snapshots, and are not cleared with a volume of the same name', async () => {
  const { tenant, path, agent, patch, deploy } = await startWithDisk()
  await deploy()
  const snapshot = (store: string) => tenant.post(`${path}/snapshots`, { store })
  await patch({ resource_spec: { volumes: [DISK] } })
  await tenant.patch(`${path}?clear=resource_spec.db_max_connections`, {})
  expect(await snapshot('disk:uploads')).toMatchObject({ status: 409, body: { code: 'store_not_found' } })
  const [work] = await agent.pollAll()
  const disks = ['media', 'uploads'].map(name => ({ name, path: `/app/${name}`, storage_gi: 1 }))
  const nothing = { tools: [], env: {}, programs: [], certain: [], guessed: [], warnings: [] }
  const commands = { install_root: '', install: null, build: null, start: null, site: null }
  const build_plan = { provider: 'graphs', kind: 'graphs', root: '', ...commands, ...nothing, disks }
  await agent.report(work!, { state: 'deployed', build_plan } as never)
  expect([(await snapshot('disk:uploads')).status, (await snapshot('database')).status]).toEqual([202, 202])
  await agent.pollAll()
  await tenant.patch(`${path}?clear=resource_spec.volumes`, {})
  const [cleared] = await agent.pollAll()
  expect(cleared).toMatchObject({ cleared_stores: [] })
})

it('a disk of one writer has one copy, and the plan says that a revision replaces the one before', async () => {
  const { patch, deploy } = await startWithDisk()
  await deploy()
  const single = { ...DISK, persistentVolumeClaim: { ...DISK.persistentVolumeClaim, access_mode: 'ReadWriteOncePod' } }
  const planned = await patch({ resource_spec: { volumes: [single] } }, '?dry_run=true')
  expect(planned.body.warnings).toContainEqual(expect.stringContaining('`media`'))
  const many = await patch({ resource_spec: { volumes: [single], min_scale: 2 } }, '?dry_run=true')
  expect(many.status).toBe(422)
  for (const claim of [{ storage_gi: 0 }, { storage_gi: 'x' }, { access_mode: 'Any' }])
    expect(
      (
        await patch({
          resource_spec: { volumes: [{ name: 'a', persistentVolumeClaim: { claimName: 'a', ...claim } }] },
        })
      ).status,
    ).toBe(422)
})
