import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { applyInstallationChange, type InstallationChange } from '../../../src/hosting/git-hosts/installation-events.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { foreignServers, getApp, logLines, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import { combineHosts, GITHUB_APP, makeGitea, makeGithub, makeRepositories } from '../../support/fake-git-hosts.ts'
import { PKCS1, PKCS8 } from '../../support/github-app-key.ts'
import { newIntegration } from '../../support/integrations.ts'

const BASE_PATH = '/v1/integrations/forge/githost'
const originalFetch = foreignServers.fetch
let [enterprise, forge] = [makeGithub('https://ghe.example.com'), makeGitea()]
beforeEach(() => {
  ;[enterprise, forge] = [makeGithub('https://ghe.example.com'), makeGitea()]
  foreignServers.fetch = combineHosts(enterprise, forge)
})
afterEach(() => {
  foreignServers.fetch = originalFetch
})

let nextId = 700_000
const SECRET = 'hush-webhook-secret'
function createAccount(login = 'bot', id = nextId++) {
  const token = `hush-${unusedId()}`
  forge.accounts.set(token, { id, login, repositories: makeRepositories(2, login) })
  return { host: 'gitea', base_url: forge.base, token, webhook_secret: SECRET }
}
function createInstallation(login = 'corp', id = nextId++) {
  enterprise.installations.set(id, { account: { id: id + 1_000_000, login }, repositories: makeRepositories(2, login) })
  const app = { app_id: GITHUB_APP.id, private_key: PKCS1, installation_id: String(id) }
  return { host: 'github', base_url: enterprise.base, ...app, webhook_secret: SECRET }
}
const statusAndCode = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]
const listRepositories = async (tenant: Tenant, id: string) => (await tenant.get(`${BASE_PATH}/${id}/repos`)).body

describe('connecting a git host by its credentials', () => {
  it.each([
    ['a Gitea account', () => createAccount()],
    ['a GitHub App on an Enterprise Server', () => createInstallation()],
    ['a GitHub App with a PKCS#8 key', () => ({ ...createInstallation(), private_key: `\n${PKCS8}\n` })],
  ])('works for %s, and no response, event, row or log line contains the credentials', async (_, createHost) => {
    const tenant = await newTenant()
    const request = createHost()
    logLines.length = 0
    const reply = await tenant.post(BASE_PATH, { ...request, base_url: `${request.base_url}/` })
    expect(reply.status).toBe(201)
    const { id } = reply.body
    expect(reply.headers.get('Location')).toBe(`${BASE_PATH}/${id}`)
    expect(reply.body).toMatchObject({ host: request.host, base_url: request.base_url, state: 'active' })
    expect(reply.body.webhook_url).toBe(`http://slipway.test${BASE_PATH}/${id}/webhook`)
    expect((await tenant.get(`${BASE_PATH}/${id}`)).body).toEqual(reply.body)
    expect((await tenant.get(`${BASE_PATH}/install`)).body).toEqual([reply.body])
    expect(await listRepositories(tenant, id)).toHaveLength(2)
    const query = sql`
      select
        (select string_agg(data::text, '') from events where tenant_id = ${tenant.tenant_id}::uuid)
        || (select string_agg(to_json(i)::text, '') from integrations i where i.tenant_id = ${tenant.tenant_id}::uuid)`
    const stored = JSON.stringify(await runAsSystem(getApp().database, query))
    expect(reply.text + JSON.stringify(logLines) + stored).not.toMatch(/hush|PRIVATE/)
  })

  it('reports all missing and forbidden fields at once', async () => {
    const tenant = await newTenant()
    const listFaults = async (body: object) => {
      const reply = await tenant.post(BASE_PATH, body)
      expect(statusAndCode(reply)).toEqual([422, 'invalid_request'])
      return reply.body.errors.map(({ loc }: { loc: string[] }) => loc.at(-1)).sort()
    }
    expect(await listFaults({ host: 'github', token: 'x' })).toEqual([
      'app_id',
      'installation_id',
      'private_key',
      'token',
      'webhook_secret',
    ])
    expect(await listFaults({ host: 'gitea', app_id: '1', webhook_secret: SECRET })).toEqual([
      'app_id',
      'base_url',
      'token',
    ])
    expect(await listFaults({ host: 'sourcehut', webhook_secret: SECRET })).toEqual(['host'])
    for (const base_url of [
      'git.example.com',
      'ftp://git.example.com',
      'https://a:b@git.example.com',
      'https://x.com/?q',
      'https://x.com/../y z',
    ])
      expect(await listFaults({ ...createAccount(), base_url })).toEqual(['base_url'])
    for (const private_key of ['x', '-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----'])
      expect(await listFaults({ ...createInstallation(), private_key })).toEqual(['private_key'])
  })

  it('fails if the host rejects the credentials, is unreachable or is not allowed', async () => {
    const tenant = await newTenant()
    const connect = async (body: object) => statusAndCode(await tenant.post(BASE_PATH, body))
    expect(await connect({ ...createAccount(), token: 'unknown' })).toEqual([422, 'githost_refused'])
    expect(await connect({ ...createInstallation(), app_id: '1' })).toEqual([422, 'githost_refused'])
    expect(await connect({ ...createInstallation(), installation_id: '1' })).toEqual([422, 'githost_refused'])
    const garbage = PKCS1.replace(/\n[^\n]+\n[^\n]+\n/, '\nAAAA\n')
    expect(await connect({ ...createInstallation(), private_key: garbage })).toEqual([422, 'githost_refused'])
    expect(await connect({ ...createAccount(), base_url: 'https://unreachable.example.com' })).toEqual([
      502,
      'upstream_error',
    ])
    for (const base_url of [
      'https://127.0.0.1',
      'https://git.internal',
      'http://git.example.com',
      'https://slipway.test',
      'https://gitea.example.com:22',
    ])
      expect(await connect({ ...createAccount(), base_url }), base_url).toEqual([422, 'blocked_url'])
    expect((await tenant.get(`${BASE_PATH}/install`)).body).toEqual([])
  })

  it('is possible once per installation, and once per workspace for an account', async () => {
    const [first, second] = await Promise.all([newTenant(), newTenant()])
    const [installation, account] = [createInstallation(), createAccount()]
    for (const body of [installation, account]) {
      expect((await first.post(BASE_PATH, body)).status).toBe(201)
      expect(statusAndCode(await first.post(BASE_PATH, body))).toEqual([409, 'integration_taken'])
    }
    expect(statusAndCode(await second.post(BASE_PATH, installation))).toEqual([409, 'integration_claimed'])
    expect((await second.post(BASE_PATH, account)).status).toBe(201)
  })

  it('replays the response of a repeated request without a request to the host', async () => {
    const tenant = await newTenant()
    const body = createAccount()
    const headers = { 'Idempotency-Key': 'once' }
    const first = await tenant.post(BASE_PATH, body, headers)
    foreignServers.fetch = originalFetch
    const again = await tenant.post(BASE_PATH, body, headers)
    expect([again.status, again.body, again.headers.get('Idempotency-Replayed')]).toEqual([201, first.body, 'true'])
  })

  it('is undone by deleting the integration, which honors If-Match', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post(BASE_PATH, createAccount())).body
    const path = `${BASE_PATH}/${id}`
    expect((await tenant.get(path)).headers.get('ETag')).toBe('"1"')
    expect(statusAndCode(await tenant.delete(path, undefined, { 'If-Match': '"2"' }))).toEqual([
      412,
      'precondition_failed',
    ])
    const deleted = await tenant.delete(path, undefined, { 'If-Match': '"1"' })
    expect(deleted.status).toBe(204)
    expect((await readEvents(deleted.headers.get('X-Request-Id')!))[0]).toMatchObject({
      type: 'integration.deleted',
      subject_id: id,
    })
    for (const reply of [await tenant.get(path), await tenant.delete(path), await tenant.get(`${path}/repos`)])
      expect(statusAndCode(reply)).toEqual([404, 'integration_not_found'])
  })
})

describe('rechecking an integration', () => {
  const recheck = async (tenant: Tenant, id: string) => (await tenant.post(`${BASE_PATH}/${id}/recheck`)).body.state

  it('updates its state and name from the host', async () => {
    const tenant = await newTenant()
    const body = createInstallation()
    const { id } = (await tenant.post(BASE_PATH, body)).body
    const installation = enterprise.installations.get(Number(body.installation_id))!
    installation.suspended = true
    installation.account.login = 'renamed'
    const rechecked = await tenant.post(`${BASE_PATH}/${id}/recheck`)
    expect(rechecked.body).toMatchObject({ state: 'suspended', name: 'renamed' })
    expect(statusAndCode(await tenant.get(`${BASE_PATH}/${id}/repos`))).toEqual([409, 'integration_suspended'])
    installation.suspended = false
    expect(await recheck(tenant, id)).toBe('active')
    expect(await listRepositories(tenant, id)).toHaveLength(2)
    enterprise.installations.delete(Number(body.installation_id))
    expect(await recheck(tenant, id)).toBe('revoked')
  })

  it('revokes it if its token is invalid, and a new token activates it under the same id', async () => {
    const tenant = await newTenant()
    const body = createAccount()
    const { id } = (await tenant.post(BASE_PATH, body)).body
    const account = forge.accounts.get(body.token)!
    forge.accounts.delete(body.token)
    expect(await recheck(tenant, id)).toBe('revoked')
    forge.accounts.set('hush-new', account)
    const reconnected = await tenant.post(BASE_PATH, { ...body, token: 'hush-new' })
    expect([reconnected.status, reconnected.body.id, reconnected.body.state]).toEqual([201, id, 'active'])
    expect(await listRepositories(tenant, id)).toHaveLength(2)
  })

  it('changes nothing if the host is unreachable', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post(BASE_PATH, createAccount())).body
    foreignServers.fetch = originalFetch
    expect(statusAndCode(await tenant.post(`${BASE_PATH}/${id}/recheck`))).toEqual([502, 'upstream_error'])
    expect((await tenant.get(`${BASE_PATH}/${id}`)).body.state).toBe('active')
  })
})

describe('a change of an installation that its host reports', () => {
  const applyChange = async (change: Omit<InstallationChange, 'sender'>) => {
    const requestId = `change-${unusedId()}`
    const changed = await applyInstallationChange(getApp(), { requestId, request: null }, { ...change, sender: 'ada' })
    return { changed, events: await readEvents(requestId) }
  }

  it('changes the state of the integration, with an event that names the person at the host', async () => {
    const tenant = await newTenant()
    const installation_id = String(nextId++)
    const installation = { base_url: 'https://github.com', app_id: null, installation_id }
    const id = await newIntegration(tenant, { host: 'github', ...installation }, null)
    const steps = [
      ['suspend', 'suspended', 'integration.suspended'],
      ['unsuspend', 'active', 'integration.resumed'],
      ['repositories', 'active', 'integration.repositories_changed'],
      ['deleted', 'revoked', 'integration.revoked'],
    ] as const
    for (const [action, state, type] of steps) {
      const { changed, events } = await applyChange({ ...installation, action })
      expect(changed).toEqual([{ id, tenant_id: tenant.tenant_id }])
      expect(events).toEqual([
        expect.objectContaining({
          type,
          subject_id: id,
          actor_kind: 'push',
          actor_id: null,
          actor_name: 'ada',
          tenant_id: tenant.tenant_id,
        }),
      ])
      expect(JSON.parse(events[0]!.data as string)).toEqual({ installation_id, sender: 'ada' })
      expect((await tenant.get(`${BASE_PATH}/${id}`)).body.state).toBe(state)
    }
    for (const action of ['unsuspend', 'suspend', 'repositories', 'deleted'] as const)
      expect(await applyChange({ ...installation, action })).toEqual({ changed: [], events: [] })
  })

  it('applies to no other installation, App or host', async () => {
    const tenant = await newTenant()
    const installation_id = String(nextId++)
    const installation = { base_url: enterprise.base, app_id: GITHUB_APP.id, installation_id }
    const id = await newIntegration(
      tenant,
      { host: 'github', ...installation },
      { private_key: PKCS1, webhook_secret: SECRET },
    )
    for (const difference of [
      { app_id: null },
      { app_id: '1' },
      { base_url: 'https://github.com' },
      { installation_id: '1' },
    ])
      expect((await applyChange({ ...installation, ...difference, action: 'deleted' })).changed).toEqual([])
    expect((await tenant.get(`${BASE_PATH}/${id}`)).body.state).toBe('active')
  })

  it('invalidates the cached list of repositories', async () => {
    const tenant = await newTenant()
    const body = createInstallation()
    const { id } = (await tenant.post(BASE_PATH, body)).body
    expect(await listRepositories(tenant, id)).toHaveLength(2)
    enterprise.installations.get(Number(body.installation_id))!.repositories.pop()
    expect(await listRepositories(tenant, id)).toHaveLength(2)
    const { base_url, app_id, installation_id } = body
    await applyChange({ base_url, app_id, installation_id, action: 'repositories' })
    expect(await listRepositories(tenant, id)).toHaveLength(1)
  })
})
