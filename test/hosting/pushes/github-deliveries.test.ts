import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sendCommitStatuses } from '../../../src/hosting/pushes/commit-statuses.ts'
import {
  type App,
  foreignServers,
  getServices,
  newTenant,
  send,
  startApp,
  type Tenant,
  withClockAhead,
} from '../../support/app.ts'
import { advanceRevisionTo, listRevisions } from '../../support/deployments.ts'
import { combineHosts, GITHUB_APP, makeGithub, makeRepositories } from '../../support/fake-git-hosts.ts'
import { PKCS1 } from '../../support/github-app-key.ts'
import { newIntegration } from '../../support/integrations.ts'
import { newSha, signBody } from '../../support/pushes.ts'

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
    'X-GitHub-Event': event,
    'X-GitHub-Delivery': crypto.randomUUID(),
    'X-Hub-Signature-256': `sha256=${await signBody(raw, secret)}`,
  }
  const options = { raw, headers, ...(app && { app }) }
  const reply = await send('POST', `/v1/integrations/forge/githost${at}/webhook`, options)
  await finishPendingWork()
  return reply
}

/** A repository that these tenants can access, each by an installation of the operator's App or of its own. */
async function connectRepository(...apps: { tenant: Tenant; hasOwnApp?: boolean }[]) {
  const github = makeGithub(BASE)
  foreignServers.fetch = combineHosts(github)
  const [repository] = makeRepositories(1)
  const url = `${BASE}/acme/${repository!.name}`
  const connections = await Promise.all(
    apps.map(async ({ tenant, hasOwnApp }) => {
      const installation = ++installations
      github.installations.set(installation, { account: { id: 1, login: 'acme' }, repositories: [repository!] })
      const over = { host: 'github', base_url: BASE, installation_id: String(installation) } as const
      const credentials = { private_key: PKCS1, webhook_secret: 'hush-own' }
      const id = hasOwnApp
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
      const listShas = async () => (await listRevisions(tenant, deployment.id)).map(revision => revision.commit?.sha)
      return { installation, id, deployment, listShas }
    }),
  )
  const push = (installation: number, ref = 'main') => {
    const sha = newSha()
    github.commits.set(ref, { sha, message: 'Two', author: 'ada' })
    return {
      ref: `refs/heads/${ref}`,
      before: '0'.repeat(40),
      after: sha,
      created: true,
      deleted: false,
      forced: false,
      head_commit: { id: sha, message: 'Two', author: { name: 'Ada' } },
      repository: { id: 1, html_url: url, clone_url: `${url}.git` },
      sender: { login: 'ada' },
      installation: { id: installation },
    }
  }
  return { github, connections, push }
}

describe('a GitHub App', () => {
  it('that the operator owns delivers only to the installation that the payload names', async () => {
    const { github, connections, push } = await connectRepository(
      { tenant: await newTenant() },
      { tenant: await newTenant() },
    )
    const payload = push(connections[0]!.installation)
    expect((await deliver('push', payload)).status).toBe(202)
    expect(await connections[0]!.listShas()).toEqual([payload.after, undefined])
    expect(await connections[1]!.listShas()).toEqual([undefined])
    await deliver('push', push(connections[0]!.installation))
    // One for each installation, since its deployment was created.
    expect(github.state.mintedTokens).toBe(2)
  })

  it('that a workspace owns delivers to its own URL with its own secret', async () => {
    const { connections, push } = await connectRepository(
      { tenant: await newTenant(), hasOwnApp: true },
      { tenant: await newTenant() },
    )
    const [ownApp, operatorApp] = connections
    const payload = push(ownApp!.installation)
    const at = `/${ownApp!.id}`
    expect((await deliver('push', payload, { at })).status).toBe(401)
    expect((await deliver('push', payload, { at, secret: 'hush-own' })).status).toBe(202)
    expect(await ownApp!.listShas()).toEqual([payload.after, undefined])
    // The App of a workspace cannot deliver for an installation of another App.
    await deliver('push', push(operatorApp!.installation), { at, secret: 'hush-own' })
    expect(await operatorApp!.listShas()).toEqual([undefined])
  })

  it('that is suspended or deleted is no longer accepted, and its integration shows the state', async () => {
    const tenant = await newTenant()
    const { connections, push } = await connectRepository({ tenant })
    const [{ installation, id, listShas }] = connections as [(typeof connections)[0]]
    const readState = async () => (await tenant.get(`/v1/integrations/forge/githost/${id}`)).body.state
    const makePayload = (action: string) => ({ action, installation: { id: installation }, sender: { login: 'ada' } })
    await deliver('installation', makePayload('suspend'))
    expect(await readState()).toBe('suspended')
    await deliver('push', push(installation))
    expect(await listShas()).toEqual([undefined])
    await deliver('installation', makePayload('unsuspend'))
    expect(await readState()).toBe('active')
    await deliver('push', push(installation))
    expect(await listShas()).toHaveLength(2)
    await deliver('installation', makePayload('deleted'))
    expect(await readState()).toBe('revoked')
  })

  it('that a workspace owns is suspended and resumed by deliveries to its own URL', async () => {
    const tenant = await newTenant()
    const { connections } = await connectRepository({ tenant, hasOwnApp: true })
    const [{ installation, id }] = connections as [(typeof connections)[0]]
    const makePayload = (action: string) => ({ action, installation: { id: installation }, sender: { login: 'ada' } })
    for (const [action, state] of [
      ['suspend', 'suspended'],
      ['unsuspend', 'active'],
    ] as const) {
      expect((await deliver('installation', makePayload(action), { at: `/${id}`, secret: 'hush-own' })).status).toBe(
        202,
      )
      expect((await tenant.get(`/v1/integrations/forge/githost/${id}`)).body.state).toBe(state)
    }
  })

  it('that a workspace owns is rejected for every workspace after its installation was deleted', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const { connections, push } = await connectRepository(
      { tenant, hasOwnApp: true },
      { tenant: other, hasOwnApp: true },
    )
    const [revoked, active] = connections
    const at = { at: `/${revoked!.id}`, secret: 'hush-own' }
    await deliver('installation', { action: 'deleted', installation: { id: revoked!.installation } }, at)
    expect((await tenant.get(`/v1/integrations/forge/githost/${revoked!.id}`)).body.state).toBe('revoked')
    for (const { installation } of [revoked!, active!]) {
      const reply = await deliver('push', push(installation), at)
      expect([reply.status, reply.body?.code]).toEqual([409, 'integration_revoked'])
    }
    expect([await revoked!.listShas(), await active!.listShas()]).toEqual([[undefined], [undefined]])
  })

  it('that a workspace owns is accepted while one of its installations is active', async () => {
    const tenant = await newTenant()
    const { connections, push } = await connectRepository({ tenant, hasOwnApp: true }, { tenant, hasOwnApp: true })
    const [first, second] = connections
    const at = { at: `/${first!.id}`, secret: 'hush-own' }
    const uninstall = ({ installation }: { installation: number }) =>
      deliver('installation', { action: 'deleted', installation: { id: installation } }, at)
    await uninstall(first!)
    const payload = push(second!.installation)
    expect((await deliver('push', payload, at)).status).toBe(202)
    expect(await second!.listShas()).toEqual([payload.after, undefined])
    await uninstall(second!)
    expect((await deliver('push', payload, at)).status).toBe(409)
  })

  it('that the operator has not configured is rejected', async () => {
    const settings = Object.fromEntries(
      ['ID', 'SLUG', 'PRIVATE_KEY', 'CLIENT_ID', 'CLIENT_SECRET', 'WEBHOOK_SECRET'].map(name => [
        `GITHUB_APP_${name}`,
        '',
      ]),
    )
    const app = startApp({ settings })
    expect((await deliver('ping', {}, { app })).status).toBe(401)
    expect((await deliver('ping', {}, { app, secret: 'undefined' })).status).toBe(401)
  })
})

it('shows a pushed revision as one check and one Deployment, and names a permission that the App lacks', async () => {
  const tenant = await newTenant()
  const { github, connections, push } = await connectRepository({ tenant })
  const { installation, id: integration_id, deployment } = connections[0]!
  const { id } = deployment
  await advanceRevisionTo(tenant, id, deployment.latest_revision_id)
  const { checks, deployments } = github.revisions
  const pushed = async () => {
    await deliver('push', push(installation))
    await sendCommitStatuses(getServices(), { within: [id] })
    return (await listRevisions(tenant, id))[0]!
  }
  const ended = async (revision_id: string, status?: 'BUILD_FAILED') => {
    await advanceRevisionTo(tenant, id, revision_id, status)
    await finishPendingWork()
    await sendCommitStatuses(getServices(), { within: [id] })
  }
  const first = await pushed()
  const sha = first.commit!.sha
  expect(checks).toMatchObject([{ head_sha: sha, external_id: first.id, status: 'queued' }])
  expect(deployments).toMatchObject([{ ref: sha, environment: deployment.name, state: 'queued', auto_merge: false }])
  await ended(first.id)
  expect(checks).toMatchObject([{ status: 'completed', conclusion: 'success' }])
  expect(deployments).toMatchObject([{ state: 'success' }])
  const log = `/deployments/${id}/logs?revision=${first.id}`
  expect([checks[0]!.details_url, deployments[0]!.log_url]).toEqual(Array(2).fill(expect.stringContaining(log)))

  github.state.denied = ['checks']
  const second = await pushed()
  await ended(second.id, 'BUILD_FAILED')
  expect([checks.length, deployments[1]!.state]).toEqual([1, 'failure'])
  const problem = async () => (await tenant.get(`/v1/integrations/forge/githost/${integration_id}`)).body.problem
  const message = expect.stringContaining('needs checks=write')
  expect(await problem()).toMatchObject({ code: 'access_refused', work: 'deployment', message })
  const statuses = github.writes.filter(({ path }) => path.endsWith(`/statuses/${second.commit!.sha}`))
  expect(statuses.at(-1)!.body.state).toBe('failure')
  const asked = github.writes.length
  await withClockAhead(7_200_000, () => sendCommitStatuses(getServices(), { within: [id] }))
  expect(github.writes.length).toBe(asked)

  github.state.denied = []
  await pushed()
  expect([checks.length, await problem()]).toEqual([2, null])
})
