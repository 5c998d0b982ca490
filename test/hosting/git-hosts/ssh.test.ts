// Repositories by SSH: deploy keys, pinned host keys, and what agents see of them.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { notifyPullRequests } from '../../../src/hosting/previews/pull-request-notifications.ts'
import { sweepRepositories } from '../../../src/hosting/pushes/repository-sweep.ts'
import { fingerprintOf } from '../../../src/kernel/crypto/openssh-key.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { featuresOf } from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import type { SshKeys } from '../../../src/protocol/repository-looks.schema.ts'
import { getApp, getServices, newTenant, readEvents, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { getPlatformAgent, listRevisions } from '../../support/deployments.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { newSha } from '../../support/pushes.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const BASE_PATH = '/v1/integrations/forge/githost'
const HOST_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICiGRFq7l47AOowAAXU9wTZzCcw2YYX64qBCVkRkERsH'
const OTHER_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea'
const newUrl = () => `git@git.example.com:acme/shop-${unusedId()}.git`

const connect = (tenant: Tenant, over: object = {}) =>
  tenant.post(BASE_PATH, { host: 'git', base_url: newUrl(), webhook_secret: 'hush-webhook-secret', ...over })

async function readGone(id: string): Promise<unknown[]> {
  const query = sql`
    select h.gone_ref
    from deployments d
    left join deployment_heads h on h.deployment_id = d.id
    where d.id = ${id}::uuid`
  const [[row]] = (await runAsSystem(getApp().database, query)) as unknown as [[unknown[]]]
  return row
}

/** A listener of the workspace takes the role of one of the platform. */
async function setUp(over: object = {}) {
  const tenant = await newTenant()
  const integration = (await connect(tenant, over)).body
  const { listener, key } = await newListener(tenant)
  const opener = makeEnvelopeOpener()
  const agent = makeSyncAgent(tenant, key)
  const poll = (more: object = {}) => agent.poll({ public_key: opener.public_key, ...more })
  await poll({ policy: { ...CLOSED_POLICY, engine: 'process', features: featuresOf('process') } })
  const created = await tenant.post('/v2/deployments', {
    name: `shop-${unusedId()}`,
    source: 'githost',
    source_config: { integration_id: integration.id, repo_url: integration.base_url, build_on_push: true },
    source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
    secrets: [],
  })
  expect(created.status, JSON.stringify(created.body)).toBe(201)
  const { id, latest_revision_id } = created.body
  await runAsSystem(
    getApp().database,
    sql`update deployments set listener_id = ${listener.id}::uuid, generation = generation + 1 where id = ${id}::uuid`,
  )
  const read = async () => (await tenant.get(`${BASE_PATH}/${integration.id}`)).body
  const patch = (body: object) => tenant.patch(`${BASE_PATH}/${integration.id}`, body)
  /** Makes the look due, and takes it. */
  async function takeLook() {
    await finishPendingWork()
    await sweepRepositories(getServices(), { integration_id: integration.id })
    await runAsSystem(
      getApp().database,
      sql`update followed_repositories set look_at = '2000-01-01' where integration_id = ${integration.id}::uuid`,
    )
    const { looks = [] } = await poll()
    expect(looks).toHaveLength(1)
    const look = looks[0]!
    return { ...look, opened: opener.open(look.access, `${listener.id}/looks/${look.id}`) as SshKeys }
  }
  async function report(look: { id: string }, seen: object) {
    const body = { agent_id: agent.agent_id, fence: agent.fence, id: look.id, ...seen }
    const answer = await tenant.as(key).post('/v1/sync/repositories', body)
    await finishPendingWork()
    return answer
  }
  const see = async (refs: Record<string, string>, more: object = {}) => {
    const look = await takeLook()
    const lines = Object.entries(refs).map(([name, sha]) => `${sha} refs/heads/${name}`)
    const key_fingerprint = look.opened.keys.at(-1)!.fingerprint
    const seen = { refs: lines, default_branch: 'main', digest: '0'.repeat(64), key_fingerprint, ...more }
    expect((await report(look, seen)).status).toBe(204)
    return look
  }
  const askCredential = () => {
    const lease = { agent_id: agent.agent_id, fence: agent.fence, public_key: opener.public_key }
    return tenant.as(key).post('/v1/sync/credentials', { ...lease, deployment_id: id, revision_id: latest_revision_id })
  }
  const endBuild = () =>
    runAsSystem(
      getApp().database,
      sql`
        update revisions set status = 'BUILD_FAILED', status_since = '2000-01-01' where deployment_id = ${id}::uuid`,
      sql`update deployments set in_flight_revision_id = null where id = ${id}::uuid`,
    )
  return {
    ...{ tenant, integration, listener, agent, key, opener, id, revision_id: latest_revision_id as string },
    ...{ poll, read, patch, takeLook, report, see, endBuild, askCredential },
  }
}

it('gets a deploy key that is shown again, and whose private half is not', async () => {
  const tenant = await newTenant()
  const { status, body } = await connect(tenant, { host_keys: [HOST_KEY] })
  expect([status, body.name]).toEqual([201, expect.stringMatching(/^acme\/shop-/)])
  expect(body.ssh).toEqual({
    state: 'unverified',
    public_key: expect.stringMatching(/^ssh-ed25519 AAAA\S+ slipway$/),
    next_public_key: null,
    host_keys: [{ type: 'ssh-ed25519', fingerprint: fingerprintOf(HOST_KEY) }],
    refused_host_key: null,
  })
  expect((await tenant.get(`${BASE_PATH}/${body.id}`)).body.ssh).toEqual(body.ssh)
  expect(JSON.stringify((await tenant.get(`${BASE_PATH}/install`)).body)).not.toContain('PRIVATE')
  expect((await tenant.get(`${BASE_PATH}/${body.id}/repos`)).body).toMatchObject([
    { owner: 'acme', url: body.base_url, default_branch: '', empty: false },
  ])
})

it.each([
  [{ token: 'hush' }, 'token'],
  [{ host: 'gitea', token: 'hush' }, 'base_url'],
  [{ host_keys: ['ssh-dss AAAA'] }, 'host_keys'],
  [{ host_keys: [] }, 'host_keys'],
  [{ host_keys: [`ssh-ed25519 ${'A'.repeat(68)}`] }, 'host_keys'],
  [{ host_keys: [HOST_KEY.replace('ssh-ed25519', 'ssh-rsa')] }, 'host_keys'],
  [{ base_url: 'git@host:-oProxyCommand=x' }, 'base_url'],
  [{ base_url: 'https://git.example.com/a.git', host_keys: [HOST_KEY] }, 'host_keys'],
])('is refused with %j', async (over, member) => {
  const { status, body } = await connect(await newTenant(), over)
  expect([status, body.errors[0].loc[1]]).toEqual([422, member])
})

it('is looked at by an agent, which pins the host key, and a push then deploys', async () => {
  const {
    id,
    integration,
    read,
    see,
    endBuild,
    tenant,
    takeLook,
    report,
    revision_id,
    opener,
    listener,
    askCredential,
  } = await setUp()
  const credential = async () => {
    const { credential: sealed } = (await askCredential()).body
    return (opener.open(sealed, `${listener.id}/${id}/${revision_id}/git`) as { ssh: SshKeys }).ssh
  }
  expect((await credential()).host_keys).toEqual([])
  const first = newSha()
  const look = await see({ main: first, 'feature/cart': newSha() }, { host_key: HOST_KEY })
  expect(look).toMatchObject({ url: integration.base_url, digest: null, opened: { host_keys: [] } })
  expect(look.opened.keys[0]!.private_key).toContain('BEGIN OPENSSH PRIVATE KEY')
  expect((await read()).ssh).toMatchObject({
    state: 'verified',
    host_keys: [{ fingerprint: fingerprintOf(HOST_KEY) }],
  })
  expect((await credential()).host_keys).toEqual([HOST_KEY])
  // The first build resolves the ref by itself.
  expect(await listRevisions(tenant, id)).toHaveLength(1)
  await endBuild()
  await see({ main: first })
  expect((await listRevisions(tenant, id))[0]).toMatchObject({ number: 2, commit: { sha: first } })
  await endBuild()
  const second = newSha()
  const last = await see({ main: second })
  expect((await listRevisions(tenant, id))[0]).toMatchObject({ number: 3, commit: { sha: second } })
  // The same refs again are told by their digest alone.
  const again = await takeLook()
  expect(again.digest).not.toBe(last.digest)
  expect((await report(again, { digest: again.digest })).status).toBe(204)
  expect((await tenant.get(`/v2/deployments/${id}/explain`)).body.repository).toMatchObject({ webhook: 'by_hand' })
})

it('sends no status of a preview to a host that takes none', async () => {
  const { id, see, endBuild, tenant } = await setUp()
  const refs = { main: newSha(), 'feature/cart': newSha() }
  await see(refs, { host_key: HOST_KEY })
  await endBuild()
  const policy = { branches: ['feature/*'], kinds: ['branches'] }
  expect((await tenant.put(`/v2/deployments/${id}/preview-policy`, policy)).status).toBe(200)
  await see(refs)
  await notifyPullRequests(getServices(), { within: [id] })
  const query = sql`select notify_attempts, notified_state is null from previews where parent_id = ${id}::uuid`
  expect((await runAsSystem(getApp().database, query)).at(-1)).toEqual([['0', false]])
})

it('refuses a changed host key until a person accepts it', async () => {
  const { read, see, takeLook, report, patch, tenant, id, askCredential } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  const problem = { code: 'host_key_changed', message: 'It shows another key.' }
  await report(await takeLook(), { problem, host_key: OTHER_KEY })
  const fingerprint = fingerprintOf(OTHER_KEY)
  // A build gets the keys, and does not end the problem.
  expect((await askCredential()).status).toBe(200)
  const refused = await read()
  expect(refused).toMatchObject({
    state: 'active',
    problem,
    ssh: { host_keys: [{ fingerprint: fingerprintOf(HOST_KEY) }], refused_host_key: { fingerprint } },
  })
  const { resources } = (await tenant.get(`/v2/deployments/${id}/explain`)).body
  expect(JSON.stringify(resources)).toContain('It shows another key.')
  expect((await patch({ accept_host_key: fingerprintOf(HOST_KEY) })).body.code).toBe('host_key_unknown')
  const accepted = await patch({ accept_host_key: fingerprint })
  expect([accepted.status, accepted.body.ssh.host_keys]).toEqual([200, [{ type: 'ssh-ed25519', fingerprint }]])
  expect(await readEvents(accepted.headers.get('X-Request-Id')!)).toMatchObject([{ type: 'integration.updated' }])
  expect((await see({ main: newSha() })).opened.host_keys).toEqual([OTHER_KEY])
  expect(await read()).toMatchObject({ problem: null, ssh: { refused_host_key: null } })
})

it('keeps the old deploy key until the host has accepted the new one', async () => {
  const { read, see, takeLook, report, patch, integration } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  const { public_key, next_public_key } = (await patch({ new_deploy_key: true })).body.ssh
  expect(public_key).toBe(integration.ssh.public_key)
  const { opened } = await see({ main: newSha() })
  expect(opened.keys.map(({ fingerprint }) => fingerprint)).toEqual([next_public_key, public_key].map(fingerprintOf))
  expect((await read()).ssh.next_public_key).toBe(next_public_key)
  await see({ main: newSha() }, { key_fingerprint: opened.keys[0]!.fingerprint })
  expect((await read()).ssh).toMatchObject({ public_key: next_public_key, next_public_key: null })
  const look = await takeLook()
  expect(look.opened.keys).toEqual([opened.keys[0]])
  await report(look, { problem: { code: 'key_refused', message: 'It refuses the deploy key.' } })
  expect((await read()).problem.code).toBe('key_refused')
})

it('takes no branch for deleted that a list which was cut does not have', async () => {
  const { see, endBuild, id } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  await endBuild()
  await see({ another: newSha() }, { is_cut: true })
  const [cut] = await readGone(id)
  await see({ another: newSha() })
  expect([cut, ...(await readGone(id))]).toEqual([null, 'main'])
})

it('takes one report of each look, so that an agent cannot fill the journal', async () => {
  const { read, see, takeLook, report } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  const look = await takeLook()
  const problem = { code: 'key_refused', message: 'It refuses the deploy key.' }
  await report(look, { problem })
  expect((await report(look, { problem: { ...problem, message: 'It refuses it again.' } })).status).toBe(204)
  expect(await read()).toMatchObject({ problem })
})

it('says nothing of the integration while the host is away, and looks again sooner', async () => {
  const { read, see, takeLook, report, tenant, id, integration } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  const before = await read()
  await report(await takeLook(), { problem: { code: 'host_away', message: 'The host does not answer.' } })
  expect(await read()).toEqual(before)
  const { resources } = (await tenant.get(`/v2/deployments/${id}/explain`)).body
  expect(JSON.stringify(resources)).toContain('The host does not answer.')
  const [[row]] = (await runAsSystem(
    getApp().database,
    sql`select look_at < clock() + interval '1 minute' from followed_repositories
      where integration_id = ${integration.id}::uuid`,
  )) as unknown as [[[boolean]]]
  expect(row).toEqual([true])
})

it('gives the key to the agent of a repository alone, and again after two minutes without a report', async () => {
  const { takeLook, poll, tenant, report, agent } = await setUp()
  const look = await takeLook()
  expect((await poll()).looks).toBeUndefined()
  await withClockAhead(130_000, async () => {
    // The lease has expired meanwhile, and the same agent renews it.
    expect((await poll()).looks).toMatchObject([{ id: look.id }])
  })
  const other = await newListener(tenant)
  const stranger = makeSyncAgent(tenant, other.key)
  await stranger.poll({ policy: { ...CLOSED_POLICY, features: featuresOf('process') } })
  const body = { agent_id: stranger.agent_id, fence: stranger.fence, id: look.id, host_key: OTHER_KEY }
  const problem = { code: 'host_key_changed', message: 'a lie' }
  expect((await tenant.as(other.key).post('/v1/sync/repositories', { ...body, problem })).status).toBe(204)
  expect((await report(look, { problem })).status).toBe(204)
  expect((await report(look, { problem, fence: agent.fence! + 1 })).body.code).toBe('fence_stale')
})

it('looks now when the webhook says so, and after a recheck', async () => {
  const { see, poll, tenant, integration } = await setUp({ host_keys: [HOST_KEY] })
  await see({ main: newSha() })
  await runAsSystem(
    getApp().database,
    sql`update followed_repositories set look_started_at = '2000-01-01' where integration_id = ${integration.id}::uuid`,
  )
  expect((await poll()).looks).toBeUndefined()
  expect((await tenant.post(`${BASE_PATH}/${integration.id}/recheck`)).status).toBe(200)
  expect((await poll()).looks).toHaveLength(1)
})

it('is looked at again where that was asked for during a look, which may have read older refs', async () => {
  const { takeLook, report, poll, integration } = await setUp({ host_keys: [HOST_KEY] })
  const look = await takeLook()
  const makeDue = sql`
    update followed_repositories set look_at = '2000-01-01' where integration_id = ${integration.id}::uuid`
  await runAsSystem(getApp().database, makeDue)
  expect((await poll()).looks).toBeUndefined()
  await report(look, { refs: [], digest: '0'.repeat(64) })
  expect((await poll()).looks).toMatchObject([{ id: look.id }])
})

it('takes no more than two places of an agent that workspaces share', async () => {
  const agent = await getPlatformAgent()
  await agent.poll({ fence: null, policy: { ...CLOSED_POLICY, features: featuresOf('process') } })
  const [first, second] = [await newTenant(), await newTenant()]
  const connected: string[] = []
  for (const tenant of [first, first, first, second]) {
    const { body: integration } = await connect(tenant, { host_keys: [HOST_KEY] })
    connected.push(integration.base_url)
    const created = await tenant.post('/v2/deployments', {
      name: `shop-${unusedId()}`,
      source: 'githost',
      source_config: { integration_id: integration.id, repo_url: integration.base_url },
      source_revision_config: { repo_ref: 'main' },
      secrets: [],
    })
    expect(created.status, JSON.stringify(created.body)).toBe(201)
  }
  // It takes the deployments over.
  await agent.pollAll()
  await finishPendingWork()
  await sweepRepositories(getServices(), { integration_id: unusedId() })
  const take = async () => {
    const { looks = [] } = await agent.poll()
    return looks.filter(({ url }) => connected.includes(url))
  }
  const looks = await take()
  const ofFirst = looks.filter(({ url }) => url !== connected[3])
  expect([looks.length, ofFirst.length]).toEqual([3, 2])
  expect(await take()).toEqual([])
  const { agent_id, fence } = agent
  const problem = { code: 'host_away', message: 'The host does not answer.' }
  await agent.post('/v1/sync/repositories', { agent_id, fence, id: ofFirst[0]!.id, problem })
  expect(await take()).toHaveLength(1)
})

it('is refused when it is planned where no agent has the program ssh', async () => {
  const tenant = await newTenant()
  const { body: integration } = await connect(tenant)
  const create = () =>
    tenant.post('/v2/deployments', {
      name: `shop-${unusedId()}`,
      source: 'githost',
      source_config: { integration_id: integration.id, repo_url: integration.base_url },
      source_revision_config: { repo_ref: 'main' },
      secrets: [],
    })
  const agent = await getPlatformAgent()
  await agent.poll({ fence: null, policy: { ...CLOSED_POLICY, features: featuresOf('process', ['git_ssh']) } })
  expect((await create()).body).toMatchObject({
    code: 'not_allowed_by_listener',
    detail: expect.stringContaining('source_config.repo_url'),
  })
  await agent.poll({ fence: null, policy: { ...CLOSED_POLICY, features: featuresOf('process') } })
  expect((await create()).status).toBe(201)
})
