// `slipway providers`, `repos`, `listeners`, `keys` and `hooks`.
import { beforeAll, expect, it } from 'vitest'
import { foreignServers, newTenant, send, type Tenant } from '../support/app.ts'
import { makeFolder, serveApp } from '../support/cli.ts'
import { type HereResult, makeHereRunner } from '../support/cli-here.ts'
import { makeFakeFetch } from '../support/fake-fetch.ts'
import { makeGitea, makeRepositories } from '../support/fake-git-hosts.ts'
import { newIntegration } from '../support/integrations.ts'
import {
  AUTH_ORIGIN,
  MCP_ORIGIN,
  makeServerMetadata,
  makeValidSites,
  SERVER_METADATA_PATH,
} from '../support/mcp-sites.ts'
import { newRepository, newRepositoryDeployment, serveRepositories } from '../support/pushes.ts'
import { makeSyncAgent } from '../support/sync-agent.ts'

let url: string
beforeAll(async () => {
  url = (await serveApp()).url
})

async function setUp() {
  const tenant = await newTenant()
  return { tenant, run: makeHereRunner(url, tenant) }
}
const failure = ({ code, error }: HereResult) => [code, error?.code, error?.next]
const typesOf = ({ objects }: HereResult) => objects.map(({ type }) => type)
const listProviders = async (tenant: Tenant) =>
  (await tenant.get('/v2/auth/providers')).body.map((one: { provider_id: string }) => one.provider_id)

it('shows the discovery of an OAuth provider, creates it only when confirmed, and deletes it', async () => {
  const { tenant, run } = await setUp()
  foreignServers.fetch = makeFakeFetch(makeValidSites())
  const shown = await run('providers', 'discover', `${MCP_ORIGIN}/mcp`)
  expect([...new Set(typesOf(shown))]).toEqual(['fetch', 'plan', 'result'])
  expect(shown.objects[0]).toMatchObject({ method: 'POST', url: `${MCP_ORIGIN}/mcp`, status: 401 })
  expect(shown.objects.at(-2)).toMatchObject({ provider_id: 'example', registration: 'dynamic' })
  expect(shown.objects.at(-1)).toMatchObject({ outcome: 'discovered', next: expect.stringContaining('--create') })
  expect(await listProviders(tenant)).toEqual([])

  const created = await run('providers', 'discover', `${MCP_ORIGIN}/mcp`, '--id', 'issues', '--create')
  expect([created.code, created.objects.at(-1)]).toMatchObject([0, { outcome: 'created', client_id: 'made' }])
  expect((await run('providers', 'list')).objects).toMatchObject([{ provider_id: 'issues', name: 'issues' }])

  const unconfirmed = await run('providers', 'delete', 'issues')
  expect(failure(unconfirmed)).toEqual([2, 'confirmation_required', 'slipway providers delete issues --yes'])
  expect(unconfirmed.error!.message).toContain('issues')
  expect((await run('providers', 'delete', 'issues', '--yes')).objects).toMatchObject([{ outcome: 'deleted' }])
  expect(await listProviders(tenant)).toEqual([])
  expect(failure(await run('providers', 'delete', 'issues', '--yes'))).toEqual([
    1,
    'provider_not_found',
    'slipway providers list',
  ])
})

it('shows the requests of a failed discovery, and reads the secret of a client from a file', async () => {
  const { tenant, run } = await setUp()
  const { registration_endpoint: _, ...metadata } = makeServerMetadata(AUTH_ORIGIN)
  foreignServers.fetch = makeFakeFetch(makeValidSites({}, { [SERVER_METADATA_PATH]: metadata }))
  const refused = await run('providers', 'discover', `${MCP_ORIGIN}/mcp`, '--create')
  expect(failure(refused)).toEqual([1, 'registration_unsupported', expect.stringContaining('--client-id')])
  expect(typesOf(refused).length).toBeGreaterThan(2)
  expect(new Set(typesOf(refused))).toEqual(new Set(['fetch']))

  const file = `${makeFolder({ secret: 'hush-hush\n' })}/secret`
  const client = ['--client-id', 'ours', '--client-secret-file', file]
  const created = await run('providers', 'discover', `${MCP_ORIGIN}/mcp`, ...client, '--yes')
  expect([created.code, created.objects.at(-1)]).toMatchObject([0, { outcome: 'created', client_id: 'ours' }])
  expect(created.out).not.toContain('hush-hush')
  expect(await listProviders(tenant)).toEqual(['example'])
})

it('lists the repositories of the only git host, and asks which one if there are several', async () => {
  const { tenant, run } = await setUp()
  expect(failure(await run('repos'))).toEqual([1, 'integration_not_found', undefined])
  const host = makeGitea()
  host.accounts.set('hush-token', { id: 1, login: 'acme', repositories: makeRepositories(120) })
  foreignServers.fetch = makeFakeFetch(host.sites)
  await newIntegration(tenant, { base_url: host.base, name: 'acme' })
  const all = await run('repos', '--limit', '1000')
  expect([all.objects.length, all.objects[0]]).toMatchObject([120, { owner: 'acme', default_branch: 'main' }])
  expect((await run('repos')).objects.length).toBe(100)
  expect((await run('repos', '--filter', '00007')).objects).toMatchObject([{ name: 'repo-00007' }])
  expect(failure(await run('repos', '--limit', '0'))[0]).toBe(2)

  await newIntegration(tenant, { base_url: host.base, name: 'other' })
  const several = await run('repos')
  expect(failure(several)).toEqual([2, 'usage', expect.stringMatching(/^slipway repos (acme|other)$/)])
  expect(several.objects.map(({ name }) => name).sort()).toEqual(['acme', 'other'])
  expect((await run('repos', 'acme', '--limit', '1')).objects).toMatchObject([{ owner: 'acme' }])
  expect(failure(await run('repos', 'third'))).toEqual([1, 'integration_not_found', 'slipway repos'])
})

it('registers a listener, shows a key once that its agent can poll with, and deletes it', async () => {
  const { tenant, run } = await setUp()
  const created = await run('listeners', 'create', 'build-server', '--expires-in', '30d')
  const { key, listener, command } = created.objects[0] as { key: string; listener: { id: string }; command: string }
  expect([created.code, command]).toEqual([0, `SLIPWAY_URL=${url} npm run agent`])
  expect(created.out.split(key).length, 'the key is printed once').toBe(2)
  await makeSyncAgent(tenant, key).poll()
  expect((await run('listeners', 'list')).objects).toMatchObject([
    { id: listener.id, compute_id: 'build-server', last_seen_at: expect.any(String) },
  ])
  const another = await run('listeners', 'key', 'build-server', '--description', 'second machine')
  expect(another.objects[0]!.key).not.toBe(key)
  const [newest] = (await tenant.get('/workspaces/current/api-keys')).body.resources
  expect(newest).toMatchObject({ description: 'second machine', listener_id: listener.id })

  const cluster = await run(
    'listeners',
    'create',
    'eu-1',
    '--type',
    'k8s',
    '--namespace',
    'apps',
    '--namespace',
    'jobs',
  )
  expect(cluster.objects[0]).toMatchObject({
    listener: { compute_config: { k8s_namespaces: ['apps', 'jobs'] } },
    command: `SLIPWAY_URL=${url} K8S_NAMESPACES=apps,jobs npm run agent -- --engine kubernetes`,
  })
  expect(failure(await run('listeners', 'create', 'eu-1'))).toEqual([1, 'listener_exists', 'slipway listeners list'])
  expect(failure(await run('listeners', 'create', 'x', '--type', 'vm'))[0]).toBe(2)
  const unconfirmed = await run('listeners', 'delete', 'eu-1')
  expect(failure(unconfirmed)).toEqual([2, 'confirmation_required', 'slipway listeners delete eu-1 --yes'])
  expect((await run('listeners', 'delete', 'eu-1', '--yes')).objects).toMatchObject([{ outcome: 'deleted' }])
  expect((await run('listeners', 'list')).objects).toMatchObject([{ compute_id: 'build-server' }])
})

it('creates a key with a role, permissions and an end, shows it once, lists it, and revokes it by name', async () => {
  const { tenant, run } = await setUp()
  const options = ['--role', 'Viewer', '--permission', 'deployments:read', '--permission', 'events:read']
  const created = await run('keys', 'create', 'CI', ...options, '--expires-in', '30d')
  const { key, id, permissions, expires_at } = created.objects[0] as Record<string, string>
  expect([created.code, permissions, created.out.split(key!).length]).toEqual([
    0,
    ['deployments:read', 'events:read'],
    2,
  ])
  expect(Math.round((Date.parse(expires_at!) - Date.now()) / 86_400_000)).toBe(30)
  expect((await send('GET', '/v2/deployments', { headers: { 'X-Api-Key': key! } })).status).toBe(200)
  expect((await run('keys', 'list')).objects).toContainEqual(expect.objectContaining({ id, description: 'CI' }))
  expect((await run('keys', 'list')).out).not.toContain(key)

  const unconfirmed = await run('keys', 'revoke', 'CI')
  expect(failure(unconfirmed)).toEqual([2, 'confirmation_required', `slipway keys revoke ${id} --yes`])
  expect(unconfirmed.error!.message).toContain('CI')
  expect((await run('keys', 'revoke', 'CI', '--yes')).objects).toMatchObject([
    { outcome: 'revoked', id, descendants: 0 },
  ])
  expect((await send('GET', '/v2/deployments', { headers: { 'X-Api-Key': key! } })).status).toBe(401)

  const runAsOwner = makeHereRunner(url, tenant.owner)
  await runAsOwner('keys', 'create', 'same', '--organization')
  await runAsOwner('keys', 'create', 'same', '--organization')
  expect(failure(await runAsOwner('keys', 'revoke', 'same', '--organization', '--yes'))[0], 'ambiguous').toBe(2)
  expect(failure(await run('keys', 'create', 'CI', '--role', 'Chief'))).toEqual([
    1,
    'role_not_found',
    'slipway api GET /orgs/current/roles',
  ])
  expect(failure(await run('keys', 'create', 'CI', '--permission', 'nope'))).toEqual([1, 'invalid_request', undefined])
  expect(failure(await run('keys', 'create', 'CI', '--expires-in', 'soon'))[0]).toBe(2)
})

it('creates a deploy hook, shows its URL once, lists it, and ends it by its name', async () => {
  const { tenant, run } = await setUp()
  serveRepositories()
  const { name } = await newRepositoryDeployment(tenant, await newRepository(tenant), 0, { name: 'site' })
  const [made] = (await run('hooks', 'create', name, 'content', '--ref', 'release/*', '--ref', 'v/**')).objects
  expect(made).toMatchObject({ name: 'content', refs: ['release/*', 'v/**'], url: expect.any(String) })
  const path = new URL(made!.url as string).pathname
  expect((await send('POST', path)).status).toBe(202)
  const { url: _, ...shown } = made!
  const listed = await run('hooks', 'list', name)
  expect(listed.objects).toEqual([{ ...shown, last_used_at: expect.any(String) }])

  const next = `slipway hooks delete ${name} content --yes`
  expect(failure(await run('hooks', 'delete', name, 'content'))).toEqual([2, 'confirmation_required', next])
  expect((await send('POST', path)).status).toBe(202)
  expect((await run('hooks', 'delete', name, 'content', '--yes')).objects).toMatchObject([{ deleted: true }])
  expect((await send('POST', path)).status).toBe(404)
  const gone = await run('hooks', 'delete', name, 'content', '--yes')
  expect(failure(gone)).toEqual([1, 'deploy_hook_not_found', `slipway hooks list ${name}`])
})
