import { beforeAll, describe, expect, it } from 'vitest'
import { LISTENER_SILENT_AFTER, UNUSED_AFTER } from '../../../src/hosting/deployments/lifecycle.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import {
  deleteOrganizations,
  getApp,
  newTenant,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { expectCompleteJournal, listRevisions, newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const cluster = { compute_type: 'k8s', compute_id: 'cluster', compute_config: { k8s_namespaces: ['apps', 'more'] } }

describe('a listener', () => {
  it('is registered once per workspace, and can be readStatus, changed and deleted', async () => {
    const tenant = await newTenant()
    const { status, body, headers } = await tenant.post('/v2/listeners', cluster)
    expect(status).toBe(201)
    expect(body).toMatchObject({ ...cluster, version: null, last_seen_at: null })
    expect(headers.get('Location')).toBe(`/v2/listeners/${body.id}`)
    expect((await tenant.post('/v2/listeners', cluster)).body.code).toBe('listener_exists')
    expect((await (await newTenant()).post('/v2/listeners', cluster)).status).toBe(201)
    const path = `/v2/listeners/${body.id}`
    const patched = await tenant.patch(path, { compute_config: { k8s_namespaces: ['apps'] } })
    expect(patched.body.compute_config).toEqual({ k8s_namespaces: ['apps'] })
    expect((await tenant.patch(path, {})).body.compute_config).toEqual({ k8s_namespaces: ['apps'] })
    expect((await tenant.patch(path, {}, { 'If-Match': '"1"' })).body.code).toBe('precondition_failed')
    expect((await tenant.get('/v2/listeners')).body.resources).toMatchObject([{ id: body.id }])
    expect((await tenant.delete(path)).status).toBe(204)
    expect((await tenant.get(path)).body.code).toBe('listener_not_found')
  })

  it('requires names that are valid in a cluster', async () => {
    const tenant = await newTenant()
    for (const bad of [{ compute_type: 'vm' }, { compute_id: '' }, { compute_config: { k8s_namespaces: ['No'] } }])
      expect((await tenant.post('/v2/listeners', { ...cluster, ...bad })).body.code).toBe('invalid_request')
    expect((await tenant.post('/v2/listeners', { ...cluster, compute_config: null })).body.compute_config).toEqual({
      k8s_namespaces: [],
    })
  })

  it('shows the version and the last poll of its agent, without a new ETag', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const path = `/v2/listeners/${listener.id}`
    const before = await tenant.get(path)
    await makeSyncAgent(tenant, key).poll({ version: '1.2.3' })
    const after = await tenant.get(path)
    expect(after.body).toMatchObject({ version: '1.2.3', last_seen_at: expect.any(String) })
    expect(after.headers.get('ETag')).toBe(before.headers.get('ETag'))
  })

  it('is deleted with its workspace', async () => {
    const tenant = await newTenant()
    const { listener } = await newListener(tenant)
    await newDeployment(tenant, makeListenerDeployment(listener))
    expect((await tenant.owner.delete(`/workspaces/${tenant.tenant_id}`)).status).toBe(204)
  })
})

describe('the key of an agent', () => {
  it('is listed and revoked like any key of the workspace, and deleted with the listener', async () => {
    const tenant = await newTenant()
    const { listener, key, key_id } = await newListener(tenant)
    const listed = (await tenant.get('/workspaces/current/api-keys')).body.resources
    expect(listed.find((one: { id: string }) => one.id === key_id)).toMatchObject({
      listener_id: listener.id,
      permissions: ['listeners:sync'],
    })
    await makeSyncAgent(tenant, key).poll()
    await tenant.delete(`/workspaces/current/api-keys/${key_id}`)
    expect((await makeSyncAgent(tenant, key).sendPoll()).body.code).toBe('key_revoked')
    const secondKey = (await tenant.post(`/v2/listeners/${listener.id}/keys`, {})).body.key
    await tenant.delete(`/v2/listeners/${listener.id}`)
    expect((await makeSyncAgent(tenant, secondKey).sendPoll()).body.code).toBe('key_unknown')
  })

  it('can be created only by a key with the same permissions', async () => {
    const tenant = await newTenant()
    const { listener } = await newListener(tenant)
    const permissions = ['api-keys:create']
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'narrow', permissions })).body
    const { body } = await tenant.as(key).post(`/v2/listeners/${listener.id}/keys`, {})
    expect(body.code).toBe('role_exceeds_actor')
  })
})

describe('a deployment that names a listener', () => {
  const startSelfHosted = () => startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } })
  const makeContainerBody = (source_config: object) => ({
    name: `app-${unusedId()}`,
    source: 'external_container',
    source_config: { resource_spec: {}, ...source_config },
    source_revision_config: { image_uri: 'registry.example.com/app:1' },
    secrets: [],
  })
  const tryCreate = async (tenant: Tenant, source_config: object) => {
    const { status, body } = await tenant.post('/v2/deployments', makeContainerBody(source_config))
    return status === 201 ? 201 : [body.code, body.detail.match(/source_config\.[a-z0-9_.]+/)?.[0].replace(/\.$/, '')]
  }
  const [LISTENER, NAMESPACE] = ['source_config.listener_id', 'source_config.listener_config.k8s_namespace']

  it('can name only a listener of its workspace and one of its namespaces', async () => {
    const app = startSelfHosted()
    const tenant = await newTenant({ app })
    expect(await tryCreate(tenant, {})).toBe(201)
    const { id } = (await tenant.post('/v2/listeners', cluster)).body
    const { id: local } = (await tenant.post('/v2/listeners', { compute_type: 'local', compute_id: 'machine' })).body
    const { listener: foreignListener } = await newListener(await newTenant({ app }))
    const inNamespace = (k8s_namespace: string) => ({ listener_config: { k8s_namespace } })
    const table: [object, unknown][] = [
      [{}, ['source_rule', LISTENER]],
      [{ listener_id: unusedId() }, ['source_rule', LISTENER]],
      [{ listener_id: foreignListener.id }, ['source_rule', LISTENER]],
      [{ listener_id: id }, ['source_rule', NAMESPACE]],
      [{ listener_id: id, ...inNamespace('kube-system') }, ['source_rule', NAMESPACE]],
      [{ listener_id: id, ...inNamespace('more') }, 201],
      [{ listener_id: local }, 201],
      [{ listener_id: local, ...inNamespace('apps') }, ['source_rule', NAMESPACE]],
    ]
    for (const [config, expected] of table) expect(await tryCreate(tenant, config)).toEqual(expected)
    const path = `/v2/listeners/${id}`
    const setNamespaces = (k8s_namespaces: string[]) => tenant.patch(path, { compute_config: { k8s_namespaces } })
    expect((await setNamespaces(['apps'])).body.code).toBe('listener_in_use')
    expect((await setNamespaces(['more'])).status).toBe(200)
    expect((await tenant.delete(path)).body.code).toBe('listener_in_use')
  })

  it('is not created if the listener is deleted at the same time, and otherwise prevents its deletion', async () => {
    const tenant = await newTenant()
    for (let round = 0; round < 8; round++) {
      const { listener } = await newListener(tenant)
      const [created, deleted] = await Promise.all([
        tenant.post('/v2/deployments', { name: `app-${unusedId()}`, ...makeListenerDeployment(listener) }),
        tenant.delete(`/v2/listeners/${listener.id}`),
      ])
      expect([
        [201, 409],
        [400, 204],
      ]).toContainEqual([created.status, deleted.status])
    }
  })
})

const sweep = (ahead: number) => withClockAhead(ahead, () => sweepRevisions(getApp()))
async function createWork() {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const { id } = await newDeployment(tenant, makeListenerDeployment(listener))
  const [work] = (await agent.poll()).changes
  const readStatus = async () => (await tenant.get(`/v2/deployments/${id}`)).body.status
  const explain = async () => (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources
  return { tenant, agent, id, work: work!, readStatus, explain }
}

describe('a deployment whose listener is silent', () => {
  beforeAll(deleteOrganizations)

  it('becomes UNKNOWN after the deadline, until the next poll', async () => {
    const { tenant, agent, id, work, readStatus, explain } = await createWork()
    await agent.report(work, { state: 'deployed' })
    await sweep(LISTENER_SILENT_AFTER - 10_000)
    expect(await readStatus()).toBe('READY')
    const [obstacle] = await withClockAhead(4 * 60_000, explain)
    expect(obstacle.code).toBe('listener_silent')
    expect(obstacle.detail).toContain(' 4 minutes')
    await sweep(LISTENER_SILENT_AFTER + 1000)
    expect(await readStatus()).toBe('UNKNOWN')
    expect((await withClockAhead(7 * 60_000, explain)).map((one: { code: string }) => one.code)).toEqual([
      'listener_silent',
    ])
    await withClockAhead(LISTENER_SILENT_AFTER + 60_000, () => agent.poll())
    await sweep(LISTENER_SILENT_AFTER + 61_000)
    expect(await readStatus()).toBe('READY')
    expect((await tenant.get(`/v2/deployments?deployment_ids=${id}&status=READY`)).body.resources).toHaveLength(1)
  })

  describe('has a revision that is UNKNOWN if it was being deployed', () => {
    const loseListener = async () => {
      const context = await createWork()
      await context.agent.report(context.work, { state: 'deploying' })
      await sweep(16 * 60_000)
      const listStatuses = async () => (await listRevisions(context.tenant, context.id)).map(({ status }) => status)
      expect(await listStatuses()).toEqual(['UNKNOWN'])
      const afterReturn = (task: () => Promise<void>) => withClockAhead(17 * 60_000, task)
      return { ...context, listStatuses, afterReturn }
    }

    it.each([
      ['deployed', 'DEPLOYED'],
      ['failed', 'DEPLOY_FAILED'],
    ] as const)('until a late report says %s', async (state, status) => {
      const { tenant, agent, id, work, listStatuses, afterReturn } = await loseListener()
      const message = state === 'failed' ? { message: 'It crashed.' } : {}
      await afterReturn(async () => {
        await agent.poll()
        expect(await agent.report(work, { state, ...message })).toMatchObject({ outcome: 'accepted' })
      })
      expect(await listStatuses()).toEqual([status])
      await expectCompleteJournal(tenant, id)
    })

    it('until the agent returns and continues the deploy', async () => {
      const { tenant, agent, id, work, listStatuses, afterReturn } = await loseListener()
      await afterReturn(async () => {
        agent.cursor = null
        const [again] = (await agent.poll()).changes
        expect(again!.revision).toMatchObject({ id: work.revision!.id, deadline: null })
        expect(await agent.report(again!, { state: 'deploying' })).toMatchObject({ outcome: 'accepted' })
        expect(await listStatuses()).toEqual(['UNKNOWN'])
        await agent.report(again!, { state: 'deployed' })
        const [now] = (await agent.poll()).changes
        expect(now).toMatchObject({ revision: null, serving: { id: work.revision!.id } })
      })
      expect(await listStatuses()).toEqual(['DEPLOYED'])
      const reconciled = await tenant.get(`/v2/deployments?deployment_ids=${id}&remote_reconciled=true`)
      expect(reconciled.body.resources).toHaveLength(1)
      await expectCompleteJournal(tenant, id)
    })

    it('and that stays UNKNOWN if there is a newer revision', async () => {
      const { tenant, agent, id, listStatuses, afterReturn } = await loseListener()
      const { body: newer } = await tenant.post(`/v2/deployments/${id}/revisions`, {})
      await afterReturn(async () => {
        const [now] = (await agent.poll()).changes
        expect(now).toMatchObject({ revision: { id: newer.id }, serving: null })
        await agent.report(now!, { state: 'failed', message: 'It crashed.' })
        expect((await agent.poll()).changes.map(({ revision }) => revision)).toEqual([null])
      })
      expect(await listStatuses()).toEqual(['DEPLOY_FAILED', 'UNKNOWN'])
      await expectCompleteJournal(tenant, id)
    })
  })
})

describe('a deployment whose agent reports', () => {
  beforeAll(deleteOrganizations)

  it('no request for 28 days becomes UNUSED, and READY again with the next request', async () => {
    const { agent, work, readStatus } = await createWork()
    await agent.report(work, { state: 'deployed' })
    const [now] = (await agent.poll()).changes
    const serving = { ...now!, revision: now!.serving }
    const reportRequest = (ahead: number) =>
      withClockAhead(ahead, async () => {
        await agent.poll()
        return agent.report(serving, { state: 'serving', last_request_at: new Date(Date.now() + ahead).toISOString() })
      })
    await reportRequest(UNUSED_AFTER - 60_000)
    await sweep(UNUSED_AFTER + 1000)
    expect(await readStatus()).toBe('READY')
    await withClockAhead(2 * UNUSED_AFTER, () => agent.poll())
    await sweep(2 * UNUSED_AFTER)
    expect(await readStatus()).toBe('UNUSED')
    expect(await reportRequest(2 * UNUSED_AFTER + 1000)).toMatchObject({ outcome: 'accepted' })
    expect(await readStatus()).toBe('READY')
  })

  it('that it is unhealthy is explained with its last error line', async () => {
    const { agent, work, explain } = await createWork()
    await agent.report(work, { state: 'deployed' })
    const [now] = (await agent.poll()).changes
    await agent.report({ ...now!, revision: now!.serving }, { state: 'serving', healthy: false })
    expect((await explain())[0]).toMatchObject({ code: 'unhealthy' })
    const line = (level: string, message: string) => ({ timestamp: new Date().toISOString(), level, message })
    const { status } = await agent.post('/v1/sync/logs', {
      agent_id: agent.agent_id,
      fence: agent.fence,
      kind: 'deploy',
      stream: crypto.randomUUID(),
      from: 0,
      deployment_id: work.deployment_id,
      revision_id: work.revision!.id,
      lines: [line('ERROR', 'Killed: once.'), line('ERROR', 'Killed: out of memory.'), line('INFO', 'Starting')],
    })
    expect(status).toBe(200)
    expect((await explain())[0].detail).toContain('Killed: out of memory.')
  })

  it('no times of requests at all does not become UNUSED', async () => {
    const { agent, work, readStatus } = await createWork()
    await agent.report(work, { state: 'deployed' })
    await withClockAhead(UNUSED_AFTER, () => agent.poll())
    await sweep(UNUSED_AFTER + 1000)
    expect(await readStatus()).toBe('READY')
  })
})
