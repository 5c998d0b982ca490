// Two requests about one deployment at the same moment: whichever comes first, the other sees what it left.
import { expect, it } from 'vitest'
import { newTenant, type Reply, type Tenant } from '../support/app.ts'
import { makeImageBody, makeImageConfig } from '../support/deployment-bodies.ts'
import { makeRepositoryBody } from '../support/integrations.ts'

const ROUNDS = 12
const createPath = async (tenant: Tenant): Promise<string> =>
  `/v2/deployments/${(await tenant.post('/v2/deployments', await makeRepositoryBody(tenant))).body.id}`
const ref = (repo_ref: string) => ({ source_revision_config: { repo_ref } })
const codes = (replies: Reply[]) => replies.map(({ status, body }) => body?.code ?? status).sort()
const times = <T>(count: number, one: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, i) => one(i)))

type Revision = { id: string; number: number; status: string; source_revision_config: { repo_ref: string } }
const revisionsOf = async (tenant: Tenant, path: string): Promise<Revision[]> =>
  (await tenant.get(`${path}/revisions?limit=100`)).body.resources

it('concurrent patches number revisions without gaps: one in flight, one waiting, the others skipped', async () => {
  const tenant = await newTenant()
  const path = await createPath(tenant)
  const replies = await times(8, async writer => {
    const own: Reply[] = []
    for (let i = 0; i < 5; i++) own.push(await tenant.patch(path, ref(`${writer}-${i}`)))
    return own
  })
  expect(new Set(codes(replies.flat()))).toEqual(new Set([200]))
  const revisions = await revisionsOf(tenant, path)
  expect(revisions.map(({ number }) => number)).toEqual(Array.from({ length: 41 }, (_, i) => 41 - i))
  expect(revisions.map(({ status }) => status)).toEqual([
    'QUEUED',
    ...Array.from({ length: 39 }, () => 'SKIPPED'),
    'AWAITING_BUILD',
  ])
  // What a reply says is what its own patch made, whatever came after.
  for (const { body } of replies.flat()) {
    const revision = revisions.find(({ id }) => id === body.latest_revision_id)
    expect(revision?.source_revision_config.repo_ref).toBe(body.source_revision_config.repo_ref)
  }
  expect((await tenant.get(path)).headers.get('ETag')).toBe('"41"')
})

it('patches of different members at the same time both stay', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async i => {
    const path = await createPath(tenant)
    await Promise.all([
      tenant.patch(path, { source_config: { install_command: `npm ci ${i}` } }),
      tenant.patch(path, { source_config: { build_on_push: true } }),
      tenant.patch(path, { source_revision_config: { platform_config_path: `${i}.json` } }),
    ])
    const { body } = await tenant.get(path)
    expect(body.source_config).toMatchObject({ install_command: `npm ci ${i}`, build_on_push: true })
    expect(body.source_revision_config.platform_config_path).toBe(`${i}.json`)
  })
})

it('of two patches on one version, or of one plan, one is applied', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async () => {
    const path = await createPath(tenant)
    const matched = await times(2, i => tenant.patch(path, ref(`b${i}`), { 'If-Match': '"1"' }))
    expect(codes(matched)).toEqual([200, 'precondition_failed'])
    const { plan_digest } = (await tenant.patch(`${path}?dry_run=true`, ref('c'))).body
    const planned = await times(2, () => tenant.patch(path, ref('c'), { 'Plan-Digest': plan_digest }))
    expect(codes(planned)).toEqual([200, 'plan_stale'])
    expect(await revisionsOf(tenant, path)).toHaveLength(3)
  })
})

it('patches under one idempotency key have one effect, and what is answered later is the same', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async i => {
    const path = await createPath(tenant)
    const key = { 'Idempotency-Key': `patch-${i}` }
    const first = await times(5, () => tenant.patch(path, ref('next'), key))
    for (const { body, status } of first) expect([200, 'idempotency_in_flight']).toContain(body.code ?? status)
    const replay = await tenant.patch(path, ref('next'), key)
    for (const { body } of first.filter(({ status }) => status === 200)) expect(body).toEqual(replay.body)
    expect(await revisionsOf(tenant, path)).toHaveLength(2)
  })
})

it('a patch against a delete: applied before it, or refused after it', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async i => {
    const path = await createPath(tenant)
    const patch = () => tenant.patch(path, ref('next'))
    const remove = () => tenant.delete(path)
    const [one, other] = await Promise.all(i % 2 ? [patch(), remove()] : [remove(), patch()])
    const [patched, deleted] = (i % 2 ? [one, other] : [other, one]) as [Reply, Reply]
    expect(deleted.status).toBe(204)
    expect([200, 'deployment_deleting']).toContain(patched.body.code ?? patched.status)
    const { body } = await tenant.get(path)
    expect(body.status).toBe('AWAITING_DELETE')
    expect(await revisionsOf(tenant, path)).toHaveLength(patched.status === 200 ? 2 : 1)
  })
})

it('a delete on a version that a patch has moved is refused, and of two deletes one succeeds', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async () => {
    const path = await createPath(tenant)
    const match = { 'If-Match': '"1"' }
    const [patched, deleted] = await Promise.all([
      tenant.patch(path, ref('next'), match),
      tenant.delete(path, undefined, match),
    ])
    const both = codes([patched, deleted])
    expect([
      [200, 'precondition_failed'],
      [204, 'deployment_deleting'],
      [204, 'precondition_failed'],
    ]).toContainEqual(both)
  })
  const path = await createPath(tenant)
  const deletes = await times(4, () => tenant.delete(path))
  expect(codes(deletes)).toEqual([204, ...Array.from({ length: 3 }, () => 'deployment_not_found')])
})

it('of creates with one name one succeeds, and a delete frees the name for the next', async () => {
  const tenant = await newTenant()
  await times(ROUNDS, async i => {
    const created = await times(4, () => tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` })))
    expect(codes(created)).toEqual([201, ...Array.from({ length: 3 }, () => 'deployment_name_taken')])
    const { id } = created.find(({ status }) => status === 201)!.body
    const [deleted, again] = await Promise.all([
      tenant.delete(`/v2/deployments/${id}`),
      tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` })),
    ])
    expect(deleted.status).toBe(204)
    expect([201, 'deployment_name_taken', 'project_name_taken']).toContain(again.body.code ?? again.status)
    const last = await tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` }))
    expect(last.body.code ?? last.status).toBe(again.status === 201 ? 'deployment_name_taken' : 201)
  })
})

it('deletes of many that overlap, in either order, end without a quarrel', async () => {
  const tenant = await newTenant()
  const ids = (await times(20, () => createPath(tenant))).map(path => path.split('/').at(-1)!)
  const orders = [ids, [...ids].reverse(), ids.slice(5), [...ids.slice(0, 15)].reverse()]
  const replies = await Promise.all([
    ...orders.map(order => tenant.delete(`/v2/deployments?deployment_ids=${order.join()}`)),
    ...ids.slice(0, 5).map(id => tenant.patch(`/v2/deployments/${id}`, ref('next'))),
  ])
  const results = replies.slice(0, 4).flatMap(({ body }) => body.results as { id: string; status: number }[])
  const deleted = results.filter(({ status }) => status === 204).map(({ id }) => id)
  expect(deleted.sort()).toEqual([...ids].sort())
  for (const { status } of replies) expect([200, 207, 409]).toContain(status)
})

it('a workspace that goes away under its deployments takes them along', async () => {
  const { owner } = await newTenant()
  await times(6, async i => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const path = `/v2/deployments/${(await owner.post('/v2/deployments', makeImageBody(), inside)).body.id}`
    const [deleted, ...others] = await Promise.all([
      owner.delete(`/workspaces/${id}`),
      owner.post('/v2/deployments', makeImageBody(), inside),
      owner.patch(path, makeImageConfig('next'), inside),
      owner.patch(path, makeImageConfig('last'), inside),
    ])
    expect(deleted.body?.code ?? deleted.status).toBe(204)
    for (const { status, body } of others)
      expect([200, 201, 'workspace_forbidden', 'workspace_not_found', 'deployment_not_found']).toContain(
        body.code ?? status,
      )
  })
})
