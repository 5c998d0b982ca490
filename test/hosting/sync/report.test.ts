import { describe, expect, it } from 'vitest'
import { registerPlatformListener } from '../../../src/hosting/listeners/platform-listener.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { clock, newTenant, readEvents, startApp, type Tenant, unusedId } from '../../support/app.ts'
import {
  expectCompleteJournal,
  imageConfig,
  listRevisions,
  minimalBody,
  newDeployment,
  readRevisionHistory,
} from '../../support/deployments.ts'
import { computeDigest } from '../../support/envelope-opener.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from '../../support/sync-agent.ts'

async function createWork(over: Record<string, unknown> = {}) {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const deployment = await newDeployment(tenant, makeListenerDeployment(listener, over))
  const [work] = (await agent.poll()).changes as [Work]
  const read = async () => (await tenant.get(`/v2/deployments/${deployment.id}`)).body
  const [first] = await listRevisions(tenant, deployment.id)
  return { tenant, listener, key, agent, id: deployment.id as string, work, read, first: first! }
}
const statusOf = async (tenant: Tenant, id: string) => (await listRevisions(tenant, id))[0]!.status
const isReconciled = async (tenant: Tenant, id: string) =>
  (await tenant.get(`/v2/deployments?deployment_ids=${id}&remote_reconciled=true`)).body.resources.length === 1

describe('a rollout', () => {
  it('journals every step, and the healthy revision serves', async () => {
    const { tenant, agent, id, work, read, first } = await createWork()
    for (const state of ['deploying', 'deployed'] as const) {
      expect(await isReconciled(tenant, id)).toBe(false)
      expect(await agent.report(work, { state, url: 'http://app.localhost:8080' })).toMatchObject({
        outcome: 'accepted',
        code: null,
      })
    }
    expect(await read()).toMatchObject({ active_revision_id: first.id, url: 'http://app.localhost:8080' })
    expect(await isReconciled(tenant, id)).toBe(true)
    expect(await readRevisionHistory(first.id)).toEqual(['AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'])
    await expectCompleteJournal(tenant, id)
    const { changes } = await agent.poll()
    expect(changes).toMatchObject([
      { generation: agent.generations.get(id), revision: null, serving: { id: first.id } },
    ])
  })

  it('journals the steps that the agent did not report', async () => {
    const { tenant, agent, id, work, first } = await createWork({
      source: 'internal_source',
      source_revision_config: {},
    })
    expect(work.revision).toBeNull()
    expect(first.status).toBe('CREATING')
    const { work: templateWork, ...template } = await createWork({
      source: 'internal_template',
      source_config: { template_id: 'hello' },
      source_revision_config: {},
    })
    await template.agent.report(templateWork, { state: 'deployed' })
    expect(await readRevisionHistory(template.first.id)).toEqual(['AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'])
    expect(await agent.report(work, { state: 'serving' })).toMatchObject({ outcome: 'accepted' })
    expect(await isReconciled(tenant, id)).toBe(true)
  })

  it('is journaled with the listener as its actor', async () => {
    const { listener, agent, work, id } = await createWork()
    const revision_id = work.revision!.id
    const { headers } = await agent.sendReports([
      { deployment_id: id, generation: 1, revision_id, state: 'deployed', healthy: true },
    ])
    const events = await readEvents(headers.get('X-Request-Id')!)
    expect(events.map(one => one.type)).toEqual(['revision.deploying', 'revision.deployed', 'deployment.activated'])
    for (const event of events) expect(event).toMatchObject({ actor_kind: 'listener', actor_id: listener.id })
  })

  it('is journaled with the address of the agent, except where the operator runs it', async () => {
    const app = startApp({ overrides: { clientAddress: () => '203.0.113.9' } })
    const [tenant, other, operator] = [await newTenant({ app }), await newTenant({ app }), await newTenant({ app })]
    const { listener, key } = await newListener(tenant)
    const { listener_key } = await registerPlatformListener(app.database, {
      organization_id: operator.organization_id,
      compute_id: `platform-${unusedId()}`,
      compute_type: 'local',
    })
    const requestOf = async (owner: Tenant, agent: SyncAgent, body: object) => {
      const { id } = (await owner.post('/v2/deployments', { ...body, name: `app-${unusedId()}` })).body
      do await agent.pollAll()
      while (!agent.generations.has(id))
      const [revision] = await listRevisions(owner, id)
      const report = { deployment_id: id, generation: 1, revision_id: revision!.id, state: 'deploying' }
      const { headers } = await agent.sendReports([report], {}, { 'User-Agent': 'agent/1' })
      const [event] = await readEvents(headers.get('X-Request-Id')!)
      return JSON.parse(event!.request as string)
    }
    const request = { operation: 'report', method: 'POST', path: '/v1/sync/report', status: 200 }
    const client = { client_address: '203.0.113.9', user_agent: 'agent/1' }
    expect(await requestOf(tenant, makeSyncAgent(tenant, key), makeListenerDeployment(listener))).toEqual({
      ...request,
      ...client,
    })
    const onPlatform = { ...minimalBody, source_revision_config: imageConfig }
    expect(await requestOf(other, makeSyncAgent(operator, listener_key), onPlatform)).toEqual(request)
  })

  it('that fails records the reason and leaves the old revision serving', async () => {
    const { tenant, agent, id, work, read, first } = await createWork()
    await agent.report(work, { state: 'deployed' })
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const [next] = (await agent.poll()).changes as [Work]
    expect(next).toMatchObject({ revision: { number: 2 }, serving: { number: 1 } })
    expect(await isReconciled(tenant, id)).toBe(false)
    await agent.report(next, { state: 'failed', message: 'Nothing listens at PORT.' })
    const [second] = await listRevisions(tenant, id)
    expect(second).toMatchObject({ status: 'DEPLOY_FAILED', status_message: 'Nothing listens at PORT.' })
    expect((await read()).active_revision_id).toBe(first.id)
    expect(await isReconciled(tenant, id)).toBe(true)
    await expectCompleteJournal(tenant, id)
  })

  it('records the commit and the image that were resolved', async () => {
    const template = {
      source: 'internal_template',
      source_config: { template_id: 'hello' },
      source_revision_config: {},
    }
    const { tenant, agent, id, work, first } = await createWork(template)
    const commit = { sha: 'a'.repeat(40), message: 'Begin', author: 'Ada' }
    await agent.report(work, { state: 'deploying', commit, ...imageConfig })
    const [revision] = await listRevisions(tenant, id)
    expect(revision).toMatchObject({ commit, source_revision_config: { ...imageConfig, repo_commit_sha: commit.sha } })
    expect((await tenant.get(`/v2/deployments/${id}`)).body.source_revision_config.repo_commit_sha).toBe(commit.sha)
    await agent.report(work, { state: 'deployed' })
    const redeployed = await tenant.post(`/v2/deployments/${id}/revisions/${first.id}/redeploy`, {})
    expect(redeployed.body.source_revision_config).toMatchObject(imageConfig)
  })

  it('starts the waiting revision under a new generation', async () => {
    const { tenant, agent, id, work } = await createWork()
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const { generation } = await agent.report(work, { state: 'deployed' })
    expect(await isReconciled(tenant, id)).toBe(false)
    const [next] = (await agent.poll()).changes as [Work]
    expect(next).toMatchObject({
      generation,
      revision: { number: 2, status: 'AWAITING_DEPLOY' },
      serving: { number: 1 },
    })
    await agent.report(next, { state: 'deployed' })
    expect(await isReconciled(tenant, id)).toBe(true)
  })
})

describe('a repeated report', () => {
  it('is accepted again and changes nothing', async () => {
    const { tenant, agent, id, work, read } = await createWork()
    const accepted = await agent.report(work, { state: 'deployed' })
    const before = JSON.stringify(await read())
    for (const state of ['deployed', 'deploying', 'building'] as const)
      expect(await agent.report(work, { state })).toEqual({ ...accepted, outcome: 'accepted' })
    expect(JSON.stringify(await read())).toBe(before)
    expect((await agent.sendReports([{ deployment_id: id, generation: 1, state: 'serving' }])).status).toBe(200)
    await expectCompleteJournal(tenant, id)
  })

  it('that says the same failure is accepted, but another outcome is stale', async () => {
    const { agent, work } = await createWork()
    await agent.report(work, { state: 'failed', message: 'no' })
    expect((await agent.report(work, { state: 'failed', message: 'no' })).outcome).toBe('accepted')
    expect(await agent.report(work, { state: 'deployed' })).toMatchObject({ outcome: 'stale', code: 'revision_ended' })
  })
})

describe('a stale report', () => {
  it('does not move an interrupted revision, and a report that it stopped is accepted', async () => {
    const { tenant, agent, id, work } = await createWork()
    expect(await agent.report(work, { state: 'interrupted' })).toMatchObject({
      outcome: 'refused',
      code: 'still_wanted',
    })
    await tenant.post(`/v2/deployments/${id}/revisions/${work.revision!.id}/interruption`)
    expect(await agent.report(work, { state: 'deployed' })).toMatchObject({ outcome: 'stale', code: 'revision_ended' })
    const [now] = (await agent.poll()).changes as [Work]
    expect(now).toMatchObject({ revision: null, generation: 2 })
    expect(await isReconciled(tenant, id)).toBe(false)
    const revision = { id: work.revision!.id } as Work['revision']
    expect(await agent.report({ ...now, revision }, { state: 'interrupted' })).toMatchObject({ outcome: 'accepted' })
    expect(await isReconciled(tenant, id)).toBe(true)
    expect(await statusOf(tenant, id)).toBe('INTERRUPTED')
  })

  it('that an old revision stopped does not affect the revision in flight', async () => {
    const { tenant, agent, id, work } = await createWork()
    await tenant.post(`/v2/deployments/${id}/revisions`)
    await tenant.post(`/v2/deployments/${id}/revisions/${work.revision!.id}/interruption`)
    const [now] = (await agent.poll()).changes as [Work]
    expect(now.revision!.number).toBe(2)
    const subject = { deployment_id: id, generation: now.generation, revision: work.revision }
    expect(await agent.report(subject, { state: 'interrupted' })).toMatchObject({ outcome: 'accepted' })
    expect(await agent.report({ ...subject, revision: null }, { state: 'serving' })).toMatchObject({
      outcome: 'accepted',
    })
    expect(await isReconciled(tenant, id)).toBe(false)
  })

  it('names an old generation, while one that never existed is refused', async () => {
    const { tenant, agent, id, work } = await createWork()
    await agent.report(work, { state: 'deployed' })
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const subject = { deployment_id: id, revision: null }
    expect(await agent.report({ ...subject, generation: 1 }, { state: 'serving' })).toMatchObject({
      outcome: 'stale',
      code: 'generation_passed',
    })
    expect(await agent.report({ ...subject, generation: 99 }, { state: 'serving' })).toMatchObject({
      outcome: 'refused',
      code: 'generation_unknown',
    })
    const unknown = { id: unusedId() } as Work['revision']
    expect(await agent.report({ ...subject, generation: 1, revision: unknown }, { state: 'deploying' })).toMatchObject({
      code: 'revision_unknown',
    })
  })

  it('from an agent that lost its lease is refused and changes nothing', async () => {
    const { tenant, key, agent, id, work } = await createWork()
    const successor = makeSyncAgent(tenant, key, agent.agent_id)
    await successor.poll()
    const report = {
      deployment_id: id,
      revision_id: work.revision!.id,
      generation: 1,
      state: 'failed',
      message: 'too late',
    }
    const { status, body } = await agent.sendReports([report])
    expect([status, body.code]).toEqual([409, 'fence_stale'])
    await successor.report(work, { state: 'deployed' })
    expect(await statusOf(tenant, id)).toBe('DEPLOYED')
  })
})

describe('the deletion of a deployment', () => {
  it('has two phases: the agent receives it as absent, then reports it as removed', async () => {
    const { tenant, agent, id, work, read } = await createWork()
    expect(await agent.report({ ...work, revision: null }, { state: 'removed' })).toMatchObject({
      outcome: 'refused',
      code: 'still_wanted',
    })
    await agent.report(work, { state: 'deployed' })
    expect((await tenant.delete(`/v2/deployments/${id}`)).status).toBe(204)
    expect((await read()).status).toBe('AWAITING_DELETE')
    const [absent] = (await agent.poll()).changes as [Work]
    expect(absent).toMatchObject({ wanted: 'absent', revision: null })
    const removed = { outcome: 'accepted', code: null, generation: null }
    const { headers, body } = await agent.sendReports([
      { deployment_id: id, generation: absent.generation, state: 'removed' },
    ])
    expect(body.results).toMatchObject([removed])
    expect((await readEvents(headers.get('X-Request-Id')!)).map(one => one.type)).toEqual(['deployment.removed'])
    expect((await tenant.get(`/v2/deployments/${id}`)).status).toBe(404)
    expect(await agent.report(absent, { state: 'removed' })).toMatchObject(removed)
    expect((await agent.poll({ digest: computeDigest(agent.generations) })).resync).toBe(false)
  })

  it('is not completed by a report of an agent that has not polled since', async () => {
    const { tenant, agent, id, work } = await createWork()
    await tenant.delete(`/v2/deployments/${id}`)
    expect(await agent.report({ ...work, revision: null }, { state: 'removed' })).toMatchObject({
      outcome: 'stale',
      code: 'generation_passed',
    })
  })
})

describe('other reports of an agent', () => {
  it('that the database is ready makes the deployment READY', async () => {
    const { agent, work, read } = await createWork({ source_config: { resource_spec: { db_cpu: 1 } } })
    expect(work.needs_database).toBe(true)
    expect((await read()).status).toBe('AWAITING_DATABASE')
    await agent.report({ ...work, revision: null }, { state: 'database_ready' })
    expect((await read()).status).toBe('READY')
  })

  it('that the source needs a database shows the deployment as waiting for it, until it is ready', async () => {
    const { agent, work, read } = await createWork()
    await agent.report(work, { state: 'deploying', awaits_database: true })
    expect((await read()).status).toBe('AWAITING_DATABASE')
    await agent.report({ ...work, revision: null }, { state: 'database_ready' })
    expect((await read()).status).toBe('READY')
  })

  it('with a new URL change the version, and those with the same URL do not', async () => {
    const { agent, work, tenant, id, read } = await createWork()
    await agent.report(work, { state: 'deployed', url: 'http://one.localhost' })
    const before = (await tenant.get(`/v2/deployments/${id}`)).headers.get('ETag')
    const [now] = (await agent.poll()).changes as [Work]
    const serving = { ...now, revision: now.serving }
    await agent.report(serving, { state: 'serving', url: 'http://two.localhost', healthy: true })
    const { headers, body } = await tenant.get(`/v2/deployments/${id}`)
    expect(body.url).toBe('http://two.localhost')
    expect(headers.get('ETag')).not.toBe(before)
    await agent.report(serving, { state: 'serving', url: 'http://two.localhost' })
    await agent.report(serving, { state: 'serving' })
    expect((await tenant.get(`/v2/deployments/${id}`)).headers.get('ETag')).toBe(headers.get('ETag'))
    expect((await read()).updated_at).toBe(body.updated_at)
  })

  it('with log lines that were already sent store each line once', async () => {
    const { tenant, agent, id, work } = await createWork()
    const revision_id = work.revision!.id
    const stream = unusedId()
    const lines = ['one', 'two', 'three'].map(message => ({
      timestamp: new Date(clock.ahead + Date.now()).toISOString(),
      level: 'INFO',
      message,
    }))
    const sendLines = (from: number, over: object = {}) =>
      agent.post('/v1/sync/logs', {
        agent_id: agent.agent_id,
        fence: agent.fence,
        deployment_id: id,
        revision_id,
        kind: 'deploy',
        stream,
        from,
        lines: lines.slice(from),
        ...over,
      })
    const readMessages = async () =>
      (await tenant.post(`/v1/projects/${id}/deploy_logs`, {})).body.logs.map((one: { message: string }) => one.message)
    expect((await sendLines(0, { lines: lines.slice(0, 2) })).body).toEqual({ next: 2 })
    await Promise.all([sendLines(0), sendLines(0), sendLines(1)])
    expect((await sendLines(0, { lines: lines.slice(0, 1) })).body).toEqual({ next: 3 })
    expect(await readMessages()).toEqual(['one', 'two', 'three'])
    expect((await sendLines(0, { stream: unusedId() })).body).toEqual({ next: 3 })
    expect(await readMessages()).toHaveLength(6)
    expect((await sendLines(0, { fence: 99 })).body.code).toBe('fence_stale')
  })
})
