// Previews with a copy of a database: who may ask for one, what their agent is told, and when nothing can be copied.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type FeatureName, featuresOf } from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { deny, hasTag, newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { getApp, newTenant, type Reply, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import { getPolicyPath } from '../../support/previews.ts'
import {
  deliverAndSettle,
  newRepository,
  newRepositoryDeployment,
  newSha,
  serveRepositories,
} from '../../support/pushes.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const COPY = { mode: 'copy' }
const policyWith = (database: object | null, more: object = {}) => ({
  branches: ['**'],
  kinds: ['pull_requests', 'branches'],
  database,
  ...more,
})
const outcome = ({ status, body }: Reply) => [status, body?.code]
const MISSING = [403, 'permission_missing']
const FEATURES = featuresOf('container')

async function setUp(features: FeatureName[] = FEATURES) {
  serveRepositories()
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy: { ...CLOSED_POLICY, jobs: true, engine: 'container', features } })
  const repository = await newRepository(tenant)
  const config = { resource_spec: { db_storage_gi: 7 } }
  const parent = await newRepositoryDeployment(tenant, repository, 0, { source_config: config })
  // An agent of the platform takes it over.
  const adopt = sql`update deployments set listener_id = ${listener.id}::uuid where id = ${parent.id}::uuid`
  await runAsSystem(getApp().database, adopt)
  const create = async (resource_spec: object, at = listener) => {
    const body = makeListenerDeployment(at, { name: `d-${unusedId()}`, source_config: { resource_spec } })
    return (await tenant.post('/v2/deployments', body)).body as { id: string; name: string }
  }
  const path = `/v2/deployments/${parent.id}`
  const put = (policy: object, as: Pick<Tenant, 'put'> = tenant, query = '') =>
    as.put(getPolicyPath(parent.id) + query, policy)
  const push = async (branch: string, sha: string | null = newSha()) =>
    void (await deliverAndSettle(repository.integrations[0]!, repository.push(`refs/heads/${branch}`, sha)))
  const pull = async (...args: Parameters<typeof repository.pull>) =>
    void (await deliverAndSettle(repository.integrations[0]!, repository.pull(...args)))
  const find = async (branch: string) =>
    (await tenant.get(`${path}/previews`)).body.resources.find((one: { branch: string }) => one.branch === branch)
  const request = async (body: object, as: Pick<Tenant, 'post'> = tenant) => {
    const reply = await as.post(`${path}/previews`, { image_uri: 'a/b:1', ...body })
    await finishPendingWork()
    return reply
  }
  const read = async (id: string) => (await tenant.get(`/v2/deployments/${id}`)).body
  return { tenant, agent, listener, parent, path, create, put, push, pull, find, request, read }
}
const workOf = (changes: Work[], id: string) => changes.find(({ deployment_id }) => deployment_id === id)

it('the database of a preview is copied once, by the agent, and the next commit keeps it', async () => {
  const { agent, parent, put, push, find, read } = await setUp()
  expect(outcome(await put(policyWith(COPY)))).toEqual([200, undefined])
  await push('try')
  const { deployment_id } = await find('try')
  const made = await read(deployment_id)
  const copy = { from_deployment_id: parent.id, from_name: parent.name, copied_at: null }
  expect(made).toMatchObject({ status: 'AWAITING_DATABASE', preview: { database_copy: copy } })
  expect(made.source_config.resource_spec.db_storage_gi).toBe(7)
  const work = workOf(await agent.pollAll(), deployment_id)!
  const { copied_at: _, ...told } = copy
  expect(work).toMatchObject({ needs_database: true, database_copy: { ...told, copied: false } })
  const ready = { ...work, revision: null }
  await agent.report(ready, { state: 'database_ready' })
  await agent.report(ready, { state: 'database_ready' })
  const { status, preview } = await read(deployment_id)
  expect([status, preview.database_copy.copied_at]).toEqual(['READY', expect.any(String)])

  await push('try')
  expect((await read(deployment_id)).preview.database_copy).toEqual(preview.database_copy)
  expect(workOf(await agent.pollAll(), deployment_id)!.database_copy).toEqual({ ...told, copied: true })
  await push('try', null)
  // No last snapshot is taken of a copy, so the agent has to know.
  const gone = workOf(await agent.pollAll(), deployment_id)
  expect(gone).toMatchObject({ wanted: 'absent', database_copy: { ...told, copied: true } })
})

it('a fork gets an empty database, also once its commit is approved', async () => {
  const { tenant, path, put, pull, read } = await setUp()
  await put(policyWith(COPY, { forks: 'approve' }))
  const sha = newSha()
  await pull('opened', 1, { sha, fork: true })
  await tenant.post(`${path}/previews/1/approval`, { head_sha: sha })
  await finishPendingWork()
  const { body } = await tenant.get(`${path}/previews/1`)
  const made = await read(body.deployment_id)
  expect(made).toMatchObject({ status: 'AWAITING_DATABASE', preview: { database_copy: null } })
})

it('a policy with a copy, and a preview by it, take the permission; a push does not', async () => {
  const { tenant, agent, parent, path, create, put, push, find, request, read } = await setUp()
  const other = await create({ db_max_connections: 5 })
  await tenant.post(`/v2/deployments/${other.id}/tags`, { tag_value_ids: [await tagValue(tenant, 'env=prod')] })
  const permissions = ['deployments:read', 'deployments:update', 'deployments:delete']
  const key = await newLimitedCaller(tenant, permissions, [])
  const may = 'deployments:copy-database'
  const limited = await newLimitedCaller(tenant, [...permissions, may], [deny(may, hasTag('env', 'prod'))])
  const ofOther = { ...COPY, from_deployment_id: other.id }
  for (const query of ['', '?dry_run=true']) {
    const refused = await put(policyWith(COPY), key, query)
    expect(outcome(refused)).toEqual(MISSING)
    expect(refused.body.detail).toContain(may)
    expect(await readEvents(refused.headers.get('X-Request-Id')!)).toEqual([])
    expect(outcome(await put(policyWith(ofOther), limited, query))).toEqual([403, 'denied_by_policy'])
  }
  expect(outcome(await put(policyWith(COPY), limited))).toEqual([200, undefined])
  // Also to keep the copy and open it to more branches.
  expect(outcome(await put(policyWith(COPY, { max: 20 }), key))).toEqual(MISSING)

  expect(outcome(await request({ branch: 'one' }, key))).toEqual(MISSING)
  expect(outcome(await request({ branch: 'one', database: COPY }, key))).toEqual(MISSING)
  expect(outcome(await request({ branch: 'one', database: ofOther }, limited))).toEqual([403, 'denied_by_policy'])
  expect(await find('one')).toBeUndefined()
  expect((await request({ branch: 'one', database: { mode: 'empty' } }, key)).status).toBe(202)
  expect((await read((await find('one')).deployment_id)).preview.database_copy).toBeNull()
  // It was decided when the preview was made.
  expect(outcome(await request({ branch: 'one', database: COPY }))).toEqual([409, 'preview_source_changed'])
  expect((await request({ branch: 'one' })).status).toBe(202)
  expect((await request({ branch: 'two' }, limited)).status).toBe(202)
  const copy = { from_deployment_id: parent.id }
  expect((await read((await find('two')).deployment_id)).preview.database_copy).toMatchObject(copy)
  await push('three')
  expect((await read((await find('three')).deployment_id)).preview.database_copy).toMatchObject(copy)

  // A copy is not a way around the policy on its source.
  expect((await request({ branch: 'of-prod', database: ofOther })).status).toBe(202)
  const { deployment_id: made } = await find('of-prod')
  const work = workOf(await agent.pollAll(), made)!
  await agent.report({ ...work, revision: null }, { state: 'database_ready' })
  const ofMade = { ...COPY, from_deployment_id: made }
  expect(outcome(await request({ branch: 'of-copy', database: ofMade }, limited))).toEqual([403, 'denied_by_policy'])
  expect((await request({ branch: 'of-copy', database: ofMade })).status).toBe(202)

  // A restore from another deployment is a copy, too. From its own it is none.
  const restore = (from_deployment_id: string, as: Pick<Tenant, 'post'>) =>
    as.post(`${path}/restores`, { store: 'database', from_deployment_id, at: new Date().toISOString() })
  expect(outcome(await restore(other.id, key))).toEqual(MISSING)
  expect(outcome(await restore(other.id, limited))).toEqual([403, 'denied_by_policy'])
  for (const id of [parent.id, other.id]) expect((await restore(id, tenant)).status).toBe(202)
  expect((await restore(parent.id, key)).status).toBe(202)
})

it('a database that cannot be copied is refused by name when it is planned, or fails the preview later', async () => {
  const { tenant, create, put, push, pull, find, request, read } = await setUp()
  const [without, source, stranger] = [await create({}), await create({ db_max_connections: 5 }), await newTenant()]
  const elsewhere = await newListener(tenant)
  const far = await create({ db_max_connections: 5 }, elsewhere.listener)
  const { listener } = await newListener(stranger)
  const body = makeListenerDeployment(listener, { name: 'd', source_config: { resource_spec: { db_storage_gi: 1 } } })
  const foreign = (await stranger.post('/v2/deployments', body)).body
  const refused = [409, 'database_not_copied']
  for (const { id, reason } of [
    { ...without, reason: 'has no database' },
    { ...far, reason: 'another listener' },
    { ...foreign, reason: foreign.id },
  ]) {
    const database = { ...COPY, from_deployment_id: id }
    for (const query of ['', '?dry_run=true']) {
      const reply = await put(policyWith(database), tenant, query)
      expect([...outcome(reply), reply.body.detail]).toEqual([...refused, expect.stringContaining(reason)])
    }
    expect(outcome(await request({ branch: 'one', database }))).toEqual(refused)
  }
  expect(outcome(await put(policyWith({ ...COPY, from_deployment_id: source.id })))).toEqual([200, undefined])
  await tenant.delete(`/v2/deployments/${source.id}`)
  await push('try')
  await pull('opened', 1, { sha: newSha() })
  for (const branch of ['try', 'feature'])
    expect(await find(branch)).toMatchObject({
      state: 'failed',
      deployment_id: null,
      problem: expect.stringContaining(source.id),
    })
  // The next commit is tried with the policy of then.
  await put(policyWith(COPY))
  await push('try')
  await pull('synchronize', 1, { sha: newSha() })
  for (const branch of ['try', 'feature']) {
    const { state, problem, deployment_id } = await find(branch)
    expect([state, problem]).toEqual(['live', null])
    expect((await read(deployment_id)).preview.database_copy).not.toBeNull()
  }
})

it('an agent that does not say that it copies databases gets none to copy', async () => {
  const { put, request } = await setUp(FEATURES.filter(name => name !== 'database_copies'))
  const refused = [400, 'not_allowed_by_listener']
  expect(outcome(await put(policyWith(COPY)))).toEqual(refused)
  expect(outcome(await request({ branch: 'one', database: COPY }))).toEqual(refused)
})

it('an agent of an earlier release starts no preview whose copy is missing, and makes none complete', async () => {
  const { agent, put, push, request, find, read } = await setUp()
  await put(policyWith(COPY))
  await push('try')
  const { deployment_id } = await find('try')
  // There is nothing of it to copy yet, either.
  const ofCopy = { ...COPY, from_deployment_id: deployment_id }
  expect(outcome(await request({ branch: 'two', database: ofCopy }))).toEqual([409, 'database_not_copied'])
  const features = FEATURES.filter(name => name !== 'database_copies')
  const earlier = { ...CLOSED_POLICY, jobs: true, engine: 'container', features } as const
  Object.assign(agent, { fence: null, cursor: null })
  const { changes } = await agent.poll({ policy: earlier })
  const work = workOf(changes, deployment_id)!
  expect(work).toMatchObject({ wanted: 'present', revision: null, serving: null })
  await agent.report(work, { state: 'database_ready' })
  expect((await read(deployment_id)).preview.database_copy.copied_at).toBeNull()
})
