import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../src/kernel/wait-until.ts'
import { type App, foreignServers, newTenant, send, startApp, type Tenant } from '../support/app.ts'
import { listRevisions } from '../support/deployments.ts'
import { combineHosts, GITHUB_APP, makeGithub, makeRepositories } from '../support/fake-git-hosts.ts'
import { PKCS1 } from '../support/github-app-key.ts'
import { newIntegration } from '../support/integrations.ts'
import { newSha, signBody } from '../support/pushes.ts'

const OPERATORS_SECRET = 'hush-webhook-secret'
const BASE = 'https://github.com'
let installations = 5000 + Math.floor(Math.random() * 1e6) * 10

async function deliver(
  event: string,
  payload: object,
  { at = '', secret = OPERATORS_SECRET, app }: { at?: string; secret?: string; app?: App } = {},
) {
  const raw = JSON.stringify(payload)
  const headers = {
    'Content-Type': 'application/json; charset=utf-8',
    ...{ 'X-GitHub-Event': event, 'X-GitHub-Delivery': crypto.randomUUID() },
    'X-Hub-Signature-256': `sha256=${await signBody(raw, secret)}`,
  }
  const options = { raw, headers, ...(app && { app }) }
  const reply = await send('POST', `/v1/integrations/forge/githost${at}/webhook`, options)
  await finishPendingWork()
  return reply
}

/** A repository that these tenants can access, each by an installation of the operator's App or of its own. */
async function reachRepository(...apps: { tenant: Tenant; own?: boolean }[]) {
  const world = makeGithub(BASE)
  foreignServers.fetch = combineHosts(world)
  const [repository] = makeRepositories(1)
  const url = `${BASE}/acme/${repository!.name}`
  const all = await Promise.all(
    apps.map(async ({ tenant, own }) => {
      const installation = ++installations
      world.installations.set(installation, { account: { id: 1, login: 'acme' }, repositories: [repository!] })
      const over = { host: 'github', base_url: BASE, installation_id: String(installation) } as const
      const credentials = { private_key: PKCS1, webhook_secret: 'hush-own' }
      const id = own
        ? await newIntegration(tenant, { ...over, app_id: GITHUB_APP.id }, credentials)
        : await newIntegration(tenant, over, null)
      const body = {
        name: `app-${installation}`,
        source: 'githost',
        source_config: { integration_id: id, repo_url: url, build_on_push: true },
        source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
        secrets: [],
      }
      const deployment = (await tenant.post('/v2/deployments', body)).body
      const shas = async () => (await listRevisions(tenant, deployment.id)).map(revision => revision.commit?.sha)
      return { installation, id, deployment, shas }
    }),
  )
  const push = (installation: number, ref = 'main') => {
    const sha = newSha()
    world.commits.set(ref, { sha, message: 'Two', author: 'ada' })
    return {
      ...{ ref: `refs/heads/${ref}`, before: '0'.repeat(40), after: sha, created: true, deleted: false, forced: false },
      head_commit: { id: sha, message: 'Two', author: { name: 'Ada' } },
      repository: { id: 1, html_url: url, clone_url: `${url}.git` },
      ...{ sender: { login: 'ada' }, installation: { id: installation } },
    }
  }
  return { world, all, push }
}

describe('a GitHub App', () => {
  it('of the operator delivers to the installation that the payload names, and to no other workspace', async () => {
    const { world, all, push } = await reachRepository({ tenant: await newTenant() }, { tenant: await newTenant() })
    const payload = push(all[0]!.installation)
    expect((await deliver('push', payload)).status).toBe(202)
    expect(await all[0]!.shas()).toEqual([payload.after, undefined])
    expect(await all[1]!.shas()).toEqual([undefined])
    // The minted token is reused.
    await deliver('push', push(all[0]!.installation))
    expect(world.state.mintedTokens).toBe(1)
  })

  it('of a workspace delivers to its own URL with its own secret', async () => {
    const { all, push } = await reachRepository({ tenant: await newTenant(), own: true }, { tenant: await newTenant() })
    const [own, operators] = all
    const payload = push(own!.installation)
    const at = `/${own!.id}`
    expect((await deliver('push', payload, { at })).status).toBe(401)
    expect((await deliver('push', payload, { at, secret: 'hush-own' })).status).toBe(202)
    expect(await own!.shas()).toEqual([payload.after, undefined])
    // It cannot deliver for an installation of another App.
    await deliver('push', push(operators!.installation), { at, secret: 'hush-own' })
    expect(await operators!.shas()).toEqual([undefined])
  })

  it('that is suspended or deleted stops delivering, and its integration shows that', async () => {
    const tenant = await newTenant()
    const { all, push } = await reachRepository({ tenant })
    const [{ installation, id, shas }] = all as [(typeof all)[0]]
    const state = async () => (await tenant.get(`/v1/integrations/forge/githost/${id}`)).body.state
    const about = (action: string) => ({ action, installation: { id: installation }, sender: { login: 'ada' } })
    await deliver('installation', about('suspend'))
    expect(await state()).toBe('suspended')
    await deliver('push', push(installation))
    expect(await shas()).toEqual([undefined])
    await deliver('installation', about('unsuspend'))
    expect(await state()).toBe('active')
    await deliver('push', push(installation))
    expect(await shas()).toHaveLength(2)
    await deliver('installation', about('deleted'))
    expect(await state()).toBe('revoked')
  })

  it('of a workspace is suspended and resumed by deliveries to its own URL', async () => {
    const tenant = await newTenant()
    const { all } = await reachRepository({ tenant, own: true })
    const [{ installation, id }] = all as [(typeof all)[0]]
    const about = (action: string) => ({ action, installation: { id: installation }, sender: { login: 'ada' } })
    for (const [action, state] of [
      ['suspend', 'suspended'],
      ['unsuspend', 'active'],
    ] as const) {
      expect((await deliver('installation', about(action), { at: `/${id}`, secret: 'hush-own' })).status).toBe(202)
      expect((await tenant.get(`/v1/integrations/forge/githost/${id}`)).body.state).toBe(state)
    }
  })

  it('of a workspace that was revoked is rejected for every workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const { all, push } = await reachRepository({ tenant, own: true }, { tenant: other, own: true })
    const [one, theirs] = all
    const at = { at: `/${one!.id}`, secret: 'hush-own' }
    await deliver('installation', { action: 'deleted', installation: { id: one!.installation } }, at)
    expect((await tenant.get(`/v1/integrations/forge/githost/${one!.id}`)).body.state).toBe('revoked')
    for (const { installation } of [one!, theirs!]) {
      const reply = await deliver('push', push(installation), at)
      expect([reply.status, reply.body?.code]).toEqual([401, 'delivery_unsigned'])
    }
    expect([await one!.shas(), await theirs!.shas()]).toEqual([[undefined], [undefined]])
  })

  it('of a workspace with several installations is accepted while one of them is left', async () => {
    const tenant = await newTenant()
    const { all, push } = await reachRepository({ tenant, own: true }, { tenant, own: true })
    const [one, left] = all
    const at = { at: `/${one!.id}`, secret: 'hush-own' }
    const gone = ({ installation }: { installation: number }) =>
      deliver('installation', { action: 'deleted', installation: { id: installation } }, at)
    await gone(one!)
    const payload = push(left!.installation)
    expect((await deliver('push', payload, at)).status).toBe(202)
    expect(await left!.shas()).toEqual([payload.after, undefined])
    await gone(left!)
    expect((await deliver('push', payload, at)).status).toBe(401)
  })

  it('that is not configured is always rejected', async () => {
    const none = Object.fromEntries(
      ['ID', 'SLUG', 'PRIVATE_KEY', 'CLIENT_ID', 'CLIENT_SECRET', 'WEBHOOK_SECRET'].map(name => [
        `GITHUB_APP_${name}`,
        '',
      ]),
    )
    const app = startApp({ settings: none })
    expect((await deliver('ping', {}, { app })).status).toBe(401)
    expect((await deliver('ping', {}, { app, secret: 'undefined' })).status).toBe(401)
  })
})
