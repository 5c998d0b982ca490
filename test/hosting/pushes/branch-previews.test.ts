import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { branchNames } from '../../../src/hosting/previews/preview-address.ts'
import { sweepPreviews } from '../../../src/hosting/previews/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, getServices, newTenant } from '../../support/app.ts'
import { expectCompleteJournal, listRevisions } from '../../support/deployments.ts'
import { getPolicyPath, mapSecretValues, OVERLAY_SECRETS, setUpPreviews } from '../../support/previews.ts'
import { deliverAndSettle, newSha, serveRepositories } from '../../support/pushes.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

beforeEach(() => serveRepositories())

const BOTH = { kinds: ['pull_requests', 'branches'] }

async function setUpBranches(policy: object = {}) {
  const set = await setUpPreviews({ kinds: ['branches'], ...policy })
  const { tenant, repository, parent, previews } = set
  const push = async (branch: string, sha: string | null = newSha()) => {
    await deliverAndSettle(repository.integrations[0]!, repository.push(`refs/heads/${branch}`, sha))
    return sha
  }
  const find = async (branch: string) =>
    (await previews()).find(
      (one: { branch: string; kind: string }) => one.branch === branch && one.kind !== 'pull_request',
    )
  const read = async (id: string) => (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body
  const request = async (body: object) => {
    const reply = await tenant.post(`/v2/deployments/${parent.id}/previews`, body)
    await finishPendingWork()
    return reply
  }
  return { ...set, push, find, read, request }
}

describe('a branch', () => {
  it('has a preview from its first push to its deletion, with the secrets that the policy names', async () => {
    const { tenant, parent, push, find, read, live } = await setUpBranches({ inherited_secrets: ['NAMED'] })
    const secrets = [
      { name: 'TOKEN', value: 'hush' },
      { name: 'NAMED', value: 'shared' },
    ]
    await tenant.patch(`/v2/deployments/${parent.id}`, { secrets })
    const first = await push('feature/cart')
    const preview = await find('feature/cart')
    expect(preview).toMatchObject({ kind: 'branch', number: null, state: 'live', head_sha: first })
    const deployment = await read(preview.deployment_id)
    expect(deployment).toMatchObject({
      name: `feature-cart--${parent.name}`,
      preview: { kind: 'branch', number: null, branch: 'feature/cart', head_sha: first },
      source_revision_config: { repo_ref: 'refs/heads/feature/cart', repo_commit_sha: first },
    })
    expect(mapSecretValues(deployment)).toEqual({
      NAMED: 'shared',
      OVERLAY: 'over',
      PREVIEW_ID: preview.id,
      PREVIEW_BRANCH: 'feature/cart',
    })
    const second = await push('feature/cart')
    expect((await listRevisions(tenant, deployment.id)).map(({ commit }) => commit?.sha)).toEqual([second, first])
    await push('feature/cart', null)
    expect(await find('feature/cart')).toMatchObject({ id: preview.id, state: 'ended' })
    expect(await live()).toEqual([])
    const third = await push('feature/cart')
    expect(await find('feature/cart')).toMatchObject({ id: preview.id, state: 'live', head_sha: third })
    await expectCompleteJournal(tenant, (await find('feature/cart')).deployment_id)
  })

  it('has none if the parent deploys it, no glob covers it, its commit is skipped, or none are followed', async () => {
    const { push, previews } = await setUpBranches({ branches: ['feature/*', 'main'] })
    for (const branch of ['main', 'other']) await push(branch)
    expect(await previews()).toEqual([])
    const pulls = await setUpBranches({ kinds: ['pull_requests'] })
    await pulls.push('feature/x')
    expect(await pulls.previews()).toEqual([])
  })

  it('has the preview of its pull request while that is open, at its own address too', async () => {
    const { parent, pull, preview, push, find, read, live } = await setUpBranches(BOTH)
    const sha = (await push('feature'))!
    await pull('opened', 1, { sha })
    expect(await find('feature')).toMatchObject({ state: 'ended' })
    expect(await live()).toHaveLength(1)
    const { deployment_id } = await preview()
    expect(mapSecretValues(await read(deployment_id))).toMatchObject({ TOKEN: 'hush' })
    await push('feature')
    expect(await find('feature')).toMatchObject({ state: 'ended' })
    await pull('closed', 1, { sha })
    expect((await preview()).state).toBe('ended')
    expect((await find('feature')).state).toBe('live')
    expect((await live()).map(({ name }: { name: string }) => name)).toEqual([`feature--${parent.name}`])
    await push('feature', null)
    expect(await live()).toEqual([])
  })

  it('that was removed comes back with its next commit, and not by a repeated delivery', async () => {
    const { tenant, parent, repository, push, find } = await setUpBranches()
    const sha = await push('feature')
    const { id } = await find('feature')
    expect((await tenant.delete(`/v2/deployments/${parent.id}/previews/${id}`)).status).toBe(204)
    await finishPendingWork()
    await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/feature', sha))
    expect((await find('feature')).state).toBe('ended')
    await push('feature')
    expect((await find('feature')).state).toBe('live')
  })

  it('gets a commit status, and no comment', async () => {
    const { repository, push, find } = await setUpBranches()
    const sha = await push('feature')
    const statuses = () => repository.requests.filter(({ path }) => path.includes('/statuses/'))
    expect(
      statuses().map(({ path, body }) => [path.split('/').at(-1), (body as { state: string }).state]),
    ).toContainEqual([sha, 'pending'])
    await push('feature', null)
    expect((await find('feature')).state).toBe('ended')
    expect(statuses().at(-1)).toMatchObject({ body: { state: 'success' } })
    expect(repository.requests.some(({ path }) => path.includes('/comments'))).toBe(false)
  })

  it.each([
    ['none', { db_storage_gi: 1, cpu: 1 }, { cpu: 1 }],
    ['empty', { cpu: 1 }, { cpu: 1, db_storage_gi: 1 }],
  ])('has the database %s of the policy', async (mode, given, expected) => {
    const { tenant, parent, repository, previews } = await setUpPreviews(
      {},
      { source_config: { resource_spec: given } },
    )
    const policy = { branches: ['**'], kinds: ['branches'], database: { mode } }
    expect((await tenant.put(getPolicyPath(parent.id), policy)).body.database).toEqual({ mode })
    await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/x'))
    const [{ deployment_id }] = await previews()
    expect((await tenant.get(`/v2/deployments/${deployment_id}`)).body.source_config.resource_spec).toEqual(
      expect.objectContaining(expected),
    )
  })
})

describe('the preview of a branch', () => {
  it('is not stored while 200 have or await one, and an event says so', async () => {
    const { tenant, parent, push } = await setUpBranches({ max: 1 })
    const find = async (branch: string) =>
      (await tenant.get(`/v2/previews?branch_contains=${branch}`)).body.resources[0]
    await push('a')
    const waiting = sql`
      insert into previews
        (organization_id, tenant_id, parent_id, kind, state, branch, head_sha, fork, changed_at, expires_at)
      select organization_id, tenant_id, parent_id, kind, 'full', 'x' || i, head_sha, false, clock(), expires_at
      from previews v, generate_series(1, 199) i
      where v.parent_id = ${parent.id}::uuid`
    await runAsSystem(getServices().database, waiting)
    await push('b')
    expect(await find('b')).toBeUndefined()
    const { resources } = (await tenant.get('/v2/events?type=preview_policy.full')).body
    expect(resources).toMatchObject([{ subject: { id: parent.id }, data: { branch: 'b', max: 200 } }])
    const sha = await push('a')
    expect(await find('a')).toMatchObject({ state: 'live', head_sha: sha })
    await push('x1', null)
    await push('b')
    expect(await find('b')).toMatchObject({ state: 'full' })
  })

  it('is refused by name where the agent does not allow it any more, and made once it does', async () => {
    const { tenant, parent, pull, preview, push, find } = await setUpBranches(BOTH)
    const { listener } = await newListener(tenant)
    const allow = (policy: object | null) =>
      runAsSystem(
        getApp().database,
        sql`update listeners set policy = ${policy && JSON.stringify(policy)}::json where id = ${listener.id}::uuid`,
        sql`update deployments set listener_id = ${listener.id}::uuid where id = ${parent.id}::uuid`,
      )
    await allow(null)
    const policy = { branches: ['**'], ...BOTH, resource_spec: { labels: { 'istio.io/rev': 'x' } } }
    expect((await tenant.put(getPolicyPath(parent.id), policy)).status).toBe(200)
    await allow({ privileged: false, service_accounts: [] })
    expect((await tenant.put(getPolicyPath(parent.id), policy)).body.code).toBe('not_allowed_by_listener')
    await push('other')
    await pull('opened', 1)
    const problem = expect.stringContaining('resource_spec.labels.istio.io/rev')
    for (const one of [await find('other'), await preview()]) expect(one).toMatchObject({ state: 'failed', problem })
    await allow(null)
    await push('other')
    await pull('synchronize', 1)
    for (const one of [await find('other'), await preview()])
      expect(one).toMatchObject({ state: 'live', problem: null })
  })

  it('has another name, for a pull request too, where a deployment has its name', async () => {
    const { tenant, parent, pull, child } = await setUpBranches(BOTH)
    const taken = { name: `${parent.name}-pr-1`, source: 'internal_container', source_config: {}, secrets: [] }
    expect((await tenant.post('/v2/deployments', { ...taken, source_revision_config: {} })).status).toBe(201)
    await pull('opened', 1)
    expect((await child()).name).toMatch(new RegExp(`^${parent.name}-pr-1-[0-9a-f]{8}$`))
  })
})

describe('the name of a branch’s preview', () => {
  it('gets the place of one that ends, however many previews wait in another workspace', async () => {
    const other = await setUpBranches({ max: 1 })
    await other.push('a')
    const waiting = sql`
      insert into previews
        (organization_id, tenant_id, parent_id, kind, state, branch, head_sha, fork, changed_at, expires_at, updated_at)
      select d.organization_id, d.tenant_id, d.id, 'branch', s.state, s.state || i, ${newSha()}, false, clock(),
        clock() + interval '1 day', '2000-01-01'
      from deployments d, generate_series(1, 60) i, unnest(array['full', 'pending']) s(state)
      where d.id = ${other.parent.id}::uuid`
    await runAsSystem(getServices().database, waiting)
    const { tenant, parent, push, find } = await setUpBranches({ max: 1 })
    await push('a')
    await push('b')
    expect(await find('b')).toMatchObject({ state: 'full' })
    await tenant.delete(`/v2/deployments/${parent.id}/previews/${(await find('a')).id}`)
    await sweepPreviews(getServices())
    expect(await find('b')).toMatchObject({ state: 'live' })
  })

  it('has a hash where branches read alike, and where it is long', async () => {
    const { parent, push, find, read } = await setUpBranches()
    for (const branch of ['feature/a', 'feature-a', 'f'.repeat(70), '--']) await push(branch)
    const names = await Promise.all(
      ['feature/a', 'feature-a', 'f'.repeat(70), '--'].map(
        async branch => (await read((await find(branch)).deployment_id)).name,
      ),
    )
    expect(names[0]).toBe(`feature-a--${parent.name}`)
    expect(new Set(names).size).toBe(4)
    for (const name of names) expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*--[a-z0-9]+(-[a-z0-9]+)*$/)
    for (const name of names) expect(name.length).toBeLessThanOrEqual(63)
    // By the branch's exact name, so it is the same each time.
    expect(branchNames('shop', 'feature/a')).toEqual(['feature-a--shop', 'feature-a-951d42dc--shop'])
  })

  it('is refused for new deployments', async () => {
    const tenant = await newTenant()
    const body = {
      name: 'a--shop',
      source: 'internal_container',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    }
    expect((await tenant.post('/v2/deployments', body)).status).toBe(422)
  })
})

describe('labels of hosts', () => {
  it('are of deployments, branches and commits, each once for a listener, and go to its agent', async () => {
    const { tenant, parent, pull, push, find, preview } = await setUpBranches(BOTH)
    const { listener, key } = await newListener(tenant)
    const listen = sql`update deployments set listener_id = ${listener.id}::uuid where id = ${parent.id}::uuid`
    await runAsSystem(getApp().database, listen)
    const sha = (await push('feature'))!
    const branch = `feature--${parent.name}`
    const labelsOf = async (id: string) => {
      const query = sql<[string]>`
        select kind || ' ' || label from host_labels where deployment_id = ${id}::uuid order by kind, label`
      const [rows] = (await runAsSystem(getApp().database, query)) as [[string][]]
      return rows.map(([text]) => text)
    }
    const own = (await find('feature')).deployment_id
    const commit = (await labelsOf(own))[0]!
    expect(await labelsOf(own)).toEqual([commit, `deployment ${branch}`])
    expect(commit).toMatch(new RegExp(`^commit ${sha.slice(0, 7)}--feature--`))
    expect(await labelsOf(parent.id)).toEqual([`deployment ${parent.name}`])
    const setUrl = sql`update deployments set url = ${`http://${branch}.localhost:8788`} where id = ${own}::uuid`
    await runAsSystem(getApp().database, setUrl)
    const newest_commit_url = `http://${commit.slice('commit '.length)}.localhost:8788`
    expect(await find('feature')).toMatchObject({ url: `http://${branch}.localhost:8788`, newest_commit_url })
    await pull('opened', 1, { sha })
    const { deployment_id } = await preview()
    expect(await labelsOf(deployment_id)).toEqual(expect.arrayContaining([`branch ${branch}`]))
    const work = (await makeSyncAgent(tenant, key).pollAll()).find(one => one.deployment_id === deployment_id)!
    expect(work.host_labels!.map(({ label }) => label)).toEqual(expect.arrayContaining([branch]))
    expect(work.host_labels![0]!.label).toMatch(/-pr-1$/)
    await pull('closed', 1, { sha })
    expect(await labelsOf((await find('feature')).deployment_id)).toContain(`deployment ${branch}`)
  })
})

describe('a requested preview', () => {
  it('can be an image: it is made, updated by the same name, and deleted', async () => {
    const { tenant, parent, request, read, live } = await setUpBranches({ kinds: ['pull_requests'] })
    const reply = await request({ branch: 'try', image_uri: 'registry.example.com/shop:1' })
    expect([reply.status, reply.body.kind, reply.body.state]).toEqual([202, 'request', 'pending'])
    const path = `/v2/deployments/${parent.id}/previews/${reply.body.id}`
    const preview = (await tenant.get(path)).body
    expect(preview).toMatchObject({ state: 'live', head_sha: null, commit: null, branch: 'try' })
    expect(await read(preview.deployment_id)).toMatchObject({
      name: `try--${parent.name}`,
      source: 'internal_container',
      source_revision_config: { image_uri: 'registry.example.com/shop:1' },
      secrets: expect.arrayContaining(OVERLAY_SECRETS),
    })
    expect(mapSecretValues(await read(preview.deployment_id))).not.toHaveProperty('TOKEN')
    await request({ branch: 'try', image_uri: 'registry.example.com/shop:2' })
    expect((await tenant.get(path)).body).toMatchObject({ state: 'live', deployment_id: preview.deployment_id })
    expect(await listRevisions(tenant, preview.deployment_id)).toHaveLength(2)
    expect((await request({ branch: 'try', repo_ref: 'main' })).body.code).toBe('preview_source_changed')
    expect((await tenant.delete(path)).status).toBe(204)
    await finishPendingWork()
    expect(await live()).toEqual([])
    expect((await request({ branch: 'try', repo_ref: 'main' })).status).toBe(202)
  })

  it('can be a ref: it has its commit, or the reason why it has none', async () => {
    const { tenant, parent, repository, request } = await setUpBranches()
    const sha = newSha()
    repository.refs.set('topic', sha)
    const made = await request({ repo_ref: 'topic' })
    const path = (id: string) => `/v2/deployments/${parent.id}/previews/${id}`
    expect((await tenant.get(path(made.body.id))).body).toMatchObject({ state: 'live', branch: 'topic', head_sha: sha })
    const missing = await request({ repo_ref: 'missing' })
    expect((await tenant.get(path(missing.body.id))).body).toMatchObject({
      state: 'failed',
      problem: expect.stringContaining('missing'),
    })
    const commit = await request({ branch: 'at', repo_commit_sha: sha })
    expect((await tenant.get(path(commit.body.id))).body.state).toBe('failed')
  })

  it('cannot be a branch that the policy follows', async () => {
    const { push, request } = await setUpBranches()
    await push('feature')
    expect((await request({ branch: 'feature', image_uri: 'a/b:1' })).body.code).toBe('preview_followed')
  })

  it('needs no policy and no git host, waits for room, and is finished by the sweep after a crash', async () => {
    const tenant = await newTenant()
    const body = { source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] }
    const { id } = (await tenant.post('/v2/deployments', { ...body, name: `c-${crypto.randomUUID().slice(0, 8)}` }))
      .body
    const request = (members: object) => tenant.post(`/v2/deployments/${id}/previews`, members)
    expect((await request({ repo_ref: 'main' })).body.code).toBe('source_rule')
    expect((await request({ branch: 'x', source_tarball_path: 'nowhere' })).body.code).toBe('archive_unknown')
    for (const wrong of [
      {},
      { branch: 'x' },
      { image_uri: 'a/b:1' },
      { branch: 'x', image_uri: 'a/b:1', repo_ref: 'main' },
    ])
      expect((await request(wrong)).status).toBe(422)
    const { body: preview } = await request({ branch: 'x', image_uri: 'a/b:1' })
    await finishPendingWork()
    await runAsSystem(
      getApp().database,
      sql`update previews set state = 'pending', updated_at = updated_at - interval '1 hour'
        where id = ${preview.id}::uuid`,
    )
    await sweepPreviews(getServices())
    expect((await tenant.get(`/v2/deployments/${id}/previews/${preview.id}`)).body.state).toBe('live')
    await runAsSystem(
      getApp().database,
      sql`
        insert into previews
          (organization_id, tenant_id, parent_id, kind, state, branch, request, fork, changed_at, expires_at)
        select v.organization_id, v.tenant_id, v.parent_id, v.kind, 'full', 'x' || i, v.request, false, clock(),
          v.expires_at
        from previews v, generate_series(1, 199) i
        where v.id = ${preview.id}::uuid`,
    )
    expect((await request({ branch: 'y', image_uri: 'a/b:1' })).body.code).toBe('previews_full')
    expect((await request({ branch: 'x', image_uri: 'a/b:2' })).status).toBe(202)
    await finishPendingWork()
  })
})
