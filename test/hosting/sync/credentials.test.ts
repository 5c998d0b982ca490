// The credentials with which an agent clones a repository.
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { foreignServers, getApp, logLines, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { combineHosts, makeGithub, makeRepositories, TOKEN_PREFIX } from '../../support/fake-git-hosts.ts'
import { GITEA_URL, makeRepositoryBody, newIntegration } from '../../support/integrations.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const noServers = foreignServers.fetch
let cloud = makeGithub()
let installation = 0
beforeEach(() => {
  cloud = makeGithub()
  installation = crypto.getRandomValues(new Uint32Array(1))[0]!
  cloud.installations.set(installation, { account: { id: 1, login: 'acme' }, repositories: makeRepositories(2) })
  foreignServers.fetch = combineHosts(cloud)
})
afterEach(() => {
  foreignServers.fetch = noServers
})

/** Deployments from git are served by platform listeners. Here a listener of the workspace takes that role. */
async function createGitWork(tenant: Tenant, integration_id: string, repo_url: string) {
  const { listener, key } = await newListener(tenant)
  const body = await makeRepositoryBody(tenant, { source_config: { integration_id, repo_url, build_on_push: false } })
  const { id, latest_revision_id } = await newDeployment(tenant, body)
  const assignListener = sql`
    update deployments set listener_id = ${listener.id}::uuid, generation = generation + 1
    where id = ${id}::uuid`
  await runAsSystem(getApp().database, assignListener)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll()
  const { public_key, open } = makeEnvelopeOpener()
  const request = {
    agent_id: agent.agent_id,
    fence: agent.fence,
    public_key,
    deployment_id: id,
    revision_id: latest_revision_id,
  }
  const requestCredential = (over = {}, as = key) => tenant.as(as).post('/v1/sync/credentials', { ...request, ...over })
  return { id, revision: latest_revision_id as string, listener, requestCredential, open }
}
const installApp = (tenant: Tenant, over = {}) =>
  newIntegration(
    tenant,
    { host: 'github', base_url: 'https://github.com', installation_id: String(installation), account_id: '1', ...over },
    null,
  )

describe('a credential', () => {
  it('from a GitHub App is a new token that is sealed to the agent and journaled', async () => {
    const tenant = await newTenant()
    const { id, revision, listener, requestCredential, open } = await createGitWork(
      tenant,
      await installApp(tenant),
      'https://github.com/acme/repo-00001',
    )
    const { status, body, headers } = await requestCredential()
    expect(status).toBe(200)
    const opened = open(body.credential, `${listener.id}/${id}/${revision}/git`)
    expect(opened).toEqual({ username: 'x-access-token', password: expect.stringContaining(TOKEN_PREFIX) })
    const events = await readEvents(headers.get('X-Request-Id')!)
    expect(events).toMatchObject([
      { type: 'revision.credential_revealed', subject_id: revision, actor_kind: 'listener', actor_id: listener.id },
    ])
    expect(JSON.stringify([events, logLines])).not.toContain(TOKEN_PREFIX)
  })

  it('from an account is its stored token, without a request to the host', async () => {
    const tenant = await newTenant()
    foreignServers.fetch = noServers
    const { id, revision, listener, requestCredential, open } = await createGitWork(
      tenant,
      await newIntegration(tenant),
      `${GITEA_URL}/acme/app`,
    )
    const { body } = await requestCredential()
    expect(open(body.credential, `${listener.id}/${id}/${revision}/git`)).toEqual({
      username: 'oauth2',
      password: 'hush-token',
    })
  })

  it('is refused with a reason for a wrong revision, lease or integration', async () => {
    const tenant = await newTenant()
    const integration = await installApp(tenant)
    const { requestCredential } = await createGitWork(tenant, integration, 'https://github.com/acme/repo-00001')
    const codeOf = async (over = {}) => (await requestCredential(over)).body.code
    expect(await codeOf({ revision_id: unusedId() })).toBe('revision_not_found')
    expect(await codeOf({ deployment_id: unusedId() })).toBe('revision_not_found')
    expect(await codeOf({ fence: 4711 })).toBe('fence_stale')
    for (const state of ['suspended', 'revoked']) {
      const set = sql`update integrations set state = ${state} where id = ${integration}::uuid`
      await runAsSystem(getApp().database, set)
      expect(await codeOf()).toBe(`integration_${state}`)
    }
    await tenant.delete(`/v1/integrations/forge/githost/${integration}`)
    expect(await codeOf()).toBe('integration_not_found')
  })

  it('is refused to another listener of the workspace', async () => {
    const tenant = await newTenant()
    const { requestCredential } = await createGitWork(
      tenant,
      await installApp(tenant),
      'https://github.com/acme/repo-00001',
    )
    const { key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await agent.poll()
    const { status, body } = await requestCredential({ agent_id: agent.agent_id, fence: agent.fence }, key)
    expect([status, body.code]).toEqual([404, 'revision_not_found'])
  })
})
