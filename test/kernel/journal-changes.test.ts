// The events of every operation record the request, the actor, and the members that changed.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { createVerificationRecord } from '../../src/hosting/custom-hosts/custom-hosts.ts'
import { NewDeployment } from '../../src/hosting/deployments/schema.ts'
import { NewSchedule } from '../../src/hosting/jobs/schema.ts'
import { GrantRequest } from '../../src/hosting/protection/schema.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { type Operation, successStatus } from '../../src/kernel/http/routes.ts'
import { ADMIN } from '../../src/people/access/built-in-roles.ts'
import { NewAccessPolicy } from '../../src/people/access/policies.schema.ts'
import { GRANT_TYPE } from '../../src/people/sign-in/device.ts'
import type { Mail } from '../../src/platform.ts'
import { CLOSED_POLICY } from '../../src/protocol/listener-policy.ts'
import { POLICIES } from '../support/access-policies.ts'
import {
  getExampleBody,
  getExampleQuery,
  getExampleRequest,
  newTenant,
  readEvents,
  send,
  startApp,
  txtRecords,
  unusedId,
} from '../support/app.ts'
import { makeArchive } from '../support/archives.ts'
import { ISSUER, newProvider, readState } from '../support/authorization-server.ts'
import { linkIn } from '../support/channels.ts'
import { makeDataCalls } from '../support/data-calls.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { newDeployment } from '../support/deployments.ts'
import { makeGitea, makeRepositories } from '../support/fake-git-hosts.ts'
import { GITEA_URL } from '../support/integrations.ts'
import { POLICY, STORE, startServing, startWithDisk } from '../support/jobs.ts'
import { newPathParameters } from '../support/path-parameters.ts'
import { getPolicyPath, setUpPreviews } from '../support/previews.ts'
import { AUTH_ORIGIN, MCP_ORIGIN, makeDiscoverBody, makeMcpServer, PROVIDERS_PATH } from '../support/providers.ts'
import { newSha, serveRepositories } from '../support/pushes.ts'
import { newServingDeployment } from '../support/serving-deployment.ts'
import { cookieHeaders, newSession, tokenOf } from '../support/sessions.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'
import { isWorker } from '../support/tracing-clients.ts'
import { makeSourceBody } from '../support/uploads-suite.ts'

const operations = await loadOperations()

const REQUEST_ID = `changes-${unusedId()}`
const HEADERS = { 'User-Agent': 'journal-test/1.0', 'X-Test-Address': '203.0.113.9' }
const CANARY = 'canary-value'
/** Makes every secret that is sent here. */
const makeSecret = (name: string) => `${CANARY}-${name}-${unusedId()}`

/** Operations whose events name no changed member, and why. */
const WITHOUT_CHANGES: Record<string, string> = {
  ...Object.fromEntries(
    [
      'changeDatasetSplit',
      'changeExample',
      'changeExampleMetadata',
      'changeExamples',
      'changeUploadedExamples',
      'cloneDataset',
      'createExample',
      'createExamples',
      'uploadExamples',
      'deleteExample',
      'deleteExampleOfDataset',
      'deleteExamples',
      'eraseExamples',
    ].map(id => [id, 'examples are data; the event has their count']),
  ),
  approveClient: 'the key is created when the program redeems its code',
  approveDevice: 'the key is created when the device asks for it',
  connectAccount: 'starts the flow of a person, or uses a token',
  createForward: 'the event names what it leads to, and never a command',
  createAccessGrant: 'stores nothing',
  createPushToken: 'stores nothing',
  createImagePushToken: 'stores nothing',
  createTerminal: 'the event names what it leads to, and never a command',
  createCredential: 'stores nothing',
  deleteRuns: 'runs are data; the event names the traces',
  putWorkspaceSecret: 'no event has a sealed key, of which only the time is shown',
  deleteTraces: 'runs are data; the event names the traces',
  denyDevice: 'no key is created',
  confirmChannel: 'lets notices be sent',
  pingWebhook: 'sends a message',
  sendChannelConfirmation: 'sends a message',
  testChannel: 'sends a message',
  testDrain: 'sends a line',
  poll: 'hands out secrets',
  recoverWebhook: 'repeats deliveries',
  redeliverWebhookDelivery: 'repeats a delivery',
  shareDataset: 'changes only the link, which no event may show',
  shareThread: 'changes only the link, which no event may show',
  shareRun: 'changes only the link, which no event may show',
  shareTrace: 'changes only the link, which no event may show',
  startInstallation: 'stores the state of a link',
  tagDatasetVersion: 'the event names the version and its tag',
  unshareDataset: 'changes only the link, which no event may show',
  unshareRun: 'changes only the link, which no event may show',
  unshareThread: 'changes only the link, which no event may show',
  unshareTrace: 'changes only the link, which no event may show',
}
/** Operations without an event, and why. */
const WITHOUT_EVENTS: Record<string, string> = {
  ...Object.fromEntries(
    [
      'addRunsToQueue',
      'addRunsToQueueByKey',
      'addQueueItems',
      'populateQueue',
      'changeQueueRun',
      'deleteQueueRun',
      'deleteQueueRuns',
      'deleteQueueItems',
      'changeQueueItem',
      'reviewQueueRun',
      'reviewQueueItem',
    ].map(id => [id, 'items of queues are data, like runs']),
  ),
  changeFeedback: 'feedback is data, like runs',
  createFeedback: 'feedback is data, like runs',
  createFeedbackLinks: 'feedback is data, like runs',
  createRun: 'runs are data',
  createRuns: 'runs are data',
  createRunsFromParts: 'runs are data',
  deleteFeedback: 'feedback is data, like runs',
  exportSpans: 'runs are data',
  patchRun: 'runs are data',
  postLinkFeedback: 'feedback is data, like runs',
  releaseLease: 'the lease of an agent is no resource',
  sendLogs: 'logs are kept beside the journal',
  reportDrains: 'counts of drains are kept beside the journal',
  sendMetrics: 'metrics are kept beside the journal',
  sendEarlyMetrics: 'points of an unfinished minute are not stored',
  sendRepository: 'what an agent sees is kept beside the journal; a change of the integration has an event',
  sendSnapshots: 'the jobs that take snapshots have events',
}
/** Operations that write more than once. */
const WRITES: Record<string, number> = { approvePreview: 2, requestPreview: 2 }
const writes = operations.filter(one => one.method !== 'get' && !one.isReadOnly && !(one.id in WITHOUT_EVENTS))

const gitea = makeGitea()
/** The host of the deployments that `newDeployment` makes. */
const git = makeGitea(GITEA_URL)
git.accounts.set('hush-token', { id: 1, login: 'acme', repositories: [{ id: 1, name: 'app', owner: 'acme' }] })
const mcp = makeMcpServer({
  client: { client_secret: makeSecret('client'), registration_access_token: makeSecret('registration') },
})
const tokens = () => ({
  access_token: makeSecret('access'),
  refresh_token: makeSecret('refresh'),
  token_type: 'Bearer',
  expires_in: 3600,
})
const mails: Mail[] = []
const app = startApp({
  settings: { SMTP_URL: 'smtp://mail.test', SMTP_FROM: 'alerts@slipway.test' },
  overrides: {
    clientAddress: ({ req }) => req.header('X-Test-Address'),
    sendMail: async mail => void mails.push(mail),
  },
})

/** Differences from the operation's example, with the things of the tenant in its path. */
type Call = {
  path?: string
  params?: Record<string, string>
  body?: unknown
  raw?: Uint8Array<ArrayBuffer> | string
  headers?: Record<string, string>
}
type RecordedEvent = {
  type: string
  seq: string
  part_of: string | null
  actor_name: string | null
  request: Record<string, string>
  changes: { path: string; before: unknown; after: unknown }[] | null
}
const results = new Map<string, { status: number; text: string; path: string; events: RecordedEvent[] }>()
const organizations: string[] = []
/** Keys and links that were handed out. */
const handedOut: string[] = []
const noteKey = (key = '') => key.startsWith('slw_') && handedOut.push(key, sha256Hex(key))

async function prepareCalls() {
  const tenant = await newTenant({ app })
  organizations.push(tenant.organization_id)
  const params = await newPathParameters(tenant)
  const inside = { 'X-Tenant-Id': tenant.tenant_id }
  const named = () => `name-${unusedId()}`
  const create = async (path: string, body: unknown = {}): Promise<string> => {
    const reply = await tenant.owner.post(path, body, inside)
    expect(reply.status, reply.text).toBeLessThan(300)
    noteKey(reply.body.key)
    return reply.body.id
  }
  const secrets = [{ name: 'TOKEN', value: makeSecret('deployment') }]
  const deploymentBody = () => ({ ...NewDeployment.meta()!.example!, name: named(), secrets })
  const newRoleBody = (scope: string) => ({ display_name: named(), permissions: ['deployments:read'], scope })
  const newRole = (scope = 'workspace') => create('/orgs/current/roles', newRoleBody(scope))
  const newPolicy = () => create(POLICIES, NewAccessPolicy.meta()!.example)
  const newMember = () => create('/orgs/current/members', { email: `${unusedId()}@example.com` })
  const newMembership = () => create('/workspaces/current/members', { email: `${unusedId()}@example.com` })
  const newChannelBody = (target: object) => ({ name: named(), target })
  const newAddress = async () => {
    const id = await create('/v2/channels', newChannelBody({ kind: 'email', address: `${unusedId()}@example.com` }))
    await finishPendingWork()
    return id
  }
  const addTag = async (deployment_id: string) => {
    const tag_value_ids = [params.tag_value_id]
    await tenant.post(`/v2/deployments/${deployment_id}/tags`, { tag_value_ids })
  }
  const giteaBody = () => {
    const token = makeSecret('git')
    gitea.accounts.set(token, { id: gitea.accounts.size + 1, login: 'bot', repositories: makeRepositories(1, 'bot') })
    return { host: 'gitea', base_url: gitea.base, token, webhook_secret: makeSecret('webhook') }
  }
  const newRestorable = async () => {
    const { id, latest_revision_id } = await newDeployment(tenant, { secrets })
    await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { repo_ref: 'next' } })
    return { deployment_id: id, revision_id: latest_revision_id }
  }
  const rollBack = ({ deployment_id, revision_id }: Record<string, string>) =>
    tenant.post(`/v2/deployments/${deployment_id}/rollback`, { revision_id })
  const newUploadLink = async () => {
    const id = await create('/v2/deployments', makeSourceBody())
    const { pathname, search } = new URL((await tenant.post(`/v2/deployments/${id}/upload-url`)).body.upload_url)
    handedOut.push(new URLSearchParams(search).get('signature')!)
    return pathname + search
  }
  const provider = await newProvider(tenant, app, { provider_id: 'example', client_secret: makeSecret('provider') })
  const beginFlow = async (user_id: string) => {
    const { body } = await tenant.post('/v2/auth/authenticate', { provider: 'example', user_id })
    handedOut.push(readState(body))
    return { state: readState(body), code: makeSecret('code') }
  }
  const connect = async (user_id: string) => {
    const query = new URLSearchParams(await beginFlow(user_id))
    expect((await send('GET', `/v2/auth/callback/example?${query}`, { app })).status).toBe(200)
  }
  const newSchedule = async () => {
    const { id, path } = await startServing(POLICY, tenant)
    return { deployment_id: id, schedule_id: await create(`${path}/schedules`, NewSchedule.meta()!.example as object) }
  }
  const newAgent = async () => {
    const { listener, key } = await newListener(tenant)
    noteKey(key)
    const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: named(), secrets }))
    const agent = makeSyncAgent(tenant, key)
    const { agent_id, public_key } = agent
    return { agent, deployment_id: body.id, revision_id: body.latest_revision_id, agent_id, public_key, key }
  }
  const rollout = {
    steps: [{ share: 10 }],
    gates: { webhook: { url: 'https://gate.example.com/', secret: makeSecret('gate') } },
  }
  const newRollingOut = async () => {
    const { agent, deployment_id } = await newAgent()
    const features = ['images', 'traffic', 'rollout']
    const { changes } = await agent.poll({ policy: { ...CLOSED_POLICY, features } })
    await agent.report(changes.find(one => one.deployment_id === deployment_id)!, { state: 'deployed' })
    const set = await tenant.put(`/v2/deployments/${deployment_id}/rollout`, rollout)
    expect(set.status, set.text).toBe(200)
    await tenant.patch(`/v2/deployments/${deployment_id}`, {
      source_revision_config: { image_uri: `registry.example.com/shop:${unusedId()}` },
    })
    return { deployment_id }
  }
  const policy = {
    branches: ['**'],
    secrets,
    forks: 'approve',
    hooks: { on_create: 'https://hooks.example.com/', secret: makeSecret('hook') },
  }
  const previewParent = async () => ({ deployment_id: (await newDeployment(tenant, { secrets })).id })

  const { token } = await newSession(tenant, { workspaceRole: ADMIN })
  const asPerson = { ...cookieHeaders(token), 'Content-Type': 'application/json' }
  const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const approval = { workspace_id: tenant.tenant_id, access: 'all' }
  const client_id = 'slipway-cli'
  const requestDevice = async () => {
    const raw = String(new URLSearchParams({ client_id }))
    const { body } = await send('POST', '/device/code', { raw, headers: form, app })
    handedOut.push(body.device_code, sha256Hex(body.device_code))
    return body
  }
  const redeemBody = async () => {
    const { device_code, user_code } = await requestDevice()
    const path = `/v2/me/device-requests/${user_code}/approval`
    await send('POST', path, { body: approval, headers: asPerson, app })
    return String(new URLSearchParams({ grant_type: GRANT_TYPE, client_id, device_code }))
  }
  const redirect_uri = 'http://127.0.0.1/callback'
  const oauthClient = (await send('POST', '/oauth/register', { body: { redirect_uris: [redirect_uri] }, app })).body
  const code_verifier = 'v'.repeat(43)
  const newClientApproval = async () => {
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: oauthClient.client_id,
      redirect_uri,
      code_challenge_method: 'S256',
      code_challenge: Buffer.from(sha256Hex(code_verifier), 'hex').toString('base64url'),
    })
    const path = `/v2/me/authorization-request?${query}`
    return { ...approval, request: (await send('GET', path, { headers: asPerson, app })).body.request }
  }
  const calls: Record<string, () => Promise<Call> | Call> = {
    ...makeDataCalls(tenant, create, params.member_id!),
    createDeployment: () => ({ body: deploymentBody() }),
    deleteDeployments: async () => ({
      path: `/v2/deployments?deployment_ids=${(await newDeployment(tenant)).id}`,
    }),
    patchDeployment: async () => ({
      params: { deployment_id: (await newDeployment(tenant)).id },
      body: { source_config: { build_on_push: false }, secrets },
    }),
    deleteDeployment: async () => ({ params: { deployment_id: (await newDeployment(tenant)).id } }),
    redeployRevision: async () => ({ params: await newRestorable() }),
    interruptRevision: async () => {
      const { id, latest_revision_id } = await newDeployment(tenant)
      return { params: { deployment_id: id, revision_id: latest_revision_id } }
    },
    rollBackDeployment: async () => {
      const { deployment_id, revision_id } = await newRestorable()
      return { params: { deployment_id }, body: { revision_id } }
    },
    setDeploymentTraffic: () => ({ body: { shares: [], starts_at: 10 } }),
    setRollout: async () => ({ params: await newRollingOut(), body: { ...rollout, steps: [{ share: 20 }] } }),
    removeRollout: async () => ({ params: await newRollingOut() }),
    moveRollout: async () => ({ params: { ...(await newRollingOut()), action: 'pause' } }),
    createJob: async () => ({ params: { deployment_id: (await startServing(POLICY, tenant)).id } }),
    cancelJob: async () => {
      const { id, run } = await startServing(POLICY, tenant)
      return { params: { deployment_id: id, job_id: (await run()).id } }
    },
    takeSnapshot: async () => ({
      params: { deployment_id: (await startWithDisk(undefined, tenant)).id },
      body: { store: STORE },
    }),
    restoreSnapshot: async () => {
      const { id, held, tell } = await startWithDisk(undefined, tenant)
      const one = held()
      await tell([one])
      return { params: { deployment_id: id }, body: { store: STORE, snapshot_id: one.id } }
    },
    deleteSnapshot: async () => {
      const { held, tell } = await startWithDisk(undefined, tenant)
      const one = held()
      await tell([one])
      return { params: { snapshot_id: one.id } }
    },
    createDeployHook: async () => ({ params: await previewParent(), body: { name: named() } }),
    runDeployHook: async () => {
      const { deployment_id } = await previewParent()
      const { body } = await tenant.post(`/v2/deployments/${deployment_id}/deploy-hooks`, { name: named() })
      const token = new URL(body.url).pathname.split('/').at(-1)!
      handedOut.push(token)
      return { params: { token } }
    },
    deleteDeployHook: async () => {
      const { deployment_id } = await previewParent()
      const hook_id = await create(`/v2/deployments/${deployment_id}/deploy-hooks`, { name: named() })
      return { params: { deployment_id, hook_id } }
    },
    createSchedule: () => ({ body: { ...(NewSchedule.meta()!.example as object), name: named() } }),
    changeSchedule: async () => ({ params: await newSchedule(), body: { cron: '0 5 * * *' } }),
    deleteSchedule: async () => ({ params: await newSchedule() }),
    runSchedule: async () => ({ params: await newSchedule() }),
    reportJobs: async () => {
      const { agent, key, run } = await startServing(POLICY, tenant)
      noteKey(key)
      const { id: job_id } = await run()
      await agent.poll()
      const reports = [{ job_id, state: 'running' }]
      return { body: { agent_id: agent.agent_id, fence: agent.fence, reports }, headers: { 'X-Api-Key': key } }
    },
    createAccessGrant: async () => {
      const host = `${unusedId()}.example.com`
      const { id } = await newDeployment(tenant, makeImageBody({ source_config: { custom_url: `https://${host}` } }))
      return { params: { deployment_id: id }, body: { ...GrantRequest.meta()!.example!, host } }
    },
    rotateTraceKey: async () => ({ params: { deployment_id: (await newDeployment(tenant)).id } }),
    releaseHold: async () => {
      const restorable = await newRestorable()
      await rollBack(restorable)
      return { params: restorable }
    },
    verifyCustomHost: async () => {
      const host = `${unusedId()}.example.com`
      const { name, value } = await createVerificationRecord(app, tenant.tenant_id, host)
      txtRecords.set(name, [value])
      return { params: { host } }
    },
    createTagKey: () => ({ body: { key: named() } }),
    renameTagKey: () => ({ body: { key: named() } }),
    deleteTagKey: async () => ({ params: { tag_key_id: await create('/v2/tag-keys', { key: named() }) } }),
    createTagValue: () => ({ body: { value: named() } }),
    renameTagValue: () => ({ body: { value: named() } }),
    deleteTagValue: async () => ({
      params: { tag_value_id: await create(`/v2/tag-keys/${params.tag_key_id}/values`, { value: named() }) },
    }),
    deleteWorkspaceTagKey: async () => ({
      params: { tag_key_id: await create('/workspaces/current/tag-keys', { key: named() }) },
    }),
    createWorkspaceTagValue: () => ({ body: { value: named() } }),
    changeWorkspaceTagValue: () => ({ body: { value: named() } }),
    deleteWorkspaceTagValue: async () => ({
      params: { tag_value_id: await create(`/v2/tag-keys/${params.tag_key_id}/values`, { value: named() }) },
    }),
    createTagging: () => ({
      body: { tag_value_id: params.tag_value_id, resource_type: 'dataset', resource_id: params.dataset_id },
    }),
    addTags: async () => ({
      params: { deployment_id: (await newDeployment(tenant)).id },
      body: { tag_value_ids: [params.tag_value_id] },
    }),
    removeTag: async () => {
      const { id } = await newDeployment(tenant)
      await addTag(id)
      return { params: { deployment_id: id } }
    },
    createUploadUrl: async () => ({ params: { deployment_id: await create('/v2/deployments', makeSourceBody()) } }),
    uploadArchive: async () => ({ path: await newUploadLink(), raw: await makeArchive() }),
    createTerminal: async () => ({
      params: { deployment_id: (await newServingDeployment(undefined, tenant)).id },
      body: {},
    }),
    createForward: async () => ({
      params: { deployment_id: (await newServingDeployment(undefined, tenant)).id },
      body: {},
    }),
    createPushToken: async () => ({
      params: { deployment_id: await create('/v2/deployments', makeSourceBody({ source: 'internal_container' })) },
    }),
    connectIntegration: () => ({ body: giteaBody() }),
    deleteIntegration: async () => ({
      params: { integration_id: await create('/v1/integrations/forge/githost', giteaBody()) },
    }),
    updateIntegration: async () => {
      const body = giteaBody()
      const integration_id = await create('/v1/integrations/forge/githost', body)
      const token = `${body.token}-next`
      gitea.accounts.set(token, { ...gitea.accounts.get(body.token)!, login: 'renamed' })
      return { params: { integration_id }, body: { token } }
    },
    recheckIntegration: async () => {
      const body = giteaBody()
      const integration_id = await create('/v1/integrations/forge/githost', body)
      gitea.accounts.delete(body.token)
      return { params: { integration_id } }
    },
    createListener: () => ({ body: { compute_type: 'local', compute_id: named() } }),
    deleteListener: async () => ({
      params: { listener_id: await create('/v2/listeners', { compute_type: 'local', compute_id: named() }) },
    }),
    poll: async () => {
      const { agent_id, public_key, key } = await newAgent()
      return { body: { agent_id, public_key }, headers: { 'X-Api-Key': key } }
    },
    report: async () => {
      const { agent, deployment_id, revision_id, agent_id, key } = await newAgent()
      await agent.pollAll()
      const generation = agent.generations.get(deployment_id)
      const one = { deployment_id, revision_id, generation, state: 'deployed', healthy: true, url: 'https://a.example' }
      return { body: { agent_id, fence: agent.fence, reports: [one] }, headers: { 'X-Api-Key': key } }
    },
    createCredential: async () => {
      const { agent, deployment_id, revision_id, agent_id, public_key, key } = await newAgent()
      await agent.pollAll()
      const body = { agent_id, fence: agent.fence, deployment_id, revision_id, public_key, for: 'registry' }
      return { body, headers: { 'X-Api-Key': key } }
    },
    createProvider: () => ({
      body: {
        ...getExampleBody(findOperation('createProvider')),
        provider_id: named(),
        client_secret: makeSecret('p'),
      },
    }),
    discoverProvider: () => ({ body: makeDiscoverBody({ provider_id: named() }) }),
    changeProvider: () => ({
      params: { provider_id: provider.provider_id },
      body: { name: named(), client_secret: makeSecret('changed') },
    }),
    deleteProvider: () => ({ params: { provider_id: params.provider_id! } }),
    recheckProvider: async () => {
      const provider_id = named()
      await create(`${PROVIDERS_PATH}/mcp-discover`, makeDiscoverBody({ provider_id }))
      mcp.responses.status = 500
      return { params: { provider_id } }
    },
    connectAccount: () => ({ body: { provider: 'example', user_id: 'ada' } }),
    finishAuthorizationByForm: async () => ({
      params: { provider_id: 'example' },
      raw: new URLSearchParams(await beginFlow('grace')).toString(),
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    }),
    disconnectAccount: async () => {
      await connect('edsger')
      return { path: '/v2/auth/tokens?provider=example&user_id=edsger' }
    },
    setPreviewPolicy: async () => ({ params: await previewParent(), body: policy }),
    removePreviewPolicy: async () => {
      const parent = await previewParent()
      expect((await tenant.put(getPolicyPath(parent.deployment_id), policy)).status).toBe(200)
      return { params: parent }
    },
    approvePreview: async () => {
      const { tenant: owner, parent, pull } = await setUpPreviews(policy)
      organizations.push(owner.organization_id)
      const head_sha = newSha()
      await pull('opened', 1, { fork: true, sha: head_sha })
      return {
        params: { deployment_id: parent.id },
        body: { head_sha },
        headers: { 'X-Api-Key': owner.key, 'X-Tenant-Id': owner.tenant_id },
      }
    },
    requestPreview: async () => ({ params: await previewParent(), body: { branch: 'try', image_uri: 'a/b:1' } }),
    removePreview: async () => {
      const { tenant: owner, parent, pull } = await setUpPreviews(policy)
      organizations.push(owner.organization_id)
      await pull('opened', 1, { fork: true })
      return {
        params: { deployment_id: parent.id },
        headers: { 'X-Api-Key': owner.key, 'X-Tenant-Id': owner.tenant_id },
      }
    },
    deleteProject: async () => ({ params: { session_id: await create('/sessions') } }),
    deleteProjects: async () => ({ path: `/sessions?session_ids=${await create('/sessions')}` }),
    createRunRule: () => ({
      body: {
        display_name: named(),
        sampling_rate: 1,
        session_id: params.session_id,
        webhooks: [{ url: 'https://ci.example.com/', headers: { 'X-Token': makeSecret('rule') } }],
        alerts: [{ routing_key: makeSecret('alert') }],
      },
    }),
    createChannel: () => ({ body: newChannelBody({ kind: 'pagerduty', routing_key: 'a'.repeat(32) }) }),
    createOwnChannel: () => ({ body: {}, headers: { ...asPerson, ...inside } }),
    deleteChannel: async () => ({ params: { channel_id: await newAddress() } }),
    sendChannelConfirmation: async () => ({ params: { channel_id: await newAddress() } }),
    confirmChannel: async () => {
      await newAddress()
      return { path: linkIn(mails.at(-1)!, 'confirm') }
    },
    endChannel: async () => {
      await newAddress()
      return { path: linkIn(mails.at(-1)!, 'unsubscribe') }
    },
    deleteWebhook: async () => ({
      params: { webhook_id: await create('/v2/webhooks', { url: 'https://ci.example.com/', enabled: false }) },
    }),
    createDrain: () => ({
      body: {
        name: named(),
        kind: 'ndjson',
        url: 'https://in.example.com/',
        headers: { Authorization: makeSecret('drain') },
        enabled: false,
      },
    }),
    deleteDrain: async () => ({
      params: {
        drain_id: await create('/v2/drains', {
          name: named(),
          kind: 'loki',
          url: 'https://l.example.com',
          enabled: false,
        }),
      },
    }),
    changeOrganization: () => ({ body: { display_name: named() } }),
    putWorkspaceSecret: () => ({ params: { secret_key: 'OPENAI_API_KEY' }, body: { value: makeSecret('model') } }),
    deleteWorkspaceSecret: () => ({ params: { secret_key: 'OPENAI_API_KEY' } }),
    changeOrganizationInfo: () => ({ body: { display_name: named() } }),
    addMember: () => ({ body: { email: `${unusedId()}@example.com` } }),
    changeMember: async () => ({ params: { member_id: await newMember() }, body: { full_name: 'Ada' } }),
    removeMember: async () => ({ params: { member_id: await newMember() } }),
    createRole: () => ({ body: newRoleBody('workspace') }),
    deleteRole: async () => ({ params: { role_id: await newRole() } }),
    deleteAccessPolicy: async () => ({ params: { access_policy_id: await newPolicy() } }),
    attachAccessPolicies: async () => ({ body: { access_policy_ids: [await newPolicy()] } }),
    detachAccessPolicy: async () => {
      const [role_id, access_policy_id] = [await newRole(), await newPolicy()]
      const attachment = { access_policy_ids: [access_policy_id] }
      await tenant.owner.post(`${POLICIES}/roles/${role_id}/access-policies`, attachment)
      return { params: { role_id, access_policy_id } }
    },
    revokeOrganizationKey: async () => ({
      params: { key_id: await create('/orgs/current/api-keys', { description: 'old' }) },
    }),
    changeWorkspace: () => ({ body: { display_name: named() } }),
    deleteWorkspace: async () => ({ params: { workspace_id: await create('/workspaces', { display_name: named() }) } }),
    addMembership: () => ({ body: { email: `${unusedId()}@example.com` } }),
    changeMembership: async () => ({
      params: { membership_id: await newMembership() },
      body: { role_id: await newRole() },
    }),
    removeMembership: async () => ({ params: { membership_id: await newMembership() } }),
    revokeWorkspaceKey: async () => ({
      params: { key_id: await create('/workspaces/current/api-keys', { description: 'old' }) },
    }),
    signOut: async () => {
      const session = await newSession(tenant)
      handedOut.push(session.token, sha256Hex(session.token))
      return { headers: cookieHeaders(session.token) }
    },
    endSession: async () => ({ params: { own_session_id: await create('/v2/me/sessions') } }),
    useSignInLink: async () => {
      const { body } = await tenant.owner.post(`/orgs/current/members/${await newMember()}/sign-in-links`)
      const token = new URL(body.url).hash.slice(1)
      handedOut.push(token, sha256Hex(token))
      return { body: { token } }
    },
    approveDevice: async () => ({
      params: { user_code: (await requestDevice()).user_code },
      body: approval,
      headers: asPerson,
    }),
    denyDevice: async () => ({ params: { user_code: (await requestDevice()).user_code }, headers: asPerson }),
    redeemDevice: async () => ({ raw: await redeemBody(), headers: form }),
    issueToken: async () => ({ raw: await redeemBody(), headers: form }),
    approveClient: async () => ({ body: await newClientApproval(), headers: asPerson }),
    revokeToken: async () => {
      const approval = await newClientApproval()
      const { body } = await send('POST', '/v2/me/authorizations', { body: approval, headers: asPerson, app })
      const code = new URL(body.redirect_url).searchParams.get('code')!
      const grant = { grant_type: 'authorization_code', client_id: oauthClient.client_id, code, code_verifier }
      const raw = String(new URLSearchParams(grant))
      const { access_token, refresh_token } = (await send('POST', '/oauth/token', { raw, headers: form, app })).body
      noteKey(access_token)
      handedOut.push(code, sha256Hex(code), refresh_token, sha256Hex(refresh_token))
      return { raw: String(new URLSearchParams({ token: refresh_token })), headers: form }
    },
    revokeOwnKey: async () => {
      const { body } = await send('POST', '/device/token', { raw: await redeemBody(), headers: form, app })
      noteKey(body.access_token)
      return { headers: { 'X-Api-Key': body.access_token } }
    },
  }
  return { calls, params, headers: { 'X-Api-Key': tenant.owner.key, ...inside } }
}

const findOperation = (id: string): Operation => operations.find(one => one.id === id)!

beforeAll(async () => {
  serveRepositories({
    ...gitea.sites,
    ...git.sites,
    [MCP_ORIGIN]: mcp,
    [AUTH_ORIGIN]: mcp,
    [ISSUER]: { 'POST /token': () => Response.json(tokens()), 'POST /revoke': () => new Response(null) },
  })
  const { calls, params, headers } = await prepareCalls()
  for (const operation of writes) {
    const { id, method } = operation
    const call: Call = (await calls[id]?.()) ?? {}
    const ids: Record<string, string> = { number: '1', ...params, ...call.params }
    const filledPath = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? unusedId())
    const path = call.path ?? filledPath + getExampleQuery(operation)
    const example = getExampleRequest(operation)
    const reply = await send(method.toUpperCase(), path, {
      ...(call.raw ? { raw: call.raw } : call.body ? { body: call.body } : example),
      headers: {
        ...example.headers,
        ...(operation.kind !== 'open' && !call.headers?.Cookie && headers),
        ...call.headers,
        ...HEADERS,
        'X-Request-Id': `${REQUEST_ID}-${id}`,
      },
      app,
    })
    await finishPendingWork()
    noteKey(reply.body?.key ?? reply.body?.access_token)
    if (reply.body?.share_token) handedOut.push(reply.body.share_token)
    const opened = tokenOf(reply)
    if (opened) handedOut.push(opened, sha256Hex(opened))
    const events = (await readEvents(`${REQUEST_ID}-${id}`, app)).map(event => ({
      ...event,
      request: JSON.parse(event.request as string),
      changes: JSON.parse(event.changes as string),
    }))
    results.set(id, { status: reply.status, text: reply.text, path, events: events as RecordedEvent[] })
  }
}, 90_000)

describe('the events of', () => {
  it.each(writes.map(one => [one.id, one] as const))('%s name the request, the actor and the changes', (id, one) => {
    const { status, text, path, events } = results.get(id)!
    expect(status, text).toBeLessThan(300)
    expect(events).not.toEqual([])
    for (const { request, actor_name } of events) {
      expect(request).toEqual({
        operation: id,
        method: one.method.toUpperCase(),
        // A path with a secret is masked.
        path: id === 'runDeployHook' ? '/v2/deploy-hooks/*****' : path.split('?')[0],
        status: successStatus(one),
        client_address: HEADERS['X-Test-Address'],
        user_agent: HEADERS['User-Agent'],
      })
      expect(actor_name).toBeTruthy()
    }
    const leading = events.filter(({ part_of }) => part_of === null)
    expect(leading).toHaveLength(WRITES[id] ?? 1)
    const [first] = events
    expect(leading[0]).toBe(first)
    for (const { part_of } of events) if (part_of !== null) expect(leading.map(({ seq }) => seq)).toContain(part_of)
    if (id in WITHOUT_CHANGES) expect(first!.changes).toBeNull()
    else expect(first!.changes).not.toBeNull()
  })
})

it('no event has a secret, a key, a link or a hash', async () => {
  const query = sql`
    select row_to_json(e)::text
    from events e
    where organization_id in ${organizations}`
  const [rows] = (await runAsSystem(app.database, query)) as [[string][]]
  expect(rows.length).toBeGreaterThan(writes.length)
  expect(handedOut.length).toBeGreaterThan(10)
  const isSecretIn = (text: string) => [CANARY, ...handedOut].some(secret => text.includes(secret))
  expect(rows.flat().filter(isSecretIn)).toEqual([])
})

// edge/worker.test.ts is the test for workerd.
it.skipIf(isWorker).each([
  ['the socket’s', '192.0.2.1', '192.0.2.1'],
  ['the one that a trusted proxy forwards', '10.0.0.1', '198.51.100.1'],
])('events record as the address of the client %s', async (_, remoteAddress, expected) => {
  const behindProxy = startApp({ settings: { TRUSTED_PROXIES: '10.0.0.0/8' } })
  const { key } = await newTenant({ app: behindProxy })
  const headers = { 'X-Api-Key': key, 'X-Forwarded-For': '198.51.100.1', 'Content-Type': 'application/json' }
  const request = new Request('http://slipway.test/v2/tag-keys', { method: 'POST', headers, body: '{"key":"team"}' })
  const reply = await behindProxy.fetch(request, { incoming: { socket: { remoteAddress } } })
  const [event] = await readEvents(reply.headers.get('X-Request-Id')!)
  expect(JSON.parse(event!.request as string)).toMatchObject({ client_address: expected })
})

it.each<[string, unknown, unknown, unknown]>([
  ['a changed value', { a: 1, b: 2 }, { a: 1, b: 3 }, [{ path: 'b', before: 2, after: 3 }]],
  ['nothing for equal values', { a: [1], b: { c: 1 } }, { a: [1], b: { c: 1 } }, null],
  ['nothing for members that become null or empty', { a: null, b: {} }, { b: null }, null],
  [
    'each changed member of an object',
    { a: { b: 1, c: 1 } },
    { a: { b: 2, c: 1 } },
    [{ path: 'a.b', before: 1, after: 2 }],
  ],
  [
    'an object one level down as a whole',
    { a: { b: { c: 1 } } },
    { a: {} },
    [{ path: 'a.b', before: { c: 1 }, after: null }],
  ],
  [
    'an object that became a list as a whole',
    { a: { b: 1 } },
    { a: [1] },
    [{ path: 'a', before: { b: 1 }, after: [1] }],
  ],
  [
    'every member of what is new',
    null,
    { a: 1, b: { c: 2 } },
    [
      { path: 'a', before: null, after: 1 },
      { path: 'b.c', before: null, after: 2 },
    ],
  ],
  ['every member of what is gone', { a: false }, null, [{ path: 'a', before: false, after: null }]],
  [
    'the size of a large value',
    {},
    { a: 'x'.repeat(9000) },
    [{ path: 'a', before: null, after: { omitted_bytes: 9002 } }],
  ],
])('changed_members() returns %s', async (_, before, after, expected) => {
  const asJson = (value: unknown) => sql`${value === null ? null : JSON.stringify(value)}::jsonb`
  const query = sql`select changed_members(${asJson(before)}, ${asJson(after)})`
  const [rows] = (await runAsSystem(app.database, query)) as [[string | null][]]
  expect(rows[0]![0] && JSON.parse(rows[0]![0])).toEqual(expected)
})
