// Requests that change the same deployment at the same time.
import { expect, it } from 'vitest'
import { newTenant, type Reply, type Tenant } from '../../support/app.ts'
import { makeImageBody, makeImageConfig } from '../../support/deployment-bodies.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'

const ROUNDS = 12
const createPath = async (tenant: Tenant): Promise<string> =>
  `/v2/deployments/${(await tenant.post('/v2/deployments', await makeRepositoryBody(tenant))).body.id}`
const makeRefPatch = (repo_ref: string) => ({ source_revision_config: { repo_ref } })
const listOutcomes = (replies: Reply[]) => replies.map(({ status, body }) => body?.code ?? status).sort()
const runInParallel = <T>(count: number, act: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, i) => act(i)))

type Revision = { id: string; number: number; status: string; source_revision_config: { repo_ref: string } }
const readRevisions = async (tenant: Tenant, path: string): Promise<Revision[]> =>
  (await tenant.get(`${path}/revisions?limit=100`)).body.resources

it('concurrent patches create revisions without gaps: one in flight, one waiting, the others skipped', async () => {
  const tenant = await newTenant()
  const path = await createPath(tenant)
  const replies = await runInParallel(8, async writer => {
    const writerReplies: Reply[] = []
    for (let i = 0; i < 5; i++) writerReplies.push(await tenant.patch(path, makeRefPatch(`${writer}-${i}`)))
    return writerReplies
  })
  expect(new Set(listOutcomes(replies.flat()))).toEqual(new Set([200]))
  const revisions = await readRevisions(tenant, path)
  expect(revisions.map(({ number }) => number)).toEqual(Array.from({ length: 41 }, (_, i) => 41 - i))
  expect(revisions.map(({ status }) => status)).toEqual([
    'QUEUED',
    ...Array.from({ length: 39 }, () => 'SKIPPED'),
    'AWAITING_BUILD',
  ])
  // Each reply names the revision of its own patch.
  for (const { body } of replies.flat()) {
    const revision = revisions.find(({ id }) => id === body.latest_revision_id)
    expect(revision?.source_revision_config.repo_ref).toBe(body.source_revision_config.repo_ref)
  }
  expect((await tenant.get(path)).headers.get('ETag')).toMatch(/^"41\./)
})

it('concurrent patches of different members all take effect', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async i => {
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

it('one of two concurrent patches with the same If-Match or the same plan digest is applied', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async () => {
    const path = await createPath(tenant)
    const conditional = await runInParallel(2, i => tenant.patch(path, makeRefPatch(`b${i}`), { 'If-Match': '"1"' }))
    expect(listOutcomes(conditional)).toEqual([200, 'precondition_failed'])
    const { plan_digest } = (await tenant.patch(`${path}?dry_run=true`, makeRefPatch('c'))).body
    const planned = await runInParallel(2, () => tenant.patch(path, makeRefPatch('c'), { 'Plan-Digest': plan_digest }))
    expect(listOutcomes(planned)).toEqual([200, 'plan_stale'])
    expect(await readRevisions(tenant, path)).toHaveLength(3)
  })
})

it('concurrent patches with one idempotency key create one revision and get the same response', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async i => {
    const path = await createPath(tenant)
    const key = { 'Idempotency-Key': `patch-${i}` }
    const first = await runInParallel(5, () => tenant.patch(path, makeRefPatch('next'), key))
    for (const { body, status } of first) expect([200, 'idempotency_in_flight']).toContain(body.code ?? status)
    const replay = await tenant.patch(path, makeRefPatch('next'), key)
    for (const { body } of first.filter(({ status }) => status === 200)) expect(body).toEqual(replay.body)
    expect(await readRevisions(tenant, path)).toHaveLength(2)
  })
})

it('a patch during a deletion is either applied before it or refused after it', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async i => {
    const path = await createPath(tenant)
    const patch = () => tenant.patch(path, makeRefPatch('next'))
    const remove = () => tenant.delete(path)
    const [first, second] = await Promise.all(i % 2 ? [patch(), remove()] : [remove(), patch()])
    const [patched, deleted] = (i % 2 ? [first, second] : [second, first]) as [Reply, Reply]
    expect(deleted.status).toBe(204)
    expect([200, 'deployment_deleting']).toContain(patched.body.code ?? patched.status)
    const { body } = await tenant.get(path)
    expect(body.status).toBe('AWAITING_DELETE')
    expect(await readRevisions(tenant, path)).toHaveLength(patched.status === 200 ? 2 : 1)
  })
})

it('a patch or a deletion with the same If-Match succeeds, not both, and so does one of four deletions', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async () => {
    const path = await createPath(tenant)
    const match = { 'If-Match': '"1"' }
    const [patched, deleted] = await Promise.all([
      tenant.patch(path, makeRefPatch('next'), match),
      tenant.delete(path, undefined, match),
    ])
    const outcomes = listOutcomes([patched, deleted])
    expect([
      [200, 'precondition_failed'],
      [204, 'deployment_deleting'],
      [204, 'precondition_failed'],
    ]).toContainEqual(outcomes)
  })
  const path = await createPath(tenant)
  const deletes = await runInParallel(4, () => tenant.delete(path))
  expect(listOutcomes(deletes)).toEqual([204, ...Array.from({ length: 3 }, () => 'deployment_not_found')])
})

it('one of several concurrent deployments with one name is created, and its deletion frees the name', async () => {
  const tenant = await newTenant()
  await runInParallel(ROUNDS, async i => {
    const created = await runInParallel(4, () => tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` })))
    expect(listOutcomes(created)).toEqual([201, ...Array.from({ length: 3 }, () => 'deployment_name_taken')])
    const { id } = created.find(({ status }) => status === 201)!.body
    const [deleted, concurrent] = await Promise.all([
      tenant.delete(`/v2/deployments/${id}`),
      tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` })),
    ])
    expect(deleted.status).toBe(204)
    expect([201, 'deployment_name_taken', 'project_name_taken']).toContain(concurrent.body.code ?? concurrent.status)
    const last = await tenant.post('/v2/deployments', makeImageBody({ name: `same-${i}` }))
    expect(last.body.code ?? last.status).toBe(concurrent.status === 201 ? 'deployment_name_taken' : 201)
  })
})

it('overlapping deletions of many deployments in different orders do not deadlock', async () => {
  const tenant = await newTenant()
  const ids = (await runInParallel(20, () => createPath(tenant))).map(path => path.split('/').at(-1)!)
  const orders = [ids, [...ids].reverse(), ids.slice(5), [...ids.slice(0, 15)].reverse()]
  const replies = await Promise.all([
    ...orders.map(order => tenant.delete(`/v2/deployments?deployment_ids=${order.join()}`)),
    ...ids.slice(0, 5).map(id => tenant.patch(`/v2/deployments/${id}`, makeRefPatch('next'))),
  ])
  const results = replies.slice(0, 4).flatMap(({ body }) => body.results as { id: string; status: number }[])
  const deleted = results.filter(({ status }) => status === 204).map(({ id }) => id)
  expect(deleted.sort()).toEqual([...ids].sort())
  for (const { status } of replies) expect([200, 207, 409]).toContain(status)
})

it('a workspace can be deleted while its deployments are created and patched', async () => {
  const { owner } = await newTenant()
  await runInParallel(6, async i => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const path = `/v2/deployments/${(await owner.post('/v2/deployments', makeImageBody(), inside)).body.id}`
    const [deleted, ...writes] = await Promise.all([
      owner.delete(`/workspaces/${id}`),
      owner.post('/v2/deployments', makeImageBody(), inside),
      owner.patch(path, makeImageConfig('next'), inside),
      owner.patch(path, makeImageConfig('last'), inside),
    ])
    expect(deleted.body?.code ?? deleted.status).toBe(204)
    for (const { status, body } of writes)
      expect([200, 201, 'workspace_forbidden', 'workspace_not_found', 'deployment_not_found']).toContain(
        body.code ?? status,
      )
  })
})
