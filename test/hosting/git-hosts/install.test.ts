import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sweepInstalls } from '../../../src/hosting/git-hosts/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import {
  clock,
  foreignServers,
  getApp,
  logLines,
  newTenant,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
} from '../../support/app.ts'
import { combineHosts, GITHUB_APP, makeGithub, makeRepositories } from '../../support/fake-git-hosts.ts'
import { newIntegration } from '../../support/integrations.ts'

const BASE_PATH = '/v1/integrations/forge/githost'
const originalFetch = foreignServers.fetch
let host = makeGithub()
let foreignHosts = combineHosts(host)
beforeEach(() => {
  host = makeGithub()
  foreignHosts = combineHosts(host)
  foreignServers.fetch = foreignHosts
})
afterEach(() => {
  foreignServers.fetch = originalFetch
  clock.ahead = 0
})

let nextInstallation = 500_000
/** Creates an account that has installed the App, with the OAuth code of one of its people. */
function createAccount(login = 'acme', installation = nextInstallation++) {
  host.installations.set(installation, {
    account: { id: installation + 1_000_000, login },
    repositories: makeRepositories(5, login),
  })
  const code = `code-${unusedId()}`
  host.people.set(code, { installations: [installation] })
  return { installation, code }
}
const beginInstall = async (tenant: Tenant) =>
  new URL((await tenant.post(`${BASE_PATH}/install`)).body.url).searchParams.get('state')!
const returnFromGithub = (query: Record<string, string | number>) =>
  send('GET', `${BASE_PATH}/setup?${new URLSearchParams(query as Record<string, string>)}`)
const listIntegrations = async (tenant: Tenant) => (await tenant.get(`${BASE_PATH}/install`)).body
async function connect(tenant: Tenant, { installation, code }: ReturnType<typeof createAccount>) {
  return returnFromGithub({
    installation_id: installation,
    setup_action: 'install',
    state: await beginInstall(tenant),
    code,
  })
}

describe('a person who installs the GitHub App', () => {
  it('is sent to GitHub, and creates an integration by returning with a proof of ownership', async () => {
    const tenant = await newTenant()
    const begin = await tenant.post(`${BASE_PATH}/install`)
    expect(begin.body.url).toMatch(
      new RegExp(`^https://github\\.com/apps/${GITHUB_APP.slug}/installations/new\\?state=[\\w.-]+$`),
    )
    expect(Date.parse(begin.body.expires_at) - Date.now()).toBeGreaterThan(3_500_000)
    const account = createAccount()
    const page = await connect(tenant, account)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('acme is connected')])
    expect(await listIntegrations(tenant)).toEqual([
      {
        id: expect.any(String),
        capabilities: expect.arrayContaining(['pull_requests', 'deployments']),
        installation_id: String(account.installation),
        name: 'acme',
        host: 'github',
        base_url: 'https://github.com',
        state: 'active',
        problem: null,
        ssh: null,
        webhook_url: `http://slipway.test${BASE_PATH}/webhook`,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ])
    const [event] = await readEvents(page.headers.get('X-Request-Id')!)
    expect(event).toMatchObject({ type: 'integration.connected', actor_kind: 'session', tenant_id: tenant.tenant_id })
    const [{ id }] = await listIntegrations(tenant)
    expect((await tenant.get(`${BASE_PATH}/${id}/repos`)).body).toHaveLength(5)
  })

  it('cannot return with a state that is used, expired, forged or malformed', async () => {
    const tenant = await newTenant()
    const account = createAccount()
    const state = await beginInstall(tenant)
    const returnWith = (state: string) =>
      returnFromGithub({ installation_id: account.installation, setup_action: 'install', state, code: account.code })
    const requestsBefore = foreignHosts.requests.length
    for (const wrong of ['', 'x', state.slice(0, -1), `${unusedId()}${state.slice(36)}`, `${state}x`]) {
      const page = await returnWith(wrong)
      expect([page.status, page.text]).toEqual([400, expect.stringContaining('Link no longer valid')])
    }
    // Well-formed and for an existing row, but with a wrong signature.
    const [id, , kid, mac] = state.split('.') as [string, string, string, string]
    const forged = `${id}..${kid}.${[...mac].reverse().join('').replace(/.$/, 'A')}`
    expect((await returnWith(forged)).status).toBe(400)
    const late = await beginInstall(tenant)
    clock.ahead = 3_601_000
    expect((await returnWith(late)).status).toBe(400)
    clock.ahead = 0
    expect(foreignHosts.requests.length).toBe(requestsBefore)
    const both = await Promise.all([returnWith(state), returnWith(state)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 400])
    expect((await returnWith(state)).status).toBe(400)
    expect(await listIntegrations(tenant)).toHaveLength(1)
  })

  it('must prove with an OAuth code that they can access the installation and all its repositories', async () => {
    const tenant = await newTenant()
    const [foreign, own] = [createAccount('foreign'), createAccount('own')]
    const member = `code-${unusedId()}`
    host.people.set(member, {
      installations: [foreign.installation],
      visibleRepositories: { [foreign.installation]: 4 },
    })
    const queries: Record<string, string | number>[] = [
      { installation_id: foreign.installation },
      { installation_id: foreign.installation, code: 'unknown' },
      { installation_id: foreign.installation, code: own.code },
      { installation_id: foreign.installation, code: member },
      { installation_id: nextInstallation++, code: own.code },
      { installation_id: '1;drop', code: own.code },
      { code: own.code },
    ]
    for (const query of queries) {
      const page = await returnFromGithub({ setup_action: 'install', state: await beginInstall(tenant), ...query })
      expect([page.status, page.text], JSON.stringify(query)).toEqual([
        403,
        expect.stringContaining('Ownership not confirmed'),
      ])
      expect((await readEvents(page.headers.get('X-Request-Id')!)).map(({ type }) => type)).toEqual([
        'integration.install_failed',
      ])
    }
    expect(await listIntegrations(tenant)).toEqual([])
  })

  it('can connect an existing installation with an OAuth code alone, and no other installation', async () => {
    const tenant = await newTenant()
    const [account, otherAccount] = [createAccount(), createAccount()]
    const beginAuthorization = async () =>
      new URL((await tenant.post(`${BASE_PATH}/install`, { installation_id: String(account.installation) })).body.url)
    const url = await beginAuthorization()
    expect([url.origin + url.pathname, url.searchParams.get('client_id')]).toEqual([
      'https://github.com/login/oauth/authorize',
      GITHUB_APP.clientId,
    ])
    const state = url.searchParams.get('state')!
    expect(
      (
        await returnFromGithub({
          state: state.replace(String(account.installation), String(otherAccount.installation)),
          code: otherAccount.code,
        })
      ).status,
    ).toBe(400)
    expect(
      (
        await returnFromGithub({
          state: (await beginAuthorization()).searchParams.get('state')!,
          code: otherAccount.code,
        })
      ).status,
    ).toBe(403)
    const mixed = {
      state: (await beginAuthorization()).searchParams.get('state')!,
      code: account.code,
      installation_id: otherAccount.installation,
    }
    expect((await returnFromGithub(mixed)).status).toBe(403)
    expect((await returnFromGithub({ state, code: account.code })).status).toBe(200)
    expect(await listIntegrations(tenant)).toMatchObject([{ installation_id: String(account.installation) }])
    expect((await tenant.post(`${BASE_PATH}/install`, { installation_id: 'one' })).status).toBe(422)
  })

  it('sees that an owner has to approve, and can continue with the same state after the approval', async () => {
    const tenant = await newTenant()
    const account = createAccount()
    const state = await beginInstall(tenant)
    const page = await returnFromGithub({ setup_action: 'request', state, code: account.code })
    expect([page.status, page.text]).toEqual([400, expect.stringContaining('Approval pending')])
    expect(
      (
        await returnFromGithub({
          installation_id: account.installation,
          setup_action: 'install',
          state,
          code: account.code,
        })
      ).status,
    ).toBe(200)
  })

  it('sees a confirmation after a change of its repositories, without any request to GitHub', async () => {
    const page = await returnFromGithub({ installation_id: 1, setup_action: 'update', code: 'x' })
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('The installation was changed')])
    expect(foreignHosts.requests).toEqual([])
  })

  it('sees no part of the URL on the page, and no page, log line or event has a secret', async () => {
    const tenant = await newTenant()
    const account = createAccount()
    const evil = '<script>alert(1)</script>"\'&hush-evil'
    logLines.length = 0
    for (const name of ['installation_id', 'setup_action', 'state', 'code']) {
      const query = {
        installation_id: account.installation,
        setup_action: 'install',
        state: await beginInstall(tenant),
        code: account.code,
        [name]: evil,
      }
      const page = await returnFromGithub(query)
      expect(page.text).not.toMatch(/hush|<script|alert/)
    }
    const twice = await send(
      'GET',
      `${BASE_PATH}/setup?state=${await beginInstall(tenant)}&code=${account.code}&code=x` +
        `&installation_id=${account.installation}`,
    )
    expect(twice.status).toBe(403)
    expect(JSON.stringify(logLines)).not.toMatch(/hush|ghu_|ghs_/)
    const eventData = sql`select string_agg(data::text, '') from events where tenant_id = ${tenant.tenant_id}::uuid`
    expect(JSON.stringify(await runAsSystem(getApp().database, eventData))).not.toMatch(/hush|ghu_|ghs_|BEGIN/)
  })
})

describe('an installation of the GitHub App', () => {
  it('belongs to one workspace until it is deleted or revoked', async () => {
    const [first, second] = await Promise.all([newTenant(), newTenant()])
    const account = createAccount()
    expect((await connect(first, account)).status).toBe(200)
    const [refusedSecond, refusedFirst] = [await connect(second, account), await connect(first, account)]
    expect([refusedSecond.status, refusedSecond.text]).toEqual([
      409,
      expect.stringContaining('Connected to another workspace'),
    ])
    expect([refusedFirst.status, refusedFirst.text]).toEqual([409, expect.stringContaining('Already connected')])
    const [{ id }] = await listIntegrations(first)
    expect((await first.delete(`${BASE_PATH}/${id}`)).status).toBe(204)
    expect((await connect(second, account)).status).toBe(200)
    const [integration] = await listIntegrations(second)
    await runAsSystem(
      getApp().database,
      sql`update integrations set state = 'revoked' where id = ${integration.id}::uuid`,
    )
    expect((await connect(first, account)).status).toBe(200)
  })

  it('goes to exactly one of several workspaces that connect it at the same time', async () => {
    const tenants = await Promise.all(Array.from({ length: 6 }, () => newTenant()))
    const account = createAccount()
    const pages = await Promise.all(tenants.map(tenant => connect(tenant, account)))
    expect(pages.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  })

  it('reactivates the integration of its account under the same id when it is installed again', async () => {
    const tenant = await newTenant()
    const account = createAccount()
    await connect(tenant, account)
    const [before] = await listIntegrations(tenant)
    await runAsSystem(getApp().database, sql`update integrations set state = 'revoked' where id = ${before.id}::uuid`)
    const installed = host.installations.get(account.installation)!
    host.installations.delete(account.installation)
    const reinstalled = createAccount()
    host.installations.set(reinstalled.installation, {
      ...host.installations.get(reinstalled.installation)!,
      account: { ...installed.account, login: 'renamed' },
    })
    expect((await connect(tenant, reinstalled)).status).toBe(200)
    expect(await listIntegrations(tenant)).toEqual([
      { ...before, installation_id: String(reinstalled.installation), name: 'renamed', updated_at: expect.any(String) },
    ])
    expect((await tenant.get(`${BASE_PATH}/${before.id}/repos`)).body).toHaveLength(5)
  })

  it('is deleted with its workspace', async () => {
    const tenant = await newTenant()
    const { id: tenant_id } = (await tenant.owner.post('/workspaces', { display_name: 'Short-lived' })).body
    await tenant.owner.post(`${BASE_PATH}/install`, undefined, { 'X-Tenant-Id': tenant_id })
    const id = await newIntegration({ organization_id: tenant.organization_id, tenant_id })
    expect((await tenant.owner.delete(`/workspaces/${tenant_id}`)).status).toBe(204)
    const count = sql`select (select count(*) from integrations where id = ${id}::uuid) +
      (select count(*) from integration_installs where tenant_id = ${tenant_id}::uuid)`
    expect(await runAsSystem(getApp().database, count)).toEqual([[['0']]])
  })
})

it('without a GitHub App of the operator, an installation is refused', async () => {
  const settings = Object.fromEntries(
    ['ID', 'SLUG', 'PRIVATE_KEY', 'CLIENT_ID', 'CLIENT_SECRET', 'WEBHOOK_SECRET'].map(name => [
      `GITHUB_APP_${name}`,
      '',
    ]),
  )
  const tenant = await newTenant({ app: startApp({ settings }) })
  expect((await tenant.post(`${BASE_PATH}/install`)).body.code).toBe('githost_app_missing')
})

it('the App of an Enterprise Server is installed at that server', async () => {
  const tenant = await newTenant({ app: startApp({ settings: { GITHUB_BASE_URL: 'https://ghe.example.com' } }) })
  const { url } = (await tenant.post(`${BASE_PATH}/install`)).body
  expect(url).toMatch(/^https:\/\/ghe\.example\.com\/github-apps\/slipway-test\/installations\/new\?state=/)
})

it('an unfinished installation is deleted after an hour', async () => {
  const tenant = await newTenant()
  await beginInstall(tenant)
  const count = sql`select count(*) from integration_installs where tenant_id = ${tenant.tenant_id}::uuid`
  await sweepInstalls(getApp())
  expect(await runAsSystem(getApp().database, count)).toEqual([[['1']]])
  clock.ahead = 3_601_000
  await sweepInstalls(getApp())
  expect(await runAsSystem(getApp().database, count)).toEqual([[['0']]])
})
