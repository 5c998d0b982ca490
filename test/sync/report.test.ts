import { describe, expect, it } from 'vitest'
import type { Work } from '../../src/protocol/work.schema.ts'
import { clock, newTenant, readEvents, type Tenant, unusedId } from '../support/app.ts'
import {
  expectCompleteJournal,
  imageConfig,
  listRevisions,
  newDeployment,
  readRevisionHistory,
} from '../support/deployments.ts'
import { computeDigest } from '../support/envelope-opener.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'

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

  it('can skip steps, which are journaled all the same', async () => {
    const { tenant, agent, id, work, first } = await createWork({
      source: 'internal_source',
      source_revision_config: {},
    })
    expect(work.revision).toBeNull()
    expect(first.status).toBe('CREATING')
    const { work: other, ...rest } = await createWork({
      source: 'internal_template',
      source_config: { template_id: 'hello' },
      source_revision_config: {},
    })
    await rest.agent.report(other, { state: 'deployed' })
    expect(await readRevisionHistory(rest.first.id)).toEqual(['AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'])
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

  it('that fails has a reason and leaves the old revision serving', async () => {
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
    const back = await tenant.post(`/v2/deployments/${id}/revisions/${first.id}/redeploy`, {})
    expect(back.body.source_revision_config).toMatchObject(imageConfig)
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
    const once = await agent.report(work, { state: 'deployed' })
    const before = JSON.stringify(await read())
    for (const state of ['deployed', 'deploying', 'building'] as const)
      expect(await agent.report(work, { state })).toEqual({ ...once, outcome: 'accepted' })
    expect(JSON.stringify(await read())).toBe(before)
    expect((await agent.sendReports([{ deployment_id: id, generation: 1, state: 'serving' }])).status).toBe(200)
    await expectCompleteJournal(tenant, id)
  })

  it('is accepted for the same failure and stale for another outcome', async () => {
    const { agent, work } = await createWork()
    await agent.report(work, { state: 'failed', message: 'no' })
    expect((await agent.report(work, { state: 'failed', message: 'no' })).outcome).toBe('accepted')
    expect(await agent.report(work, { state: 'deployed' })).toMatchObject({ outcome: 'stale', code: 'revision_ended' })
  })
})

describe('a stale report', () => {
  it('of an interrupted revision moves nothing, but its stop is acknowledged', async () => {
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

  it('that an old revision stopped does not affect the one in flight', async () => {
    const { tenant, agent, id, work } = await createWork()
    await tenant.post(`/v2/deployments/${id}/revisions`)
    await tenant.post(`/v2/deployments/${id}/revisions/${work.revision!.id}/interruption`)
    const [now] = (await agent.poll()).changes as [Work]
    expect(now.revision!.number).toBe(2)
    const of = { deployment_id: id, generation: now.generation, revision: work.revision }
    expect(await agent.report(of, { state: 'interrupted' })).toMatchObject({ outcome: 'accepted' })
    expect(await agent.report({ ...of, revision: null }, { state: 'serving' })).toMatchObject({ outcome: 'accepted' })
    expect(await isReconciled(tenant, id)).toBe(false)
  })

  it('of a former generation differs from one that never existed', async () => {
    const { tenant, agent, id, work } = await createWork()
    await agent.report(work, { state: 'deployed' })
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const of = { deployment_id: id, revision: null }
    expect(await agent.report({ ...of, generation: 1 }, { state: 'serving' })).toMatchObject({
      outcome: 'stale',
      code: 'generation_passed',
    })
    expect(await agent.report({ ...of, generation: 99 }, { state: 'serving' })).toMatchObject({
      outcome: 'refused',
      code: 'generation_unknown',
    })
    const unknown = { id: unusedId() } as Work['revision']
    expect(await agent.report({ ...of, generation: 1, revision: unknown }, { state: 'deploying' })).toMatchObject({
      code: 'revision_unknown',
    })
  })

  it('of an agent without the lease is refused and overwrites nothing', async () => {
    const { tenant, key, agent, id, work } = await createWork()
    const successor = makeSyncAgent(tenant, key, agent.agent_id)
    await successor.poll()
    const said = {
      deployment_id: id,
      revision_id: work.revision!.id,
      generation: 1,
      state: 'failed',
      message: 'too late',
    }
    const { status, body } = await agent.sendReports([said])
    expect([status, body.code]).toEqual([409, 'fence_stale'])
    await successor.report(work, { state: 'deployed' })
    expect(await statusOf(tenant, id)).toBe('DEPLOYED')
  })
})

describe('deleting', () => {
  it('takes two phases: wanted absent, then removed', async () => {
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
    const gone = { outcome: 'accepted', code: null, generation: null }
    const { headers, body } = await agent.sendReports([
      { deployment_id: id, generation: absent.generation, state: 'removed' },
    ])
    expect(body.results).toMatchObject([gone])
    expect((await readEvents(headers.get('X-Request-Id')!)).map(one => one.type)).toEqual(['deployment.removed'])
    expect((await tenant.get(`/v2/deployments/${id}`)).status).toBe(404)
    expect(await agent.report(absent, { state: 'removed' })).toMatchObject(gone)
    expect((await agent.poll({ digest: computeDigest(agent.generations) })).resync).toBe(false)
  })

  it('is not reported by an agent that does not know the deployment', async () => {
    const { tenant, agent, id, work } = await createWork()
    await tenant.delete(`/v2/deployments/${id}`)
    expect(await agent.report({ ...work, revision: null }, { state: 'removed' })).toMatchObject({
      outcome: 'stale',
      code: 'generation_passed',
    })
  })
})

describe('other reports of an agent', () => {
  it('a ready database makes the deployment READY', async () => {
    const { agent, work, read } = await createWork({ source_config: { resource_spec: { db_cpu: 1 } } })
    expect(work.needs_database).toBe(true)
    expect((await read()).status).toBe('AWAITING_DATABASE')
    await agent.report({ ...work, revision: null }, { state: 'database_ready' })
    expect((await read()).status).toBe('READY')
  })

  it('a new URL is journaled and changes the version', async () => {
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

  it('log lines that are sent repeatedly are stored once', async () => {
    const { tenant, agent, id, work } = await createWork()
    const revision_id = work.revision!.id
    const stream = unusedId()
    const lines = ['one', 'two', 'three'].map(message => ({
      timestamp: new Date(clock.ahead + Date.now()).toISOString(),
      level: 'INFO',
      message,
    }))
    const send = (from: number, over: object = {}) =>
      agent.post('/v1/sync/logs', {
        ...{
          agent_id: agent.agent_id,
          fence: agent.fence,
          deployment_id: id,
          revision_id,
          kind: 'deploy',
          stream,
          from,
          lines: lines.slice(from),
        },
        ...over,
      })
    const messages = async () =>
      (await tenant.post(`/v1/projects/${id}/deploy_logs`, {})).body.logs.map((one: { message: string }) => one.message)
    expect((await send(0, { lines: lines.slice(0, 2) })).body).toEqual({ next: 2 })
    await Promise.all([send(0), send(0), send(1)])
    expect((await send(0, { lines: lines.slice(0, 1) })).body).toEqual({ next: 3 })
    expect(await messages()).toEqual(['one', 'two', 'three'])
    expect((await send(0, { stream: unusedId() })).body).toEqual({ next: 3 })
    expect(await messages()).toHaveLength(6)
    expect((await send(0, { fence: 99 })).body.code).toBe('fence_stale')
  })
})
