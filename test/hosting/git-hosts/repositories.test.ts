import { sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { MAX_CONCURRENT_REQUESTS } from '../../../src/hosting/git-hosts/request.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { clock, foreignServers, getApp, logLines, newTenant, type Tenant, unusedId } from '../../support/app.ts'
import {
  combineHosts,
  GITHUB_APP,
  makeGitea,
  makeGithub,
  makeRepositories,
  TOKEN_PREFIX,
} from '../../support/fake-git-hosts.ts'
import { PKCS1, PKCS8 } from '../../support/github-app-key.ts'
import { newIntegration } from '../../support/integrations.ts'

const originalFetch = foreignServers.fetch
afterEach(() => {
  foreignServers.fetch = originalFetch
  clock.ahead = 0
})

let nextInstallation = 1000
/** A tenant with an installation of the operator's App that can access `count` repositories. */
async function installApp(count = 3, host = makeGithub()) {
  const installation = nextInstallation++
  const tenant = await newTenant()
  host.installations.set(installation, {
    account: { id: installation, login: 'acme' },
    repositories: makeRepositories(count),
  })
  const foreignHosts = combineHosts(host)
  foreignServers.fetch = foreignHosts
  const row = {
    host: 'github',
    base_url: host.base,
    installation_id: String(installation),
    account_id: String(installation),
  } as const
  const id = await newIntegration(tenant, row, null)
  return { tenant, host, foreignHosts, id, installation, path: pathOf(id) }
}
const pathOf = (id: string) => `/v1/integrations/forge/githost/${id}/repos`
const filterListings = ({ requests }: { requests: { url: string }[] }) =>
  requests.filter(({ url }) => url.includes('/repositories?'))
const statusAndCode = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]

describe('listing the repositories of an installation', () => {
  it('returns six fields of each, ordered by owner and name across pages', async () => {
    const { tenant, id, path, host } = await installApp(0)
    host.installations.get(nextInstallation - 1)!.repositories = [
      { id: 3, name: 'zebra', owner: 'acme', default_branch: 'trunk' },
      { id: 2, name: 'App', owner: 'acme' },
      { id: 1, name: 'web', owner: 'Aardvark' },
    ]
    const { status, body } = await tenant.get(path)
    expect(status).toBe(200)
    const makeEntry = (id_: number, owner: string, name: string, default_branch = 'main') => ({
      host_integration_id: id,
      id: id_,
      name,
      owner,
      url: `https://github.com/${owner}/${name}`,
      default_branch,
      archived: false,
      empty: false,
    })
    expect(body).toEqual([
      makeEntry(1, 'Aardvark', 'web'),
      makeEntry(2, 'acme', 'App'),
      makeEntry(3, 'acme', 'zebra', 'trunk'),
    ])
  })

  it('can be empty, and can be filtered by name and limited in number', async () => {
    const empty = await installApp(0)
    expect((await empty.tenant.get(empty.path)).body).toEqual([])
    const { tenant, path } = await installApp(120)
    const listNames = async (query: string) =>
      (await tenant.get(`${path}?${query}`)).body.map((repository: { name: string }) => repository.name)
    expect(await listNames('name_contains=O-0011')).toHaveLength(10)
    expect(await listNames('name_contains=%25')).toEqual([])
    expect(await listNames('limit=2')).toEqual(['repo-00001', 'repo-00002'])
    expect(await listNames('name_contains=&limit=3')).toHaveLength(3)
    for (const limit of ['0', '10001', 'many']) expect((await tenant.get(`${path}?limit=${limit}`)).status).toBe(422)
  })

  it('fetches fifty pages concurrently within the limit, with two database round trips', async () => {
    const { tenant, path, host, foreignHosts } = await installApp(5000)
    const requestId = `trip-repos-${unusedId()}`
    const { body } = await tenant.get(path, { 'X-Request-Id': requestId })
    expect(body).toHaveLength(5000)
    expect(new Set(body.map((repository: { id: number }) => repository.id)).size).toBe(5000)
    expect(foreignHosts.requests).toHaveLength(51)
    expect(host.state.maxInFlight).toBe(MAX_CONCURRENT_REQUESTS)
    expect(await countTrips(requestId)).toBe(2)
  })

  it('caches the list for a minute, then revalidates it by ETag with the same token', async () => {
    const { tenant, path, host, foreignHosts } = await installApp(250)
    const first = (await tenant.get(path)).body
    const requestId = `trip-repos-${unusedId()}`
    expect((await tenant.get(path, { 'X-Request-Id': requestId })).body).toEqual(first)
    expect(await countTrips(requestId)).toBe(1)
    expect(foreignHosts.requests).toHaveLength(4)
    clock.ahead = 61_000
    expect((await tenant.get(path)).body).toEqual(first)
    const revalidations = foreignHosts.requests.slice(4)
    expect(revalidations.map(({ headers }) => headers.has('If-None-Match'))).toEqual([true, true, true])
    expect([filterListings(foreignHosts).length, host.state.mintedTokens]).toEqual([6, 1])
    host.installations.get(nextInstallation - 1)!.repositories.push({ id: 9, name: 'added', owner: 'acme' })
    clock.ahead = 122_000
    expect((await tenant.get(`${path}?name_contains=added`)).body).toHaveLength(1)
    clock.ahead = 183_000
    host.installations.get(nextInstallation - 1)!.repositories.splice(100)
    expect((await tenant.get(path)).body).toHaveLength(100)
  })

  it('never returns repositories of another workspace with the same account', async () => {
    const own = await installApp(2)
    const { host, foreignHosts } = own
    await own.tenant.get(own.path)
    const other = await newTenant()
    const otherInstallation = nextInstallation++
    host.installations.set(otherInstallation, {
      account: { id: 1, login: 'acme' },
      repositories: makeRepositories(1, 'other'),
    })
    const id = await newIntegration(
      other,
      { host: 'github', base_url: host.base, installation_id: String(otherInstallation) },
      null,
    )
    const requestsBefore = foreignHosts.requests.length
    expect((await other.get(pathOf(id))).body.map((repository: { owner: string }) => repository.owner)).toEqual([
      'other',
    ])
    expect(foreignHosts.requests.length).toBe(requestsBefore + 2)
    expect(statusAndCode(await other.get(own.path))).toEqual([404, 'integration_not_found'])
    expect(statusAndCode(await own.tenant.get(pathOf(id)))).toEqual([404, 'integration_not_found'])
    const query = sql`
      select count(*)
      from integration_listings l
      join integrations i on i.id = l.integration_id and i.tenant_id <> l.tenant_id`
    expect(await runAsSystem(getApp().database, query)).toEqual([[['0']]])
  })

  it('mints a new token if the host rejects the cached one', async () => {
    const { tenant, path, host, id } = await installApp(1)
    await tenant.get(path)
    const database = getApp().database
    const [[[token]]] = (await runAsSystem(database, sql`select token from integrations where id = ${id}::uuid`)) as [
      [[string]],
    ]
    expect(token).not.toContain(TOKEN_PREFIX)
    // The host rejects the cached token, because the row now has another installation.
    const reinstalled = nextInstallation++
    host.installations.set(reinstalled, host.installations.get(reinstalled - 1)!)
    host.installations.delete(reinstalled - 1)
    await runAsSystem(
      database,
      sql`update integrations set installation_id = ${String(reinstalled)} where id = ${id}::uuid`,
    )
    clock.ahead = 61_000
    expect((await tenant.get(path)).status).toBe(200)
    expect(host.state.mintedTokens).toBe(2)
  })
})

describe('a failing git host', () => {
  it.each([
    ['its primary rate limit', 'primary', 120],
    ['its secondary rate limit', 'secondary', 42],
    ['a rate limit without a time', 'bare', 60],
    ['status 429', 'many', 30],
  ] as const)('with %s is reported with the time to retry', async (_, limited, seconds) => {
    const { tenant, path, host } = await installApp()
    host.state.rateLimit = limited
    const reply = await tenant.get(path)
    expect(statusAndCode(reply)).toEqual([429, 'githost_rate_limited'])
    const wait = Number(reply.headers.get('Retry-After'))
    expect(wait).toBeGreaterThan(seconds - 3)
    expect(wait).toBeLessThanOrEqual(seconds + 1)
  })

  it('in the middle of a listing receives no further requests', async () => {
    const { tenant, path, host, foreignHosts } = await installApp(5000)
    foreignServers.fetch = ((input: string, init?: RequestInit) =>
      input.endsWith('&page=10')
        ? Promise.resolve(new Response('{}', { status: 429 }))
        : foreignHosts(input, init)) as typeof fetch
    expect(statusAndCode(await tenant.get(path))).toEqual([429, 'githost_rate_limited'])
    await expect.poll(() => host.state.inFlight).toBe(0)
    // The token, nine pages, and the requests that had already started.
    expect(foreignHosts.requests.length).toBeLessThanOrEqual(1 + 9 + MAX_CONCURRENT_REQUESTS)
  })

  it.each([500, 502, 503, 418])('with status %i is reported as an upstream error', async status => {
    const { tenant, path, host } = await installApp()
    host.state.status = status
    const reply = await tenant.get(path)
    expect(statusAndCode(reply)).toEqual([502, 'upstream_error'])
    expect(reply.headers.get('Retry-After')).toBe('60')
    expect(reply.text).not.toContain('Unicorn')
  })

  it('is reported as suspended, revoked or unreachable, as the cause may be', async () => {
    const { tenant, path, host, installation } = await installApp()
    host.installations.get(installation)!.suspended = true
    expect(statusAndCode(await tenant.get(path))).toEqual([409, 'integration_suspended'])
    host.installations.delete(installation)
    expect(statusAndCode(await tenant.get(path))).toEqual([409, 'integration_revoked'])
    foreignServers.fetch = originalFetch
    const unreachable = await tenant.get(path)
    expect([...statusAndCode(unreachable), unreachable.headers.get('Retry-After')]).toEqual([
      502,
      'upstream_error',
      '60',
    ])
  })

  it('gets no request if the integration is already suspended or revoked', async () => {
    const { foreignHosts, host } = await installApp()
    const tenant = await newTenant()
    for (const state of ['suspended', 'revoked'] as const) {
      const id = await newIntegration(
        tenant,
        { host: 'github', base_url: host.base, installation_id: String(nextInstallation++), state },
        null,
      )
      expect(statusAndCode(await tenant.get(pathOf(id)))).toEqual([409, `integration_${state}`])
    }
    expect(foreignHosts.requests).toEqual([])
  })
})

describe('a self-hosted git host', () => {
  it.each([
    ['PKCS#1', PKCS1],
    ['PKCS#8', PKCS8],
    ['PKCS#1 on one line', PKCS1.replaceAll('\n', ' ')],
  ])('can be an Enterprise Server with its own App, whose key is in %s', async (_, private_key) => {
    const enterprise = makeGithub('https://ghe.example.com')
    const installation = nextInstallation++
    enterprise.installations.set(installation, {
      account: { id: 7, login: 'corp' },
      repositories: makeRepositories(101, 'corp'),
    })
    foreignServers.fetch = combineHosts(enterprise)
    const tenant = await newTenant()
    const row = {
      host: 'github',
      base_url: enterprise.base,
      app_id: GITHUB_APP.id,
      installation_id: String(installation),
    } as const
    const id = await newIntegration(tenant, row, { private_key, webhook_secret: 'hush' })
    const { body } = await tenant.get(pathOf(id))
    expect(body).toHaveLength(101)
    expect(body[0].url).toBe('https://ghe.example.com/corp/repo-00001')
  })

  it('can be a Gitea, whose number of pages follows from the total', async () => {
    const host = makeGitea('https://gitea.example.com/git')
    host.accounts.set('hush-token', { id: 5, login: 'bot', repositories: makeRepositories(120, 'team') })
    const foreignHosts = combineHosts(host)
    foreignServers.fetch = foreignHosts
    const tenant = await newTenant()
    const id = await newIntegration(tenant, { base_url: host.base })
    const { body } = await tenant.get(pathOf(id))
    expect(body).toHaveLength(120)
    expect(body[0].url).toBe('https://gitea.example.com/git/team/repo-00001')
    expect(foreignHosts.requests).toHaveLength(3)
  })

  it('has a token that appears in no response and no log line', async () => {
    const host = makeGitea()
    const tenant: Tenant = await newTenant()
    foreignServers.fetch = combineHosts(host)
    const id = await newIntegration(tenant, { base_url: host.base })
    logLines.length = 0
    const reply = await tenant.get(pathOf(id))
    expect(statusAndCode(reply)).toEqual([422, 'githost_refused'])
    expect(reply.text + JSON.stringify(logLines)).not.toContain('hush')
  })
})

describe('a hostile host', () => {
  const bodies: [string, () => Response][] = [
    ['HTML', () => new Response('<html>hello</html>', { headers: { 'Content-Type': 'text/html' } })],
    ['an empty body', () => new Response('')],
    ['null', () => Response.json(null)],
    ['an array', () => Response.json([1, 2])],
    ['wrong types', () => Response.json({ total_count: '1', repositories: {} })],
    ['an absurd total', () => Response.json({ total_count: 2 ** 52, repositories: [] })],
    ['a negative total', () => Response.json({ total_count: -1, repositories: [] })],
    ['the owner `..`', () => respondWithOne({ owner: { login: '..' } })],
    ['a name with a slash', () => respondWithOne({ name: '../../etc' })],
    ['a NUL in a name', () => respondWithOne({ name: 'a\0b' })],
    ['a branch with a NUL and a lone surrogate', () => respondWithOne({ default_branch: 'a\0b\ud800' })],
    ['a fractional id', () => respondWithOne({ id: 1.5 })],
    ['bad UTF-8', () => new Response(new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]))],
    ['a huge body', () => new Response(`{"total_count": 1, "repositories": ["${'x'.repeat(4 * 1024 * 1024)}"]}`)],
    ['deep nesting', () => new Response('['.repeat(100_000))],
    [
      'a redirect to another host',
      () => new Response(null, { status: 302, headers: { Location: 'https://evil.example.com/' } }),
    ],
    ['a redirect to localhost', () => new Response(null, { status: 302, headers: { Location: 'http://localhost/' } })],
    ['an unexpected 304', () => new Response(null, { status: 304 })],
    ['status 204', () => new Response(null, { status: 204 })],
    [
      'a link to a million pages',
      () => respondWithOne({}, { Link: '<https://api.github.com/x?page=999999>; rel="last"' }),
    ],
    [
      'a Retry-After of centuries',
      () => new Response('{}', { status: 429, headers: { 'Retry-After': '9'.repeat(30) } }),
    ],
    ['a huge ETag', () => respondWithOne({}, { ETag: `"${'x'.repeat(5000)}"` })],
  ]
  const respondWithOne = (over: object, headers: Record<string, string> = {}) =>
    Response.json(
      {
        total_count: 1,
        repositories: [{ id: 1, name: 'app', owner: { login: 'acme' }, default_branch: 'main', ...over }],
      },
      { headers },
    )
  it.each(bodies)('that responds with %s causes a documented error or a valid list', async (_, answer) => {
    const { tenant, path, foreignHosts, host } = await installApp()
    foreignServers.fetch = ((input: Request | string | URL, init?: RequestInit) => {
      const isListing = String(input).includes('/installation/repositories')
      return isListing ? Promise.resolve(answer()) : foreignHosts(input, init)
    }) as typeof fetch
    const reply = await tenant.get(path)
    expect([200, 422, 429, 502]).toContain(reply.status)
    if (reply.status === 429) expect(Number(reply.headers.get('Retry-After'))).toBeLessThanOrEqual(3600)
    expect(reply.text.length).toBeLessThan(20_000)
    expect(reply.text).not.toMatch(/hush|\0/)
    for (const { url } of foreignHosts.requests) expect(new URL(url).origin).toMatch(/^https:\/\/(api\.)?github\.com$/)
    expect(host.base).toBe('https://github.com')
  })
})
