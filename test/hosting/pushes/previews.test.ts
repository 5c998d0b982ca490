import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { shownUrl } from '../../../src/hosting/previews/preview-address.ts'
import { NewPreviewPolicy } from '../../../src/hosting/previews/previews.schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { featuresOf } from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import { getApp, newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { advanceRevisionTo, expectCompleteJournal, listRevisions } from '../../support/deployments.ts'
import { getPolicyPath, mapSecretValues, OVERLAY_SECRETS, setUpPreviews } from '../../support/previews.ts'
import { deliverAndSettle, newSha, serveRepositories } from '../../support/pushes.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

beforeEach(() => serveRepositories())

describe('the preview policy', () => {
  it('can be set, read with masked secrets, updated with the mask, and removed', async () => {
    const { tenant, parent } = await setUpPreviews()
    const hooks = { on_create: 'https://ci.example.com/create', secret: 'hush-hush' }
    const set = await tenant.put(getPolicyPath(parent.id), { branches: ['a/*'], secrets: OVERLAY_SECRETS, hooks })
    expect(set.body).toMatchObject({
      deployment_id: parent.id,
      branches: ['a/*'],
      ttl: 604_800,
      max: 10,
      forks: 'deny',
      resource_spec: null,
      secrets: [{ name: 'OVERLAY', value: '********' }],
      hooks: { on_create: 'https://ci.example.com/create', on_delete: null, secret: '********' },
    })
    expect((await tenant.get(getPolicyPath(parent.id))).body).toEqual(set.body)
    const { deployment_id: _, created_at: __, updated_at: ___, ...shown } = set.body
    const { secret_fingerprints: ____, hook_secret_fingerprint: _____, existing_branches: ______, ...unchanged } = shown
    expect((await tenant.put(getPolicyPath(parent.id), unchanged)).status).toBe(200)
    const unknown = { branches: ['*'], secrets: [{ name: 'NEW', value: '********' }] }
    expect((await tenant.put(getPolicyPath(parent.id), unknown)).body.code).toBe('secret_unknown')
    expect((await tenant.delete(getPolicyPath(parent.id))).status).toBe(204)
    expect((await tenant.get(getPolicyPath(parent.id))).body.code).toBe('preview_policy_not_found')
    expect((await tenant.delete(getPolicyPath(parent.id))).body.code).toBe('preview_policy_not_found')
  })

  it('requires the hook secret again when a hook gets a new URL', async () => {
    const { tenant, parent } = await setUpPreviews()
    const [original, changed] = ['https://ci.example.com/create', 'https://evil.example.com/create']
    const setHooks = (hooks: object) => tenant.put(getPolicyPath(parent.id), { branches: ['*'], hooks })
    expect((await setHooks({ on_create: original, secret: 'hush-hush' })).status).toBe(200)
    for (const hooks of [{ on_create: changed }, { on_delete: changed }, { on_create: original, on_delete: changed }]) {
      const { status, body } = await setHooks({ ...hooks, secret: '********' })
      expect([status, body.code]).toEqual([400, 'secret_required'])
    }
    expect((await setHooks({ on_delete: original, secret: '********' })).status).toBe(200)
    expect((await setHooks({ secret: '********' })).status).toBe(200)
    expect((await setHooks({ on_create: changed, secret: 'another-secret' })).status).toBe(200)
  })

  it('is only allowed on deployments from a repository that are not previews themselves', async () => {
    const { tenant, pull, child } = await setUpPreviews()
    const body = {
      name: 'container',
      source: 'internal_container',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    }
    const container = (await tenant.post('/v2/deployments', body)).body
    expect((await tenant.put(getPolicyPath(container.id), { branches: ['*'] })).body.code).toBe('source_rule')
    await pull('opened', 1)
    expect((await tenant.put(getPolicyPath((await child()).id), { branches: ['*'] })).body.code).toBe('source_rule')
    expect((await tenant.put(getPolicyPath(unusedId()), NewPreviewPolicy.meta()!.example)).status).toBe(404)
  })

  it.each([
    [{ branches: [] }],
    [{ branches: ['*'], ttl: 1 }],
    [{ branches: ['*'], secrets: [{ name: 'PREVIEW_ID', value: 'x' }] }],
    [{ branches: ['*'], hooks: { on_create: 'ftp://x', secret: 'hush-hush' } }],
    [{ branches: ['a*b*c*d*e*f*g*h*i*j*'] }],
  ])('refuses %j', async body => {
    const { tenant, parent } = await setUpPreviews()
    expect((await tenant.put(getPolicyPath(parent.id), body)).status).toBe(422)
  })
})

describe('a pull request', () => {
  it('has a preview with the URL that the listener reports, until the preview ends', async () => {
    const { tenant, pull, preview } = await setUpPreviews()
    await pull('opened', 1)
    expect((await preview()).url).toBe(null)
    const { deployment_id } = await preview()
    const setUrl = sql`update deployments set url = 'http://preview.localhost' where id = ${deployment_id}::uuid`
    await runAsSystem(getApp().database, setUrl)
    expect((await preview()).url).toBe('http://preview.localhost')
    expect((await tenant.get(`/v2/deployments/${deployment_id}`)).body.url).toBe('http://preview.localhost')
    await pull('closed', 1)
    expect((await preview()).url).toBe(null)
  })

  it.each([
    ['apps.example.com', null, 'https://shop-pr-1.apps.example.com'],
    ['apps.example.com', 'http://shop-pr-1.localhost:8788', 'https://shop-pr-1.apps.example.com'],
    // Another workspace has the plain name.
    ['apps.example.com', 'https://shop-pr-1-1a2b3c4d.apps.example.com', 'https://shop-pr-1-1a2b3c4d.apps.example.com'],
    ['apps.example.com', 'https://evil-apps.example.com', 'https://shop-pr-1.apps.example.com'],
    [undefined, 'http://shop-pr-1.localhost:8788', 'http://shop-pr-1.localhost:8788'],
    [undefined, null, null],
  ])('below the domain %s, reported at %s, is shown at %s', (domain, reported, shown) => {
    expect(shownUrl(domain, 'shop-pr-1', reported)).toBe(shown)
  })

  it('gets a deployment of its head commit, with the secrets of the parent and the policy', async () => {
    const { tenant, repository, parent, pull, preview, child } = await setUpPreviews({ resource_spec: { cpu: 0.5 } })
    const sha = newSha()
    await pull('opened', 1, { branch: 'feature/x', sha })
    const deployment = await child()
    expect(deployment).toMatchObject({
      name: expect.stringMatching(/^app-.*-pr-1$/),
      parent_deployment_id: parent.id,
      preview: { number: 1, branch: 'feature/x', head_sha: sha, expires_at: (await preview()).expires_at },
      source_config: { build_on_push: false, repo_url: repository.url, resource_spec: { cpu: 0.5 } },
      source_revision_config: { repo_ref: 'refs/pull/1/head', repo_commit_sha: sha },
    })
    expect(deployment.name.length).toBeLessThanOrEqual(63)
    expect(mapSecretValues(deployment)).toEqual({
      TOKEN: 'hush',
      OVERLAY: 'over',
      PREVIEW_ID: '1',
      PREVIEW_BRANCH: 'feature/x',
    })
    const [revision] = await listRevisions(tenant, deployment.id)
    expect(revision).toMatchObject({ actor: { kind: 'push', name: 'ada' }, commit: { sha, author: 'Ada' } })
    expect(await preview()).toMatchObject({ number: 1, state: 'live', fork: false, deployment_id: deployment.id })
  })

  it('sleeps without requests where its listener can, unless the policy sets another `min_scale`', async () => {
    const { tenant, parent, pull, child } = await setUpPreviews({ resource_spec: { cpu: 0.5 } })
    const { listener, key } = await newListener(tenant)
    await makeSyncAgent(tenant, key).poll({
      policy: { ...CLOSED_POLICY, engine: 'process', features: featuresOf('process') },
    })
    await runAsSystem(
      getApp().database,
      sql`
      update deployments set listener_id = ${listener.id}::uuid where id = ${parent.id}::uuid returning id`,
    )
    await pull('opened', 1)
    const asleep = { cpu: 0.5, min_scale: 0, idle_seconds: 900 }
    expect((await child()).source_config.resource_spec).toEqual(asleep)
    await tenant.put(getPolicyPath(parent.id), { branches: ['**'], resource_spec: { min_scale: 1 } })
    await pull('opened', 2)
    expect((await child(2)).source_config.resource_spec).toMatchObject({ min_scale: 1 })
  })

  it('leaves the custom_url to its parent, and can have one of its own until it is closed', async () => {
    const { tenant, parent, pull, preview, child } = await setUpPreviews()
    const [host, own] = [`${unusedId()}.example.com`, `${unusedId()}.example.com`]
    const setUrl = (id: string, custom_url: string) =>
      tenant.patch(`/v2/deployments/${id}`, { source_config: { custom_url } })
    expect((await setUrl(parent.id, host)).status).toBe(200)
    await pull('opened', 1)
    const { id, source_config } = await child()
    expect([(await preview()).state, source_config.custom_url]).toEqual(['live', null])
    expect((await tenant.get(`/v2/deployments/${parent.id}`)).body.source_config.custom_url).toBe(host)
    expect((await setUrl(id, host)).body.code).toBe('custom_url_taken')
    expect((await setUrl(id, own)).status).toBe(200)
    await pull('synchronize', 1)
    expect((await child()).source_config.custom_url).toBe(own)
    const hosts = async () =>
      (await tenant.get('/v2/custom-hosts')).body.resources.map(({ host }: { host: string }) => host)
    expect((await hosts()).sort()).toEqual([host, own].sort())
    await pull('closed', 1)
    expect(await hosts()).toEqual([host])
  })

  it('is redeployed on each push, and its deployment is deleted when it is closed', async () => {
    const { tenant, pull, preview, child } = await setUpPreviews()
    await pull('opened', 1)
    const { id } = await child()
    const sha = newSha()
    await pull('synchronize', 1, { sha })
    expect((await child()).preview.head_sha).toBe(sha)
    expect((await listRevisions(tenant, id)).map(revision => revision.status)).toEqual(['QUEUED', 'AWAITING_BUILD'])
    await expectCompleteJournal(tenant, id)
    await pull('closed', 1, { sha })
    expect((await preview()).state).toBe('ended')
    expect((await tenant.get(`/v2/deployments/${id}`)).body.status).toBe('AWAITING_DELETE')
    await pull('reopened', 1, { sha })
    const recreated = await child()
    expect(recreated.id).not.toBe(id)
    expect(recreated.preview.head_sha).toBe(sha)
  })

  it('has a deployment that can be rolled back and patched in a dry run', async () => {
    const { tenant, pull, child } = await setUpPreviews()
    await pull('opened', 1)
    const { id, latest_revision_id } = await child()
    await advanceRevisionTo(tenant, id, latest_revision_id)
    await pull('synchronize', 1)
    const rollback = await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: latest_revision_id })
    expect(rollback.status).toBe(200)
    expect((await tenant.patch(`/v2/deployments/${id}?dry_run=true`, { secrets: [] })).status).toBe(200)
  })

  it('has no preview once it is closed, even if its deliveries arrive out of order', async () => {
    const { repository, preview, live } = await setUpPreviews()
    const opened = repository.pull('opened', 1)
    const pushed = repository.pull('synchronize', 1)
    const closed = repository.pull('closed', 1)
    for (const one of [closed, opened, pushed, closed]) await deliverAndSettle(repository.integrations[0]!, one)
    expect((await preview()).state).toBe('ended')
    expect(await live()).toEqual([])
  })

  it.each([
    ['a branch that the policy does not include', { branches: ['release/*'] }],
    ['a branch that the policy excludes', { branches: ['**', '!feat*'] }],
  ])('from %s gets no preview', async (_, policy) => {
    const { pull, previews } = await setUpPreviews(policy)
    await pull('opened', 1)
    expect(await previews()).toEqual([])
  })

  it('beyond the maximum waits until another preview ends', async () => {
    const { pull, preview, live, sweep } = await setUpPreviews({ max: 1 })
    await pull('opened', 1)
    await pull('opened', 2)
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['live', 'full'])
    expect(await live()).toHaveLength(1)
    await pull('closed', 1)
    await sweep()
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['ended', 'live'])
    expect(await live()).toHaveLength(1)
  })

  it('loses its preview when there is no push for the time set in the policy', async () => {
    const { tenant, pull, preview, child, sweep } = await setUpPreviews({ ttl: 3600 })
    await pull('opened', 1)
    const { id } = await child()
    await sweep(3_000_000)
    expect((await preview()).state).toBe('live')
    await sweep(3_700_000)
    expect((await preview()).state).toBe('ended')
    expect((await tenant.get(`/v2/deployments/${id}`)).body.status).toBe('AWAITING_DELETE')
  })

  it.each([
    ['its parent is deleted', (tenant: Tenant, parent: string) => tenant.delete(`/v2/deployments/${parent}`)],
    ['the policy is removed', (tenant: Tenant, parent: string) => tenant.delete(getPolicyPath(parent))],
  ])('loses its preview when %s', async (_, act) => {
    const { tenant, parent, pull, child, live, sweep } = await setUpPreviews()
    await pull('opened', 1)
    expect((await child()).id).toBeTruthy()
    await act(tenant, parent.id)
    await sweep()
    expect(await live()).toEqual([])
  })
})

describe('a pull request from a fork', () => {
  it('deploys only approved commits, and gets only the secrets of the policy', async () => {
    const { pull, preview, child, approve, live } = await setUpPreviews({ forks: 'approve' })
    const [first, second] = [newSha(), newSha()]
    await pull('opened', 1, { fork: true, sha: first })
    expect(await preview()).toMatchObject({ state: 'awaiting_approval', fork: true, deployment_id: null })
    expect(await live()).toEqual([])
    expect((await approve(second)).body.code).toBe('preview_moved')
    expect(await live()).toEqual([])
    expect((await approve(first)).status).toBe(200)
    expect(mapSecretValues(await child())).toEqual({ OVERLAY: 'over', PREVIEW_ID: '1', PREVIEW_BRANCH: 'feature' })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(first)

    await pull('synchronize', 1, { fork: true, sha: second })
    expect(await preview()).toMatchObject({ state: 'awaiting_approval', head_sha: second, approved_sha: first })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(first)
    expect((await approve(first)).body.code).toBe('preview_moved')
    expect((await approve(second)).status).toBe(200)
    expect(await preview()).toMatchObject({ state: 'live', approved_sha: second })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(second)
  })

  it('stays at its approved commit when a revision is requested or its ref is sent again', async () => {
    const { tenant, pull, child, approve } = await setUpPreviews({ forks: 'approve' })
    const sha = newSha()
    await pull('opened', 1, { fork: true, sha })
    await approve(sha)
    await pull('synchronize', 1, { fork: true })
    const { id, source_revision_config } = await child()
    const { repo_ref } = source_revision_config
    const requested = await tenant.post(`/v2/deployments/${id}/revisions`)
    expect(requested.body.source_revision_config.repo_commit_sha).toBe(sha)
    const patched = await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { repo_ref } })
    expect(patched.body.source_revision_config.repo_commit_sha).toBe(sha)
    const otherRef = await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { repo_ref: 'main' } })
    expect(otherRef.body.source_revision_config.repo_commit_sha).toBeNull()
  })

  it('is denied if the policy denies forks', async () => {
    const { pull, preview, approve, live, repository } = await setUpPreviews({ forks: 'deny' })
    const sha = newSha()
    await pull('opened', 1, { fork: true, sha })
    expect((await preview()).state).toBe('denied')
    expect((await approve(sha)).body.code).toBe('preview_moved')
    expect(await live()).toEqual([])
    expect(repository.requests.filter(one => one.method !== 'GET')).toEqual([])
  })

  it('cannot be approved without the permission or from another workspace', async () => {
    const { tenant, parent, pull, approve } = await setUpPreviews({ forks: 'approve' })
    const sha = newSha()
    await pull('opened', 1, { fork: true, sha })
    const viewer = await tenant.post('/workspaces/current/api-keys', {
      description: 'v',
      permissions: ['deployments:read'],
    })
    expect((await approve(sha, 1, tenant.as(viewer.body.key))).body.code).toBe('permission_missing')
    const other = await newTenant()
    expect((await approve(sha, 1, other)).status).toBe(404)
    expect((await other.get(`/v2/deployments/${parent.id}/previews`)).status).toBe(404)
    expect((await other.get(getPolicyPath(parent.id))).status).toBe(404)
    expect((await approve(sha, 7)).body.code).toBe('preview_not_found')
  })
})

describe('the previews of a workspace', () => {
  it('are listed with their parent and commit, by state and branch', async () => {
    const { tenant, parent, repository, pull } = await setUpPreviews({ forks: 'approve' })
    const [own, fork] = [newSha(), newSha()]
    await pull('opened', 1, { branch: 'feature/cart', sha: own })
    await pull('opened', 2, { branch: 'patch', sha: fork, fork: true })
    const list = async (query = '') => (await tenant.get(`/v2/previews${query}`)).body.resources
    expect(await list()).toMatchObject([
      {
        parent_deployment_id: parent.id,
        parent_name: parent.name,
        number: 2,
        state: 'awaiting_approval',
        commit: { sha: fork, message: `Commit ${fork}`, author: 'Ada' },
        commit_url: `${repository.url}/commit/${fork}`,
        pull_request_url: `${repository.url}/pulls/2`,
        revision_status: null,
      },
      { number: 1, state: 'live', commit: { sha: own }, revision_status: 'AWAITING_BUILD', last_request_at: null },
    ])
    expect((await list('?state=live,full')).map((one: { number: number }) => one.number)).toEqual([1])
    expect((await list('?branch_contains=PATCH')).map((one: { number: number }) => one.number)).toEqual([2])
    expect((await (await newTenant()).get('/v2/previews')).body.resources).toEqual([])
  })

  it('can be removed, which declines a waiting commit, and come back with a later push', async () => {
    const { tenant, parent, pull, preview, live } = await setUpPreviews({ forks: 'approve' })
    await pull('opened', 1)
    await pull('opened', 2, { fork: true })
    const remove = async (number: number) => {
      const { status } = await tenant.delete(`/v2/deployments/${parent.id}/previews/${number}`)
      await finishPendingWork()
      return status
    }
    expect([await remove(1), await remove(2), await remove(2)]).toEqual([204, 204, 404])
    expect(await live()).toEqual([])
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['ended', 'ended'])
    await pull('synchronize', 1)
    await pull('synchronize', 2, { fork: true })
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['live', 'awaiting_approval'])
  })
})

describe('the plan of a policy', () => {
  it('shows what changes and which previews match, and is the only one that its digest applies', async () => {
    const { tenant, parent, pull } = await setUpPreviews()
    await pull('opened', 1, { branch: 'feature/cart' })
    const path = getPolicyPath(parent.id)
    const policy = { branches: ['release/*'], ttl: 3600, secrets: [{ name: 'OVERLAY', value: '********' }] }
    const { body: plan } = await tenant.put(`${path}?dry_run=true`, policy)
    expect(plan).toMatchObject({
      changes: [
        { path: 'branches', before: ['**'], after: ['release/*'] },
        { path: 'ttl', before: 604_800, after: 3600 },
      ],
      new_values: [],
      previews: [{ number: 1, branch: 'feature/cart', matches: false }],
    })
    expect(plan.warnings).toHaveLength(1)
    expect((await tenant.get(path)).body.branches).toEqual(['**'])
    const unknown = { ...policy, secrets: [{ name: 'NONE', value: '********' }] }
    expect((await tenant.put(`${path}?dry_run=true`, unknown)).body.code).toBe('secret_unknown')
    await tenant.put(path, { branches: ['other'] })
    const apply = (digest: string) => tenant.put(path, policy, { 'Plan-Digest': digest })
    expect((await apply(plan.plan_digest)).body.code).toBe('plan_stale')
    const again = (await tenant.put(`${path}?dry_run=true`, { ...policy, secrets: [] })).body
    expect((await tenant.put(path, { ...policy, secrets: [] }, { 'Plan-Digest': again.plan_digest })).status).toBe(200)
  })

  it('shows at most 200 previews, because strangers can open any number of pull requests', async () => {
    const { tenant, parent } = await setUpPreviews()
    const fill = sql`
      insert into previews (organization_id, tenant_id, parent_id, number, state, branch, head_sha, fork, changed_at,
        expires_at)
      select organization_id, tenant_id, id, n, 'denied', 'b', repeat('a', 40), true, now(), now() + interval '1 day'
      from deployments, generate_series(1, 201) n
      where id = ${parent.id}::uuid`
    await runAsSystem(getApp().database, fill)
    const { body } = await tenant.put(`${getPolicyPath(parent.id)}?dry_run=true`, { branches: ['b'] })
    expect(body.previews).toHaveLength(200)
  })
})
