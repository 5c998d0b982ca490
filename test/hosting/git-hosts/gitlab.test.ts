// GitLab: projects, webhooks, pushes, merge requests and what it refuses.
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sweepRepositories } from '../../../src/hosting/pushes/repository-sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { foreignServers, getApp, getServices, newTenant, send, type Tenant } from '../../support/app.ts'
import { listRevisions } from '../../support/deployments.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import { makeGitlab } from '../../support/gitlab-server.ts'
import { newSha } from '../../support/pushes.ts'

const BASE_PATH = '/v1/integrations/forge/githost'
const originalFetch = foreignServers.fetch
let gitlab = makeGitlab()
beforeEach(() => {
  gitlab = makeGitlab()
  gitlab.tokens.set('glpat-hush', { user: { id: 7, username: 'bot' }, scopes: ['api'] })
  foreignServers.fetch = makeFakeFetch(gitlab.sites)
})
afterEach(() => {
  foreignServers.fetch = originalFetch
})

const connect = (tenant: Tenant, over: object = {}) =>
  tenant.post(BASE_PATH, { host: 'gitlab', token: 'glpat-hush', ...over })
/** GitLab posts what it has to send, to the URL of the webhook. */
async function deliverAll(): Promise<number[]> {
  const statuses: number[] = []
  for (let round = 0; round < 3; round++) {
    for (const { url, headers, body } of gitlab.takeSent())
      statuses.push((await send('POST', new URL(url).pathname, { raw: body, headers })).status)
    await finishPendingWork()
  }
  return statuses
}
async function compare(integration_id: string): Promise<void> {
  const due = sql`update followed_repositories set next_compare_at = '2000-01-01'
    where integration_id = ${integration_id}::uuid`
  await runAsSystem(getApp().database, due)
  await sweepRepositories(getServices(), { integration_id })
  await finishPendingWork()
}

async function setUp() {
  const tenant = await newTenant()
  const project = gitlab.create('acme/backend/shop')
  gitlab.push(project, 'refs/heads/main', newSha())
  const { id: integration } = (await connect(tenant)).body
  const created = await tenant.post('/v2/deployments', {
    name: 'shop',
    source: 'githost',
    source_config: {
      integration_id: integration,
      repo_url: 'https://gitlab.com/acme/backend/shop',
      build_on_push: true,
    },
    source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
    secrets: [],
  })
  expect(created.status, created.text).toBe(201)
  await compare(integration)
  await deliverAll()
  const newest = async () => (await listRevisions(tenant, created.body.id))[0]!
  /** Deliveries are processed side by side, so their previews are in the order of their numbers. */
  const previews = async () => {
    const { resources } = (await tenant.get(`/v2/deployments/${created.body.id}/previews`)).body
    return resources.sort((a: { number: number }, b: { number: number }) => b.number - a.number)
  }
  return { tenant, project, integration, id: created.body.id as string, newest, previews }
}

it('an account is connected at gitlab.com, and lists the projects in which it may read code', async () => {
  const tenant = await newTenant()
  for (let i = 0; i < 230; i++) gitlab.create(`acme/team-${i % 3}/app-${i}`)
  gitlab.create('acme/secret', { hidden: true })
  gitlab.create('acme/old', { archived: true })
  const { status, body } = await connect(tenant)
  expect([status, body.name, body.base_url]).toEqual([201, 'bot', 'https://gitlab.com'])
  expect(body.capabilities).toContain('pull_requests')
  expect(body.capabilities).not.toContain('deployments')
  const listed = (await tenant.get(`${BASE_PATH}/${body.id}/repos`)).body
  expect(listed).toHaveLength(231)
  expect(listed[0]).toMatchObject({
    owner: 'acme',
    name: 'old',
    url: 'https://gitlab.com/acme/old',
    archived: true,
    empty: true,
  })
  expect(listed.at(-1)).toMatchObject({ owner: 'acme/team-2', url: expect.stringContaining('/acme/team-2/app-') })
})

it('a host that does not answer three times in a row has one event, and so has its next answer', async () => {
  const { tenant, integration } = await setUp()
  const read = async () => {
    const { body } = await tenant.get(
      '/v2/events?type=integration.repository_unreachable,integration.repository_reachable',
    )
    return body.resources
  }
  const repository = 'https://gitlab.com/acme/backend/shop'
  foreignServers.fetch = () => Promise.reject(new TypeError('fetch failed'))
  for (let i = 0; i < 2; i++) await compare(integration)
  expect(await read()).toEqual([])
  for (let i = 0; i < 2; i++) await compare(integration)
  const unreachable = {
    type: 'integration.repository_unreachable',
    subject: { type: 'integration', id: integration },
    data: { repository, reason: expect.any(String) },
  }
  expect(await read()).toMatchObject([unreachable])
  foreignServers.fetch = makeFakeFetch(gitlab.sites)
  for (let i = 0; i < 2; i++) await compare(integration)
  expect(await read()).toMatchObject([unreachable, { type: 'integration.repository_reachable', data: { repository } }])
})

it('a push to a followed project deploys, and its commit gets a status', async () => {
  const { project, newest, id, tenant } = await setUp()
  expect(project.hooks).toMatchObject([{ push_events: true, merge_requests_events: true }])
  expect((await tenant.get(`/v2/deployments/${id}/explain`)).body.repository).toMatchObject({
    webhook: 'made',
    heard_at: expect.any(String),
  })
  const sha = newSha()
  gitlab.push(project, 'refs/heads/main', sha)
  expect(await deliverAll()).toEqual([202])
  expect((await newest()).commit).toEqual({ sha, message: `Message of ${sha}`, author: 'Ada' })
  expect(project.statuses).toMatchObject([{ sha, name: 'slipway/shop/deploy', status: 'pending' }])
  gitlab.push(project, 'refs/heads/main', null)
  await deliverAll()
  const { resources } = (await tenant.get(`/v2/deployments/${id}/explain`)).body
  expect(resources.map(({ code }: { code: string }) => code)).toContain('ref_gone')
})

it('a merge request has a preview and one note; a fork has none', async () => {
  const { tenant, project, id, previews } = await setUp()
  await tenant.put(`/v2/deployments/${id}/preview-policy`, { branches: ['**'] })
  const [first, second] = [newSha(), newSha()]
  gitlab.mergeRequest(project, 4, 'open', first)
  gitlab.mergeRequest(project, 5, 'open', newSha(), { isFork: true })
  await deliverAll()
  expect(await previews()).toMatchObject([
    { number: 5, state: 'denied' },
    { number: 4, state: 'live', head_sha: first, branch: 'feature-4' },
  ])
  gitlab.mergeRequest(project, 4, 'update', second)
  gitlab.mergeRequest(project, 4, 'update', null)
  await deliverAll()
  const [{ deployment_id }] = (await previews()).filter(({ number }: { number: number }) => number === 4)
  const child = (await tenant.get(`/v2/deployments/${deployment_id}`)).body
  expect(child.source_revision_config).toMatchObject({
    repo_ref: 'refs/merge-requests/4/head',
    repo_commit_sha: second,
  })
  gitlab.mergeRequest(project, 4, 'merge', null)
  await deliverAll()
  expect((await previews()).map(({ state }: { state: string }) => state)).toEqual(['denied', 'ended'])
  expect(project.notes).toHaveLength(1)
  expect(project.notes[0]!.body).toContain('The preview is deleted.')
})

it('webhooks are repaired, lost pushes and merge requests made up for, and a new name is followed', async () => {
  const { tenant, project, integration, id, newest, previews } = await setUp()
  await tenant.put(`/v2/deployments/${id}/preview-policy`, { branches: ['**'] })
  Object.assign(project.hooks[0]!, { merge_requests_events: false, alert_status: 'disabled' })
  const sha = newSha()
  gitlab.push(project, 'refs/heads/main', sha)
  gitlab.mergeRequest(project, 9, 'open', newSha())
  gitlab.takeSent()
  project.path = 'store'
  await compare(integration)
  expect((await newest()).commit?.sha).toBe(sha)
  expect(await previews()).toMatchObject([{ number: 9, state: 'live' }])
  expect(project.hooks).toMatchObject([{ merge_requests_events: true }])
  const { body } = await tenant.get(`/v2/deployments/${id}`)
  expect(body.source_config.repo_url).toBe('https://gitlab.com/acme/backend/store')
  await tenant.delete(`${BASE_PATH}/${integration}`)
  await finishPendingWork()
  expect(project.hooks).toEqual([])
})

it('branches that exist get previews as far as there is room, and a later one behind a full page has one', async () => {
  const { tenant, project, integration, id } = await setUp()
  for (let i = 101; i < 200; i++) gitlab.push(project, `refs/heads/b${i}`, newSha())
  project.refs.delete('refs/heads/main')
  gitlab.push(project, 'refs/heads/constructor', newSha())
  gitlab.takeSent()
  const path = `/v2/deployments/${id}/preview-policy`
  const policy = { branches: ['**', '!b102'], kinds: ['branches'], max: 30 }
  const warnings = async () => (await tenant.put(`${path}?dry_run=true`, policy)).body.warnings
  expect(await warnings()).toHaveLength(1)
  expect((await tenant.put(path, policy)).body.existing_branches).toEqual({ compared_at: null, previews: 0, left: 0 })
  await finishPendingWork()
  // More than one comparison does. The first, right after the policy, is one of two.
  for (let i = 0; i < 2; i++) await compare(integration)
  const branchesOf = (all: { branch: string; state: string }[], state: string) =>
    all.filter(one => one.state === state).map(({ branch }) => branch)
  const find = async (branch: string) =>
    (await tenant.get(`/v2/previews?branch_contains=${branch}`)).body.resources[0] as { state: string }
  const made = (await tenant.get(`/v2/deployments/${id}/previews?limit=100`)).body.resources
  expect(branchesOf(made, 'live').sort()).toEqual(
    Array.from({ length: 31 }, (_, i) => `b${101 + i}`).filter(branch => branch !== 'b102'),
  )
  expect(made).toHaveLength(30)
  const compared_at = expect.any(String)
  expect((await tenant.get(path)).body.existing_branches).toEqual({ compared_at, previews: 30, left: 69 })
  const events = (await tenant.get(`/v2/events?type=preview_policy.applied`)).body.resources
  expect(events).toMatchObject([{ data: { previews: 30, left: 69 } }])

  expect(await warnings()).toEqual([])
  const sha = newSha()
  gitlab.push(project, 'refs/heads/zz', sha)
  gitlab.takeSent()
  await compare(integration)
  expect(await find('zz')).toMatchObject({ kind: 'branch', state: 'full', head_sha: sha })
  gitlab.push(project, 'refs/heads/zz', null)
  gitlab.push(project, 'refs/heads/constructor', newSha())
  await deliverAll()
  expect((await find('constructor')).state).toBe('full')
  gitlab.push(project, 'refs/heads/constructor', null)
  gitlab.takeSent()
  await compare(integration)
  expect([(await find('zz')).state, (await find('constructor')).state]).toEqual(['ended', 'ended'])
})

it('refusals of GitLab are told in its words: scopes, revoked tokens, limits, roles', async () => {
  const { tenant, project, integration, id } = await setUp()
  gitlab.tokens.set('glpat-read', { user: { id: 7, username: 'bot' }, scopes: ['read_api'] })
  expect((await tenant.patch(`${BASE_PATH}/${integration}`, { token: 'glpat-read' })).status).toBe(200)
  gitlab.push(project, 'refs/heads/main', newSha())
  await deliverAll()
  const { problem } = (await tenant.get(`${BASE_PATH}/${integration}`)).body
  expect(problem).toMatchObject({ work: 'notification', message: expect.stringContaining('(needs api)') })
  gitlab.tokens.get('glpat-read')!.revoked = true
  await compare(integration)
  expect((await tenant.get(`${BASE_PATH}/${integration}`)).body).toMatchObject({ state: 'revoked' })
  expect((await tenant.patch(`${BASE_PATH}/${integration}`, { token: 'glpat-hush' })).body.state).toBe('active')
  project.isDeveloper = true
  project.hooks = []
  await compare(integration)
  const { repository } = (await tenant.get(`/v2/deployments/${id}/explain`)).body
  expect(repository.webhook).toBe('missing')
  gitlab.state.isRateLimited = true
  const limited = await connect(tenant)
  expect([limited.status, limited.headers.get('Retry-After')]).toEqual([429, '37'])
})

it('a delivery with a wrong token, and one that is repeated, change nothing', async () => {
  const { tenant, project, id } = await setUp()
  gitlab.push(project, 'refs/heads/main', newSha())
  const [delivery] = gitlab.takeSent()
  const post = (headers: object) =>
    send('POST', new URL(delivery!.url).pathname, {
      raw: delivery!.body,
      headers: { ...delivery!.headers, ...headers },
    })
  expect((await post({ 'X-Gitlab-Token': 'wrong' })).body.code).toBe('delivery_unsigned')
  expect(await listRevisions(tenant, id)).toHaveLength(1)
  for (let i = 0; i < 2; i++) expect((await post({ 'X-Gitlab-Event-UUID': crypto.randomUUID() })).status).toBe(202)
  await finishPendingWork()
  expect(await listRevisions(tenant, id)).toHaveLength(2)
})
