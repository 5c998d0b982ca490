// What an agent clones with: its host is asked, by the integration, when it is needed.
import { sql } from 'drizzle-orm'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { foreignServers, getApp, logLines, newTenant, readEvents, type Tenant, unusedId } from '../support/app.ts'
import { newDeployment } from '../support/deployments.ts'
import { makeEnvelopeOpener } from '../support/envelope-opener.ts'
import { combineHosts, makeGithub, makeRepositories, TOKEN_PREFIX } from '../support/fake-git-hosts.ts'
import { GITEA_URL, makeRepositoryBody, newIntegration } from '../support/integrations.ts'
import { makeSyncAgent, newListener } from '../support/sync-agent.ts'

const nowhere = foreignServers.fetch
let cloud = makeGithub()
let installation = 0
beforeEach(() => {
  cloud = makeGithub()
  installation = crypto.getRandomValues(new Uint32Array(1))[0]!
  cloud.installations.set(installation, { account: { id: 1, login: 'acme' }, repositories: makeRepositories(2) })
  foreignServers.fetch = combineHosts(cloud)
})
afterEach(() => {
  foreignServers.fetch = nowhere
})

/** Sources from repositories are served by the installation's own listeners; here a workspace's stands in for one. */
async function createGitWork(tenant: Tenant, integration_id: string, repo_url: string) {
  const { listener, key } = await newListener(tenant)
  const body = await makeRepositoryBody(tenant, { source_config: { integration_id, repo_url, build_on_push: false } })
  const { id, latest_revision_id } = await newDeployment(tenant, body)
  const served = sql`
    update deployments set listener_id = ${listener.id}::uuid, generation = generation + 1
    where id = ${id}::uuid`
  await runAsSystem(getApp().database, served)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll()
  const { public_key, open } = makeEnvelopeOpener()
  const wish = {
    agent_id: agent.agent_id,
    fence: agent.fence,
    public_key,
    deployment_id: id,
    revision_id: latest_revision_id,
  }
  const ask = (over = {}, as = key) => tenant.as(as).post('/v1/sync/credentials', { ...wish, ...over })
  return { id, revision: latest_revision_id as string, listener, ask, open }
}
const installApp = (tenant: Tenant, over = {}) =>
  newIntegration(
    tenant,
    { host: 'github', base_url: 'https://github.com', installation_id: String(installation), account_id: '1', ...over },
    null,
  )

describe('a credential', () => {
  it('of an App is minted for that repository, sealed to the agent, and journaled', async () => {
    const tenant = await newTenant()
    const { id, revision, listener, ask, open } = await createGitWork(
      tenant,
      await installApp(tenant),
      'https://github.com/acme/repo-00001',
    )
    const { status, body, headers } = await ask()
    expect(status).toBe(200)
    const opened = open(body.credential, `${listener.id}/${id}/${revision}/git`)
    expect(opened).toEqual({ username: 'x-access-token', password: expect.stringContaining(TOKEN_PREFIX) })
    const events = await readEvents(headers.get('X-Request-Id')!)
    expect(events).toMatchObject([
      { type: 'revision.credential_revealed', subject_id: revision, actor_kind: 'listener', actor_id: listener.id },
    ])
    expect(JSON.stringify([events, logLines])).not.toContain(TOKEN_PREFIX)
  })

  it('of an account is its token, and nobody is asked', async () => {
    const tenant = await newTenant()
    foreignServers.fetch = nowhere
    const { id, revision, listener, ask, open } = await createGitWork(
      tenant,
      await newIntegration(tenant),
      `${GITEA_URL}/acme/app`,
    )
    const { body } = await ask()
    expect(open(body.credential, `${listener.id}/${id}/${revision}/git`)).toEqual({
      username: 'oauth2',
      password: 'hush-token',
    })
  })

  it('is refused where the host is not to be asked, and says why', async () => {
    const tenant = await newTenant()
    const integration = await installApp(tenant)
    const { ask } = await createGitWork(tenant, integration, 'https://github.com/acme/repo-00001')
    const codeOf = async (over = {}) => (await ask(over)).body.code
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

  it('is no other listener’s', async () => {
    const tenant = await newTenant()
    const { ask } = await createGitWork(tenant, await installApp(tenant), 'https://github.com/acme/repo-00001')
    const { key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await agent.poll()
    const { status, body } = await ask({ agent_id: agent.agent_id, fence: agent.fence }, key)
    expect([status, body.code]).toEqual([404, 'revision_not_found'])
  })
})
