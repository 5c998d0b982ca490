// Real git pushes over HTTP to a local git host with webhooks create revisions and previews.
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import * as fs from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createAdaptorServer } from '@hono/node-server'
import { sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { sweepRepositories } from '../../src/hosting/pushes/repository-sweep.ts'
import { createSealer } from '../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { startLocalGitea } from '../support/local-gitea.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-pushes-'))
let databaseUrl: string
let integration: string
let slipway: ReturnType<typeof createHost>
let server: Server
let githost: Awaited<ReturnType<typeof startLocalGitea>>
let headers: Record<string, string>
let id: string
let workTree: string

/** Asynchronous, because the git host runs in this process. */
const run = async (...args: string[]) => (await promisify(execFile)('git', args)).stdout.trim()
const git = (...args: string[]) =>
  run('-C', workTree, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args)
async function commit(message: string): Promise<string> {
  fs.writeFileSync(join(workTree, 'app.txt'), `${message}\n`)
  await git('add', '.')
  await git('commit', '-q', '-m', message)
  return git('rev-parse', 'HEAD')
}
// biome-ignore lint/suspicious/noExplicitAny: each test reads the members that it expects
async function call(method: string, path: string, body?: unknown): Promise<any> {
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await slipway.app.fetch(new Request(`http://slipway.test${path}`, init))
  expect(response.status, await response.clone().text()).toBeLessThan(300)
  return response.status === 204 ? undefined : response.json()
}
/** The git host sends its webhooks after it has answered, so their effects come a little later. */
const waitUntil = async (assertion: () => Promise<void>) => {
  await expect
    .poll(
      async () => {
        await finishPendingWork()
        return assertion().then(
          () => null,
          error => String(error),
        )
      },
      { timeout: 60_000 },
    )
    .toBeNull()
}
const listRevisions = async (deploymentId = id) =>
  (await call('GET', `/v2/deployments/${deploymentId}/revisions`)).resources

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  const settings = {
    DATABASE_URL: databaseUrl,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PUBLIC_URL: 'https://slipway.example.com',
    APPS_DOMAIN: 'apps.example.com',
    ALLOW_LOOPBACK: 'true',
    UPLOADS_DIR: root,
    RATE_LIMIT_PER_MINUTE: '0',
  }
  slipway = createHost(settings, { log: line => void (process.env.SHOW_LOG && console.log(JSON.stringify(line))) })
  const { app } = slipway
  server = createAdaptorServer({ fetch: app.fetch, createServer }) as Server
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
})
beforeEach(async () => {
  const folder = fs.mkdtempSync(join(root, 'test-'))
  const { api_key } = await bootstrap(slipway.app.database, { organization: folder, emails: ['a@example.com'] })
  headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
  workTree = join(folder, 'work')
  githost = await startLocalGitea(join(folder, 'git'))
  const clone = githost.create('acme/shop')
  await run('clone', '-q', clone, workTree)
  await commit('Initial')
  await git('push', '-q', 'origin', 'HEAD:main')
  const secret = 'hush-webhook-secret'
  const host = { host: 'gitea', base_url: githost.origin, token: 'hush-token', webhook_secret: secret }
  const connected = await call('POST', '/v1/integrations/forge/githost', host)
  integration = connected.id
  const [listed] = await call('GET', `/v1/integrations/forge/githost/${integration}/repos`)
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/v1/integrations/forge/githost/${integration}/webhook`
  githost.hooks.push({ url, secret })
  const source_config = { integration_id: integration, repo_url: listed.url, build_on_push: true }
  const source_revision_config = { repo_ref: listed.default_branch, platform_config_path: 'platform.json' }
  const body = { name: 'shop', source: 'githost', source_config, source_revision_config, secrets: [] }
  ;({ id } = await call('POST', '/v2/deployments', body))
})
afterEach(() => githost.close())
/** Compares every repository now, as if its time had come, or the one of this name. */
async function compare(only = '%'): Promise<void> {
  await runAsSystem(
    slipway.app.database,
    sql`
      update followed_repositories
      set next_compare_at = case when url like ${`%${only}`} then '2000-01-01' else '2100-01-01' end::timestamptz`,
  )
  const { config, platform, database, traces, logs, shareGroups } = slipway.app
  const services = { config, platform, database, sealer: createSealer(config.sealingKeys), traces, logs, shareGroups }
  await sweepRepositories(services, { integration_id: integration })
  await finishPendingWork()
}
const explain = () => call('GET', `/v2/deployments/${id}/explain`)
const codes = async () => (await explain()).resources.map(({ code }: { code: string }) => code)
const readIntegration = () => call('GET', `/v1/integrations/forge/githost/${integration}`)
const eventTypes = async (subject: string) =>
  (await call('GET', `/v2/events?subject_id=${subject}&limit=100`)).resources.map(({ type }: { type: string }) => type)
afterAll(async () => {
  server.close()
  server.closeAllConnections()
  await slipway.close()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

test('a push and a force-push each create a revision of the new commit', async () => {
  const first = await commit('First')
  await git('push', '-q', 'origin', 'HEAD:main')
  await waitUntil(async () =>
    expect((await listRevisions())[0].commit).toEqual({ sha: first, message: 'First', author: 'Ada' }),
  )
  const second = await commit('Second')
  await git('push', '-q', 'origin', 'HEAD:main')
  await waitUntil(async () => expect((await listRevisions())[0].commit.sha).toBe(second))
  await git('commit', '-q', '--amend', '-m', 'Second, amended')
  const amended = await git('rev-parse', 'HEAD')
  await git('push', '-q', '--force', 'origin', 'HEAD:main')
  await waitUntil(async () =>
    expect((await listRevisions())[0].commit).toMatchObject({ sha: amended, message: 'Second, amended' }),
  )
  expect(await listRevisions()).toHaveLength(4)
  expect(new Set(githost.deliveryStatuses)).toEqual(new Set([202]))
  await commit('A typo [skip deploy]')
  await git('push', '-q', 'origin', 'HEAD:main')
  await finishPendingWork()
  await compare()
  expect(await listRevisions()).toHaveLength(4)
})

test('pushes of tags and other branches create no revision; a branch deploys again after it was deleted', async () => {
  const countBefore = (await listRevisions()).length
  await git('tag', 'v1')
  await git('push', '-q', 'origin', 'v1', 'HEAD:other')
  await waitUntil(async () => expect(githost.deliveryStatuses.length).toBeGreaterThanOrEqual(2))
  expect(await listRevisions()).toHaveLength(countBefore)
  await run('--git-dir', join(workTree, '../git/acme/shop.git'), 'symbolic-ref', 'HEAD', 'refs/heads/other')
  await git('push', '-q', 'origin', ':main')
  await waitUntil(async () => expect(await codes()).toContain('ref_gone'))
  const sha = await commit('Third')
  await git('push', '-q', 'origin', 'HEAD:main')
  await waitUntil(async () => expect(await codes()).not.toContain('ref_gone'))
  expect((await listRevisions())[0].commit.sha).toBe(sha)
})

test('a pull request gets a preview with a URL, which is updated by pushes and deleted when it is closed', async () => {
  await call('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['feature/*'] })
  const sha = await commit('A feature')
  await git('push', '-q', 'origin', 'HEAD:feature/cart')
  await githost.pull('acme/shop', 7, 'feature/cart', 'opened')
  await finishPendingWork()
  const [preview] = (await call('GET', `/v2/deployments/${id}/previews`)).resources
  expect(preview).toMatchObject({ number: 7, state: 'live', head_sha: sha, url: 'https://shop-pr-7.apps.example.com' })
  const child = await call('GET', `/v2/deployments/${preview.deployment_id}?reveal=true`)
  expect(child).toMatchObject({ name: 'shop-pr-7', parent_deployment_id: id })
  expect(child.secrets).toEqual([
    { name: 'PREVIEW_ID', value: '7' },
    { name: 'PREVIEW_BRANCH', value: 'feature/cart' },
    { name: 'PREVIEW_URL', value: 'https://shop-pr-7.apps.example.com' },
  ])
  expect(githost.writes.find(({ path }) => path === '/issues/7/comments')!.body.body).toContain(
    'https://shop-pr-7.apps.example.com',
  )
  const next = await commit('More of it')
  await git('push', '-q', 'origin', 'HEAD:feature/cart')
  await githost.pull('acme/shop', 7, 'feature/cart', 'synchronized')
  await waitUntil(async () => expect((await listRevisions(preview.deployment_id))[0].commit.sha).toBe(next))
  await githost.pull('acme/shop', 7, 'feature/cart', 'closed')
  await waitUntil(async () =>
    expect((await call('GET', `/v2/deployments/${preview.deployment_id}`)).status).toBe('AWAITING_DELETE'),
  )
})

test('any git server is followed by the URL of a repository, and compared at once when it asks for it', async () => {
  const base_url = `${githost.origin}/acme/shop.git`
  const body = { host: 'git', base_url, token: 'hush-plain', webhook_secret: 'hush-plain-secret' }
  const plain = await call('POST', '/v1/integrations/forge/githost', body)
  integration = plain.id
  expect([plain.name, plain.capabilities]).toEqual(['acme/shop', []])
  expect(await call('GET', `/v1/integrations/forge/githost/${plain.id}/repos`)).toMatchObject([
    { owner: 'acme', name: 'shop', url: base_url, default_branch: 'main', empty: false },
  ])
  const source_config = { integration_id: plain.id, repo_url: base_url, build_on_push: true }
  const source_revision_config = { repo_ref: 'main', platform_config_path: 'platform.json' }
  const created = { name: 'plain', source: 'githost', source_config, source_revision_config, secrets: [] }
  ;({ id } = await call('POST', '/v2/deployments', created))
  await compare()
  expect(await listRevisions()).toHaveLength(1)
  const sha = await commit('Plain')
  await git('push', '-q', 'origin', 'HEAD:main')
  const look = async (token: string) => {
    const path = `/v1/integrations/forge/githost/${plain.id}/webhook`
    const init = { method: 'POST', headers: { 'X-Slipway-Token': token } }
    return (await slipway.app.fetch(new Request(`http://slipway.test${path}`, init))).status
  }
  expect(await look('wrong')).toBe(401)
  await runAsSystem(slipway.app.database, sql`update followed_repositories set compared_at = '2000-01-01'`)
  expect(await look('hush-plain-secret')).toBe(202)
  await waitUntil(async () => expect((await listRevisions())[0].commit).toEqual({ sha, message: null, author: null }))
  expect((await explain()).repository).toMatchObject({ webhook: 'by_hand', heard_at: expect.any(String) })
  await git('push', '-q', 'origin', 'HEAD:other')
  await run('--git-dir', join(workTree, '../git/acme/shop.git'), 'symbolic-ref', 'HEAD', 'refs/heads/other')
  await git('push', '-q', 'origin', ':main')
  await compare()
  expect(await codes()).toContain('ref_gone')
  const policy = { method: 'PUT', headers, body: JSON.stringify({ branches: ['**'] }) }
  const refused = await slipway.app.fetch(
    new Request(`http://slipway.test/v2/deployments/${id}/preview-policy`, policy),
  )
  expect([refused.status, (await refused.json()).code]).toEqual([400, 'source_rule'])
  await call('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['feature/*'], kinds: ['branches'] })
  await compare()
  await git('push', '-q', 'origin', 'HEAD:feature/plain')
  await compare()
  expect((await call('GET', `/v2/deployments/${id}/previews`)).resources).toMatchObject([
    { kind: 'branch', state: 'live', branch: 'feature/plain', head_sha: sha },
  ])
  await git('push', '-q', 'origin', ':feature/plain')
  await compare()
  expect((await call('GET', `/v2/deployments/${id}/previews`)).resources).toMatchObject([{ state: 'ended' }])
})

test('events that were lost while Slipway was away are made up for by the next comparison', async () => {
  await call('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['feature/*'] })
  await commit('A feature')
  await git('push', '-q', 'origin', 'HEAD:feature/cart', 'HEAD:feature/late')
  await githost.pull('acme/shop', 7, 'feature/cart', 'opened')
  await finishPendingWork()
  const listPreviews = async () => (await call('GET', `/v2/deployments/${id}/previews`)).resources
  expect(await listPreviews()).toMatchObject([{ number: 7, state: 'live' }])

  githost.state.isCutOff = true
  const sha = await commit('Unheard')
  await git('push', '-q', 'origin', 'HEAD:main', 'HEAD:feature/late')
  await githost.pull('acme/shop', 7, 'feature/cart', 'closed')
  await githost.pull('acme/shop', 8, 'feature/late', 'opened')
  const before = (await listRevisions()).length
  await compare()
  expect((await listRevisions())[0].commit).toMatchObject({ sha, message: 'Unheard' })
  expect(await listPreviews()).toMatchObject([
    { number: 8, state: 'live', head_sha: sha },
    { number: 7, state: 'ended' },
  ])
  expect((await explain()).repository).toMatchObject({ compared_at: expect.any(String), webhook: 'made' })

  // Removed by a person, it stays away while its commit is the same.
  await call('DELETE', `/v2/deployments/${id}/previews/8`)
  await githost.pull('acme/shop', 8, 'feature/late', 'edited')
  await compare()
  expect(await listPreviews()).toMatchObject([{ number: 8, state: 'ended' }, { state: 'ended' }])
  const next = await commit('More')
  await git('push', '-q', 'origin', 'HEAD:feature/late')
  await githost.pull('acme/shop', 8, 'feature/late', 'synchronized')
  await githost.pull('acme/shop', 7, 'feature/cart', 'reopened')
  await compare()
  expect(await listPreviews()).toMatchObject([
    { number: 8, state: 'live', head_sha: next },
    { number: 7, state: 'live' },
  ])
  expect(await listRevisions()).toHaveLength(before + 1)

  await run('--git-dir', join(workTree, '../git/acme/shop.git'), 'symbolic-ref', 'HEAD', 'refs/heads/other')
  await git('push', '-q', 'origin', ':main')
  await compare()
  expect(await codes()).toContain('ref_gone')
  const asked = githost.requests.length
  await compare()
  expect(githost.requests.slice(asked)).toEqual([
    'GET /repositories/7',
    'GET /repos/acme/shop/hooks/1',
    'GET /repos/acme/shop/commits',
    'GET /repos/acme/shop/pulls',
  ])
})

test('a webhook is made with four events, repaired, and removed with the last deployment', async () => {
  githost.hooks.length = 0
  const other = { path: 'acme/shop', secret: '', events: ['push'], active: true }
  const others = [102, 103].map(number => ({ ...other, id: number, url: `https://${number}.example.com` }))
  githost.hooks.push(...others)
  await compare()
  await compare()
  expect(githost.hooks.splice(0, others.length)).toMatchObject(others)
  const url = `https://slipway.example.com/v1/integrations/forge/githost/${integration}/webhook`
  const events = expect.arrayContaining(['push', 'delete', 'pull_request', 'pull_request_sync'])
  expect(githost.hooks).toMatchObject([{ url, events, active: true, path: 'acme/shop', secret: 'hush-webhook-secret' }])
  expect(githost.requests).toContain('POST /repos/acme/shop/hooks/1/tests')
  githost.hooks[0]!.events = ['push']
  await compare()
  expect(githost.hooks).toMatchObject([{ url, events }])
  githost.hooks.length = 0
  githost.hooks.push(...others, { ...other, id: 200, url })
  await compare()
  expect(githost.hooks).toMatchObject([...others, { id: 200, url, events }])
  githost.hooks.splice(0, others.length)
  // Connected again with another secret, it has that.
  githost.state.isRevoked = true
  await compare()
  githost.state.isRevoked = false
  const again = { host: 'gitea', base_url: githost.origin, token: 'hush-again', webhook_secret: 'hush-another-secret' }
  expect((await call('POST', '/v1/integrations/forge/githost', again)).id).toBe(integration)
  await compare()
  expect(githost.hooks).toMatchObject([{ id: 200, url, secret: 'hush-another-secret' }])
  await call('DELETE', `/v2/deployments/${id}`)
  await compare()
  expect(githost.hooks).toEqual([])
})

test('a missing scope and a revoked token are told in the host’s words, and a new token ends both', async () => {
  githost.state.scopes = ['read:user', 'read:repository']
  await compare()
  const problem = { code: 'access_refused', message: expect.stringContaining('required=[write:repository]') }
  expect(await readIntegration()).toMatchObject({ state: 'active', problem })
  expect(await codes()).toContain('integration_limited')
  await compare()
  githost.state.scopes = ['read:user', 'write:repository', 'write:issue']
  await compare()
  expect(await readIntegration()).toMatchObject({ problem: null })
  githost.state.isRevoked = true
  await compare()
  const refused = { code: 'token_refused', message: 'user does not exist [uid: 0, name: ], token ***' }
  expect(await readIntegration()).toMatchObject({ state: 'revoked', problem: refused })
  expect(await codes()).toContain('integration_revoked')
  githost.state.isRevoked = false
  await call('PATCH', `/v1/integrations/forge/githost/${integration}`, { token: 'hush-next' })
  expect(await readIntegration()).toMatchObject({ state: 'active', problem: null })
  githost.state.isRevoked = true
  await compare()
  expect(await readIntegration()).toMatchObject({ state: 'revoked' })
  githost.state.isRevoked = false
  await compare()
  expect(await readIntegration()).toMatchObject({ state: 'active', problem: null })
  expect(await eventTypes(integration)).toEqual([
    'integration.connected',
    'integration.limited',
    'integration.restored',
    'integration.revoked',
    'integration.updated',
    'integration.revoked',
    'integration.restored',
  ])
  const made = () => githost.hooks.filter(({ path }) => path === 'acme/shop')
  expect(made()).toHaveLength(1)
  await call('DELETE', `/v1/integrations/forge/githost/${integration}`)
  await finishPendingWork()
  expect(made()).toEqual([])
})

test('a renamed repository keeps deploying, and repo_url follows; another with its name does not deploy', async () => {
  await compare()
  githost.rename('acme/shop', 'market/stall')
  await git('remote', 'set-url', 'origin', `${githost.origin.replace('//', '//ada:hush-push@')}/market/stall.git`)
  const sha = await commit('Renamed')
  await git('push', '-q', 'origin', 'HEAD:main')
  await waitUntil(async () => expect((await listRevisions())[0].commit.sha).toBe(sha))
  await compare()
  const { source_config } = await call('GET', `/v2/deployments/${id}`)
  expect(source_config.repo_url).toBe(`${githost.origin}/market/stall`)
  expect(await eventTypes(id)).toContain('deployment.repository_moved')
  const clone = githost.create('acme/shop')
  await git('push', '-q', clone, 'HEAD~1:refs/heads/main')
  await finishPendingWork()
  await compare()
  expect((await listRevisions())[0].commit.sha).toBe(sha)
})

test('a repository that gets the name of another one that is followed waits until that has moved on', async () => {
  const clone = githost.create('acme/other')
  await git('push', '-q', clone, 'HEAD:main')
  const source_config = { integration_id: integration, repo_url: `${githost.origin}/acme/other`, build_on_push: true }
  const source_revision_config = { repo_ref: 'main', platform_config_path: 'platform.json' }
  const body = { name: 'other', source: 'githost', source_config, source_revision_config, secrets: [] }
  const { id: other } = await call('POST', '/v2/deployments', body)
  await compare()
  const urlOf = async (one: string) => (await call('GET', `/v2/deployments/${one}`)).source_config.repo_url
  githost.rename('acme/other', 'acme/moved')
  githost.rename('acme/shop', 'acme/other')
  await compare('acme/shop')
  expect(await urlOf(other)).toBe(`${githost.origin}/acme/other`)
  expect(await urlOf(id)).toBe(`${githost.origin}/acme/shop`)
  expect(await codes()).toContain('repository_unreadable')
  await compare('acme/other')
  await compare()
  expect(await urlOf(other)).toBe(`${githost.origin}/acme/moved`)
  expect(await urlOf(id)).toBe(`${githost.origin}/acme/other`)
})

test('a signed delivery that claims the name of a repository for the id of another one moves nothing', async () => {
  const clone = githost.create('mallory/shop')
  await git('push', '-q', clone, 'HEAD:main')
  const repository = { id: 8, html_url: `${githost.origin}/acme/shop`, clone_url: `${githost.origin}/acme/shop.git` }
  const payload = { ref: 'refs/heads/main', before: '0'.repeat(40), after: '1'.repeat(40), commits: [], repository }
  const text = JSON.stringify(payload)
  const signature = createHmac('sha256', 'hush-webhook-secret').update(text).digest('hex')
  await compare()
  // A repository that was never compared.
  await runAsSystem(slipway.app.database, sql`update followed_repositories set host_id = null`)
  const path = `/v1/integrations/forge/githost/${integration}/webhook`
  const response = await slipway.app.fetch(
    new Request(`http://slipway.test${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'X-Gitea-Event': 'push',
        'X-Gitea-Delivery': crypto.randomUUID(),
        'X-Gitea-Signature': signature,
      },
      body: text,
    }),
  )
  expect(response.status).toBe(202)
  await finishPendingWork()
  await compare()
  const { source_config } = await call('GET', `/v2/deployments/${id}`)
  expect(source_config.repo_url).toBe(`${githost.origin}/acme/shop`)
})
