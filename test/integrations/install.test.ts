// Installing the operator's GitHub App: sending a person to GitHub, and verifying what they bring back.
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sweepInstalls } from '../../src/integrations/install.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
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
} from '../support/app.ts'
import { combineHosts, GITHUB_APP, makeGithub, makeRepositories } from '../support/fake-git-hosts.ts'
import { newIntegration } from '../support/integrations.ts'

const BASE_PATH = '/v1/integrations/forge/githost'
const originalFetch = foreignServers.fetch
let host = makeGithub()
let world = combineHosts(host)
beforeEach(() => {
  host = makeGithub()
  world = combineHosts(host)
  foreignServers.fetch = world
})
afterEach(() => {
  foreignServers.fetch = originalFetch
  clock.ahead = 0
})

let nextInstallation = 500_000
/** An account that installed the App, and the OAuth code of one of its people. */
function account(login = 'acme', installation = nextInstallation++) {
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
const comeBack = (query: Record<string, string | number>) =>
  send('GET', `${BASE_PATH}/setup?${new URLSearchParams(query as Record<string, string>)}`)
const listIntegrations = async (tenant: Tenant) => (await tenant.get(`${BASE_PATH}/install`)).body
async function connect(tenant: Tenant, { installation, code }: ReturnType<typeof account>) {
  return comeBack({ installation_id: installation, setup_action: 'install', state: await beginInstall(tenant), code })
}

describe('a person who installs the GitHub App', () => {
  it('is sent to GitHub, comes back with a proof of ownership, and the workspace has an integration', async () => {
    const tenant = await newTenant()
    const begin = await tenant.post(`${BASE_PATH}/install`)
    expect(begin.body.url).toMatch(
      new RegExp(`^https://github\\.com/apps/${GITHUB_APP.slug}/installations/new\\?state=[\\w.-]+$`),
    )
    expect(Date.parse(begin.body.expires_at) - Date.now()).toBeGreaterThan(3_500_000)
    const one = account()
    const page = await connect(tenant, one)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('acme is connected')])
    expect(await listIntegrations(tenant)).toEqual([
      {
        id: expect.any(String),
        ...{ installation_id: String(one.installation), name: 'acme', host: 'github', base_url: 'https://github.com' },
        ...{ state: 'active', webhook_url: `http://slipway.test${BASE_PATH}/webhook` },
        ...{ created_at: expect.any(String), updated_at: expect.any(String) },
      },
    ])
    const [event] = await readEvents(page.headers.get('X-Request-Id')!)
    expect(event).toMatchObject({ type: 'integration.connected', actor_kind: 'session', tenant_id: tenant.tenant_id })
    const [{ id }] = await listIntegrations(tenant)
    expect((await tenant.get(`${BASE_PATH}/${id}/repos`)).body).toHaveLength(5)
  })

  it('cannot come back with a state that is used, expired, forged or malformed', async () => {
    const tenant = await newTenant()
    const one = account()
    const state = await beginInstall(tenant)
    const with_ = (state: string) =>
      comeBack({ installation_id: one.installation, setup_action: 'install', state, code: one.code })
    const asked = world.requests.length
    for (const wrong of ['', 'x', state.slice(0, -1), `${unusedId()}${state.slice(36)}`, `${state}x`]) {
      const page = await with_(wrong)
      expect([page.status, page.text]).toEqual([400, expect.stringContaining('Link no longer valid')])
    }
    // Well-formed and for an existing row, but signed with another key.
    const [id, , kid, mac] = state.split('.') as [string, string, string, string]
    const forged = `${id}..${kid}.${[...mac].reverse().join('').replace(/.$/, 'A')}`
    expect((await with_(forged)).status).toBe(400)
    const late = await beginInstall(tenant)
    clock.ahead = 3_601_000
    expect((await with_(late)).status).toBe(400)
    clock.ahead = 0
    expect(world.requests.length).toBe(asked)
    const both = await Promise.all([with_(state), with_(state)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 400])
    expect((await with_(state)).status).toBe(400)
    expect(await listIntegrations(tenant)).toHaveLength(1)
  })

  it('must prove with their own code that they see the installation and all its repositories', async () => {
    const tenant = await newTenant()
    const [theirs, own] = [account('theirs'), account('own')]
    const member = `code-${unusedId()}`
    host.people.set(member, { installations: [theirs.installation], visibleRepositories: { [theirs.installation]: 4 } })
    const tries: Record<string, string | number>[] = [
      { installation_id: theirs.installation },
      { installation_id: theirs.installation, code: 'made-up' },
      { installation_id: theirs.installation, code: own.code },
      { installation_id: theirs.installation, code: member },
      { installation_id: nextInstallation++, code: own.code },
      { installation_id: '1;drop', code: own.code },
      { code: own.code },
    ]
    for (const query of tries) {
      const page = await comeBack({ setup_action: 'install', state: await beginInstall(tenant), ...query })
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

  it('can connect an existing installation by identifying themselves, and only that one', async () => {
    const tenant = await newTenant()
    const [one, other] = [account(), account()]
    const of = async () =>
      new URL((await tenant.post(`${BASE_PATH}/install`, { installation_id: String(one.installation) })).body.url)
    const url = await of()
    expect([url.origin + url.pathname, url.searchParams.get('client_id')]).toEqual([
      'https://github.com/login/oauth/authorize',
      GITHUB_APP.clientId,
    ])
    const state = url.searchParams.get('state')!
    expect(
      (await comeBack({ state: state.replace(String(one.installation), String(other.installation)), code: other.code }))
        .status,
    ).toBe(400)
    expect((await comeBack({ state: (await of()).searchParams.get('state')!, code: other.code })).status).toBe(403)
    const both = { state: (await of()).searchParams.get('state')!, code: one.code, installation_id: other.installation }
    expect((await comeBack(both)).status).toBe(403)
    expect((await comeBack({ state, code: one.code })).status).toBe(200)
    expect(await listIntegrations(tenant)).toMatchObject([{ installation_id: String(one.installation) }])
    expect((await tenant.post(`${BASE_PATH}/install`, { installation_id: 'one' })).status).toBe(422)
  })

  it('is told to wait for the approval of an owner, and can continue with the same state after it', async () => {
    const tenant = await newTenant()
    const one = account()
    const state = await beginInstall(tenant)
    const page = await comeBack({ setup_action: 'request', state, code: one.code })
    expect([page.status, page.text]).toEqual([400, expect.stringContaining('Approval pending')])
    expect(
      (await comeBack({ installation_id: one.installation, setup_action: 'install', state, code: one.code })).status,
    ).toBe(200)
  })

  it('sees a confirmation if they only changed its repositories, and nothing else happens', async () => {
    const page = await comeBack({ installation_id: 1, setup_action: 'update', code: 'x' })
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('The installation was changed')])
    expect(world.requests).toEqual([])
  })

  it('sees no part of the URL and no secret on the page', async () => {
    const tenant = await newTenant()
    const one = account()
    const evil = '<script>alert(1)</script>"\'&hush-evil'
    logLines.length = 0
    for (const name of ['installation_id', 'setup_action', 'state', 'code']) {
      const query = {
        installation_id: one.installation,
        setup_action: 'install',
        state: await beginInstall(tenant),
        code: one.code,
        [name]: evil,
      }
      const page = await comeBack(query)
      expect(page.text).not.toMatch(/hush|<script|alert/)
    }
    const twice = await send(
      'GET',
      `${BASE_PATH}/setup?state=${await beginInstall(tenant)}&code=${one.code}&code=x&installation_id=${one.installation}`,
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
    const one = account()
    expect((await connect(first, one)).status).toBe(200)
    const [claimed, taken] = [await connect(second, one), await connect(first, one)]
    expect([claimed.status, claimed.text]).toEqual([409, expect.stringContaining('Connected to another workspace')])
    expect([taken.status, taken.text]).toEqual([409, expect.stringContaining('Already connected')])
    const [{ id }] = await listIntegrations(first)
    expect((await first.delete(`${BASE_PATH}/${id}`)).status).toBe(204)
    expect((await connect(second, one)).status).toBe(200)
    const [theirs] = await listIntegrations(second)
    await runAsSystem(getApp().database, sql`update integrations set state = 'revoked' where id = ${theirs.id}::uuid`)
    expect((await connect(first, one)).status).toBe(200)
  })

  it('goes to exactly one of several workspaces that connect it at the same time', async () => {
    const tenants = await Promise.all(Array.from({ length: 6 }, () => newTenant()))
    const one = account()
    const pages = await Promise.all(tenants.map(tenant => connect(tenant, one)))
    expect(pages.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  })

  it('reactivates the integration of the same account under its old id when installed again', async () => {
    const tenant = await newTenant()
    const one = account()
    await connect(tenant, one)
    const [before] = await listIntegrations(tenant)
    await runAsSystem(getApp().database, sql`update integrations set state = 'revoked' where id = ${before.id}::uuid`)
    const known = host.installations.get(one.installation)!
    host.installations.delete(one.installation)
    const anew = account()
    host.installations.set(anew.installation, {
      ...host.installations.get(anew.installation)!,
      account: { ...known.account, login: 'renamed' },
    })
    expect((await connect(tenant, anew)).status).toBe(200)
    expect(await listIntegrations(tenant)).toEqual([
      { ...before, installation_id: String(anew.installation), name: 'renamed', updated_at: expect.any(String) },
    ])
    expect((await tenant.get(`${BASE_PATH}/${before.id}/repos`)).body).toHaveLength(5)
  })

  it('is deleted with its workspace', async () => {
    const tenant = await newTenant()
    const { id: tenant_id } = (await tenant.owner.post('/workspaces', { display_name: 'Short-lived' })).body
    await tenant.owner.post(`${BASE_PATH}/install`, undefined, { 'X-Tenant-Id': tenant_id })
    const id = await newIntegration({ organization_id: tenant.organization_id, tenant_id })
    expect((await tenant.owner.delete(`/workspaces/${tenant_id}`)).status).toBe(204)
    const left = sql`select (select count(*) from integrations where id = ${id}::uuid) +
      (select count(*) from integration_installs where tenant_id = ${tenant_id}::uuid)`
    expect(await runAsSystem(getApp().database, left)).toEqual([[['0']]])
  })
})

it('without a GitHub App of the operator, installing fails with an explanation', async () => {
  const none = Object.fromEntries(
    ['ID', 'SLUG', 'PRIVATE_KEY', 'CLIENT_ID', 'CLIENT_SECRET', 'WEBHOOK_SECRET'].map(name => [
      `GITHUB_APP_${name}`,
      '',
    ]),
  )
  const tenant = await newTenant({ app: startApp({ settings: none }) })
  expect((await tenant.post(`${BASE_PATH}/install`)).body.code).toBe('githost_app_missing')
})

it('the App of an Enterprise Server is installed at that server', async () => {
  const tenant = await newTenant({ app: startApp({ settings: { GITHUB_BASE_URL: 'https://ghe.example.com' } }) })
  const { url } = (await tenant.post(`${BASE_PATH}/install`)).body
  expect(url).toMatch(/^https:\/\/ghe\.example\.com\/github-apps\/slipway-test\/installations\/new\?state=/)
})

it('an install that nobody finishes is deleted after an hour', async () => {
  const tenant = await newTenant()
  await beginInstall(tenant)
  const left = sql`select count(*) from integration_installs where tenant_id = ${tenant.tenant_id}::uuid`
  await sweepInstalls(getApp())
  expect(await runAsSystem(getApp().database, left)).toEqual([[['1']]])
  clock.ahead = 3_601_000
  await sweepInstalls(getApp())
  expect(await runAsSystem(getApp().database, left)).toEqual([[['0']]])
})
