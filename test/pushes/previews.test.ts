import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { settled } from '../../src/kernel/afterwards.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { signatureOf } from '../../src/pushes/hooks.ts'
import { NewPreviewPolicy } from '../../src/pushes/previews.schema.ts'
import { sweepPreviews } from '../../src/pushes/sweep.ts'
import { clock, newTenant, nobody, type Tenant, theApp } from '../support/app.ts'
import { bring, move, revisionsOf, told } from '../support/deployments.ts'
import { atTheHost, delivered, following, newRepository, newSha, services } from '../support/pushes.ts'

beforeEach(() => atTheHost())

const put = (tenant: Tenant, path: string, body: unknown) => tenant.put(path, body)
const policyPath = (id: string) => `/v2/deployments/${id}/preview-policy`
const OVERLAY = [{ name: 'OVERLAY', value: 'over' }]

async function withPolicy(policy: object = {}, over: object = {}) {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const parent = await following(tenant, repository, 0, over as Record<string, unknown>)
  const set = await put(tenant, policyPath(parent.id), { branches: ['**'], secrets: OVERLAY, ...policy })
  expect(set.status).toBe(200)
  const integration = repository.integrations[0]!
  const pull = async (...args: Parameters<typeof repository.pull>) => {
    const reply = await delivered(integration, repository.pull(...args))
    expect(reply.status).toBe(202)
  }
  const previews = async () => (await tenant.get(`/v2/deployments/${parent.id}/previews`)).body.resources
  const preview = async (number = 1) => (await previews()).find((one: { number: number }) => one.number === number)
  const child = async (number = 1) => {
    const { deployment_id } = await preview(number)
    return deployment_id && (await tenant.get(`/v2/deployments/${deployment_id}?reveal=true`)).body
  }
  const sweep = async (ahead = 0) => {
    clock.ahead += ahead
    await sweepPreviews(services(), { within: [tenant.tenant_id] }).finally(() => (clock.ahead -= ahead))
  }
  const approve = async (head_sha: string, number = 1, as: { post: Tenant['post'] } = tenant) => {
    const reply = await as.post(`/v2/deployments/${parent.id}/previews/${number}/approval`, { head_sha })
    await settled()
    return reply
  }
  const live = async () =>
    (await tenant.get('/v2/deployments?limit=100')).body.resources.filter(
      (one: { parent_deployment_id: string | null; status: string }) =>
        one.parent_deployment_id !== null && one.status !== 'AWAITING_DELETE',
    )
  return { tenant, repository, parent, pull, previews, preview, child, sweep, approve, live }
}
const valuesOf = ({ secrets }: { secrets: { name: string; value: string }[] }) =>
  Object.fromEntries(secrets.map(({ name, value }) => [name, value]))

describe('the policy', () => {
  it('is set, read with its values masked, kept by the mask, and taken back', async () => {
    const { tenant, parent } = await withPolicy()
    const hooks = { on_create: 'https://ci.example.com/create', secret: 'hush-hush' }
    const set = await put(tenant, policyPath(parent.id), { branches: ['a/*'], secrets: OVERLAY, hooks })
    expect(set.body).toMatchObject({
      deployment_id: parent.id,
      ...{ branches: ['a/*'], ttl: 604_800, max: 10, forks: 'deny', resource_spec: null },
      secrets: [{ name: 'OVERLAY', value: '********' }],
      hooks: { on_create: 'https://ci.example.com/create', on_delete: null, secret: '********' },
    })
    expect((await tenant.get(policyPath(parent.id))).body).toEqual(set.body)
    const { deployment_id: _, created_at: __, updated_at: ___, ...again } = set.body
    expect((await put(tenant, policyPath(parent.id), again)).status).toBe(200)
    const unknown = { branches: ['*'], secrets: [{ name: 'NEW', value: '********' }] }
    expect((await put(tenant, policyPath(parent.id), unknown)).body.code).toBe('secret_unknown')
    expect((await tenant.delete(policyPath(parent.id))).status).toBe(204)
    expect((await tenant.get(policyPath(parent.id))).body.code).toBe('preview_policy_not_found')
    expect((await tenant.delete(policyPath(parent.id))).body.code).toBe('preview_policy_not_found')
  })

  it('belongs to deployments from a repository that are no previews themselves', async () => {
    const { tenant, pull, child } = await withPolicy()
    const body = {
      name: 'other',
      source: 'internal_container',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    }
    const other = (await tenant.post('/v2/deployments', body)).body
    expect((await put(tenant, policyPath(other.id), { branches: ['*'] })).body.code).toBe('source_rule')
    await pull('opened', 1)
    expect((await put(tenant, policyPath((await child()).id), { branches: ['*'] })).body.code).toBe('source_rule')
    expect((await put(tenant, policyPath(nobody()), NewPreviewPolicy.meta()!.example)).status).toBe(404)
  })

  it.each([
    [{ branches: [] }],
    [{ branches: ['*'], ttl: 1 }],
    [{ branches: ['*'], secrets: [{ name: 'PREVIEW_ID', value: 'x' }] }],
    [{ branches: ['*'], hooks: { on_create: 'ftp://x', secret: 'hush-hush' } }],
    [{ branches: ['a*b*c*d*e*f*g*h*i*j*'] }],
  ])('refuses %j', async body => {
    const { tenant, parent } = await withPolicy()
    expect((await put(tenant, policyPath(parent.id), body)).status).toBe(422)
  })
})

describe('a pull request', () => {
  it('opened gets a deployment of its own, of its head, with the parent’s secrets and the overlay', async () => {
    const { tenant, repository, parent, pull, preview, child } = await withPolicy({ resource_spec: { cpu: 0.5 } })
    const sha = newSha()
    await pull('opened', 1, { branch: 'feature/x', sha })
    const made = await child()
    expect(made).toMatchObject({
      name: expect.stringMatching(/^app-.*-pr-1$/),
      parent_deployment_id: parent.id,
      preview: { number: 1, branch: 'feature/x', head_sha: sha, expires_at: (await preview()).expires_at },
      source_config: { build_on_push: false, repo_url: repository.url, resource_spec: { cpu: 0.5 } },
      source_revision_config: { repo_ref: 'refs/pull/1/head', repo_commit_sha: sha },
    })
    expect(made.name.length).toBeLessThanOrEqual(63)
    expect(valuesOf(made)).toEqual({ TOKEN: 'hush', OVERLAY: 'over', PREVIEW_ID: '1', PREVIEW_BRANCH: 'feature/x' })
    const [revision] = await revisionsOf(tenant, made.id)
    expect(revision).toMatchObject({ actor: { kind: 'push', name: 'ada' }, commit: { sha, author: 'Ada' } })
    expect(await preview()).toMatchObject({ number: 1, state: 'live', fork: false, deployment_id: made.id })
  })

  it('is followed on each push, and goes when it is closed', async () => {
    const { tenant, pull, preview, child } = await withPolicy()
    await pull('opened', 1)
    const { id } = await child()
    const sha = newSha()
    await pull('synchronize', 1, { sha })
    expect((await child()).preview.head_sha).toBe(sha)
    expect((await revisionsOf(tenant, id)).map(one => one.status)).toEqual(['QUEUED', 'AWAITING_BUILD'])
    await told(tenant, id)
    await pull('closed', 1, { sha })
    expect((await preview()).state).toBe('ended')
    expect((await tenant.get(`/v2/deployments/${id}`)).body.status).toBe('AWAITING_DELETE')
    await pull('reopened', 1, { sha })
    const again = await child()
    expect(again.id).not.toBe(id)
    expect(again.preview.head_sha).toBe(sha)
  })

  it('is rolled back and planned like any deployment', async () => {
    const { tenant, pull, child } = await withPolicy()
    await pull('opened', 1)
    const { id, latest_revision_id } = await child()
    await bring(tenant, id, latest_revision_id)
    await pull('synchronize', 1)
    const back = await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: latest_revision_id })
    expect(back.status).toBe(200)
    expect((await tenant.patch(`/v2/deployments/${id}?dry_run=true`, { secrets: [] })).status).toBe(200)
  })

  it('comes to the same in whichever order its deliveries come', async () => {
    const { repository, preview, live } = await withPolicy()
    const opened = repository.pull('opened', 1)
    const pushed = repository.pull('synchronize', 1)
    const closed = repository.pull('closed', 1)
    for (const one of [closed, opened, pushed, closed]) await delivered(repository.integrations[0]!, one)
    expect((await preview()).state).toBe('ended')
    expect(await live()).toEqual([])
  })

  it.each([
    ['a branch that the policy does not mean', { branches: ['release/*'] }],
    ['a branch that it excludes', { branches: ['**', '!feat*'] }],
  ])('of %s gets none', async (_, policy) => {
    const { pull, previews } = await withPolicy(policy)
    await pull('opened', 1)
    expect(await previews()).toEqual([])
  })

  it('beyond the most is refused until there is room', async () => {
    const { pull, preview, live, sweep } = await withPolicy({ max: 1 })
    await pull('opened', 1)
    await pull('opened', 2)
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['live', 'full'])
    expect(await live()).toHaveLength(1)
    await pull('closed', 1)
    await sweep()
    expect([(await preview(1)).state, (await preview(2)).state]).toEqual(['ended', 'live'])
    expect(await live()).toHaveLength(1)
  })

  it('goes when nobody has pushed for the policy’s time', async () => {
    const { tenant, pull, preview, child, sweep } = await withPolicy({ ttl: 3600 })
    await pull('opened', 1)
    const { id } = await child()
    await sweep(3_000_000)
    expect((await preview()).state).toBe('live')
    await sweep(3_700_000)
    expect((await preview()).state).toBe('ended')
    expect((await tenant.get(`/v2/deployments/${id}`)).body.status).toBe('AWAITING_DELETE')
  })

  it.each([
    ['its parent goes', (tenant: Tenant, parent: string) => tenant.delete(`/v2/deployments/${parent}`)],
    ['the policy is taken back', (tenant: Tenant, parent: string) => tenant.delete(policyPath(parent))],
  ])('goes when %s', async (_, act) => {
    const { tenant, parent, pull, child, live, sweep } = await withPolicy()
    await pull('opened', 1)
    expect((await child()).id).toBeTruthy()
    await act(tenant, parent.id)
    await sweep()
    expect(await live()).toEqual([])
  })
})

describe('a fork', () => {
  it('runs nothing and sees no secret before that very commit is approved, and then only the overlay', async () => {
    const { pull, preview, child, approve, live } = await withPolicy({ forks: 'approve' })
    const [first, second] = [newSha(), newSha()]
    await pull('opened', 1, { fork: true, sha: first })
    expect(await preview()).toMatchObject({ state: 'awaiting_approval', fork: true, deployment_id: null })
    expect(await live()).toEqual([])
    expect((await approve(second)).body.code).toBe('preview_moved')
    expect(await live()).toEqual([])
    expect((await approve(first)).status).toBe(200)
    expect(valuesOf(await child())).toEqual({ OVERLAY: 'over', PREVIEW_ID: '1', PREVIEW_BRANCH: 'feature' })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(first)

    await pull('synchronize', 1, { fork: true, sha: second })
    expect(await preview()).toMatchObject({ state: 'awaiting_approval', head_sha: second, approved_sha: first })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(first)
    expect((await approve(first)).body.code).toBe('preview_moved')
    expect((await approve(second)).status).toBe(200)
    expect(await preview()).toMatchObject({ state: 'live', approved_sha: second })
    expect((await child()).source_revision_config.repo_commit_sha).toBe(second)
  })

  it('is denied by the policy that says so', async () => {
    const { pull, preview, approve, live, repository } = await withPolicy({ forks: 'deny' })
    const sha = newSha()
    await pull('opened', 1, { fork: true, sha })
    expect((await preview()).state).toBe('denied')
    expect((await approve(sha)).body.code).toBe('preview_moved')
    expect(await live()).toEqual([])
    expect(repository.asked.filter(one => one.method !== 'GET')).toEqual([])
  })

  it('is approved by nobody who may not, and of another workspace is not found', async () => {
    const { tenant, parent, pull, approve } = await withPolicy({ forks: 'approve' })
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
    expect((await other.get(policyPath(parent.id))).status).toBe(404)
    expect((await approve(sha, 7)).body.code).toBe('preview_not_found')
  })
})

describe('the host is told', () => {
  const wrote = (asked: { method: string; path: string; body: unknown }[], what: RegExp) =>
    asked
      .filter(one => one.method !== 'GET' && what.test(one.path))
      .map(one => [one.method, one.body] as [string, Record<string, string>])

  it('by one comment, edited, and a status of the commit, as things move', async () => {
    const { tenant, repository, pull, child, sweep } = await withPolicy()
    await pull('opened', 1)
    expect(wrote(repository.asked, /comments/)).toEqual([['POST', { body: expect.stringContaining('on its way') }]])
    expect(wrote(repository.asked, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
    const { id, latest_revision_id } = await child()
    await sweep()
    expect(wrote(repository.asked, /comments/)).toHaveLength(1)
    await bring(tenant, id, latest_revision_id)
    await sweep()
    expect(wrote(repository.asked, /comments/)[1]).toEqual(['PATCH', { body: expect.stringContaining('ready') }])
    expect(wrote(repository.asked, /statuses/)[1]![1]).toMatchObject({ state: 'success' })
    await pull('synchronize', 1)
    await move(tenant, { deployment_id: id, revision_id: (await revisionsOf(tenant, id))[0]!.id }, 'BUILD_FAILED', {
      message: 'hush',
    })
    await sweep()
    expect(wrote(repository.asked, /statuses/).at(-1)![1]).toMatchObject({ state: 'failure' })
    await pull('closed', 1)
    const comments = wrote(repository.asked, /comments/)
    expect(comments.filter(([method]) => method === 'POST')).toHaveLength(1)
    expect(comments.at(-1)![1].body).toContain('gone')
    expect(JSON.stringify(comments)).not.toContain('hush')
  })

  it('again, when it was away', async () => {
    const { repository, pull, sweep } = await withPolicy()
    repository.mood.answer = request => (request.method === 'GET' ? undefined : new Response('{}', { status: 500 }))
    await pull('opened', 1)
    repository.mood.answer = null
    await sweep(600_000)
    expect(wrote(repository.asked, /statuses/)).toHaveLength(1)
  })

  it('that a fork waits, without being shown anything', async () => {
    const { repository, pull } = await withPolicy({ forks: 'approve' })
    await pull('opened', 1, { fork: true })
    expect(wrote(repository.asked, /comments/)[0]![1].body).toContain('approves')
    expect(wrote(repository.asked, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
  })
})

describe('hooks', () => {
  it('are told of each preview’s coming and going, signed, until they have heard it', async () => {
    const heard: { id: string; body: { type: string; data: Record<string, unknown> } }[] = []
    let away = true
    const hook = async (request: Request) => {
      if (away) return new Response(null, { status: 503 })
      const [id, timestamp, body] = [
        request.headers.get('webhook-id')!,
        request.headers.get('webhook-timestamp')!,
        await request.text(),
      ]
      expect(request.headers.get('webhook-signature')).toBe(
        await signatureOf('whsec_c2xpcHdheQ==', id, Number(timestamp), body),
      )
      heard.push({ id, body: JSON.parse(body) })
      return new Response(null, { status: 204 })
    }
    atTheHost({ 'https://ci.example.com': hook })
    const url = 'https://ci.example.com/branch'
    const { parent, pull, child, sweep } = await withPolicy({
      hooks: { on_create: url, on_delete: url, secret: 'whsec_c2xpcHdheQ==' },
    })
    await pull('opened', 1)
    const { id } = await child()
    await sweep()
    expect(heard).toEqual([])
    away = false
    await sweep(60_000)
    await pull('closed', 1)
    await sweep()
    await sweep(600_000)
    expect(heard.map(({ body }) => [body.type, body.data.deployment_id])).toEqual([
      ['preview.created', id],
      ['preview.deleted', id],
    ])
    expect(heard[0]!.body.data).toMatchObject({ number: 1, branch: 'feature', parent_deployment_id: parent.id })
    // The database keeps none of what they are signed with in the clear.
    const [rows] = await runAsSystem(
      theApp().database,
      sql`select hook_secret from preview_policies where id = ${parent.id}::uuid`,
    )
    expect(JSON.stringify(rows)).not.toContain('whsec')
  })
})
